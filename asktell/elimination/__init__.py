"""Elimination rules: who leaves first, and what the answer is."""

from asktell.elimination.base import AbstractEliminationRule, Judgement
from asktell.elimination.constrained_pareto_gap import ConstrainedParetoGap
from asktell.elimination.constrained_ranking import ConstrainedRanking
from asktell.elimination.pareto_gap import ParetoGap

__all__ = ["AbstractEliminationRule", "ConstrainedParetoGap", "ConstrainedRanking", "Judgement", "ParetoGap"]
