"""Elimination rules: the order in which arms are eliminated, and the selected arms."""

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.elimination.constrained_pareto_gap import ConstrainedParetoGap
from asktell.elimination.constrained_ranking import ConstrainedRanking
from asktell.elimination.pareto_gap import ParetoGap

__all__ = [
    "AbstractEliminationRule",
    "ConstrainedParetoGap",
    "ConstrainedRanking",
    "Judgement",
    "ParetoGap",
]
