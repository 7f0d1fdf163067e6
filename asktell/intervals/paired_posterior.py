"""The probability that a mean of paired differences is positive, also from few of them: conjugate Bayes.

A mean difference counts in units of the differences' own spread, so no range is needed. The prior is symmetric and a
mixture: prompts that hardly differ, prompts that differ by a quarter of the spread, systems that differ by all of it
(recorded tables have .05 to .8) and metrics without noise are equally likely before anything is seen. So one
difference makes .69, two equal ones .89, three .98, and differences that are all zero .5; for scores of 0 and 1 it is
.63, .73, .81 and .5.

- Differences of any size: normal with unknown mean and spread (normal-inverse-gamma; Student's distribution).
- Scores of two values, as 0 and 1: pairs that agree say nothing about the sign, so only those that disagree are
  counted (beta-binomial).

Without replacement what is not yet seen is predicted, and the probability is that of the mean over all of them. A tie
counts half. This is no bound: among prompts that are all alike, whoever looks long enough sees a high probability.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.intervals.base import Floats

_EFFECTS = np.array([0.06, 0.25, 1.0, 4.0])
"""Typical sizes of a mean difference, in standard deviations of a difference; why these, says the text above."""
_COUNTS = np.array([30.0, 10.0, 1.0])  # the same for signs: how many pairs of either sign the prior is worth
_NODES = 1024  # numerical: of the midpoint rule
_ROUNDING = 1e-12  # numerical: a sum of decimal fractions is off by less


def p_positive(differences: npt.ArrayLike, population: int | None = None, *, two_valued: bool = False) -> float:
    """(n,) paired differences, `two_valued` if of scores of two values -> probability of a positive mean.

    The mean is that over `population` members, of which n were seen, or the expectation (None).
    """
    x = np.asarray(differences, dtype=np.float64)
    rest = np.inf if population is None else population - len(x)
    if not x.any():
        return 0.5
    if rest == 0:
        total = math.fsum(x.tolist())
        # Sums of decimal fractions that are equal differ by some units in the last place.
        return 0.5 if abs(total) <= _ROUNDING * float(np.abs(x).sum()) else float(total > 0)
    return _of_signs(x, rest) if two_valued else _of_sizes(x, rest)


def _of_sizes(x: Floats, rest: float) -> float:
    from scipy import special, stats  # here, to keep the import of asktell light

    n, mean = len(x), float(x.mean())
    weight = n + _EFFECTS**-2
    # About the mean that each part of the prior expects.
    squares = ((x - mean) ** 2).sum() + mean**2 * n / (1 + n * _EFFECTS**2)
    plausible = -0.5 * np.log1p(n * _EFFECTS**2) - 0.5 * n * np.log(squares / squares.max())
    predicted = n * mean / weight
    spread = np.sqrt(squares / n * (1 / weight + 1 / rest))
    needed = 0.0 if rest == np.inf else -n * mean / rest
    return float(special.softmax(plausible) @ stats.t.cdf((predicted - needed) / spread, n))


def _of_signs(x: Floats, rest: float) -> float:
    from scipy import special, stats

    more, fewer = int((x > 0).sum()), int((x < 0).sum())
    shares = (np.arange(_NODES) + 0.5) / _NODES
    prior = stats.beta.pdf(shares[:, None], _COUNTS, _COUNTS).sum(axis=1)
    density = special.softmax(np.log(prior) + more * np.log(shares) + fewer * np.log1p(-shares))
    if rest == np.inf:
        return float(density[_NODES // 2 :].sum())
    disagreeing = (more + fewer + 0.5) / (len(x) + 1)
    step = disagreeing * (2 * shares - 1)
    ahead = (more - fewer + rest * step) / np.sqrt(rest * (disagreeing - step**2))
    return float(density @ special.ndtr(ahead))
