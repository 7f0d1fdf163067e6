"""What is done without an engine: evaluate as many prompts as the budget allows, each on the whole data set."""

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Pool


def in_full(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """Prompts in random order, on every example; the last one on what is left."""
    for arm in range(pool.n_arms):
        for _ in range(min(pool.n_examples, pool.left)):
            pool.pull(arm)
    return pool.best(goal)
