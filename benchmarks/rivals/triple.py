"""TRIPLE-SH (Shi et al. 2024, ShenGroup/TRIPLE): sequential halving over prompts; here with constraints.

Differences: ranked by the constrained ranking, not by one mean; never spends more than
its budget (theirs may, as it gives every prompt at least one pull a round); if the
budget is too small for a pull each, it halves at random.
"""

import math

import numpy as np

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Pool


def triple_sh(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """floor(B / (rounds * prompts left)) pulls each, drop the worse half, until one is left."""
    n_rounds = max(1, math.ceil(math.log2(pool.n_arms)))
    active = np.arange(pool.n_arms)
    for _ in range(n_rounds):
        per_arm = max(1, pool.budget // (n_rounds * len(active)))
        for arm in np.repeat(active, per_arm)[: pool.left]:
            pool.pull(int(arm))
        evaluated = active[pool.counts[active] > 0]
        ranking = ConstrainedRanking().ranking(goal.values(pool.means[evaluated]))
        keep = math.ceil(len(active) / 2)
        active = np.concatenate((evaluated[ranking], active[pool.counts[active] == 0]))[
            :keep
        ]
    return pool.best(goal, active)
