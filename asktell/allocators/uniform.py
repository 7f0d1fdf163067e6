"""Uniform allocation: the same for every arm, and the remainder to the arms with the fewest evaluations."""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.allocators.base import AbstractAllocator, PullsToShare
from asktell.numerics.arrays import Counts


@final
@dataclass(frozen=True)
class Uniform(AbstractAllocator):
    """floor(n / A) pulls each; one more for the least pulled arms, ties in random order."""

    def allocate(self, pulls: PullsToShare) -> Counts:
        counts = np.zeros(len(pulls.pulled), dtype=np.int64)
        left = min(pulls.n_pulls, int(pulls.capacity.sum()))
        while left > 0:
            room = pulls.capacity - counts
            open_ = np.flatnonzero(room > 0)
            each, rest = divmod(left, len(open_))
            if each:
                counts[open_] += np.minimum(each, room[open_])
            else:
                order = np.lexsort((pulls.priority[open_], pulls.pulled[open_]))
                counts[open_[order[:rest]]] += 1
            left = min(pulls.n_pulls, int(pulls.capacity.sum())) - int(counts.sum())
        return counts
