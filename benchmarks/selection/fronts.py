"""Fronts under a constraint: `python -m benchmarks.selection.fronts --tables FOLDER --half report`.

Runs what is missing (as `benchmarks.selection.run --suite fronts`) and prints a table
per constraint: the mean over tables of a method's quality (the mean over seeds), with
its standard error over tables; and by how much `auto` is ahead of it on the same tables
and seeds, with the standard error of that. A pool is cut to `--prompts` prompts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import problems
from benchmarks.results import table
from benchmarks.selection.run import (
    OUTPUT,
    SUITES,
    add_arguments,
    chosen_problems,
    run_tasks,
    tasks,
)

METHODS = ("auto", "auto+conclude", "auto+filter", "ege-sr", "ege-sh", "uniform")
COLUMNS = ("quality", "hypervolume", "f1", "size", "infeasible")
WORDS = {
    "front@floor.5": "the second metric is at least its median",
    "front@ceiling.5": "the second metric is at most its median",
}


def summary(lines: Sequence[dict[str, Any]], goal: str) -> str:
    """The table of a goal."""
    rows = []
    for b in sorted({line["per_prompt"] for line in lines}):
        ours = _means(lines, goal, "auto", b, "quality")
        for method in dict.fromkeys(line["method"] for line in lines):
            cells = [f"{b:g}", f"`{method}`"]
            for column in COLUMNS:
                values = _means(lines, goal, method, b, column)
                cells.append(
                    _with_error(values)
                    if column in ("quality", "f1")
                    else f"{values.mean():.2f}"
                )
            ahead = ours - _means(lines, goal, method, b, "quality")
            rows.append(
                [*cells, "" if method == "auto" else _with_error(ahead, signed=True)]
            )
    header = [
        "b",
        "method",
        "quality",
        "hypervolume",
        "F1",
        "size",
        "of these infeasible",
        "`auto` is ahead by",
    ]
    return table(header, rows)


def _means(
    lines: Sequence[dict[str, Any]], goal: str, method: str, b: float, column: str
) -> npt.NDArray[np.float64]:
    """(tables,) the mean over seeds."""
    by_table: dict[str, list[float]] = {}
    for line in lines:
        if (line["goal"], line["method"], line["per_prompt"]) == (goal, method, b):
            by_table.setdefault(line["problem"], []).append(line[column])
    return np.array([np.mean(by_table[name]) for name in sorted(by_table)])


def _with_error(values: npt.NDArray[np.float64], signed: bool = False) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():{'+' if signed else ''}.3f} ± {error:.3f}"


def main() -> None:
    """Parse the command line, run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument(
        "--prompts",
        type=int,
        default=50,
        help="per table at most (default: %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=SUITES["fronts"].seeds)
    parser.add_argument("--methods", nargs="+", default=METHODS, metavar="METHOD")
    parser.add_argument("--output", type=Path, default=OUTPUT / "fronts.jsonl")
    args = parser.parse_args()
    names = [
        name
        for name in chosen_problems(args)
        if args.problems or not name.startswith("synthetic/")
    ]
    names = [name if "@" in name else f"{name}@{args.prompts}" for name in names]
    suite = SUITES["fronts"]._replace(seeds=args.seeds, slow_seeds=args.seeds)
    lines = run_tasks(
        tasks(suite, names, args.methods),
        args.output,
        args.tables,
        args.jobs,
        args.any_commit,
    )
    for goal in problems.FRONTS:
        print(
            f"\n{goal}: {WORDS[goal]}. {len(names)} tables, {args.seeds} seeds.\n\n{summary(lines, goal)}"
        )


if __name__ == "__main__":
    main()
