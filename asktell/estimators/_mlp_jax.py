"""The compiled part of the MLP; imports JAX, flax and optax, so it is imported where it is used."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import Array


class Network(nn.Module):
    """One hidden ReLU layer, linear outputs."""

    hidden: int
    outputs: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """(n, d) to (n, outputs)."""
        return nn.Dense(self.outputs)(nn.relu(nn.Dense(self.hidden)(x)))


@partial(jax.jit, static_argnames=("hidden", "members", "steps"))
def fit_predict(
    x: Array,
    y: Array,
    weights: Array,
    seed: Array,
    regularization: Array,
    learning_rate: Array,
    *,
    hidden: int,
    members: int,
    steps: int,
) -> Array:
    """Outputs (members, P, m) of networks fitted from scratch; `weights` (P,) sum to 1, 0 where there is no target.

    Full-batch Adam on sum_i w_i |g(x_i) - y_i|^2 + regularization * |theta|^2, the learning rate falling to 0 along
    a cosine.
    """
    network = Network(hidden, y.shape[1])
    optimizer = optax.adam(optax.cosine_decay_schedule(learning_rate, steps))

    def loss(parameters: optax.Params) -> Array:
        residual = network.apply(parameters, x) - y
        penalty = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(parameters))
        return weights @ (residual**2).sum(axis=1) + regularization * penalty

    def member(key: Array) -> Array:
        parameters = network.init(key, x)

        def step(carry: tuple[optax.Params, optax.OptState], _: None) -> tuple[tuple[optax.Params, optax.OptState], None]:
            parameters, state = carry
            updates, state = optimizer.update(jax.grad(loss)(parameters), state)
            return (optax.apply_updates(parameters, updates), state), None

        (parameters, _), _ = jax.lax.scan(step, (parameters, optimizer.init(parameters)), length=steps)
        return network.apply(parameters, x)

    return jax.vmap(member)(jax.random.split(jax.random.key(seed), members))
