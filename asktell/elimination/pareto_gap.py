"""Empirical gap elimination (EGE; Kone, Kaufmann & Richert 2024): the easiest arm to classify is eliminated first."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Floats, Ints
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

    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        """Order the arms by their gap, and accept the arms that no other arm dominates."""
        gaps, optimal = pareto_gaps(values)
        # The last key of `lexsort` counts first: the gap, then optimality.
        return Judgement(np.lexsort((optimal, -gaps)), optimal, gaps)

    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        """The Pareto set, the best in the first objective first."""
        front = np.flatnonzero(pareto_mask(values))
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reason(self, judgement: Judgement, position: int) -> str:
        """State whether the arm is in the Pareto set, and its gap."""
        place = "in the Pareto set" if judgement.accepted[position] else "dominated"
        return (
            f"{place} of {len(judgement.order)}, gap {judgement.measure[position]:.4g}"
        )
