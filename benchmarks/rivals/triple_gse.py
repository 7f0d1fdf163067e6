"""TRIPLE-GSE (Shi et al. 2024, arXiv 2402.09723, ShenGroup/TRIPLE): halving by what a model of the features predicts.

Generalized successive elimination (Azizi et al. 2022). Of the paper: ceil(log2 K) phases; in each the active prompts
are pulled evenly, a model is fitted to all scores so far, and the half with the worse predictions leaves, provided that
the model does on a held-out fifth of the scores (mean squared error at most .1, or better than their mean, as in the
code).

Differences: the model is a Bayesian ridge regression of each metric, the first of the three that the code mixes; the
others, gradient boosting and a network of 256 and 64 units, take seconds, and what they could learn from a few noisy
scores a prompt is in doubt. The projection to 64 dimensions is not needed for our ten or so. One metric that the model
predicts is enough for prompts to leave. Ranked by the constrained ranking; no cell is bought twice. The G-optimal
allocation of Azizi et al. is not in TRIPLE's code, and our `lcsh` has it.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.elimination import ConstrainedRanking
from asktell.goals import Goal
from benchmarks.rivals.pool import Array, Pool
from benchmarks.rivals.triple_clst import spread

ERROR = 0.1
HELD_OUT = 0.2


def triple_gse(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """Pull evenly, predict, halve; the answer is the best by its prediction among those left."""
    assert pool.features is not None
    rng = np.random.default_rng(seed)
    active = np.arange(pool.n_arms)
    estimates = np.zeros((pool.n_arms, pool.sums.shape[1]))
    for phase in range(max(1, math.ceil(math.log2(pool.n_arms))), 0, -1):
        spread(pool, active, pool.left // phase)
        if not pool.spent:
            continue
        rows, examples = np.nonzero(~np.isnan(pool.observed[:, :, 0]))
        x, y = pool.features[rows], pool.observed[rows, examples]
        estimates = _predictions(x, y, pool.features)
        if _does(x, y, rng):
            ranking = ConstrainedRanking().ranking(goal.values(estimates[active]))
            active = active[ranking[: math.ceil(len(active) / 2)]]
    return pool.best(goal, active, estimates)


def _does(x: Array, y: Array, rng: np.random.Generator) -> bool:
    """Whether a model of four fifths of the scores predicts the other fifth, in any metric."""
    order = rng.permutation(len(x))
    held, rest = np.split(order, [math.ceil(HELD_OUT * len(x))])
    if len(rest) < 2:
        return False
    error = ((_predictions(x[rest], y[rest], x[held]) - y[held]) ** 2).mean(axis=0)
    return bool(((error <= ERROR) | (error <= y[held].var(axis=0))).any())


def _predictions(x: Array, y: Array, at: Array) -> Array:
    """(n, m) of every metric, by its own regression."""
    fitted = [bayesian_ridge(x, column) for column in y.T]
    return np.stack([constant + at @ slope for constant, slope in fitted], axis=1)


def bayesian_ridge(x: Array, y: Array, steps: int = 100) -> tuple[float, npt.NDArray[np.float64]]:
    """Constant and slope (d,) of a linear model whose noise and prior variance maximize the evidence (MacKay 1992)."""
    centre, mean = x.mean(axis=0), float(y.mean())
    u, s, vt = np.linalg.svd(x - centre, full_matrices=False)
    projected = u.T @ (y - mean)
    precision, shrinkage = 1 / max(float(y.var()), 1e-12), 1.0
    for _ in range(steps):
        coordinates = projected * s / (s**2 + shrinkage / precision)
        degrees = float((s**2 / (s**2 + shrinkage / precision)).sum())
        residual = float(((y - mean) ** 2).sum() - (projected**2).sum() + ((projected - s * coordinates) ** 2).sum())
        before = shrinkage / precision
        shrinkage = (degrees + 2e-6) / (float((coordinates**2).sum()) + 2e-6)
        precision = (len(y) - degrees + 2e-6) / (max(residual, 0.0) + 2e-6)
        if abs(shrinkage / precision - before) <= 1e-4 * before:
            break
    slope = vt.T @ (projected * s / (s**2 + shrinkage / precision))
    return mean - float(centre @ slope), slope
