"""Tables of scores as problems, and pools of scores as rivals get them."""

import numpy as np

import asktell
from asktell.simulation.replay import Replay
from benchmarks.problems import BenchmarkProblem, Table
from benchmarks.rivals.pool import Array, Pool


def problem(goal: str) -> BenchmarkProblem:
    """Twelve prompts, thirty examples; the first metric grows and the second falls along the pool."""
    rng = np.random.default_rng(0)
    trend = np.linspace(0, 1, 12)
    means = np.stack((trend, 1 - trend**2), axis=1) + rng.normal(0, 0.05, (12, 2))
    scores = means[:, None] + rng.normal(0, 0.2, (12, 30, 2))
    prompts = tuple(f"prompt {i}" for i in range(12))
    return BenchmarkProblem(
        Table(
            "tiny", ("quality", "brevity"), scores, prompts, rng.normal(size=(12, 3))
        ),
        goal,
    )


def exact(
    goal: str, *means: tuple[float, float], features: np.ndarray | None = None
) -> BenchmarkProblem:
    """A problem of given true means: one example, no noise; features if given."""
    scores = np.array(means, dtype=float)[:, None]
    prompts = tuple(str(i) for i in range(len(means)))
    return BenchmarkProblem(Table("exact", ("a", "b"), scores, prompts, features), goal)


def pool_of(
    scores: Array, budget: int, seed: int, features: Array | None = None
) -> Pool:
    """A pool of scores (K, N, m)."""
    goal = asktell.ParetoSet(*"abc"[: scores.shape[2]])
    return Pool(Replay(scores, goal, budget, seed, features), seed)
