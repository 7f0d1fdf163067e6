"""A model of right and wrong answers: an ability of each prompt, a difficulty of each example (Rasch 1960).

A score is 1 with probability logistic(ability + ease). Abilities are normal around 0, with unknown variance. What ease
examples have, no shape is assumed for: it is a distribution on a grid, with a Dirichlet prior around a broad normal
one. For every guess at the abilities' variance, abilities and that distribution are found by EM (Bock & Aitkin 1981),
abilities have Laplace's approximation with the examples integrated out, and the guesses are weighted by their
likelihood and a prior.

It is one half of the posterior of scores of 0 and 1, beside the two-way model (`asktell.posterior.statement`). In this
half, an example that is right or wrong with every prompt says nothing of how prompts differ.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Draws, Indices, Mask, Matrix, Vector, table
from asktell.posterior.equations import cholesky

# The ends of the grid are shares of .001 and .999, further than examples can tell.
_EASE = np.linspace(-7.0, 7.0, 29)
_BROAD_WEIGHT = 1.0  # of the prior, in examples; of 0.5, 1 and 2 the deviation of a level's error was nearest to 1
# The log of the abilities' variance: on recorded tables of prompts about -4, of models -1 to 0. Where most prompts have
# a single evaluation, scores tell little of it, and a prior for small variances pulls weak prompts to the level of
# those evaluated most. Of (-2, 1.7), (-1, 2) and (0, 2) this one covered best at equal Brier scores on both.
_LOG_VARIANCES = np.linspace(-5.0, 2.0, 9)
_LOG_VARIANCE_MEAN, _LOG_VARIANCE_DEVIATION = -1.0, 2.0
_STEPS, _CONVERGED = 60, 0.01
_MOST_NUMBERS = 1 << 20  # in one array, 8 MB


class _Fit(NamedTuple):
    density: float  # log of the likelihood and the prior, up to a constant
    abilities: Vector  # (K,)
    root: Matrix  # (K, K) of the precision of abilities, lower triangle
    ease: Matrix  # (J, Q) posterior of each seen example's


class Rasch:
    """The posterior of every prompt's share of 1, on the given N examples or on new inputs (`n_examples` None).

    `arms`, `examples` and `scores` (n,) are those of every known cell; a negative number stands for an example of its
    own. `centre`: the share about which the level is likely beforehand, None for one half.
    """

    def __init__(
        self,
        arms: Indices,
        examples: Indices,
        scores: Vector,
        n_arms: int,
        n_examples: int | None,
        centre: float | None = None,
    ) -> None:
        named = np.where(examples < 0, -1 - np.arange(len(arms)), examples)
        seen, self._columns = np.unique(named, return_inverse=True)
        self._arms, self._scores, self._n_arms, self._n_examples = arms, scores, n_arms, n_examples
        self._given: Mask = seen >= 0
        shape = len(seen), n_arms
        self._right, self._wrong = (table(weights, self._columns, arms, shape) for weights in (scores, 1.0 - scores))
        self._of_right, self._of_wrong, self._of_both = self._right.T, self._wrong.T, (self._right + self._wrong).T
        self._broad = _broad(0.0 if centre is None else float(np.log(centre / (1.0 - centre))))
        self._fits = []
        abilities, distribution = np.zeros(n_arms), self._broad
        for log_variance in _LOG_VARIANCES:  # each starts where the last one ended
            found, distribution = self._fit(float(log_variance), abilities, distribution)
            abilities = found.abilities
            self._fits.append(found)
        densities = np.array([found.density for found in self._fits])
        self._weights = np.exp(densities - densities.max())
        self._weights /= self._weights.sum()

    def _fit(self, log_variance: float, abilities: Vector, distribution: Vector) -> tuple[_Fit, Vector]:
        variance = np.exp(log_variance)
        n_examples = self._right.shape[0]
        for _ in range(_STEPS):
            p = _logistic(abilities)
            log_ease = self._right @ np.log(p) + self._wrong @ np.log1p(-p) + np.log(distribution)
            top = log_ease.max(axis=1, keepdims=True)
            ease = np.exp(log_ease - top)
            total = ease.sum(axis=1, keepdims=True)
            ease /= total
            wrong = self._of_wrong @ ease
            gradient = ((self._of_right @ ease) * (1.0 - p) - wrong * p).sum(axis=1) - abilities / variance
            curvature = ((self._of_both @ ease) * p * (1.0 - p)).sum(axis=1) + 1.0 / variance
            step = np.clip(gradient / curvature, -1.0, 1.0)
            new = (ease.sum(axis=0) + _BROAD_WEIGHT * self._broad) / (n_examples + _BROAD_WEIGHT)
            moved = np.abs(step).max() / max(np.sqrt(variance), 0.05)
            moved = max(moved, 10.0 * np.abs(new - distribution).max())
            abilities, distribution = abilities + step, new
            if moved < _CONVERGED:
                break
        least = 0.2 / variance  # no direction is known less than before any score
        root = cholesky(self._precision(p, ease, curvature), least, 3.0)
        density = float((np.log(total) + top).sum() - 0.5 * (abilities @ abilities) / variance)
        density -= 0.5 * self._n_arms * np.log(variance) + np.log(np.diag(root)).sum()
        density += _BROAD_WEIGHT * float(self._broad @ np.log(distribution))
        density -= 0.5 * ((log_variance - _LOG_VARIANCE_MEAN) / _LOG_VARIANCE_DEVIATION) ** 2
        return _Fit(density, abilities, root, ease), distribution

    def _precision(self, p: Matrix, ease: Matrix, curvature: Vector) -> Matrix:
        """(K, K) of the abilities: what an example's unknown ease takes away is shared by those who have seen it."""
        result = np.diag(curvature)
        order = np.argsort(self._columns, kind="stable")
        ends = np.cumsum(np.bincount(self._columns))
        for weights, start, end in zip(ease, np.concatenate(([0], ends)), ends, strict=False):
            mine = self._arms[order[start:end]]
            off = (p[mine] - (p[mine] @ weights)[:, None]) * np.sqrt(weights)
            result[np.ix_(mine, mine)] -= off @ off.T
        return result

    def draws(self, n_draws: int, rng: np.random.Generator) -> Draws:
        """(S, K) joint draws of the prompts' means."""
        which = np.sort(rng.choice(len(self._fits), n_draws, p=self._weights))
        result = np.empty((n_draws, self._n_arms))
        size = max(1, _MOST_NUMBERS // (self._n_arms * len(_EASE)))
        for number, found in enumerate(self._fits):
            rows = np.flatnonzero(which == number)
            for start in range(0, len(rows), size):
                some = rows[start : start + size]
                result[some] = self._draw(found, len(some), rng)
        return result[rng.permutation(n_draws)]

    def _draw(self, found: _Fit, n: int, rng: np.random.Generator) -> Draws:
        # Not scipy.linalg: importing it takes longer than this, for any number of prompts of which there are draws.
        off = np.linalg.solve(found.root.T, rng.normal(size=(self._n_arms, n))).T
        p = _logistic(found.abilities + off)  # (S, K, Q)
        distribution = self._distributions(found.ease, n, rng)
        if self._n_examples is None:
            return np.asarray((p @ distribution[:, :, None])[:, :, 0])
        known, unseen = self._unseen(found.ease[self._given])
        n_never = self._n_examples - int(self._given.sum())
        never = rng.multinomial(n_never, distribution) if n_never else np.zeros(distribution.shape)
        cells = unseen + never[:, None, :]
        variance = (p * (1.0 - p) * cells).sum(axis=2)
        right = np.rint((p * cells).sum(axis=2) + np.sqrt(variance) * rng.normal(size=variance.shape))
        left = self._n_examples - np.bincount(self._arms[self._given[self._columns]], minlength=self._n_arms)
        return np.asarray((known + np.clip(right, 0.0, left)) / self._n_examples)

    def _distributions(self, ease: Matrix, n: int, rng: np.random.Generator) -> Matrix:
        """(S, Q) draws of what ease examples have: a Bayesian bootstrap (Rubin 1981) of those seen, and the prior."""
        result = rng.gamma(np.maximum(_BROAD_WEIGHT * self._broad, 1e-3), size=(n, len(_EASE)))
        weights = rng.gamma(1.0, size=(n, len(ease)))
        places = (rng.random((n, len(ease)))[:, :, None] > np.cumsum(ease, axis=1)).sum(axis=2)
        np.add.at(result, (np.arange(n)[:, None], np.minimum(places, len(_EASE) - 1)), weights)
        return np.asarray(result / result.sum(axis=1, keepdims=True))

    def _unseen(self, ease: Matrix) -> tuple[Vector, Matrix]:
        """(K,) right answers on the examples given; (K, Q) expected numbers of cells, on examples seen by others."""
        mine = self._given[self._columns]
        known = np.bincount(self._arms[mine], self._scores[mine], self._n_arms).astype(np.float64)
        return known, np.maximum(ease.sum(axis=0) - self._of_both[:, self._given] @ ease, 0.0)


def _broad(centre: float) -> Vector:
    """(Q,) the distribution of ease beforehand: normal, with a deviation of 3, about the centre."""
    density = np.exp(-0.5 * ((_EASE - centre) / 3.0) ** 2)
    return np.asarray(density / density.sum())


def _logistic(abilities: Matrix) -> Draws:
    """Probabilities of 1 for every ability and ease, within what logarithms can take."""
    return np.asarray(1.0 / (1.0 + np.exp(-(abilities[..., None] + _EASE))))
