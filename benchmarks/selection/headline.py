"""Equivalent budget, the headline: `python -m benchmarks.selection.headline --tables FOLDER`.

How many evaluations per prompt the published method (`csr` or `ege-sr`; published
schedule, independent examples), or another `--reference`, needs for the quality that a
method of ours has at `--at` (3) evaluations per prompt, divided by that 3. Above 1,
ours is cheaper. The reference's quality as a function of its budget is measured on a
grid, made monotone (isotonic regression), and interpolated linearly in the logarithm of
the budget. A quality that it does not reach at the end of the grid is censored and
printed as `> x`, one below its start as `< x`. Intervals (95 %) are from a bootstrap
over seeds, and for the overall line over tables too. The best feasible prompt is
averaged over three thresholds.

Without --problems: all recorded tables that are found, or where there are none the
synthetic ones.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asktell.problem.goals import BestFeasible, ParetoSet
from benchmarks import problems
from benchmarks.results import table
from benchmarks.selection import methods
from benchmarks.selection.run import (
    OUTPUT,
    Task,
    add_arguments,
    chosen_problems,
    run_tasks,
)

Array = npt.NDArray[np.float64]

GRID = (2, 3, 4, 6, 9, 15, 25, 40)
RESAMPLES = 1000
GOALS = {
    "best feasible": (problems.BEST, BestFeasible),
    "Pareto set": ((problems.PARETO,), ParetoSet),
}


class Equivalent(NamedTuple):
    """A ratio of budgets with its interval; `mark` is "<" or ">" where it is censored."""

    ratio: float
    low: float
    high: float
    mark: str

    @property
    def cells(self) -> tuple[str, str, str]:
        """The ratio, and its interval."""
        return (
            f"{self.mark}{' ' * bool(self.mark)}{self.ratio:.2f}",
            f"{self.low:.2f}",
            f"{self.high:.2f}",
        )

    def __str__(self) -> str:
        ratio, low, high = self.cells
        return f"{ratio} [{low}, {high}]"


def monotone(values: Array) -> Array:
    """The nearest non-decreasing sequence in least squares (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((float(value), 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    return np.concatenate([np.full(n, value) for value, n in blocks])


def budget_for(
    quality: float, grid: Sequence[float], curve: Array
) -> tuple[float, str]:
    """The least budget at which the curve (made monotone) has the quality, and "<" or ">" if it is off the grid."""
    rising = monotone(curve)
    if quality > rising[-1]:
        return float(grid[-1]), ">"
    if quality < rising[0]:
        return float(grid[0]), "<"
    i = int(np.argmax(rising >= quality))  # the first that has it
    if i == 0 or rising[i] == quality:
        return float(grid[i]), ""
    share = (quality - rising[i - 1]) / (rising[i] - rising[i - 1])
    return float(
        np.exp((1 - share) * np.log(grid[i - 1]) + share * np.log(grid[i]))
    ), ""


def equivalent(
    ours: Array,
    published: Array,
    at: float,
    grid: Sequence[float],
    rng: np.random.Generator,
) -> Equivalent:
    """The budget at which `published` (tables, grid, seeds) is on average as good as `ours` (tables, seeds).

    The interval resamples seeds, and with more than one table the tables.
    """
    n_tables, n_seeds = ours.shape
    budget, mark = budget_for(float(ours.mean()), grid, published.mean(axis=(0, 2)))
    ratios = np.empty(RESAMPLES)
    for r in range(RESAMPLES):
        tables = rng.integers(n_tables, size=(n_tables, 1))
        mean = ours[tables, rng.integers(n_seeds, size=(n_tables, n_seeds))].mean()
        seeds = rng.integers(published.shape[2], size=(n_tables, 1, published.shape[2]))
        resampled = np.take_along_axis(
            published[tables[:, 0]], np.broadcast_to(seeds, published.shape), axis=2
        )
        ratios[r] = budget_for(float(mean), grid, resampled.mean(axis=(0, 2)))[0] / at
    low, high = np.quantile(ratios, (0.025, 0.975))
    return Equivalent(budget / at, float(low), float(high), mark)


def wanted_tasks(
    names: Sequence[str],
    method: str,
    goal: str,
    at: float,
    seeds: int,
    reference: str | None = None,
) -> list[Task]:
    """Those that a comparison needs, in the order that `qualities` reads."""
    goal_names, kind = GOALS[goal]
    reference = reference or methods.REFERENCE[kind]
    pairs = [(method, at), *((reference, float(b)) for b in GRID)]
    return [
        Task(p, g, m, b, s)
        for p in names
        for g in goal_names
        for m, b in pairs
        for s in range(seeds)
    ]


def qualities(
    lines: list[dict[str, Any]], n_tables: int, goal: str, seeds: int
) -> tuple[Array, Array]:
    """(tables, seeds) of ours and (tables, grid, seeds) of the published method, averaged over thresholds."""
    shape = (n_tables, len(GOALS[goal][0]), 1 + len(GRID), seeds)
    values = np.array([line["quality"] for line in lines]).reshape(shape).mean(axis=1)
    return values[:, 0], values[:, 1:]


def compare(
    names: Sequence[str], method: str, goal: str, lines: list[dict[str, Any]], at: float
) -> list[list[str]]:
    """Rows of the table of one method and goal: every table, then all of them together."""
    seeds = len({line["seed"] for line in lines})
    refused = {line["problem"] for line in lines if "refused" in line}
    usable = [name for name in names if name not in refused]
    if not usable:
        return [[method, goal, "every table", "not applicable", *[""] * 4]]
    lines = [line for line in lines if line["problem"] not in refused]
    ours, published = qualities(lines, len(usable), goal, seeds)
    rng = np.random.default_rng(0)
    grid = [float(b) for b in GRID]
    at_same = (
        published[:, GRID.index(int(at))] if at in GRID else np.full(ours.shape, np.nan)
    )
    rows = []
    for name, part in [
        *((name, [i]) for i, name in enumerate(usable)),
        *_groups(usable),
    ]:
        result = equivalent(ours[part], published[part], at, grid, rng)
        means = [f"{ours[part].mean():.3f}", f"{at_same[part].mean():.3f}"]
        rows.append([method, goal, name, *means, *result.cells])
    return rows + [
        [method, goal, name, "not applicable", *[""] * 4] for name in sorted(refused)
    ]


def _groups(names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """The tables of each half, where there are several of both, and all of them."""
    halves = [problems.half(name) for name in names]
    for half in problems.HALVES:
        mine = [i for i, of in enumerate(halves) if of == half]
        if 1 < len(mine) < len(names):
            yield f"{half} half ({len(mine)})", mine
    yield f"all {len(names)}", list(range(len(names)))


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument(
        "--methods", nargs="+", default=["auto"], metavar="METHOD", help="default: auto"
    )
    parser.add_argument(
        "--goals", nargs="+", choices=sorted(GOALS), default=sorted(GOALS)
    )
    parser.add_argument(
        "--reference",
        choices=methods.names(),
        metavar="METHOD",
        help="in place of the published one",
    )
    parser.add_argument(
        "--at",
        type=float,
        default=3,
        help="evaluations per prompt of ours (default: %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=OUTPUT / "headline.jsonl")
    args = parser.parse_args()
    names = chosen_problems(args)
    if not args.problems:  # synthetic tables only where there is nothing real
        names = [name for name in names if not name.startswith("synthetic/")] or names
    rows = []
    for goal in args.goals:
        for method in args.methods:
            tasks = wanted_tasks(
                names, method, goal, args.at, args.seeds, args.reference
            )
            lines = run_tasks(
                tasks, args.output, args.tables, args.jobs, args.any_commit
            )
            reference = args.reference or methods.REFERENCE[GOALS[goal][1]]
            rows += [
                [*row[:2], reference, *row[2:]]
                for row in compare(names, method, goal, lines, args.at)
            ]
    header = [
        "method",
        "goal",
        "reference",
        "tables",
        "quality",
        "reference, same budget",
        "equivalent budget",
        "low",
        "high",
    ]
    rows = [[*row, f"{args.at:g}", str(args.seeds)] for row in rows]
    print(f"\n{table([*header, 'b', 'seeds'], rows)}")


if __name__ == "__main__":
    main()
