"""Padding of arrays to few sizes, since JAX compiles a function once for each size of its arrays."""

import numpy as np
import numpy.typing as npt

# Least number of rows of a padded array, so that few shapes are compiled. A judgement.
_LEAST = 64


def padded_size(n: int) -> int:
    """The next power of two, at least 64."""
    return max(_LEAST, 1 << (n - 1).bit_length()) if n > 0 else _LEAST


def pad_rows(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
    """The array, followed by rows of zeros up to `size` rows."""
    out = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out
