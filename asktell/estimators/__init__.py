"""Estimators: scores to means and their uncertainty."""

from asktell.estimators.base import AbstractEstimator, Estimates, Evidence, Tally
from asktell.estimators.sample_mean import SampleMean

__all__ = ["AbstractEstimator", "Estimates", "Evidence", "SampleMean", "Tally"]
