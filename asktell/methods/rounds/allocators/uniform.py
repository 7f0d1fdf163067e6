"""Uniform allocation: the same for every arm, and the remainder to the arms with the fewest evaluations."""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.methods.rounds.allocators.base import AbstractAllocator, PullsToShare
from asktell.numerics.arrays import Ints
from asktell.numerics.shapes import Int


@final
@dataclass(frozen=True)
class Uniform(AbstractAllocator):
    """Evaluate all active arms equally often.

    With n evaluations and A arms, each arm gets floor(n / A). The remaining evaluations
    go, one each, to the arms with the fewest evaluations so far. Ties are broken at
    random. If an arm cannot take its share, because it has had every example, the rest
    of its share is divided evenly among the other arms.
    """

    def allocate(self, pulls: PullsToShare) -> Int[Ints, " active"]:
        counts = np.zeros(len(pulls.pulled), dtype=np.int64)
        left = min(pulls.n_pulls, int(pulls.capacity.sum()))
        while left > 0:
            room = pulls.capacity - counts
            open_ = np.flatnonzero(room > 0)
            share, rest = divmod(left, len(open_))
            if share:
                counts[open_] += np.minimum(share, room[open_])
            else:
                order = np.lexsort((pulls.priority[open_], pulls.pulled[open_]))
                counts[open_[order[:rest]]] += 1
            left = min(pulls.n_pulls, int(pulls.capacity.sum())) - int(counts.sum())
        return counts
