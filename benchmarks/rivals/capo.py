"""Racing as CAPO does it (Zehle et al. 2025, finitearth/capo): blocks of common examples, paired t-tests.

After every block, a prompt leaves if `survivors` others are better by a one-sided
paired t-test at level 0.2. Differences: CAPO races on accuracy less a length penalty;
here, for the best feasible prompt, a score less the violation of the threshold counts;
for Pareto sets (each metric less the violations, if any), an other prompt must be
better in every metric. Blocks of 30 on all prompts are more than our budgets, so a
block is a quarter of the pulls that a prompt has on average.
"""

import numpy as np
import numpy.typing as npt

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

LEVEL = 0.2


def capo_race(pool: Pool, goal: Goal, seed: int, survivors: int = 5) -> list[int]:
    """Race until the budget is spent, then the best of the survivors by sample mean."""
    active = np.arange(pool.n_arms)
    size = max(1, pool.budget // (4 * pool.n_arms))
    seen: list[Array] = []  # per example, (K, q) values; larger is better
    while pool.left >= len(active) and len(seen) < pool.n_examples:
        for _ in range(
            min(size, pool.left // len(active), pool.n_examples - len(seen))
        ):
            rows = np.full((pool.n_arms, len(goal.metrics)), np.nan)
            for arm in active:
                rows[arm] = pool.pull(int(arm))
            seen.append(_values(goal, rows))
        if len(seen) > 1 and len(active) > survivors:
            values = np.stack([row[active] for row in seen])
            better = _better(values).sum(axis=1)
            active = active[better < survivors]
    return pool.best(goal, active)


def _values(goal: Goal, rows: Array) -> Array:
    """(K, p) of the objectives less violations."""
    values, p = goal.values(rows), len(goal.objectives)
    return np.asarray(
        values[:, :p] + np.minimum(0.0, values[:, p:]).sum(axis=1, keepdims=True)
    )


def _better(values: Array) -> npt.NDArray[np.bool_]:
    """(A, A) whether prompt j is better than prompt i in every column; values (n, A, q)."""
    from scipy.stats import t as student  # here, to keep the import of all rivals light

    n = len(values)
    difference = values[:, None] - values[:, :, None]  # (n, i, j, q): j less i
    mean = difference.mean(axis=0)
    error = difference.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray((mean > student.ppf(1 - LEVEL, n - 1) * error).all(axis=2))
