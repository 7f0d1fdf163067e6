"""Cells (arm, example) that were scored several times: their means, and the noise within them.

A score is what its cell scores on average, plus noise of a variance w: the same model
at a temperature above 0, or a judge, gives different scores at different times. The
quantity of interest is the mean over the N examples of those averages. Of a prompt with
n cells, of which the j-th was scored r_j times, and with the variance s² of its cells'
means, the sample mean has the squared standard error

    s² (1/n - 1/N) + (w / N) mean(1/r_j).

That is (s² - w mean(1/r_j)) (1/n - 1/N), the examples' part, which vanishes when all of
them are seen, and w mean(1/r_j) / n, the noise's part, which does not.

The noise is estimated by moments: the sums of squares within cells over their degrees
of freedom, sum(r_j - 1). There are few of these, or none, as long as few cells were
repeated. So a guess counts beside them, as much as `PRIOR_FREEDOM` degrees of freedom:
that `PRIOR_SHARE` of a score's variance is noise. A prompt's own noise is drawn
likewise to that of all: scores of 0 and 1 have the less of it, the nearer their mean is
to either.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from asktell.numerics.arrays import Floats, Ints

PRIOR_SHARE = 0.5  # a judgement, as are the others
PRIOR_FREEDOM = 4.0
# Scores that came again, of no simple value, of a metric without noise
_FEWEST_EQUAL = 3


class Scored(NamedTuple):
    """Cells, each once: `arms` and `examples` (c,), -1 for an example that is none of the N.

    `scores` (c, m) are their means, `asks` (c,) how often each was scored, and
    `squares` (c, m) the sums of squares of its scores about that mean.
    """

    arms: Int[Ints, " cells"]
    examples: Int[Ints, " cells"]
    scores: Float[Floats, "cells metrics"]
    asks: Int[Ints, " cells"]
    squares: Float[Floats, "cells metrics"]

    @classmethod
    def of(
        cls,
        arms: Int[Ints, " rows"],
        examples: Int[Ints, " rows"],
        scores: Float[Floats, "rows metrics"],
        n_examples: int,
    ) -> "Scored":
        """The cells in rows of scores, by arm and example. A row without an example is a cell of its own."""
        key = np.where(
            examples < 0, -1 - np.arange(len(arms)), arms * n_examples + examples
        )
        _, first, cell, asks = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        about = scores[first]
        if len(first) == len(arms):
            return cls(arms[first], examples[first], about, asks, np.zeros_like(about))
        # Sums about the first score: a cell whose scores agree keeps them exactly.
        off = scores - about[cell]
        sums, squares = np.zeros_like(about), np.zeros_like(about)
        np.add.at(sums, cell, off)
        means = about + sums / asks[:, None]
        np.add.at(squares, cell, (scores - means[cell]) ** 2)
        return cls(arms[first], examples[first], means, asks, squares)

    @property
    def disagree(self) -> bool:
        """True if any cell's scores differ."""
        return bool((self.squares > 0.0).any())

    def noise(self, variance: Float[Floats, " metrics"]) -> Float[Floats, " metrics"]:
        """Variance of a score within its cell; `variance` (m,) is that of scores, for the guess."""
        freedom = float((self.asks - 1).sum())
        # A metric is exact whose scores always came again as they were, which by chance
        # only small simple ones do.
        again = self.scores[self.asks > 1]
        simple = (np.abs(again) <= 10.0) & (4.0 * again == np.round(4.0 * again))
        are_exact = (self.squares == 0.0).all(axis=0) & (
            (~simple).sum(axis=0) >= _FEWEST_EQUAL
        )
        guess = np.where(are_exact, 0.0, PRIOR_SHARE * variance)
        return np.asarray(
            (self.squares.sum(axis=0) + PRIOR_FREEDOM * guess)
            / (freedom + PRIOR_FREEDOM)
        )

    def noise_of_means(
        self, variance: Float[Floats, " metrics"], n_arms: int
    ) -> Float[Floats, "arms metrics"]:
        """Variance by noise of the cells' means, w mean(1/r_j) of every arm; 0 for one without cells."""
        n_cells = np.maximum(np.bincount(self.arms, minlength=n_arms), 1)
        freedom = np.bincount(self.arms, self.asks - 1.0, n_arms)[:, None]
        squares = np.stack(
            [np.bincount(self.arms, column, n_arms) for column in self.squares.T],
            axis=1,
        )
        own = (squares + PRIOR_FREEDOM * self.noise(variance)) / (
            freedom + PRIOR_FREEDOM
        )
        return np.asarray(
            own * (np.bincount(self.arms, 1.0 / self.asks, n_arms) / n_cells)[:, None]
        )


def nth_asks(
    trials: Int[Ints, " rows"], cells: Int[Ints, " rows"]
) -> Int[Ints, " rows"]:
    """Which of its cell's scores each row is, from 0: observed ones (-1) come first, the others as asked."""
    order = np.lexsort((trials, cells))
    ordered = cells[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(cells)]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(cells)), 0))
    nth = np.empty(len(cells), dtype=np.int64)
    nth[order] = np.arange(len(cells)) - starts
    return nth
