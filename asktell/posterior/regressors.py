"""The columns of the regression in the two-way model, such as the levels of candidates' factors.

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


class Regressors(NamedTuple):
    """Columns of a regression of the scores: q columns with a number for each arm, then r with one for each cell.

    A column of the arms, such as a level of a factor, explains a part of the arms' own
    effects. A column of the cells, such as the scores of a proxy, may also explain a
    part of the examples' effects and of the residual. The scores of an arm with the
    numbers of its cells would have the means `cell_means`. Where these are means over a
    sample of inputs, they differ from those over new inputs by an error that all arms
    share, and by one of each arm.
    """

    arms: Float[Floats, "arms levels"]  # whose rows have a mean squared length of 1
    cells: Float[Floats, "cells covariates"]
    cell_means: Float[Floats, "arms covariates"]
    # Standard deviations of the errors of `cell_means`, 0 over the given examples
    shared_error: Float[Floats, " covariates"]
    arm_error: Float[Floats, "arms covariates"]
    # The block of each column, from 0. The slopes of a block have a variance of their
    # own. No block has columns of both kinds.
    blocks: Int[Ints, " features"]

    @classmethod
    def of_arms(
        cls,
        columns: Float[Floats, "arms levels"],
        blocks: Int[Ints, " levels"] | None = None,
    ) -> "Regressors":
        """Columns of the arms only, by default in one block."""
        n_arms, n = columns.shape
        blocks = np.zeros(n, np.int64) if blocks is None else blocks
        none = np.zeros((n_arms, 0))
        return cls(columns, np.zeros((0, 0)), none, np.zeros(0), none, blocks)

    def of_seen(self, seen: Int[Ints, " seen"]) -> "Regressors":
        """The columns of some arms, which have all cells."""
        return self._replace(
            arms=self.arms[seen],
            cell_means=self.cell_means[seen],
            arm_error=self.arm_error[seen],
        )

    @property
    def n_arm_blocks(self) -> int:
        """The number of blocks of columns of the arms."""
        return int(self.blocks[: self.arms.shape[1]].max(initial=-1)) + 1

    @property
    def means(self) -> Float[Floats, "arms features"]:
        """The arms' means if a column were the scores."""
        return np.concatenate((self.arms, self.cell_means), axis=1)


def of_factors(candidates: Candidates) -> Regressors | None:
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
    return Regressors.of_arms(np.concatenate(parts, axis=1), blocks)


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
    counting, left = [], _MOST_LEVELS
    for levels in sorted(codes, key=lambda levels: int(levels.max())):
        n = int(levels.max()) + 1
        if 1 < n < len(levels) and n <= left:
            counting.append(levels)
            left -= n
    return counting
