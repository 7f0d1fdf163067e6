"""Goals that were probably meant in another way are refused: the direction of an objective, bounds off the scale."""

import json
import math
from functools import partial
from typing import Any

import pytest

import asktell
from asktell import (
    BestFeasible,
    ParetoSet,
    Selector,
    at_least,
    at_most,
    maximize,
    minimize,
    within,
)
from asktell.errors import InvalidArgumentError
from asktell.extend import Goal, check_margin, less_may_be_better, not_worse
from asktell.problem.formats import dump_goal, load_goal
from tests.plays import play

LESS = [
    "cost", "cost_usd", "price", "latency", "latency_ms", "p95Latency", "seconds", "duration", "error", "errorRate",
    "loss", "val_loss", "brier", "brier_score", "WER", "cer", "ter", "perplexity", "toxicity", "toxicity_score",
    "hallucination-rate", "fees", "logloss", "mean delay", "rank", "hallucinated", "is_toxic", "failed_tests",
]  # fmt: skip
MORE = [
    "accuracy", "error_free", "lossless", "low_cost_score", "cost_efficiency", "latency_score", "neg_log_loss",
    "neg_mean_squared_error", "error_detection", "cost_savings", "costly", "timeliness", "token_f1", "tool_call",
    "f1_error", "steps_completed", "score", "no_errors", "mean_reciprocal_rank", "non_toxic", "rank_correlation",
]  # fmt: skip


@pytest.mark.parametrize("metric", LESS)
@pytest.mark.parametrize("goal", [BestFeasible, lambda name: ParetoSet("acc", name)])
def test_a_bare_name_of_what_should_be_small_is_asked_about(
    metric: str, goal: Any
) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        goal(metric)
    assert f"asktell.minimize({metric!r}) or asktell.maximize({metric!r})" in str(
        raised.value
    )
    # A direction is always accepted
    assert maximize(metric) in goal(maximize(metric)).objectives
    assert minimize(metric) in goal(minimize(metric)).objectives
    assert asktell.extend.parse_goal("best-feasible", maximize=metric).metrics == (
        metric,
    )


@pytest.mark.parametrize("metric", MORE)
def test_other_names_need_no_direction(metric: str) -> None:
    assert not less_may_be_better(metric)
    assert BestFeasible(metric).objective == maximize(metric)


UNIT, PERCENT = maximize("acc", range=(0, 1)), maximize("acc", range=(0, 100))


@pytest.mark.parametrize(
    ("key", "bound", "words"),
    [
        (UNIT, at_least(80), "For 80%, write 0.8"),
        (UNIT, 80, "For 80%, write 0.8"),
        (UNIT, at_least(-0.1), r"\[0, 1\], got -0.1"),
        (UNIT, at_most(1.5), "within the range"),
        (UNIT, at_least(2, quantile=0.05), "within the range"),
        (UNIT, within(5), "For 5 points, write 0.05"),
        (UNIT, within(1), "less than the width"),
        (PERCENT, at_least(101), r"\[0, 100\], got 101"),
        (PERCENT, within(100), "less than the width"),
        ("failure_rate", at_most(2), "For 2%, write 0.02"),
        ("failure_rate", at_most(-1), "within the range"),
    ],
)
def test_bounds_off_the_scale_are_refused(key: Any, bound: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        BestFeasible("q", {key: bound})
    with pytest.raises(InvalidArgumentError, match=words):
        ParetoSet("q", "r", subject_to={key: bound})


def test_the_range_of_an_objective_holds_for_its_bounds() -> None:
    with pytest.raises(InvalidArgumentError, match=r"write 0\.8"):
        BestFeasible(UNIT, {"acc": 80})


@pytest.mark.parametrize(
    ("key", "bound"),
    [
        (UNIT, at_least(1)),
        (UNIT, at_most(0)),
        (UNIT, within(0.999)),
        (PERCENT, at_least(80)),
        (PERCENT, within(5)),
        ("acc", at_least(80)),
        ("acc", within(500)),
        ("failure_rate", at_most(1)),
    ],
)
def test_bounds_at_the_ends_and_without_a_range_are_right(key: Any, bound: Any) -> None:
    assert BestFeasible("q", {key: bound}).constraints


def test_tolerances_as_wide_as_the_range_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"For 5 points, write 0\.05"):
        maximize("acc", range=(0, 1), tolerance=5)
    with pytest.raises(InvalidArgumentError, match="less than the width"):
        minimize("acc", range=(0, 100), tolerance=100)
    assert maximize("acc", range=(0, 100), tolerance=5).tolerance == 5.0
    assert maximize("acc", tolerance=500).tolerance == 500.0


@pytest.mark.parametrize("wrong", [0, -0.1, math.inf, math.nan, True, "0.1"])
@pytest.mark.parametrize(
    "make",
    [
        partial(maximize, "acc"),
        partial(minimize, "acc"),
        partial(at_least, 0.5),
        partial(at_most, 0.5),
        partial(within, 0.5),
    ],
)
def test_a_tolerance_is_a_finite_number_above_0(make: Any, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a number above 0"):
        make(tolerance=wrong)


def test_a_tolerance_that_voids_a_constraint_is_refused() -> None:
    for key, bound in (
        (UNIT, at_least(0.5, tolerance=5)),
        (UNIT, within(0.5, tolerance=1)),
        ("failure_rate", at_most(0.02, tolerance=5)),
        # A share of the examples
        ("time", at_most(2, quantile=0.9, tolerance=5)),
    ):
        with pytest.raises(InvalidArgumentError, match="less than the width"):
            BestFeasible(maximize("points"), {key: bound})


def test_a_metric_has_one_tolerance_wherever_it_is_stated() -> None:
    acc = maximize("acc", range=(0, 1), tolerance=0.02)
    with pytest.raises(InvalidArgumentError, match=r"two tolerances, 0\.02 and 0\.1"):
        BestFeasible(acc, {"acc": at_least(0.5, tolerance=0.1)})
    with pytest.raises(InvalidArgumentError, match=r"two tolerances, 0\.02 and 0\.1"):
        BestFeasible("b", {acc: at_least(0.5, tolerance=0.1)})
    with pytest.raises(InvalidArgumentError, match=r"two tolerances, 0\.02 and 0\.1"):
        ParetoSet(
            minimize("b"),
            acc,
            subject_to={maximize("acc", range=(0, 1)): within(0.5, tolerance=0.1)},
        )
    for bound in (at_least(0.5), at_least(0.5, tolerance=0.02)):
        goal = BestFeasible(acc, {"acc": bound})
        assert goal.tolerances == {"acc": 0.02}
        assert str(goal) == "maximize acc (tolerance 0.02) subject to acc >= 0.5"
    of_bound = BestFeasible(UNIT, {"acc": at_least(0.5, tolerance=0.02)})
    assert of_bound.value_tolerances.tolist() == [0.02, 0.02]


def test_the_tolerance_of_a_quantile_is_a_share_of_the_examples() -> None:
    time = minimize("time", range=(0, 60), tolerance=3)
    limit = at_most(20, quantile=0.9, tolerance=0.05)
    goal = BestFeasible(time, {"time": limit})
    assert goal.value_tolerances.tolist() == [3.0, 0.05]
    assert str(goal) == (
        "minimize time (tolerance 3) subject to time <= 20 on 90% of the examples (tolerance 0.05)"
    )
    with pytest.raises(InvalidArgumentError, match="a share of the examples"):
        BestFeasible("acc", {time: limit})


def test_tolerances_are_in_the_units_of_the_values() -> None:
    cost = minimize("cost", range=(0, 20), tolerance=1)
    limits = {maximize("safe", range=(0, 10)): at_least(5, tolerance=0.5)}
    assert BestFeasible(cost, limits).value_tolerances.tolist() == [1.0, 0.05]
    both = ParetoSet("acc", cost, subject_to=limits)
    assert both.value_tolerances.tolist() == [0.0, 0.05, 0.05]
    for goal in (BestFeasible(cost, limits), both):
        assert load_goal(json.loads(json.dumps(dump_goal(goal)))) == goal


def told(goal: Goal, scores: tuple[float, float] = (0.2, 0.7)) -> Selector:
    selector = Selector(["a", "b"], goal, 40, "uniform", examples=20)
    play(
        selector,
        lambda trial: dict.fromkeys(goal.metrics, scores[int(trial.prompt_id)]),
    )
    return selector


def test_comparisons_and_gates_refuse_tolerances_as_wide_as_the_range() -> None:
    selector = told(BestFeasible(UNIT))
    for compare in (selector.compare, selector.result().compare):
        with pytest.raises(InvalidArgumentError, match=r"For 5 points, write 0\.05"):
            compare(0, 1, tolerance=5)
        assert compare(0, 1, tolerance=0.05)
    with pytest.raises(InvalidArgumentError, match=r"For 5 points, write 0\.05"):
        not_worse(selector.state, 1, 0, 5, 0.95)
    assert not_worse(selector.state, 1, 0, 0.05, 0.95)["acc"]
    unknown = told(BestFeasible("points"))
    assert unknown.compare(0, 1, tolerance=5)
    assert not_worse(unknown.state, 1, 0, 5, 0.95)


def test_the_range_of_binary_scores_is_known_to_a_gate() -> None:
    selector = told(BestFeasible("passed"), (1.0, 0.0))
    with pytest.raises(InvalidArgumentError, match=r"For 5 points, write 0\.05"):
        not_worse(selector.state, 1, 0, 5, 0.95)
    assert check_margin(selector.goal, 5) == 5.0, "no range is declared"


def test_a_metric_brings_its_range() -> None:
    def polite(completion: object, example: object) -> float:
        return 1.0

    polite.range = (0, 1)  # type: ignore[attr-defined]
    assert maximize(polite) == maximize("polite", range=(0, 1))
    assert minimize(polite, range=(0, 5)) == minimize("polite", range=(0, 5))
    with pytest.raises(InvalidArgumentError, match="not empty"):
        maximize(type("Nameless", (), {"__call__": lambda *x: 1.0})())
