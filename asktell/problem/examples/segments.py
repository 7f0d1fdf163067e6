"""The segments of the examples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int


class Segments(NamedTuple):
    """The segments of the examples."""

    names: tuple[str, ...]  # (G,) in ascending order
    # The segment of each example, as its place among the names
    of_examples: Int[Ints, " examples"]

    @classmethod
    def of(cls, labels: Sequence[str]) -> "Segments":
        """The segments of examples with these labels (N,)."""
        names, kinds = np.unique(np.array(labels, dtype=object), return_inverse=True)
        return cls(tuple(names.tolist()), kinds)

    @property
    def sizes(self) -> Float[Floats, " segments"]:
        """The number of examples in each segment."""
        return np.bincount(self.of_examples, minlength=len(self.names)).astype(
            np.float64
        )
