"""Elimination rules decide in which order arms (prompts) are eliminated, and which arms are selected."""

from asktell.methods.rounds.rules.base import AbstractEliminationRule, Judgement
from asktell.methods.rounds.rules.constrained_pareto_gap import ConstrainedParetoGap
from asktell.methods.rounds.rules.constrained_ranking import ConstrainedRanking
from asktell.methods.rounds.rules.pareto_gap import ParetoGap

__all__ = [
    "AbstractEliminationRule",
    "ConstrainedParetoGap",
    "ConstrainedRanking",
    "Judgement",
    "ParetoGap",
]
