"""Sums of the scores of each arm."""

from dataclasses import dataclass, replace

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Float, Int


@dataclass(frozen=True)
class Tally:
    """The number of scores of each arm, and sums of every metric about the arm's first score.

    Summing about the first score keeps a constant metric exact and the variance free of
    cancellation. Where cells are noisy, a row is the mean of a cell, and `noise` is the
    part of the variance of an arm's rows that is noise. `outside` is the number of rows
    that belong to none of the given examples, None if all belong to one.
    """

    counts: Int[Ints, " arms"]
    first: Float[Floats, "arms metrics"]
    sums: Float[Floats, "arms metrics"]
    squares: Float[Floats, "arms metrics"]
    noise: Float[Floats, "arms metrics"] | None = None
    outside: Int[Ints, " arms"] | None = None

    @classmethod
    def of(cls, cells: Cells, n_arms: int, noisy: bool) -> "Tally":
        """The tally of the cells' means. Cells are noisy if `noisy`, or if scores of a cell differ."""
        tally = cls.empty(n_arms, cells.scores.shape[1]).plus(cells.arms, cells.scores)
        if not noisy and not cells.is_noisy:
            return tally
        variance = np.nan_to_num(tally.pooled_variance)
        return replace(tally, noise=cells.noise_of_means(variance, n_arms))

    @classmethod
    def empty(cls, n_arms: int, n_metrics: int) -> "Tally":
        """The tally before any score is recorded."""
        zeros = np.zeros((n_arms, n_metrics))
        return cls(np.zeros(n_arms, dtype=np.int64), zeros, zeros, zeros)

    def wider(self, n: int) -> "Tally":
        """The tally with `n` more arms, without scores."""
        first, sums, squares = (
            np.pad(column, ((0, n), (0, 0)))
            for column in (self.first, self.sums, self.squares)
        )
        return Tally(np.pad(self.counts, (0, n)), first, sums, squares)

    def plus(
        self, arms: Int[Ints, " rows"], scores: Float[Floats, "rows metrics"]
    ) -> "Tally":
        """The tally with more rows, summed strictly in their order."""
        if not len(arms):
            return self
        counts = self.counts + np.bincount(arms, minlength=len(self.counts))
        first, sums, squares = self.first.copy(), self.sums.copy(), self.squares.copy()
        seen, row = np.unique(arms, return_index=True)
        new = self.counts[seen] == 0
        first[seen[new]] = scores[row[new]]
        deviations = scores - first[arms]
        np.add.at(sums, arms, deviations)
        # The square of a tiny score is 0, also if the program lets NumPy raise
        with np.errstate(under="ignore"):
            np.add.at(squares, arms, deviations**2)
        return Tally(counts, first, sums, squares)

    def with_rate(self, rate: Float[Floats, " arms"]) -> "Tally":
        """The tally with these shares of 1 in the last column, and the variance of such scores."""
        first, sums, squares = self.first.copy(), self.sums.copy(), self.squares.copy()
        first[:, -1] = 0.0
        sums[:, -1] = self.counts * rate
        squares[:, -1] = self.counts * rate
        return replace(self, first=first, sums=sums, squares=squares)

    @property
    def means(self) -> Float[Floats, "arms metrics"]:
        """Sample means. NaN for an arm without a pull."""
        with np.errstate(invalid="ignore"):
            return np.where(
                self.counts[:, None] > 0,
                self.first + self.sums / np.maximum(self.counts, 1)[:, None],
                np.nan,
            )

    @property
    def deviations(self) -> Float[Floats, "arms metrics"]:
        """Sums of squared deviations from the arm's mean. 0 for fewer than two pulls."""
        n = np.maximum(self.counts, 1)[:, None]
        return np.maximum(0.0, self.squares - self.sums**2 / n)

    @property
    def pooled_variance(self) -> Float[Floats, " metrics"]:
        """Variance within arms, pooled over all arms. NaN if no arm was pulled twice."""
        total: Float[Floats, " metrics"] = self.deviations.sum(axis=0)
        freedom = int(np.maximum(self.counts - 1, 0).sum())
        return np.asarray(total / freedom) if freedom else np.full(total.shape, np.nan)

    def standard_errors(self, population: int | None) -> Float[Floats, "arms metrics"]:
        """Standard errors of the sample means, with the finite-population correction for `population` examples.

        The error is s_i sqrt((1 - n_i / N) / n_i), where s_i is the arm's own sample
        deviation, or the pooled deviation for an arm pulled once. It is NaN where
        neither exists, and for an arm without a pull. It is 0 for an arm that has seen
        every example. Where cells are noisy, this is the examples' part of the error,
        and the noise's part is added (`asktell.numerics.cells`).
        """
        n, left = self.counts[:, None].astype(float), self._unseen(population)
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.where(n >= 2, self.deviations / (n - 1), self.pooled_variance)
            errors: Float[Floats, "arms metrics"] = np.sqrt(variance * left / n)
        errors[self.counts == 0] = np.nan
        errors[(self.counts > 0) & (left[:, 0] == 0)] = 0.0
        if self.noise is None or population is None:
            return errors
        return np.asarray(np.sqrt(errors**2 + self.noise / population))

    def left(self, population: int | None) -> Float[Floats, "arms ..."]:
        """The part of s² / n that is the squared error of a sample mean, for each metric, or one column for all.

        It is 1 - n / N without noise. Noise raises it, since the finite-population
        correction does not apply to the part of s² that is noise.
        """
        left = self._unseen(population)
        if self.noise is None or population is None:
            return left
        pooled = np.nan_to_num(self.pooled_variance)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(pooled > 0.0, np.clip(self.noise / pooled, 0.0, 1.0), 1.0)
        return np.asarray(np.clip(1.0 - (1.0 - left) * (1.0 - share), 0.0, 1.0))

    def _unseen(self, population: int | None) -> Float[Floats, "arms 1"]:
        """The finite-population correction 1 - n / N.

        With u rows `outside` among the n rows, it is 1 - (n - u) / (N + u). Rows
        outside do not reduce the number of unseen examples. They keep their part of the
        error even if all examples were seen.
        """
        n = self.counts[:, None].astype(float)
        if population is None:
            return np.ones_like(n)
        outside = np.zeros_like(n) if self.outside is None else self.outside[:, None]
        return np.asarray(
            np.clip(1.0 - (n - outside) / (population + outside), 0.0, None)
        )
