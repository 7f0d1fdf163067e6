"""Who may be the best beside the answer: the contenders."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from asktell import BestFeasible, ParetoSet, Result, minimize
from asktell.problem.goals import Goal
from asktell.testing.fakes import Table
from tests.plays import new_selector, play
from tests.seeds import Seeds


def scores(
    means: list[list[float]],
    n_examples: int = 1000,
    noise: float = 0.1,
    shared: float = 0.0,
) -> Table:
    rng = np.random.default_rng(0)
    shape = (len(means), n_examples, len(means[0]))
    common = rng.normal(0, shared, (1, *shape[1:])) if shared else 0.0
    return Table(np.array(means)[:, None, :] + rng.normal(0, noise, shape) + common)


def played(table: Table, goal: Goal, per_prompt: int = 20, **options: Any) -> Result:
    selector = new_selector(
        table, "uniform", budget=per_prompt * len(table.prompts), goal=goal, **options
    )
    play(selector, table)
    return selector.result()


def unresolved(*arguments: Any, **options: Any) -> list[Any]:
    return [entry.id for entry in played(*arguments, **options).unresolved]


FAR, NEAR = 1.0, 0.01

BEST: list[tuple[BestFeasible, list[list[float]], list[int]]] = [
    (BestFeasible("a"), [[5.0], [5.0 - FAR], [5.0 - NEAR]], [2]),
    (BestFeasible(minimize("a")), [[5.0], [5.0 + FAR], [5.0 + NEAR]], [2]),
    # Better, but clearly infeasible; better, but perhaps infeasible; worse, whether
    # feasible or not.
    (
        BestFeasible("a", {"b": 0.0}),
        [[0, 1], [5, -FAR], [5, -0.03], [-FAR, 1], [-FAR, 0]],
        [2],
    ),
    (
        BestFeasible("a", {minimize("b"): 0.0}),
        [[0, -1], [5, FAR], [5, NEAR], [-FAR, -1]],
        [2],
    ),
    # Nobody is feasible: whoever violates clearly more is told apart, however good its
    # objective.
    (BestFeasible("a", {"b": 9.0}), [[0, 5], [50, 5 - FAR], [-50, 5 - NEAR]], [2]),
]


@pytest.mark.parametrize("sampling", ["shared", "iid"])
@pytest.mark.parametrize(("goal", "means", "open_"), BEST)
def test_best_feasible(
    sampling: str, goal: BestFeasible, means: list[list[float]], open_: list[int]
) -> None:
    result = played(scores(means), goal, sampling=sampling)
    chosen = [entry.id for entry in result.selected]
    either = {0, *open_}  # the two that are nearly equal may be taken for one another
    assert set(chosen) <= either
    assert {entry.id for entry in result.unresolved} == either - set(chosen)


PARETO: list[tuple[ParetoSet, list[list[float]], set[int]]] = [
    (ParetoSet("a", "b"), [[0, 1], [1, 0], [0 - FAR, 1 - FAR], [-NEAR, 1 - NEAR]], {3}),
    (
        ParetoSet("a", minimize("b")),
        [[0, -1], [1, 0], [0 - FAR, -1 + FAR], [-NEAR, -1 + NEAR]],
        {3},
    ),
    # Clearly worse in one metric and equal in the other is not clearly dominated.
    (ParetoSet("a", "b"), [[0, 1], [0 - FAR, 1 - NEAR], [1 + FAR, 0]], {1}),
]


@pytest.mark.parametrize("sampling", ["shared", "iid"])
@pytest.mark.parametrize(("goal", "means", "near"), PARETO)
def test_pareto_set(
    sampling: str, goal: ParetoSet, means: list[list[float]], near: set[int]
) -> None:
    result = played(scores(means), goal, sampling=sampling)
    answer = {entry.id for entry in result.selected} | {
        entry.id for entry in result.unresolved
    }
    clearly_out = {2} if near == {3} else set()
    assert answer == set(range(len(means))) - clearly_out
    assert near <= answer


def test_common_examples_tell_apart_what_independent_ones_cannot() -> None:
    table = scores([[0.5], [0.0]], noise=0.05, shared=2.0)
    goal = BestFeasible("a")
    assert unresolved(table, goal) == []
    assert len(unresolved(table, goal, sampling="iid")) == 1


def test_exact_means_are_told_apart_however_close() -> None:
    table = scores([[0.5], [0.5], [0.5]], n_examples=10, noise=1.0)
    table.scores[:] += (np.array([0.0, 1e-9, -1e-9]) - table.scores.mean(axis=1)[:, 0])[
        :, None, None
    ]
    for inputs in ("given", "new"):
        selector = new_selector(
            table,
            "uniform",
            budget=30,
            goal=BestFeasible("a"),
            inputs=inputs,
            repeats=1,
        )
        play(selector, table)
        verdict = selector.result().verdict
        assert verdict.answer == 1 or inputs == "new"
        assert (
            (verdict.p_best or 0) == 1.0
            if inputs == "given"
            else 0.1 < (verdict.p_best or 0) < 0.7
        )


def test_prompts_that_failed_are_not_open() -> None:
    table = scores([[0.5], [0.5], [0.5]])
    selector = new_selector(
        table, "uniform", budget=9, goal=BestFeasible("a"), max_failure_rate=1e-6
    )
    while trial := selector.ask():
        if trial.prompt_id == 1:
            selector.fail(trial, "boom")
        else:
            selector.tell(trial, table(trial.prompt, trial.example))
    result = selector.result()
    assert 1 not in [entry.id for entry in (*result.selected, *result.unresolved)]


@pytest.mark.parametrize("sampling", ["shared", "iid"])
def test_two_equal_prompts_are_told_apart_in_about_a_twentieth_of_cases(
    seeds: Seeds,
    sampling: str,
) -> None:
    n, wrong = len(seeds(80)), 0
    for seed in range(n):
        rng: npt.NDArray[np.float64] = np.random.default_rng(seed).normal(
            size=(2, 2000, 1)
        )
        table = Table(rng)
        selector = new_selector(
            table,
            "uniform",
            budget=40,
            goal=BestFeasible("a"),
            sampling=sampling,
            seed=seed,
        )
        play(selector, table)
        wrong += not selector.result().unresolved
    # Of 80, 4 are expected: none in 2% of such tests, and more than 9 in .8%. Of 40, none is
    # no surprise, and more than 7 come in .1%.
    assert wrong <= (9 if n == 80 else 7)
    assert wrong > 0 or n < 80


CONSTRAINED: list[tuple[ParetoSet, list[list[float]], set[int], set[int]]] = [
    # Two members; dominating but clearly infeasible; dominating and perhaps feasible;
    # clearly dominated; nearly not.
    (
        ParetoSet("a", "b", subject_to={"c": 0.0}),
        [
            [0, 1, 1],
            [1, 0, 1],
            [5, 5, -FAR],
            [5, 5, -0.03],
            [-FAR, -FAR, 0],
            [-NEAR, 1 - NEAR, 1],
        ],
        {0, 1},
        {3, 5},
    ),
    # Nobody is feasible: whoever violates clearly more is told apart, however good.
    (
        ParetoSet("a", "b", subject_to={minimize("c"): 0.0}),
        [[0, 0, 5], [9, 9, 5 + FAR], [0, 0, 5 + NEAR]],
        {0},
        {2},
    ),
]


@pytest.mark.parametrize("sampling", ["shared", "iid"])
@pytest.mark.parametrize(("goal", "means", "members", "open_"), CONSTRAINED)
def test_pareto_set_under_constraints(
    sampling: str,
    goal: ParetoSet,
    means: list[list[float]],
    members: set[int],
    open_: set[int],
) -> None:
    result = played(scores(means), goal, sampling=sampling)
    chosen, left = (
        {entry.id for entry in entries}
        for entries in (result.selected, result.unresolved)
    )
    assert chosen | left == members | open_
    assert chosen <= members | open_
