"""Elimination rules decide in which order arms (prompts) are eliminated, and which arms are selected."""

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
