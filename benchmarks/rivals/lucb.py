"""LUCB (Kalyanakrishnan, Tewari, Auer & Stone 2012): pull the leader and whoever may still be better than it.

AgentOpt's Epsilon-LUCB (2026) is this rule until the two bounds differ by less than
epsilon. Differences: run to a fixed budget; the bounds are a quarter of a pooled
standard deviation times sqrt(2 log(t) / n) away, since those published, at a confidence
for scores from 0 to 1, are wider than the scale at such budgets; with constraints the
distance to the lead is that of `benchmarks.rivals.gaps`.
"""

import numpy as np

from asktell.problem.goals import Goal
from benchmarks.rivals.gaps import leads
from benchmarks.rivals.pool import Pool

# Of .1, .25, .5 and 1 best on synthetic tables and those of models, b = 2, 3 and 10
_WIDTH = 0.25


def lucb(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """One pull of every prompt; then the leader and its strongest challenger, again and again."""
    for arm in range(min(pool.n_arms, pool.left)):
        pool.pull(arm)
    while pool.left:
        width = _WIDTH * np.sqrt(2.0 * np.log(pool.spent) / np.maximum(pool.counts, 1))
        leader, gap = leads(pool, goal)
        hope = width - gap
        hope[leader] = -np.inf
        pool.pull(leader)
        if pool.left:
            pool.pull(int(hope.argmax()))
    return pool.best(goal)
