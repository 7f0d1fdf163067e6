"""The compiled parts of BLUP; imports JAX, so it is imported where it is used.

Variances are in units of `scale`, the spread of the sample means, so that every metric looks the same to the
optimizer. The order of the four log variances is: smooth in the features, linear in them, own effect, noise.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

double_precision = partial(jax.enable_x64, True)

_LOWEST, _HIGHEST = -14.0, 6.0  # of log variances, 1e-6 to 400 times that of the sample means; numerical
_JITTER = 1e-9  # numerical: keeps matrices of equal rows positive definite


class Noise(NamedTuple):
    """What is known about the noise of one pull.

    Prior mean and precision of its log variance; the variance within arms and its degrees of freedom (0: unseen).
    """

    log_mean: Array
    precision: Array
    within: Array
    freedom: Array


class Posterior(NamedTuple):
    """Means and standard errors (P,) of one metric."""

    mean: Array
    standard_error: Array


def kernels(x: Array, z: Array, squared_length: Array) -> tuple[Array, Array]:
    """RBF and linear kernel between rows x (P, d) and z (Q, d); both about 1 on the diagonal."""
    product = x @ z.T
    distance = (x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2.0 * product
    return jnp.exp(-0.5 * jnp.maximum(distance, 0.0) / squared_length), product / x.shape[1]


def _covariance(log_variances: Array, rbf: Array, linear: Array, left: Array, present: Array) -> Array:
    smooth, slope, own, noise = jnp.exp(log_variances)
    covariance = smooth * rbf + slope * linear
    both = present[:, None] * present[None, :]
    diagonal = jnp.where(present > 0, own + noise * left + _JITTER, 1.0)
    total: Array = covariance * both + jnp.diag(diagonal)
    return total


def _factor(covariance: Array, y: Array, present: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Cholesky factor L, L^-1 1, 1^T S^-1 1, the generalized least squares mean g, and L^-1 (y - g)."""
    lower = jnp.linalg.cholesky(covariance)
    both = jax.scipy.linalg.solve_triangular(lower, jnp.stack((present, y * present), axis=1), lower=True)
    ones, white = both[:, 0], both[:, 1]
    information = ones @ ones
    level = (ones @ white) / information
    return lower, ones, information, level, white - level * ones


class Objective(NamedTuple):
    """Negative log posterior of the log variances, its gradient, and the average information matrix."""

    loss: Array
    gradient: Array
    curvature: Array


def objective(
    log_variances: Array, rbf: Array, linear: Array, y: Array, left: Array, present: Array, noise: Noise, prior: Array
) -> Objective:
    """Restricted likelihood (Patterson & Thompson 1971) with priors, average information of Gilmour et al. 1995.

    The gradient is written out, 1/2 tr(P dS) - 1/2 y^T P dS P y with P = S^-1 - S^-1 1 1^T S^-1 / (1^T S^-1 1),
    because differentiating through the Cholesky factor takes three times as long.
    """
    smooth, slope, own, sigma = jnp.exp(log_variances)
    lower, ones, information, _, white = _factor(_covariance(log_variances, rbf, linear, left, present), y, present)
    loss = jnp.log(jnp.diag(lower)).sum() + 0.5 * (jnp.log(information) + white @ white)
    whitener = jax.scipy.linalg.solve_triangular(lower, jnp.diag(present), lower=True)
    beta = whitener.T @ ones
    projector = whitener.T @ whitener - jnp.outer(beta, beta) / information
    alpha = whitener.T @ white
    moved = jnp.stack((smooth * (rbf @ alpha), slope * (linear @ alpha), own * alpha, sigma * left * alpha), axis=1)
    own_trace = jnp.diag(projector)
    traces = jnp.stack(
        (
            smooth * (projector * rbf).sum(),
            slope * (projector * linear).sum(),
            own * own_trace.sum(),
            sigma * (own_trace * left).sum(),
        )
    )
    gradient = 0.5 * (traces - alpha @ moved)
    curvature = 0.5 * moved.T @ (projector @ moved)

    centre, precision = prior
    # The variance within arms is sigma / freedom times a chi-square.
    ratio = noise.within / sigma
    loss += 0.5 * noise.freedom * (log_variances[3] + ratio)
    loss += 0.5 * (precision * (log_variances - centre) ** 2).sum()
    loss += 0.5 * noise.precision * (log_variances[3] - noise.log_mean) ** 2
    gradient += precision * (log_variances - centre)
    gradient = gradient.at[3].add(
        0.5 * noise.freedom * (1.0 - ratio) + noise.precision * (log_variances[3] - noise.log_mean)
    )
    curvature += jnp.diag(precision)
    return Objective(loss, gradient, curvature.at[3, 3].add(noise.precision + 0.5 * noise.freedom * ratio))


class _Search(NamedTuple):
    trial: Array
    best: Array
    at_best: Objective
    damping: Array
    iteration: Array
    improved: Array


@jax.jit
def fit(
    x: Array, y: Array, left: Array, present: Array, squared_length: Array, noise: Noise, prior: Array, start: Array
) -> Array:
    """Log variances (m, 4) of every metric by marginal likelihood, from `start` (3,) by damped Newton steps.

    `x` (P, d), `y` (P, m) scaled means, `left` (P, m) noise variance of each mean over that of one pull, `present`
    (P,) 0 or 1; `noise` with (m,) each.
    """
    rbf, linear = kernels(x, x, squared_length)

    def unfinished(search: _Search) -> Array:
        return (search.iteration < 40) & (search.improved > 1e-3) & (search.damping < 1e6)

    def one_metric(arguments: tuple[Array, Array, Noise]) -> Array:
        y, left, noise = arguments

        def advance(search: _Search) -> _Search:
            found = objective(search.trial, rbf, linear, y, left, present, noise, prior)
            better = found.loss < search.at_best.loss  # false for NaN
            at_best = jax.tree.map(lambda new, old: jnp.where(better, new, old), found, search.at_best)
            best = jnp.where(better, search.trial, search.best)
            damping = jnp.where(better, 0.2, 5.0) * search.damping
            damped = at_best.curvature + damping * jnp.diag(jnp.diag(at_best.curvature) + 1e-3)
            step = jnp.clip(-jnp.linalg.solve(damped, at_best.gradient), -3.0, 3.0)
            return _Search(
                jnp.clip(best + step, _LOWEST, _HIGHEST),
                best,
                at_best,
                damping,
                search.iteration + 1,
                jnp.where(better, search.at_best.loss - found.loss, search.improved),
            )

        first = jnp.append(start, noise.log_mean)
        unknown = Objective(jnp.asarray(jnp.inf), jnp.zeros(4), jnp.eye(4))
        search = _Search(first, first, unknown, jnp.asarray(0.1), jnp.asarray(0), jnp.asarray(jnp.inf))
        found: Array = jax.lax.while_loop(unfinished, advance, search).best
        return found

    # One metric after another: LAPACK calls on single matrices are faster than a batch of them.
    found: Array = jax.lax.map(one_metric, (y.T, left.T, noise))
    return found


@jax.jit
def predict(x: Array, y: Array, left: Array, present: Array, squared_length: Array, log_variances: Array) -> Posterior:
    """Posterior means and standard errors (m, P) of every row of `x`, pulled (`present`) or not."""
    rbf, linear = kernels(x, x, squared_length)

    def one_metric(arguments: tuple[Array, Array, Array]) -> Posterior:
        y, left, log_variances = arguments
        smooth, slope, own, _ = jnp.exp(log_variances)
        covariance = _covariance(log_variances, rbf, linear, left, present)
        lower, ones, information, level, white = _factor(covariance, y, present)
        prior = smooth * rbf + slope * linear + (own + _JITTER) * jnp.eye(len(y))
        loads = jax.scipy.linalg.solve_triangular(lower, present[:, None] * prior, lower=True)
        missing = 1.0 - loads.T @ ones
        variance = jnp.diag(prior) - (loads**2).sum(axis=0) + missing**2 / information
        return Posterior(level + loads.T @ white, jnp.sqrt(jnp.maximum(variance, 0.0)))

    posterior: Posterior = jax.lax.map(one_metric, (y.T, left.T, log_variances))
    return posterior


@jax.jit
def predict_low_rank(
    x: Array, y: Array, left: Array, present: Array, squared_length: Array, log_variances: Array, landmarks: Array
) -> Posterior:
    """The same as `predict`, in O(P M^2): the RBF kernel through M landmarks, what they miss counted as own effect.

    Rows come in blocks (b, r, .), so that memory does not grow with their number. Source: Snelson & Ghahramani 2006.
    """
    rbf, _ = kernels(landmarks, landmarks, squared_length)
    lower = jnp.linalg.cholesky(rbf + 1e-8 * jnp.eye(len(rbf)))

    def one_metric(arguments: tuple[Array, Array, Array]) -> Posterior:
        y, left, log_variances = arguments
        smooth, slope, own, noise = jnp.exp(log_variances)

        def loadings(x: Array) -> tuple[Array, Array]:
            cross, _ = kernels(x, landmarks, squared_length)
            seen = jax.scipy.linalg.solve_triangular(lower, cross.T, lower=True).T
            missed = jnp.maximum(1.0 - (seen**2).sum(axis=1), 0.0)
            shared = jnp.concatenate((jnp.sqrt(smooth) * seen, jnp.sqrt(slope / x.shape[1]) * x), axis=1)
            return shared, own + _JITTER + smooth * missed

        def gather(
            sums: tuple[Array, Array, Array], block: tuple[Array, ...]
        ) -> tuple[tuple[Array, Array, Array], None]:
            x, y, left, present = block
            shared, alone = loadings(x)
            weight = present / (alone + noise * left)
            targets = jnp.stack((jnp.ones_like(y), y), axis=1)
            matrix, right, squares = sums
            weighted = shared * weight[:, None]
            return (
                matrix + shared.T @ weighted,
                right + weighted.T @ targets,
                squares + (targets * weight[:, None]).T @ targets,
            ), None

        width = len(landmarks) + x.shape[2]
        empty = (jnp.eye(width), jnp.zeros((width, 2)), jnp.zeros((2, 2)))
        (matrix, right, squares), _ = jax.lax.scan(gather, empty, (x, y, left, present))
        factor = jnp.linalg.cholesky(matrix)
        solution = jax.scipy.linalg.cho_solve((factor, True), right)
        gls = squares - right.T @ solution
        information, level = gls[0, 0], gls[0, 1] / gls[0, 0]

        def answer(block: tuple[Array, ...]) -> Posterior:
            x, y, left, present = block
            shared, alone = loadings(x)
            kept = jnp.where(present > 0, alone / (alone + noise * left), 0.0)
            fitted = shared @ solution  # of the constant 1 and of y
            fitted += kept[:, None] * (jnp.stack((jnp.ones_like(y), y), axis=1) - fitted)
            spread = (jax.scipy.linalg.solve_triangular(factor, shared.T, lower=True) ** 2).sum(axis=0)
            variance = (1.0 - kept) ** 2 * spread + (1.0 - kept) * alone
            missing = 1.0 - fitted[:, 0]
            variance += missing**2 / information
            return Posterior(fitted[:, 1] + level * missing, jnp.sqrt(jnp.maximum(variance, 0.0)))

        blocks: Posterior = jax.lax.map(answer, (x, y, left, present))
        return blocks

    posterior: Posterior = jax.lax.map(one_metric, (jnp.moveaxis(y, 2, 0), jnp.moveaxis(left, 2, 0), log_variances))
    return posterior
