"""Confidence sequences for bounded means by betting (Waudby-Smith & Ramdas 2020, 2023), also without replacement.

The claim that the mean is m makes a bet at the price m fair for every next observation.
A gambler starts with a capital of 1 and bets that observations are higher. If the mean
is m or less, the capital ever reaches 1 / error with probability at most `error`
(Ville). So a mean at which the capital got there is refuted, and every smaller mean
with it. Without replacement, m also fixes the mean of the remaining observations, (N m
- sum) / (N - t), which is the price of the next bet.

Differences from the papers: instead of one predictable bet there are a few, sized for
evidence that takes 16, 64, 256, ... observations, and the capital is their average.
Without replacement, bets grow as N / (N - t), in proportion to the distance of the
remaining mean from a wrong claim. The two sides are two gamblers with half of the error
each.

No package fits. confseq 0.0.11 evaluates one sequence on a grid of 1000 means, anew at
every look, and needs a C++ compiler with Boost. Others do not support sampling without
replacement.

Scores of 0 and 1 need no variant. Against a mean difference of 0 only pairs that
disagree move the capital, so the test is the sign test of these pairs. A
prior-posterior ratio over the three counts takes 40 to 70% more examples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.shapes import Bool, Float
from asktell.proofs.intervals.base import AbstractBounded, Error, Interval

# A bet of sqrt(2 log(1 / error) / (n variance)) is the best bet for evidence that takes
# n observations (second order).
# Here 2 log(1 / error) is 6 for an error of 0.05, and 14 for an error of 0.001.
_EVIDENCE = 8.0
# The numbers of observations for which bets are sized. A judgement.
_FIRST_HORIZON, _FACTOR, _LAST_HORIZON = 16, 4, 4**7
# Largest part of the capital that one observation can cost. A judgement.
_CAP = 0.95
# The variance before any observation, in squared widths of the range, and the number of
# observations that it counts for. A judgement.
_PRIOR_WEIGHT, _PRIOR_VARIANCE = 2.0, 0.05
# Rounding of a mean, in widths of the range.
_ROUNDING = 1e-9
# Logarithm of the capital against an impossible mean. Infinities would give NaN.
_REFUTED = 1e9


@final
@dataclass(frozen=True)
class Betting(AbstractBounded):
    """Observations in [low, high], in random order, without replacement from `population` of them (None: independent).

    The bound of a sequence is right at all looks at once with probability 1 - error, so
    stopping at any time is valid. For several sequences, or both sides of one, divide
    the error among them. Bounds never widen, and are exact once the population is
    exhausted.
    """

    low: float
    high: float
    population: int | None = None

    def refuter(
        self, observations: Float[Floats, "*shape n"], error: Error
    ) -> Callable[[Floats], Bools]:
        """Return a function of possible means, one for each sequence. It is True for the means refuted at any look."""
        log_capital = self._bets(observations, None)
        prices = self._prices_of(observations)
        return lambda mean: (
            log_capital(prices(mean)).max(axis=-1, initial=0.0) >= -np.log(error)
        )

    def certain(self, observations: Float[Floats, "*shape n"]) -> Interval:
        """Bounds that hold whatever the other observations are. They are equal once all N are known."""
        n = observations.shape[-1]
        if self.population is None or n == 0:
            return super().certain(observations)
        total, left = observations.sum(axis=-1), self.population - n
        return Interval(
            *((total + left * end) / self.population for end in (self.low, self.high))
        )

    def log_capital(
        self, observations: Float[Floats, "*shape n"], mean: npt.ArrayLike
    ) -> Float[Floats, "*shape n"]:
        """The logarithm of the capital after each observation, against a claimed mean of each sequence.

        Bets are that observations are higher. The logarithm ever reaches log(1 / error)
        with probability at most `error` if the mean is at most the claim.
        """
        return self._bets(observations, None)(
            self._prices_of(observations)(np.asarray(mean, dtype=np.float64))
        )

    def log_capital_at(
        self,
        observations: Float[Floats, "*shape n"],
        prices: Float[Floats, "*shape n"],
        bets: Bool[Bools, "*shape n"],
    ) -> Float[Floats, "*shape n"]:
        """The logarithm of the capital after each observation, at a price for each. Bets are only where `bets` is True.

        A price is the mean of the remaining observations under the claim, -infinity if
        the claim is impossible.
        """
        return self._bets(np.where(bets, observations, self.low), bets)(prices)

    def prices(
        self,
        mean: npt.ArrayLike,
        seen: npt.ArrayLike,
        total: Float[Floats, "*shape n"],
    ) -> Float[Floats, "*shape n"]:
        """The mean of the remaining observations under a claim, after `seen` observations that sum to `total`.

        It is -infinity if the claim is impossible.
        """
        mean, width = np.asarray(mean, dtype=np.float64), self.high - self.low
        if self.population is None:
            low = mean < self.low - _ROUNDING * width
            return np.where(
                low, -np.inf, np.maximum(mean, self.low) + np.zeros_like(total)
            )
        left = self.population - np.asarray(seen)
        rest = self.population * mean - total - left * self.low
        possible = self.low + np.maximum(rest, 0.0) / np.maximum(left, 1)
        return np.where(rest < -_ROUNDING * self.population * width, -np.inf, possible)

    def _prices_of(
        self, values: Float[Floats, "*shape n"]
    ) -> Callable[[Floats], Floats]:
        """Return a function of claims, one for each sequence. It returns the price of each observation."""
        seen, total = np.arange(values.shape[-1]), np.cumsum(values, axis=-1) - values
        return lambda mean: self.prices(mean[..., None], seen, total)

    def _bets(
        self,
        values: Float[Floats, "*shape n"],
        bets: Bool[Bools, "*shape n"] | None,
    ) -> Callable[[Floats], Floats]:
        """Return a function of the price of each observation. It returns the logarithm of the capital after each."""
        y = self.scaled(values)
        # Of each observation: the number, the sum and the sum of squares of those before.
        gone = np.arange(y.shape[-1], dtype=np.float64)
        seen = gone if bets is None else np.cumsum(bets, axis=-1) - bets
        total = np.cumsum(y, axis=-1) - y
        squares = np.cumsum(y**2, axis=-1) - y**2
        # The sizes of the bets: the gain per unit above the price. They follow from
        # earlier observations only.
        spread = np.maximum(0.0, squares - total**2 / np.maximum(seen, 1))
        variance = (spread + _PRIOR_WEIGHT * _PRIOR_VARIANCE) / (seen + _PRIOR_WEIGHT)
        # Without replacement, bets grow with the distance of the remaining mean.
        growth = (
            1.0
            if self.population is None
            else self.population / np.maximum(self.population - gone, 1)
        )
        # Up to the first horizon that covers the population.
        last = min(_LAST_HORIZON, self.population or _LAST_HORIZON)
        horizons = [_FIRST_HORIZON]
        while horizons[-1] < last:
            horizons.append(horizons[-1] * _FACTOR)
        sizes = np.sqrt(_EVIDENCE / (variance[..., None] * horizons))
        rates = np.asarray(sizes * np.expand_dims(growth, -1))

        def log_capital(prices: Floats) -> Floats:
            possible = np.isfinite(prices)[..., None]
            prices = np.where(possible, self.scaled(prices)[..., None], 1.0)
            # Every gain falls with the price, so the capital that refutes a mean
            # refutes all smaller means.
            stakes = np.minimum(rates, _CAP / np.maximum(prices, _ROUNDING))
            gains = np.where(
                possible, np.log1p(stakes * (y[..., None] - prices)), _REFUTED
            )
            logs = np.cumsum(
                gains if bets is None else gains * bets[..., None], axis=-2
            )
            # The average of the capitals, with the largest factored out so that no
            # exponential overflows.
            most = logs.max(axis=-1)
            return np.asarray(
                most + np.log(np.exp(logs - most[..., None]).mean(axis=-1))
            )

        return log_capital
