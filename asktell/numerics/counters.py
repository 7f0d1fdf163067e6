"""Randomness from counters: the same seed, purpose and counter give the same bits in every process, for ever.

There is no generator state to save, and no dependence on a library's choice of
algorithm. The mixer is the finalizer of SplitMix64 (Steele, Lea & Flood 2014).
"""

import zlib

import numpy as np
import numpy.typing as npt

from asktell.numerics.arrays import Ints

# 2^64 over the golden ratio. This constant and those of `_mix` are SplitMix64's.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def bits(seed: int, purpose: str, *counters: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """64 random bits for every element of the (broadcast) counters, which are non-negative whole numbers."""
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    with np.errstate(over="ignore"):
        state = _mix(
            _mix(key + _GOLDEN) + np.uint64(zlib.crc32(purpose.encode())) * _GOLDEN
        )
        for counter in counters:
            state = _mix(
                state + (np.asarray(counter).astype(np.uint64) + np.uint64(1)) * _GOLDEN
            )
    return state


def integers(seed: int, purpose: str, high: int, *counters: npt.ArrayLike) -> Ints:
    """Uniform whole numbers in range(high), one for every element of the counters. `high` is below 2**31."""
    top = bits(seed, purpose, *counters) >> np.uint64(32)
    return ((top * np.uint64(high)) >> np.uint64(32)).astype(np.int64)


def permutation(seed: int, purpose: str, n: int, *counters: int) -> Ints:
    """A uniform order of range(n)."""
    return np.argsort(bits(seed, purpose, *counters, np.arange(n)), kind="stable")


def chance_order(seed: int, items: npt.ArrayLike) -> Ints:
    """Positions of the items (whole numbers) in the order that decides among equals.

    The order of two items does not depend on the other items. So a selection changes by
    new scores, and not because other items were eliminated.
    """
    return np.argsort(bits(seed, "chance", items), kind="stable")
