"""How often `Race` is wrong, and what it spends: `python -m benchmarks.selection.race --runs 400`.

Simulated tables of N examples, known in full. With `--inputs given` the truth is the
mean over these examples, without noise. With `--inputs new` it is the mean over twenty
times as many, of which the N are drawn at random. A run is wrong if it ended as certain
with an answer that is off by more than the tolerance, by the true means. Spent is the
part of all cells (what evaluating every prompt on every example takes) until the end;
certain is the part of runs that ended before that.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import asktell
from asktell.numerics.pareto import pareto_mask
from asktell.problem.formats import dump_goal, load_goal
from asktell.simulation import replay

Floats: TypeAlias = npt.NDArray[np.float64]
_ROUNDING = 1e-12


def easy_or_hard(rng: np.random.Generator, k: int, n: int) -> Floats:
    """0 and 1: most examples are solved by all prompts or by none."""
    skill = rng.normal(0, 0.5, k)
    easy = rng.choice([-4.0, 4.0], n) + rng.normal(0, 1.5, n)
    return (rng.random((k, n)) < 1 / (1 + np.exp(-(skill[:, None] + easy)))).astype(
        float
    )


def clear_winner(rng: np.random.Generator, k: int, n: int) -> Floats:
    """0 and 1: the first solves four of five examples, the others seven of ten; half of them are easy for all."""
    level = np.where(np.arange(k) > 0, 0.7, 0.8)[:, None]
    return (
        rng.random((k, n)) < np.where(rng.random(n) < 0.5, 0.98, 2 * level - 0.98)
    ).astype(float)


def gaussian(rng: np.random.Generator, k: int, n: int) -> Floats:
    """Smooth scores clipped to [0, 1]."""
    means = rng.normal(0.5, 0.05, k)[:, None] + rng.normal(0, 0.15, n)
    return np.asarray(np.clip(means + rng.normal(0, 0.1, (k, n)), 0, 1))


def equal(rng: np.random.Generator, k: int, n: int) -> Floats:
    """0 and 1: all prompts solve the same number of examples, but for one that solves one more."""
    solved = np.argsort(rng.random((k, n)), axis=1) < n // 2
    solved[0, np.flatnonzero(~solved[0])[0]] = True
    return solved.astype(float)


def constant(rng: np.random.Generator, k: int, n: int) -> Floats:
    """Every prompt has one score."""
    return np.repeat(rng.integers(0, 11, k)[:, None] / 10, n, axis=1)


KINDS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "0/1, easy or hard": easy_or_hard,
    "Gaussian, clipped": gaussian,
    "0/1, all but equal": equal,
    "constant": constant,
    "0/1, a clear winner": clear_winner,
}
MANY = 20  # inputs for every one that is given
WORLDS: dict[str, dict[str, Any]] = {
    "new": {"inputs": "new"},
    "given": {"inputs": "given", "repeats": 1},
}
UNIT = (0.0, 1.0)
A, B = asktell.maximize("a", range=UNIT), asktell.maximize("b", range=UNIT)
GOALS: dict[str, asktell.BestFeasible | asktell.ParetoSet] = {
    "best": asktell.BestFeasible(A),
    "best feasible": asktell.BestFeasible(A, {B: 0.5}),
    "Pareto set": asktell.ParetoSet(A, B),
}


@dataclass(frozen=True)
class Raced:
    """How one run ended."""

    wrong: bool
    certain: bool
    spent: float


def play(
    kind: str,
    goal_name: str,
    k: int,
    n: int,
    tolerance: float,
    seed: int,
    inputs: str = "given",
    **options: Any,
) -> Raced:
    """One run with as many evaluations as there are cells."""
    rng = np.random.default_rng([seed, k, n, list(KINDS).index(kind)])
    goal = tolerant(GOALS[goal_name], tolerance)
    beyond = MANY if inputs == "new" else 1
    everything = np.stack(
        [KINDS[kind](rng, k, beyond * n) for _ in goal.metrics], axis=2
    )
    scores = (
        everything
        if beyond == 1
        else everything[:, rng.choice(beyond * n, n, replace=False)]
    )
    method, world = asktell.Race(**options), WORLDS[inputs]
    selector = asktell.Selector(
        [f"p{i}" for i in range(k)], goal, k * n, method, n, seed=seed, **world
    )
    result = replay.play(selector, scores)
    answer = [int(entry.id) for entry in result.selected]
    values = goal.values(everything.mean(axis=1))
    wrong = result.stopped_early and not is_right(goal, values, answer, tolerance)
    return Raced(
        wrong, result.stopped_early and result.spent < k * n, result.spent / (k * n)
    )


def tolerant(goal: Any, tolerance: float, of_constraints: bool = False) -> Any:
    """The goal with a tolerance for each objective, as a part of its range, and perhaps for each constraint, too."""
    data = dump_goal(goal)
    dumped = data["objectives"] + data["subject_to"] * of_constraints
    parts = (*goal.objectives, *goal.constraints)
    for entry, part in zip(dumped, parts, strict=False):
        entry["tolerance"] = tolerance * part.scale or None
    return load_goal(data)


def is_right(goal: Any, values: Floats, answer: list[int], tolerance: float) -> bool:
    """Whether an answer is right by the true values (K, q), up to the tolerance."""
    slack = tolerance + _ROUNDING
    if isinstance(goal, asktell.BestFeasible):
        feasible = (values[:, 1:] >= -_ROUNDING).all(axis=1)
        if not feasible.any():
            return True  # nobody keeps every constraint, and the result says so
        best = values[feasible, 0].max()
        return bool(feasible[answer[0]] and values[answer[0], 0] >= best - slack)
    selected = values[answer]
    front = np.flatnonzero(pareto_mask(np.round(values, 12)))
    is_covered = all(
        i in answer or (selected >= values[i] - slack).all(axis=1).any() for i in front
    )
    dominated = ((values[None] > selected[:, None] + slack).all(axis=2)).any()
    return bool(
        is_covered and not dominated and (tolerance > 0 or set(front) == set(answer))
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--inputs", choices=WORLDS, default="new")
    parser.add_argument("--prompts", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument(
        "--tolerances", type=float, nargs="+", default=[0.0, 0.02, 0.05]
    )
    arguments = parser.parse_args()
    print(
        "| scores | goal | prompts | "
        + " | ".join(f"tolerance {t:g}" for t in arguments.tolerances)
        + " |"
    )
    print("|---|---|---|" + "---|" * len(arguments.tolerances))
    bar = tqdm(
        total=len(KINDS)
        * len(GOALS)
        * len(arguments.prompts)
        * len(arguments.tolerances)
    )
    for kind in KINDS:
        for goal in GOALS:
            for k in arguments.prompts:
                cells = []
                for tolerance in arguments.tolerances:
                    outcomes = [
                        play(
                            kind,
                            goal,
                            k,
                            arguments.examples,
                            tolerance,
                            seed,
                            arguments.inputs,
                        )
                        for seed in range(arguments.runs)
                    ]
                    wrong, certain, spent = (
                        math.fsum(getattr(o, name) for o in outcomes) / len(outcomes)
                        for name in ("wrong", "certain", "spent")
                    )
                    cells.append(f"{wrong:.3f}, {certain:.0%}, {spent:.0%}")
                    bar.update()
                print(
                    f"| {kind} | {goal} | {k} | " + " | ".join(cells) + " |", flush=True
                )


if __name__ == "__main__":
    main()
