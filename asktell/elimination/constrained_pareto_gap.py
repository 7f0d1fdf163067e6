"""Empirical gap elimination under constraints: the feasible by their Pareto gap, after the infeasible by violation.

The answer is the constrained Pareto set of Kone, Kaufmann & Richert (2025, arXiv 2506.08127): the feasible arms that no
feasible arm dominates. Like theirs, the order knows two distances, to feasibility and to optimality among the feasible,
and an arm is ruled out by either one. They sample with fixed confidence; these are rounds with a fixed budget. So we
order by estimates alone, and compose two known rules:

- Of an infeasible arm i, v_i > 0 is the largest violation of a constraint, in units of its scale. Infeasible arms leave
  first, and among them those of the largest v_i. Of equal ones, those leave first that lie farthest below the front of
  all arms, feasible or not (the gap of `ParetoGap`, 0 for one on that front).
- Of a feasible arm i, D_i is its gap among the feasible arms alone (`ParetoGap`). Largest first; sub-optimal ones
  before optimal ones on ties. One that leaves while no feasible arm dominates it is accepted.
- What is still equal is left to chance.

Without constraints that is `ParetoGap` itself. With one objective it is the order of `ConstrainedRanking`, but for
arms that are equal in objective and violation: the farther below the best, the larger the gap, and the best one's gap
is that of the runner-up, which goes before it.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.numerics.arrays import Indices, Values, Vector
from asktell.numerics.pareto import pareto_gaps, pareto_mask


@final
@dataclass(frozen=True)
class ConstrainedParetoGap(AbstractEliminationRule):
    """Infeasible arms first, by violation; then feasible ones, by their Pareto gap among the feasible.

    The first `n_objectives` columns of the values are the objectives, the others slacks: how far each constraint is
    kept, negative where it is missed. An arm that meets a bound exactly is feasible.
    """

    n_objectives: int

    def violation(self, values: Values) -> Vector:
        """(A,) by how much the constraint is missed that is missed most; 0 where all are kept."""
        least: Vector = values[:, self.n_objectives :].min(axis=1, initial=0.0)
        return np.abs(least)

    def judge(self, values: Values) -> Judgement:
        """Measured by the gap of a feasible arm, and by minus the violation of an infeasible one."""
        violation, objectives = self.violation(values), values[:, : self.n_objectives]
        keeps = violation == 0
        measure, accepted = -violation, np.zeros(len(values), dtype=bool)
        below = np.zeros(len(values))
        if keeps.any():
            measure[keeps], accepted[keeps] = pareto_gaps(objectives[keeps])
            below[keeps] = measure[keeps]
        if not keeps.all():
            gaps, optimal = pareto_gaps(objectives)
            below[~keeps] = np.where(optimal, 0.0, gaps)[~keeps]
        return Judgement(np.lexsort((accepted, -below, -violation)), accepted, measure)

    def answer(self, values: Values) -> Indices:
        """The front of the feasible arms, by the first objective; or the least violating arm where none is feasible."""
        keeps = np.flatnonzero(self.violation(values) == 0)
        if not len(keeps):
            return self.judge(values).order[-1:]
        front = keeps[pareto_mask(values[keeps, : self.n_objectives])]
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reason(self, judgement: Judgement, position: int) -> str:
        measure = float(judgement.measure[position])
        n_feasible = int((judgement.measure >= 0).sum())
        if measure < 0:
            return f"misses a constraint by {-measure:.4g}; {n_feasible} of {len(judgement.order)} feasible"
        place = "on the front" if judgement.accepted[position] else "dominated"
        return f"{place} of {n_feasible} feasible, gap {measure:.4g}"
