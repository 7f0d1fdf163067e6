"""What stopping early saves and how often it is wrong: `python -m benchmarks.selection.stopping --tables FOLDER`.

Runs `Adaptive(confidence=..., tolerance=...)` with --per-prompt evaluations per prompt. A run that stopped early is
wrong if its answer is off by more than the tolerance, by the true means, in the sense of
`asktell.posterior.membership.settled`. Saved is the part of the budget that was not spent, over all runs.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import asktell
from asktell.posterior import membership
from asktell.simulation.lines import read_lines
from asktell.simulation.replay import play
from benchmarks import problems
from benchmarks.selection.run import OUTPUT, add_arguments, chosen_problems

Line = dict[str, Any]

GOALS = ("best@.5", "pareto")


def measure(
    name: str, goal: str, per_prompt: float, tolerance: float, seed: int, folder: Path | None, confidence: float = 0.95
) -> Line:
    """One run."""
    problem = problems.load(name, goal, folder, seed)
    k, n, _ = problem.scores.shape
    method = asktell.Adaptive(confidence=confidence, tolerance=tolerance)
    prompts, features = problem.table.prompts, problem.table.features
    selector = asktell.Selector(prompts, problem.goal, round(per_prompt * k), method, n, features=features, seed=seed)
    result = play(selector, problem.scores)
    values = problem.goal.values(problem.means)[None]
    answer = np.array([int(entry.id) for entry in result.selected])
    right = bool(membership.settled(values, answer, goal != problems.PARETO, tolerance)[0])
    return {
        "problem": name,
        "goal": goal,
        "per_prompt": per_prompt,
        "tolerance": tolerance,
        "seed": seed,
        "stopped": result.stopped_early,
        "right": right,
        "spent": selector.spent / selector.budget,
        "tied": len(result.unresolved),
    }


def table(lines: Sequence[Line]) -> str:
    """A row per kind of problem, goal and tolerance."""
    rows = [
        "| problems | goal | tolerance | runs | stopped early | of those wrong | budget saved | tied, mean |",
        "|---|---|---|---|---|---|---|---|",
    ]
    tolerances = sorted({line["tolerance"] for line in lines})
    for kind, goal, tolerance in product(("synthetic", "recorded"), GOALS, tolerances):
        mine = [x for x in lines if (_kind(x["problem"]), x["goal"], x["tolerance"]) == (kind, goal, tolerance)]
        if mine:
            stopped = [x for x in mine if x["stopped"]]
            wrong = sum(not x["right"] for x in stopped)
            rows.append(
                f"| {kind} | {goal} | {tolerance:g} | {len(mine)} | {len(stopped)} | "
                f"{wrong} | {100 * (1 - np.mean([x['spent'] for x in mine])):.0f} % | "
                f"{np.mean([x['tied'] for x in stopped]) if stopped else 0:.1f} |"
            )
    return "\n".join(rows)


def _kind(name: str) -> str:
    return "synthetic" if name.startswith("synthetic/") else "recorded"


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--output", type=Path, default=OUTPUT / "stopping.jsonl")
    parser.add_argument("--per-prompt", type=float, default=10)
    parser.add_argument("--tolerances", nargs="+", type=float, default=[0.02, 0.05])
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    lines = {_key(line): line for line in read_lines(args.output)}
    wanted = list(product(chosen_problems(args), GOALS, [args.per_prompt], args.tolerances, range(args.seeds)))
    with args.output.open("a") as file:
        for task in tqdm([task for task in wanted if task not in lines], unit="run", mininterval=5):
            lines[task] = measure(*task, args.tables)
            file.write(json.dumps(lines[task]) + "\n")
            file.flush()
    print(table([lines[task] for task in wanted]))


def _key(line: Line) -> tuple[str, str, float, float, int]:
    return line["problem"], line["goal"], line["per_prompt"], line["tolerance"], line["seed"]


if __name__ == "__main__":
    main()
