"""Shared by all bounds: shapes, return values and checks of arguments."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError

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

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidArgumentError(
                f"The range must be two finite numbers, low < high; got {self.low!r}, {self.high!r}."
            )
        checked_population(self.population)

    @abstractmethod
    def lower(self, observations: npt.ArrayLike, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) lower bounds: the largest mean refuted at any look."""

    def upper(self, observations: npt.ArrayLike, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) upper bounds."""
        fields: dict[str, Any] = {"low": -self.high, "high": -self.low}
        mirrored: AbstractBounded = replace(self, **fields)  # type: ignore[type-var]
        return -mirrored.lower(-np.asarray(observations, dtype=np.float64), error)

    def interval(self, observations: npt.ArrayLike, error: Error) -> Interval:
        """(..., n) observations in their order -> two bounds each, wrong with `error` together.

        Where both sides are wrong, so that nothing is left between them, only what is certain is returned.
        """
        half = checked_error(error) / 2
        low, high = self.lower(observations, half), self.upper(observations, half)
        certain = self.certain(observations)
        return Interval(np.where(low > high, certain.low, low), np.where(low > high, certain.high, high))

    def certain(self, observations: npt.ArrayLike) -> Interval:
        """(..., n) observations -> what holds whatever the others are."""
        shape = np.shape(observations)[:-1]
        return Interval(np.full(shape, float(self.low)), np.full(shape, float(self.high)))

    def checked(self, observations: npt.ArrayLike, population: int | None) -> Floats:
        """(..., n) finite numbers in the range, at most as many as the population has members."""
        values = checked_observations(observations, population)
        outside = values[(values < self.low) | (values > self.high)]
        if outside.size:
            raise InvalidArgumentError(f"An observation, {outside[0]}, is outside the range [{self.low}, {self.high}].")
        return values

    def scaled(self, values: Floats) -> Floats:
        """In units of the range, from 0 at its low end."""
        return (values - self.low) / (self.high - self.low)


def checked_error(error: Error) -> Floats:
    """The same, refused outside (0, 1)."""
    errors = np.asarray(error, dtype=np.float64)
    if not ((errors > 0) & (errors < 1)).all():
        raise InvalidArgumentError(f"The error of a bound must be between 0 and 1, not {error!r}.")
    return errors


def checked_population(population: int | None) -> None:
    """Refuse a population without members."""
    if population is not None and population < 1:
        raise InvalidArgumentError(f"The population must be at least 1, or None for any number; got {population!r}.")


def checked_observations(observations: npt.ArrayLike, population: int | None) -> Floats:
    """(..., n) finite numbers, at most as many as the population has members."""
    values = np.asarray(observations, dtype=np.float64)
    if values.ndim < 1:
        raise InvalidArgumentError(f"Observations are an array of shape (..., n), got a single number: {values}.")
    if not np.isfinite(values).all():
        raise InvalidArgumentError("Observations must be finite numbers; leave out what was not observed.")
    if population is not None and values.shape[-1] > population:
        raise InvalidArgumentError(
            f"{values.shape[-1]} observations without replacement came from a population of {population}. "
            "Give every member once, or population=None for independent draws."
        )
    return values
