"""Confidence sequences for bounded means by betting (Waudby-Smith & Ramdas 2020, 2023), also without replacement.

Whoever claims that the mean is m offers a fair bet on every next observation. A gambler who starts with 1 and bets
that observations are higher ever reaches 1 / error with probability at most `error` if the mean is m or less (Ville).
So a mean at which the gambler got there is refuted, and with it every smaller one. Without replacement m also fixes
the mean of what is left, (N m - sum) / (N - t): that is the price of the next bet.

Differences from the papers: instead of one predictable bet there are a few, each sized for evidence that takes 16,
64, 256 ... observations, and the capital is their average. Without replacement bets grow as N / (N - t), as does the
distance of what is left from a wrong claim. The two sides are two gamblers with half of the error each.

No package fits: confseq 0.0.11 evaluates one sequence on a grid of 1000 means, anew at every look, and needs a C++
compiler with Boost; others know no sampling without replacement.

For scores of 0 and 1 this needs no variant. Against a mean difference of 0 only pairs that disagree move the capital:
it is the sign test of those. A prior-posterior ratio over the three counts takes 40 to 70 % more examples.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError
from asktell.intervals.base import (
    Error,
    Floats,
    Interval,
    checked_error,
    checked_observations,
    checked_population,
)

_CAP = 0.95  # of the capital, at most, is lost at one observation
_EVIDENCE = 8.0  # 2 log(1 / error), about, for errors from .05 to .001
_FIRST_HORIZON, _FACTOR, _LAST_HORIZON = 16, 4, 4**7
_PRIOR_WEIGHT, _PRIOR_VARIANCE = 2.0, 0.05  # observations; in squared widths of the range
_ROUNDING = 1e-9  # of a mean, in widths of the range
_REFUTED = 1e9  # logarithm of the capital against a mean that cannot be
_HALVINGS = 24


class Capital(NamedTuple):
    """What the gamblers of S sequences own, against G claims each. Made by `Betting.start` and `Betting.add`.

    It follows from the observations in their order, so it need not be saved.
    """

    means: Floats  # (G,), or (S, G): the claims, in the observations' units
    seen: Floats  # (S,)
    total: Floats  # (S,) of the observations, scaled to [0, 1]
    squares: Floats  # (S,)
    logs: Floats  # (S, G, D) of the capital behind each bet
    most: Floats  # (S, G) the most there ever was: logarithm of the mean over bets

    def refuted(self, error: Error) -> npt.NDArray[np.bool_]:
        """(S, G): whether the mean is larger than each claim; any of a sequence's is ever wrong with `error`."""
        return np.asarray(self.most >= -np.log(checked_error(error))[..., None])

    def lower(self, error: Error) -> Floats:
        """(S,): the largest refuted claim, -infinity without one."""
        return np.asarray(np.where(self.refuted(error), self.means, -np.inf).max(axis=-1))


@final
@dataclass(frozen=True)
class Betting:
    """Observations in [low, high], in random order, without replacement from `population` of them (None: independent).

    A sequence's bound is right at every look at once, with probability 1 - error, so one may stop whenever one likes;
    whoever reads several sequences, or both sides of one, divides the error among them. Bounds never widen, and are
    exact once the population is exhausted.
    """

    low: float
    high: float
    population: int | None = None

    def __post_init__(self) -> None:
        """Refuse an empty range or population."""
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidArgumentError(
                f"The range must be two finite numbers, low < high; got {self.low!r}, {self.high!r}."
            )
        checked_population(self.population)

    def interval(self, observations: npt.ArrayLike, error: Error) -> Interval:
        """(..., n) observations in their order -> two bounds each, wrong with `error` together.

        Where both sides are wrong, so that nothing is left between them, only what is certain is returned.
        """
        half = checked_error(error) / 2
        low, high = self.lower(observations, half), self.upper(observations, half)
        empty = low > high
        if empty.any():
            certain_low, certain_high = self.certain(observations)
            low, high = np.where(empty, certain_low, low), np.where(empty, certain_high, high)
        return Interval(low, high)

    def upper(self, observations: npt.ArrayLike, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) upper bounds."""
        mirrored = Betting(-self.high, -self.low, self.population)
        return -mirrored.lower(-np.asarray(observations, dtype=np.float64), error)

    def lower(self, observations: npt.ArrayLike, error: Error) -> Floats:
        """(..., n) observations in their order -> (...) lower bounds: the largest mean refuted at any of n looks."""
        needed = -np.log(checked_error(error))
        bets = self._bets(observations)
        certain = self.certain(observations)
        refuted, open_ = certain.low, certain.high
        for _ in range(_HALVINGS):
            middle = (refuted + open_) / 2
            out = bets.against(self._scaled(middle)[..., None]).max(axis=-1, initial=0.0) >= needed
            refuted, open_ = np.where(out, middle, refuted), np.where(out, open_, middle)
        return refuted

    def certain(self, observations: npt.ArrayLike) -> Interval:
        """(..., n) observations -> what holds whatever the others are: exact once the population is exhausted."""
        values = self._checked(observations)
        n = values.shape[-1]
        if self.population is None or n == 0:
            return Interval(np.full(values.shape[:-1], self.low), np.full(values.shape[:-1], self.high))
        total, left = values.sum(axis=-1), self.population - n
        low = (total + left * self.low) / self.population
        return Interval(low, (total + left * self.high) / self.population)

    def log_capital(self, observations: npt.ArrayLike, mean: npt.ArrayLike) -> Floats:
        """(..., n) observations, (...) claims -> (..., n): logarithm of the capital after each, bet on higher ones.

        It reaches log(1 / error) with probability at most `error` if the mean is at most the claim.
        """
        return self._bets(observations).against(self._scaled(np.asarray(mean, dtype=np.float64))[..., None])

    def start(self, n_sequences: int, means: npt.ArrayLike) -> Capital:
        """The same, an observation at a time: (G,) claims for all sequences, or (S, G)."""
        claims = np.asarray(means, dtype=np.float64)
        zeros = np.zeros(n_sequences)
        logs = np.zeros((n_sequences, claims.shape[-1], len(_horizons(self.population))))
        return Capital(claims, zeros, zeros, zeros, logs, logs[..., 0])

    def add(self, capital: Capital, observations: npt.ArrayLike) -> Capital:
        """(S,) one more observation of each sequence; NaN where there is none."""
        values = np.asarray(observations, dtype=np.float64)
        new = ~np.isnan(values)
        y = self._scaled(self._checked(np.where(new, values, self.low)[:, None])[:, 0])
        if self.population is not None and (capital.seen[new] >= self.population).any():
            raise InvalidArgumentError(
                f"A sequence has seen all {self.population} members of the population; there is no other observation."
            )
        rates = _rates(capital.seen, capital.total, capital.squares, self.population)
        claims = self._scaled(capital.means)
        prices = _prices(claims, capital.seen[:, None], capital.total[:, None], self.population)
        gains = _log_gains(y[:, None, None], prices[..., None], rates[:, None, :])
        logs = capital.logs + np.where(new[:, None, None], gains, 0.0)
        seen, total = capital.seen + new, capital.total + np.where(new, y, 0.0)
        most = np.maximum(capital.most, _log_mean(logs))
        if self.population is not None:
            # What is certain by now overrules the bets.
            rest, left = self.population * claims - total[:, None], self.population - seen[:, None]
            most = np.where(rest < -_ROUNDING * self.population, _REFUTED, np.where(rest < left, most, 0.0))
        return Capital(capital.means, seen, total, capital.squares + np.where(new, y**2, 0.0), logs, most)

    def _bets(self, observations: npt.ArrayLike) -> "_Bets":
        y = self._scaled(self._checked(observations))
        count = np.arange(y.shape[-1], dtype=np.float64)
        total, squares = np.cumsum(y, axis=-1) - y, np.cumsum(y**2, axis=-1) - y**2
        return _Bets(y, count, total, _rates(count, total, squares, self.population), self.population)

    def _scaled(self, values: Floats) -> Floats:
        return (values - self.low) / (self.high - self.low)

    def _checked(self, observations: npt.ArrayLike) -> Floats:
        values = checked_observations(observations, self.population)
        outside = values[(values < self.low) | (values > self.high)]
        if outside.size:
            raise InvalidArgumentError(f"An observation, {outside[0]}, is outside the range [{self.low}, {self.high}].")
        return values


class _Bets(NamedTuple):
    """All that does not depend on the claim."""

    y: Floats  # (..., n) scaled to [0, 1]
    seen: Floats  # (n,) before each observation, as `total`
    total: Floats  # (..., n)
    rates: Floats  # (..., n, D)
    population: int | None

    def against(self, mean: Floats) -> Floats:
        """(..., 1) scaled claims -> (..., n)."""
        prices = _prices(mean, self.seen, self.total, self.population)
        gains = _log_gains(self.y[..., None], prices[..., None], self.rates)
        return _log_mean(np.cumsum(gains, axis=-2))


def _horizons(population: int | None) -> list[int]:
    """How many observations each bet is sized for: up to the first power that covers the population."""
    last = min(_LAST_HORIZON, population or _LAST_HORIZON)
    horizons = [_FIRST_HORIZON]
    while horizons[-1] < last:
        horizons.append(horizons[-1] * _FACTOR)
    return horizons


def _rates(count: Floats, total: Floats, squares: Floats, population: int | None) -> Floats:
    """(...) -> (..., D): what each bet wins per unit above the price, from what was seen before."""
    spread = np.maximum(0.0, squares - total**2 / np.maximum(count, 1))
    variance = (spread + _PRIOR_WEIGHT * _PRIOR_VARIANCE) / (count + _PRIOR_WEIGHT)
    growth = 1.0 if population is None else population / np.maximum(population - count, 1)
    return np.asarray(np.sqrt(_EVIDENCE / (variance[..., None] * _horizons(population))) * np.expand_dims(growth, -1))


def _prices(mean: Floats, count: Floats, total: Floats, population: int | None) -> Floats:
    """The mean of what is left if the claim is right; -infinity if it would be below the range."""
    if population is None:
        return np.where(mean < -_ROUNDING, -np.inf, np.maximum(mean, 0.0) + np.zeros_like(total))
    rest = population * mean - total
    possible = np.maximum(rest, 0.0) / np.maximum(population - count, 1)
    return np.where(rest < -_ROUNDING * population, -np.inf, possible)


def _log_gains(y: Floats, prices: Floats, rates: Floats) -> Floats:
    """Every gain falls with the price, so what refutes a mean refutes all smaller ones."""
    possible = np.isfinite(prices)
    prices = np.where(possible, prices, 1.0)
    stakes = np.minimum(rates, _CAP / np.maximum(prices, _ROUNDING))
    return np.where(possible, np.log1p(stakes * (y - prices)), _REFUTED)


def _log_mean(logs: Floats) -> Floats:
    most = logs.max(axis=-1)
    return np.asarray(most + np.log(np.exp(logs - most[..., None]).mean(axis=-1)))
