"""Problems by name: synthetic ones and recorded tables."""

from functools import lru_cache
from pathlib import Path

from benchmarks.problems import grown, replay, synthetic
from benchmarks.problems.base import (
    BEST,
    FRONTS,
    GOALS,
    PARETO,
    UNCONSTRAINED,
    BenchmarkProblem,
)
from benchmarks.problems.table import InvalidTableError, Table, read_table, write_table

__all__ = [
    "BEST",
    "FRONTS",
    "GOALS",
    "PARETO",
    "UNCONSTRAINED",
    "BenchmarkProblem",
    "InvalidTableError",
    "Table",
    "grown",
    "half",
    "load",
    "names",
    "read_table",
    "write_table",
]

INSTANCES = 10
HALVES = ("development", "report", "models")
"""What a problem is counted among, see `half`."""


def names(folder: Path | None) -> list[str]:
    """The names of all problems: the synthetic ones, then the recorded tables; without those that are grown."""
    return [*synthetic.NAMES, *replay.replay_names(folder)]


def half(name: str) -> str:
    """Development for the problems that methods may be tuned on, report for the others; models apart from both.

    Candidates of the tables of models differ much more than prompts do. Methods were
    tuned on these, too.
    """
    table = name.partition("@")[0]
    if table.startswith("models/"):
        return "models"
    invented = table in (*synthetic.NAMES, *grown.NAMES)
    return "development" if invented or table in replay.DEVELOPMENT else "report"


@lru_cache(maxsize=64)
def load(
    name: str, goal: str, folder: Path | None = None, seed: int = 0
) -> BenchmarkProblem:
    """The problem `name`, or `name@K` for (at most) K prompts instead of 100.

    A recorded table is the same for every seed; a synthetic one has ten instances,
    which the seeds take in turn.
    """
    table, _, k = name.partition("@")
    if table in grown.NAMES:
        return BenchmarkProblem(
            grown.grown_table(table, int(k or 100), instance=seed % INSTANCES), goal
        )
    if table in synthetic.NAMES:
        return BenchmarkProblem(
            synthetic.synthetic_table(table, int(k or 100), instance=seed % INSTANCES),
            goal,
        )
    return BenchmarkProblem(_replayed(table, folder, int(k or 100)), goal)


@lru_cache(maxsize=32)
def _replayed(name: str, folder: Path | None, n_arms: int) -> Table:
    return replay.replay_table(name, folder, n_arms)
