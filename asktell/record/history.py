"""The scores recorded so far, as columns that only grow.

States that follow from one another share the same columns, and each state reads only
its own first rows. So appending costs O(m) for m metrics and copies nothing, yet every
earlier state stays unchanged. Appending to a state that is no longer the newest copies
its rows first.
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cached import Memo
from asktell.numerics.shapes import Float, Int

_NOT_TOLD = -1


@dataclass(eq=False)
class _Columns:
    """The rows of a history and of all histories that it was appended to."""

    n_metrics: int
    # The trial of each row, -1 for scores that were observed elsewhere
    trials: "array[int]" = field(default_factory=lambda: array("q"))
    arms: "array[int]" = field(default_factory=lambda: array("q"))
    # The example of each row, -1 for none
    examples: "array[int]" = field(default_factory=lambda: array("q"))
    # `n_metrics` scores of each row, one row after the other
    scores: "array[float]" = field(default_factory=lambda: array("d"))
    # By trial, the row of its scores, -1 for a trial without scores
    row_of: "array[int]" = field(default_factory=lambda: array("q"))
    # By arm, its rows that belong to trials, ascending
    rows_of: dict[int, "array[int]"] = field(default_factory=dict)

    def head(self, n: int) -> "_Columns":
        """A copy of the first n rows."""
        rows = array("q", [r if r < n else _NOT_TOLD for r in self.row_of])
        m = self.n_metrics
        of_arms = {
            arm: rows_of_arm[: bisect_left(rows_of_arm, n)]
            for arm, rows_of_arm in self.rows_of.items()
            if rows_of_arm[0] < n
        }
        return _Columns(
            m,
            self.trials[:n],
            self.arms[:n],
            self.examples[:n],
            self.scores[: n * m],
            rows,
            of_arms,
        )


class History:
    """Rows of (trial, arm, example, scores), as an immutable value. `memo` caches results computed from these rows."""

    __slots__ = ("_columns", "_length", "memo")

    def __init__(self, n_metrics: int) -> None:
        self._columns = _Columns(n_metrics)
        self._length = 0
        self.memo = Memo()

    def __len__(self) -> int:
        return self._length

    def append(
        self,
        trial: int | None,
        arm: int,
        example: int | None,
        scores: tuple[float, ...],
    ) -> "History":
        """The history with one more row. `trial` is None for scores observed elsewhere."""
        columns = self._columns
        if len(columns.arms) != self._length:
            columns = columns.head(self._length)
        # The arm comes first. If an exception interrupts this function, the columns are
        # then longer than every history, so the next append copies them.
        columns.arms.append(arm)
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
        """The number of rows of an arm that belong to trials. The other rows were observed elsewhere."""
        rows = self._columns.rows_of.get(arm)
        return 0 if rows is None else bisect_left(rows, self._length)

    def scores_of(self, trial: int) -> tuple[float, ...] | None:
        """The recorded scores of a trial. None without scores."""
        row, m = self._row_of(trial), self._columns.n_metrics
        return (
            None
            if row is None
            else tuple(self._columns.scores[row * m : (row + 1) * m])
        )

    def pull_of(self, trial: int) -> tuple[int, int | None] | None:
        """The arm and the example of a trial with scores. None without scores."""
        row = self._row_of(trial)
        if row is None:
            return None
        example = self._columns.examples[row]
        return self._columns.arms[row], None if example == _NOT_TOLD else example

    def _row_of(self, trial: int) -> int | None:
        rows = self._columns.row_of
        row = rows[trial] if 0 <= trial < len(rows) else _NOT_TOLD
        return None if row == _NOT_TOLD or row >= self._length else row

    def trials(self, start: int = 0) -> Int[Ints, " rows"]:
        """Trial ids of the rows from `start` on, -1 for observed ones."""
        return np.array(self._columns.trials[start : self._length], dtype=np.int64)

    def arms(self, start: int = 0) -> Int[Ints, " rows"]:
        """Arms of the rows from `start` on."""
        return np.array(self._columns.arms[start : self._length], dtype=np.int64)

    def examples(self, start: int = 0) -> Int[Ints, " rows"]:
        """Examples of the rows from `start` on, -1 for none."""
        return np.array(self._columns.examples[start : self._length], dtype=np.int64)

    def scores(self, start: int = 0) -> Float[Floats, "rows columns"]:
        """Scores of the rows from `start` on, in metric units."""
        m = self._columns.n_metrics
        rows = np.array(
            self._columns.scores[start * m : self._length * m], dtype=np.float64
        )
        return rows.reshape(-1, m)

    def in_asked_order(
        self, start: int = 0
    ) -> tuple[Int[Ints, " rows"], Float[Floats, "rows columns"]]:
        """Arms and scores of the rows from `start` on, observed ones first, then by trial.

        Results computed from rows in this order do not depend on the order in which
        scores arrived.
        """
        order = np.argsort(self.trials(start), kind="stable")
        return self.arms(start)[order], self.scores(start)[order]

    def copy(self) -> "History":
        """A copy that shares no rows with another history."""
        return self.from_columns(
            self.trials(), self.arms(), self.examples(), self.scores()
        )

    @classmethod
    def from_columns(
        cls,
        trials: Int[Ints, " rows"],
        arms: Int[Ints, " rows"],
        examples: Int[Ints, " rows"],
        scores: Float[Floats, "rows columns"],
    ) -> "History":
        """A history from trials (n,), arms (n,), examples (n,) and scores (n, m), as they were saved."""
        history = cls(scores.shape[1])
        columns = history._columns
        columns.trials = _array("q", trials)
        columns.arms = _array("q", arms)
        columns.examples = _array("q", examples)
        columns.scores = _array("d", scores)
        row_of = np.full(int(trials.max(initial=-1)) + 1, _NOT_TOLD, dtype=np.int64)
        of_trials = np.flatnonzero(trials >= 0)
        row_of[trials[of_trials]] = of_trials
        columns.row_of = _array("q", row_of)
        history._length = len(trials)
        by_arm = of_trials[np.argsort(arms[of_trials], kind="stable")]
        ends = np.flatnonzero(np.diff(arms[by_arm])) + 1
        for rows in np.split(by_arm, ends) if len(of_trials) else []:
            columns.rows_of[int(arms[rows[0]])] = _array("q", rows)
        return history


def _array(kind: Literal["q", "d"], values: Ints | Floats) -> "array[Any]":
    """The numbers as an array that can grow, without a copy in between."""
    grown: array[Any] = array(kind)
    flat = np.ascontiguousarray(values, dtype=kind).ravel()
    grown.frombytes(flat.view(np.uint8).data)
    return grown
