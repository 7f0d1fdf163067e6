"""Whether a budget in steps is as good as one budget: `python -m benchmarks.selection.extensions --runs 200`.

`auto` gets 480 evaluations for 24 simulated prompts and 300 examples: at once, or step
by step, each step with `extend` when the budget is spent. `joining`: 8 of the prompts
are added when a third of the budget is spent. Three goals: the best of all (scores of 0
and 1), the best whose second metric is at least the median (graded scores), and a
Pareto set. The truth is the mean over all examples.

Regret of the best is 0 if the answer is the best feasible prompt, and is counted up to
the median prompt if the answer is not feasible; of a Pareto set it is the part of the
hypervolume that is missing. Differences are paired by world and seed.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from tqdm import tqdm

import asktell
from asktell.problem.goals import Goal
from asktell.simulation.truth import Truth
from benchmarks.problems.table import Array
from benchmarks.results import table
from benchmarks.selection.run import one_thread

ARMS, EXAMPLES, BUDGET = 24, 300, 480
GOALS = ("plain", "constrained", "Pareto")
STEPS: dict[str, tuple[int, ...]] = {
    "one budget": (480,),
    "half more each time": (72, 108, 162, 243, 364, 480),
    "25 more each time": (*range(72, 480, 25), 480),
    "two halves": (240, 480),
    "joining": (480,),
}
_JOINING = 8


class Task(NamedTuple):
    """A run: the goal, how the budget comes, and a seed."""

    goal: str
    steps: str
    seed: int


def world(name: str, seed: int) -> tuple[Goal, Array]:
    """A goal, and scores (K, N, m) that are drawn anew for each seed."""
    rng = np.random.default_rng([seed, GOALS.index(name)])
    if name == "plain":
        ability = rng.normal(0.5, 0.45, (ARMS, 1))
        difficulty = rng.normal(0.0, 1.6, EXAMPLES)
        right = rng.random((ARMS, EXAMPLES)) < expit(1.3 * (ability - difficulty))
        return asktell.BestFeasible("accuracy"), right[:, :, None].astype(float)
    # The metrics pull against each other
    abilities = rng.normal(size=(ARMS, 2)) @ np.array([[1.0, -0.3], [0.0, 0.954]])
    effects = 0.05 * abilities[:, None] + 0.12 * rng.normal(size=(EXAMPLES, 2))
    scores = 0.5 + effects + 0.15 * rng.normal(size=(ARMS, EXAMPLES, 2))
    if name == "Pareto":
        return asktell.ParetoSet("accuracy", "brevity"), scores
    bound = float(np.median(scores[:, :, 1].mean(axis=1)))
    constraint = {"brevity": asktell.at_least(bound)}
    return asktell.BestFeasible("accuracy", constraint), scores


def run(task: Task) -> tuple[float, float]:
    """The regret, and whether the answer is the best (of a Pareto set: its quality)."""
    goal, scores = world(task.goal, task.seed)
    prompts = {str(arm): f"prompt {arm}" for arm in range(ARMS)}
    joining = dict(list(prompts.items())[-_JOINING:])
    first = prompts
    if task.steps == "joining":
        first = {name: prompts[name] for name in prompts if name not in joining}
    budgets = STEPS[task.steps]
    selector = asktell.Selector(
        first, goal, budgets[0], "auto", EXAMPLES, seed=task.seed
    )
    for budget in budgets:
        if budget > selector.budget:
            selector.extend(budget - selector.budget)
        while trial := selector.ask():
            row = scores[int(trial.prompt_id), trial.example or 0]
            selector.tell(trial, row.tolist())
            if joining and task.steps == "joining" and selector.spent == BUDGET // 3:
                selector.add(joining)
                joining = {}
    answer = [int(entry.id) for entry in selector.result().selected]
    truth = Truth(goal, scores.mean(axis=1))
    measures = truth.judge(answer)
    if task.goal == "Pareto":
        return measures["regret"], measures["quality"]
    objective = truth.objectives[:, 0]
    best = float(objective[truth.feasible].max())
    chosen = float(np.median(objective)) if measures["infeasible"] else None
    regret = measures["regret"] if chosen is None else best - chosen
    return regret, measures["identified"]


def main() -> None:
    """Parse the command line, run, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    tasks = [Task(*case) for case in product(GOALS, STEPS, range(args.runs))]
    one_thread()
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        work = pool.map(run, tasks, chunksize=4)
        values = np.array(list(tqdm(work, total=len(tasks))))
    outcomes = values.reshape(len(GOALS), len(STEPS), args.runs, 2)
    rows = []
    for goal, of_goal in zip(GOALS, outcomes, strict=True):
        for steps, of_steps in zip(STEPS, of_goal, strict=True):
            regret, right = of_steps.mean(axis=0)
            difference = of_steps[:, 0] - of_goal[0, :, 0]
            error = difference.std(ddof=1) / np.sqrt(args.runs)
            rows.append(
                [
                    goal,
                    steps,
                    f"{regret:.4f}",
                    f"{right:.2f}",
                    f"{difference.mean():+.4f}",
                    f"{error:.4f}",
                ]
            )
    header = ["goal", "budget", "regret", "right", "difference", "error"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
