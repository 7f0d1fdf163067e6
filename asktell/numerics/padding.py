"""Fixed shapes for compiled functions: arms are padded to a power of two, so that few sizes are ever compiled."""

import numpy as np
import numpy.typing as npt

_LEAST = 64


def padded_size(n: int) -> int:
    """The next power of two, at least 64."""
    return max(_LEAST, 1 << (n - 1).bit_length()) if n > 0 else _LEAST


def pad_rows(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
    """The array with rows of zeros behind it, `size` rows in all."""
    out = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out
