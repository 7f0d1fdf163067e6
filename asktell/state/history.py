"""The scores told so far, as columns that only ever grow.

States that follow from one another share the same columns, and each sees only its own first rows. So appending
costs O(m) and copies nothing, yet every earlier state stays what it was: appending to one that is no longer the
newest copies its rows first.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from immutables import Map

from asktell.numerics.arrays import Indices, Means
from asktell.state.events import Failure

_NOT_TOLD = -1


@dataclass(eq=False)
class _Columns:
    n_metrics: int
    trials: "array[int]" = field(default_factory=lambda: array("q"))  # -1: observed elsewhere
    arms: "array[int]" = field(default_factory=lambda: array("q"))
    examples: "array[int]" = field(default_factory=lambda: array("q"))  # -1: none
    scores: "array[float]" = field(default_factory=lambda: array("d"))  # n_metrics per row
    row_of: "array[int]" = field(default_factory=lambda: array("q"))  # by trial

    def head(self, n: int) -> "_Columns":
        rows = array("q", [r if r < n else _NOT_TOLD for r in self.row_of])
        m = self.n_metrics
        return _Columns(m, self.trials[:n], self.arms[:n], self.examples[:n], self.scores[: n * m], rows)


class History:
    """Rows of (trial, arm, example, scores); immutable to whoever holds it."""

    __slots__ = ("_asked", "_columns", "_length")

    def __init__(self, n_metrics: int) -> None:
        self._columns = _Columns(n_metrics)
        self._length = 0
        self._asked: Map[int, int] = Map()  # rows of trials, by arm

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
        columns.trials.append(_NOT_TOLD if trial is None else trial)
        columns.examples.append(_NOT_TOLD if example is None else example)
        columns.scores.extend(scores)
        grown = History.__new__(History)
        grown._columns = columns
        grown._length = self._length + 1
        grown._asked = self._asked if trial is None else self._asked.set(arm, self.n_asked(arm) + 1)
        return grown

    def first(self, n: int) -> "History":
        """The first `n` rows; they share the columns."""
        head = History.__new__(History)
        head._columns, head._length = self._columns, min(n, self._length)
        head._count()
        return head

    def n_asked(self, arm: int) -> int:
        """How many rows of an arm are of trials; the others were observed elsewhere."""
        return self._asked.get(arm, 0)

    def _count(self) -> None:
        counts = np.bincount(self.arms()[self.trials() >= 0])
        self._asked = Map({arm: n for arm, n in enumerate(counts.tolist()) if n})

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
        history._count()
        return history


class Failures:
    """The failed evaluations, oldest first; immutable to whoever holds it, in columns as a history's."""

    __slots__ = ("_pulls", "_reasons")

    def __init__(self) -> None:
        self._pulls = History(0)
        self._reasons: list[str] = []

    def __len__(self) -> int:
        return len(self._pulls)

    def __iter__(self) -> Iterator[Failure]:
        pulls = (column.tolist() for column in (self.trials(), self.arms(), self.examples()))
        for trial, arm, example, reason in zip(*pulls, self.reasons(), strict=True):
            yield Failure(trial, arm, None if example < 0 else example, reason)

    def append(self, failure: Failure) -> "Failures":
        """The failures with one more."""
        trial, arm, example, reason = failure
        reasons, grown = self._reasons, Failures.__new__(Failures)
        if len(reasons) != len(self):
            reasons = reasons[: len(self)]
        reasons.append(reason)
        grown._pulls, grown._reasons = self._pulls.append(trial, arm, example, ()), reasons
        return grown

    def count(self, arm: int) -> int:
        """How many are an arm's."""
        return self._pulls.n_asked(arm)

    @property
    def counts(self) -> "Map[int, int]":
        """How many are each arm's, of the arms that have any."""
        return self._pulls._asked

    def __contains__(self, trial: object) -> bool:
        return isinstance(trial, int) and self._pulls.pull_of(trial) is not None

    def trials(self, start: int = 0) -> Indices:
        """(n,) ids of the trials from the `start`-th failure on."""
        return self._pulls.trials(start)

    def arms(self, start: int = 0) -> Indices:
        """(n,) arms from the `start`-th failure on."""
        return self._pulls.arms(start)

    def examples(self, start: int = 0) -> Indices:
        """(n,) examples from the `start`-th failure on, -1 for none."""
        return self._pulls.examples(start)

    def reasons(self, start: int = 0) -> list[str]:
        """Why they failed, from the `start`-th failure on."""
        return self._reasons[start : len(self)]

    def last(self, arm: int) -> str:
        """The reason of an arm's last failure; it must have one."""
        return self._reasons[int(np.flatnonzero(self.arms() == arm)[-1])]

    @classmethod
    def from_columns(cls, trials: Indices, arms: Indices, examples: Indices, reasons: list[str]) -> "Failures":
        """The failures in whole columns, as they were saved."""
        failures = cls()
        failures._pulls = History.from_columns(trials, arms, examples, np.empty((len(trials), 0)))
        failures._reasons = reasons
        return failures
