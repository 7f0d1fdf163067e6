"""UCB-E-LRF (Zhou et al. 2024, arXiv 2407.06172, kilian-group/banditeval): UCB-E on scores completed at rank one.

An ensemble of factorizations, each without a random twentieth of what was observed, predicts the cells that were not;
how far they disagree says how unsure that is. Of the prompt with the largest bound on its completed mean, the least
sure cells are evaluated. Hyperparameters are the package's.

Differences: the factorizations start from positive factors, as scores are positive, too: from normal ones, as in the
paper, the members' signs disagree where data are few and their mean is zero. (The package lets members fit to each
other's factors, which mends that in part.) The warm-up of 5 % of the cells takes at most half of the budget; the
package would spend all of a budget of up to 15 pulls a prompt on it, if there are 300 examples. With a constraint, the
bound on its slack counts as in `ucb_e`, and a cell is as unsure as all of its metrics are. Rank one only.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from asktell.goals import Goal
from benchmarks.rivals.pool import Array, Pool

WARM_UP = 0.05  # of all cells
BATCH = 32
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
    cells = rng.permutation(pool.n_arms * pool.n_examples)
    for cell in cells[: min(math.ceil(WARM_UP * len(cells)), math.ceil(pool.left / 2))]:
        pool.pull(int(cell) // pool.n_examples, int(cell) % pool.n_examples)
    while pool.left and (pool.counts < pool.n_examples).any():
        completed = _completed(pool, rng)
        arm = _widest(pool, goal, completed)
        for example in _unsurest(pool, arm, completed)[: pool.left]:
            pool.pull(arm, int(example))
    return pool.best(goal, means=np.stack([c.scores.mean(axis=1) for c in _completed(pool, rng)], axis=1))


def complete(observed: Array, rng: np.random.Generator) -> Completed:
    """Alternating least squares of every member at once; `observed` (K, N), NaN where not."""
    known = np.isfinite(observed)
    arms, examples = np.nonzero(known)
    kept = (rng.random((len(arms), ENSEMBLE)) >= DROPPED).astype(float)
    scores = kept * observed[known][:, None]
    by_arm, by_example = _sums(arms, len(observed)), _sums(examples, observed.shape[1])
    u = np.abs(rng.normal(size=(len(observed), ENSEMBLE)))
    for _ in range(ITERATIONS):
        other = u[arms]
        v = (by_example @ (scores * other)) / (by_example @ (kept * other**2) + REGULARIZER)
        other = v[examples]
        u = (by_arm @ (scores * other)) / (by_arm @ (kept * other**2) + REGULARIZER)
    mean = u @ v.T / ENSEMBLE
    variance = (u**2 @ (v**2).T - ENSEMBLE * mean**2) / (ENSEMBLE - 1)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return Completed(np.where(known, observed, mean), np.where(known, 0.0, deviation))


def _completed(pool: Pool, rng: np.random.Generator) -> list[Completed]:
    return [complete(pool.observed[:, :, metric], rng) for metric in range(pool.observed.shape[2])]


def _widest(pool: Pool, goal: Goal, completed: list[Completed]) -> int:
    """Of the prompts with cells left, the one with the largest bound; one without observations is first."""
    bound = goal.values(np.stack([(c.scores + ETA * c.deviation).mean(axis=1) for c in completed], axis=1))
    bound[pool.counts == 0] = np.inf
    bound[pool.counts == pool.n_examples] = -np.inf
    slack = bound[:, 1:].min(axis=1, initial=np.inf)
    slack[pool.counts == pool.n_examples] = -np.inf
    candidates = np.where(slack >= 0, bound[:, 0], -np.inf) if (slack >= 0).any() else slack
    return int(candidates.argmax())


def _unsurest(pool: Pool, arm: int, completed: list[Completed]) -> npt.NDArray[np.int64]:
    """At most a batch of the prompt's examples not yet evaluated, the least sure first."""
    unsure = np.sum([c.deviation[arm] / scale for c, scale in zip(completed, pool.deviation, strict=True)], axis=0)
    open_examples = np.flatnonzero(np.isnan(pool.observed[arm, :, 0]))
    return np.asarray(open_examples[np.argsort(-unsure[open_examples], kind="stable")][:BATCH])


def _sums(groups: npt.NDArray[np.int64], n_groups: int) -> sparse.csr_array:
    """(G, n) matrix that sums n rows by group."""
    n = len(groups)
    return sparse.csr_array((np.ones(n), (groups, np.arange(n))), shape=(n_groups, n))
