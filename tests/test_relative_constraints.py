"""Constraints relative to the best prompt, or to the baseline: `asktell.within`."""

from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    Adaptive,
    BestFeasible,
    InvalidArgumentError,
    ParetoSet,
    Race,
    Selector,
    maximize,
    minimize,
    within,
)
from asktell.problem.goal_text import parse_goal
from asktell.problem.objectives import Constraint
from asktell.proofs.claims import unproven
from asktell.simulation.simulate import run_once
from asktell.simulation.truth import Truth, means_of
from asktell_adapters.server.requests import GoalModel
from benchmarks.selection.cheapest import GOAL, right, table
from tests.plays import play, played
from tests.seeds import Seeds

NAN, INF = float("nan"), float("inf")
UNIT = maximize("accuracy", range=(0, 1))


def cheapest(margin: float = 0.03, of: str = "best") -> BestFeasible:
    return BestFeasible(minimize("cost"), {UNIT: within(margin, of=of)})


def fours(
    scores: Any, goal: Any, method: Any, budget: int | None = None, **options: Any
) -> Selector:
    """A selector that was asked for four trials at a time."""
    return played(scores, goal, method, budget, batch=4, **options)


# What a constraint says


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (cheapest(0.02), "minimize cost subject to accuracy >= best - 0.02"),
        (cheapest(0.02, "baseline"), "minimize cost subject to accuracy >= baseline - 0.02"),
        (BestFeasible("a", {minimize("latency"): within(0.5)}), "maximize a subject to latency <= best + 0.5"),
        (BestFeasible(minimize("cost"), {"cost": within(0)}), "minimize cost subject to cost <= best"),
        (ParetoSet("a", minimize("cost"), subject_to={"a": within(1)}), "Pareto set: maximize a, minimize cost "
         "subject to a >= best - 1"),
    ],
)  # fmt: skip
def test_a_relative_constraint_in_words(goal: Any, text: str) -> None:
    assert str(goal) == text


def test_the_bound_moves_with_the_best_of_each_set_of_means() -> None:
    goal = cheapest(0.03)
    means = np.array(
        [[[10, 0.9], [1, 0.87], [0.1, 0.8]], [[10, 0.7], [1, 0.6], [0.1, 0.8]]]
    )
    assert goal.resolved(means) == pytest.approx(np.array([[0.87], [0.77]]))
    assert goal.resolved(means, np.array([1, 2])) == pytest.approx(
        np.array([[0.84], [0.77]])
    )
    # Worse by just the margin is feasible
    assert (goal.values(means[0])[:, 1] >= 0).tolist() == [True, True, False]
    assert goal.values(means[0], goal.resolved(means)[1])[:, 1] == pytest.approx(
        [0.13, 0.1, 0.03]
    )
    # A single prompt is the best one
    assert (goal.values(means[0][:1])[:, 1] >= 0).all()
    unknown = np.array([[1.0, NAN], [2.0, 0.5]])
    assert goal.resolved(unknown) == pytest.approx([0.47])
    assert np.isnan(cheapest(0.03, "baseline").with_baseline(0).resolved(unknown)).all()


def test_the_baseline_is_the_reference_whatever_else_it_violates() -> None:
    goal = BestFeasible(
        "quality", {UNIT: within(0.1, of="baseline"), "brevity": 0.5}
    ).with_baseline(1)
    # Quality, accuracy, brevity
    means = np.array([[1, 0.45, 0.9], [2, 0.5, 0.1], [3, 0.3, 0.9]])
    assert (goal.values(means)[:, 1:] >= 0).all(axis=1).tolist() == [True, False, False]


def test_margin_zero_and_ties() -> None:
    goal = BestFeasible(minimize("cost"), {"accuracy": within(0)})
    means = np.array([[3, 0.1 + 0.2], [2, 0.3], [1, 0.2999]])
    assert (goal.values(means)[:, 1] >= 0).tolist() == [True, True, False]


@pytest.mark.parametrize("margin", [-0.1, NAN, INF, "0.1", None, True])
def test_a_margin_is_a_finite_number_of_at_least_0(margin: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the margin of within\(\)"):
        within(margin)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: within(0.1, of="first"), '"best" or "baseline"'),
        (lambda: BestFeasible("a", {"latency": within(0.1)}), r"asktell.minimize\('latency'\)"),
        (lambda: BestFeasible("a", {"failure_rate": within(0.1)}), r"asktell.at_most\(0.02\)"),
        (lambda: BestFeasible(minimize("b"), {maximize("b"): within(0.1)}), "have opposite directions"),
        (lambda: Constraint("a", 0.1, quantile=0.5, of="best"), "For a quantile or in_every_segment"),
        (lambda: Constraint("a", -0.1, of="best"), "the margin"),
        (lambda: Selector(["x", "y"], cheapest(of="baseline"), 10), "State its id as the baseline"),
        (lambda: asktell.simulate(np.zeros((2, 5, 2)), cheapest(of="baseline"), ["uniform"]), "State its id"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_the_cure(make: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        make()


# Words, files and services


@pytest.mark.parametrize("of", ["best", "baseline"])
def test_words_are_the_same_constraint(of: str) -> None:
    words = {
        "minimize": "cost",
        "at_least": {"accuracy": f"within 0.02 of {of}"},
        "ranges": {"accuracy": [0.0, 1.0]},
    }
    assert parse_goal("best-feasible", **words) == cheapest(0.02, of)  # type: ignore[arg-type]
    assert GoalModel(**words).value() == cheapest(0.02, of)  # type: ignore[arg-type]
    at_most = parse_goal(
        "best-feasible", "a", at_most={"latency": f"within 1 of the {of}"}
    )
    assert at_most == BestFeasible("a", {minimize("latency"): within(1, of=of)})


@pytest.mark.parametrize(
    "text",
    [
        "within of best",
        "within 0.1",
        "within x of best",
        "within nan of best",
        "0.1",
        "",
    ],
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"within 0\.02 of best"):
        parse_goal("best-feasible", "a", at_least={"b": text})


@pytest.mark.parametrize("method", ["auto", "csr", Race()])
def test_a_saved_selection_goes_on_as_if_never_interrupted(method: Any) -> None:
    scores = table(3)
    whole = fours(scores, cheapest(of="baseline"), method, 300, baseline=0)
    selector = Selector(
        [f"p{i}" for i in range(6)],
        cheapest(of="baseline"),
        300,
        method,
        200,
        baseline=0,
    )
    for _ in range(8):
        for trial in selector.ask(12):
            selector.tell(trial, scores[trial.prompt_id, trial.example].tolist())
        selector = Selector.from_json(selector.to_json())
    assert selector.state.problem.goal == cheapest(of="baseline")
    play(selector, scores, 4)
    if method == "csr":  # whose plan no batch changes
        assert (
            selector.result().to_dict()["selected"]
            == whole.result().to_dict()["selected"]
        )
    assert selector.result().bounds[0] == pytest.approx(
        (selector.result().prompts[0].estimate["accuracy"] or 0.0) - 0.03
    )


# Who is the reference


def finished(
    goal: Any, accuracies: list[float], costs: list[float], **options: Any
) -> Selector:
    """A finished selection by "uniform" on 50 examples."""
    place = (np.arange(50) + 0.5) / 50
    scores = np.stack([[np.full(50, cost), (place < share).astype(float)] for cost, share in zip(costs, accuracies,
                       strict=True)]).transpose(0, 2, 1)  # fmt: skip
    return fours(scores, goal, "uniform", inputs="given", repeats=1, **options)


def test_the_best_prompt_counts_whether_or_not_it_is_feasible() -> None:
    goal = BestFeasible(
        minimize("cost"), {UNIT: within(0.1), "cost": asktell.at_most(5)}
    )
    result = finished(goal, [0.9, 0.82, 0.7], [10, 1, 0.1]).result()
    assert [entry.feasible for entry in result.prompts] == [False, True, False]
    assert result.bounds == pytest.approx((0.8, 5))
    assert result.best is not None
    assert result.best.id == 1


def test_a_retired_prompt_is_no_longer_the_best() -> None:
    selector = finished(cheapest(0.1), [0.9, 0.7, 0.66], [10, 1, 0.1])
    assert [entry.feasible for entry in selector.result().prompts] == [
        True,
        False,
        False,
    ]
    selector.retire(0, "switched off")
    assert [entry.feasible for entry in selector.result().prompts[1:]] == [True, True]
    assert selector.result().bounds == pytest.approx([0.6])


def test_an_eliminated_prompt_is_still_the_best() -> None:
    place = (np.arange(60) + 0.5) / 60
    accuracy = np.stack([place < share for share in (0.9, 0.8, 0.5)]).astype(float)
    scores = np.stack([np.full((3, 60), [[10.0], [1.0], [0.1]]), accuracy], axis=2)
    selector = fours(scores, cheapest(0.2), Race(), inputs="given", repeats=1)
    result = selector.result()
    assert [entry.status for entry in result.prompts] == [
        "rejected",
        "accepted",
        "rejected",
    ]
    assert [entry.feasible for entry in result.prompts] == [True, True, False]
    assert result.bounds == pytest.approx(
        [(result.prompts[0].estimate["accuracy"] or 0.0) - 0.2]
    )


def test_a_better_newcomer_moves_the_bound() -> None:
    scores = np.stack(
        [np.full((3, 40), [[3.0], [2.0], [1.0]]), np.zeros((3, 40))], axis=2
    )
    scores[0, :38, 1], scores[1, :20, 1], scores[2, :18, 1] = 1.0, 1.0, 1.0
    selector = Selector(
        {"b": "B", "c": "C"}, cheapest(0.1), 80, "auto", 40, inputs="given", repeats=1
    )
    row = {"A": 0, "B": 1, "C": 2}

    def evaluate() -> asktell.Result:
        while batch := selector.ask(4):
            for trial in batch:
                selector.tell(trial, scores[row[trial.prompt], trial.example].tolist())
        return selector.result()

    assert [entry.id for entry in evaluate().selected] == ["c"]
    selector.add({"a": "A"})
    selector.extend(evaluations=40)
    result = evaluate()
    assert [entry.id for entry in result.selected] == ["a"]
    assert result.bounds == pytest.approx([0.85])


def test_equal_fixed_costs_are_no_more_expensive_than_each_other() -> None:
    rng = np.random.default_rng(0)
    right_ = (rng.random((3, 60)) < np.array([[0.6], [0.9], [0.95]])).astype(float)
    scores = np.stack([right_, np.full((3, 60), [[0.2], [0.2], [0.3]])], axis=2)
    for of in ("best", "baseline"):
        goal = BestFeasible("accuracy", {minimize("cost"): within(0, of=of)})
        result = fours(scores, goal, "uniform", baseline=0).result()
        assert [round(entry.p_feasible or 0.0, 1) for entry in result.prompts] == [
            1.0,
            1.0,
            0.0,
        ]
        assert result.best is not None
        assert result.best.id == 1


def test_a_pareto_set_within_a_margin() -> None:
    goal = ParetoSet(minimize("cost"), UNIT, subject_to={"accuracy": within(0.15)})
    result = finished(goal, [0.9, 0.8, 0.7, 0.78], [3, 2, 1, 2.5]).result()
    assert {entry.id for entry in result.selected} == {0, 1}
    assert [entry.feasible for entry in result.prompts] == [True, True, False, True]


def test_a_single_prompt_is_the_best_one() -> None:
    result = finished(cheapest(0), [0.4], [1]).result()
    assert result.best is not None
    assert result.best.feasible


# Proofs


def pair(seed: int, lead: float, n: int = 300) -> Any:
    """Two prompts of 0 and 1, the dear one ahead by `lead` on average, and their costs."""
    rng = np.random.default_rng(seed)
    base = np.where(rng.random(n) < 0.8, 0.95, 0.4)
    accuracy = (rng.random((2, n)) < np.stack([base, base - lead])).astype(float)
    return np.stack([np.full((2, n), [[2.0], [1.0]]), accuracy], axis=2)


@pytest.mark.parametrize("plays", [6, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("margin", "wrong"), [(0.0999, 1), (0.1, 0)], ids=["beyond", "within"]
)
def test_proofs_at_a_tie_are_right_at_every_look(
    margin: float, wrong: int, plays: int
) -> None:
    """Just beyond the margin the cheap prompt is the wrong answer, and just at the margin the dear one is."""
    proven = dict.fromkeys(["race", "adaptive"], 0)
    for seed in range(plays):
        scores = pair(seed, 0.1)
        selector = Selector(
            ["dear", "cheap"], cheapest(margin), 600, "uniform", 300, seed=seed
        )
        ever = dict.fromkeys(proven, False)
        while batch := selector.ask(50):
            for trial in batch:
                selector.tell(trial, scores[trial.prompt_id, trial.example].tolist())
            state = selector.state
            if not state.finished:
                decided, means = Race().decide(state), state.current_tally().means
                ever["race"] |= decided.settled and decided.answer == (wrong,)
                ever["adaptive"] |= not len(unproven(state, [wrong], means, 0.05))
        for name, found in ever.items():
            proven[name] += found
    # Of 200, 10 are expected at most, and more than 17 in 1% of such tests.
    assert max(proven.values()) <= (2 if plays == 6 else 17)


@pytest.mark.parametrize(
    ("method", "of"),
    [
        (Race(), "best"),
        (Race(), "baseline"),
        (Adaptive(confidence=0.95), "best"),
    ],
    ids=["race best", "race baseline", "adaptive best"],
)
def test_what_is_clear_is_proven_before_the_budget_is_spent(
    method: Any, of: Any
) -> None:
    n, rng = 300, np.random.default_rng(1)
    accuracy = (rng.random((3, n)) < np.array([[0.9], [0.89], [0.3]])).astype(float)
    scores = np.stack([np.full((3, n), [[2.0], [1.0], [0.5]]), accuracy], axis=2)
    goal = BestFeasible(minimize("cost", range=(0, 3)), {UNIT: within(0.2, of=of)})
    result = fours(scores, goal, method, baseline=0).result()
    assert result.stopped_early
    assert result.spent < 3 * n
    assert [entry.id for entry in result.selected] == [1]


# The bars


@pytest.mark.parametrize("method", ["auto", "csr", "race", "uniform", "csr-sh"])
def test_methods_find_the_cheapest_that_is_not_worse(seeds: Seeds, method: str) -> None:
    assert sum(right(method, seed) for seed in seeds(4)) >= len(seeds(2))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("auto", 17), ("csr", 16)])
def test_the_cheapest_that_is_not_worse_in_twenty_seeds(
    method: str, least: int
) -> None:
    assert sum(right(method, seed) for seed in range(20)) >= least


def test_simulate_judges_by_the_true_best() -> None:
    scores = table(0)
    truth = Truth(*means_of(scores, GOAL))
    assert truth.feasible.tolist() == [True, True, True, False, False, False]
    assert truth.judge([2])["identified"]
    assert not truth.judge([3])["quality"]
    outcome = run_once(
        "uniform", scores, cheapest(0.15, "baseline"), 300, 0, baseline=4
    )
    assert outcome.result is not None
    found = asktell.simulate(
        scores,
        cheapest(0.15, "baseline"),
        ["uniform"],
        budgets=20,
        seeds=2,
        jobs=1,
        baseline=4,
        on_progress=print,
    )
    assert len(found.runs) == 2
