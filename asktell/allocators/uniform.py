"""Uniform allocation: the same for every arm, and the remainder to the arms with the fewest evaluations."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int

from asktell.allocators.base import AbstractAllocator, PullsToShare
from asktell.numerics.arrays import Ints


@final
@dataclass(frozen=True)
class Uniform(AbstractAllocator):
    """floor(n / A) pulls for each of A arms, and one more for the least pulled arms. Ties are in random order."""

    def allocate(self, pulls: PullsToShare) -> Int[Ints, " active"]:
        """Share the pulls evenly. What full arms cannot take is shared again among the others."""
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
