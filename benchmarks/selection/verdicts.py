"""Whether the actions of verdicts are right: `python -m benchmarks.selection.verdicts`.

A world has K prompts, and b evaluations per prompt that `auto` divides. Scores are 0 or 1
(in log odds) or graded, with or without a constraint on a second metric that is
correlated with the first. The prompts' means are normal, or in two groups, or one prompt
is ahead. Prints a row for each action:

1. How often the selected prompt was good (feasible, and within 1% of the range of the best
   feasible prompt), and the probability `p_good` that was stated.
2. What the verdict forecast for the evaluations that it advised (the median of all
   runs), and what they gained, in tolerances, with a standard error.

`--equal` has K equally good prompts instead, one of them the baseline: a "ship" is wrong.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import asktell
from asktell import Outlook, Verdict
from benchmarks import results

Floats = npt.NDArray[np.float64]
RANGE = 1.0
TOLERANCE = 0.01  # of the range, as without a tolerance
N_EXAMPLES = 200
MOST = 400  # evaluations in a run
PROMPTS, PER_PROMPT = (2, 3, 5, 10, 20, 50), (1, 2, 4, 8, 20)
KINDS, SHAPES = ("0/1", "graded"), ("normal", "two groups", "one ahead")
ACTIONS = ("take", "either", "go on", "best so far", "none")


class World(NamedTuple):
    """One run."""

    n_prompts: int
    per_prompt: int
    kind: str
    is_constrained: bool
    shape: str
    seed: int


class Line(NamedTuple):
    """A run's verdict beside the truth. `gained`: in tolerances, with the advised evaluations. None without advice."""

    world: World
    action: str
    p_good: float
    is_good: bool
    promised: float | None = None
    gained: float | None = None


class Truth(NamedTuple):
    """Scores (K, N, m), and the true means (K, m)."""

    scores: Floats
    means: Floats


def drawn(world: World, rng: np.random.Generator) -> Truth:
    """The scores and the true means of a world."""
    k, m = world.n_prompts, 1 + world.is_constrained
    spread = 10 ** rng.uniform(-1.7, -0.8)
    of_prompts = rng.normal(size=(k, m))
    if m == 2:
        of_prompts[:, 1] = -0.4 * of_prompts[:, 0] + 0.9 * of_prompts[:, 1]
    if world.shape == "two groups":
        of_prompts[:, 0] = np.where(rng.random(k) < 0.5, 1.0, -1.0)
    elif world.shape == "one ahead":
        of_prompts[rng.integers(k), 0] += 2.0
    of_examples = rng.normal(size=(N_EXAMPLES, m))
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    if world.kind == "graded":
        level = 0.5 + spread * of_prompts
        noise = 0.1 * rng.normal(size=(k, N_EXAMPLES, m))
        scores = np.clip(level[:, None] + 0.1 * of_examples + noise, 0.0, RANGE)
        # Examples and noise together have the standard deviation 0.1 * sqrt(2).
        drawn_at = np.clip(level[..., None] + 0.1 * 2**0.5 * points, 0.0, RANGE)
        return Truth(scores, np.asarray(drawn_at @ weights))
    log_odds = 0.5 + 5 * spread * of_prompts
    odds = 1 / (1 + np.exp(-(log_odds[..., None] + 1.5 * points)))
    p = 1 / (1 + np.exp(-(log_odds[:, None] + 1.5 * of_examples)))
    scores = (rng.random(p.shape) < p).astype(np.float64)
    return Truth(scores, np.asarray(odds @ weights))


def goal_of(world: World, means: Floats) -> asktell.BestFeasible:
    """The goal, with a bound that about half of the prompts satisfy."""
    first = asktell.maximize("quality", range=(0, RANGE))
    if not world.is_constrained:
        return asktell.BestFeasible(first)
    return asktell.BestFeasible(first, {"safety": float(np.median(means[:, 1]))})


def feasible(means: Floats) -> npt.NDArray[np.bool_]:
    """Prompts that satisfy the bound of `goal_of`."""
    if means.shape[1] == 1:
        return np.ones(len(means), dtype=bool)
    return np.asarray(means[:, 1] >= np.median(means[:, 1]))


def loss(means: Floats, answer: int) -> float:
    """How far the answer is below the best feasible prompt. Infeasible prompts lose the spread of the means."""
    satisfied = feasible(means)
    if not satisfied[answer]:
        return float(np.ptp(means[:, 0]))
    return float(max(0.0, means[satisfied, 0].max() - means[answer, 0]))


def advised(verdict: Verdict, spent: int) -> Outlook | None:
    """The forecast that a "go on" rests on."""
    for then in verdict.outlook:
        rises = [
            after - now
            for after, now in (
                (then.p_good, verdict.p_good),
                (then.p_best, verdict.p_best),
            )
            if after is not None and now is not None
        ]
        saves = (verdict.loss or 0.0) - then.loss
        if then.evaluations <= spent and (
            max(rises) >= 0.1 or saves >= TOLERANCE * RANGE
        ):
            return then
    return None


def play(selector: asktell.Selector, scores: Floats) -> None:
    """Evaluate until the budget is spent."""
    while trial := selector.ask():
        assert trial.example is not None
        selector.tell(trial, scores[int(trial.prompt_id), trial.example].tolist())


def measure(world: World) -> Line | None:
    """The verdict of a world, and what the advised evaluations gain. None without a probability."""
    rng = np.random.default_rng([world.seed, *map(ord, "".join(map(str, world)))])
    truth = drawn(world, rng)
    prompts = [f"p{i}" for i in range(world.n_prompts)]
    selector = asktell.Selector(
        prompts,
        goal_of(world, truth.means),
        world.n_prompts * world.per_prompt,
        examples=N_EXAMPLES,
        seed=world.seed,
    )
    play(selector, truth.scores)
    verdict = selector.result().verdict
    if verdict.p_good is None:
        return None
    answer = int(selector.result().selected[0].id)
    now = loss(truth.means, answer)
    is_good = bool(feasible(truth.means)[answer] and now <= TOLERANCE * RANGE)
    line = Line(world, verdict.action, verdict.p_good, is_good)
    then = advised(verdict, selector.spent)
    if verdict.action != "go on" or then is None:
        return line
    selector.extend(evaluations=then.evaluations)
    play(selector, truth.scores)
    later = loss(truth.means, int(selector.result().selected[0].id))
    return line._replace(
        promised=((verdict.loss or 0.0) - then.loss) / (TOLERANCE * RANGE),
        gained=(now - later) / (TOLERANCE * RANGE),
    )


def worlds(n_runs: int) -> Iterator[World]:
    """So many worlds, all kinds in turn."""
    kinds = [
        World(*parts, seed=0)
        for parts in product(PROMPTS, PER_PROMPT, KINDS, (False, True), SHAPES)
        if parts[0] * parts[1] <= MOST
    ]
    order = np.random.default_rng(0).permutation(len(kinds))
    runs = (kinds[at]._replace(seed=seed) for seed in range(n_runs) for at in order)
    return islice(runs, n_runs)


def change_of_equals(world: World) -> tuple[World, str, str]:
    """The decision about a change among equally good prompts: in a run, and in a finished table."""
    rng = np.random.default_rng([world.seed, world.n_prompts, world.per_prompt])
    truth = drawn(world._replace(n_prompts=1, shape="normal"), rng)
    mean = float(truth.means[0, 0])
    if world.kind == "graded":
        shape = (world.n_prompts, N_EXAMPLES, 1)
        scores = np.clip(truth.scores + 0.1 * rng.normal(size=shape), 0.0, RANGE)
    else:
        ease = np.clip(mean + 0.3 * rng.normal(size=(1, N_EXAMPLES, 1)), 0.02, 0.98)
        draws = rng.random((world.n_prompts, N_EXAMPLES, 1))
        scores = (draws < ease).astype(np.float64)
    goal = asktell.BestFeasible(asktell.maximize("quality", range=(0, RANGE)))
    prompts = [f"p{i}" for i in range(world.n_prompts)]
    selector = asktell.Selector(
        prompts,
        goal,
        world.n_prompts * world.per_prompt,
        examples=N_EXAMPLES,
        seed=world.seed,
        baseline="p0",
    )
    play(selector, scores)
    table = asktell.analyze(scores, goal, prompts=prompts, baseline="p0")
    changes = (selector.result().verdict.change, table.verdict.change)
    run, finished = ("" if change is None else change.decision for change in changes)
    return world, run, finished


def equal_worlds(n_runs: int) -> Iterator[World]:
    """So many worlds of equally good prompts."""
    kinds = [
        World(k, b, kind, False, "equal", 0)
        for k, b, kind in product((2, 5, 20), (4, 20), KINDS)
    ]
    return islice(
        (world._replace(seed=seed) for seed in range(n_runs) for world in kinds), n_runs
    )


def actions(lines: Sequence[Line]) -> str:
    """A row for each action."""
    rows = []
    for action in ACTIONS:
        mine = [line for line in lines if line.action == action]
        if not mine:
            continue
        stated = np.mean([line.p_good for line in mine])
        right = np.mean([line.is_good for line in mine])
        gains = [line.gained for line in mine if line.gained is not None]
        promised = [line.promised for line in mine if line.promised is not None]
        rows.append(
            [
                action,
                str(len(mine)),
                f"{stated:.2f}",
                f"{right:.2f}",
                f"{np.median(promised):.1f}" if promised else "",
                f"{np.mean(gains):.1f} ± {np.std(gains) / len(gains) ** 0.5:.1f}"
                if gains
                else "",
            ]
        )
    header = [
        "Action",
        "Runs",
        "Stated p_good",
        "Good",
        "Median forecast",
        "Mean gain",
    ]
    return results.table(header, rows)


def equals(found: Sequence[tuple[World, str, str]]) -> str:
    """A row for each number of prompts, kind of scores and source."""
    rows = []
    for k, kind in product((2, 5, 20), KINDS):
        mine = [
            line for line in found if (line[0].n_prompts, line[0].kind) == (k, kind)
        ]
        for at, source in ((1, "run"), (2, "finished table")):
            counts = Counter(line[at] for line in mine)
            shares = [
                f"{counts[decision] / max(1, len(mine)):.1%}"
                for decision in ("ship", "keep", "not decided")
            ]
            rows.append([str(k), kind, source, str(len(mine)), *shares])
    header = ["Prompts", "Scores", "Source", "Runs", "Ship", "Keep", "Not decided"]
    return results.table(header, rows)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--equal", action="store_true")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        run = partial(pool.map, chunksize=4)
        if arguments.equal:
            text = equals(list(run(change_of_equals, equal_worlds(arguments.runs))))
        else:
            lines = run(measure, worlds(arguments.runs))
            text = actions([line for line in lines if line is not None])
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
