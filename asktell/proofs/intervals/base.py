"""Shapes, return values and the base class of all bounds.

Observations must be finite, in their range, and at most as many as their population has
members. Goals and states ensure that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.shapes import Bool, Float

Error: TypeAlias = float | Floats
"""The probability with which a bound may ever be wrong: one number, or one for every sequence."""

# Bounds are found to 6e-8 of the range.
_HALVINGS = 24
# Relative rounding of a mean: sums of decimal fractions differ by some units in the
# last place
_ROUNDING = 1e-12


class Interval(NamedTuple):
    """Lower and upper bounds on a mean, for each sequence, in the observations' units."""

    low: Float[Floats, "*shape"]
    high: Float[Floats, "*shape"]


class AbstractBounded(ABC):
    """A confidence sequence for the mean of observations in [low, high].

    Subclasses are frozen dataclasses with these fields. Several sequences are computed
    together: the last axis of the observations is their order, and `shape` stands for
    the axes before it.
    """

    low: float
    high: float
    population: int | None

    @abstractmethod
    def refuter(
        self, observations: Float[Floats, "*shape n"], error: Error
    ) -> Callable[[Floats], Bools]:
        """Return a function of possible means, one for each sequence. It is True for the means refuted at any look."""

    def lower(
        self, observations: Float[Floats, "*shape n"], error: Error
    ) -> Float[Floats, "*shape"]:
        """Lower bounds, each wrong with probability `error`: the largest mean refuted at any look, by bisection."""
        refutes = self.refuter(observations, error)
        # The bound lies between a refuted mean and an open one. If a mean is refuted, so
        # are all smaller means.
        refuted, open_ = self.certain(observations)
        for _ in range(_HALVINGS):
            middle = (refuted + open_) / 2
            is_refuted = refutes(middle)
            refuted = np.where(is_refuted, middle, refuted)
            open_ = np.where(is_refuted, open_, middle)
        return refuted

    def refutes(
        self, observations: Float[Floats, "*shape n"], claim: float, error: Error
    ) -> Bool[Bools, "*shape"]:
        """True where the claim that the mean is at most `claim` is refuted."""
        certain = self.certain(observations)
        claims = np.full(observations.shape[:-1], claim)
        refuted = self.refuter(observations, error)(claims) & (certain.high > claim)
        return refuted | (certain.low > claim + _ROUNDING * (1.0 + abs(claim)))

    def upper(
        self, observations: Float[Floats, "*shape n"], error: Error
    ) -> Float[Floats, "*shape"]:
        """Upper bounds, each wrong with probability `error`: lower bounds of the mirrored observations."""
        fields: dict[str, Any] = {"low": -self.high, "high": -self.low}
        mirrored: AbstractBounded = replace(self, **fields)  # type: ignore[type-var]
        return -mirrored.lower(-observations, error)

    def interval(
        self, observations: Float[Floats, "*shape n"], error: Error
    ) -> Interval:
        """Lower and upper bounds, wrong together with probability `error`.

        If the two exclude each other, both are wrong, and the certain bounds are
        returned.
        """
        half = np.asarray(error) / 2
        low, high = self.lower(observations, half), self.upper(observations, half)
        certain = self.certain(observations)
        return Interval(
            np.where(low > high, certain.low, low),
            np.where(low > high, certain.high, high),
        )

    def certain(self, observations: Float[Floats, "*shape n"]) -> Interval:
        """Bounds that hold whatever the other observations are."""
        shape = observations.shape[:-1]
        return Interval(
            np.full(shape, float(self.low)), np.full(shape, float(self.high))
        )

    def scaled(self, values: Floats) -> Floats:
        """The values in units of the range, from 0 at its low end."""
        return (values - self.low) / (self.high - self.low)
