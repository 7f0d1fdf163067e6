from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.problems import BenchmarkProblem, Table


@pytest.fixture(scope="session")
def table() -> Table:
    """Twelve prompts, thirty examples; the first metric grows and the second falls along the pool."""
    rng = np.random.default_rng(0)
    trend = np.linspace(0, 1, 12)
    means = np.stack((trend, 1 - trend**2), axis=1) + rng.normal(0, 0.05, (12, 2))
    scores = means[:, None] + rng.normal(0, 0.2, (12, 30, 2))
    prompts = tuple(f"prompt {i}" for i in range(12))
    return Table("tiny", ("quality", "brevity"), scores, prompts, rng.normal(size=(12, 3)))


@pytest.fixture(scope="session")
def problem(table: Table) -> Callable[[str], BenchmarkProblem]:
    return lambda goal: BenchmarkProblem(table, goal)


@pytest.fixture(scope="session")
def exact() -> Callable[..., BenchmarkProblem]:
    """A problem of given true means: one example, no noise; features if given."""

    def make(goal: str, *means: tuple[float, float], features: np.ndarray | None = None) -> BenchmarkProblem:
        scores = np.array(means, dtype=float)[:, None]
        prompts = tuple(str(i) for i in range(len(means)))
        return BenchmarkProblem(Table("exact", ("a", "b"), scores, prompts, features), goal)

    return make
