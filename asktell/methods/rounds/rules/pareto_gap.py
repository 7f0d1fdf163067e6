"""Empirical gap elimination (EGE; Kone, Kaufmann & Richert 2024): the easiest arm to classify is eliminated first."""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.methods.rounds.rules.base import AbstractEliminationRule, Judgement
from asktell.methods.rounds.rules.gaps import pareto_gaps
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.pareto import pareto_mask
from asktell.numerics.shapes import Float, Int


@final
@dataclass(frozen=True)
class ParetoGap(AbstractEliminationRule):
    """The rule for a Pareto set without constraints: the arm with the largest gap is decided first.

    The gap of an arm is roughly how much its values would have to change before it
    enters or leaves the Pareto set (Kone, Kaufmann & Richert 2024). So the arm with the
    largest gap is the clearest case. If no other arm dominates it, it is accepted: it
    gets no more evaluations, and is selected at the end. Otherwise it is rejected.

    Among arms with equal gaps, dominated arms come first, because an arm must not be
    decided before the arms that it dominates. Otherwise these would be judged without
    it, and might be accepted. Other ties are broken at random.

    `Judgement.measure` is the gap.
    """

    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        gaps, optimal = pareto_gaps(values)
        # The last key of `lexsort` counts first: the gap, then optimality.
        return Judgement(np.lexsort((optimal, -gaps)), optimal, gaps)

    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        front = np.flatnonzero(pareto_mask(values))
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reason(self, judgement: Judgement, position: int) -> str:
        place = "in the Pareto set" if judgement.accepted[position] else "dominated"
        return (
            f"{place} of {len(judgement.order)}, gap {judgement.measure[position]:.4g}"
        )
