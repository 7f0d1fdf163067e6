"""Shared by all bounds: shapes, return values, and sequences of bounded observations.

Observations are finite, in their range, and at most as many as their population has members: goals and states see to
that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Bets: TypeAlias = npt.NDArray[np.bool_]
Error: TypeAlias = float | Floats
"""The probability with which a bound may ever be wrong: one number, or one for every sequence."""

_HALVINGS = 24  # numerical: bounds to 6e-8 of the range
_ROUNDING = 1e-12  # of a mean: sums of decimal fractions differ by some units in the last place


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
    def refuter(self, observations: Floats, error: Error) -> Callable[[Floats], Bets]:
        """(..., n) observations in their order -> of means (...) that are possible, which are refuted at any look."""

    def lower(self, observations: Floats, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) lower bounds: the largest mean refuted at any look."""
        refutes, (refuted, open_) = self.refuter(observations, error), self.certain(observations)
        for _ in range(_HALVINGS):
            middle = (refuted + open_) / 2
            out = refutes(middle)
            refuted, open_ = np.where(out, middle, refuted), np.where(out, open_, middle)
        return refuted

    def refutes(self, observations: Floats, claim: float, error: Error) -> Bets:
        """(..., n) observations in their order -> (...) whether a mean of at most `claim` is refuted."""
        certain = self.certain(observations)
        refuted = self.refuter(observations, error)(np.full(observations.shape[:-1], claim)) & (certain.high > claim)
        return refuted | (certain.low > claim + _ROUNDING * (1.0 + abs(claim)))

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
