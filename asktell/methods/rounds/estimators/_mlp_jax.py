"""The compiled part of the MLP. It imports JAX, flax and optax, so other modules import it only when they use it."""

from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree


class Network(nn.Module):  # type: ignore[misc]  # flax is not followed by the type checker
    """A network with one hidden ReLU layer and linear outputs."""

    hidden: int
    outputs: int

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: Array) -> Array:
        """Map features (n, d) to outputs (n, m)."""
        outputs: Array = nn.Dense(self.outputs)(nn.relu(nn.Dense(self.hidden)(x)))
        return outputs


class Fit(NamedTuple):
    """The outputs of the networks, and their sensitivity to noise in the targets.

    Near its optimum, the first network is linear in its targets y: its outputs are S y.
    The noise of target i has the variance s^2 / n_i for n_i scores.

    Attributes:
        outputs: (members, P, m) the predictions.
        gain: (P, m) the variance of S y, in units of s^2 / n for n scores in total.
        freedom: (m,) the fitted degrees of freedom tr S.
    """

    outputs: Array
    gain: Array
    freedom: Array


@partial(jax.jit, static_argnames=("hidden", "members"))
def fit_predict(
    x: Array,
    y: Array,
    weights: Array,
    seed: Array,
    regularization: Array,
    learning_rate: Array,
    steps: Array,
    *,
    hidden: int,
    members: int,
) -> Fit:
    """Fit networks from scratch, and predict all rows.

    Full-batch Adam minimizes sum_i w_i |g(x_i) - y_i|^2 + regularization * |theta|^2.
    The learning rate falls to 0 along a cosine.

    Args:
        x: (P, d) standardized features.
        y: (P, m) standardized targets.
        weights: (P,) the weight of each target, with a sum of 1. 0 without a target.
        seed: the seed of the random starts.
        regularization: the weight of the squared parameters.
        learning_rate: of Adam, at the first step.
        steps: number of steps.
        hidden: number of hidden units.
        members: number of networks.
    """
    network = Network(hidden, y.shape[1])
    # A schedule of optax would compile again for every number of steps
    optimizer = optax.adam(
        lambda step: learning_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * step / steps))
    )

    def loss(parameters: optax.Params) -> Array:
        residual = network.apply(parameters, x) - y
        penalty = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(parameters))
        total: Array = weights @ (residual**2).sum(axis=1) + regularization * penalty
        return total

    def member(key: Array) -> tuple[optax.Params, Array]:
        parameters = network.init(key, x)

        def step(
            _: Array, carry: tuple[optax.Params, optax.OptState]
        ) -> tuple[optax.Params, optax.OptState]:
            parameters, state = carry
            updates, state = optimizer.update(jax.grad(loss)(parameters), state)
            return optax.apply_updates(parameters, updates), state

        parameters, _ = jax.lax.fori_loop(
            0, steps, step, (parameters, optimizer.init(parameters))
        )
        return parameters, network.apply(parameters, x)

    parameters, outputs = jax.vmap(member)(
        jax.random.split(jax.random.key(seed), members)
    )
    first, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], parameters))

    def sensitivity(output: Array) -> tuple[Array, Array]:
        # Near its optimum the network is linear in its parameters, with the slopes J.
        # It is then a ridge regression: S = J (J^T W J + regularization)^-1 J^T W.
        slopes = jax.vmap(
            jax.grad(lambda flat, row: network.apply(unravel(flat), row)[output]),
            (None, 0),
        )(first, x)
        information = slopes.T @ (weights[:, None] * slopes)
        factor = jax.scipy.linalg.cho_factor(
            information + regularization * jnp.eye(len(first)), lower=True
        )
        solved = jax.scipy.linalg.cho_solve(factor, slopes.T).T
        # Rounding can make a variance of 0 negative
        gain = jnp.maximum(((solved @ information) * solved).sum(axis=1), 0.0)
        return gain, weights @ (solved * slopes).sum(axis=1)

    gain, freedom = jax.lax.map(sensitivity, jnp.arange(y.shape[1]))
    return Fit(outputs, gain.T, freedom)
