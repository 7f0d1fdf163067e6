"""`analyze` makes a result from existing scores, without evaluating anything."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt

from asktell._util.threads import undisturbed
from asktell.errors import InvalidArgumentError, InvalidScoresError
from asktell.numerics.arrays import Bools, Floats, Ints, counted
from asktell.numerics.cells import nth_asks
from asktell.numerics.shapes import Float, Int
from asktell.problem.candidates import Candidates
from asktell.problem.checks import LARGEST
from asktell.problem.goals import Goal
from asktell.problem.prompts import AnyPrompt, Prompts
from asktell.problem.words import exact, nearest, short, some
from asktell.record import (
    Decided,
    Engine,
    Failures,
    History,
    Remarked,
    State,
    apply,
)
from asktell.results.checks import ORDER
from asktell.results.entries import quoted
from asktell.results.result import Result
from asktell.selector import Selector, selector_of

Names: TypeAlias = Sequence[str] | Mapping[str, str] | Candidates | None
"""Names of prompts, a mapping from name to text, or candidates. None for positions."""

PROMPT, EXAMPLE, SEGMENT, ERROR = "prompt", "example", "segment", "error"
# A table of evaluations has both, and the id is preferred
_EXAMPLE_IDS = ("example_id", EXAMPLE)
_MOST_NAMED = 3  # prompts in the sentence about missing scores
_ROUNDING = 1e-9  # part of a range: a score that is outside by less counts as its end
_SHAPES = (
    "(K prompts, N examples), (K, N, m) for m metrics, or (K, N, m, R) for R repeated evaluations, with NaN for "
    "missing scores"
)


def analyze(
    scores: Any,
    goal: Goal,
    *,
    prompts: Names = None,
    examples: Sequence[str] | None = None,
    segments: Sequence[str] | None = None,
    baseline: AnyPrompt | None = None,
    inputs: Literal["new", "given"] = "new",
) -> Result:
    """Return the result for existing scores: the best prompt, how sure that is, and how much more data would help.

    Nothing is evaluated. The result is `done`. It is the same result that a selection
    with the method "auto" would have after these evaluations.

        >>> import asktell
        >>> scores = [[1, 1, 0, 1, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0, 1, 0]]
        >>> result = asktell.analyze(scores, asktell.BestFeasible("accuracy"), prompts=["new", "old"], baseline="old")
        >>> result.best.id
        'new'
        >>> result.verdict.headline
        'Keep "old": no prompt is shown to be better.'
        >>> result.comparison.differences["accuracy"].verdict
        'undecided'

    'undecided' means that the difference is not established: its 95% interval, which
    does not depend on a statistical model, includes 0.

    Nobody looked at the scores while they were recorded, so the intervals are for one
    look. They are narrower than those of a selection that is still running. In
    comparisons with the selected prompt, they allow for its selection among all
    prompts.

    Nothing depends on the order of rows or columns. The prompts of a data frame are
    listed in the order of their names, unless you name them in `prompts`.

    Args:
        scores: an array or a data frame (pandas or polars). Scores are in the metric's
            own units, also if less is better: the goal has the direction.

            An array has the shape (K, N), with a row for each prompt and a column for
            each example. With m metrics, it has the shape (K, N, m), with the metrics
            in the order of `goal.metrics`. With R repeated evaluations of each prompt
            on each example, it has the shape (K, N, m, R). Repeated evaluations are
            averaged. NaN is a missing score. If the score of any metric is missing, the
            evaluation is left out.

            A long data frame has a row for each evaluation, and the columns `prompt`,
            `example` (or `example_id`) and one for each metric of the goal. Several
            rows with the same prompt and example are repeated evaluations. It may also
            have the columns `segment` and `error`. A row with an error is an evaluation
            that failed.

            A wide data frame has no column `prompt`. It has a single metric, a row for
            each example, and a column of numbers for each prompt. Columns named
            `example` (or `example_id`) and `segment` are not prompts.
        goal: `BestFeasible(...)` or `ParetoSet(...)`.
        prompts: the names of the K prompts, a mapping from name to text, or
            `asktell.grid(...)`. By default, the names are the positions in the array,
            or the names in the data frame. If you name prompts of a data frame, only
            these are analyzed.
        examples: the ids of the N examples, all different. By default, these are their
            positions. A data frame has its own.
        segments: the label of each example's segment. A data frame can have its own.
        baseline: the name or text of the prompt in use today. The selected prompt is
            compared with it.
        inputs: "new" (default) for statements about new inputs like these examples.
            "given" for statements about exactly these examples. See `Selector`. With
            "given", scores without repeated evaluations count as free of noise, so the
            mean of a prompt that has all scores is known exactly.

    Raises:
        InvalidArgumentError: the shape does not fit, a column is missing or has text,
            or a name is unknown.
        InvalidScoresError: a score is infinite or outside the range of its metric.
    """
    if not isinstance(goal, Goal):
        raise InvalidArgumentError(
            f"goal must be a BestFeasible or a ParetoSet, such as BestFeasible('accuracy'), got {short(goal)}."
        )
    if hasattr(scores, "columns") and hasattr(scores, "__getitem__"):
        if examples is not None:
            raise InvalidArgumentError(
                "A data frame has its own examples. Leave out examples=."
            )
        table = _table_of_frame(scores, goal, prompts, segments)
        if prompts is None:
            table = table.in_order_of_names()
    else:
        table = _table_of_array(scores, goal, prompts, examples, segments)
    return table.selector(goal, baseline, inputs).result()


@final
@dataclass(frozen=True)
class FinishedTable:
    """Existing evaluations of some prompts on N examples, as columns: n evaluations with scores, then f failures.

    Positions count from 0.

    Attributes:
        prompts: as for `Selector`.
        examples: the number of examples, or their ids.
        arms: for each evaluation the position of its prompt, shape (n + f,).
        places: for each evaluation the position of its example, shape (n + f,).
        scores: for each evaluation with scores its scores in the goal's m metrics, in
            the order of `goal.metrics`, shape (n, m). An evaluation with a NaN counts
            as missing.
        reasons: for each failure its reason, f texts.
        segments: for each example the label of its segment, N labels. None without
            segments.
    """

    prompts: Sequence[str] | Mapping[str, str] | Candidates
    examples: int | Sequence[str]
    arms: Ints
    places: Ints
    scores: Float[Floats, "rows metrics"]
    reasons: Sequence[str] = ()
    segments: Sequence[str] | None = None

    def in_order_of_names(self, prompts_too: bool = True) -> "FinishedTable":
        """The same table, with the examples in the order of their ids, and the named prompts in that of their names.

        So no number depends on the order of rows or columns, not even by the draws of
        the posterior. `prompts_too`: False keeps the order of the prompts.
        """
        prompts, arms = self.prompts, self.arms
        if prompts_too and isinstance(prompts, Mapping):
            names, arm_of = _sorted(list(prompts))
            prompts, arms = {name: prompts[name] for name in names}, arm_of[arms]
        examples, places, segments = self.examples, self.places, self.segments
        if not isinstance(examples, int):
            names, place_of = _sorted(list(map(str, examples)))
            if segments is not None:
                by_name = dict(zip(map(str, examples), segments, strict=True))
                segments = [by_name[name] for name in names]
            examples, places = names, place_of[places]
        return FinishedTable(
            prompts, examples, arms, places, self.scores, self.reasons, segments
        )

    @undisturbed
    def selector(
        self,
        goal: Goal,
        baseline: AnyPrompt | None = None,
        inputs: Literal["new", "given"] = "new",
        max_failure_rate: float = 0.5,
        is_noisy: bool = False,
    ) -> Selector:
        """Return a selector that has recorded all evaluations, and is done.

        Args:
            goal: `BestFeasible(...)` or `ParetoSet(...)`, with the metrics of `scores`.
            baseline: id or text of the prompt in use today. None without a baseline.
            inputs: "new" if estimates are about unseen inputs like the examples,
                "given" if they are about exactly these examples.
            max_failure_rate: a prompt is not selected if the share of its evaluations
                that fail is above this value, with a probability of 99%.
            is_noisy: True if another evaluation might give another score, although no
                cell of the table was evaluated twice. With inputs="given", no mean is
                then known exactly.

        Raises:
            InvalidArgumentError: no prompt has a score, or a name is unknown.
            InvalidScoresError: a score is infinite or outside its range.
        """
        table = self.in_order_of_names(prompts_too=False)._without_missing()
        if not len(table.scores):
            raise InvalidArgumentError(
                "There are no scores, because every evaluation lacks at least one of the metrics "
                f"{list(goal.metrics)}. Pass a number for each metric of at least one evaluation."
            )
        named = Prompts.of(table.prompts)
        table._check_range(goal, named)
        _, times = counted(table._cells)
        # The lowest number of evaluations of an evaluated cell
        asks = int(times.min())
        trials = table._trials(asks)
        # Only of given examples can a mean be known exactly.
        is_exact = inputs == "given" and not is_noisy and int(times.max()) == 1
        selector = Selector(
            table.prompts,
            goal,
            int((trials[: len(table.scores)] >= 0).sum()),
            examples=table.examples,
            max_failure_rate=max_failure_rate,
            baseline=baseline,
            repeats=asks if asks > 1 or is_exact else None,
            segments=table.segments,
            inputs=inputs,
        )
        state = table._told(selector.state, trials)
        if holes := table._holes(named.ids):
            state = apply(state, Remarked(ORDER, holes))
        if gone := _no_rivals(state):
            state = apply(state, Decided(0, tuple(gone), plan=()))
        # The budget is spent, so the decision is the last one. It has already computed
        # the statements of the result, so that they are not computed again.
        decided = selector.method.decide(state)
        assert decided.finished
        return selector_of(Engine(named, selector.method, apply(state, decided)))

    @property
    def _n_examples(self) -> int:
        return self.examples if isinstance(self.examples, int) else len(self.examples)

    @property
    def _cells(self) -> Int[Ints, " evaluations"]:
        """The number of each evaluation's cell, a (prompt, example) pair."""
        return self.arms * self._n_examples + self.places

    def _without_missing(self) -> "FinishedTable":
        """The table without evaluations that lack a score. A copy, whose scores may be changed."""
        is_complete = np.asarray(~np.isnan(self.scores).any(axis=1))
        keep = np.append(is_complete, np.ones(len(self.reasons), dtype=bool))
        return replace(
            self,
            arms=self.arms[keep],
            places=self.places[keep],
            scores=self.scores[is_complete],
        )

    def _trials(self, asks: int) -> Int[Ints, " evaluations"]:
        """The trial of each evaluation. -1 for further evaluations of a cell that was evaluated `asks` times."""
        # The evaluations of a cell come one after another, so that they show no drift:
        # their true times are unknown.
        nth = nth_asks(np.arange(len(self.arms)), self._cells)
        order = np.lexsort((nth, self.arms, self.places))
        is_trial = nth[order] < asks
        trials = np.full(len(self.arms), -1, dtype=np.int64)
        trials[order[is_trial]] = np.arange(int(is_trial.sum()))
        return trials

    def _holes(self, ids: Sequence[str | int]) -> str:
        """Sentences about the cells that were never evaluated. Empty if there are none."""
        n_examples = self._n_examples
        cells, _ = counted(self._cells)
        n_missing = n_examples - np.bincount(cells // n_examples, minlength=len(ids))
        if not n_missing.any():
            return ""
        most_first = np.argsort(-n_missing, kind="stable")
        lacking = [int(arm) for arm in most_first if n_missing[arm]]
        first, *rest = lacking[:_MOST_NAMED]
        sentence = f"{quoted(ids[first])} has no score on {n_missing[first]:,} of {n_examples:,} examples"
        sentence += "".join(
            f", {quoted(ids[arm])} on {n_missing[arm]:,}" for arm in rest
        )
        if more := len(lacking) - _MOST_NAMED:
            sentence += f" and {more:,} more prompts on some" if more > 0 else ""
        return (
            f"{sentence}. Prompts are compared on their common examples. This is right only if scores are missing for "
            "reasons unrelated to their values."
        )

    def _check_range(self, goal: Goal, named: Prompts) -> None:
        """Check that scores are finite and in their range. Scores outside by a rounding error are set to its end.

        Raises:
            InvalidScoresError: a score is infinite, too large or outside its range.
        """
        for j, metric in enumerate(goal.metrics):
            column = self.scores[:, j]
            low, high = span = goal.ranges.get(metric, (-LARGEST, LARGEST))
            rounding = _ROUNDING * (high - low) if metric in goal.ranges else 0.0
            if (
                unusual := ~((low - rounding <= column) & (column <= high + rounding))
            ).any():
                row = int(unusual.argmax())
                example = (
                    self.places[row]
                    if isinstance(self.examples, int)
                    else self.examples[self.places[row]]
                )
                name = named.ids[self.arms[row]]
                expected = (
                    f"within its range [{exact(span[0])}, {exact(span[1])}]. Correct the score, or widen the range"
                    if metric in goal.ranges
                    else f"a finite number of at most {LARGEST:g} in size. Use NaN for a missing score"
                )
                raise InvalidScoresError(
                    f"Prompt {short(name)} has the score {column[row]:g} on example "
                    f"{short(example if isinstance(example, str) else int(example))}. The score of {metric!r} must be "
                    f"{expected}."
                )
            np.clip(column, low, high, out=column)

    def _told(self, state: State, trials: Int[Ints, " evaluations"]) -> State:
        """Return the state after all evaluations, in the order of the examples in which statements are proven."""
        n, problem = len(self.scores), replace(state.problem, looks_once=True)
        of_scores, of_failures = slice(None, n), slice(n, None)
        arms, places = self.arms, self.places
        # In the order of trials. Rows without a trial come after the trials of their cell.
        order = np.lexsort(
            (
                np.where(trials[of_scores] < 0, 1, 0),
                arms[of_scores],
                problem.examples.place[places[of_scores]],
            )
        )
        history = History.from_columns(
            trials[of_scores][order],
            arms[of_scores][order],
            places[of_scores][order],
            problem.goal.complete(self.scores[order]),
        )
        no_scores = np.empty((len(self.reasons), 0))
        pulls = History.from_columns(
            trials[of_failures], arms[of_failures], places[of_failures], no_scores
        )
        is_trial = trials >= 0
        return state._replace(
            problem=problem,
            growth=replace(state.growth, origin=problem),
            history=history,
            failures=Failures(pulls, list(self.reasons)),
            plan=state.plan._replace(
                draws=np.bincount(arms[is_trial], minlength=problem.n_arms),
                asked=int(is_trial.sum()),
            ),
            spent=int(is_trial[of_scores].sum()),
        )


def _sorted(names: Sequence[str]) -> tuple[list[str], Ints]:
    """The names in natural order ("v2" before "v10"), and the new position of each."""
    order = sorted(range(len(names)), key=lambda i: _natural(names[i]))
    position = np.empty(len(names), dtype=np.int64)
    position[order] = np.arange(len(names))
    return [names[i] for i in order], position


def _natural(name: str) -> tuple[tuple[tuple[bool, int, str], ...], str]:
    """The key of a natural order: numbers in a name count as numbers."""
    parts = re.split(r"(\d{1,18})", name)
    key = tuple(
        (False, int(part), "") if part.isdecimal() else (True, 0, part)
        for part in parts
        if part
    )
    return key, name


def _no_rivals(state: State) -> list[Any]:
    """Return the departures of prompts that failed too often, or have no score at all."""
    n_told, failures = state.told, state.failures
    departures = []
    for arm in range(state.problem.n_arms):
        if (
            departure := failures.given_up(arm, state.history, state.problem)
        ) is not None:
            departures.append(departure)
        elif not n_told[arm]:
            departures.append(failures.unscored(arm))
    return departures


# Arrays


def _table_of_array(
    scores: Any,
    goal: Goal,
    prompts: Names,
    examples: Sequence[str] | None,
    segments: Sequence[str] | None,
) -> FinishedTable:
    try:
        array = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"scores must be numbers of shape {_SHAPES}, got {short(scores)}."
        ) from error
    m = len(goal.metrics)
    if array.ndim == 2 and m == 1:
        array = array[:, :, None]
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[2] != m or 0 in array.shape:
        raise InvalidArgumentError(
            f"scores must have the shape {_SHAPES}. The goal has m = {m}, in the order {list(goal.metrics)}. Got "
            f"{np.shape(scores)}."
        )
    n_prompts, n_examples, _, n_repeats = array.shape
    named = _named(
        prompts,
        [f"prompt {arm}" for arm in range(n_prompts)] if prompts is None else None,
    )
    if len(named) != n_prompts:
        raise InvalidArgumentError(
            f"The number of prompts is {len(named)}, but `scores` has {n_prompts} rows. Pass one prompt for each row."
        )
    if examples is not None and len(examples) != n_examples:
        raise InvalidArgumentError(
            f"The number of ids of examples is {len(examples)}, but `scores` has {n_examples} columns. Pass one id "
            "for each column."
        )
    arms, places = np.divmod(
        np.repeat(np.arange(n_prompts * n_examples), n_repeats), n_examples
    )
    rows = array.transpose(0, 1, 3, 2).reshape(-1, m)
    return FinishedTable(
        named,
        n_examples if examples is None else examples,
        arms,
        places,
        rows,
        segments=segments,
    )


def _named(
    prompts: Names, otherwise: Sequence[str] | None
) -> Sequence[str] | Mapping[str, str] | Candidates:
    """Return prompts as a selector takes them. A name is the id, and also the text if there is none."""
    if prompts is None:
        return otherwise or []
    if isinstance(prompts, Mapping | Candidates):
        return prompts
    if callable(getattr(prompts, "tolist", None)):  # numpy's, pandas'
        prompts = prompts.tolist()  # type: ignore[attr-defined]
    if (
        isinstance(prompts, str)
        or not isinstance(prompts, Sequence)
        or not all(isinstance(p, str) for p in prompts)
    ):
        raise InvalidArgumentError(
            f"prompts must be names (texts), or a mapping from name to text. Got {short(prompts)}."
        )
    if again := [name for name, times in Counter(prompts).items() if times > 1]:
        raise InvalidArgumentError(
            f"prompts has the name {short(again[0])} more than once. Give each prompt its own name."
        )
    return {str(name): str(name) for name in prompts}


# Data frames


def _table_of_frame(
    frame: Any, goal: Goal, prompts: Names, segments: Sequence[str] | None
) -> FinishedTable:
    columns = [str(name) for name in frame.columns]
    if again := [name for name, times in Counter(columns).items() if times > 1]:
        raise InvalidArgumentError(
            f"The data frame has the column {short(again[0])} more than once. Rename one of these columns."
        )
    if not len(frame):
        raise InvalidArgumentError(
            "The data frame has no rows. Pass a data frame with scores."
        )
    by_name = dict(zip(columns, frame.columns, strict=True))

    def column(name: str) -> npt.NDArray[Any]:
        return np.asarray(frame[by_name[name]].to_numpy())

    example = next(
        (
            name
            for name in _EXAMPLE_IDS
            if name in columns and not _is_empty(column(name)).any()
        ),
        None,
    )
    if PROMPT in columns:
        return _table_of_long(column, columns, goal, prompts, segments, example)
    return _table_of_wide(frame, column, columns, goal, prompts, segments, example)


def _table_of_long(
    column: Any,
    columns: Sequence[str],
    goal: Goal,
    prompts: Names,
    segments: Sequence[str] | None,
    example: str | None,
) -> FinishedTable:
    if segments is not None:
        raise InvalidArgumentError(
            "A long data frame has its segments in the column 'segment'. Leave out segments=, and add this column."
        )
    if example is None:
        raise InvalidArgumentError(
            "A long data frame needs a column 'example' in addition to 'prompt', without empty values. Its columns "
            f"are {columns}."
        )
    scores = np.column_stack(
        [_numbers(column(name), name) for name in _metric_columns(columns, goal)]
    )
    ids, places = _coded(column(example))
    labels = _labels(column(SEGMENT), places, ids) if SEGMENT in columns else None

    # `prompts` may choose some of the prompts, in another order. -1: not chosen
    names, coded = _coded(column(PROMPT))
    named = {name: name for name in names} if prompts is None else _named(prompts, None)
    chosen = list(named.ids if isinstance(named, Candidates) else named)
    if missing := [name for name in chosen if name not in names]:
        raise InvalidArgumentError(
            f"The data frame has no prompt {short(missing[0])}. Its prompts are {some(names)}."
        )
    place_of = np.full(len(names), -1, dtype=np.int64)
    place_of[[names.index(name) for name in chosen]] = np.arange(len(chosen))
    arms = place_of[coded]

    # A row with an error is a failed evaluation
    has_error = np.zeros(len(arms), dtype=bool)
    reasons = list[str]()
    if ERROR in columns:
        errors = column(ERROR)
        has_error = ~_is_empty(errors)
        reasons = [str(error) for error in errors[has_error & (arms >= 0)]]
    rows, failures = (
        np.flatnonzero((arms >= 0) & is_wanted) for is_wanted in (~has_error, has_error)
    )
    order = np.append(rows, failures)
    return FinishedTable(
        named, ids, arms[order], places[order], scores[rows], reasons, labels
    )


def _metric_columns(columns: Sequence[str], goal: Goal) -> list[str]:
    """The columns of the goal's metrics. A metric with the name of another column has the prefix "metric"."""
    metric_columns = []
    for metric in goal.metrics:
        prefixed = f"metric {metric}"
        name = prefixed if prefixed in columns else metric
        if name not in columns:
            raise InvalidArgumentError(
                f"The data frame has no column for the goal's metric {name!r}{nearest(name, columns)}. Its "
                f"columns are {columns}."
            )
        metric_columns.append(name)
    return metric_columns


def _table_of_wide(
    frame: Any,
    column: Any,
    columns: Sequence[str],
    goal: Goal,
    prompts: Names,
    segments: Sequence[str] | None,
    example: str | None,
) -> FinishedTable:
    if len(goal.metrics) != 1:
        raise InvalidArgumentError(
            f"A wide data frame holds a single metric, but the goal has {list(goal.metrics)}. Pass a long data frame, "
            f"with the columns 'prompt', 'example' and one for each metric. The columns of "
            f"this data frame are {columns}."
        )
    candidates = [name for name in columns if name not in (*_EXAMPLE_IDS, SEGMENT)]
    named = (
        _named(prompts, None)
        if prompts is not None
        else {name: name for name in candidates}
    )
    chosen = list(named.ids if isinstance(named, Candidates) else named)
    if missing := [name for name in chosen if name not in columns]:
        raise InvalidArgumentError(
            f"The data frame has no column {short(missing[0])}. Its columns are {some(columns)}."
        )
    if not chosen:
        raise InvalidArgumentError(
            f"The data frame has no column of scores. Its columns are {some(columns)}."
        )
    cure = " Name the columns of scores with prompts=[...]." if prompts is None else ""
    scores = np.stack([_numbers(column(name), name, cure) for name in chosen])
    n_examples = len(frame)
    ids: int | list[str] = n_examples
    places = np.arange(n_examples)
    if example is not None:
        ids, places = _coded(column(example))
    if segments is None and SEGMENT in columns:
        segments = _labels(
            column(SEGMENT),
            places,
            ids if isinstance(ids, list) else list(map(str, range(n_examples))),
        )
    arms = np.repeat(np.arange(len(chosen)), n_examples)
    return FinishedTable(
        named,
        ids,
        arms,
        np.tile(places, len(chosen)),
        scores.reshape(-1, 1),
        segments=segments,
    )


def _coded(values: npt.NDArray[Any]) -> tuple[list[str], Ints]:
    """Return the distinct values as texts, in the order of their first appearance, and the position of each value."""
    texts = [str(value) for value in values.tolist()]
    distinct = list(dict.fromkeys(texts))
    code = {text: i for i, text in enumerate(distinct)}
    return distinct, np.array([code[text] for text in texts], dtype=np.int64)


def _numbers(values: npt.NDArray[Any], name: str, cure: str = "") -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        empty = _is_empty(values)
        try:
            return np.where(empty, np.nan, np.where(empty, np.nan, values)).astype(
                np.float64
            )
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"The column {name!r} must hold numbers ({error}).{cure}"
            ) from error


def _is_empty(values: npt.NDArray[Any]) -> Bools:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    # None, NaN, and pandas' NA and NaT, which compare equal to nothing
    return np.array(
        [value is None or str(value) in ("", "nan", "<NA>", "NaT") for value in values],
        dtype=bool,
    )


def _labels(values: npt.NDArray[Any], places: Ints, ids: Sequence[str]) -> list[str]:
    """Return the label of each example. All rows of an example must have the same."""
    labels: dict[int, str] = {}
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        if labels.setdefault(place, str(value)) != str(value):
            raise InvalidArgumentError(
                f"Example {short(ids[place])} has two segments, {short(labels[place])} and {short(str(value))}. Give "
                "the example one segment."
            )
    return [labels[place] for place in range(len(ids))]
