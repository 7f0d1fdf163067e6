"""Empirical gap elimination (EGE; Kone, Kaufmann & Richert 2024): whoever is easiest to classify leaves first."""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.arrays import Indices, Mask, Values
from asktell.elimination.base import AbstractEliminationRule
from asktell.pareto import pareto_gaps, pareto_mask


@final
@dataclass(frozen=True)
class ParetoGap(AbstractEliminationRule):
    """Largest gap first; on ties sub-optimal arms before optimal ones, then by index.

    An arm that leaves while it is non-dominated is accepted, otherwise rejected. Sub-optimal first, because an
    optimal arm's gap never exceeds that of an arm it dominates but may equal it: the dominated one must go first.
    """

    def leaving_order(self, values: Values) -> Indices:
        """Positions by (-gap, optimal, index)."""
        gaps, optimal = pareto_gaps(values)
        return np.lexsort((optimal, -gaps))

    def accepted(self, values: Values) -> Mask:
        """The non-dominated arms."""
        return pareto_mask(values)

    def answer(self, values: Values) -> Indices:
        """The non-dominated arms, by the first objective."""
        front = np.flatnonzero(pareto_mask(values))
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reasons(self, values: Values, leaving: Indices, mask: Mask) -> list[str]:
        """On the front or dominated, by which gap."""
        gaps, _ = pareto_gaps(values)
        return [
            f"on the front of {len(values)}, gap {gaps[i]:.4g}" if mask[i] else f"dominated, gap {gaps[i]:.4g}"
            for i in leaving
        ]
