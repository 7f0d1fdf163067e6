"""Evaluations that were repeated: whether scores differ when a cell is evaluated again, soon or late."""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Matrix
from asktell.state.history import History
from asktell.state.problem import Problem

_LATE = 1 / 3  # of all scores lie between the two, at least
_FEWEST, _ERROR = 4, 0.02


class Repeated(NamedTuple):
    """The cells that were scored more than once, each by its first score and its last.

    Attributes:
        times: how many cells.
        changed: in how many of them the scores differ.
        late: how many were repeated late, when much had been evaluated in between.
        late_changed: in how many of these the scores differ.
        moved: (late, m) the last scores of these less the first.
    """

    times: int
    changed: int
    late: int
    late_changed: int
    moved: Matrix

    @property
    def has_drifted(self) -> bool:
        """Whether scores repeated late are off by more than noise: it says so without a cause in 4 of 100 runs at most.

        More of them changed than of those repeated soon (Fisher's exact test), or their mean moved (Student's t).
        """
        n, n_metrics = self.moved.shape
        if n < _FEWEST or not self.late_changed:
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
