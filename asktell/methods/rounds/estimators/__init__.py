"""Estimators compute the means of the arms (prompts) and their standard errors from the recorded scores."""

from asktell.methods.rounds.estimators.base import AbstractEstimator, Estimates, Sample
from asktell.methods.rounds.estimators.least_squares import LeastSquares
from asktell.methods.rounds.estimators.mlp import MLP
from asktell.methods.rounds.estimators.sample_mean import SampleMean

__all__ = [
    "MLP",
    "AbstractEstimator",
    "Estimates",
    "LeastSquares",
    "Sample",
    "SampleMean",
]
