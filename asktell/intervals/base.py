"""What all bounds share: the shapes, what they return, and the checks of what came in."""

from typing import NamedTuple, TypeAlias

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
