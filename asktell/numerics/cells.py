"""Cells (arm, example) that were scored several times: their means, and the noise within them.

A score is the expected score of its cell plus noise of a variance w. For example, a
model at a temperature above 0, or a judge, gives different scores at different times.
The quantity of interest is the mean of the expected scores over the N examples. Let a
prompt have n cells, let the j-th cell have r_j scores, and let s² be the variance of
the cells' means. The sample mean then has the squared standard error

    s² (1/n - 1/N) + (w / N) mean(1/r_j).

This is the sum of two parts. The examples' part, (s² - w mean(1/r_j)) (1/n - 1/N),
vanishes when all examples are seen. The noise's part, w mean(1/r_j) / n, does not.

The noise is estimated by moments, as the sums of squares within cells over their
degrees of freedom, sum(r_j - 1). As long as few cells were repeated, these are few or
none. So a prior counts beside them, with `PRIOR_FREEDOM` degrees of freedom. In the
prior, `PRIOR_SHARE` of a score's variance is noise. A prompt's own noise is shrunk in
the same way to the noise of all prompts. It differs from prompt to prompt, since scores
of 0 and 1 have less noise if their mean is near 0 or 1.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int

# Judgements
PRIOR_SHARE = 0.5
PRIOR_FREEDOM = 4.0
# Number of repeated scores, of no simple value, from which a metric has no noise
_FEWEST_EQUAL = 3


class Cells(NamedTuple):
    """The distinct cells, with `examples` of -1 for an example that is none of the N.

    `scores` are the means of the cells' scores, NaN where an evaluation failed. `asks`
    are the numbers of scores, 0 for a cell that failed, and `squares` the sums of
    squares of the scores about their means. Unless the cells are noisy, all scores of a
    cell are taken to be equal.
    """

    arms: Int[Ints, " cells"]
    examples: Int[Ints, " cells"]
    scores: Float[Floats, "cells metrics"]
    asks: Int[Ints, " cells"]
    squares: Float[Floats, "cells metrics"]
    is_noisy: bool

    @classmethod
    def of(
        cls,
        arms: Int[Ints, " rows"],
        examples: Int[Ints, " rows"],
        scores: Float[Floats, "rows metrics"],
        n_examples: int | None,
        is_noisy: bool = False,
    ) -> "Cells":
        """The cells in rows of scores, by arm and example. A row without an example is a cell of its own.

        The cells are noisy if `is_noisy`, or if scores of a cell differ. Without
        examples (`n_examples` is None), every row is a cell, and no cell is noisy.
        """
        if n_examples is None:
            order = np.argsort(arms, kind="stable")
            return cls.single(arms[order], examples[order], scores[order], False)
        key = np.where(
            examples < 0, -1 - np.arange(len(arms)), arms * n_examples + examples
        )
        _, first, cell, asks = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        about = scores[first]
        if len(first) == len(arms):
            return cls.single(arms[first], examples[first], about, is_noisy)
        # Sums are about the first score, so that scores that agree are kept exactly.
        off = scores - about[cell]
        sums, squares = np.zeros_like(about), np.zeros_like(about)
        np.add.at(sums, cell, off)
        means = about + sums / asks[:, None]
        np.add.at(squares, cell, (scores - means[cell]) ** 2)
        differ = bool((squares > 0.0).any())
        return cls(
            arms[first], examples[first], means, asks, squares, is_noisy or differ
        )

    @classmethod
    def single(
        cls,
        arms: Int[Ints, " cells"],
        examples: Int[Ints, " cells"],
        scores: Float[Floats, "cells metrics"],
        is_noisy: bool = False,
    ) -> "Cells":
        """Cells of one score each."""
        asks = np.ones(len(arms), dtype=np.int64)
        return cls(arms, examples, scores, asks, np.zeros_like(scores), is_noisy)

    @property
    def n_examples_seen(self) -> int:
        """The number of distinct examples. Each score on an example that is none of the N counts as one more."""
        is_named = self.examples >= 0
        return len(np.unique(self.examples[is_named])) + int((~is_named).sum())

    def of_column(self, column: int) -> "Cells":
        """The cells with a score in this column. An evaluation that failed has a score in the failures' column only."""
        is_scored = ~np.isnan(self.scores[:, column])
        if not is_scored.all():
            return self.where(is_scored)
        # A cell fails once, so repeated scores tell nothing about the noise of failures.
        return self if self.asks.all() else self._replace(is_noisy=False)

    def alike(self, n_arms: int) -> Int[Ints, " arms"]:
        """A number (n_arms,) for each arm. Arms with the same scores of the same examples have the same number."""
        order = np.lexsort((self.examples, self.arms))
        rows = np.column_stack(
            (self.examples, self.asks, self.scores, self.squares)
        ).astype(np.float64)[order]
        # 0.0 and -0.0 are equal, and so are they as bytes after this.
        rows = rows + 0.0
        parts = np.split(rows, np.searchsorted(self.arms[order], np.arange(1, n_arms)))
        numbers: dict[bytes, int] = {}
        return np.array(
            [numbers.setdefault(part.tobytes(), len(numbers)) for part in parts],
            dtype=np.int64,
        )

    def where(self, rows: Bool[Bools, " cells"]) -> "Cells":
        """Some of the cells."""
        return Cells(
            self.arms[rows],
            self.examples[rows],
            self.scores[rows],
            self.asks[rows],
            self.squares[rows],
            self.is_noisy,
        )

    def with_failures(
        self, arms: Int[Ints, " failed"], examples: Int[Ints, " failed"]
    ) -> "Cells":
        """Add cells that failed, with 1 in the last column and NaN in all others."""
        scores = np.full((len(arms), self.scores.shape[1]), np.nan)
        scores[:, -1] = 1.0
        return Cells(
            np.concatenate((self.arms, arms)),
            np.concatenate((self.examples, examples)),
            np.concatenate((self.scores, scores)),
            np.concatenate((self.asks, np.zeros(len(arms), np.int64))),
            np.concatenate((self.squares, np.zeros_like(scores))),
            self.is_noisy,
        )

    def noise(self, variance: Float[Floats, " metrics"]) -> Float[Floats, " metrics"]:
        """Variance of a score within its cell. `variance` is the variance of all scores, for the prior."""
        freedom = float((self.asks - 1).sum())
        # A metric is exact if repeated scores were always the same. By chance, only
        # small simple scores are.
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
        """Variance by noise of the cells' means, w mean(1/r_j), of every arm. 0 for an arm without cells."""
        n_cells = np.maximum(np.bincount(self.arms, minlength=n_arms), 1)
        freedom = np.bincount(self.arms, self.asks - 1.0, n_arms)[:, None]
        squares = np.stack(
            [np.bincount(self.arms, column, n_arms) for column in self.squares.T],
            axis=1,
        )
        noise_of_arm = (squares + PRIOR_FREEDOM * self.noise(variance)) / (
            freedom + PRIOR_FREEDOM
        )
        return np.asarray(
            noise_of_arm
            * (np.bincount(self.arms, 1.0 / self.asks, n_arms) / n_cells)[:, None]
        )


def nth_asks(
    trials: Int[Ints, " rows"], cells: Int[Ints, " rows"]
) -> Int[Ints, " rows"]:
    """The number of each row among the scores of its cell, from 0. Observed scores (-1) come first, then by trial."""
    order = np.lexsort((trials, cells))
    ordered = cells[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(cells)]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(cells)), 0))
    nth = np.empty(len(cells), dtype=np.int64)
    nth[order] = np.arange(len(cells)) - starts
    return nth
