"""Constrained ranking (GENSEC; the constrained successive rejects of Faizal & Nair 2022, any number of constraints).

Feasible arms rank first, by objective. Infeasible arms follow, the least violating
first.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Indices, Mask, Values


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

    def ranking(self, values: Values) -> Indices:
        violation = np.maximum(0.0, -self.least_slack(values))
        return np.lexsort((-values[:, 0], violation, ~self.feasible(values)))

    def least_slack(self, values: Values) -> Values:
        """(A,) the smallest slack, infinite without constraints. If it is negative, its size is the violation."""
        if values.shape[1] == 1:
            return np.full(len(values), np.inf)
        return np.asarray(values[:, 1:].min(axis=1))

    def feasible(self, values: Values) -> Mask:
        slack = self.least_slack(values)
        return np.asarray(slack > 0 if self.strict else slack >= 0)

    def judge(self, values: Values) -> Judgement:
        nobody = np.zeros(len(values), dtype=bool)
        return Judgement(self.ranking(values)[::-1], nobody, self.least_slack(values))

    def answer(self, values: Values) -> Indices:
        return self.ranking(values)[:1]

    def reason(self, judgement: Judgement, position: int) -> str:
        rank = len(judgement.order) - int(
            np.flatnonzero(judgement.order == position)[0]
        )
        slack = float(judgement.measure[position])
        where = f"ranked {rank} of {len(judgement.order)}"
        if slack < 0 or (self.strict and slack == 0):
            return f"{where}: violates a constraint by {-slack:.4g}"
        return f"{where} by the objective, feasible"
