"""Whether what results state is right: `python -m benchmarks.selection.calibration --tables FOLDER`.

After b evaluations per prompt, what results state is held against the truth: intervals
of 1.96 standard errors of every prompt's mean, the probabilities of all prompts, and,
of pairs, p_better and the intervals of `compare`. Problems are simulated, or random
prompts of recorded tables; the bound is within half a deviation of the second metric's
mean.

The truth is about new inputs: the means that 20 times as many simulated examples have,
or those over the half of a recorded table's examples that the selection does not get.
With `--inputs given` it is the means over the given examples, whose scores are the same
whenever they are evaluated.

Appends a JSON line per run to --output and skips runs that are there. --picture draws
the reliability diagram.
"""

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import asktell
from asktell.errors import BudgetTooSmallError, IncompatibleMethodError
from asktell.numerics.pareto import pareto_mask
from asktell.posterior.of_state import stated
from asktell.problem.examples.examples import INPUTS
from asktell.problem.goals import Goal
from asktell.results.losses import chances
from asktell.simulation.lines import read_lines
from asktell.simulation.replay import play
from benchmarks import problems
from benchmarks.selection import simulated
from benchmarks.selection.run import OUTPUT

Line: TypeAlias = dict[str, Any]
Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

GOALS = ("constrained", "front")
METHODS = ("auto", "uniform", "csr", "csr-sh", "race")
EDGES = np.array(
    [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0]
)
# How many were stated, and how many hold the truth
SHARES = ("estimates", "selected", "compare")
PROBABILITIES = ("optimal", "feasible", "better")  # by bins
AXES = ("source", "goal", "method", "arms", "per_prompt", "inputs")
_PAIRS = 6  # of prompts that are compared in a run, at most
_FEATURES = 4
_ROUNDING = 1e-9


class Table(NamedTuple):
    """Scores (K, N, 2) on the given examples, features (K, d), means (K, 2) on new examples, and the goal."""

    cells: Array
    features: Array
    beyond: Array
    goal: Goal


def simulated_table(
    kind: str, goal: str, n_arms: int, seed: int, n_examples: int
) -> Table:
    """Prompts whose features tell half of what they differ by."""
    # The rest stands for new examples
    drawn, _ = simulated.table(kind, n_arms, "front", 20 * n_examples, seed)
    cells = drawn[:, :n_examples]
    rng = np.random.default_rng([seed, n_arms])
    features = rng.normal(size=(n_arms, _FEATURES))
    effect = drawn[:, :, 0].mean(axis=1)
    features[:, 0] += (effect - effect.mean()) / (effect.std() or 1.0)
    bound = cells[:, :, 1].mean() + 0.5 * rng.normal() * (cells[:, :, 1].std() or 0.05)
    return Table(cells, features, drawn.mean(axis=1), _goal(goal, ("a", "b"), bound))


def recorded_table(
    name: str, goal: str, n_arms: int, seed: int, folder: Path | None
) -> Table:
    """Random prompts of a recorded table; one half of its examples, chosen by chance, is new."""
    table = problems.load(name, problems.PARETO, folder).table
    rng = np.random.default_rng([seed, n_arms])
    some = np.sort(rng.permutation(len(table.prompts))[:n_arms])
    scores = table.scores[some, :, :2]
    means = scores[:, :, 1].mean(axis=1)
    features = (
        rng.normal(size=(len(some), _FEATURES))
        if table.features is None
        else table.features[some]
    )
    bound = means.mean() + 0.5 * rng.normal() * means.std()
    old, new = np.array_split(rng.permutation(scores.shape[1]), 2)
    return Table(
        scores[:, old],
        features,
        scores[:, new].mean(axis=1),
        _goal(goal, table.metrics[:2], bound),
    )


def _goal(goal: str, metrics: Sequence[str], bound: float) -> Goal:
    first, second = metrics
    return (
        asktell.ParetoSet(first, second)
        if goal == "front"
        else asktell.BestFeasible(first, {second: float(bound)})
    )


def measure(
    table: Table, method: str, per_prompt: float, seed: int, inputs: str = "new"
) -> Line:
    """What one run stated, against the truth; `refused` if the method is not for the problem."""
    is_new = inputs == "new"
    cells, goal = table.cells, table.goal
    n_arms, n_examples, _ = cells.shape
    prompts, budget = [f"p{i}" for i in range(n_arms)], round(per_prompt * n_arms)
    try:
        selector = asktell.Selector(
            prompts, goal, budget, method, n_examples, None if method in METHODS else table.features, seed=seed,
            inputs="new" if is_new else "given", repeats=None if is_new else 1,
        )  # fmt: skip
    except (IncompatibleMethodError, BudgetTooSmallError) as error:
        return {"refused": str(error)}
    result = play(selector, cells)
    truth = table.beyond if is_new else cells.mean(axis=1)
    line: Line = {name: [0, 0] for name in SHARES}
    chosen = {entry.id for entry in result.selected}
    for arm, entry in enumerate(result.prompts):
        for j, metric in enumerate(goal.metrics):
            mean, error = entry.estimate[metric], entry.standard_error[metric]
            if mean is None or error is None:
                continue
            held = abs(mean - truth[arm, j]) <= 1.96 * error + _ROUNDING
            _count(line["estimates"], held)
            if entry.id in chosen:
                _count(line["selected"], held)
    best, feasible = _truth(goal, truth)
    statement = stated(selector.state)
    likely = None if statement is None else chances(selector.state, statement)
    if likely is not None:
        line["optimal"] = binned(likely.p_best, best)
        if likely.p_feasible is not None:
            line["feasible"] = binned(likely.p_feasible, feasible)
    ahead: list[tuple[float, bool]] = []
    rng = np.random.default_rng([seed, 1])
    for _ in range(min(_PAIRS, n_arms * (n_arms - 1) // 2)):
        a, b = rng.choice(n_arms, 2, replace=False).tolist()
        # So that each interval is one of 95 %
        confidence = 1 - 0.05 * len(goal.metrics)
        for j, difference in enumerate(
            result.compare(a, b, confidence).differences.values()
        ):
            true = float(truth[a, j] - truth[b, j])
            low, high = difference.low, difference.high
            _count(
                line["compare"],
                (low is None or low <= true + 1e-9)
                and (high is None or true - 1e-9 <= high),
            )
            if abs(true) > _ROUNDING:
                ahead.append((difference.p_better, true > 0))
    line["better"] = binned(
        np.array([p for p, _ in ahead]), np.array([is_ for _, is_ in ahead], dtype=bool)
    )
    return line


def _count(held: list[int], is_held: object) -> None:
    held[0] += 1
    held[1] += bool(is_held)


def _truth(goal: Goal, means: Array) -> tuple[Mask, Mask]:
    """(K,) who is the best feasible prompt, which may be nobody, or in the Pareto set; and who is feasible."""
    if isinstance(goal, asktell.ParetoSet):
        return pareto_mask(goal.values(means)), np.ones(len(means), dtype=bool)
    values = goal.values(means)
    feasible = (values[:, 1:] >= 0).all(axis=1)
    objective = np.where(feasible, values[:, 0], -np.inf)
    return np.asarray(feasible & (objective == objective.max())), np.asarray(feasible)


def binned(probabilities: Array, truth: Mask) -> list[list[float]]:
    """Per bin of EDGES: how many, the sum of their probabilities, how many are true."""
    places = np.clip(
        np.searchsorted(EDGES, probabilities, side="right") - 1, 0, len(EDGES) - 2
    )
    size = len(EDGES) - 1
    sums = [
        np.bincount(places, weights, size)
        for weights in (None, probabilities, truth.astype(float))
    ]
    return np.stack(sums, axis=1).round(6).tolist()


def table(lines: Sequence[Line], by: Sequence[str]) -> str:
    """A row per combination of `by`, with a number per budget b in every cell.

    "Within" is how many of the 95 % intervals hold the truth, in per cent; `*` if that
    is further from 95 than chance explains (two standard errors over runs). "Off" is
    the mean distance of the stated from the true probabilities over bins, in per cent;
    `*` if it is more than twice what chance would make of right probabilities.
    """
    rows = [
        f"| {' | '.join(by)} | runs | within | selected | compare | P(best) off | P(feasible) off | p_better off |",
        "|" + (len(by) + 7) * "---|",
    ]
    lines = [line for line in lines if "refused" not in line]
    budgets = sorted({line["per_prompt"] for line in lines})
    for cell in sorted(
        {tuple(line[name] for name in by) for line in lines}, key=_place
    ):
        mine = [
            [x for x in lines if (*(x[n] for n in by), x["per_prompt"]) == (*cell, b)]
            for b in budgets
        ]
        mine = [some for some in mine if some]
        cells = [
            " / ".join(_within([line[name] for line in some]) for some in mine)
            for name in SHARES
        ]
        cells += [
            " / ".join(_off([x[name] for x in some if name in x]) for some in mine)
            for name in PROBABILITIES
        ]
        rows.append(f"| {' | '.join(map(str, cell))} | {' / '.join(str(len(some)) for some in mine)} | "
                    f"{' | '.join(c if c.strip(' /') else '' for c in cells)} |")  # fmt: skip
    return "\n".join(rows)


def _place(cell: tuple[Any, ...]) -> tuple[Any, ...]:
    order = [*METHODS, *simulated.KINDS]
    return tuple(
        (order.index(x) if x in order else len(order), str(x))
        if isinstance(x, str)
        else (x,)
        for x in cell
    )


def _within(runs: Sequence[list[int]]) -> str:
    count, held = np.array(runs, dtype=float).T
    if not count.sum():
        return ""
    share = held.sum() / count.sum()
    error = (
        np.sqrt(((held - share * count) ** 2).sum() + 0.05 * 0.95 * count.mean())
        / count.sum()
    )
    return f"{100 * share:.0f}{'*' if abs(share - 0.95) > max(2 * error, 0.01) else ''}"


def _off(runs: Sequence[Any]) -> str:
    if not runs:
        return ""
    bins = np.array(runs, dtype=float)  # (R, bins, 3)
    count = bins[:, :, 0].sum()
    if not count:
        return ""
    lead = bins[:, :, 1] - bins[:, :, 2]
    off = np.abs(lead.sum(axis=0)).sum() / count
    by_chance = np.sqrt(2 / np.pi * (lead**2).sum(axis=0)).sum() / count
    return f"{100 * off:.0f}{'*' if off > max(2 * by_chance, 0.01) else ''}"


def draw(lines: Sequence[Line], path: Path) -> None:
    """The reliability diagram of `auto`: what was true of what was stated, with its 95 % interval over runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    asked = (
        ("feasible", GOALS[0], "P(feasible)"),
        ("optimal", GOALS[0], "P(best feasible)"),
    )
    for ax, (name, goal, title) in zip(
        panels, (*asked, ("optimal", GOALS[1], "P(in the Pareto set)")), strict=True
    ):
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        for label, marker in (("simulated", "s"), ("recorded", "o")):
            of_source = [
                x
                for x in lines
                if (x["source"] in simulated.KINDS) == (label == "simulated")
            ]
            mine = [
                x
                for x in of_source
                if (x["goal"], x["method"]) == (goal, "auto") and name in x
            ]
            if mine:
                _reliability(ax, np.array([line[name] for line in mine]), label, marker)
        ax.set(title=title, xlabel="stated", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    panels[0].set_ylabel("true")
    if panels[0].get_legend_handles_labels()[0]:
        panels[0].legend(fontsize=7, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90, metadata={"Software": None})


def _reliability(ax: Any, runs: Array, label: str, marker: str) -> None:
    """`runs` (R, bins, 3); bins with fewer than 20 statements are left out."""
    rng = np.random.default_rng(0)
    again = runs[rng.integers(0, len(runs), (400, len(runs)))].sum(axis=1)
    total = runs.sum(axis=0)
    keep = total[:, 0] >= 20
    if not keep.any():
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = again[:, keep, 2] / again[:, keep, 0]
    middle = total[keep, 2] / total[keep, 0]
    low, high = np.nanquantile(shares, [0.025, 0.975], axis=0)
    errors = np.maximum(0.0, [middle - low, high - middle])
    stated = total[keep, 1] / total[keep, 0]
    ax.errorbar(
        stated,
        middle,
        errors,
        fmt=f"-{marker}",
        markersize=3,
        linewidth=1,
        elinewidth=0.7,
        label=label,
    )


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        help="folder of recorded tables: these instead of simulated ones",
    )
    parser.add_argument(
        "--sources",
        nargs="+",
        help="kinds of scores, or names or beginnings of names of tables",
    )
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=GOALS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--prompts", nargs="+", type=int, default=[2, 3, 5, 10, 20, 50])
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[1, 3, 10])
    parser.add_argument("--examples", type=int, default=100, help="of simulated tables")
    parser.add_argument(
        "--inputs",
        choices=INPUTS,
        default="new",
        help="which means statements and truth are about",
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--minutes",
        type=float,
        help="start no run after so long; what is there is printed",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT / "calibration.jsonl")
    parser.add_argument(
        "--by", nargs="+", choices=AXES[:4], default=["method", "source", "arms"]
    )
    parser.add_argument(
        "--picture", type=Path, help="file to draw the reliability diagram into"
    )
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    every = (
        problems.replay.replay_names(args.tables)
        if args.tables
        else list(simulated.KINDS)
    )
    sources = [
        name
        for name in every
        if not args.sources or name.startswith(tuple(args.sources))
    ]
    lines = {_key(line): line for line in read_lines(args.output)}
    cells = list(
        product(
            sources,
            args.goals,
            args.methods,
            args.prompts,
            args.per_prompt,
            [args.inputs],
        )
    )
    wanted = [(*cell, seed) for seed in range(args.seeds) for cell in cells]
    end = np.inf if args.minutes is None else time.monotonic() + 60 * args.minutes
    with args.output.open("a") as file:
        for task in tqdm(
            [task for task in wanted if task not in lines], unit="run", mininterval=20
        ):
            if time.monotonic() > end:
                break
            source, goal, method, arms, per_prompt, inputs, seed = task
            if args.tables:
                problem = recorded_table(source, goal, arms, seed, args.tables)
            else:
                problem = simulated_table(source, goal, arms, seed, args.examples)
            measured = measure(problem, _name(method, goal), per_prompt, seed, inputs)
            lines[task] = {**dict(zip((*AXES, "seed"), task, strict=True)), **measured}
            file.write(json.dumps(lines[task]) + "\n")
            file.flush()
    there = [lines[task] for task in wanted if task in lines]
    print(table(there, args.by))
    if args.picture:
        draw(there, args.picture)


def _name(method: str, goal: str) -> str:
    """The preset of a method for a goal; those for the best feasible prompt have one for fronts in their place."""
    for_fronts = {
        "csr": "ege-sr",
        "csr-sh": "ege-sh",
        "mlp-csr": "mlp-ege",
        "lcsh": "gege",
    }
    return for_fronts.get(method, method) if goal == "front" else method


def _key(line: Line) -> tuple[Any, ...]:
    return (*(line[name] for name in AXES), line["seed"])


if __name__ == "__main__":
    main()
