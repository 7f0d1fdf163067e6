"""APE (adaptive Pareto exploration; Kone, Kaufmann & Richert 2023): pulls one of the two prompts hardest to order.

Difference: run to a fixed budget; the confidence width is one pooled standard deviation
of a score times sqrt(1/n_i + 1/n_j), a constant in place of the logarithmic term.
"""

import numpy as np

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Pool


def ape(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """After one pull of every prompt, the less pulled of the leader b and its challenger c, again and again."""
    for arm in range(min(pool.n_arms, pool.left)):
        pool.pull(arm)
    while pool.left:
        unit = goal.values(pool.means) / pool.deviation
        width = np.sqrt(1 / pool.counts[:, None] + 1 / pool.counts[None])
        # M(i, j): i's largest lead over j
        lead = (unit[:, None] - unit[None]).max(axis=2)
        np.fill_diagonal(lead, np.inf)
        surely_optimal = (lead - width).min(axis=1) > 0
        hope = np.where(surely_optimal, -np.inf, (lead + width).min(axis=1))
        b = int(hope.argmax())
        c = int((lead[b] - width[b]).argmin())
        pool.pull(b if pool.counts[b] <= pool.counts[c] else c)
    return pool.best(goal)
