"""TRIPLE-CLST (Shi et al. 2024, arXiv 2402.09723, ShenGroup/TRIPLE): clusters of prompts first, then their prompts.

Of the paper: ceil(sqrt(K)) clusters by k-means on the features; a third of the budget
finds the better half of the clusters; the rest goes to the prompts in these, with what
is known of them.

Differences: both phases halve, as in the official code; the paper's experiments have
continuous rejection, whose test of one mean between 0 and 1 has no counterpart with
constraints. Clusters take turns through their prompts and see the same examples, where
theirs draw both at random; no cell is bought twice; all of the budget is spent; ranked
by the constrained ranking. k-means is the best of ten.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

Arms = npt.NDArray[np.int64]


def triple_clst(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """The better half of the clusters, then sequential halving of their prompts."""
    assert pool.features is not None
    active = _better_half(
        pool, goal, clusters(pool.features, math.ceil(math.sqrt(pool.n_arms)), seed)
    )
    for rounds in range(max(1, math.ceil(math.log2(len(active)))), 0, -1):
        spread(pool, active, pool.left // rounds)
        evaluated = active[pool.counts[active] > 0]
        ranking = ConstrainedRanking().ranking(goal.values(pool.means[evaluated]))
        active = np.concatenate((evaluated[ranking], active[pool.counts[active] == 0]))[
            : math.ceil(len(active) / 2)
        ]
    return pool.best(goal, active)


def _better_half(pool: Pool, goal: Goal, groups: list[Arms]) -> Arms:
    """Prompts of the clusters with the better means by a third of the budget; all prompts if it is too small."""
    share = pool.budget // (3 * len(groups))
    if share == 0 or len(groups) == 1:
        return np.arange(pool.n_arms)
    for group in groups:
        spread(pool, group, share, every_turn_another_example=True)
    means = np.array(
        [pool.sums[group].sum(axis=0) / pool.counts[group].sum() for group in groups]
    )
    ranking = ConstrainedRanking().ranking(goal.values(means))
    return np.sort(
        np.concatenate([groups[i] for i in ranking[: math.ceil(len(groups) / 2)]])
    )


def spread(
    pool: Pool, arms: Arms, n: int, every_turn_another_example: bool = False
) -> None:
    """At most n pulls of the least pulled of the arms, each on the first example that it lacks.

    `every_turn_another_example`: every turn looks for it from another one on, so that
    few pulls of many arms see many.
    """
    for turn in range(n):
        arm = int(arms[pool.counts[arms].argmin()])
        if pool.counts[arm] == pool.n_examples:
            return
        order = np.roll(pool.order, -turn) if every_turn_another_example else pool.order
        pool.pull(arm, int(order[np.isnan(pool.observed[arm, order, 0]).argmax()]))


def clusters(features: Array, n: int, seed: int, starts: int = 10) -> list[Arms]:
    """At most n groups of prompts: of several k-means the one with the least sum of squares."""
    from scipy.cluster.vq import kmeans2  # here, to keep the import of all rivals light

    rng = np.random.default_rng(seed)
    least, labels = np.inf, np.zeros(len(features), dtype=np.int64)
    for _ in range(starts):
        centres, nearest = kmeans2(
            features,
            _first_centres(features, n, rng),
            minit="matrix",
            iter=50,
            missing="warn",
        )
        loss = float(((features - centres[nearest]) ** 2).sum())
        if loss < least:
            least, labels = loss, nearest
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _first_centres(features: Array, n: int, rng: np.random.Generator) -> Array:
    """Prompts drawn with probability proportional to the squared distance from those before (k-means++)."""
    centres = features[rng.integers(len(features), size=1)]
    while len(centres) < n:
        distance = ((features[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1)
        if distance.sum() == 0:
            break  # fewer different prompts than clusters
        centres = np.vstack(
            (centres, features[rng.choice(len(features), p=distance / distance.sum())])
        )
    return centres
