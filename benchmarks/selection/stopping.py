"""What stopping early saves and how often it is wrong: `python -m benchmarks.selection.stopping --tables FOLDER`.

Runs rules that stop once they are sure, at 95 %, with --per-prompt evaluations per
prompt at most: `Adaptive` with a confidence (by proof, or by the posterior alone),
`Race`, and for the best prompt without constraints TensorZero's rule on track-and-stop
(`benchmarks.rivals.track_and_stop`; after 10 evaluations of each prompt). A run that
stopped early is wrong if its answer is off by more than the tolerance, by the true
means, in the sense of `asktell.posterior.membership.settled`. With `--inputs given`
these are the means over all examples, without noise. With `--inputs new` a random half
of the examples is given, and the truth is the mean over all of them. Saved is the part
of the budget that was not spent, over all runs.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import asktell
from asktell.methods import AbstractMethod
from asktell.posterior import membership
from asktell.simulation.lines import known_lines
from asktell.simulation.replay import Replay, play
from benchmarks import problems, results
from benchmarks.rivals.pool import Pool
from benchmarks.rivals.track_and_stop import track_and_stop
from benchmarks.selection.race import WORLDS, tolerant
from benchmarks.selection.run import OUTPUT, add_arguments, chosen_problems

Line = dict[str, Any]

GOALS = ("best", "best@.5", "pareto")
CONFIDENCE = 0.95
TENSORZERO, FEWEST = "tensorzero", 10
RULES: dict[str, AbstractMethod] = {
    "auto, proof": asktell.Adaptive(confidence=CONFIDENCE),
    "auto, posterior": asktell.Adaptive(
        confidence=CONFIDENCE, confidence_kind="posterior"
    ),
    "race": asktell.Race(confidence=CONFIDENCE),
}


class Stop(NamedTuple):
    """One run; `per_prompt` is the budget over the number of prompts."""

    problem: str
    goal: str
    rule: str
    per_prompt: float
    tolerance: float
    seed: int
    inputs: str


def measure(task: Stop, folder: Path | None) -> Line:
    """The line of one run."""
    problem = problems.load(task.problem, task.goal, folder, task.seed)
    scores = problem.scores
    if task.inputs == "new":
        n_all = scores.shape[1]
        scores = scores[
            :,
            np.random.default_rng([task.seed, n_all]).permutation(n_all)[: n_all // 2],
        ]
    k, n, _ = scores.shape
    budget = min(round(task.per_prompt * k), k * n)
    if task.rule == TENSORZERO:
        replay = Replay(scores, problem.goal, budget, task.seed)
        answer = track_and_stop(
            Pool(replay, task.seed),
            problem.goal,
            task.seed,
            1 - CONFIDENCE,
            FEWEST,
            task.tolerance,
        )
        spent, stopped = replay.spent, replay.spent < budget
    else:
        selector = asktell.Selector(
            problem.table.prompts,
            tolerant(problem.goal, task.tolerance, of_constraints=True),
            budget,
            RULES[task.rule],
            n,
            seed=task.seed,
            **WORLDS[task.inputs],
        )
        result = play(selector, scores)
        answer, spent = [int(entry.id) for entry in result.selected], selector.spent
        stopped = result.stopped_early and spent < budget
    values = problem.goal.values(problem.means)[None]
    right = membership.settled(
        values, np.array(answer), task.goal != problems.PARETO, task.tolerance
    )[0]
    return {
        **task._asdict(),
        "stopped": stopped,
        "right": bool(right),
        "spent": spent / budget,
    }


def table(lines: Sequence[Line]) -> str:
    """A row per kind of problem, goal, tolerance and rule."""
    cells: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        where = (
            _kind(line["problem"]),
            line["goal"],
            f"{line['tolerance']:g}",
            line["rule"],
        )
        cells.setdefault(where, []).append(line)
    rows = []
    for where, mine in cells.items():
        stopped = [line for line in mine if line["stopped"]]
        wrong = sum(not line["right"] for line in stopped)
        saved = 1 - np.mean([line["spent"] for line in mine])
        rows.append(
            [*where, *map(str, (len(mine), len(stopped), wrong)), f"{saved:.0%}"]
        )
    header = [
        "problems",
        "goal",
        "tolerance",
        "rule",
        "runs",
        "stopped early",
        "of those wrong",
        "budget saved",
    ]
    return results.table(header, rows)


def _kind(name: str) -> str:
    half = problems.half(name)
    return (
        half
        if half == "models"
        else "synthetic"
        if name.startswith("synthetic/")
        else "recorded"
    )


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--output", type=Path, default=OUTPUT / "stopping.jsonl")
    parser.add_argument("--per-prompt", type=float, default=10)
    parser.add_argument("--tolerances", nargs="+", type=float, default=[0.02, 0.05])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--inputs", choices=WORLDS, default="new")
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=GOALS)
    parser.add_argument(
        "--rules", nargs="+", choices=[*RULES, TENSORZERO], default=[*RULES, TENSORZERO]
    )
    args = parser.parse_args()
    wanted = [
        Stop(name, goal, rule, args.per_prompt, tolerance, seed, args.inputs)
        for name in chosen_problems(args)
        for goal, tolerance, rule in product(args.goals, args.tolerances, args.rules)
        for seed in range(args.seeds)
        if rule != TENSORZERO or goal == problems.UNCONSTRAINED
    ]

    def run_all(missing: Sequence[Stop]) -> Iterator[Line]:
        return (measure(task, args.tables) for task in missing)

    lines = known_lines(
        args.output,
        wanted,
        lambda line: Stop(*(line[name] for name in Stop._fields)),
        run_all,
    )
    print(table([lines[task] for task in wanted]))


if __name__ == "__main__":
    main()
