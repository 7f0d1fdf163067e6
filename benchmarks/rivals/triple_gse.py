"""TRIPLE-GSE (Shi et al. 2024, arXiv 2402.09723, ShenGroup/TRIPLE): halving by what models of the features predict.

Generalized successive elimination (Azizi et al. 2022). Of the paper: ceil(log2 K)
phases; in each the active prompts are pulled evenly, models are fitted to all scores so
far, and the half with the worse predictions leaves, provided that a model does on a
held-out fifth of the scores: a mean squared error of at most .1, or an R^2 of at least
0. As in the code, predictions are a mixture with weights exp(R^2).

Differences: of the code's three models, Bayesian ridge regression, gradient boosting
and a network of 256 and 64 units, the network is left out, as it takes seconds;
boosting (100 trees of depth 20 at rate .01) is replaced by what it comes to with a leaf
per prompt, .63 of the way from the mean of all scores to the prompt's own. Models are
fitted to the held-out scores, too, once these have been predicted. Nothing is projected
to 64 dimensions, as our features are ten or so. Constraints are judged by sample means:
a threshold, unlike a ranking, does not forgive shrinkage. Ranked by the constrained
ranking; no cell is bought twice. The G-optimal allocation of Azizi et al. is not in
TRIPLE's code, and our `lcsh` has it.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool
from benchmarks.rivals.triple_clst import spread

ERROR = 0.1
HELD_OUT = 0.2
LEARNED = 1 - (1 - 0.01) ** 100
"""How much of the training scores' residuals 100 rounds of boosting at rate .01 take."""


def triple_gse(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """Pull evenly, predict, halve; the answer is the best by its prediction among those left."""
    assert pool.features is not None
    rng = np.random.default_rng(seed)
    active = np.arange(pool.n_arms)
    estimates = np.zeros((pool.n_arms, len(goal.metrics)))
    modelled = [goal.metrics.index(objective.metric) for objective in goal.objectives]
    for phase in range(max(1, math.ceil(math.log2(pool.n_arms))), 0, -1):
        spread(pool, active, pool.left // phase)
        if not pool.spent:
            continue
        arms, examples = np.nonzero(~np.isnan(pool.observed[:, :, 0]))
        scores = pool.observed[arms, examples]
        estimates = np.where(pool.counts[:, None] > 0, pool.means, scores.mean(axis=0))
        does = False
        for metric in modelled:
            estimates[:, metric], this_does = _mixture(
                pool.features, arms, scores[:, metric], rng
            )
            does |= this_does
        if does:
            ranking = ConstrainedRanking().ranking(goal.values(estimates[active]))
            active = active[ranking[: math.ceil(len(active) / 2)]]
    return pool.best(goal, active, estimates)


def _mixture(
    features: Array, arms: npt.NDArray[np.int64], y: Array, rng: np.random.Generator
) -> tuple[Array, bool]:
    """Predictions (K,) by both models with weights exp(R^2) on held-out scores, and whether one of the models does."""
    held, rest = np.split(rng.permutation(len(y)), [math.ceil(HELD_OUT * len(y))])
    models = (_ridge, _boosting)
    if len(rest) < 2:
        return np.mean([model(features, arms, y) for model in models], axis=0), False
    error = np.array(
        [
            ((model(features, arms[rest], y[rest])[arms[held]] - y[held]) ** 2).mean()
            for model in models
        ]
    )
    r2 = 1 - error / max(float(y[held].var()), 1e-12)
    weights = np.exp(r2 - r2.max())
    predictions = np.stack([model(features, arms, y) for model in models], axis=1)
    return predictions @ weights / weights.sum(), bool(
        (error <= ERROR).any() or (r2 >= 0).any()
    )


def _boosting(features: Array, arms: npt.NDArray[np.int64], y: Array) -> Array:
    """(K,) what boosting of trees so deep that every prompt has its own leaf comes to."""
    counts = np.bincount(arms, minlength=len(features))
    sums = np.bincount(arms, y, minlength=len(features))
    return np.asarray(
        y.mean() + LEARNED * (sums - counts * y.mean()) / np.maximum(counts, 1)
    )


def _ridge(features: Array, arms: npt.NDArray[np.int64], y: Array) -> Array:
    """(K,) of the linear model."""
    constant, slope = bayesian_ridge(features[arms], y)
    return np.asarray(constant + features @ slope)


def bayesian_ridge(
    x: Array, y: Array, steps: int = 100
) -> tuple[float, npt.NDArray[np.float64]]:
    """Constant and slope (d,) of a linear model whose noise and prior variance maximize the evidence (MacKay 1992)."""
    centre, mean = x.mean(axis=0), float(y.mean())
    u, s, vt = np.linalg.svd(x - centre, full_matrices=False)
    projected = u.T @ (y - mean)
    precision, shrinkage = 1 / max(float(y.var()), 1e-12), 1.0
    for _ in range(steps):
        coordinates = projected * s / (s**2 + shrinkage / precision)
        degrees = float((s**2 / (s**2 + shrinkage / precision)).sum())
        residual = float(
            ((y - mean) ** 2).sum()
            - (projected**2).sum()
            + ((projected - s * coordinates) ** 2).sum()
        )
        before = shrinkage / precision
        shrinkage = (degrees + 2e-6) / (float((coordinates**2).sum()) + 2e-6)
        precision = (len(y) - degrees + 2e-6) / (max(residual, 0.0) + 2e-6)
        if abs(shrinkage / precision - before) <= 1e-4 * before:
            break
    slope = vt.T @ (projected * s / (s**2 + shrinkage / precision))
    return mean - float(centre @ slope), slope
