"""Prompts that join late: `python -m benchmarks.selection.newcomers --tables FOLDER --seeds 10`.

On recorded tables, a random tenth of the prompts joins when half of the budget is
spent. Their answers are compared, seed by seed, with those of a selection that had all
prompts from the start, and of one that never got the tenth: its answers are judged
among all prompts too. Quality is that of the headline (`benchmarks.selection.metrics`).

Prints, by goal and budget, the mean quality of the three and the mean differences, each
with its standard error over the tables' and seeds' runs; and how many evaluations the
newcomers took.
"""

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import asktell
from asktell.numerics import counters
from asktell.simulation.replay import play
from benchmarks import problems
from benchmarks.problems import BenchmarkProblem
from benchmarks.problems.replay import default_folder, replay_names
from benchmarks.selection.metrics import evaluate

WAYS = ("start", "half", "never")
"""When the tenth joins."""
_GOALS = ("best@.5", problems.PARETO)
_SMALLEST = 10  # prompts of a table, so that a tenth is one


def run(
    problem: BenchmarkProblem, method: str, budget: int, seed: int, way: str
) -> tuple[list[int], int]:
    """The answer, as rows of the table, and the evaluations of the tenth."""
    k, n, _ = problem.scores.shape
    order = counters.permutation(seed, "who joins", k)
    late, first = np.sort(order[: max(1, k // 10)]), np.sort(order[max(1, k // 10) :])
    arms = (
        np.arange(k)
        if way == "start"
        else np.concatenate((first, late))
        if way == "half"
        else first
    )
    texts, features = problem.table.prompts, problem.table.features
    begin = first if way == "half" else arms
    selector = asktell.Selector(
        [texts[arm] for arm in begin],
        problem.goal,
        budget,
        method,
        examples=n,
        features=None if features is None else features[begin],
        seed=seed,
    )
    if way == "half":
        play(selector, problem.scores[arms], budget // 2)
        selector.add(
            [texts[arm] for arm in late], None if features is None else features[late]
        )
    result = play(selector, problem.scores[arms])
    of_late = sum(
        result.prompts[i].evaluations for i, arm in enumerate(arms) if arm in late
    )
    return [int(arms[int(entry.id)]) for entry in result.selected], of_late


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument("--seeds", type=int, default=10, help="default: %(default)s")
    parser.add_argument(
        "--most",
        type=int,
        default=100,
        help="prompts of a table; larger ones are left out",
    )
    parser.add_argument(
        "--method", default="auto", help="auto or race (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=15.0,
        help="no seed begins later (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, help="write a JSON line per run")
    arguments = parser.parse_args(argv)
    names = replay_names(arguments.tables)
    triples: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * arguments.minutes
    for seed in tqdm(range(arguments.seeds), unit="seed"):
        if time.monotonic() > end:
            break
        for name, goal, b in product(names, _GOALS, (3, 10)):
            problem = problems.load(name, goal, arguments.tables)
            if not _SMALLEST <= (k := len(problem.table.prompts)) <= arguments.most:
                continue
            line: dict[str, Any] = {"problem": name, "goal": goal, "b": b, "seed": seed}
            for way in WAYS:
                answer, line[f"{way} pulls"] = run(
                    problem, arguments.method, b * k, seed, way
                )
                line[way] = evaluate(problem, answer)["quality"]
            triples.append(line)
            if arguments.output is not None:
                with arguments.output.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    print(
        f"{len(triples)} triples of runs of {arguments.method} on {len({line['problem'] for line in triples})} tables"
    )
    for goal, b in product(_GOALS, (3, 10)):
        lines = [line for line in triples if (line["goal"], line["b"]) == (goal, b)]
        if lines:
            print(_summary(f"{goal}, b = {b}", lines))


def _summary(what: str, lines: list[dict[str, Any]]) -> str:
    quality = {way: np.array([line[way] for line in lines]) for way in WAYS}
    pulls = {way: np.mean([line[f"{way} pulls"] for line in lines]) for way in WAYS}
    means = ", ".join(f"{way} {quality[way].mean():.3f}" for way in WAYS)
    half = _with_error(quality["half"] - quality["start"], lines)
    never = _with_error(quality["never"] - quality["start"], lines)
    late = ", ".join(f"{way} {pulls[way]:.1f}" for way in WAYS[:2])
    return f"{what}: {means}; half - start {half}; never - start {never}; evaluations of the tenth: {late}"


def _with_error(
    differences: "np.ndarray[Any, Any]", lines: list[dict[str, Any]]
) -> str:
    """The mean, and its standard error for these tables: runs differ by seed within each."""
    tables = sorted({line["problem"] for line in lines})
    rows = [
        differences[[line["problem"] == table for line in lines]] for table in tables
    ]
    variance = (
        sum(row.var(ddof=1) / len(row) if len(row) > 1 else np.nan for row in rows)
        / len(rows) ** 2
    )
    return f"{differences.mean():+.3f} +- {float(np.sqrt(variance)):.3f}"


if __name__ == "__main__":
    main()
