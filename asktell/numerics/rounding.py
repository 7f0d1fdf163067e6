"""Numbers that are equal but for the rounding of sums and differences of decimal fractions."""

import math

import numpy as np
import numpy.typing as npt

_DIGITS = 12
_SMALLEST = 1e-250


def decimal(differences: npt.NDArray[np.float64], largest: float) -> npt.NDArray[np.float64]:
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
    return np.asarray((ordered[..., half - 1 :] == ordered[..., : n - half + 1]).any(axis=-1))
