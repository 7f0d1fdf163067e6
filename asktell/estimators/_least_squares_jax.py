"""The compiled part of least squares. It imports JAX, so it is imported where it is used."""

import sys
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

double_precision = partial(jax.enable_x64, True)

_EPS = sys.float_info.epsilon


class Fit(NamedTuple):
    """The fit, in padded arrays. `pulled_rank` is the rank of the rows that were fitted."""

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
    """Weighted least squares on the span of the active rows. Rows outside the span and without pulls are ignored.

    All arguments are padded with zeros: `features` (P, d), `means` (P, m), which must
    be finite, `counts` (P,) and `active` (P,), which is 0 or 1.
    """
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
    # Coordinates z in an orthonormal basis of the active span: the fit does not depend
    # on the basis.
    _, s, vt = jnp.linalg.svd(
        x * active[:, None] / jnp.sqrt(n_active), full_matrices=False
    )
    kept = s > _rank_tolerance(s, n_rows)
    to_span = jnp.where(kept, vt.T / jnp.where(kept, s, 1.0), 0.0)
    z = x @ to_span
    # Pulls of other arms count as far as their features lie in the span.
    off = jnp.abs(x - (x @ jnp.where(kept, vt.T, 0.0)) @ vt).max(axis=1)
    mean = (counts @ means) / jnp.maximum(counts.sum(), 1.0)
    counts = jnp.where(
        (active > 0) | (off <= 1e-8 * (1.0 + jnp.abs(x).max(axis=1))), counts, 0.0
    )
    total = counts.sum()
    level = jnp.where(total > 0, (counts @ means) / jnp.maximum(total, 1.0), mean)
    level = level if intercept else jnp.zeros_like(level)
    root = jnp.sqrt(counts)[:, None]
    penalty = jnp.ones(x.shape[1]).at[-1].set(0.0 if intercept else 1.0)
    rows = jnp.concatenate((root * z, jnp.sqrt(ridge) * penalty[:, None] * to_span))
    targets = jnp.concatenate(
        (root * (means - level), jnp.zeros((x.shape[1], means.shape[1])))
    )
    u, t, wt = jnp.linalg.svd(rows, full_matrices=False)
    seen = t > _rank_tolerance(t, n_rows)
    rank, pulled_rank = kept.sum(), seen.sum()
    # Where the pulled arms do not span, a small ridge keeps the answer near the
    # average.
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
