"""Bounds for noisy scores of a finite data set: the examples come in random order without replacement, round by round.

A score is a random number in [0, 1] whose expectation p_j belongs to its example j, and the claim is that the mean of
the p_j is at most m. Without noise, what was seen fixes what is left, and so the price of the next bet. With noise it
does not: the p_j of what was seen stay unknown, and the data set is never exhausted.

But whoever bets the same `rate` at the price m on every score, as on draws with replacement, owns after n scores

    prod (1 + rate (y - m)),

and that is at most 1 on average, if m is right: of a whole round it is prod (1 + rate (p_j - m)), at most the N-th
power of 1 + rate (mean p - m) <= 1 (the geometric mean is at most the arithmetic), and of the first t of a round in
random order it is the t-th elementary symmetric mean of the N factors, at most the t-th power of their mean (Maclaurin;
sums without replacement vary less than with it: Hoeffding 1963). So it reaches 1 / error with probability `error`, at
most, at a number of scores named beforehand (Markov).

That is not so at every look at once: after low scores, what is left of a round is higher, and bets placed by then are
not fair. So there are few looks, at 8, 12, 18 ... scores, that share the error by their numbers of scores, and bets of
a few sizes, none of which depends on what was seen; their average counts. Between two looks the bound stays as it was
at the last one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.intervals.base import AbstractBounded, Bets, Error, Floats
from asktell.intervals.betting import Betting

_FIRST_LOOK, _FACTOR = 8, 1.5  # a judgement
_CAP = 0.95  # of the capital, at most, is lost at one observation; a judgement
_EVIDENCE = 13.0  # 2 log(looks / error), as in `betting`; for 33 looks and an error of .05, say
_VARIANCES = 0.25 / 4.0 ** np.arange(5)  # a grid from the largest of scores in [0, 1]; a bet is sized for each


@final
@dataclass(frozen=True)
class NoisyBetting(AbstractBounded):
    """Observations in [low, high]: noisy scores of `population` examples, all in random order, and again.

    A bound is right at every look at once, with probability 1 - error: those at the looks named beforehand are, and
    between them the last one stands. `repeats`: how many rounds there may be in the end.
    """

    low: float
    high: float
    population: int
    repeats: int

    @property
    def looks(self) -> list[int]:
        """After how many observations the bound is moved."""
        most = self.population * self.repeats
        found = [min(_FIRST_LOOK, most)]
        while found[-1] < most:
            found.append(min(most, math.ceil(found[-1] * _FACTOR)))
        return found

    def refuter(self, observations: Floats, error: Error) -> Callable[[Floats], Bets]:
        """(..., n) observations in their order -> which means (...) are refuted at any look."""
        y = self.scaled(observations)
        return lambda mean: np.asarray(self._most_log_capital(y, self.scaled(mean)) >= -np.log(error))

    def _most_log_capital(self, y: Floats, mean: Floats) -> Floats:
        """(..., n) scaled observations, (...) scaled claims -> (...): logarithm of the most capital at any look.

        Each look's is multiplied by its share of the error.
        """
        scores = sum(self.looks)
        most = np.full(y.shape[:-1], -np.inf)
        for n in [look for look in self.looks if look <= y.shape[-1]]:
            off = y[..., :n] - mean[..., None]
            rates = np.sqrt(_EVIDENCE / (n * _VARIANCES))
            logs = [
                np.log1p(np.minimum(rate, _CAP / np.maximum(mean, 1e-9))[..., None] * off).sum(axis=-1)
                for rate in rates
            ]
            highest = np.max(logs, axis=0)
            capital = highest + np.log(np.exp(np.array(logs) - highest).mean(axis=0))
            most = np.maximum(most, capital + math.log(n / scores))
        return most


def bounded(low: float, high: float, population: int | None, rounds: int | None = None) -> Betting | NoisyBetting:
    """The sequence for scores in [low, high] of so many examples (None: independent draws).

    `rounds`: how often the examples may be gone through, if their scores are noisy; None if they are not.
    """
    if population is None or rounds is None:
        return Betting(low, high, population)
    return NoisyBetting(low, high, population, rounds)
