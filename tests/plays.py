"""Plays that many tests share: a table of scores, a selector for it, and its end."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import asktell
from asktell.methods import preset
from asktell.testing.fakes import Table
from tests.presets import CONSTRAINED

Scores: TypeAlias = Table | npt.NDArray[np.float64] | Callable[[asktell.Trial], Any]


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


def selector_of(
    scores: npt.NDArray[np.float64],
    goal: asktell.problem.goals.Goal,
    method: Any = "auto",
    budget: int | None = None,
    **options: Any,
) -> asktell.Selector:
    """A selector of the prompts p0, p1, ... for an array of scores, by default with a budget for all of them."""
    n_prompts, n_examples = scores.shape[:2]
    return asktell.Selector(
        [f"p{arm}" for arm in range(n_prompts)],
        goal,
        budget or n_prompts * n_examples,
        method,
        **({"examples": n_examples} | options),
    )


def ended(selection: Any, scores: Scores, **options: Any) -> Any:
    """The selection, after `play`."""
    play(selection, scores, **options)
    return selection


def played(
    scores: npt.NDArray[np.float64],
    goal: asktell.problem.goals.Goal,
    method: Any = "auto",
    budget: int | None = None,
    batch: int = 1,
    *,
    n: int | None = None,
    cost: float | None = None,
    **options: Any,
) -> asktell.Selector:
    """A selector for an array of scores, at its end or after n evaluations."""
    selector = selector_of(scores, goal, method, budget, **options)
    return ended(selector, scores, batch=batch, n=n, cost=cost)


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
    selection: Any,
    scores: Scores,
    batch: int = 1,
    *,
    n: int | None = None,
    cost: float | None = None,
    order: Callable[[list[asktell.Trial]], Iterable[asktell.Trial]] = lambda trials: (
        trials
    ),
) -> list[asktell.Trial]:
    """Ask and tell until the end, or exactly n times; returns the trials in the order they were asked.

    The scores are a table, an array by prompt, example and metric, or a function of the
    trial. A trial fails if the function returns a reason, or the array has a NaN. A
    trial without an example has that of its number.
    """
    asked: list[asktell.Trial] = []
    score = _scorer(selection, scores)
    while n is None or len(asked) < n:
        trials = selection.ask(batch if n is None else min(batch, n - len(asked)))
        if not trials:
            assert n is None, f"the end came after {len(asked)} of {n} trials"
            break
        asked += trials
        for trial in order(trials):
            outcome = score(trial)
            if isinstance(outcome, str):
                selection.fail(trial, outcome, cost)
            else:
                selection.tell(trial, outcome, cost)
    return asked


def _scorer(selection: Any, scores: Scores) -> Callable[[asktell.Trial], Any]:
    if isinstance(scores, Table):
        return lambda trial: scores(trial.prompt, trial.example)
    if not isinstance(scores, np.ndarray):
        return scores
    ids = list(getattr(selection, "selector", selection).prompts.ids)

    def row(trial: asktell.Trial) -> Any:
        example = trial.id % scores.shape[1] if trial.example is None else trial.example
        cell = scores[ids.index(trial.prompt_id), example]
        return "no score" if np.isnan(cell).any() else cell.tolist()

    return row
