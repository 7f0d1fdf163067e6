"""Empirical gap elimination under constraints: infeasible arms by violation, then feasible arms by their Pareto gap.

The selected arms are the constrained Pareto set of Kone, Kaufmann & Richert (2025,
arXiv 2506.08127): the feasible arms that no feasible arm dominates. As in their method,
the order uses two distances, to feasibility and to optimality among the feasible arms,
and either one rules out an arm. They sample with fixed confidence, while these are
rounds with a fixed budget. So the order uses estimates alone, and composes two known
rules:

- Infeasible arms are eliminated first, in the order of v_i > 0, the largest violation
  of a constraint in units of its scale. Among equals, the arm farthest below the Pareto
  set of all arms, feasible or not, is eliminated first (the gap of `ParetoGap`, 0 for
  an arm in that set).
- Feasible arms are then eliminated in the order of D_i, their gap among the feasible
  arms alone (`ParetoGap`), the largest first. On ties, sub-optimal arms come before
  optimal arms. An arm that is eliminated while no feasible arm dominates it is
  accepted.
- Remaining ties are broken by chance.

Without constraints this is `ParetoGap` itself. With one objective it is the order of
`ConstrainedRanking`, except for arms that are equal in objective and violation. An arm
farther below the best has a larger gap, and the best arm's gap equals the gap of the
runner-up, which is eliminated before it.
"""

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
class ConstrainedParetoGap(AbstractEliminationRule):
    """The rule for a Pareto set under constraints: infeasible arms are rejected before feasible arms are decided.

    Among infeasible arms, the arm with the largest violation is rejected first. Among
    feasible arms, the arm with the largest gap is decided first: it is accepted if no
    feasible arm dominates it, and otherwise rejected. The gap is as in `ParetoGap`, but
    only feasible arms count. An arm whose mean equals the bound of a constraint
    satisfies this constraint. If no arm is feasible, the arm with the smallest
    violation is selected.

    `Judgement.measure` is the gap of a feasible arm. For an infeasible arm, it is the
    largest violation with a minus sign.

    Attributes:
        n_objectives: the number of objectives. The other columns of the values are the
            slacks of the constraints.
    """

    n_objectives: int

    def violation(
        self, values: Float[Floats, "active columns"]
    ) -> Float[Floats, " active"]:
        """Return the largest violation of each arm: 0 if it satisfies every constraint, otherwise above 0.

        Args:
            values: the values of the active arms, one row per arm.
        """
        least: Floats = values[:, self.n_objectives :].min(axis=1, initial=0.0)
        return np.abs(least)

    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        violation, objectives = self.violation(values), values[:, : self.n_objectives]
        keeps = violation == 0
        measure, accepted = -violation, np.zeros(len(values), dtype=bool)
        # How far an arm is below a Pareto set: of the feasible arms, or of all arms if it
        # is infeasible.
        below = np.zeros(len(values))
        if keeps.any():
            measure[keeps], accepted[keeps] = pareto_gaps(objectives[keeps])
            below[keeps] = measure[keeps]
        if not keeps.all():
            gaps, optimal = pareto_gaps(objectives)
            below[~keeps] = np.where(optimal, 0.0, gaps)[~keeps]
        # The last key of `lexsort` counts first: violation, then the gap, then optimality.
        order = np.lexsort((accepted, -below, -violation))
        return Judgement(order, accepted, measure)

    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        keeps = np.flatnonzero(self.violation(values) == 0)
        if not len(keeps):
            return self.judge(values).order[-1:]
        front = keeps[pareto_mask(values[keeps, : self.n_objectives])]
        return front[np.argsort(-values[front, 0], kind="stable")]

    def reason(self, judgement: Judgement, position: int) -> str:
        measure = float(judgement.measure[position])
        n_feasible = int((judgement.measure >= 0).sum())
        if measure < 0:
            return f"violates a constraint by {-measure:.4g}; {n_feasible} of {len(judgement.order)} feasible"
        place = "in the Pareto set" if judgement.accepted[position] else "dominated"
        return f"{place} of {n_feasible} feasible, gap {measure:.4g}"
