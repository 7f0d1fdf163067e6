"""AgentOpt's arm elimination (AgentOptimizer 2026, `method="auto"`): all go on to a batch, then the worse ones go.

An arm goes if its mean plus a standard error is below another's mean less one. The next
batch is twice as large. Differences: the first batch, published as a tenth of the
examples, is smaller where that would take more than half of the budget, and has two
examples at least, of which there is a standard error; it ends with the budget; a
constraint as in `benchmarks.rivals.gaps`: who is ahead of a feasible leader by the
objective but misses a bound by a standard error goes, too.
"""

import numpy as np

from asktell.problem.goals import Goal
from benchmarks.rivals.gaps import leads
from benchmarks.rivals.pool import Pool


def arm_elimination(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """Batches of all that are left, twice as large each time."""
    active = np.arange(pool.n_arms)
    batch = max(2, min(pool.n_examples // 10, pool.budget // (2 * pool.n_arms)))
    while pool.left and pool.counts[active].min() < pool.n_examples:
        for _ in range(min(batch, pool.n_examples - int(pool.counts[active].min()))):
            for arm in active[: pool.left]:
                pool.pull(int(arm))
        batch *= 2
        leader, gaps = leads(pool, goal)
        variances = (
            pool.squares[:, 0] / np.maximum(pool.counts, 1)
            - (pool.sums[:, 0] / np.maximum(pool.counts, 1)) ** 2
        )
        error = (
            np.sqrt(np.maximum(variances, 0.0) / np.maximum(pool.counts, 1))
            / pool.deviation[0]
        )
        ahead = gaps[active] - gaps[active].min()  # of those that are left
        active = active[ahead <= error[active] + error[leader]]
        if len(active) == 1:
            break
    return pool.best(goal)
