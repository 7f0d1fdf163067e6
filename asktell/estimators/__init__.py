"""Estimators turn recorded scores into means and their uncertainty."""

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
