"""PSIPS (Pareto set identification with posterior sampling; Kone, Jourdan & Kaufmann 2024, arXiv 2411.04939).

A learner plays against an adversary, who draws the prompts' means from their posterior
until the draw has another Pareto set than the sample means. The learner, AdaHedge over
the prompts, earns for each how far the draw is from its mean, in the metric of the
scores' covariance: its weights move to the prompts whose evaluation would refute the
draws. Evaluations track the sum of the weights, of which a share 1/t is spread over all
prompts. As in the authors' code for a fixed budget (cyrille-kone/psips) the posterior
is not inflated, and the weights are tracked, not drawn from. Of the paper only the
abstract could be had, so this follows that code. The answer is the Pareto set of the
sample means.

Differences: the covariance within a prompt, known there, is estimated from the
evaluations so far, where 1/4, the largest variance of scores within [0, 1], counts as
one more degree of freedom. Examples are drawn without replacement, so the posterior has
the factor 1/n - 1/N, and prompts evaluated on all N are left alone. Where theirs would
stop, as 50 draws agree with the sample means, the next 50 have twice the variance, and
so on.

It is made for many more evaluations: in the game's first rounds what a prompt earns is
mostly chance, and the learner stays close to uniform (a prompt: 4 to 18 of 1,000
evaluations of 100 prompts).
"""

import numpy as np

from asktell.numerics.pareto import pareto_mask
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

BOUND = 0.25  # the largest variance of scores within [0, 1]
DRAWS, DOUBLINGS = 50, 40


class AdaHedge:
    """Weights of experts from their losses, without a rate to set (de Rooij, van Erven, Grünwald & Koolen 2014)."""

    def __init__(self, n_experts: int) -> None:
        self._total = np.zeros(n_experts)
        self._mixability_gap = 0.0

    def weights(self) -> Array:
        """(K,), with sum 1: exp(-rate * total loss); of the least alone while the rate is infinite."""
        return self._weights_and_mix()[0]

    def update(self, losses: Array) -> None:
        """Losses (K,) of a round: less is better."""
        weights, before = self._weights_and_mix()
        rate = self._rate
        self._total += losses
        after = self._weights_and_mix(rate)[1]
        self._mixability_gap += max(0.0, float(weights @ losses) - (after - before))

    @property
    def _rate(self) -> float:
        return (
            np.log(len(self._total)) / self._mixability_gap
            if self._mixability_gap > 0
            else np.inf
        )

    def _weights_and_mix(self, rate: float | None = None) -> tuple[Array, float]:
        rate = self._rate if rate is None else rate
        least = self._total.min()
        excess = self._total - least
        weights = (
            np.exp(-rate * excess) if np.isfinite(rate) else (excess == 0).astype(float)
        )
        mix = least - np.log(weights.mean()) / rate if rate > 0 else self._total.mean()
        return weights / weights.sum(), float(mix)


def psips(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """One pull of every prompt, then one at a time of the prompt furthest behind its weights."""
    rng = np.random.default_rng(seed)
    for arm in range(min(pool.n_arms, pool.left)):
        pool.pull(arm)
    learner, wanted = AdaHedge(pool.n_arms), np.ones(pool.n_arms)
    noise = Noise(len(goal.objectives))
    while pool.left and (rest := pool.counts < pool.n_examples).any():
        means = goal.values(pool.means)
        spread = np.sqrt(1 / pool.counts - 1 / pool.n_examples)
        steps = spread[:, None] * disagreeing(means, spread, noise.root(), rng)
        share = 1 / pool.spent
        wanted += (1 - share) * learner.weights() + share / pool.n_arms
        arm = int(np.where(rest, pool.counts - wanted, np.inf).argmin())
        row = goal.values(pool.pull(arm)[None])[0]
        noise.update(row - means[arm], int(pool.counts[arm]))
        learner.update(-(steps**2).sum(axis=1))
    return pool.best(goal)


def disagreeing(
    means: Array, spread: Array, root: Array, rng: np.random.Generator
) -> Array:
    """(K, p) standard normal errors, in units of the posterior's roots, that make other prompts Pareto-optimal.

    Of larger variance where those of variance 1 do not. `spread` (K,) and `root` (p,
    p): the posterior covariance of a prompt's means is spread^2 root root'.
    """
    front = pareto_mask(means)
    for attempt in range(DRAWS * DOUBLINGS):
        errors = 2.0 ** (attempt // DRAWS / 2) * rng.standard_normal(means.shape)
        if (pareto_mask(means + spread[:, None] * (errors @ root.T)) != front).any():
            break
    return errors


class Noise:
    """Covariance of the scores within a prompt, pooled over the prompts; from the bound on."""

    def __init__(self, n_values: int) -> None:
        self._products, self._degrees = BOUND * np.eye(n_values), 1

    def update(self, deviation: Array, count: int) -> None:
        """`deviation` (p,) of a prompt's `count`-th evaluation, 2 or more, from the mean of those before."""
        self._products += (1 - 1 / count) * np.outer(deviation, deviation)
        self._degrees += 1

    def root(self) -> Array:
        """(p, p) lower triangular L with L L' the covariance."""
        return np.asarray(np.linalg.cholesky(self._products / self._degrees))
