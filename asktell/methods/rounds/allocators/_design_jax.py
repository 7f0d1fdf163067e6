"""The compiled part of the G-optimal design. It imports JAX, so it is imported where it is used."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

double_precision = partial(jax.enable_x64, True)


class _Step(NamedTuple):
    weights: Array
    log_det: Array
    gradient: Array
    step_size: Array
    iteration: Array


@jax.jit
def mirror_ascent(
    x: Array, dimensions: Array, start: Array, tolerance: Array, max_iterations: Array
) -> _Step:
    """Maximize log det sum_i w_i x_i x_i^T over the simplex by entropic mirror ascent, from `start`.

    `x` is padded with zeros: rows of weight 0, and columns that `dimensions` marks with
    0. The ascent ends when the largest gradient g_i = x_i^T V^-1 x_i is at most
    (1 + tolerance) d: by Kiefer & Wolfowitz (1960), the largest gradient is d exactly at
    the optimum, and nowhere less.
    """
    d = dimensions.sum()
    present = start > 0

    def evaluate(weights: Array) -> tuple[Array, Array]:
        # V = L L^T. Padded columns get a 1 on the diagonal, so that V can be inverted.
        v = x.T @ (weights[:, None] * x) + jnp.diag(1.0 - dimensions)
        factor = jnp.linalg.cholesky(v)
        inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(v)), lower=True)
        return 2.0 * jnp.log(jnp.diag(factor)).sum(), ((x @ inverse.T) ** 2).sum(axis=1)

    def unfinished(step: _Step) -> Array:
        return (step.gradient.max() > (1.0 + tolerance) * d) & (
            step.iteration < max_iterations
        )

    def advance(step: _Step) -> _Step:
        # The largest gradient is subtracted so that no exponential overflows.
        raised = step.weights * jnp.exp(
            step.step_size * (step.gradient - step.gradient.max())
        )
        weights = jnp.where(present, raised / raised.sum(), 0.0)
        log_det, gradient = evaluate(weights)
        # False for NaN. A step that does not help is tried again at half the size.
        better = log_det >= step.log_det - 1e-12 * jnp.abs(step.log_det)
        return _Step(
            jnp.where(better, weights, step.weights),
            jnp.where(better, log_det, step.log_det),
            jnp.where(better, gradient, step.gradient),
            jnp.where(better, 1.3 * step.step_size, 0.5 * step.step_size),
            step.iteration + 1,
        )

    log_det, gradient = evaluate(start)
    return jax.lax.while_loop(
        unfinished, advance, _Step(start, log_det, gradient, 1.0 / d, jnp.asarray(0))
    )
