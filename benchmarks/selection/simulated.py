"""How often early stops are wrong, and what they save: `python -m benchmarks.selection.simulated`.

Draws tables of scores whose truth is known, runs `Adaptive(confidence=0.95,
tolerance=...)` on each, and prints a row for every kind of metric, number of prompts,
goal and tolerance: how many runs stopped early, how many of all runs stopped early with
a wrong answer (in the sense of `asktell.posterior.membership.settled`, by the table's
own means), and what part of the budget was saved; then the same for the moment at which
the posterior alone, without a proof, was sure for the first time. Lines are appended to
--output, and runs that are there are skipped.
"""

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import asktell
from asktell.numerics.arrays import Ints
from asktell.posterior import membership
from asktell.problem.goals import Goal
from asktell.proofs.claims import unproven
from asktell.record import State
from asktell.simulation.lines import read_lines
from asktell.simulation.replay import play
from benchmarks.selection.race import MANY, WORLDS, tolerant
from benchmarks.selection.run import OUTPUT

Line = dict[str, Any]
Array = npt.NDArray[np.float64]

KINDS = (
    "gaussian",
    "easy",
    "hard",
    "few",
    "clipped",
    "heavy",
    "noise-free",
    "rare",
    "skewed",
)
GOALS = ("best", "constrained", "front")
_GAPS = (0.02, 0.05)


def scores(kind: str, n_arms: int, n_examples: int, seed: int) -> Array:
    """(K, N) scores of one metric.

    `gaussian`: two-way. `easy`, `hard`: 0 or 1, most examples right, or wrong, for all.
    `few`: 0, 1/2 or 1. `clipped`: two-way, cut at 0 and 1. `heavy`: two-way with
    Student's residuals of 2 degrees of freedom. `noise-free`: a number per prompt,
    several of them equal. `rare`: all prompts score the same but on one example in
    fifty. `skewed`: nearly all close to 0, few close to 1.
    """
    rng = np.random.default_rng([KINDS.index(kind), n_arms, n_examples, seed])
    gap = _GAPS[seed % 2]
    effect = np.array([0.0, gap]) if n_arms == 2 else gap * rng.normal(size=n_arms)
    effect = rng.permutation(effect)[:, None]
    shape = (n_arms, n_examples)
    if kind in ("easy", "hard"):
        firm = rng.random(n_examples) < 0.9
        level = np.where(firm, 0.98, rng.random(n_examples)) + effect * np.where(
            firm, 0.2, 4.0
        )
        right = (rng.random(shape) < level).astype(float)
        return right if kind == "easy" else 1.0 - right
    if kind == "noise-free":
        return np.repeat(np.round(0.5 + effect, 2), n_examples, axis=1)
    if kind == "rare":
        return 0.5 + (rng.random(n_examples) < 0.02) * (
            20 * effect + 0.5 * rng.normal(size=shape)
        )
    if kind == "skewed":
        return rng.beta(np.clip(0.05 + effect, 0.01, 1.0), 1.0, size=shape)
    residual = (
        0.03 * rng.standard_t(2, size=shape)
        if kind == "heavy"
        else 0.1 * rng.normal(size=shape)
    )
    example = 0.2 * rng.normal(size=n_examples)
    if kind == "few":
        return (
            np.round(2 * np.clip(0.5 + 2 * effect + 2 * example + 2 * residual, 0, 1))
            / 2
        )
    if kind == "clipped":
        return np.clip(0.9 + 2 * effect + example + 2 * residual, 0, 1)
    return 0.5 + effect + example + residual


def table(
    kind: str, n_arms: int, goal: str, n_examples: int, seed: int
) -> tuple[Array, Goal]:
    """Scores (K, N, m) and what is looked for."""
    first = scores(kind, n_arms, n_examples, seed)
    if goal == "best":
        return first[:, :, None], asktell.BestFeasible("a")
    both = np.stack((first, scores(kind, n_arms, n_examples, seed + 10**6)), axis=2)
    if goal == "front":
        return both, asktell.ParetoSet("a", "b")
    bound = float(np.median(both[:, :, 1].mean(axis=1))) - 0.01
    return both, asktell.BestFeasible("a", subject_to={"b": bound})


def given(everything: Array, n_examples: int, seed: int) -> Array:
    """The examples given: all (K, N, m) columns, or so many of them at random."""
    n = everything.shape[1]
    return (
        everything
        if n == n_examples
        else everything[:, np.random.default_rng([seed, n]).permutation(n)[:n_examples]]
    )


def measure(
    kind: str,
    n_arms: int,
    goal: str,
    tolerance: float,
    seed: int,
    n_examples: int,
    per_prompt: int,
    inputs: str,
) -> Line:
    """One run, and what it would have been if it had stopped as soon as the posterior alone was sure."""
    everything, wanted = table(
        kind, n_arms, goal, n_examples * (MANY if inputs == "new" else 1), seed
    )
    cells = given(everything, n_examples, seed)
    wanted = tolerant(wanted, tolerance, of_constraints=True)
    method = asktell.Adaptive(confidence=0.95)
    budget = n_arms * min(per_prompt, n_examples)
    values = wanted.values(everything.mean(axis=1))[None]

    def is_right(answer: Sequence[int]) -> bool:
        return bool(
            membership.settled(
                values, np.array(answer), goal != "front", tolerance + 1e-12
            )[0]
        )

    sure: list[tuple[int, bool]] = []

    def prove(state: State, answer: list[int], means: Array, error: float) -> Ints:
        # Proofs are looked for whenever the posterior is sure: the first time is where
        # it alone would have stopped.
        if not sure:
            sure.append((state.spent, is_right(answer)))
        return unproven(state, answer, means, error)

    with patch("asktell.proofs.claims.unproven", prove):
        selector = asktell.Selector(
            [f"p{i}" for i in range(n_arms)], wanted, budget, method, n_examples, seed=seed,
            **WORLDS[inputs],
        )  # fmt: skip
        result = play(selector, cells)
    spent, right = sure[0] if sure else (selector.spent, True)
    return {
        "kind": kind,
        "arms": n_arms,
        "goal": goal,
        "tolerance": tolerance,
        "seed": seed,
        "examples": n_examples,
        "per_prompt": per_prompt,
        "inputs": inputs,
        "stopped": result.stopped_early,
        "right": is_right([int(entry.id) for entry in result.selected]),
        "spent": selector.spent / selector.budget,
        "unproven_right": right,
        "unproven_spent": spent / selector.budget,
    }


def summary(lines: Sequence[Line]) -> str:
    """A row per cell."""
    rows = [
        "| scores | prompts | goal | tolerance | runs | stopped early | wrong | saved | unproven: wrong | saved |",
        "|" + 10 * "---|",
    ]
    for cell in sorted(
        {_cell(line) for line in lines},
        key=lambda c: (c[1], GOALS.index(c[2]), KINDS.index(c[0]), c[3]),
    ):
        mine = [line for line in lines if _cell(line) == cell]
        kind, arms, goal, tolerance = cell
        rows.append(f"| {kind} | {arms} | {goal} | {tolerance:g} | {_numbers(mine)} |")
    rows.append(f"| all | | | | {_numbers(lines)} |")
    return "\n".join(rows)


def _numbers(lines: Sequence[Line]) -> str:
    n = len(lines)
    stopped = [line for line in lines if line["stopped"]]
    wrong = sum(not x["right"] for x in stopped)
    alone = sum(not x["unproven_right"] for x in lines)
    saved, before = (
        100 * (1 - np.mean([x[name] for x in lines]))
        for name in ("spent", "unproven_spent")
    )
    return f"{n} | {len(stopped)} | {_share(wrong, n)} | {saved:.0f} % | {_share(alone, n)} | {before:.0f} %"


def _share(count: int, n: int) -> str:
    return f"{count} ({100 * count / n:.1f} %)"


def _cell(line: Line) -> tuple[str, int, str, float]:
    return line["kind"], line["arms"], line["goal"], line["tolerance"]


def _key(line: Line) -> tuple[Any, ...]:
    return (
        *_cell(line),
        line["seed"],
        line["examples"],
        line["per_prompt"],
        line["inputs"],
    )


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--prompts", nargs="+", type=int, default=[2, 5, 20, 100])
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=GOALS)
    parser.add_argument(
        "--tolerances", nargs="+", type=float, default=[0.0, 0.02, 0.05]
    )
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--per-prompt", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--inputs", choices=WORLDS, default="new")
    parser.add_argument("--output", type=Path, default=OUTPUT / "simulated.jsonl")
    parser.add_argument(
        "--minutes",
        type=float,
        help="start no run after so long; what is there is printed",
    )
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    lines = {_key(line): line for line in read_lines(args.output)}
    cells = list(product(args.kinds, args.prompts, args.goals, args.tolerances))
    # Seed by seed, so that every cell has as many runs wherever it ends.
    seeds = range(args.seeds)
    wanted = [
        (*cell, seed, args.examples, args.per_prompt, args.inputs)
        for seed in seeds
        for cell in cells
    ]
    end = np.inf if args.minutes is None else time.monotonic() + 60 * args.minutes
    with args.output.open("a") as file:
        for task in tqdm(
            [task for task in wanted if task not in lines], unit="run", mininterval=30
        ):
            if time.monotonic() > end:
                break
            lines[task] = measure(*task)
            file.write(json.dumps(lines[task]) + "\n")
            file.flush()
    print(summary([lines[task] for task in wanted if task in lines]))


if __name__ == "__main__":
    main()
