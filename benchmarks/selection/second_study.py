"""The second study on the same examples: `python -m benchmarks.selection.second_study --half development`.

A table's prompts are cut into two random halves. What was evaluated of one half, in an
earlier study, is a profile (`asktell.ExampleProfile`) for the selection among the other
half, by `auto`. Histories:

- `none`; `5`, `20`, `all`: random cells of each earlier prompt; `auto5`, `auto20`:
  those that `auto` chose for the same kind of goal, at b = 5 or 20;
- `shuffled`: those of `20`, with the examples' ids shuffled: a history that is wrong;
- `other`: 20 random cells of each prompt of another LLM's table on the same examples,
  where there is one.

Quality is that of the headline (`benchmarks.selection.metrics`), by the true means of
the second half; the best feasible prompt is averaged over three thresholds, the best
prompt has none. Prints the mean over tables for each goal, budget and history, the
difference from `none` with its standard error over the tables, and what the history is
worth: how many times its evaluations `none` needs for the same quality
(`benchmarks.selection.headline.equivalent`; its budgets: `GRID`).
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import asktell
from asktell.numerics import counters
from asktell.simulation.lines import known_lines
from asktell.simulation.replay import play
from benchmarks import problems
from benchmarks.problems import BenchmarkProblem, Table
from benchmarks.problems.table import Array
from benchmarks.results import table
from benchmarks.selection.headline import equivalent
from benchmarks.selection.metrics import evaluate
from benchmarks.selection.run import (
    OUTPUT,
    add_arguments,
    by_half,
    chosen_problems,
    one_thread,
)

Line = dict[str, Any]
Key = tuple[str, str, float, str, int]

HISTORIES = ("none", "5", "20", "all", "auto5", "auto20", "shuffled", "other")
GRID = (2, 3, 4, 5, 6.5, 8, 10, 13)
"""Evaluations per prompt of `none`."""
GOALS = {
    "best prompt": (problems.UNCONSTRAINED,),
    "best feasible": problems.BEST,
    "Pareto set": (problems.PARETO,),
}
_FEWEST = 10  # prompts of a half


def run(
    name: str,
    goal: str,
    per_prompt: float,
    history: str,
    split: int,
    folder: Path | None,
) -> Line | None:
    """One selection; None where there is no such history."""
    later = halves(name, split, folder)[1]
    problem = BenchmarkProblem(later, goal)
    start = time.perf_counter()
    profile = (
        earlier_profile(name, goal, history, split, folder)
        if history != "none"
        else None
    )
    if profile is None and history != "none":
        return None
    learning = time.perf_counter() - start
    k, n = len(later.prompts), later.scores.shape[1]
    selector = asktell.Selector(
        later.prompts,
        problem.goal,
        round(per_prompt * k),
        examples=ids(n),
        seed=split,
        profile=profile,
    )
    start = time.perf_counter()
    measures = evaluate(
        problem, [int(entry.id) for entry in play(selector, problem.scores).selected]
    )
    return {
        "problem": name,
        "goal": goal,
        "per_prompt": per_prompt,
        "history": history,
        "split": split,
        "k": k,
        "seconds": round(time.perf_counter() - start, 3),
        "learning": round(learning, 3),
        **{metric: round(value, 5) for metric, value in measures.items()},
    }


def ids(n_examples: int) -> list[str]:
    """Of the examples, by position."""
    return [f"example {j}" for j in range(n_examples)]


def halves(name: str, split: int, folder: Path | None) -> tuple[Table, Table]:
    """The table of the earlier prompts, and of the later ones."""
    table = problems.load(name, problems.PARETO, folder, split).table
    order = counters.permutation(split, "halves", len(table.prompts))
    half = len(order) // 2
    return table.rows(np.sort(order[:half])), table.rows(np.sort(order[half:]))


@lru_cache(maxsize=64)
def earlier_profile(
    name: str, goal: str, history: str, split: int, folder: Path | None
) -> asktell.ExampleProfile | None:
    """What the history tells."""
    if history == "other":
        tables = other_tables(name, folder)
        if not tables:
            return None
        table = problems.load(
            tables[split % len(tables)], problems.PARETO, folder
        ).table
    else:
        table = halves(name, split, folder)[0]
    problem = BenchmarkProblem(table, goal)
    k, n = len(table.prompts), table.scores.shape[1]
    if history.startswith("auto"):
        budget = min(int(history[4:]), n) * k
        selector = asktell.Selector(
            table.prompts, problem.goal, budget, examples=ids(n), seed=split
        )
        play(selector, problem.scores)
        return asktell.ExampleProfile.of(selector)
    names = np.array(ids(n))
    if history == "shuffled":
        names = names[counters.permutation(split, "shuffled", n)]
    n_examples = {"5": 5, "all": n}.get(history, min(20, n))
    selector = asktell.Selector(table.prompts, problem.goal, k, examples=names.tolist())
    for arm in range(k):
        for j in counters.permutation(split, "history", n, arm)[:n_examples].tolist():
            selector.observe(arm, problem.scores[arm, j], j)
    return asktell.ExampleProfile.of(selector)


def other_tables(name: str, folder: Path | None) -> list[str]:
    """Tables of other LLMs on the same examples: of CAPO's, those of the same task."""
    task, _, rest = name.partition("_")
    if not task.startswith("capo/"):
        return []
    return [
        table
        for table in problems.names(folder)
        if table.startswith(f"{task}_") and table != f"{task}_{rest}"
    ]


def summary(lines: Sequence[Line]) -> str:
    """A row for each goal, budget and history."""
    header = [
        "goal",
        "b",
        "history",
        "tables",
        "quality",
        "over none (se over tables)",
        "worth",
    ]
    quality = {_key(line): line["quality"] for line in lines}
    budgets = sorted(
        {line["per_prompt"] for line in lines if line["history"] != "none"}
    )
    rows = []
    for goal, b, history in product(GOALS, budgets, HISTORIES):
        ours, plain = qualities(quality, goal, b, history)
        if not ours.size:
            continue
        row = [goal, f"{b:g}", history, f"{len(ours)}", f"{ours.mean():.3f}"]
        if history == "none":
            rows.append([*row, "", ""])
            continue
        gains = (ours - plain[:, GRID.index(b)]).mean(axis=1)
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
        worth = equivalent(ours, plain, b, GRID, np.random.default_rng(0))
        rows.append([*row, f"{gains.mean():+.3f} ({error:.3f})", str(worth)])
    return table(header, rows)


def qualities(
    quality: dict[Key, float], goal: str, b: float, history: str
) -> tuple[Array, Array]:
    """(tables, splits) with the history and (tables, grid, splits) without: tables and splits that have every run."""
    names = list(dict.fromkeys(key[0] for key in quality))
    cells = [(b, history), *((grid_b, "none") for grid_b in GRID)]

    def has(name: str, split: int) -> bool:
        return all(
            (name, g, *cell, split) in quality
            for g, cell in product(GOALS[goal], cells)
        )

    splits = sorted({key[4] for key in quality})
    names = [name for name in names if any(has(name, split) for split in splits)]
    splits = [split for split in splits if all(has(name, split) for name in names)]
    values = np.array(
        [
            [
                [
                    np.mean([quality[name, g, *cell, s] for g in GOALS[goal]])
                    for s in splits
                ]
                for cell in cells
            ]
            for name in names
        ]
    ).reshape(len(names), len(cells), len(splits))
    return values[:, 0], values[:, 1:]


def _key(line: Line) -> Key:
    return (
        line["problem"],
        line["goal"],
        line["per_prompt"],
        line["history"],
        line["split"],
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument(
        "--per-prompt", nargs="+", type=float, choices=GRID, default=[3, 5]
    )
    parser.add_argument(
        "--histories", nargs="+", choices=HISTORIES[1:], default=HISTORIES[1:]
    )
    parser.add_argument("--splits", type=int, default=4, help="default: %(default)s")
    parser.add_argument(
        "--minutes",
        type=float,
        help="start no run after so long; what is there is printed",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT / "second-study.jsonl")
    args = parser.parse_args(argv)
    names = [
        n
        for n in chosen_problems(args)
        if len(halves(n, 0, args.tables)[1].prompts) >= _FEWEST
    ]
    names = [name for name in names if not name.startswith("synthetic/")]
    cells = [("none", b) for b in GRID] + list(product(args.histories, args.per_prompt))
    goals = [goal for label in args.goals for goal in GOALS[label]]
    wanted = [
        (n, goal, b, history, s)
        for s, n, goal, (history, b) in product(range(args.splits), names, goals, cells)
    ]
    wanted = [
        key for key in wanted if key[3] != "other" or other_tables(key[0], args.tables)
    ]
    if not wanted:
        parser.error(
            "no recorded table with 20 prompts among the problems: nothing to run"
        )
    end = np.inf if args.minutes is None else time.monotonic() + 60 * args.minutes
    line_of = known_lines(
        args.output,
        wanted,
        _key,
        lambda missing: _run_all(missing, args.tables, args.jobs, end),
    )
    parts = by_half(
        "second-study",
        [line_of[task] for task in wanted if task in line_of],
        args.half,
        summary,
    )
    print("\n\n".join(f"{name}:\n\n{text}" for name, text in parts.items()))


def _run_all(
    missing: Sequence[Key], folder: Path | None, jobs: int, end: float
) -> Iterator[Line | None]:
    one_thread()
    work = partial(_run_until, folder=folder, end=end)
    if jobs == 1:
        yield from map(work, missing)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(work, missing, chunksize=20)  # neighbours share a profile


def _run_until(task: Key, folder: Path | None, end: float) -> Line | None:
    return None if time.monotonic() > end else run(*task, folder)


if __name__ == "__main__":
    main()
