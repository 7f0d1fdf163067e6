"""Types of arrays, and functions of arrays that several parts use."""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell.numerics.shapes import Float, Int

# Least number of rows of a padded array, so that few shapes are compiled. A judgement.
_LEAST = 64
_DIGITS = 12  # digits that are kept, of the 16 digits of a double
_SMALLEST = 1e-250  # no score is so small
# Number of entries above which a mostly empty table is sparse
_LARGE = 1 << 15
# Share of a table's cells with an entry, above which dense products are faster than
# sparse products
_MOSTLY_EMPTY = 0.25


def padded_size(n: int) -> int:
    """The next power of two, at least 64."""
    return max(_LEAST, 1 << (n - 1).bit_length()) if n > 0 else _LEAST


def pad_rows(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
    """The array, followed by rows of zeros up to `size` rows."""
    out = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


# Types of arrays. A signature adds the shape (asktell.numerics.shapes), for example
# `Float[Floats, "arms metrics"]`. mypy checks the type of the entries, and the shape is
# for the reader: arms (K prompts), active (arms not eliminated), metrics, columns (of
# the goal), examples (N), cells (scores so far), draws (of a posterior), features.
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

# One dimension of any kind
Vector: TypeAlias = npt.NDArray[np.float64]
# Two dimensions of any kind
Matrix: TypeAlias = npt.NDArray[np.float64]
# (draws, arms, columns) joint draws of all arms' values
Draws: TypeAlias = npt.NDArray[np.float64]
# (draws, arms) true for the arms that are meant in each draw
Masks: TypeAlias = npt.NDArray[np.bool_]
# (arms, metrics), in the metrics' own units and directions
Means: TypeAlias = npt.NDArray[np.float64]
# (active arms, columns) the goal's values, where larger is better
Values: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]  # (arms,) whole numbers of pulls
# (active arms,) positions of arms among all arms, ascending
Indices: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]  # (arms,) true for the arms that are meant
# (arms, features) one row of numbers per prompt
Features: TypeAlias = npt.NDArray[np.float64]


# Numbers larger than so many times their count are sorted instead of counted.
_SPARSE = 64


def distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct whole numbers, ascending. Many times as fast as `np.unique`, which hashes large arrays."""
    return counted(values)[0]


def numbered(
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct whole numbers of at least 0, ascending, and the place of each value among them.

    Many times as fast as `np.unique` where the numbers are small.
    """
    if not len(values) or int(values.max()) > _SPARSE * len(values) + _SPARSE:
        distinct_values, places = np.unique(values, return_inverse=True)
        return distinct_values, places
    occurs = np.bincount(values) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[values]


def without(
    values: npt.NDArray[np.int64], excluded: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The values that are not excluded, in their order. Many times as fast as `np.setdiff1d` where both are few."""
    if not len(excluded) or not len(values):
        return values
    is_excluded = np.zeros(1 + max(int(values.max()), int(excluded.max())), dtype=bool)
    is_excluded[excluded] = True
    return values[~is_excluded[values]]


def table(
    entries: Float[Floats, " entries"],
    rows: Int[Ints, " entries"],
    columns: Int[Ints, " entries"],
    shape: tuple[int, int],
) -> Any:
    """The table of the entries, summed by their places. It is sparse if it is large and mostly empty."""
    size = shape[0] * shape[1]
    if size >= _LARGE and len(entries) < _MOSTLY_EMPTY * size:
        from scipy import sparse  # here, to keep the import of asktell light

        return sparse.csr_matrix((entries, (rows, columns)), shape=shape)
    return np.bincount(rows * shape[1] + columns, entries, size).reshape(shape)


def is_binary(scores: Float[Floats, " scores"]) -> bool:
    """True if the scores are only 0 and 1, and both occur."""
    return bool(((scores == 0.0) | (scores == 1.0)).all()) and 0.0 < scores.mean() < 1.0


def counted(
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct whole numbers, ascending, and the number of occurrences of each."""
    ordered = np.sort(values)
    starts = (
        np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        if len(ordered)
        else ordered
    )
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def standardized(
    features: Float[Floats, "arms features"],
) -> Float[Floats, "arms features"]:
    """Every column with mean 0 and deviation 1. A column that is constant up to rounding becomes exactly 0."""
    centred = features - features.mean(axis=0)
    spread = centred.std(axis=0)
    rounding = 100 * np.finfo(float).eps * np.abs(features).max(axis=0, initial=0.0)
    return np.asarray(
        np.where(spread > rounding, centred / np.where(spread > 0, spread, 1.0), 0.0)
    )


def spread_evenly(n: int) -> Float[Floats, " n"]:
    """Multiples of the golden ratio in [0, 1). The first n of them are evenly spread, for every n."""
    return np.asarray(np.arange(n) * 0.6180339887498949 % 1.0)


def decimal(
    differences: npt.NDArray[np.float64], largest: float
) -> npt.NDArray[np.float64]:
    """Differences of numbers up to `largest`, rounded to their precision, so that 0.3 - 0.1 equals 0.5 - 0.3.

    Numbers beyond the size of any score are not rounded.
    """
    if not _SMALLEST < largest < 1.0 / _SMALLEST:
        return differences
    return np.round(differences, _DIGITS - math.ceil(math.log10(largest)))


def mostly_equal(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """True for rows of which at least half is one number. Such a row gives little information on the other numbers."""
    n = rows.shape[-1]
    if not n:
        return np.zeros(rows.shape[:-1], dtype=np.bool_)
    half, ordered = (n + 1) // 2, np.sort(rows, axis=-1)
    return np.asarray(
        (ordered[..., half - 1 :] == ordered[..., : n - half + 1]).any(axis=-1)
    )
