"""Rivals that a process can import."""

import os

import numpy as np

from asktell.simulation.replay import Replay


def best_of_all(problem: Replay, budget: int, seed: int) -> int:
    """Every prompt on the first examples of the seed's order; the best of those that keep the constraints."""
    each = budget // problem.n_prompts
    means = np.array(
        [
            np.mean(
                [problem.evaluate(k, example) for example in problem.order[:each]],
                axis=0,
            )
            for k in range(problem.n_prompts)
        ]
    )
    values = problem.goal.values(means)
    return int(np.where(values[:, 1] >= 0, values[:, 0], -np.inf).argmax())


def greedy(problem: Replay, budget: int, seed: int) -> int:
    """Spend too much."""
    for _ in range(budget + 1):
        problem.evaluate(0, 0)
    return 0


def dies(problem: Replay, budget: int, seed: int) -> int:
    """End the process."""
    os._exit(3)
