"""Which rule a goal needs."""

from asktell.elimination.base import AbstractEliminationRule
from asktell.elimination.constrained_pareto_gap import ConstrainedParetoGap
from asktell.elimination.constrained_ranking import ConstrainedRanking
from asktell.elimination.pareto_gap import ParetoGap
from asktell.problem.goals import BestFeasible, Goal


def rule_of(goal: Goal) -> AbstractEliminationRule:
    """Constrained ranking for the best feasible prompt, Pareto gaps for a set, under constraints where it has some."""
    if isinstance(goal, BestFeasible):
        return ConstrainedRanking()
    return ConstrainedParetoGap(len(goal.objectives)) if goal.is_constrained else ParetoGap()
