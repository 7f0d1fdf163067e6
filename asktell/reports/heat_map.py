"""Pictures of prompts x examples and of the spending, binned to the size of a screen."""

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Cells
from asktell.problem.goals import Goal
from asktell.problem.metric_names import is_expense
from asktell.record import State
from asktell.results.difference import wins_and_losses
from asktell.results.examples import ExampleResult
from asktell.results.result import Result

MOST_CELLS = 400_000  # bytes of pictures of all metrics together
_MOST_SIDE = 500
_MOST_STEPS = 200
_MOST_LINES = 400
_EXAMPLES_LISTED = 200
_MOST_REASON = 300
# Evaluated prompts from which the report has a conclusion about an example
_FEWEST_PROMPTS = 3


class Grid:
    """Mean scores of the n evaluated cells.

    Attributes:
        problem: the problem.
        arms: (n,) the arm of each cell.
        examples: (n,) the example of each cell.
        scores: (n, m) the mean scores, in metric units.
        counts: (n,) the number of scores of each cell.
    """

    def __init__(self, state: State) -> None:
        history, self.problem = state.history, state.problem
        scored = history.examples() >= 0
        rows = (
            history.arms()[scored],
            history.examples()[scored],
            history.scores()[scored],
        )
        self.arms, self.examples, self.scores, self.counts, *_ = Cells.of(
            *rows, self.problem.examples.n or 1
        )

    def effects(self, metric: int) -> Floats:
        """(N,) the mean score of each example above the means of its prompts. NaN if it was not evaluated."""
        scores, n = self.scores[:, metric], self.problem.examples.n or 0
        rows = np.bincount(self.arms, scores) / np.maximum(np.bincount(self.arms), 1)
        counts = np.bincount(self.examples, minlength=n)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(
                np.bincount(self.examples, scores - rows[self.arms], minlength=n)
                / counts
            )


def heat_map(grid: Grid, order: Ints) -> dict[str, Any] | None:
    """The scores of each metric as bytes, from 1 (lowest) to 255 (highest). 0 is a cell that was not evaluated.

    Rows are prompts in the given `order`, and columns are examples, the hardest first.
    A picture larger than a screen is binned: neighboring cells are averaged over the
    evaluated ones. None without examples.
    """
    problem = grid.problem
    if problem.examples.n is None or not len(grid.arms):
        return None
    goal, n_metrics = problem.goal, len(problem.goal.columns)
    side = min(_MOST_SIDE, int((MOST_CELLS / n_metrics) ** 0.5))
    first = goal.columns.index(goal.objectives[0].metric)
    effects = grid.effects(first)
    seen = np.flatnonzero(~np.isnan(effects))
    columns = seen[np.argsort(goal.objectives[0].sign * effects[seen], kind="stable")]
    row_of, row_starts = _bins(order, problem.n_arms, side)
    column_of, column_starts = _bins(columns, problem.examples.n, side)
    shape = len(row_starts), len(column_starts)
    cells = row_of[grid.arms] * shape[1] + column_of[grid.examples]
    counts = np.bincount(cells, minlength=shape[0] * shape[1])
    pictures = []
    for j, metric in enumerate(goal.columns):
        values = grid.scores[:, j]
        low, high = goal.ranges.get(metric) or (
            float(values.min()),
            float(values.max()),
        )
        means = np.bincount(cells, values, minlength=len(counts)) / np.maximum(
            counts, 1
        )
        part = (means - low) / (high - low) if high > low else np.full(len(means), 0.5)
        levels = np.where(
            counts > 0, 1 + np.clip(np.rint(part * 254), 0, 254), 0
        ).astype(np.uint8)
        pictures.append(
            {"metric": metric, "low": low, "high": high, "bytes": _text(levels)}
        )
    return {
        "rows": order.tolist(),
        "row_starts": row_starts,
        "columns": columns.tolist(),
        "column_starts": column_starts,
        "binned": shape != (len(order), len(columns)),
        "seen": len(grid.arms),
        "all": problem.n_arms * problem.examples.n,
        "pictures": pictures,
    }


def discriminating_examples(grid: Grid, result: Result) -> dict[str, Any] | None:
    """The examples that discriminate between prompts or look wrong, by the first objective. None without examples.

    The list has up to 200 examples with the largest spread, which is the standard
    deviation of the prompts' scores. It also has up to 200 examples of each suspicious
    kind: probably mislabeled, near duplicates, and examples on which all prompts fail.
    All prompts fail on an example if its best score is the lowest score of all, or is
    below the mean of all scores by more than their standard deviation.
    """
    problem = grid.problem
    if problem.examples.n is None or not len(grid.arms):
        return None
    examples = result.examples()
    objective = problem.goal.objectives[0]
    metric = problem.goal.columns.index(objective.metric)
    enough = np.array(
        [
            example.prompts >= min(_FEWEST_PROMPTS, problem.n_arms)
            for example in examples
        ]
    )
    signed = objective.sign * grid.scores[:, metric]
    best = np.full(problem.examples.n, -np.inf)
    np.maximum.at(best, grid.examples, signed)
    bar = max(float(signed.mean() - signed.std()), float(signed.min()))
    failed = enough & (best <= bar) & (bar < signed.mean())
    spread = _spread(grid, metric, examples)
    wrong = np.array([example.likely_mislabeled for example in examples])
    copied = np.array([bool(example.near_duplicates) for example in examples])
    # By the last key first
    ranked = np.lexsort((-spread, ~failed, ~copied, ~wrong, ~enough))
    of_each_kind = [
        ranked[kind[ranked]][:_EXAMPLES_LISTED] for kind in (wrong, copied, failed)
    ]
    by_spread = np.lexsort((-spread, ~enough))[
        : min(_EXAMPLES_LISTED, int(enough.sum()))
    ]
    listed = np.unique(np.concatenate((by_spread, *of_each_kind)))
    listed = listed[np.argsort(-spread[listed], kind="stable")].tolist()
    shape, earlier = problem.examples.shapes[metric], None
    if shape is not None:
        # The share of the evaluated cells that is on the most informative fifth of the
        # examples
        most = np.argsort(-shape.informativeness, kind="stable")[
            : max(1, len(shape.informativeness) // 5)
        ]
        share = float(np.isin(grid.examples, most).mean())
        known = problem.examples.profile
        earlier = {
            "studies": known.studies if known else 0,
            "share": share,
        }
    place = {example.id: e for e, example in enumerate(examples)}
    return {
        "earlier": earlier,
        "metric": objective.metric,
        "judged": int(enough.sum()),
        "failed": int(failed.sum()),
        "same": sum(
            example.separates_nobody
            for example, is_judged in zip(examples, enough, strict=True)
            if is_judged
        ),
        "mislabeled": int(wrong.sum()),
        "duplicates": int(copied.sum()),
        "rows": [
            {
                "example": e,
                "prompts": examples[e].prompts,
                "mean": examples[e].mean,
                "spread": float(spread[e]),
                "difficulty": examples[e].difficulty,
                "discrimination": examples[e].discrimination,
                "error": examples[e].standard_error,
                "failed": bool(failed[e]),
                "mislabeled": examples[e].likely_mislabeled,
                "duplicates": [
                    place[duplicate] for duplicate in examples[e].near_duplicates
                ],
                "earlier": None if shape is None else float(shape.informativeness[e]),
            }
            for e in listed
        ],
    }


def _spread(grid: Grid, metric: int, examples: Sequence[ExampleResult]) -> Floats:
    """(N,) the standard deviation of the prompts' scores on each example. 0 if all scores are equal, or none exists."""
    values, n_examples = grid.scores[:, metric], len(examples)
    counts = np.maximum(np.bincount(grid.examples, minlength=n_examples), 1)
    mean = np.bincount(grid.examples, values, n_examples) / counts
    squares = np.bincount(
        grid.examples, (values - mean[grid.examples]) ** 2, n_examples
    )
    is_same = np.array([example.separates_nobody for example in examples])
    # Equal scores have a spread of exactly 0, whatever the rounding of their mean
    return np.asarray(np.where(is_same, 0.0, np.sqrt(squares / counts)))


def spending(state: State, order: Ints) -> dict[str, Any]:
    """The evaluations of each prompt in each stretch of the run, as bytes, and the decisions.

    The bytes are counts relative to the largest count: 0 is none and 255 is the most.
    """
    arms = state.history.arms()
    n_steps = max(1, min(_MOST_STEPS, len(arms)))
    row_of, row_starts = _bins(order, state.problem.n_arms, _MOST_LINES)
    step = np.arange(len(arms)) * n_steps // max(1, len(arms))
    counts = np.bincount(
        row_of[arms] * n_steps + step, minlength=len(row_starts) * n_steps
    )
    most = int(counts.max(initial=0))
    levels = np.where(
        counts > 0, np.maximum(1, np.rint(counts * 255 / max(most, 1))), 0
    ).astype(np.uint8)
    return {
        "rows": order.tolist(),
        "row_starts": row_starts,
        "steps": n_steps,
        "evaluations": len(arms),
        "most": most,
        "bytes": _text(levels),
        "decisions": _decisions(state),
        "left_otherwise": [
            {
                "prompt": arm,
                "status": left.status,
                "reason": left.reason[:_MOST_REASON],
                "round": number,
            }
            for arm, (number, left) in sorted(state.left.items())
            if left.status in ("failed", "retired")
        ],
    }


def _decisions(state: State) -> list[dict[str, Any]]:
    """The decisions that eliminated prompts, the first and the last, each with the number of others before it."""
    shown: list[dict[str, Any]] = []
    between, last = 0, len(state.decisions) - 1
    for number, (rows, decided) in enumerate(state.decisions):
        if not decided.departures and number not in (0, last):
            between += 1
            continue
        left = [
            {"prompt": d.arm, "status": d.status, "reason": d.reason[:_MOST_REASON]}
            for d in decided.departures
        ]
        shown.append({
            "round": decided.round, "after": rows, "skipped": between, "finished": decided.finished,
            "settled": decided.settled, "planned": None if decided.plan is None else len(decided.plan), "left": left,
        })  # fmt: skip
        between = 0
    return shown


def _bins(order: Ints, n: int, most: int) -> tuple[Ints, list[int]]:
    """(n,) the bin of each number, -1 outside the order, and the place in the order where each bin starts."""
    n_bins = min(most, len(order))
    bin_of = np.full(n, -1, dtype=np.int64)
    bins = np.arange(len(order)) * n_bins // max(1, len(order))
    bin_of[order] = bins
    return bin_of, np.searchsorted(bins, np.arange(n_bins)).tolist()


def _text(levels: "np.ndarray[Any, np.dtype[np.uint8]]") -> str:
    return base64.b64encode(levels.tobytes()).decode("ascii")


def compared_metric(goal: Goal) -> int:
    """The column in which prompts are compared example by example: the first objective, or else a metric of quality.

    An amount that is spent, such as a cost, differs on every example and breaks none.
    """
    objectives = [goal.columns.index(objective.metric) for objective in goal.objectives]
    rest = [j for j in range(len(goal.metrics)) if j not in objectives]
    scored = [j for j in objectives + rest if not is_expense(goal.columns[j])]
    return (scored or objectives)[0]


class Duel(NamedTuple):
    """Two prompts on the n examples that both have scores on.

    Attributes:
        examples: (n,) the examples, ascending.
        a: (n, m) the mean scores of the first prompt, in metric units.
        b: (n, m) those of the second.
        ahead: (n, m) 1 where the first scored better, -1 where worse, 0 where they tie.
        signs: (m,) 1 where larger scores are better, else -1.
    """

    examples: Ints
    a: Floats
    b: Floats
    ahead: Ints
    signs: Floats

    @classmethod
    def of(cls, grid: Grid, a: int, b: int) -> "Duel":
        """Compare two arms."""
        goal = grid.problem.goal
        rows_a, rows_b = (np.flatnonzero(grid.arms == arm) for arm in (a, b))
        examples, of_a, of_b = np.intersect1d(
            grid.examples[rows_a],
            grid.examples[rows_b],
            assume_unique=True,
            return_indices=True,
        )
        scores_a, scores_b = grid.scores[rows_a[of_a]], grid.scores[rows_b[of_b]]
        minimized = [metric in goal.minimized for metric in goal.columns]
        ahead = [
            wins_and_losses(scores_a[:, j], scores_b[:, j], is_less)
            for j, is_less in enumerate(minimized)
        ]
        signs = np.where(minimized, -1.0, 1.0)
        return cls(examples, scores_a, scores_b, np.stack(ahead, axis=1), signs)

    def order(self, column: int) -> Ints:
        """The rows, the worst for the first prompt first. Differences by rounding do not count."""
        gaps = (self.a[:, column] - self.b[:, column]) * self.signs[column]
        return np.argsort(np.where(self.ahead[:, column], gaps, 0.0), kind="stable")
