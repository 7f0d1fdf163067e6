"""SySRs, synchronized successive rejects (ICML 2026, arXiv 2606.07726, zifanlyu/llm-bandits-sysrs).

Successive rejects (Audibert & Bubeck 2010), in which all arms see the same random
examples without replacement. Budget that a round cannot use, because every example was
seen, goes to the other rounds in proportion. Differences: ranked by the constrained
ranking, not by one mean; equals leave by chance; what is left of the budget after
rounding is spent on the last two arms.
"""

import numpy as np

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Pool


def examples_seen(n_arms: int, n_examples: int, budget: int) -> list[int]:
    """For each of the K - 1 rounds, how many examples an arm has seen at its end."""
    rounds = np.arange(1, n_arms)
    active = n_arms + 1 - rounds
    harmonic = 0.5 + (1.0 / np.arange(2, n_arms + 1)).sum()
    published = np.ceil((budget - n_arms) / harmonic / active)

    def scaled(factor: float) -> np.ndarray:
        return np.minimum(n_examples, np.ceil(factor * published)).astype(np.int64)

    def cost(seen: np.ndarray) -> int:
        return int((np.diff(seen, prepend=0) * active).sum())

    # The largest factor that the budget pays, by bisection: the cost only grows
    low, high = 0.0, float(n_examples)
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cost(scaled(middle)) <= budget else (low, middle)
    return scaled(low).tolist()


def sysrs(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """Round by round, the worst of the arms left leaves."""
    if pool.n_arms == 1 or pool.budget < pool.n_arms:
        return _by_chance(pool, goal)
    active = np.arange(pool.n_arms)
    for seen in examples_seen(pool.n_arms, pool.n_examples, pool.budget):
        for arm in active:
            for _ in range(min(seen - int(pool.counts[arm]), pool.left)):
                pool.pull(int(arm))
        ranking = ConstrainedRanking().ranking(goal.values(pool.means[active]))
        if len(active) > 2:
            active = active[ranking[:-1]]
    while pool.left and pool.counts[active].min() < pool.n_examples:
        pool.pull(int(active[pool.counts[active].argmin()]))
    return pool.best(goal, active)


def _by_chance(pool: Pool, goal: Goal) -> list[int]:
    """With less than an evaluation each: the best of those that the budget covers."""
    for arm in range(min(pool.n_arms, pool.budget)):
        pool.pull(arm)
    return pool.best(goal)
