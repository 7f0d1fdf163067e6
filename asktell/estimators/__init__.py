"""Estimators compute the means of the arms (prompts) and their standard errors from the recorded scores."""

from asktell.estimators.base import AbstractEstimator, Estimates, Sample
from asktell.estimators.least_squares import LeastSquares
from asktell.estimators.mlp import MLP
from asktell.estimators.sample_mean import SampleMean

__all__ = [
    "MLP",
    "AbstractEstimator",
    "Estimates",
    "LeastSquares",
    "Sample",
    "SampleMean",
]
