"""Constrained ranking (GENSEC; the constrained successive rejects of Faizal & Nair 2022, any number of constraints).

Feasible arms rank first, by objective. Infeasible arms follow, the least violating
first.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.methods.rounds.rules.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int


@final
@dataclass(frozen=True)
class ConstrainedRanking(AbstractEliminationRule):
    """The rule for the best feasible prompt: infeasible arms are eliminated before feasible arms.

    Among infeasible arms, the arm with the largest violation is eliminated first. Among
    feasible arms, the arm with the worst objective is eliminated first. How far a
    feasible arm is from the bounds does not matter. Ties are broken at random. No arm
    is accepted before the end, and one arm is selected.

    `Judgement.measure` is the smallest slack of each arm. The texts of `reason` show it
    only for infeasible arms.

    Attributes:
        strict: whether an arm whose mean equals the bound of a constraint violates the
            constraint. False (default): the arm satisfies the constraint, as in the
            definition of a feasible prompt in the paper on which asktell is based. True:
            the arm violates the constraint, as in the algorithms of this paper.
            (`Elimination` has the title of the paper, at its argument `data`.)
    """

    strict: bool = False

    def ranking(self, values: Float[Floats, "active columns"]) -> Int[Ints, " active"]:
        """Return the positions of all active arms, best first.

        Args:
            values: the values of the active arms, one row per arm.
        """
        violation = np.maximum(0.0, -self.least_slack(values))
        return np.lexsort((-values[:, 0], violation, ~self.feasible(values)))

    def least_slack(
        self, values: Float[Floats, "active columns"]
    ) -> Float[Floats, " active"]:
        """Return the smallest slack of each arm. Infinite if there are no constraints.

        A slack of -0.2 means that a constraint is violated by 0.2.

        Args:
            values: the values of the active arms, one row per arm.
        """
        if values.shape[1] == 1:
            return np.full(len(values), np.inf)
        return np.asarray(values[:, 1:].min(axis=1))

    def feasible(
        self, values: Float[Floats, "active columns"]
    ) -> Bool[Bools, " active"]:
        """Return True for each arm that satisfies every constraint.

        Args:
            values: the values of the active arms, one row per arm.
        """
        slack = self.least_slack(values)
        return np.asarray(slack > 0 if self.strict else slack >= 0)

    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        none = np.zeros(len(values), dtype=bool)
        return Judgement(self.ranking(values)[::-1], none, self.least_slack(values))

    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        return self.ranking(values)[:1]

    def reason(self, judgement: Judgement, position: int) -> str:
        # The order begins with the worst arm, and ranks begin with the best.
        place = int(np.flatnonzero(judgement.order == position)[0])
        rank = len(judgement.order) - place
        slack = float(judgement.measure[position])
        where = f"ranked {rank} of {len(judgement.order)}"
        if slack < 0 or (self.strict and slack == 0):
            return f"{where}: violates a constraint by {-slack:.4g}"
        return f"{where} by the objective, feasible"
