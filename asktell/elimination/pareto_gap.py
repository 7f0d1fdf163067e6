"""Empirical gap elimination (EGE; Kone, Kaufmann & Richert 2024): the easiest prompt to classify leaves first."""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Indices, Values
from asktell.numerics.pareto import pareto_gaps, pareto_mask


@final
@dataclass(frozen=True)
class ParetoGap(AbstractEliminationRule):
    """Largest gap first; on ties sub-optimal arms before optimal ones, then by chance.

    An arm that leaves while it is non-dominated is accepted, otherwise rejected. Sub-optimal first, because an
    optimal arm's gap never exceeds that of an arm it dominates but may equal it: the dominated one must go first.
    """

    def judge(self, values: Values) -> Judgement:
        gaps, optimal = pareto_gaps(values)
        return Judgement(np.lexsort((optimal, -gaps)), optimal, gaps)

    def answer(self, values: Values) -> Indices:
        front = np.flatnonzero(pareto_mask(values))
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reason(self, judgement: Judgement, position: int) -> str:
        place = "on the front" if judgement.accepted[position] else "dominated"
        return f"{place} of {len(judgement.order)}, gap {judgement.measure[position]:.4g}"
