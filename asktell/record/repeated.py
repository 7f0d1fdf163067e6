"""What repeated evaluations show: whether scores are noisy, and whether they have changed during the run."""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.problem.problem import Problem
from asktell.record.history import History

# Smallest part of all scores that lies between an evaluation and its late repeat. A
# judgement.
_LATE = 1 / 3
# Fewest late repeats for a test of drift.
_FEWEST = 4
# Error of each of the two tests. Together they err in at most 4 of 100 runs
# (Bonferroni).
_ERROR = 0.02


class Repeated(NamedTuple):
    """The cells that were scored more than once. The first and the last score of each cell are compared.

    - `times`: the number of cells.
    - `changed`: the number of cells with different scores.
    - `late`: the number of cells that were repeated late, after many other evaluations.
    - `late_changed`: the number of late cells with different scores.
    - `moved` (late, m): the last scores of the late cells minus their first scores.
    """

    times: int
    changed: int
    late: int
    late_changed: int
    moved: Float[Floats, "late columns"]

    @classmethod
    def of(cls, problem: Problem, history: History) -> "Repeated":
        """The repeats so far. The order of recording decides about first and last. O(n log n)."""
        arms, examples, scores = history.arms(), history.examples(), history.scores()
        rows = (
            np.flatnonzero(examples >= 0)
            if problem.examples.population is not None
            else np.arange(0)
        )
        cells = arms[rows] * (problem.examples.n or 1) + examples[rows]
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        first, last = (
            rows[order[starts]],
            rows[order[np.append(starts[1:], len(rows))[: len(starts)] - 1]],
        )
        again = first != last
        first, last = first[again], last[again]
        moved = scores[last] - scores[first]
        changed, late = (moved != 0.0).any(axis=1), last - first > _LATE * len(history)
        return cls(
            len(first),
            int(changed.sum()),
            int(late.sum()),
            int((changed & late).sum()),
            moved[late],
        )

    @property
    def tells_drift(self) -> bool:
        """True if enough cells were repeated late to detect a drift."""
        return self.late >= _FEWEST

    @property
    def has_drifted(self) -> bool:
        """True if late repeats differ by more than noise. False alarms occur in at most 4 of 100 runs.

        Either late repeats changed more often than early repeats (Fisher's exact test),
        or their mean moved (Student's t-test).
        """
        n, n_metrics = self.moved.shape
        if not self.tells_drift or not self.late_changed:
            return False
        # Imported here, to keep the import of asktell light.
        from scipy import stats

        soon, changed = self.times - self.late, self.changed - self.late_changed
        counts = [[self.late_changed, n - self.late_changed], [changed, soon - changed]]
        if stats.fisher_exact(counts, "greater")[1] < _ERROR:
            return True
        mean, error = (
            self.moved.mean(axis=0),
            self.moved.std(axis=0, ddof=1) / np.sqrt(n),
        )
        bound = stats.t.isf(_ERROR / (2 * n_metrics), n - 1)
        return bool((np.abs(mean) > bound * error).any())
