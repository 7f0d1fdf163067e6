"""Bounds on a quantile over the examples, and on the rate of failures."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    ParetoSet,
    Race,
    Selector,
    Study,
    at_least,
    at_most,
    maximize,
)
from asktell.problem.goal_text import parse_goal
from asktell.problem.goals import Goal
from asktell.results.gate import not_worse

LATENCY = {"latency": at_most(2.0, quantile=0.9)}
METHODS = ["auto", "uniform", "csr", "csr-sh", "race"]


def run(
    goal: Goal,
    scores: Mapping[str, np.ndarray],
    failed: np.ndarray | None = None,
    budget: int | None = None,
    method: object = "auto",
    **options: object,
) -> Selector:
    n_arms, n_examples = next(iter(scores.values())).shape
    budget = n_arms * n_examples if budget is None else budget
    options = {"examples": n_examples, "max_failure_rate": 1.0, "seed": 3, **options}
    method = Race() if method == "race" else method
    selector = Selector(
        [f"p{i}" for i in range(n_arms)], goal, budget, method=method, **options
    )  # type: ignore[arg-type]
    while (trial := selector.ask()) is not None:
        cell = int(trial.prompt_id), trial.example
        if failed is not None and failed[cell]:
            selector.fail(trial, "no answer")
        else:
            selector.tell(
                trial, {name: column[cell] for name, column in scores.items()}
            )
    return selector


def test_a_quantile_is_a_share_of_the_examples() -> None:
    goal = BestFeasible("right", {**LATENCY, "length": at_least(5, quantile=0.25)})
    assert goal.metrics == ("right", "latency", "length")
    assert goal.columns == ("right", "latency", "length", "latency <= 2", "length >= 5")
    assert goal.vector({"right": 1, "latency": 2.0, "length": 4}) == (1, 2, 4, 1, 0)
    assert goal.vector([0, 2.1, 5]) == (0, 2.1, 5, 0, 1)
    assert goal.values(np.array([[0.5, 9.0, 9.0, 0.92, 0.7]])).tolist() == [
        [0.5, pytest.approx(0.02), pytest.approx(-0.05)]
    ]
    assert str(goal) == (
        "maximize right subject to latency <= 2 on 90% of the examples, length >= 5 on 75% of the examples"
    )


def test_a_mean_and_two_quantiles_of_a_metric_are_three_constraints() -> None:
    both = [
        *BestFeasible("right", {"latency": at_most(1.0)}).constraints,
        *BestFeasible("right", LATENCY).constraints,
    ]
    goal = BestFeasible("right", both)
    assert [bound.column for bound in goal.bounds] == [1, 2]
    assert goal.values(goal.complete(np.array([[1.0, 1.5]]))).tolist() == [
        [1.0, -0.5, pytest.approx(0.1)]
    ]


@pytest.mark.parametrize("method", METHODS)
def test_by_the_tail_another_prompt_is_the_best_and_exact_once_all_is_seen(
    method: str,
) -> None:
    """The mean latency is smaller where the tail is heavier."""
    latency = np.full((3, 20), 1.5)
    latency[1] = 0.5
    latency[1, :3] = 5.0  # mean 1.175; 85 % are at most 2
    latency[2, :2] = 9.0  # 90 % are
    right = np.zeros((3, 20))
    right[0, :9], right[1, :15], right[2, :12] = 1.0, 1.0, 1.0
    scores, given = (
        {"right": right, "latency": latency},
        {"inputs": "given", "repeats": 1},
    )
    result = run(
        BestFeasible("right", LATENCY), scores, method=method, **given
    ).result()
    assert result.best is not None
    assert result.best.id == 2
    if method in ("auto", "uniform"):
        shares = [entry.estimate["latency <= 2"] for entry in result.prompts]
        assert shares[2] == pytest.approx(0.9)
        assert method == "auto" or shares == pytest.approx([1.0, 0.85, 0.9])
    of_means = (
        run(
            BestFeasible("right", {"latency": at_most(2.0)}),
            scores,
            method=method,
            **given,
        )
        .result()
        .best
    )
    assert of_means is not None
    assert of_means.id == 1


@pytest.mark.parametrize("method", ["auto", "uniform", "csr", "race"])
def test_the_rate_of_failures_is_a_metric_that_nobody_tells(method: str) -> None:
    failed = np.zeros((3, 40), dtype=bool)
    failed[0, :12], failed[1, :3] = True, True
    right = np.zeros((3, 40))
    right[0], right[1, ::2], right[2, ::4] = 1.0, 1.0, 1.0
    goal = BestFeasible("right", {"failure_rate": at_most(0.1)})
    assert goal.metrics == ("right",)
    selector = run(
        goal, {"right": right}, failed, method=method, inputs="given", repeats=1
    )
    result = Selector.from_json(selector.to_json()).result()
    assert result == selector.result()
    assert result.best.id == 1
    rates = [entry.estimate["failure_rate"] for entry in result.prompts]
    if method == "uniform":
        assert rates == pytest.approx([12 / 40, 3 / 40, 0.0])
    assert rates[1] == pytest.approx(3 / 40, abs=0.02)
    assert (rates[0] or 0.0) > 0.15
    assert result.prompts[0].feasible is False
    assert (result.prompts[0].p_feasible or 0.0) < 0.1


def test_a_study_and_its_worker_are_told_what_a_selector_is(tmp_path: Path) -> None:
    goal = BestFeasible("right", {**LATENCY, "failure_rate": at_most(0.5)})
    selector = Selector(
        ["p0", "p1"], goal, 12, examples=8, seed=1, segments=["de", "en"] * 4
    )
    with Study.create(tmp_path / "study.db", "a", selector) as study:
        while (trial := study.ask()) is not None:
            if trial.id % 5 == 4:
                study.fail(trial, "no answer")
            else:
                study.worker("w").tell(
                    trial, {"right": trial.id % 2, "latency": 1.0 + trial.id % 3}
                )
        assert study.tell(0, [0, 1.0]) is False  # again
        told = [e.scores for e in study.evaluations() if e.scores is not None]
        assert told[:2] == [
            {"right": 0.0, "latency": 1.0},
            {"right": 1.0, "latency": 2.0},
        ]
        result = study.result()
    with Study.open(tmp_path / "study.db", "a") as study:
        assert study.result() == result
        study.export(tmp_path / "study.jsonl")
    assert result.prompts[0].estimate["failure_rate"] is not None
    with Study.import_(tmp_path / "other.db", tmp_path / "study.jsonl") as study:
        assert study.result() == result


def test_doubtful_scores_with_a_quantile_are_compared_without_a_claim() -> None:
    selector = run(
        BestFeasible("right", LATENCY),
        {"right": np.eye(2, 8), "latency": np.ones((2, 8))},
        budget=12,
    )
    selector.remark("Labels disagree.", doubtful=True)
    found = selector.result().compare(0, 1)
    assert {each.verdict for each in found.differences.values()} == {"undecided"}
    assert selector.result().verdict.p_best is None


def test_failures_that_count_as_scores_count_as_failures_too() -> None:
    failed = np.zeros((2, 20), dtype=bool)
    failed[0, :10] = True
    goal = BestFeasible("right", {"failure_rate": at_most(0.2)})
    options = {
        "on_failure": {"right": 0.0},
        "method": "uniform",
        "inputs": "given",
        "repeats": 1,
    }
    selector = run(goal, {"right": np.ones((2, 20))}, failed, **options)  # type: ignore[arg-type]
    entries = selector.result().prompts
    assert [entry.estimate["failure_rate"] for entry in entries] == pytest.approx(
        [0.5, 0.0], abs=1e-12
    )
    assert [entry.estimate["right"] for entry in entries] == pytest.approx([0.5, 1.0])
    assert Selector.from_json(selector.to_json()).result() == selector.result()


@pytest.mark.parametrize("examples", [60, None])
def test_a_proof_counts_the_failures_in_their_turn(examples: int | None) -> None:
    """The rate is .3 and the bound .2: that it is kept is never certain, with whatever look at the first failures."""
    wrong = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        goal = BestFeasible("right", {"failure_rate": at_most(0.2)})
        options = {"examples": examples, "max_failure_rate": 1.0, "seed": seed}
        selector = Selector(
            ["new", "old"], goal, 120, method="uniform", baseline="old", **options
        )  # type: ignore[arg-type]
        failed = rng.random(400) < 0.3
        while (trial := selector.ask()) is not None:
            place = trial.id if trial.example is None else trial.example
            if trial.prompt == "new" and failed[place]:
                selector.fail(trial, "no answer")
            else:
                selector.tell(trial, {"right": float(rng.random() < 0.5)})
            if selector.spent % 20 == 0:
                wrong += (
                    not_worse(selector.state, 0, 1, 0.0, 0.95, is_last=False)[
                        "failure_rate <= 0.2"
                    ]
                    is True
                )
    assert wrong <= 1


@pytest.mark.parametrize("examples", [300, None])
def test_a_gate_uses_no_score_behind_one_that_is_out(examples: int | None) -> None:
    selector = Selector(
        ["new", "old"],
        BestFeasible(maximize("a", range=(0, 1))),
        400,
        "uniform",
        examples=examples,
    )
    first, *others = selector.ask(400)
    for trial in others:
        selector.tell(trial, float(trial.prompt == "new"))
    late = {trial.id for trial in selector.pending}
    assert late == {first.id}
    assert not_worse(selector.state, 0, 1, 0.0, 0.95) == {
        "a": None,
        "failure_rate": None,
    }
    selector.tell(first, float(first.prompt == "new"))
    assert not_worse(selector.state, 0, 1, 0.0, 0.95) == {
        "a": True,
        "failure_rate": True,
    }


def test_a_goal_in_words_has_quantiles_and_segments() -> None:
    goal = parse_goal(
        "best-feasible",
        "right",
        at_most={"latency": {"bound": 2.0, "quantile": 0.9}, "failure_rate": 0.02},
        at_least={"brevity": {"bound": 0.5, "in_every_segment": True}},
        worst_segment=["right"],
    )
    assert str(goal) == (
        "maximize right in its worst segment subject to brevity >= 0.5 in every segment, latency <= 2 on 90% of the "
        "examples, failure_rate <= 0.02"
    )
    with pytest.raises(
        asktell.InvalidArgumentError,
        match=r"the key 'bound' and.*The key 'quantil' is unknown",
    ):
        parse_goal(
            "best-feasible",
            "right",
            at_most={"latency": {"bound": 2.0, "quantil": 0.9}},
        )
    with pytest.raises(
        asktell.InvalidArgumentError, match="'latency', which is neither"
    ):
        parse_goal("best-feasible", "right", worst_segment="latency")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: at_most(2.0, quantile=95),
            "above 0 and below 1, such as 0.95, got 95",
        ),
        (lambda: at_most(2.0, quantile=True), "above 0 and below 1"),
        (
            lambda: at_least(2.0, in_every_segment="yes"),
            "in_every_segment must be True or False",
        ),
        (
            lambda: BestFeasible("right", {"failure_rate": at_least(0.5)}),
            "needs an upper bound",
        ),
        (lambda: BestFeasible("right", {"failure_rate": 0.02}), "needs a direction"),
        (
            lambda: ParetoSet("right", asktell.minimize("failure_rate")),
            "cannot be an objective",
        ),
    ],
)
def test_a_bound_that_makes_no_sense_is_an_error(make: object, message: str) -> None:
    with pytest.raises(asktell.InvalidArgumentError, match=message):
        make()  # type: ignore[operator]
