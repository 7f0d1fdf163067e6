"""One factor per metric: score = level_example + loading_example x ability_prompt + residual, all Gaussian.

An example with a large loading separates good prompts from bad ones. A loading of 0
carries no information on them. The mean loading is 1, so that an ability is a
difference in means, in the metric's units. Where scores are 0 and 1, an example that a
part p of the prompts get right has in a logistic model, to the first order, a loading
of p (1 - p) in some units, and a residual variance of as much: that is what is expected
before loadings are known, in the place of one loading and one variance for all.

The evidence of a study is kept as sums over each example's cells, with its prompts'
abilities as estimated by the study (a step of EM for factor analysis, Rubin & Thayer
1982). Sums of several studies add up. What is read from sums is shrunken: levels
towards their mean, loadings and residual variances towards those expected, by as much
as the examples turn out to be alike (empirical Bayes; for variances Smyth 2004). So few
cells say little.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int

_STEPS = 20  # of EM
_DIGITS = 6  # that are kept of sums, so that profiles are small
_ROUNDS = 3  # of residual variances and loadings, each given the other
# Grids of maximum marginal likelihood, a factor of about 2 from one to the next.
# Of loadings, in units of those expected
_DEVIATIONS = np.array([0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4])
# Of a residual variance's prior, in cells
_FREEDOMS = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1e6])
# Of that prior, in units of the mean residual variance
_SCALES = np.array([0.25, 0.5, 0.7, 1.0])
# Of a variance, in units of the scores' own: far below what any study can tell
_FLOOR = 1e-6
# Of the examples in the scores' variance: beyond, one of the two is not estimated
_SHARES = (0.05, 0.95)
# Where EM begins: a variance, in units of the scores' own over the mean loading's
# square
_FIRST_ABILITY = 0.1


class Sums(NamedTuple):
    """Per example (E,), sums over its cells: of 1, ability, ability², score, score², score x ability."""

    n: Float[Floats, " examples"]
    a: Float[Floats, " examples"]
    aa: Float[Floats, " examples"]
    y: Float[Floats, " examples"]
    yy: Float[Floats, " examples"]
    ya: Float[Floats, " examples"]

    @classmethod
    def of(
        cls,
        examples: Int[Ints, " cells"],
        y: Float[Floats, " cells"],
        a: Float[Floats, " cells"],
        variance: Float[Floats, " cells"],
        n_examples: int,
    ) -> "Sums":
        """The sums of cells, whose prompts have abilities of posterior mean `a` and `variance`, each (n,)."""
        columns = (np.ones(len(y)), a, a * a + variance, y, y * y, y * a)
        return cls(
            *(
                np.bincount(examples, column, n_examples).astype(float)
                for column in columns
            )
        )

    def rounded(self) -> "Sums":
        """The sums, rounded to six digits."""
        return Sums(*(_rounded(column) for column in self))

    def times(self, weight: float) -> "Sums":
        """The sums of `weight` times as many cells."""
        return Sums(*(weight * column for column in self))

    def into(self, places: Int[Ints, " examples"], n_examples: int) -> "Sums":
        """The sums among other examples, at distinct places."""
        return Sums(
            *(np.bincount(places, column, n_examples).astype(float) for column in self)
        )

    def plus(self, other: "Sums") -> "Sums":
        """Of the cells of both."""
        return Sums(*(column + more for column, more in zip(self, other, strict=True)))

    @classmethod
    def none(cls, n_examples: int) -> "Sums":
        """Of no cells."""
        return cls(*np.zeros((6, n_examples)))


class Learned(NamedTuple):
    """Of each example (E,): the average prompt's expected score, the loading, the variance of each, the residual's."""

    level: Float[Floats, " examples"]
    level_variance: Float[Floats, " examples"]
    loading: Float[Floats, " examples"]
    loading_variance: Float[Floats, " examples"]
    residual: Float[Floats, " examples"]


class Expected(NamedTuple):
    """The prior of the examples (E,), before their loadings are known.

    The levels have one `mean`, and the variance `between` about it.
    """

    mean: float
    between: float
    loading: Float[Floats, " examples"]
    residual: Float[Floats, " examples"]


def expected(sums: Sums, binary: bool) -> Expected:
    """Estimate the prior from the levels alone."""
    n, total = sums.n, sums.n.sum()
    mean = float(sums.y.sum() / total)
    spread = max(float(sums.yy.sum() / total) - mean**2, 1e-300)
    between = float(
        np.clip(_between(sums, mean, spread), _SHARES[0] * spread, _SHARES[1] * spread)
    )
    base = np.ones(len(n))
    if binary:  # E p (1 - p), of a Beta posterior
        size = spread / between - 1.0
        p, q = (
            size * mean + np.clip(sums.y, 0.0, n),
            size * (1.0 - mean) + np.clip(n - sums.y, 0.0, n),
        )
        base = p * q / ((size + n) * (size + n + 1.0))
    return Expected(
        mean,
        between,
        base / base.mean(),
        (spread - between) / float(base @ n / total) * base,
    )


def learned(sums: Sums, binary: bool) -> Learned:
    """Estimate the examples' parameters from the sums, with shrinkage. Without cells they are the prior's."""
    prior = expected(sums, binary)
    residual = prior.residual
    for _ in range(_ROUNDS):
        deviation = _likeliest_deviation(sums, prior, residual)
        level, loading, vl, vs, c = _regression(sums, prior, deviation, residual)
        squares = (
            sums.yy - 2.0 * level * sums.y - 2.0 * loading * sums.ya + sums.n * (level**2 + vl)
            + 2.0 * (level * loading + c) * sums.a + (loading**2 + vs) * sums.aa
        )  # fmt: skip
        residual = prior.residual * _shrunken(
            np.maximum(squares, 0.0) / prior.residual, sums.n, binary
        )
    level, loading, vl, vs, _ = _regression(sums, prior, deviation, residual)
    return Learned(level, vl, loading, vs, residual)


def fitted(
    arms: Int[Ints, " cells"],
    examples: Int[Ints, " cells"],
    y: Float[Floats, " cells"],
    n_arms: int,
    n_examples: int,
    binary: bool,
) -> tuple[Sums, float]:
    """The sums of a study's cells, and the variance of its prompts' abilities.

    Abilities are estimated with the expected loadings, not with the fitted loadings. So
    they are the abilities by which the prompts' means differ, and not the factor that
    explains most of the variance. An uncertain ability changes the loadings little.
    """
    n = np.bincount(arms, minlength=n_arms)
    there = n > 0
    mean: Float[Floats, " arms"] = np.zeros(n_arms)
    if y.max() == y.min():  # no information on abilities
        return Sums.of(examples, y, mean[arms], mean[arms], n_examples), 0.0
    prior = expected(Sums.of(examples, y, mean[arms], mean[arms], n_examples), binary)
    loading, weight = (
        prior.loading[examples],
        (prior.loading / prior.residual)[examples],
    )
    ability = _FIRST_ABILITY * float((prior.residual / prior.loading**2).mean())
    precision = (
        np.bincount(examples, minlength=n_examples) / prior.residual
        + 1.0 / prior.between
    )
    for _ in range(_STEPS):
        left = np.bincount(examples, y - loading * mean[arms], n_examples)
        level = (left / prior.residual + prior.mean / prior.between) / precision
        information = np.bincount(arms, weight * loading, n_arms).astype(float)
        variance: Float[Floats, " arms"] = 1.0 / (1.0 / ability + information)
        mean = variance * np.bincount(arms, weight * (y - level[examples]), n_arms)
        mean = np.where(there, mean - mean[there].mean(), 0.0)
        ability = max(float((mean**2 + variance)[there].mean()), 1e-3 * ability)
    return Sums.of(examples, y, mean[arms], variance[arms], n_examples), ability


def _rounded(x: Float[Floats, " examples"]) -> Float[Floats, " examples"]:
    size = np.where(x != 0.0, np.abs(x), 1.0)
    places = _DIGITS - 1 - np.floor(np.log10(size))
    up, down = 10.0 ** np.maximum(places, 0.0), 10.0 ** np.maximum(-places, 0.0)
    # To the float that is nearest to the decimal number
    return np.asarray(np.round(x / down * up) / up * down)


def _between(sums: Sums, mean: float, spread: float) -> float:
    """The variance of the examples, by moments. Where no example has two cells, half the variance of the scores."""
    seen = sums.n > 0
    n = sums.n[seen]
    freedom = (n - 1.0).clip(min=0.0).sum()
    if freedom < 1.0 or len(n) < 2:
        return 0.5 * spread
    within = np.maximum(sums.yy[seen] - sums.y[seen] ** 2 / n, 0.0).sum() / freedom
    off = (n * (sums.y[seen] / n - mean) ** 2).sum() - (len(n) - 1) * within
    return float(off / max(n.sum() - (n**2).sum() / n.sum(), 1e-12))


def _information(
    sums: Sums, prior: Expected, deviation: float, residual: Float[Floats, " examples"]
) -> tuple[Float[Floats, " examples"], ...]:
    """The loadings' prior variances, the precisions of level and loading, the term that they share, the determinant."""
    of_loading = (deviation * prior.loading) ** 2
    p11, p22, p12 = (
        sums.n / residual + 1.0 / prior.between,
        sums.aa / residual + 1.0 / of_loading,
        sums.a / residual,
    )
    return of_loading, p11, p22, p12, p11 * p22 - p12**2


def _regression(
    sums: Sums, prior: Expected, deviation: float, residual: Float[Floats, " examples"]
) -> tuple[Float[Floats, " examples"], ...]:
    """Level and loading of each example, their variances and covariance, by Bayes' linear regression."""
    of_loading, p11, p22, p12, det = _information(sums, prior, deviation, residual)
    b1, b2 = (
        sums.y / residual + prior.mean / prior.between,
        sums.ya / residual + prior.loading / of_loading,
    )
    return (
        (p22 * b1 - p12 * b2) / det,
        (p11 * b2 - p12 * b1) / det,
        p22 / det,
        p11 / det,
        -p12 / det,
    )


def _likeliest_deviation(
    sums: Sums, prior: Expected, residual: Float[Floats, " examples"]
) -> float:
    """The likeliest deviation of the loadings from the expected loadings, in units of the expected loadings."""
    b1 = (sums.y - prior.mean * sums.n - prior.loading * sums.a) / residual
    b2 = (sums.ya - prior.mean * sums.a - prior.loading * sums.aa) / residual
    densities = []
    for deviation in _DEVIATIONS:
        of_loading, p11, p22, p12, det = _information(sums, prior, deviation, residual)
        fit = (p22 * b1 * b1 - 2.0 * p12 * b1 * b2 + p11 * b2 * b2) / det
        densities.append(float((fit - np.log(det * of_loading)).sum()))
    return float(_DEVIATIONS[int(np.argmax(densities))])


def _shrunken(
    squares: Float[Floats, " examples"], n: Float[Floats, " examples"], alike: bool
) -> Float[Floats, " examples"]:
    """Variances from sums of squares of n each. The more alike they are, the more they shrink to a common variance."""
    from scipy.special import gammaln  # here, to keep the import of asktell light

    pooled = max(float(squares.sum() / n.sum()), _FLOOR)
    if alike:
        return np.full(len(n), pooled)
    best, likeliest = -np.inf, (1e6, pooled)
    for scale in _SCALES * pooled:
        for freedom in _FREEDOMS:
            density = (
                gammaln(0.5 * (freedom + n))
                - gammaln(0.5 * freedom)
                + 0.5 * freedom * np.log(freedom * scale)
            )
            total = float(
                (
                    density - 0.5 * (freedom + n) * np.log(freedom * scale + squares)
                ).sum()
            )
            if total > best:
                best, likeliest = total, (float(freedom), float(scale))
    freedom, scale = likeliest
    return np.asarray(
        np.maximum((freedom * scale + squares) / (freedom + n), _FLOOR * pooled)
    )
