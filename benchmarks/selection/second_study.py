"""The second study on the same examples: `python -m benchmarks.selection.second_study --half development`.

A table's prompts are cut into two random halves. What was evaluated of one half, in an earlier study, is a profile
(`asktell.ExampleProfile`) for the selection among the other half, by `auto`. Histories:

- `none`; `5`, `20`, `all`: random cells of each earlier prompt; `auto5`, `auto20`: those that `auto` chose for the same
  kind of goal, at b = 5 or 20;
- `shuffled`: those of `20`, with the examples' ids shuffled: a history that is wrong;
- `other`: 20 random cells of each prompt of another LLM's table on the same examples, where there is one.

Quality is that of the headline (`benchmarks.selection.metrics`), by the true means of the second half. Prints the mean
over tables for each goal, budget and history, and the difference from `none` with its standard error over the tables.
"""

import argparse
import json
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import asktell
from asktell.numerics import counters
from benchmarks import problems
from benchmarks.problems import BenchmarkProblem, Table
from benchmarks.selection.metrics import evaluate
from benchmarks.selection.run import OUTPUT, add_arguments, chosen_problems, read_lines

Line = dict[str, Any]
Key = tuple[str, str, float, str, int]

HISTORIES = ("none", "5", "20", "all", "auto5", "auto20", "shuffled", "other")
_FEWEST = 10  # prompts of a half


def run(name: str, goal: str, per_prompt: float, history: str, split: int, folder: Path | None) -> Line | None:
    """One selection; None where there is no such history."""
    later = halves(name, split, folder)[1]
    problem = BenchmarkProblem(later, goal)
    start = time.perf_counter()
    profile = earlier_profile(name, goal, history, split, folder) if history != "none" else None
    if profile is None and history != "none":
        return None
    learning = time.perf_counter() - start
    k, n = len(later.prompts), later.scores.shape[1]
    selector = asktell.Selector(
        later.prompts, problem.goal, round(per_prompt * k), examples=ids(n), seed=split, profile=profile
    )
    start = time.perf_counter()
    while trial := selector.ask():
        selector.tell(trial, problem.rows[int(trial.prompt_id)][trial.example or 0])
    found = evaluate(problem, [int(entry.id) for entry in selector.result().selected])
    return {
        "problem": name,
        "goal": goal,
        "per_prompt": per_prompt,
        "history": history,
        "split": split,
        "k": k,
        "seconds": round(time.perf_counter() - start, 3),
        "learning": round(learning, 3),
        **{metric: round(value, 5) for metric, value in found.items()},
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
        others = other_tables(name, folder)
        if not others:
            return None
        table = problems.load(others[split % len(others)], problems.PARETO, folder).table
    else:
        table = halves(name, split, folder)[0]
    problem = BenchmarkProblem(table, goal)
    k, n = len(table.prompts), table.scores.shape[1]
    if history.startswith("auto"):
        budget = min(int(history[4:]), n) * k
        selector = asktell.Selector(table.prompts, problem.goal, budget, examples=ids(n), seed=split)
        while trial := selector.ask():
            selector.tell(trial, problem.rows[int(trial.prompt_id)][trial.example or 0])
        return asktell.ExampleProfile.of(selector)
    names = np.array(ids(n))
    if history == "shuffled":
        names = names[counters.permutation(split, "shuffled", n)]
    each = {"5": 5, "all": n}.get(history, min(20, n))
    selector = asktell.Selector(table.prompts, problem.goal, k, examples=names.tolist())
    for arm in range(k):
        for j in counters.permutation(split, "history", n, arm)[:each].tolist():
            selector.observe(arm, problem.rows[arm][j], j)
    return asktell.ExampleProfile.of(selector)


def other_tables(name: str, folder: Path | None) -> list[str]:
    """Tables of other LLMs on the same examples: of CAPO's, those of the same task."""
    task, _, rest = name.partition("_")
    if not task.startswith("capo/"):
        return []
    return [other for other in problems.names(folder) if other.startswith(f"{task}_") and other != f"{task}_{rest}"]


def summary(lines: Sequence[Line]) -> str:
    """A row for each goal, budget and history."""
    rows = ["| goal | b | history | tables | quality | over none (se over tables) |", "|" + 6 * "---|"]
    quality = {_key(line): line["quality"] for line in lines}
    for goal in dict.fromkeys(line["goal"] for line in lines):
        for b, history in product(sorted({line["per_prompt"] for line in lines}), HISTORIES):
            mine = [line for line in lines if (line["goal"], line["per_prompt"], line["history"]) == (goal, b, history)]
            if not mine:
                continue
            by_table: dict[str, list[tuple[float, float]]] = {}
            for line in mine:
                without = quality.get((line["problem"], goal, b, "none", line["split"]), np.nan)
                by_table.setdefault(line["problem"], []).append((line["quality"], line["quality"] - without))
            means = np.array([np.mean(values, axis=0) for values in by_table.values()])
            error = means[:, 1].std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
            gain = "" if history == "none" else f"{means[:, 1].mean():+.3f} ({error:.3f})"
            rows.append(f"| {goal} | {b:g} | {history} | {len(means)} | {means[:, 0].mean():.3f} | {gain} |")
    return "\n".join(rows)


def _key(line: Line) -> Key:
    return line["problem"], line["goal"], line["per_prompt"], line["history"], line["split"]


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--goals", nargs="+", choices=problems.GOALS, default=problems.GOALS)
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[3, 5])
    parser.add_argument("--histories", nargs="+", choices=HISTORIES, default=HISTORIES)
    parser.add_argument("--splits", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--minutes", type=float, help="start no run after so long; what is there is printed")
    parser.add_argument("--output", type=Path, default=OUTPUT / "second-study.jsonl")
    args = parser.parse_args(argv)
    names = [n for n in chosen_problems(args) if len(halves(n, 0, args.tables)[1].prompts) >= _FEWEST]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    known = {_key(line): line for line in read_lines(args.output)}
    cells = product(range(args.splits), names, args.goals, args.histories, args.per_prompt)
    wanted = [(name, goal, b, history, split) for split, name, goal, history, b in cells]
    end = np.inf if args.minutes is None else time.monotonic() + 60 * args.minutes
    with args.output.open("a") as file:
        for task in tqdm([task for task in wanted if task not in known], unit="run", mininterval=30):
            if time.monotonic() > end:
                break
            line = run(*task, args.tables)
            if line is not None:
                known[task] = line
                file.write(json.dumps(line) + "\n")
                file.flush()
    print(summary([known[task] for task in wanted if task in known]))


if __name__ == "__main__":
    main()
