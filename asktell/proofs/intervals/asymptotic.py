"""Asymptotic confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2021), for scores of unknown range.

They hold at every look in the limit of many observations. For few observations there is
no guarantee. Differences from the paper:

- Without replacement, t of N observations count as t (N - 1) / (N - t). With that clock
  the error of their mean is the same Brownian motion as for independent observations,
  and the mean is known exactly at t = N.
- The normal boundary is carried over to Student's distribution with t - 1 degrees of
  freedom, so that few observations hardly bound anything. There is no burn-in to
  choose.
- Three more observations, as far from the mean as the farthest seen, are added to the
  variance. This is the rule of three: an event that has not occurred in t observations
  may have a probability of 3 / t. Where that is not enough, as for pairs that all
  agree, the caller gives the `scale` of observations that may still come.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.proofs.intervals.base import Error, Interval

# Observations that may still come, by the rule of three.
_UNSEEN = 3
# The number of observations at which the boundary is tightest. A judgement.
_TIGHTEST_AT = 64
# Fewest observations. The bounds of two are a million times their distance.
_FEWEST = 3


@final
@dataclass(frozen=True)
class Asymptotic:
    """Observations of any range in random order, without replacement from `population` of them (None: independent).

    Bounds are those of the last look alone. Bounds of early looks are the least
    reliable, so they are not intersected.
    """

    population: int | None = None

    def interval(
        self,
        observations: Float[Floats, "*shape n"],
        error: Error,
        scale: npt.ArrayLike = 0.0,
    ) -> Interval:
        """Lower and upper bounds, wrong together with probability `error`.

        A bound is infinite where the observations do not support one. `scale`: a
        distance from the mean, in the observations' units, at which observations must
        be expected.
        """
        errors = np.asarray(error)
        return self._interval(observations, scale, errors, lambda root: root / errors)

    def lower(
        self,
        observations: Float[Floats, "*shape n"],
        error: Error,
        scale: npt.ArrayLike = 0.0,
    ) -> Float[Floats, "*shape"]:
        """Lower bounds, each wrong with probability `error`."""
        errors = np.asarray(error)
        return self._interval(
            observations, scale, 2 * errors, lambda root: 1 + root / (2 * errors)
        ).low

    def _interval(
        self,
        values: Float[Floats, "*shape n"],
        scale: npt.ArrayLike,
        error: Floats,
        odds: Callable[[Floats], Floats],
    ) -> Interval:
        """Bounds of the last look. `odds` turns the root of the mixed variance into the odds against the mean."""
        n = values.shape[-1]
        if n < _FEWEST and n != self.population:
            everything = np.full(values.shape[:-1], np.inf)
            return Interval(-everything, everything)
        mean = values.mean(axis=-1)
        if n == self.population:
            return Interval(mean, mean)
        # The variance, with observations that may still come.
        off = values - mean[..., None]
        farthest = np.maximum(np.abs(off).max(axis=-1), scale)
        variance = ((off**2).sum(axis=-1) + _UNSEEN * farthest**2) / (n - 1)
        # The number of independent observations whose mean has the same error.
        clock = (
            float(n)
            if self.population is None
            else n * (self.population - 1) / (self.population - n)
        )
        tightest = (
            _TIGHTEST_AT
            if self.population is None
            else min(_TIGHTEST_AT, self.population / 2)
        )
        evidence = -2 * np.log(np.minimum(error, 0.5))
        mixed = clock * (evidence + np.log(evidence + 1)) / tightest
        # The normal mixture boundary, in standard errors of the mean. It is tightest
        # early on.
        boundary = np.asarray(
            np.sqrt(2 * (1 + 1 / mixed) * np.log(odds(np.sqrt(mixed + 1))))
        )
        from scipy import stats  # here, to keep the import of asktell light

        # The same tail probability in Student's distribution.
        bound = stats.t.isf(stats.norm.sf(boundary), n - 1)
        # If all scores agree, the size of a possible difference is unknown.
        half = np.where(farthest > 0, bound * np.sqrt(variance / clock), np.inf)
        return Interval(mean - half, mean + half)
