"""Names for the shapes that travel between the parts: K arms, m metrics, A active arms, d features, q rule values.

And what several parts do with such arrays.
"""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

_LEAST = 64  # rows of a padded array, so that few shapes are compiled; a judgement
_DIGITS = 12  # numerical: of the 16 of a double
_SMALLEST = 1e-250  # numerical: no score is so small
_LARGE = 1 << 15  # entries; beyond, tables are sparse if they are mostly empty
# Of a table's cells; with more of them, dense products are faster than sparse ones
_MOSTLY_EMPTY = 0.25


def padded_size(n: int) -> int:
    """The next power of two, at least 64."""
    return max(_LEAST, 1 << (n - 1).bit_length()) if n > 0 else _LEAST


def pad_rows(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
    """The array with rows of zeros behind it, `size` rows in all."""
    out = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


# Types of arrays. A signature adds the shape in jaxtyping's notation, for example
# `Float[Floats, "arms metrics"]`. mypy checks the type of the entries, and the shape is
# for the reader: arms (K prompts), active (arms not eliminated), metrics, columns (of
# the goal), examples (N), cells (scores so far), draws (of a posterior), features.
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

# One number each; the signature says of what
Vector: TypeAlias = npt.NDArray[np.float64]
# Rows and columns of any kind; the signature says which
Matrix: TypeAlias = npt.NDArray[np.float64]
# (draws, arms, columns) joint draws of all arms' values
Draws: TypeAlias = npt.NDArray[np.float64]
# (draws, arms) true for the arms that are meant in each draw
Masks: TypeAlias = npt.NDArray[np.bool_]
# (arms, metrics), in the metrics' own units and directions
Means: TypeAlias = npt.NDArray[np.float64]
# (active arms, columns), larger is better; made from means by a goal
Values: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]  # (arms,) whole numbers of pulls
# (active arms,) positions of arms among all arms, ascending
Indices: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]  # (arms,) true for the arms that are meant
# (arms, features) one row of numbers per prompt
Features: TypeAlias = npt.NDArray[np.float64]


def distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(n,) whole numbers, ascending, each once: many times as fast as `np.unique`, which hashes large arrays."""
    return counted(values)[0]


def table(
    entries: Float[Floats, " entries"],
    rows: Int[Ints, " entries"],
    columns: Int[Ints, " entries"],
    shape: tuple[int, int],
) -> Any:
    """(n,) entries summed by their places; sparse where the table is large and mostly empty."""
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
    """(n,) whole numbers, ascending, each once, and how often each came."""
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
    """Every column with mean 0 and deviation 1; one that is constant up to rounding becomes exactly 0."""
    centred = features - features.mean(axis=0)
    spread = centred.std(axis=0)
    rounding = 100 * np.finfo(float).eps * np.abs(features).max(axis=0, initial=0.0)
    return np.asarray(
        np.where(spread > rounding, centred / np.where(spread > 0, spread, 1.0), 0.0)
    )


def spread_evenly(n: int) -> Float[Floats, " n"]:
    """Numbers in [0, 1): the golden ratio's multiples, of which any first ones lie evenly."""
    return np.asarray(np.arange(n) * 0.6180339887498949 % 1.0)


def decimal(
    differences: npt.NDArray[np.float64], largest: float
) -> npt.NDArray[np.float64]:
    """(..., n) differences of numbers up to `largest`, rounded to what these can tell: 0.3 - 0.1 and 0.5 - 0.3 are one.

    Sizes that no score has are left as they are.
    """
    if not _SMALLEST < largest < 1.0 / _SMALLEST:
        return differences
    return np.round(differences, _DIGITS - math.ceil(math.log10(largest)))


def mostly_equal(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """(..., n) -> (...) whether half of a row or more are one number: that says little of how far another may lie."""
    n = rows.shape[-1]
    if not n:
        return np.zeros(rows.shape[:-1], dtype=np.bool_)
    half, ordered = (n + 1) // 2, np.sort(rows, axis=-1)
    return np.asarray(
        (ordered[..., half - 1 :] == ordered[..., : n - half + 1]).any(axis=-1)
    )
