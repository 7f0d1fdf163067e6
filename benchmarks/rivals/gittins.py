"""Gittins index policy for evaluating LLMs (OpenReview GlVWFamE4j, 2026; code: QianJaneXie/BanditGittinsEval).

A prompt's mean score has the prior N(.5, .04) and its scores have normal noise, so its
posterior mean is a Gaussian walk whose steps sigma_n are known beforehand. After n of
its N evaluations, which cost c each, going on from s is worth Q_n(s) = E max(Q_{n+1}(s
+ sigma_n Z), 0) - c, with Q_N(s) = s, against 0 for stopping. The index is the
posterior mean less the root of Q_n; the prompt with the largest is evaluated, and the
answer goes by posterior means. As in later versions of their code, the mean is that of
the N examples at hand. Prior and c = 1e-4 are theirs ("Gittins-G").

Of the paper only the abstract could be had, so this follows the authors' code and its
documents.

Differences: one evaluation at a time (theirs: batches of 1 to 32, of larger budgets),
and it never stops before the budget is spent. Their noise is 1/4, the largest variance
of scores within [0, 1]; here it is the pooled variance of a metric within a prompt,
where that bound counts as one more degree of freedom, rounded to a power of two. With a
constraint the index of its slack counts as in `ucb_e`: the prompts whose slack may be
positive are ranked by the index of the objective.
"""

from functools import cache

import numpy as np
from scipy.special import ndtr

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

PRIOR_MEAN, PRIOR_VARIANCE, COST = 0.5, 0.04, 1e-4
NOISE_BOUND = 0.25


def gittins(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """One evaluation at a time, of the largest index among the prompts that are not evaluated in full."""
    while pool.left and len(rest := np.flatnonzero(pool.counts < pool.n_examples)):
        index = goal.values(posterior_means(pool) + optimism(pool))[rest]
        slack = index[:, 1:].min(axis=1, initial=np.inf)
        rank = (
            np.where(slack >= 0, index[:, 0], -np.inf) if (slack >= 0).any() else slack
        )
        pool.pull(int(rest[rank.argmax()]))
    return pool.best(goal, means=posterior_means(pool))


def posterior_means(pool: Pool) -> Array:
    """(K, m) of the means over all examples: what was seen, and the expectation of the rest."""
    n, weight = pool.counts[:, None], _noise(pool) / PRIOR_VARIANCE
    expected = (pool.sums + weight * PRIOR_MEAN) / (n + weight)
    return np.asarray((pool.sums + (pool.n_examples - n) * expected) / pool.n_examples)


def optimism(pool: Pool) -> Array:
    """(K, m) index less posterior mean."""
    exponents = np.round(np.log2(_noise(pool))).tolist()
    return np.stack(
        [
            -walk_roots(pool.n_examples, 2.0**exponent)[pool.counts]
            for exponent in exponents
        ],
        axis=1,
    )


def _noise(pool: Pool) -> Array:
    degrees = int(np.maximum(pool.counts - 1, 0).sum())
    return np.asarray((NOISE_BOUND + degrees * pool.deviation**2) / (1 + degrees))


@cache
def walk_roots(n_examples: int, noise: float, grid: int = 1025) -> Array:
    """(N + 1,) posterior mean from which on it is worth going on, after 0 to N evaluations, if stopping is worth 0."""
    from scipy.signal import fftconvolve  # here, to keep the import of all rivals light

    of_table = 1 + noise / (n_examples * PRIOR_VARIANCE)
    variance = 1 / (1 / PRIOR_VARIANCE + np.arange(n_examples) / noise)
    steps = of_table * variance / np.sqrt(variance + noise)
    bound = 5 * np.sqrt((steps**2).sum())
    s = np.linspace(-bound, bound, grid)
    lags = np.arange(1 - grid, grid) * (s[1] - s[0])
    worth, roots = s, np.zeros(n_examples + 1)
    for n in range(n_examples - 1, -1, -1):
        # The larger of Q and 0 is a sum of ramps that begin at the grid's points; their
        # expectations are known.
        slopes = np.diff(np.maximum(worth, 0.0)) / (s[1] - s[0])
        bends = np.diff(slopes, prepend=0.0, append=1.0)
        z = lags / steps[n]
        ramps = lags * ndtr(z) + steps[n] * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        worth = fftconvolve(bends, ramps, mode="valid") - COST
        roots[n] = np.interp(0.0, worth, s)
    return roots
