"""Sums of scores, arm by arm."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Scored


@dataclass(frozen=True)
class Tally:
    """Sums of the scores per arm: `counts` (K,), and for every metric (K, m) sums about the arm's first score.

    Summing about the first score keeps a constant metric exact and the variance free of
    cancellation. Where cells are noisy a row is a cell's mean, and `noise` (K, m) the
    part of the variance of an arm's rows that is noise. `outside` (K,) are the rows
    that are of none of the examples given, None if none is.
    """

    counts: Int[Ints, " arms"]
    first: Float[Floats, "arms metrics"]
    sums: Float[Floats, "arms metrics"]
    squares: Float[Floats, "arms metrics"]
    noise: Float[Floats, "arms metrics"] | None = None
    outside: Int[Ints, " arms"] | None = None

    @classmethod
    def of(cls, cells: Scored, n_arms: int, noisy: bool) -> "Tally":
        """The tally of cells' means; they are noisy if that is known, or if scores of a cell differ."""
        tally = cls.empty(n_arms, cells.scores.shape[1]).plus(cells.arms, cells.scores)
        if not noisy and not cells.disagree:
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
        """The tally with more rows, (n,) and (n, m), summed strictly in their order."""
        if not len(arms):
            return self
        counts = self.counts + np.bincount(arms, minlength=len(self.counts))
        first, sums, squares = self.first.copy(), self.sums.copy(), self.squares.copy()
        seen, row = np.unique(arms, return_index=True)
        new = self.counts[seen] == 0
        first[seen[new]] = scores[row[new]]
        deviations = scores - first[arms]
        np.add.at(sums, arms, deviations)
        np.add.at(squares, arms, deviations**2)
        return Tally(counts, first, sums, squares)

    def with_rate(self, rate: Float[Floats, " arms"]) -> "Tally":
        """With shares (K,) of 0 and 1 as the means of the last column, and their variance."""
        first, sums, squares = self.first.copy(), self.sums.copy(), self.squares.copy()
        first[:, -1], sums[:, -1], squares[:, -1] = (
            0.0,
            self.counts * rate,
            self.counts * rate,
        )
        return replace(self, first=first, sums=sums, squares=squares)

    @property
    def means(self) -> Float[Floats, "arms metrics"]:
        """Sample means; NaN for an arm without a pull."""
        with np.errstate(invalid="ignore"):
            return np.where(
                self.counts[:, None] > 0,
                self.first + self.sums / np.maximum(self.counts, 1)[:, None],
                np.nan,
            )

    @property
    def deviations(self) -> Float[Floats, "arms metrics"]:
        """Sums of squared deviations from the arm's mean; 0 for fewer than two pulls."""
        n = np.maximum(self.counts, 1)[:, None]
        return np.maximum(0.0, self.squares - self.sums**2 / n)

    @property
    def pooled_variance(self) -> Float[Floats, " metrics"]:
        """Variance within arms, pooled over all arms; NaN without an arm pulled twice."""
        total: Float[Floats, " metrics"] = self.deviations.sum(axis=0)
        freedom = int(np.maximum(self.counts - 1, 0).sum())
        return np.asarray(total / freedom) if freedom else np.full(total.shape, np.nan)

    def standard_errors(self, population: int | None) -> Float[Floats, "arms metrics"]:
        """Standard errors of the sample means, with the finite-population correction for `population` examples.

        s_i sqrt((1 - n_i / N) / n_i), where s_i is the arm's own sample deviation, or
        the pooled one for an arm pulled once; NaN where neither exists, or without a
        pull. Exactly 0 for an arm that has seen every example, unless cells are noisy:
        then that is the examples' part, and the noise's is added; see
        `asktell.numerics.cells`.
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
        """(K, m), or (K, 1) without noise: the part of s² / n that is the squared error of a sample mean.

        1 - n / N, which noise raises: what of s² is noise is not subject to the
        finite-population correction.
        """
        left = self._unseen(population)
        if self.noise is None or population is None:
            return left
        pooled = np.nan_to_num(self.pooled_variance)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(pooled > 0.0, np.clip(self.noise / pooled, 0.0, 1.0), 1.0)
        return np.asarray(np.clip(1.0 - (1.0 - left) * (1.0 - share), 0.0, 1.0))

    def _unseen(self, population: int | None) -> Float[Floats, "arms 1"]:
        """(K, 1): the finite-population correction 1 - n / N.

        Of n rows of which u are `outside` it is 1 - (n - u) / (N + u): these say
        nothing of which examples are left, and keep their part of the error even if all
        were seen.
        """
        n = self.counts[:, None].astype(float)
        if population is None:
            return np.ones_like(n)
        outside = np.zeros_like(n) if self.outside is None else self.outside[:, None]
        return np.asarray(
            np.clip(1.0 - (n - outside) / (population + outside), 0.0, None)
        )
