"""A model of right and wrong answers: an ability of each prompt, an ease of each example (Rasch 1960).

The score y_ij of prompt i on example j is 0 or 1, with

    P(y_ij = 1) = logistic(ability_i + ease_j),    ability_i ~ N(0, v),    ease_j ~ pi.

No shape is assumed for the distribution pi of the ease. It has weights pi_q on a grid
x_q, with a Dirichlet prior around a broad normal distribution. With the examples
integrated out, the marginal log likelihood of the abilities is

    sum_j log sum_q pi_q prod_{i that saw j} p_iq^y_ij (1 - p_iq)^(1 - y_ij),    p_iq = logistic(ability_i + x_q).

For each value of v on a grid, abilities and pi maximize it, together with their priors,
by EM (Bock & Aitkin 1981):

- E step: the posterior probability of each grid point for each example, given abilities
  and pi.
- M step: a Newton step of each ability, and pi = the mean of these posteriors, with the
  prior as one more example.

The abilities then have Laplace's approximation. The values of v are weighted by their
likelihood and a prior.

This model is one half of the posterior of scores of 0 and 1, beside the two-way model
(`asktell.posterior.statement`). In this half, an example that every prompt gets right,
or every prompt gets wrong, carries no information on the differences between prompts.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints, distinct
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior.equations import cholesky, table

# The ends of the grid are shares of 0.001 and 0.999, further than examples can
# establish.
_EASE = np.linspace(-7.0, 7.0, 29)
# Weight of the prior, in examples; of 0.5, 1 and 2, 1 calibrated the error of the level
# best
_BROAD_WEIGHT = 1.0
# The log of the abilities' variance is about -4 on recorded tables of prompts, and -1
# to 0 on tables of models. Where most prompts have a single evaluation, scores carry
# little information on it. A prior for small variances then pulls weak prompts to the
# level of those evaluated most. Of (-2, 1.7), (-1, 2) and (0, 2), (-1, 2) covered best
# at equal Brier scores on both.
_LOG_VARIANCES = np.linspace(-5.0, 2.0, 9)
_LOG_VARIANCE_MEAN, _LOG_VARIANCE_DEVIATION = -1.0, 2.0
# A variance whose log density is so much lower has less than a thousandth of the weight
_NEGLIGIBLE = 7.0
_STEPS, _CONVERGED = 60, 0.01
_LONGEST_STEP = 1.0  # of an ability: a Newton step may overshoot
_LEAST_DEVIATION = 0.05  # of abilities, as the unit of convergence
# In units of the prior precision: no direction is known much less than before any score
_LEAST_PRECISION = 0.2
_BROAD_DEVIATION = 3.0  # of the prior of the ease
_LEAST_SHAPE = 1e-3  # of a gamma draw
_MOST_NUMBERS = 1 << 20  # most numbers in one array, 8 MB


class _Fit(NamedTuple):
    density: float  # log of the likelihood and the priors, up to a constant
    abilities: Float[Floats, " arms"]
    # Lower triangle, the root of the precision of the abilities
    root: Float[Floats, "arms arms"]
    ease: Float[Floats, "seen levels"]  # posterior of the ease of each seen example


class Rasch:
    """The posterior of every prompt's share of 1.

    Args:
        arms: (n,) the prompt of each known cell.
        examples: (n,) its example. A negative number is an example of its own.
        scores: (n,) its score, 0 or 1.
        n_arms: K.
        n_examples: N for the share on the given examples, None for the share on new
            inputs.
        centre: The share around which the level is likely beforehand, None for one
            half.
    """

    def __init__(
        self,
        arms: Int[Ints, " cells"],
        examples: Int[Ints, " cells"],
        scores: Float[Floats, " cells"],
        n_arms: int,
        n_examples: int | None,
        centre: float | None = None,
    ) -> None:
        named = np.where(examples < 0, -1 - np.arange(len(arms)), examples)
        seen, self._columns = np.unique(named, return_inverse=True)
        self._arms, self._scores, self._n_arms, self._n_examples = (
            arms,
            scores,
            n_arms,
            n_examples,
        )
        self._given: Bool[Bools, " cells"] = seen >= 0
        shape = len(seen), n_arms
        self._right = table(scores, self._columns, arms, shape)
        self._both = table(np.ones(len(arms)), self._columns, arms, shape)
        # The numbers of right answers. The gradient of the abilities needs no more of the
        # scores.
        self._right_of_arm = np.bincount(arms, scores, n_arms)
        self._right_of_example = np.bincount(self._columns, scores, len(seen))
        self._by_count = _by_count(arms, self._columns)
        self._broad = _broad(
            0.0 if centre is None else float(np.log(centre / (1.0 - centre)))
        )
        self._fits = []
        top = -np.inf
        abilities, distribution = np.zeros(n_arms), self._broad
        for log_variance in _LOG_VARIANCES:  # each fit starts where the last fit ended
            fit, distribution = self._fit(float(log_variance), abilities, distribution)
            abilities = fit.abilities
            self._fits.append(fit)
            top = max(top, fit.density)
            # Beyond the most likely variance, the density only falls.
            if fit.density < top - _NEGLIGIBLE:
                break
        densities = np.array([fit.density for fit in self._fits])
        self._weights = np.exp(densities - densities.max())
        self._weights /= self._weights.sum()

    def _fit(
        self,
        log_variance: float,
        abilities: Float[Floats, " arms"],
        distribution: Float[Floats, " levels"],
    ) -> tuple[_Fit, Float[Floats, " levels"]]:
        """Run EM for one variance of the abilities, from given abilities (K,) and a distribution of the ease (Q,)."""
        variance = np.exp(log_variance)
        for _ in range(_STEPS):
            p, ease, log_likelihood = self._e_step(abilities, distribution)
            step, curvature = self._newton_step(abilities, variance, p, ease)
            # The M step for the distribution of the ease
            new = ease.sum(axis=0) + _BROAD_WEIGHT * self._broad
            new /= len(ease) + _BROAD_WEIGHT
            moved = np.abs(step).max() / max(np.sqrt(variance), _LEAST_DEVIATION)
            moved = max(moved, 10.0 * np.abs(new - distribution).max())
            abilities, distribution = abilities + step, new
            if moved < _CONVERGED:
                break
        root = cholesky(
            self._precision(p, ease, curvature), _LEAST_PRECISION / variance, 3.0
        )
        # Laplace's approximation of the marginal likelihood of the variance, and the
        # priors.
        density = float(log_likelihood - 0.5 * (abilities @ abilities) / variance)
        density -= 0.5 * self._n_arms * np.log(variance) + np.log(np.diag(root)).sum()
        density += _BROAD_WEIGHT * float(self._broad @ np.log(distribution))
        density -= (
            0.5 * ((log_variance - _LOG_VARIANCE_MEAN) / _LOG_VARIANCE_DEVIATION) ** 2
        )
        return _Fit(density, abilities, root, ease), distribution

    def _e_step(
        self, abilities: Float[Floats, " arms"], distribution: Float[Floats, " levels"]
    ) -> tuple[Float[Floats, "arms levels"], Float[Floats, "seen levels"], float]:
        """Probabilities of 1 (K, Q), the posterior (J, Q) of each seen example's ease, and the log likelihood."""
        p = 1.0 / (1.0 + np.exp(-(abilities[:, None] + _EASE)))
        # The log of p / (1 - p) is ability + ease.
        log_ease = self._both @ np.log1p(-p) + np.log(distribution)
        log_ease += (self._right @ abilities)[:, None]
        log_ease += self._right_of_example[:, None] * _EASE
        top = log_ease.max(axis=1, keepdims=True)
        ease = np.exp(log_ease - top)
        total = ease.sum(axis=1, keepdims=True)
        ease /= total
        return p, ease, float((np.log(total) + top).sum())

    def _newton_step(
        self,
        abilities: Float[Floats, " arms"],
        variance: float,
        p: Float[Floats, "arms levels"],
        ease: Float[Floats, "seen levels"],
    ) -> tuple[Float[Floats, " arms"], Float[Floats, " arms"]]:
        """The step (K,) of the M step for the abilities, and the expected information (K,) about each of them."""
        expected = (self._both.T @ ease) * p  # right answers at each ease
        gradient = self._right_of_arm - expected.sum(axis=1) - abilities / variance
        curvature = (expected * (1.0 - p)).sum(axis=1) + 1.0 / variance
        return np.clip(gradient / curvature, -_LONGEST_STEP, _LONGEST_STEP), curvature

    def _precision(
        self,
        p: Float[Floats, "arms levels"],
        ease: Float[Floats, "seen levels"],
        curvature: Float[Floats, " arms"],
    ) -> Float[Floats, "arms arms"]:
        """The precision of the abilities.

        The unknown ease of an example takes away information. The loss is common to the
        prompts that have seen it.
        """
        result = np.diag(curvature)
        for columns, arms in self._by_count:
            weights = ease[columns]
            of_arms = p[arms]  # (examples, count, Q)
            off = of_arms - of_arms @ weights[:, :, None]
            off *= np.sqrt(weights)[:, None, :]
            pairs = arms[:, :, None], arms[:, None, :]
            np.subtract.at(result, pairs, off @ off.transpose(0, 2, 1))
        return result

    def draws(
        self, n_draws: int, rng: np.random.Generator
    ) -> Float[Floats, "draws arms"]:
        """Joint draws of the prompts' means."""
        fit_of_draw = np.sort(rng.choice(len(self._fits), n_draws, p=self._weights))
        result = np.empty((n_draws, self._n_arms))
        size = max(1, _MOST_NUMBERS // (self._n_arms * len(_EASE)))
        for number, fit in enumerate(self._fits):
            rows = np.flatnonzero(fit_of_draw == number)
            for start in range(0, len(rows), size):
                some = rows[start : start + size]
                result[some] = self._draw(fit, len(some), rng)
        return result[rng.permutation(n_draws)]

    def _draw(
        self, found: _Fit, n: int, rng: np.random.Generator
    ) -> Float[Floats, "draws arms"]:
        """Draws of the prompts' means from the fit for one variance."""
        # Not scipy.linalg: importing it takes longer than this solution, however many
        # prompts there are.
        off = np.linalg.solve(found.root.T, rng.normal(size=(self._n_arms, n))).T
        abilities = found.abilities + off
        p = 1.0 / (1.0 + np.exp(-(abilities[:, :, None] + _EASE)))  # (S, K, Q)
        distribution = self._distributions(found.ease, n, rng)
        if self._n_examples is None:
            return np.asarray((p @ distribution[:, :, None])[:, :, 0])
        # The mean over the given examples: right answers seen, and draws of those on
        # the unseen cells.
        n_right, unseen = self._unseen(found.ease[self._given])
        n_never = self._n_examples - int(self._given.sum())
        never = (
            rng.multinomial(n_never, distribution)
            if n_never
            else np.zeros(distribution.shape)
        )
        cells = unseen + never[:, None, :]
        variance = (p * (1.0 - p) * cells).sum(axis=2)
        right = np.rint(
            (p * cells).sum(axis=2)
            + np.sqrt(variance) * rng.normal(size=variance.shape)
        )
        left = self._n_examples - np.bincount(
            self._arms[self._given[self._columns]], minlength=self._n_arms
        )
        return np.asarray((n_right + np.clip(right, 0.0, left)) / self._n_examples)

    def _distributions(
        self, ease: Float[Floats, "seen levels"], n: int, rng: np.random.Generator
    ) -> Float[Floats, "draws levels"]:
        """Draws of the distribution of the ease: a Bayesian bootstrap (Rubin 1981) with the prior."""
        result = rng.gamma(
            np.maximum(_BROAD_WEIGHT * self._broad, _LEAST_SHAPE), size=(n, len(_EASE))
        )
        weights = rng.gamma(1.0, size=(n, len(ease)))
        places = (rng.random((n, len(ease)))[:, :, None] > np.cumsum(ease, axis=1)).sum(
            axis=2
        )
        np.add.at(
            result, (np.arange(n)[:, None], np.minimum(places, len(_EASE) - 1)), weights
        )
        return np.asarray(result / result.sum(axis=1, keepdims=True))

    def _unseen(
        self, ease: Float[Floats, "seen levels"]
    ) -> tuple[Float[Floats, " arms"], Float[Floats, "arms levels"]]:
        """Right answers (K,) on the given examples, and expected numbers (K, Q) of unseen cells on seen examples."""
        mine = self._given[self._columns]
        n_right = np.bincount(
            self._arms[mine], self._scores[mine], self._n_arms
        ).astype(np.float64)
        return n_right, np.maximum(
            ease.sum(axis=0) - self._both.T[:, self._given] @ ease, 0.0
        )


def _by_count(
    arms: Int[Ints, " cells"], columns: Int[Ints, " cells"]
) -> list[tuple[Int[Ints, " some"], Int[Ints, "some count"]]]:
    """The seen examples, grouped by the number of prompts that have seen them, with these prompts."""
    counts = np.bincount(columns)
    order = np.argsort(columns, kind="stable")
    starts = np.cumsum(counts) - counts
    groups = []
    for count in distinct(counts):
        some = np.flatnonzero(counts == count)
        groups.append((some, arms[order[starts[some][:, None] + np.arange(count)]]))
    return groups


def _broad(centre: float) -> Float[Floats, " levels"]:
    """The prior distribution of the ease: normal, with a deviation of 3, around the centre."""
    density = np.exp(-0.5 * ((_EASE - centre) / _BROAD_DEVIATION) ** 2)
    return np.asarray(density / density.sum())
