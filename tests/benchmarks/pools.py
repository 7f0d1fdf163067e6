"""Pools of scores, as rivals get them."""

import asktell
from asktell.simulation.replay import Replay
from benchmarks.rivals.pool import Array, Pool


def pool_of(scores: Array, budget: int, seed: int, features: Array | None = None) -> Pool:
    """A pool of scores (K, N, m)."""
    goal = asktell.ParetoSet(*"abc"[: scores.shape[2]])
    return Pool(Replay(scores, goal, budget, seed, features), seed)
