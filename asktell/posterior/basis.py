"""The levels of candidates' factors, as columns of which the candidates' effects may be made.

A factor's level has an effect on all candidates of that level. How much a factor matters is estimated from the scores
(`asktell.posterior.two_way`).
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Indices, Matrix
from asktell.problem.candidates import Candidates

_MOST_LEVELS = 512  # of all factors: equations of that size take a tenth of a second


class Basis(NamedTuple):
    """`columns` (K, q), whose rows have a mean squared length of 1.

    `blocks` (q,): which columns belong together, each with a variance to be estimated; None: all have the same one.
    """

    columns: Matrix
    blocks: Indices | None = None


def of_factors(candidates: Candidates) -> Basis | None:
    """A column for each level of the factors with several levels; None if there is none.

    See `levels_of` for the factors that count.
    """
    parts = [(codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64) for codes in levels_of(candidates)]
    if not parts:
        return None
    blocks = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return Basis(np.concatenate(parts, axis=1), blocks)


def levels_of(candidates: Candidates) -> list[Indices]:
    """For each factor that counts, (K,) the number of each candidate's level.

    One with a single level, or with one for each candidate, says nothing that the candidate's own effect does not. Of
    factors with more than 512 levels in all, those with the fewest count.
    """
    codes = [np.unique(column, return_inverse=True)[1] for column in zip(*candidates.levels, strict=True)]
    found, left = [], _MOST_LEVELS
    for one in sorted(codes, key=lambda one: int(one.max())):
        n = int(one.max()) + 1
        if 1 < n < len(one) and n <= left:
            found.append(one)
            left -= n
    return found
