"""The scores told so far, as columns that only ever grow.

States that follow from one another share the same columns, and each sees only its own first rows. So appending
costs O(m) and copies nothing, yet every earlier state stays what it was: appending to one that is no longer the
newest copies its rows first.
"""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Counts, Indices, Matrix, Means
from asktell.numerics.cached import Memo
from asktell.numerics.cells import Scored, nth_asks
from asktell.state.events import Failure, Pull
from asktell.state.problem import Problem

_NOT_TOLD = -1


@dataclass(eq=False)
class _Columns:
    n_metrics: int
    trials: "array[int]" = field(default_factory=lambda: array("q"))  # -1: observed elsewhere
    arms: "array[int]" = field(default_factory=lambda: array("q"))
    examples: "array[int]" = field(default_factory=lambda: array("q"))  # -1: none
    scores: "array[float]" = field(default_factory=lambda: array("d"))  # n_metrics per row
    row_of: "array[int]" = field(default_factory=lambda: array("q"))  # by trial
    rows_of: dict[int, "array[int]"] = field(default_factory=dict)  # by arm, those of trials; ascending

    def head(self, n: int) -> "_Columns":
        rows = array("q", [r if r < n else _NOT_TOLD for r in self.row_of])
        m = self.n_metrics
        of_arms = {arm: own[: bisect_left(own, n)] for arm, own in self.rows_of.items() if own[0] < n}
        return _Columns(m, self.trials[:n], self.arms[:n], self.examples[:n], self.scores[: n * m], rows, of_arms)


class History:
    """Rows of (trial, arm, example, scores); immutable."""

    __slots__ = ("_columns", "_length", "memo")

    def __init__(self, n_metrics: int) -> None:
        self._columns = _Columns(n_metrics)
        self._length = 0
        self.memo = Memo()  # of what follows from these rows

    def __len__(self) -> int:
        return self._length

    def append(self, trial: int | None, arm: int, example: int | None, scores: tuple[float, ...]) -> "History":
        """The history with one more row; `trial` None for a score observed elsewhere."""
        columns = self._columns
        if len(columns.arms) != self._length:
            columns = columns.head(self._length)
        columns.arms.append(arm)  # first, so that who is interrupted here leaves columns that are not appended to again
        if trial is not None:
            row_of = columns.row_of
            while len(row_of) <= trial:
                row_of.append(_NOT_TOLD)
            row_of[trial] = self._length
            if arm not in columns.rows_of:
                columns.rows_of[arm] = array("q")
            columns.rows_of[arm].append(self._length)
        columns.trials.append(_NOT_TOLD if trial is None else trial)
        columns.examples.append(_NOT_TOLD if example is None else example)
        columns.scores.extend(scores)
        grown = History.__new__(History)
        grown._columns, grown._length, grown.memo = columns, self._length + 1, Memo()
        return grown

    def n_asked(self, arm: int) -> int:
        """How many rows of an arm are of trials; the others were observed elsewhere."""
        rows = self._columns.rows_of.get(arm)
        return 0 if rows is None else bisect_left(rows, self._length)

    def scores_of(self, trial: int) -> tuple[float, ...] | None:
        """The scores that were told for a trial, None if none were."""
        row, m = self._row_of(trial), self._columns.n_metrics
        return None if row is None else tuple(self._columns.scores[row * m : (row + 1) * m])

    def pull_of(self, trial: int) -> tuple[int, int | None] | None:
        """The arm and the example of a trial that was told, None if it was not."""
        row = self._row_of(trial)
        if row is None:
            return None
        example = self._columns.examples[row]
        return self._columns.arms[row], None if example == _NOT_TOLD else example

    def _row_of(self, trial: int) -> int | None:
        rows = self._columns.row_of
        row = rows[trial] if 0 <= trial < len(rows) else _NOT_TOLD
        return None if row == _NOT_TOLD or row >= self._length else row

    def trials(self, start: int = 0) -> Indices:
        """(n,) trial ids of the rows from `start` on, -1 for observed ones."""
        return np.array(self._columns.trials[start : self._length], dtype=np.int64)

    def arms(self, start: int = 0) -> Indices:
        """(n,) arms of the rows from `start` on."""
        return np.array(self._columns.arms[start : self._length], dtype=np.int64)

    def examples(self, start: int = 0) -> Indices:
        """(n,) examples of the rows from `start` on, -1 for none."""
        return np.array(self._columns.examples[start : self._length], dtype=np.int64)

    def scores(self, start: int = 0) -> Means:
        """(n, m) scores of the rows from `start` on, in metric units."""
        m = self._columns.n_metrics
        rows = np.array(self._columns.scores[start * m : self._length * m], dtype=np.float64)
        return rows.reshape(-1, m)

    def in_asked_order(self, start: int = 0) -> tuple[Indices, Means]:
        """Arms and scores of the rows from `start` on, observed ones first, then by trial.

        What is computed from rows in this order does not depend on the order in which answers came in.
        """
        order = np.argsort(self.trials(start), kind="stable")
        return self.arms(start)[order], self.scores(start)[order]

    def copy(self) -> "History":
        """The same rows, shared with nobody."""
        return self.from_columns(self.trials(), self.arms(), self.examples(), self.scores())

    @classmethod
    def from_columns(cls, trials: Indices, arms: Indices, examples: Indices, scores: Means) -> "History":
        """The history in whole columns, as they were saved."""
        history = cls(scores.shape[1])
        columns = history._columns
        columns.trials.frombytes(np.ascontiguousarray(trials, dtype=np.int64).tobytes())
        columns.arms.frombytes(np.ascontiguousarray(arms, dtype=np.int64).tobytes())
        columns.examples.frombytes(np.ascontiguousarray(examples, dtype=np.int64).tobytes())
        columns.scores.frombytes(np.ascontiguousarray(scores, dtype=np.float64).tobytes())
        row_of = np.full(int(trials.max(initial=-1)) + 1, _NOT_TOLD, dtype=np.int64)
        told = np.flatnonzero(trials >= 0)
        row_of[trials[told]] = told
        columns.row_of.frombytes(row_of.tobytes())
        history._length = len(trials)
        by_arm = told[np.argsort(arms[told], kind="stable")]
        ends = np.flatnonzero(np.diff(arms[by_arm])) + 1
        for rows in np.split(by_arm, ends) if len(told) else []:
            columns.rows_of[int(arms[rows[0]])] = array("q", rows.tolist())
        return history


@dataclass(frozen=True, eq=False)
class Failures:
    """The failed evaluations, oldest first: their pulls, as rows without scores, and reasons, which only grow."""

    pulls: History = field(default_factory=lambda: History(0))
    _reasons: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.pulls)

    def __iter__(self) -> Iterator[Failure]:
        pulls = (column.tolist() for column in (self.pulls.trials(), self.pulls.arms(), self.pulls.examples()))
        for trial, arm, example, reason in zip(*pulls, self.reasons(), strict=True):
            yield Failure(trial, arm, None if example < 0 else example, reason)

    def append(self, failure: Failure) -> "Failures":
        """The failures with one more."""
        reasons = self._reasons if len(self._reasons) == len(self) else self._reasons[: len(self)]
        reasons.append(failure.reason)
        return Failures(self.pulls.append(*failure[:3], ()), reasons)

    @property
    def key(self) -> Hashable:
        """A key for what follows from them: equal for the same failures, and for none."""
        return self.pulls if len(self) else None

    def count(self, arm: int) -> int:
        """How many are an arm's."""
        return self.pulls.n_asked(arm)

    def per_arm(self, n_arms: int) -> Counts:
        """(K,) how many are each arm's."""
        return np.bincount(self.pulls.arms(), minlength=n_arms)

    def arms(self) -> list[int]:
        """The arms that have any, ascending."""
        return sorted(set(self.pulls.arms().tolist()))

    def __contains__(self, trial: object) -> bool:
        return isinstance(trial, int) and self.pulls.pull_of(trial) is not None

    def reasons(self, start: int = 0) -> list[str]:
        """Why they failed, from the `start`-th failure on."""
        return self._reasons[start : len(self)]

    def last(self, arm: int) -> str:
        """The reason of an arm's last failure; it must have one."""
        return self._reasons[int(np.flatnonzero(self.pulls.arms() == arm)[-1])]


_LATEST = 2**62


def turns(problem: Problem, missing: Failures, trials: Indices, arms: Indices, examples: Indices) -> Indices:
    """(n,) where each row of scores, of which each has an example, stands in the order of all pulls of its arm.

    Of a cell that was asked several times the first score or failure stands in the first round, the second in the
    second, and so on; without rounds they all stand at the example's place.
    """
    place = problem.place[examples]
    if problem.repeats == 1:
        return place
    n_examples = len(problem.order)
    real = missing.pulls.examples() >= 0
    failed = missing.pulls.arms()[real] * n_examples + missing.pulls.examples()[real]
    cells = np.concatenate((arms * n_examples + examples, failed))
    nth = nth_asks(np.concatenate((trials, missing.pulls.trials()[real])), cells)[: len(place)]
    return np.asarray(nth * n_examples + place)


def in_turns(
    problem: Problem,
    missing: Failures,
    trials: Indices,
    arms: Indices,
    examples: Indices,
    scores: Matrix,
    before: int | None = None,
) -> tuple[Indices, Indices, Matrix]:
    """Arms, turns and scores by arm and turn, of the rows that have an example and a turn before the one given.

    Several scores of a cell count once, with their mean, unless there are rounds.
    """
    known = np.flatnonzero(examples >= 0)
    at = turns(problem, missing, trials[known], arms[known], examples[known])
    if before is not None:
        known, at = known[at < before], at[at < before]
    arms, scores = arms[known], scores[known]
    if problem.repeats == 1:
        cells = Scored.of(arms, at, scores, len(problem.order))
        return cells.arms, cells.examples, cells.scores
    order = np.lexsort((at, arms))
    return arms[order], at[order], scores[order]


def in_rounds(
    problem: Problem, trials: Indices, arms: Indices, examples: Indices, scores: Matrix
) -> list[tuple[Indices, Indices, Matrix]]:
    """Arms, places and mean scores of every cell's first evaluation, of its first two, and so on; by arm and place.

    There are as many as a cell may be evaluated, at most; repeats beyond that were asked for another purpose. The rows
    are in the order in which they were told. A row of NaN is an evaluation that is out: until its score comes, those
    behind it do not count, since a score may come late because of its value.
    """
    known = np.flatnonzero(examples >= 0)
    trials, arms, scores = trials[known], arms[known], scores[known]
    places = problem.place[examples[known]]
    # An evaluation from elsewhere, without a trial, stands behind all trials that were asked before it.
    when = np.where(trials >= 0, 2 * trials, 2 * np.maximum.accumulate(trials) + 1)
    cells = arms * len(problem.order) + places
    order = np.lexsort((when, cells))
    cells, scores = cells[order], scores[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    n_scores, sums, found = np.diff(starts, append=len(cells)), np.zeros((len(starts), scores.shape[1])), []
    for number in range(min(problem.repeats, int(n_scores.max(initial=0)))):
        long_enough = n_scores > number
        starts, n_scores, sums = starts[long_enough], n_scores[long_enough], sums[long_enough]
        sums = sums + scores[starts + number]
        whole = ~np.isnan(sums).any(axis=1)
        own_arms, own_places = np.divmod(cells[starts[whole]], len(problem.order))
        found.append((own_arms, own_places, sums[whole] / (number + 1)))
    return found


def turns_out(problem: Problem, history: History, missing: Failures, out: Iterable[Pull]) -> list[int]:
    """Where pulls that are out, those of them that have an example, stand in the order of all pulls."""
    numbers = [[_LATEST if p.trial is None else p.trial, p.arm, p.example] for p in out if p.example is not None]
    rows = np.array(numbers, dtype=np.int64).reshape(-1, 3)
    if problem.repeats > 1:
        told = np.column_stack((history.trials(), history.arms(), history.examples()))
        rows = np.concatenate((told[told[:, 2] >= 0], rows))
    trials, arms, examples = rows.T
    return [int(turn) for turn in turns(problem, missing, trials, arms, examples)[len(rows) - len(numbers) :]]


_LATE = 1 / 3  # of all scores lie between the two, at least; a judgement
_FEWEST, _ERROR = 4, 0.02  # repeats; of each of the two tests, so that both err in 4 of 100 at most (Bonferroni)


class Repeated(NamedTuple):
    """The cells that were scored more than once, each by its first score and its last."""

    times: int  # how many cells
    changed: int  # in how many of them the scores differ
    late: int  # how many were repeated late, when much had been evaluated in between
    late_changed: int  # in how many of these the scores differ
    moved: Matrix  # (late, m) the last scores of these less the first

    @property
    def tells_drift(self) -> bool:
        """True if enough cells were repeated late to see a change of what is evaluated."""
        return self.late >= _FEWEST

    @property
    def has_drifted(self) -> bool:
        """True if late repeats differ by more than noise; false alarms in at most 4 of 100 runs.

        More of them changed than of those repeated soon (Fisher's exact test), or their mean moved (Student's t).
        """
        n, n_metrics = self.moved.shape
        if not self.tells_drift or not self.late_changed:
            return False
        from scipy import stats  # here, to keep the import of asktell light

        soon, changed = self.times - self.late, self.changed - self.late_changed
        counts = [[self.late_changed, n - self.late_changed], [changed, soon - changed]]
        if stats.fisher_exact(counts, "greater")[1] < _ERROR:
            return True
        mean, error = self.moved.mean(axis=0), self.moved.std(axis=0, ddof=1) / np.sqrt(n)
        bound = stats.t.isf(_ERROR / (2 * n_metrics), n - 1)
        return bool((np.abs(mean) > bound * error).any())


def repeated(problem: Problem, history: History) -> Repeated:
    """What was repeated so far, in the order in which scores came; O(n log n)."""
    arms, examples, scores = history.arms(), history.examples(), history.scores()
    rows = np.flatnonzero(examples >= 0) if problem.population is not None else np.arange(0)
    cells = arms[rows] * (problem.n_examples or 1) + examples[rows]
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    first, last = rows[order[starts]], rows[order[np.append(starts[1:], len(rows))[: len(starts)] - 1]]
    again = first != last
    first, last = first[again], last[again]
    moved = scores[last] - scores[first]
    changed, late = (moved != 0.0).any(axis=1), last - first > _LATE * len(history)
    return Repeated(len(first), int(changed.sum()), int(late.sum()), int((changed & late).sum()), moved[late])
