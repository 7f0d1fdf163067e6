"""Prompts' means in segments of the examples: the two-way model, with an arm for every pair of a prompt and a segment.

The effect of a pair is the sum of three parts: the prompt's, which is the same in every
segment, the segment's, which is the same for every prompt, and the pair's own. The
shares of the parts are estimated by likelihood, as for candidates with factors: prompt
and segment are the regressors. So scores of a prompt in other segments count
in a segment where it has seen little. With more than a hundred prompts they do not,
since the equations would take seconds.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Float, Int
from asktell.posterior.equations import Groups
from asktell.posterior.regressors import Regressors
from asktell.posterior.two_way import Posterior, posterior
from asktell.problem.examples.segments import Segments

# Most prompts with a common part in all segments: a quarter of a second for ten
# segments
_MOST_ARMS = 100
# The variance between segments is estimated from few segments, and then taken as known.
# So errors are too small by this factor where scores are graded. Scores of 0 and 1 need
# none. On simulated worlds of other seeds, 95% are then covered.
_WIDER = 1.2
# Draws of leads: a probability of 0.95 has a standard error of 0.005
_DRAWS = 2048


def pairs(
    cells: Cells,
    column: int,
    n_arms: int,
    segments: Segments,
    n_examples: int,
    averaged: bool,
) -> Posterior:
    """The posterior of a column's mean for each pair of a prompt and a segment, in the order of prompts.

    The means are over new examples if `n_examples` is ENDLESS. Scores on examples that
    are none of the N are in no segment, and are not used.
    """
    n, scored = len(segments.names), cells.of_column(column)
    named = scored.where(scored.examples >= 0)
    in_pairs = named._replace(
        arms=named.arms * n + segments.of_examples[named.examples]
    )
    n_listed = len(segments.of_examples)
    sizes = segments.sizes if n_examples == n_listed else np.full(n, float(n_examples))
    groups = Groups(np.tile(np.arange(n), n_arms), segments.of_examples, sizes)
    return posterior(
        in_pairs,
        column,
        n_arms * n,
        n_examples,
        None,
        averaged,
        _regressors(n_arms, n),
        None,
        groups,
    )


class SegmentMeans(NamedTuple):
    """The means of every column in every segment, for results."""

    means: Float[Floats, "arms columns segments"]
    errors: Float[Floats, "arms columns segments"]
    # Of each column, the posterior of all pairs of a prompt and a segment. Empty where
    # only means are needed.
    fits: tuple[Posterior, ...] = ()

    def lead_means(
        self,
        column: int,
        arms: Int[Ints, " pairs"],
        over: int,
        kinds: Int[Ints, " pairs"],
    ) -> Float[Floats, " pairs"]:
        """The expected leads of which `leads` has draws."""
        means = self.means[:, column]
        return np.asarray(means[arms, kinds] - means[over, kinds])

    def leads(
        self,
        column: int,
        arms: Int[Ints, " pairs"],
        over: int,
        kinds: Int[Ints, " pairs"],
    ) -> Float[Floats, "draws pairs"]:
        """Joint draws of the lead of each arm over the arm `over` in one segment, in units of the column.

        `kinds` are the segments of the pairs. The draws have the same means and errors
        as the segments' means.
        """
        n, n_pairs = self.means.shape[2], len(arms)
        places = np.concatenate((arms, np.full(n_pairs, over))) * n + np.tile(kinds, 2)
        fit = self.fits[column].of_some(places)
        # The same random numbers at every look, as for a statement
        normals = np.random.default_rng(column).normal(size=(_DRAWS, fit.n_normals))
        drawn = fit.draws(normals)
        # Without an error, such as of scores that all agree, the draws have one, too.
        errors = self.errors[:, column].ravel()[places]
        is_wider = np.isfinite(errors) & (fit.sd > 0.0)
        wider = np.where(is_wider, errors / np.where(is_wider, fit.sd, 1.0), 1.0)
        drawn = self.means[:, column].ravel()[places] + wider * (drawn - fit.mean)
        return np.asarray(drawn[:, :n_pairs] - drawn[:, n_pairs:])

    def agreeing(
        self, means: Float[Floats, "arms columns"], sizes: Float[Floats, " segments"]
    ) -> "SegmentMeans":
        """The same, moved so that a prompt's segments have its `means` over all examples.

        Uncertain means of large segments move most: the update of independent means by
        their exact weighted sum.
        """
        shares = sizes / sizes.sum()
        variances = np.nan_to_num(self.errors**2, nan=0.0)
        # Without any error, all move alike.
        variances[(variances == 0.0).all(axis=2)] = 1.0
        off = means - self.means @ shares
        part = shares * variances / (variances @ shares**2)[:, :, None]
        moved = self.means + off[:, :, None] * part
        is_known = (self.errors == 0.0).all(axis=2, keepdims=True)
        return self._replace(means=np.where(is_known, self.means, moved))


def segment_means(
    cells: Cells, n_arms: int, segments: Segments | None, n_examples: int | None
) -> SegmentMeans | None:
    """The means of every column in every segment. None without segments, or if no score belongs to one."""
    if segments is None or n_examples is None or (cells.examples < 0).all():
        return None
    means, errors, fits = [], [], []
    for column in range(cells.scores.shape[1]):
        fit = pairs(cells, column, n_arms, segments, n_examples, averaged=True)
        means.append(fit.mean.reshape(n_arms, -1))
        of_column = cells.of_column(column).scores[:, column]
        wider = 1.0 if np.isin(of_column, (0.0, 1.0)).all() else _WIDER
        errors.append(wider * fit.sd.reshape(n_arms, -1))
        fits.append(fit)
    return SegmentMeans(np.stack(means, axis=1), np.stack(errors, axis=1), tuple(fits))


def _regressors(n_arms: int, n: int) -> Regressors:
    """A column for each prompt and each segment. With many prompts, only segments have columns."""
    of_segments = np.tile(np.eye(n), (n_arms, 1))
    if n_arms > _MOST_ARMS:
        return Regressors.of_arms(of_segments, np.zeros(n, dtype=np.int64))
    both = np.repeat(np.eye(n_arms), n, axis=0), of_segments
    return Regressors.of_arms(
        np.concatenate(both, axis=1), np.repeat([0, 1], [n_arms, n])
    )
