"""Names for the shapes that travel between the parts: K arms, m metrics, A active arms, d features, q rule values."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Means: TypeAlias = npt.NDArray[np.float64]
"""(arms, metrics), in the metrics' own units and directions."""

Values: TypeAlias = npt.NDArray[np.float64]
"""(active arms, columns), larger is better in every column; made from means by a goal, read by an elimination rule."""

Counts: TypeAlias = npt.NDArray[np.int64]
"""(arms,) whole numbers of pulls."""

Indices: TypeAlias = npt.NDArray[np.int64]
"""(active arms,) positions of arms among all arms, ascending."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""(arms,) true for the arms that are meant."""

Features: TypeAlias = npt.NDArray[np.float64]
"""(arms, features) one row of numbers per prompt."""


def distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(n,) whole numbers, ascending, each once: many times as fast as `np.unique`, which hashes large arrays."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
