"""The prior of several metrics: a prompt that is better by one metric tends to be worse by another.

Each metric has a posterior of its own (`asktell.posterior.two_way`), as if the effects
of a prompt on two metrics were independent. But people give metrics together because
they pull against each other: longer responses are more complete and cost more. A
posterior that ignores this finds the prompt that leads by the objective more feasible
than it is.

Let u be the c effects of one prompt, each in units of the deviation of its metric's
effects. The separate posteriors are N(m, V) under the prior N(0, I). Under the prior
N(0, R), the posterior is

    N(W V^-1 m, W), where W = (V^-1 + R^-1 - I)^-1 = (I + V (R^-1 - I))^-1 V

R is fixed. A correlation that is learned from the scores of the same study predicted
worse, since a few noisy means hardly show one (`python -m benchmarks.selection.worlds`).
The prior serves the results of a single best prompt. In decisions it gained nothing on
tables that it was not chosen on, and for Pareto sets it did harm on tables of models,
where better models are better by all metrics (docs/explanation/what-was-tried.md).
"""

import numpy as np
from jaxtyping import Float

from asktell.numerics.arrays import Floats

# Between two metrics, each in the direction in which it is better. Chosen for the least
# Brier score of P(feasible) on recorded tables of the development half and in simulated
# worlds whose metrics are independent. The tables alone prefer -0.4.
_CORRELATION = -0.3
# Added to every variance, since the factor of a mean that is known exactly has no inverse
_LEAST = 1e-9


def with_trade_offs(
    draws: Float[Floats, "columns draws arms"],
    means: Float[Floats, "arms columns"],
    errors: Float[Floats, "arms columns"],
    covariance: Float[Floats, "arms columns columns"],
    directions: Float[Floats, " columns"],
) -> None:
    """Change draws, means and errors of separate posteriors to those under the joint prior, in place.

    Args:
        draws: joint draws of the columns' means, in their units.
        means: expectations of the same means.
        errors: their standard deviations, NaN where they are unknown.
        covariance: for each prompt, the covariances of its effects, which are its
            means' distances from the average prompt. All 0 for a prompt that is known
            exactly.
        directions: 1 or -1 for columns where more or less is better, 0 for columns that
            are independent of the others.
    """
    variance = np.diagonal(covariance, axis1=1, axis2=2)  # (K, c)
    effects = means - means.mean(axis=0)
    # At least every prompt's variance, so that W exists
    square = np.maximum((effects**2 + variance).mean(axis=0), variance.max(axis=0))
    towards = np.where(square > 0.0, directions, 0.0)
    n, identity = np.count_nonzero(towards), np.eye(len(towards))
    if n < 2:
        return
    # Divided by n - 1, R is positive definite for any number of metrics.
    prior = np.outer(towards, towards) * (_CORRELATION / (n - 1))
    np.fill_diagonal(prior, 1.0)
    unit = np.sqrt(np.where(square > 0.0, square, 1.0))
    before = covariance / np.outer(unit, unit)  # V
    added = np.linalg.inv(prior) - identity  # R^-1 - I
    part = np.linalg.inv(identity + before @ added)  # W V^-1, without an inverse of V
    shift = ((part - identity) @ (effects / unit)[:, :, None])[:, :, 0] * unit
    # With V = L L' and I + L' (R^-1 - I) L = C C', the map L C'^-1 L^-1 turns draws of
    # N(0, V) into draws of N(0, W).
    root = np.linalg.cholesky(before + _LEAST * identity)
    inner = np.linalg.cholesky(identity + root.transpose(0, 2, 1) @ added @ root)
    change = root @ np.linalg.inv(root @ inner.transpose(0, 2, 1)) - identity
    change *= (unit[:, None] / unit) * (variance > 0.0)[:, :, None]
    off = draws - draws.mean(axis=2, keepdims=True)
    off -= off.mean(axis=1, keepdims=True)
    draws += (change @ off.transpose(2, 0, 1)).transpose(1, 2, 0) + shift.T[:, None]
    means += shift
    after = part @ before  # W
    change_of_variance = np.diagonal(after - before, axis1=1, axis2=2) * unit**2
    errors[:] = np.sqrt(np.maximum(errors**2 + change_of_variance, 0.0))
