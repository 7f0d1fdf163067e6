"""The levels of candidates' factors, as columns of a regression of the candidates' effects.

A factor's level has an effect on all candidates of that level. How much a factor
matters is estimated from the scores (`asktell.posterior.two_way`).
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.problem.candidates import Candidates

# Most levels of all factors together: equations of that size take a tenth of a second
_MOST_LEVELS = 512


class Basis(NamedTuple):
    """Columns of candidates' factors."""

    # Whose rows have a mean squared length of 1
    columns: Float[Floats, "arms features"]
    # The block of each column. The slopes of a block have a variance of their own;
    # None: one variance for all.
    blocks: Int[Ints, " features"] | None = None


def of_factors(candidates: Candidates) -> Basis | None:
    """A column for each level of the factors that count. None if no factor counts.

    See `levels_of` for the factors that count.
    """
    parts = [
        (codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64)
        for codes in levels_of(candidates)
    ]
    if not parts:
        return None
    blocks = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return Basis(np.concatenate(parts, axis=1), blocks)


def levels_of(candidates: Candidates) -> list[Int[Ints, " arms"]]:
    """The number of each candidate's level, for each factor that counts.

    A factor with a single level, or with a level for each candidate, adds nothing to
    the candidates' own effects, and does not count. Factors count in the order of their
    number of levels, up to 512 levels in all.
    """
    codes = [
        np.unique(column, return_inverse=True)[1]
        for column in zip(*candidates.levels, strict=True)
    ]
    found, left = [], _MOST_LEVELS
    for one in sorted(codes, key=lambda one: int(one.max())):
        n = int(one.max()) + 1
        if 1 < n < len(one) and n <= left:
            found.append(one)
            left -= n
    return found
