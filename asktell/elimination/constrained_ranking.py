"""Constrained ranking (GENSEC; the constrained successive rejects of Faizal & Nair 2022, any number of constraints).

Feasible arms first, by objective; then infeasible ones, the least violating first.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Indices, Mask, Values


@final
@dataclass(frozen=True)
class ConstrainedRanking(AbstractEliminationRule):
    """Sort by (infeasible, violation, -objective), then by chance; the last leave first, none is accepted.

    How far a feasible arm keeps its constraints does not count, not even among equals: metrics pull against each other,
    so more slack goes with a worse objective.

    Column 0 of the values is the objective, the others are slacks: how far each constraint is kept. `strict` counts
    an arm that meets a threshold exactly as infeasible, as the paper's algorithms do; its definition of feasible,
    our default, does not.
    """

    strict: bool = False

    def ranking(self, values: Values) -> Indices:
        violation = np.maximum(0.0, -self.least_slack(values))
        return np.lexsort((-values[:, 0], violation, ~self.feasible(values)))

    def least_slack(self, values: Values) -> Values:
        """(A,) slack of the constraint kept worst, infinite without constraints; its negative is the violation."""
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
        rank = len(judgement.order) - int(np.flatnonzero(judgement.order == position)[0])
        slack = float(judgement.measure[position])
        where = f"ranked {rank} of {len(judgement.order)}"
        if slack < 0 or (self.strict and slack == 0):
            return f"{where}: misses a constraint by {-slack:.4g}"
        return f"{where} by the objective, feasible"
