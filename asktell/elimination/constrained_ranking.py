"""Constrained ranking (GENSEC; the constrained successive rejects of Faizal & Nair 2022, any number of constraints).

Feasible arms rank first, by objective. Infeasible arms follow, the least violating
first.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Bools, Floats, Ints


@final
@dataclass(frozen=True)
class ConstrainedRanking(AbstractEliminationRule):
    """Sort by (infeasible, violation, -objective), then by chance. The last arms are eliminated first.

    No arm is accepted early. The slack of a feasible arm does not count, not even among
    equals. Metrics often conflict, so more slack tends to come with a worse objective.

    Column 0 of the values is the objective. The others are the slacks of the
    constraints, negative where a constraint is violated. With `strict`, an arm that
    meets a bound exactly counts as infeasible, as in the paper's algorithms. In the
    paper's definition of feasibility, which is the default here, it counts as feasible.
    """

    strict: bool = False

    def ranking(self, values: Float[Floats, "active columns"]) -> Int[Ints, " active"]:
        """Positions of the arms, the best first."""
        violation = np.maximum(0.0, -self.least_slack(values))
        return np.lexsort((-values[:, 0], violation, ~self.feasible(values)))

    def least_slack(
        self, values: Float[Floats, "active columns"]
    ) -> Float[Floats, " active"]:
        """The smallest slack, infinite without constraints. A negative slack is a violation of its size."""
        if values.shape[1] == 1:
            return np.full(len(values), np.inf)
        return np.asarray(values[:, 1:].min(axis=1))

    def feasible(
        self, values: Float[Floats, "active columns"]
    ) -> Bool[Bools, " active"]:
        """True for the arms that satisfy every constraint."""
        slack = self.least_slack(values)
        return np.asarray(slack > 0 if self.strict else slack >= 0)

    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        """Order the arms, the worst first. The measure is the smallest slack, and no arm is accepted."""
        none = np.zeros(len(values), dtype=bool)
        return Judgement(self.ranking(values)[::-1], none, self.least_slack(values))

    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        """The best arm."""
        return self.ranking(values)[:1]

    def reason(self, judgement: Judgement, position: int) -> str:
        """State the rank of an arm, and its violation if it is infeasible."""
        # The order begins with the worst arm, and ranks begin with the best.
        place = int(np.flatnonzero(judgement.order == position)[0])
        rank = len(judgement.order) - place
        slack = float(judgement.measure[position])
        where = f"ranked {rank} of {len(judgement.order)}"
        if slack < 0 or (self.strict and slack == 0):
            return f"{where}: violates a constraint by {-slack:.4g}"
        return f"{where} by the objective, feasible"
