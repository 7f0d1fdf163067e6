"""Plays that many tests share: a table of scores, a selector for it, and its end."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import asktell
from asktell.methods import preset
from asktell.testing.fakes import Table
from tests.presets import CONSTRAINED


def random_table(
    n_prompts: int,
    n_examples: int,
    n_metrics: int = 2,
    seed: int = 0,
    noise: float = 0.3,
) -> Table:
    """Scores with an effect of the prompt, one of the example and noise; continuous, so there are no ties."""
    rng = np.random.default_rng(seed)
    scores = (
        rng.uniform(0, 1, (n_prompts, 1, n_metrics))
        + noise * rng.normal(0, 1, (1, n_examples, n_metrics))
        + noise * rng.normal(0, 1, (n_prompts, n_examples, n_metrics))
    )
    return Table(scores)


def new_selector(
    table: Table,
    method: str = "auto",
    *,
    budget: int,
    goal: asktell.problem.goals.Goal | None = None,
    schedule: str = "default",
    data: str = "pooled",
    **options: Any,
) -> asktell.Selector:
    """A selector for a table, by a preset and a schedule."""
    if goal is None and method.endswith(CONSTRAINED):
        goal = constrained_front(table)
    elif goal is None:
        pareto = method.startswith("ege")
        goal = asktell.ParetoSet(*table.metrics) if pareto else best_feasible(table)
    method = method.removesuffix(CONSTRAINED)
    options.setdefault("examples", table.scores.shape[1])
    composed = preset(method, goal, schedule=schedule, data=data)
    return asktell.Selector(table.prompts, goal, budget, composed, **options)


def best_feasible(table: Table) -> asktell.BestFeasible:
    """The first metric, subject to the others being at least the median of their true means."""
    first, *others = table.metrics
    bounds = np.median(table.means, axis=0)[1:]
    return asktell.BestFeasible(first, dict(zip(others, bounds.tolist(), strict=True)))


def scores(trial: asktell.Trial) -> list[float]:
    """Scores that follow from the prompt's length and the example."""
    return [len(trial.prompt) + 0.1 * (trial.example or 0), 1.0]


def constrained_front(table: Table) -> asktell.ParetoSet:
    """All metrics but the last (of one, that one), subject to the last being at least the median of its true means."""
    *objectives, last = table.metrics
    bound = float(np.median(table.means[:, -1]))
    return asktell.ParetoSet(*(objectives or [last]), subject_to={last: bound})


def told(
    selector: asktell.Selector, prompts: list[str]
) -> dict[tuple[str, int], float]:
    """The first metric's score of each prompt and example."""
    history = selector.state.history
    cells = zip(history.arms(), history.examples(), history.scores(), strict=True)
    return {
        (prompts[arm], int(example)): float(scores[0]) for arm, example, scores in cells
    }


def play(
    selector: asktell.Selector,
    table: Table,
    batch: int = 1,
    order: Callable[[list[asktell.Trial]], Iterable[asktell.Trial]] = lambda trials: (
        trials
    ),
) -> list[asktell.Trial]:
    """Ask and tell until the end; returns the trials in the order they were asked."""
    asked: list[asktell.Trial] = []
    while trials := selector.ask(batch):
        asked += trials
        for trial in order(trials):
            selector.tell(trial, table(trial.prompt, trial.example))
    return asked
