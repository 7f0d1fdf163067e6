"""Empirical gap elimination (EGE; Kone, Kaufmann & Richert 2024): the easiest arm to classify is eliminated first."""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Indices, Values
from asktell.numerics.pareto import pareto_gaps, pareto_mask


@final
@dataclass(frozen=True)
class ParetoGap(AbstractEliminationRule):
    """Eliminate the arm of the largest gap first. On ties sub-optimal arms come before optimal arms, then chance.

    An arm that is eliminated while it is non-dominated is accepted, otherwise it is
    rejected. The gap of an optimal arm never exceeds the gap of an arm that it
    dominates, but may equal it. The dominated arm must be eliminated first, so
    sub-optimal arms come first.
    """

    def judge(self, values: Values) -> Judgement:
        gaps, optimal = pareto_gaps(values)
        return Judgement(np.lexsort((optimal, -gaps)), optimal, gaps)

    def answer(self, values: Values) -> Indices:
        front = np.flatnonzero(pareto_mask(values))
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reason(self, judgement: Judgement, position: int) -> str:
        place = "in the Pareto set" if judgement.accepted[position] else "dominated"
        return (
            f"{place} of {len(judgement.order)}, gap {judgement.measure[position]:.4g}"
        )
