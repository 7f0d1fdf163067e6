"""UCB-E-LRF (Zhou et al. 2024, arXiv 2407.06172, kilian-group/banditeval): UCB-E on scores completed at rank one.

An ensemble of factorizations, each without a random twentieth of what was observed,
predicts the cells that were not; how far they disagree says how unsure that is. Of the
prompt with the largest bound on its completed mean, the least sure cells are evaluated.
Hyperparameters are the package's, but for the batch; rank one is its default.

Differences: the factorizations start from positive factors, as scores are positive,
too: from normal ones, as in the paper, the members' signs disagree where data are few
and their mean is zero. (The package lets members fit to each other's factors, which
mends that in part.) The warm-up of 5 % of the cells is balanced over prompts and takes
at most half of the budget, where the package would spend all of a budget of up to 15
pulls a prompt on it (of 300 examples). A batch is of 16 cells, theirs of 32: our
budgets are smaller. With a constraint, only the objective is completed, and the slack
has the bound of `ucb_e`: completing it, too, from few cells gave mostly infeasible
answers.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

Array32 = npt.NDArray[np.float32]

WARM_UP = 0.05  # of all cells
WARM_UP_AT_MOST = 0.5  # of the budget
BATCH = 16
ETA = 5.0  # deviations in a bound
ENSEMBLE = 64
DROPPED = 0.05
REGULARIZER = 0.1
ITERATIONS = 10


class Completed(NamedTuple):
    """(K, N) of one metric: the score where observed, else its prediction; and the deviation, 0 where observed."""

    scores: Array
    deviation: Array


def ucb_e_lrf(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """Random cells first; then a batch of the prompt with the largest bound, again and again."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(
        np.tile(np.arange(pool.n_examples), (pool.n_arms, 1)), axis=1
    )
    for nth in range(
        min(math.ceil(WARM_UP * shuffled.size), math.ceil(WARM_UP_AT_MOST * pool.left))
    ):
        pool.pull(
            nth % pool.n_arms, int(shuffled[nth % pool.n_arms, nth // pool.n_arms])
        )
    while pool.left and (pool.counts < pool.n_examples).any():
        # A goal's first metric is its objective
        completed = complete(pool.observed[:, :, 0], rng)
        arm = _widest(pool, goal, completed)
        unseen = np.flatnonzero(np.isnan(pool.observed[arm, :, 0]))
        least_sure = np.argsort(-completed.deviation[arm, unseen], kind="stable")
        for example in unseen[least_sure][: min(BATCH, pool.left)]:
            pool.pull(arm, int(example))
    completed = complete(pool.observed[:, :, 0], rng)
    return pool.best(
        goal, means=np.column_stack([completed.scores.mean(axis=1), pool.means[:, 1:]])
    )


def complete(observed: Array, rng: np.random.Generator) -> Completed:
    """Alternating least squares of every member at once; `observed` (K, N), NaN where not."""
    is_observed = np.isfinite(observed)
    arms, examples = np.nonzero(is_observed)
    weights = (rng.random((len(arms), ENSEMBLE), dtype=np.float32) >= DROPPED).astype(
        np.float32
    )
    by_arm = _sums(observed[is_observed], arms, len(observed))
    by_example = _sums(observed[is_observed], examples, observed.shape[1])
    u = np.abs(rng.normal(size=(len(observed), ENSEMBLE))).astype(np.float32)
    for _ in range(ITERATIONS):
        v = _least_squares(weights * u[arms], *by_example)
        u = _least_squares(weights * v[examples], *by_arm)
    u, v = u.astype(float), v.astype(float)
    mean = u @ v.T / ENSEMBLE
    variance = (u**2 @ (v**2).T - ENSEMBLE * mean**2) / (ENSEMBLE - 1)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return Completed(
        np.where(is_observed, observed, mean), np.where(is_observed, 0.0, deviation)
    )


def _widest(pool: Pool, goal: Goal, completed: Completed) -> int:
    """Of the prompts with cells left, the one with the largest bound; one that was never pulled is first."""
    reach = np.sqrt(1 / np.maximum(pool.counts, 1))[:, None] * pool.deviation
    bounds = pool.means + reach
    bounds[:, 0] = (completed.scores + ETA * completed.deviation).mean(axis=1)
    value = goal.values(bounds)
    value[pool.counts == 0] = np.inf
    slack = np.where(
        pool.counts < pool.n_examples, value[:, 1:].min(axis=1, initial=np.inf), -np.inf
    )
    candidates = (
        np.where(slack >= 0, value[:, 0], -np.inf) if (slack >= 0).any() else slack
    )
    return int(candidates.argmax())


def _sums(
    scores: Array, groups: npt.NDArray[np.int64], n_groups: int
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """(G, n) matrices that sum n rows by group: times the row's score, and as they are."""
    cells, shape = (groups, np.arange(len(groups))), (n_groups, len(groups))
    weights = scores.astype(np.float32)
    return sparse.csr_array((weights, cells), shape=shape), sparse.csr_array(
        (np.ones_like(weights), cells), shape=shape
    )


def _least_squares(
    factors: Array32, weighted: sparse.csr_array, summed: sparse.csr_array
) -> Array32:
    """(G, E) ridge regression of each group's scores on the other side's factors (n, E), which are 0 where dropped."""
    return np.asarray(
        (weighted @ factors) / (summed @ factors**2 + np.float32(REGULARIZER))
    )
