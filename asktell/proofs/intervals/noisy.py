"""Bounds for noisy scores of a finite data set: the examples come in random order without replacement, round by round.

A score is a random number in [0, 1] whose expectation p_j belongs to its example j, and
the claim is that the mean of the p_j is at most m. Without noise, the seen scores and
the claim fix the mean of the rest, and so the price of the next bet. With noise they do
not: the p_j of seen examples stay unknown, and the data set is never exhausted.

But let a gambler bet the same `rate` at the price m on every score, as on draws with
replacement. The capital after n scores is

    prod (1 + rate (y - m)).

Its expectation is at most 1 if the claim is right:

- For a whole round it is prod (1 + rate (p_j - m)), at most the N-th power of 1 + rate
  (mean p - m) <= 1, since the geometric mean is at most the arithmetic mean.
- For the first t scores of a round in random order it is the t-th elementary symmetric
  mean of the N factors, at most the t-th power of their mean (Maclaurin). Sums without
  replacement vary less than with it (Hoeffding 1963).

So at a number of scores fixed beforehand, the capital is 1 / error or more with
probability at most `error` (Markov).

This does not hold at every look at once. After low scores, the rest of a round is
higher, and bets placed by then are not fair. So there are few looks, at 8, 12, 18 ...
scores, which share the error in proportion to their numbers of scores. Bets have a few
sizes, which do not depend on the scores, and the average of their capitals counts.
Between two looks the bound of the last look stands.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.shapes import Float
from asktell.proofs.intervals.base import AbstractBounded, Error
from asktell.proofs.intervals.betting import Betting

# The number of scores at the first look, and the ratio of two looks. A judgement.
_FIRST_LOOK, _FACTOR = 8, 1.5
# Largest part of the capital that one observation can cost. A judgement.
_CAP = 0.95
# 2 log(looks / error), as in `betting`: for example, 33 looks and an error of 0.05.
_EVIDENCE = 13.0
# There is a bet for each variance. The first is the largest variance of scores in
# [0, 1].
_VARIANCES = 0.25 / 4.0 ** np.arange(5)


@final
@dataclass(frozen=True)
class NoisyBetting(AbstractBounded):
    """Observations in [low, high]: noisy scores of `population` examples, in rounds of random order.

    The bound is right at all looks at once with probability 1 - error. This holds for
    the looks fixed beforehand, and between them the last bound stands. `repeats` is the
    largest number of rounds.
    """

    low: float
    high: float
    population: int
    repeats: int

    @property
    def looks(self) -> list[int]:
        """The numbers of observations after which the bound is updated, ascending."""
        most = self.population * self.repeats
        looks = [min(_FIRST_LOOK, most)]
        while looks[-1] < most:
            looks.append(min(most, math.ceil(looks[-1] * _FACTOR)))
        return looks

    def refuter(
        self, observations: Float[Floats, "*shape n"], error: Error
    ) -> Callable[[Floats], Bools]:
        """Return a function of possible means, one for each sequence. It is True for the means refuted at any look."""
        y = self.scaled(observations)
        return lambda mean: np.asarray(
            self._most_log_capital(y, self.scaled(mean)) >= -np.log(error)
        )

    def _most_log_capital(
        self, y: Float[Floats, "*shape n"], mean: Float[Floats, "*shape"]
    ) -> Float[Floats, "*shape"]:
        """The logarithm of the largest capital at any look, from scaled observations and scaled claims.

        The capital at a look is multiplied by the look's share of the error.
        """
        scores = sum(self.looks)
        most = np.full(y.shape[:-1], -np.inf)
        for n in [look for look in self.looks if look <= y.shape[-1]]:
            off = y[..., :n] - mean[..., None]
            # One constant bet for each of a few variances, as no bet may depend on the
            # scores.
            logs = []
            for rate in np.sqrt(_EVIDENCE / (n * _VARIANCES)):
                stake = np.minimum(rate, _CAP / np.maximum(mean, 1e-9))[..., None]
                logs.append(np.log1p(stake * off).sum(axis=-1))
            # The average of the capitals, with the largest factored out so that no
            # exponential overflows.
            highest = np.max(logs, axis=0)
            capital = highest + np.log(np.exp(np.array(logs) - highest).mean(axis=0))
            most = np.maximum(most, capital + math.log(n / scores))
        return most


def bounded(
    low: float, high: float, population: int | None, rounds: int | None = None
) -> Betting | NoisyBetting:
    """The sequence for scores in [low, high] of `population` examples, None for independent draws.

    `rounds`: the number of rounds through the examples, if their scores are noisy. None
    if they are not.
    """
    if population is None or rounds is None:
        return Betting(low, high, population)
    return NoisyBetting(low, high, population, rounds)
