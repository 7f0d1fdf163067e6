"""UCB-E (Audibert & Bubeck 2010; for prompts and models Zhou et al. 2024): pull the largest mean + sqrt(a / n).

Difference: with a constraint, the bound on its slack counts too: the prompts whose
slack may be positive are ranked by the bound on the objective, and if there are none
the largest bound on the slack is pulled. The bound is in units of the scores' pooled
standard deviation, so `a` = 1 means a standard error.
"""

import numpy as np

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Pool


def ucb_e(pool: Pool, goal: Goal, seed: int, a: float = 1.0) -> list[int]:
    """One pull at a time, after one of every prompt."""
    for arm in range(min(pool.n_arms, pool.left)):
        pool.pull(arm)
    while pool.left:
        reach = np.sqrt(a / np.maximum(pool.counts, 1))[:, None] * pool.deviation
        bound = goal.values(pool.means + reach)
        slack = bound[:, 1:].min(axis=1, initial=np.inf)
        # Never pulled: the budget was below one each
        bound[~np.isfinite(bound[:, 0]), 0] = -np.inf
        candidates = (
            np.where(slack >= 0, bound[:, 0], -np.inf) if (slack >= 0).any() else slack
        )
        pool.pull(int(candidates.argmax()))
    return pool.best(goal)
