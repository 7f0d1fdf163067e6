"""Constrained ranking (GENSEC; the constrained successive rejects of Faizal & Nair 2022, any number of constraints).

Feasible arms first, by objective; then infeasible ones, the least violating first.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.arrays import Indices, Mask, Values
from asktell.elimination.base import AbstractEliminationRule


def violation(values: Values) -> Values:
    """(A,) the largest amount by which a constraint is missed, 0 for feasible arms.

    Column 0 of `values` is the objective, the others are slacks: how far each constraint is kept.
    """
    if values.shape[1] == 1:
        return np.zeros(len(values))
    return np.maximum(0.0, -values[:, 1:].min(axis=1))


@final
@dataclass(frozen=True)
class ConstrainedRanking(AbstractEliminationRule):
    """Sort by (infeasible, violation, -objective, -least slack, index); the last leave first.

    `strict` counts an arm that meets a threshold exactly as infeasible, as the paper's algorithms do; its
    definition of feasible, our default, does not.
    """

    strict: bool = False

    def ranking(self, values: Values) -> Indices:
        """Positions, best first."""
        slack = values[:, 1:].min(axis=1) if values.shape[1] > 1 else np.full(len(values), np.inf)
        infeasible = ~self.feasible(values)
        return np.lexsort((-slack, -values[:, 0], violation(values), infeasible))

    def feasible(self, values: Values) -> Mask:
        """(A,) true where every constraint is kept."""
        slacks = values[:, 1:]
        return np.asarray((slacks > 0 if self.strict else slacks >= 0).all(axis=1))

    def leaving_order(self, values: Values) -> Indices:
        """The worst first."""
        return self.ranking(values)[::-1]

    def accepted(self, values: Values) -> Mask:
        """Nobody: only the last arm left is the answer."""
        return np.zeros(len(values), dtype=bool)

    def answer(self, values: Values) -> Indices:
        """The best feasible arm, or the least violating one where none is feasible."""
        return self.ranking(values)[:1]

    def reasons(self, values: Values, leaving: Indices, mask: Mask) -> list[str]:
        """Infeasible by how much, or outranked in the objective."""
        feasible, missed = self.feasible(values), violation(values)
        position = np.empty(len(values), dtype=np.int64)
        position[self.ranking(values)] = np.arange(1, len(values) + 1)
        return [
            f"ranked {position[i]} of {len(values)}: feasible, but others have a better objective"
            if feasible[i]
            else f"ranked {position[i]} of {len(values)}: misses a constraint by {missed[i]:.4g}"
            for i in leaving
        ]
