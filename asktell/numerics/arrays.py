"""Types of arrays, and functions of arrays that several parts use."""

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_DIGITS = 12  # digits that are kept, of the 16 digits of a double
_SMALLEST = 1e-250  # no score is so small


# Types of arrays. A signature adds the shape (asktell.numerics.shapes), for example
# `Float[Floats, "arms metrics"]`. mypy checks the type of the entries, and the shape is
# for the reader: arms (K prompts), active (arms not eliminated), metrics, columns (of
# the goal), examples (N), cells (scores so far), draws (of a posterior), features.
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


def distinct(values: Ints) -> Ints:
    """The distinct whole numbers, ascending. Many times as fast as `np.unique`, which hashes large arrays."""
    return counted(values)[0]


# Numbers larger than so many times their count are sorted instead of counted.
_SPARSE = 64


def numbered(
    values: Ints,
) -> tuple[Ints, Ints]:
    """The distinct whole numbers of at least 0, ascending, and the place of each value among them.

    Many times as fast as `np.unique` where the numbers are small.
    """
    if not len(values) or int(values.max()) > _SPARSE * len(values) + _SPARSE:
        distinct_values, places = np.unique(values, return_inverse=True)
        return distinct_values, places
    occurs = np.bincount(values) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[values]


def without(values: Ints, excluded: Ints) -> Ints:
    """The values that are not excluded, in their order. Many times as fast as `np.setdiff1d` where both are few."""
    if not len(excluded) or not len(values):
        return values
    is_excluded = np.zeros(1 + max(int(values.max()), int(excluded.max())), dtype=bool)
    is_excluded[excluded] = True
    return values[~is_excluded[values]]


def counted(
    values: Ints,
) -> tuple[Ints, Ints]:
    """The distinct whole numbers, ascending, and the number of occurrences of each."""
    ordered = np.sort(values)
    starts = (
        np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        if len(ordered)
        else ordered
    )
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def decimal(differences: Floats, largest: float) -> Floats:
    """Differences of numbers up to `largest`, rounded to their precision, so that 0.3 - 0.1 equals 0.5 - 0.3.

    Numbers beyond the size of any score are not rounded.
    """
    if not _SMALLEST < largest < 1.0 / _SMALLEST:
        return differences
    return np.round(differences, _DIGITS - math.ceil(math.log10(largest)))
