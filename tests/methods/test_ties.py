"""Among equals a seeded chance decides, everywhere: who leaves, who is the answer, and who comes first in it."""

import math
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector
from asktell.numerics.counters import chance_order
from asktell.problem.goals import Goal
from tests.plays import play

Row = tuple[float, ...]
CONSTRAINED = BestFeasible("a", subject_to={"b": 0.5})
PARETO = ParetoSet("a", "b")
BEST_METHODS = ["auto", "uniform", "csr", "csr-sh"]


@pytest.fixture(params=[40, pytest.param(400, marks=pytest.mark.slow)])
def seeds(request: pytest.FixtureRequest) -> range:
    return range(request.param)


def are_alike(answers: list[int], n: int = 4) -> bool:
    """Whether none of n was chosen by so few of the seeds that it has less of a chance than the others."""
    expected, deviation = len(answers) / n, math.sqrt(len(answers) * (n - 1)) / n
    return bool(np.bincount(answers, minlength=n).min() >= expected - 3 * deviation)


def played(
    method: str, goal: Goal, rows: list[Row], budget: int, seed: int, **options: Any
) -> Selector:
    """A selector whose every evaluation of prompt k scored rows[k]."""
    prompts = [f"prompt {k}" for k in range(len(rows))]
    selector = Selector(
        prompts, goal, budget, method, examples=20, seed=seed, **options
    )
    play(selector, lambda trial: rows[int(trial.prompt_id)])
    return selector


def selected(selector: Selector) -> list[int]:
    return [int(entry.id) for entry in selector.result().selected]


def first_to_leave(selector: Selector) -> int:
    return next(
        decided.departures[0].arm
        for _, decided in selector.state.decisions
        if decided.departures
    )


# Seed 0 has the order 3, 2, 4, 1, 0, 5, and seed 2 has 4, 0, 1, 5, 3, 2
# (tests/numerics/test_counters.py).
@pytest.mark.parametrize(
    ("method", "rows", "seed", "answer", "first_out"),
    [
        # All equal: the first of the order is the answer, and the last leaves first.
        ("csr", [(1, 1)] * 6, 0, 3, 5),
        ("csr", [(1, 1)] * 6, 2, 4, 2),
        ("csr-sh", [(1, 1)] * 6, 0, 3, 5),
        ("uniform", [(1, 1)] * 6, 2, 4, None),
        # Equal objectives: more slack does not help (until it did not count, 5 was the
        # answer).
        ("csr", [(1, 0.5), (1, 0.6), (1, 0.7), (1, 0.8), (1, 0.9), (1, 1.0)], 0, 3, 5),
        ("csr", [(1, 0.5), (1, 0.6), (1, 0.7), (1, 0.8), (1, 0.9), (1, 1.0)], 2, 4, 2),
        # Two groups of equals: the worse one leaves first, by chance within it.
        ("csr", [(1, 1), (0, 1), (1, 1), (0, 1), (0, 1), (1, 1)], 0, 2, 1),
        ("csr", [(1, 1), (0, 1), (1, 1), (0, 1), (0, 1), (1, 1)], 2, 0, 3),
        # Nobody feasible, equal violations and objectives.
        ("csr", [(0, 0), (1, 0.25), (1, 0.25), (1, 0), (0, 0), (1, 0.25)], 0, 2, 0),
        ("csr", [(0, 0), (1, 0.25), (1, 0.25), (1, 0), (0, 0), (1, 0.25)], 2, 1, 0),
    ],
)
def test_worked_examples(
    method: str, rows: list[Row], seed: int, answer: int, first_out: int | None
) -> None:
    selector = played(method, CONSTRAINED, rows, 30, seed)
    assert selected(selector) == [answer]
    assert first_out is None or first_to_leave(selector) == first_out


@pytest.mark.parametrize("method", ["ege-sr", "ege-sh"])
@pytest.mark.parametrize(
    ("seed", "order"), [(0, [3, 2, 4, 1, 0, 5]), (2, [4, 0, 1, 5, 3, 2])]
)
def test_worked_examples_of_pareto_sets(
    method: str, seed: int, order: list[int]
) -> None:
    equal = played(method, PARETO, [(0.5, 0.5)] * 6, 30, seed)
    assert selected(equal) == order  # all optimal, the first of the order first
    assert first_to_leave(equal) == order[0]
    # A dominated prompt leaves before the optimal ones, though its gap is the same as
    # theirs.
    tied = played(
        method,
        PARETO,
        [(0.5, 1), (0.5, 1), (0.5, 1), (0.7, 1), (0.5, 1), (0.5, 1)],
        30,
        seed,
    )
    assert selected(tied) == [3]
    assert first_to_leave(tied) == next(arm for arm in order if arm != 3)


@pytest.mark.parametrize("method", BEST_METHODS)
@pytest.mark.parametrize(
    "score", [(1.0, 1.0), (1.0, 0.0)], ids=["feasible", "infeasible"]
)
def test_each_of_exact_equals_is_the_answer_equally_often(
    method: str, score: Row, seeds: range
) -> None:
    answers = [
        selected(played(method, CONSTRAINED, [score] * 4, 4, seed))[0] for seed in seeds
    ]
    assert are_alike(answers)


@pytest.mark.parametrize("method", ["csr", "csr-sh", "ege-sr", "ege-sh"])
def test_each_of_exact_equals_leaves_first_equally_often(
    method: str, seeds: range
) -> None:
    goal = CONSTRAINED if method.startswith("csr") else PARETO
    gone = [
        first_to_leave(played(method, goal, [(1.0, 1.0)] * 4, 8, seed))
        for seed in seeds
    ]
    assert are_alike(gone)


@pytest.mark.parametrize("method", ["auto", "uniform", "ege-sr"])
def test_each_of_exact_equals_comes_first_in_a_pareto_set_equally_often(
    method: str, seeds: range
) -> None:
    answers = [
        selected(played(method, PARETO, [(1.0, 1.0)] * 4, 4, seed)) for seed in seeds
    ]
    assert are_alike([answer[0] for answer in answers])


def test_the_best_of_those_rejected_is_chosen_by_chance_too(seeds: range) -> None:
    """Where everyone else has failed."""
    answers = []
    for seed in seeds:
        selector = Selector(
            ["a", "b", "c", "d"],
            CONSTRAINED,
            40,
            "csr",
            examples=20,
            seed=seed,
            max_failure_rate=1e-6,
        )
        play(selector, lambda _: (1.0, 1.0) if selector.n_active > 2 else "boom")  # noqa: B023
        answers.append(selected(selector)[0])
    assert are_alike(answers)


def test_the_answer_so_far_of_equals_does_not_change_with_the_rounds() -> None:
    selector = Selector(
        [f"prompt {k}" for k in range(6)], CONSTRAINED, 30, "csr", examples=20, seed=1
    )
    for trial in selector.ask(6):
        selector.tell(trial, (1.0, 1.0))
    answers = set()
    while trial := selector.ask():
        selector.tell(trial, (1.0, 1.0))
        answers.update(selected(selector))
    assert answers == {int(chance_order(1, range(6))[0])}


def test_a_rule_of_ones_own_leaves_equals_to_chance_by_leaving_them_as_they_come(
    seeds: range,
) -> None:
    from asktell.methods.rounds.estimators import SampleMean
    from asktell.methods.rounds.rules import AbstractEliminationRule, Judgement
    from asktell.methods.rounds.schedulers import SuccessiveRejects

    class Worst(AbstractEliminationRule):
        def judge(self, values: Any) -> Judgement:
            order = np.argsort(values[:, 0], kind="stable")
            return Judgement(order, np.zeros(len(values), dtype=bool), values[:, 0])

        def answer(self, values: Any) -> Any:
            return values[:, :1].argmax(axis=0)

        def reason(self, judgement: Judgement, position: int) -> str:
            return f"at {judgement.measure[position]:g}"

    method = asktell.Elimination(
        SuccessiveRejects(),
        asktell.methods.rounds.allocators.Uniform(),
        SampleMean(),
        Worst(),
    )
    answers = [
        selected(played(method, BestFeasible("a"), [(1.0,)] * 4, 8, seed))[0]
        for seed in seeds
    ]  # type: ignore[arg-type]
    assert are_alike(answers)
    uneven = played(method, BestFeasible("a"), [(0.25,), (1.0,), (0.0,), (1.0,)], 8, 0)  # type: ignore[arg-type]
    assert first_to_leave(uneven) == 2
    assert {entry.id: entry.reason for entry in uneven.result().prompts}[2] == "at 0"
