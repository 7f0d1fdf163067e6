"""How the prompts' means of several metrics are correlated.

Each metric has a posterior of its own. Three correlations join the posteriors:

1. *Of the levels.* The level that all prompts share is uncertain because of the
   examples. So levels are correlated as the scores of a prompt are over its examples.
2. *Of the prompts.* Prompts that are better by one metric are often worse by another.
   Let rho be the correlation of the prompts' effects in two metrics, in the directions
   that the goal wants. Its prior is atanh(rho) ~ N(-0.4, 0.5). On 21 recorded tables,
   the mean was -0.53 and the deviation 0.5. The posterior of rho follows from the
   scores, and draws come from the mixture over rho.
3. *Of the errors.* They are correlated as the scores of a cell are without the effects
   of its prompt and of its example.

The marginal posteriors are turned into observations, one for each prompt and metric. A
normal posterior with mean m and variance v, under the prior N(0, s²), is the posterior
after an observation x = m s² / (s² - v) with the error variance d = v s² / (s² - v). So
the likelihood of rho is the product over the prompts of N(x_i; 0, S(rho) + D_i). Given
rho, each prompt has the posterior of a normal mean with several components. So a prompt
with many scores keeps its means, and a prompt with few scores follows rho.

With more than two metrics, each pair of metrics has its own rho. Where the matrix of
all rho is no correlation matrix, it is shrunk to independence until it is one.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Float, Int

# The prior of atanh(rho), and its grid in deviations from the mean
_EXPECTED, _DEVIATION, _GRID = -0.4, 0.5, np.linspace(-2.5, 2.5, 11)
_PARTS = 5  # of the mixture over rho, equally likely, by turns among the draws
# Bounds of v / s². At 1 nothing was observed, and the error of the observation would be
# infinite. Below the least, a mean is known.
_LEAST_UNKNOWN, _MOST_UNKNOWN = 1e-9, 0.98
# Weight of independence, in scores: correlations of a few scores are shrunk to 0
_INDEPENDENCE = 10.0
_SWEEPS = 2  # by turns over prompts and examples: more change little
_LEAST_EIGENVALUE = 0.05  # of a correlation matrix
_TINY = np.finfo(np.float64).tiny
_NEGLIGIBLE = 1e-12  # a variance that makes a singular matrix positive definite


def of_scores(
    cells: Cells, n_arms: int
) -> tuple[Float[Floats, "metrics metrics"], Float[Floats, "metrics metrics"]]:
    """Correlations of the scores within prompts, and of the residuals, shrunk to independence.

    Within prompts, a score is relative to the mean of its prompt. A residual is without
    the effects of prompt and example. A score on an example that is none of the N has
    no effect of an example. A metric that does not vary is independent of the others.
    """
    arms, examples, is_given = cells.arms, cells.examples, cells.examples >= 0
    of_arms = np.bincount(arms, minlength=n_arms)
    freedom = len(arms) - int(np.count_nonzero(of_arms))
    within = left = _centred(cells.scores, arms, of_arms)
    size = np.abs(cells.scores).max(axis=0)
    if not is_given.any():
        return (_shrunk(within, size, freedom),) * 2
    of_examples = np.bincount(examples[is_given])
    for _ in range(_SWEEPS):
        if is_given.all():
            left = _centred(left, examples, of_examples)
        else:
            left = left.copy()
            left[is_given] = _centred(left[is_given], examples[is_given], of_examples)
        left = _centred(left, arms, of_arms)
    n_effects = int(np.count_nonzero(of_examples)) - 1
    return _shrunk(within, size, freedom), _shrunk(left, size, freedom - n_effects)


def _centred(
    scores: Float[Floats, "cells metrics"],
    groups: Int[Ints, " cells"],
    counts: Int[Ints, " groups"],
) -> Float[Floats, "cells metrics"]:
    """The scores less the means of their groups, which have so many scores."""
    result = np.empty_like(scores)
    for j, column in enumerate(scores.T):
        means = np.bincount(groups, column, len(counts)) / np.maximum(counts, 1)
        result[:, j] = column - means[groups]
    return result


def _shrunk(
    left: Float[Floats, "cells metrics"], size: Float[Floats, " metrics"], freedom: int
) -> Float[Floats, "metrics metrics"]:
    """Correlations of what is `left` of scores up to `size`, with so many degrees of freedom."""
    squares = left.T @ left
    deviations = np.sqrt(np.diagonal(squares))
    varies = deviations > 1e-9 * size * np.sqrt(len(left))
    weight = max(0, freedom) / (max(0, freedom) + _INDEPENDENCE)
    unit = np.where(varies, weight**0.5 / np.where(varies, deviations, 1.0), 0.0)
    result = squares * unit * unit[:, None]
    np.fill_diagonal(result, 1.0)
    return np.asarray(result)


class _Parts(NamedTuple):
    """Draws (c, S, K) of independent metrics as the sum mean + part * level + own."""

    mean: Float[Floats, "columns arms"]
    level: Float[Floats, "columns draws"]  # what all prompts share
    part: Float[Floats, "columns arms"]  # a prompt's part of the level
    own: Float[Floats, "columns draws arms"]


def join(
    draws: Float[Floats, "columns draws arms"],
    errors: Float[Floats, "arms columns"],
    cells: Cells,
    signs: Float[Floats, " columns"],
    is_new: bool,
    seed: int,
) -> None:
    """Correlate the `draws` of independent metrics, which are changed.

    Args:
        draws: Of the columns' means.
        errors: Their deviations, NaN where the scores do not support one.
        cells: The cells with scores in all columns.
        signs: 1 for columns of which more is better, -1 for the others, 0 for columns
            that stay independent.
        is_new: True if the means are over new inputs.
        seed: The seed of the selection.
    """
    n_arms = draws.shape[2]
    parted = _parted(draws, errors, is_new)
    effects = parted.mean - parted.mean.mean(axis=1, keepdims=True)
    variances = np.einsum("jsk,jsk->jk", parted.own, parted.own) / draws.shape[1]
    # The expected mean square of the effects is their variance, as in the M step of EM.
    spread = np.sqrt((effects**2 + variances).mean(axis=1))
    some = np.flatnonzero(
        (signs != 0) & (spread > _LEAST_UNKNOWN * np.abs(parted.mean).max(1))
    )
    if len(some) < 2:
        return
    among = np.ix_(some, some)
    spread = spread[some, None]
    unknown = np.clip(variances[some] / spread**2, _NEGLIGIBLE, _MOST_UNKNOWN)
    observed = effects[some] / spread / (1.0 - unknown)
    noise = unknown / (1.0 - unknown)
    within, residual = of_scores(cells, n_arms)
    of_errors = residual[among]
    rho = _correlations(observed, noise, of_errors, signs[some], seed)
    shift, roots = _effects(observed, noise, of_errors, rho)
    shift -= effects[some].T / spread.T
    # Means that are known stay exactly as they are.
    is_open = unknown > _LEAST_UNKNOWN
    shift *= is_open.T
    level = _levels(parted.level[some], within[among])
    normals = parted.own[some] / (spread * np.sqrt(unknown))[:, None]
    turns = np.arange(draws.shape[1]) % _PARTS
    for i, j in enumerate(some):
        moved = (parted.mean[j] + spread[i] * shift[:, :, i])[turns]
        moved += level[i, :, None] * parted.part[j]
        for k in range(i + 1):
            moved += (spread[i] * roots[:, :, i, k])[turns] * normals[k]
        draws[j] = np.where(is_open[i], moved, draws[j])


def _parted(
    draws: Float[Floats, "columns draws arms"],
    errors: Float[Floats, "arms columns"],
    is_new: bool,
) -> _Parts:
    """Divide the draws into their parts.

    Over new inputs, every prompt has the whole level. Over given examples, a prompt has
    less of it the more examples it has seen.
    """
    mean = draws.mean(axis=1)
    off = draws - mean[:, None]
    level = off.mean(axis=2)
    level -= level.mean(axis=1, keepdims=True)
    part = np.ones(mean.shape)
    if not is_new:
        squares = np.maximum((level**2).sum(axis=1, keepdims=True), _TINY)
        part = np.clip((level[:, None] @ off)[:, 0] / squares, 0.0, 1.0)
        part[errors.T == 0.0] = 0.0
    off -= level[:, :, None] * part[:, None]
    return _Parts(mean, level, part, off)


def _correlations(
    observed: Float[Floats, "metrics arms"],
    noise: Float[Floats, "metrics arms"],
    of_errors: Float[Floats, "metrics metrics"],
    signs: Float[Floats, " metrics"],
    seed: int,
) -> Float[Floats, "parts metrics metrics"]:
    """Correlations of the prompts' effects: quantiles of the posterior, equally likely.

    `observed` are effects in units of their deviation, with error variances `noise`.
    """
    m, n_arms = observed.shape
    result = np.tile(np.eye(m), (_PARTS, 1, 1))
    middles = (np.arange(_PARTS) + 0.5) / _PARTS
    for number, (j, k) in enumerate(combinations(range(m), 2)):
        z = signs[j] * signs[k] * (_EXPECTED + _DEVIATION * _GRID)
        both = np.tanh(z)[:, None] + of_errors[j, k] * np.sqrt(noise[j] * noise[k])
        x, y, a, b = observed[j], observed[k], 1.0 + noise[j], 1.0 + noise[k]
        determinant = a * b - both**2
        squares = (b * x**2 - 2.0 * both * x * y + a * y**2) / determinant
        fits = (np.log(determinant) + squares).sum(axis=1)
        # The effects are relative to their mean, which leaves one prompt fewer.
        density = -0.5 * ((n_arms - 1.0) / n_arms * fits + _GRID**2)
        weights = np.exp(density - density.max())
        ends = np.cumsum(weights) / weights.sum()
        quantiles = np.tanh(
            np.interp(middles, ends - 0.5 * np.diff(ends, prepend=0), z)
        )
        if m > 2:
            # In a random order, so that the quantiles of the pairs are independent.
            quantiles = quantiles[counters.permutation(seed, "pair", _PARTS, number)]
        result[:, j, k] = result[:, k, j] = quantiles
    if m == 2:
        return result
    least = np.linalg.eigvalsh(result)[:, 0]
    factor = np.minimum(1.0, (1.0 - _LEAST_EIGENVALUE) / (1.0 - np.minimum(least, 0.0)))
    factor = np.where(least < _LEAST_EIGENVALUE, factor, 1.0)[:, None, None]
    return np.asarray(factor * result + (1.0 - factor) * np.eye(m))


def _effects(
    observed: Float[Floats, "metrics arms"],
    noise: Float[Floats, "metrics arms"],
    of_errors: Float[Floats, "metrics metrics"],
    rho: Float[Floats, "parts metrics metrics"],
) -> tuple[
    Float[Floats, "parts arms metrics"], Float[Floats, "parts arms metrics metrics"]
]:
    """The posterior of the effects for each correlation: means, and roots of the covariances.

    Of a normal mean with several components, prior covariance rho and error covariance
    D, after one observation x: mean rho (rho + D)^-1 x, covariance rho (rho + D)^-1 D.
    """
    root = np.sqrt(noise.T)
    errors = of_errors * root[:, :, None] * root[:, None]  # (K, m, m)
    prior = rho[:, None]
    weights = np.linalg.solve(prior + errors, prior).swapaxes(2, 3)
    means = (weights @ observed.T[:, :, None])[..., 0]
    covariances = weights @ errors
    covariances = 0.5 * (covariances + covariances.swapaxes(2, 3))
    covariances += _NEGLIGIBLE * np.eye(len(noise))
    return means, np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)


def _levels(
    level: Float[Floats, "metrics draws"],
    correlation: Float[Floats, "metrics metrics"],
) -> Float[Floats, "metrics draws"]:
    """Mix independent levels so that they correlate. The first metric's stay the same."""
    deviations = level.std(axis=1, keepdims=True)
    normals = np.divide(
        level, deviations, out=np.zeros_like(level), where=deviations > 0
    )
    return np.asarray(deviations * (np.linalg.cholesky(correlation) @ normals))
