"""Shared by all bounds: shapes, return values, and sequences of bounded observations.

Observations are finite, in their range, and at most as many as their population has members: goals and states see to
that.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Error: TypeAlias = float | Floats
"""The probability with which a bound may ever be wrong: one number, or one for every sequence."""


class Interval(NamedTuple):
    """Bounds on a mean, one of each per sequence, in the observations' units."""

    low: Floats
    high: Floats


class AbstractBounded(ABC):
    """A confidence sequence for the mean of observations in [low, high]; a frozen dataclass with these as fields."""

    low: float
    high: float
    population: int | None

    @abstractmethod
    def lower(self, observations: Floats, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) lower bounds: the largest mean refuted at any look."""

    def upper(self, observations: Floats, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) upper bounds."""
        fields: dict[str, Any] = {"low": -self.high, "high": -self.low}
        mirrored: AbstractBounded = replace(self, **fields)  # type: ignore[type-var]
        return -mirrored.lower(-observations, error)

    def interval(self, observations: Floats, error: Error) -> Interval:
        """(..., n) observations in their order -> two bounds each, wrong with `error` together.

        Where both sides are wrong, so that nothing is left between them, only what is certain is returned.
        """
        half = np.asarray(error) / 2
        low, high = self.lower(observations, half), self.upper(observations, half)
        certain = self.certain(observations)
        return Interval(np.where(low > high, certain.low, low), np.where(low > high, certain.high, high))

    def certain(self, observations: Floats) -> Interval:
        """(..., n) observations -> what holds whatever the others are."""
        shape = observations.shape[:-1]
        return Interval(np.full(shape, float(self.low)), np.full(shape, float(self.high)))

    def scaled(self, values: Floats) -> Floats:
        """In units of the range, from 0 at its low end."""
        return (values - self.low) / (self.high - self.low)
