"""The compiled part of least squares. It imports JAX, so other modules import it only when they use it."""

import sys
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

double_precision = partial(jax.enable_x64, True)

_EPS = sys.float_info.epsilon


class Fit(NamedTuple):
    """The parts of the estimates, in padded arrays.

    Attributes:
        means: (P, m) fitted means.
        leverage: (P,) variance of each fitted mean, in units of the residual variance.
        pulled_rank: the rank of the rows that were fitted.
        sum_of_squares: (m,) weighted squares of the residuals.
    """

    means: Array
    leverage: Array
    pulled_rank: Array
    sum_of_squares: Array


def _rank_tolerance(singular: Array, n_rows: int) -> Array:
    return jnp.maximum(
        singular.max() * max(n_rows, singular.shape[0]) * _EPS * 100, 1e-9
    )


@jax.jit(static_argnames=("intercept",))
def fit(
    features: Array,
    means: Array,
    counts: Array,
    active: Array,
    ridge: Array,
    *,
    intercept: bool,
) -> Fit:
    """Weighted least squares on the span of the active rows. Rows outside of the span are ignored.

    All arrays are padded with zeros, so that one compilation serves arrays of similar
    sizes.

    Args:
        features: (P, d) numbers that describe the arms.
        means: (P, m) sample means, finite.
        counts: (P,) number of scores of each arm.
        active: (P,) 1 for active arms, else 0.
        ridge: the weight of the penalty.
        intercept: whether a constant is appended to the features.
    """
    # Standardize the columns by the active rows
    n_rows = features.shape[0]
    n_active = jnp.maximum(active.sum(), 1.0)
    top = jnp.abs(features * active[:, None]).max(axis=0)
    top = jnp.where(top > 0, top, 1.0)
    x = features / top
    centre = (
        (x * active[:, None]).sum(axis=0) / n_active
        if intercept
        else jnp.zeros(x.shape[1])
    )
    x = x - centre
    scale = jnp.sqrt((x**2 * active[:, None]).sum(axis=0) / n_active)
    # A column that is constant up to rounding has no spread of its own among the active
    # arms.
    varies = scale > 100 * _EPS
    scale = jnp.where(varies, scale, 1.0)
    x = jnp.where(varies | (active[:, None] == 0), x / scale, 0.0)
    if intercept:
        x = jnp.concatenate((x, jnp.ones((n_rows, 1))), axis=1)
    # Coordinates z in an orthonormal basis of the active span. The fit does not depend
    # on the choice of the basis.
    _, s, vt = jnp.linalg.svd(
        x * active[:, None] / jnp.sqrt(n_active), full_matrices=False
    )
    in_span = s > _rank_tolerance(s, n_rows)
    to_span = jnp.where(in_span, vt.T / jnp.where(in_span, s, 1.0), 0.0)
    z = x @ to_span
    # Scores of other arms count if their features lie in the span
    off = jnp.abs(x - (x @ jnp.where(in_span, vt.T, 0.0)) @ vt).max(axis=1)
    mean = (counts @ means) / jnp.maximum(counts.sum(), 1.0)
    counts = jnp.where(
        (active > 0) | (off <= 1e-8 * (1.0 + jnp.abs(x).max(axis=1))), counts, 0.0
    )
    total = counts.sum()
    level = jnp.where(total > 0, (counts @ means) / jnp.maximum(total, 1.0), mean)
    level = level if intercept else jnp.zeros_like(level)
    # Ridge regression as ordinary least squares: the penalty becomes additional rows
    # with the target 0
    root = jnp.sqrt(counts)[:, None]
    penalty = jnp.ones(x.shape[1]).at[-1].set(0.0 if intercept else 1.0)
    rows = jnp.concatenate((root * z, jnp.sqrt(ridge) * penalty[:, None] * to_span))
    targets = jnp.concatenate(
        (root * (means - level), jnp.zeros((x.shape[1], means.shape[1])))
    )
    u, t, wt = jnp.linalg.svd(rows, full_matrices=False)
    seen = t > _rank_tolerance(t, n_rows)
    rank, pulled_rank = in_span.sum(), seen.sum()
    # If the evaluated arms do not span the active arms, a small ridge keeps the
    # estimates near the average
    little = jnp.where(
        pulled_rank < rank, 1e-6 * (t**2).sum() / jnp.maximum(rank, 1), 0.0
    )
    inverse = jnp.where(
        seen | (little > 0), 1.0 / jnp.where(t**2 + little > 0, t**2 + little, 1.0), 0.0
    )
    theta = wt.T @ ((inverse * t)[:, None] * (u.T @ targets))
    rotated = z @ wt.T
    fitted = level + z @ theta
    return Fit(
        means=fitted,
        leverage=(rotated**2 * inverse).sum(axis=1),
        pulled_rank=pulled_rank,
        sum_of_squares=(counts[:, None] * (means - fitted) ** 2).sum(axis=0),
    )
