"""Bounds for one look at a number of observations that was fixed beforehand, as in a finished table of scores.

A confidence sequence pays for every look at which somebody may stop. A table that
nobody looked at while it grew needs no such payment, so its bounds are the tighter ones
of the textbooks:

- Student's t for graded scores.
- The score interval of Tango (1998), for differences of two scores of 0 and 1. It is
  the inverse of McNemar's test. It says that 0 is excluded only if the mid-p test of
  McNemar does (Fagerland, Lydersen & Laake 2013), whose level holds for few
  differences, too. On a part of the given examples, the mid-p value is that of a draw
  without replacement.
- The exact bound of Clopper & Pearson (1934) for a share of scores of 0 and 1.
- If few scores differ from the most frequent one, Student's t is too narrow, because
  the rare ones decide. The bound is then the wider one of Student's t and Tango's, for
  differences as large as the largest one. It says that 0 is excluded only if the
  mid-p test of random signs does.

The bounds are approximate for graded scores. `benchmarks.selection.finished_tables`
measures how often they are wrong, and compares their power with a permutation test's.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.shapes import Bool, Float

# Below this number of scores that differ from the most frequent one, Student's t is not
# trusted, and signs are enumerated (2^12 sums). By simulation.
_FEW = 12
_HALVINGS = 50
# A difference of two sums below this part of their size is an error of rounding.
_ROUNDING = 1e-9


@final
@dataclass(frozen=True)
class OneLook:
    """Bounds on the mean of observations, each wrong with a given probability at one look.

    Attributes:
        limits: the lowest and the highest possible observation. None if unknown. If they
            are -w and w, the observations count as paired differences.
        population: the number of examples of which the observations were drawn without
            replacement. None for independent draws.
    """

    limits: tuple[float, float] | None = None
    population: int | None = None

    def lower(self, observations: Float[Floats, " n"], error: float) -> float:
        """The lower bound of the mean of n observations. Minus infinity if they support none.

        Args:
            observations: the observations, in any order.
            error: the probability with which the bound may be wrong.
        """
        n = len(observations)
        if not n:
            return -math.inf
        # Sorted, so that no bit of a sum depends on the order of the rows of a table
        x = np.sort(observations)
        mean = math.fsum(x.tolist()) / n
        if n == self.population:
            return mean
        bound = self._bound(x, mean, error)
        if self.population is not None:
            # Without replacement, the error of a mean is smaller by this factor.
            left = (self.population - n) / (self.population - 1)
            bound = mean + (bound - mean) * math.sqrt(left)
        if self._is_paired:
            bound = _unless_chance(bound, x, error, self.population)
        return bound if self.limits is None else max(bound, self.limits[0])

    def upper(self, observations: Float[Floats, " n"], error: float) -> float:
        """The upper bound. See `lower`."""
        limits = self.limits and (-self.limits[1], -self.limits[0])
        return -OneLook(limits, self.population).lower(-observations, error)

    def interval(
        self, observations: Float[Floats, " n"], error: float
    ) -> tuple[float, float]:
        """The lower and the upper bound, wrong together with probability `error`."""
        half = error / 2
        return self.lower(observations, half), self.upper(observations, half)

    def refutes(
        self, observations: Float[Floats, "samples n"], claim: float, error: float
    ) -> Bool[Bools, " samples"]:
        """True for the samples that refute a mean of `claim` or less."""
        return np.array(
            [self.lower(sample, error) > claim for sample in observations], dtype=bool
        )

    @property
    def _is_paired(self) -> bool:
        return self.limits is not None and self.limits[0] == -self.limits[1]

    def _bound(self, x: Floats, mean: float, error: float) -> float:
        """The lower bound for independent draws. `x` is sorted."""
        values, counts = np.unique(x, return_counts=True)
        usual = float(values[counts.argmax()])
        off = x - usual
        n_off = int((off != 0.0).sum())
        if self.limits is not None:
            if self._is_paired:
                if _are_among(x, (*self.limits, 0.0)):
                    return _tango(x, self.limits[1], error)
            elif _are_among(x, self.limits):
                return _share(x, self.limits, error)
        if not n_off:
            # All are equal. Others may come, as far away as the limits allow.
            if self.limits is None:
                return -math.inf
            return usual + _tango(off, max(usual - self.limits[0], 0.0), error)
        bound = _student(x, mean, error)
        if n_off < _FEW and 2 * n_off <= len(x):
            bound = min(bound, usual + _tango(off, float(np.abs(off).max()), error))
        return bound


def _are_among(x: Floats, values: tuple[float, ...]) -> bool:
    """True if every observation is one of the values, up to rounding."""
    rounding = _ROUNDING * (max(values) - min(values))
    off = np.abs(x[:, None] - np.array(values))
    return bool((off <= rounding).any(axis=1).all())


def _student(x: Floats, mean: float, error: float) -> float:
    """The lower bound by Student's distribution."""
    from scipy import stats  # here, to keep the import of asktell light

    if len(x) < 2:
        return -math.inf
    standard_error = float(x.std(ddof=1)) / math.sqrt(len(x))
    return mean - float(stats.t.isf(error, len(x) - 1)) * standard_error


def _share(x: Floats, limits: tuple[float, float], error: float) -> float:
    """The lower bound of Clopper and Pearson for observations that are all at one of their limits."""
    from scipy import stats

    low, high = limits
    n_high = int((x > (low + high) / 2).sum())
    if not n_high:
        return low
    share = float(stats.beta.ppf(error, n_high, len(x) - n_high + 1))
    return low + (high - low) * share


def _tango(x: Floats, width: float, error: float) -> float:
    """The lower bound of Tango for n differences from -width to width.

    Differences between these count in parts. This makes the bound wider than needed,
    because no distribution with the same mean distance from 0 varies more.
    """
    from scipy import stats

    n, z = len(x), float(stats.norm.isf(error))
    if width <= 0.0:
        return 0.0
    more = float(x[x > 0.0].sum()) / width
    less = -float(x[x < 0.0].sum()) / width
    refuted, open_ = -1.0, (more - less) / n
    for _ in range(_HALVINGS):
        middle = (refuted + open_) / 2
        if _score(more, less, n, middle) > z:
            refuted = middle
        else:
            open_ = middle
    return width * open_


def _score(more: float, less: float, n: int, mean: float) -> float:
    """The lead of the observed difference over a possible mean, in its standard errors under this mean.

    Tango's equation (8): the share of examples on which only the second scored is the
    most likely one under this mean.
    """
    lead = more - less - n * mean
    b = -more - less + (2 * n - more + less) * mean
    c = -less * mean * (1.0 - mean)
    share = (math.sqrt(max(b * b - 8.0 * n * c, 0.0)) - b) / (4 * n)
    variance = n * (2.0 * share + mean * (1.0 - mean))
    if variance <= 0.0:
        return math.inf if lead > 0.0 else 0.0
    return lead / math.sqrt(variance)


def _unless_chance(
    bound: float, x: Floats, error: float, population: int | None
) -> float:
    """The bound of paired differences, or 0 if random signs explain a lead: the mid-p value is above `error`."""
    if bound <= 0.0:
        return bound
    sizes = np.abs(x[x != 0.0])
    lead = float(x.sum())
    if np.ptp(sizes) <= _ROUNDING * float(sizes.max()):
        p = _mid_p(int((x > 0.0).sum()), len(sizes), len(x), population)
    elif len(sizes) < _FEW:
        if population is not None:
            # In a sample without replacement, the same lead is more of its deviations.
            lead /= math.sqrt((population - len(x)) / (population - 1))
        sums = np.zeros(1)
        for size in sizes.tolist():
            sums = np.concatenate((sums + size, sums - size))
        rounding = _ROUNDING * float(sizes.sum())
        p = float((sums > lead + rounding).mean())
        p += float((np.abs(sums - lead) <= rounding).mean()) / 2
    else:
        return bound
    return bound if p <= error else 0.0


def _mid_p(n_more: int, n: int, n_seen: int, population: int | None) -> float:
    """The mid-p value of `n_more` of n differences in one direction, on `n_seen` examples.

    If they are a part of a population, as many of its examples are taken to differ in
    each direction as the seen ones suggest.
    """
    from scipy import stats

    if population is None:
        p = stats.binom.sf(n_more, n, 0.5)
        return float(p + stats.binom.pmf(n_more, n, 0.5) / 2)
    half = min(max(n_more, round(n * population / n_seen / 2)), population // 2)
    more = np.arange(max(0, half - population + n_seen), min(half, n_seen) + 1)
    less = more - (2 * n_more - n)
    urn = population - half, half, n_seen - more
    p = stats.hypergeom.cdf(less - 1, *urn)
    p += stats.hypergeom.pmf(less, *urn) / 2
    p *= stats.hypergeom.pmf(more, population, half, n_seen)
    return float(p.sum())
