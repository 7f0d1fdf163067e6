"""Elimination rules: who leaves first, and what the answer is."""

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.elimination.constrained_pareto_gap import ConstrainedParetoGap
from asktell.elimination.constrained_ranking import ConstrainedRanking
from asktell.elimination.pareto_gap import ParetoGap
from asktell.problem.goals import BestFeasible, Goal

__all__ = [
    "AbstractEliminationRule",
    "ConstrainedParetoGap",
    "ConstrainedRanking",
    "Judgement",
    "ParetoGap",
    "rule_of",
]


def rule_of(goal: Goal) -> AbstractEliminationRule:
    """Constrained ranking for the best feasible prompt, Pareto gaps for a set, under constraints where it has some."""
    if isinstance(goal, BestFeasible):
        return ConstrainedRanking()
    return ConstrainedParetoGap(len(goal.objectives)) if goal.is_constrained else ParetoGap()
