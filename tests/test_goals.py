import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asktell import (
    BestFeasible,
    InvalidArgumentError,
    InvalidScoresError,
    ParetoSet,
    Selector,
    at_least,
    at_most,
    maximize,
    minimize,
)
from asktell.problem.objectives import Constraint

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("goal", "text", "metrics"),
    [
        (BestFeasible("rouge"), "maximize rouge", ("rouge",)),
        (
            BestFeasible("rouge", {"brevity": 0.5}),
            "maximize rouge subject to brevity >= 0.5",
            ("rouge", "brevity"),
        ),
        (
            BestFeasible(
                minimize("cost"),
                {minimize("latency"): 2, "rouge": at_least(0.1), "cost": at_most(9)},
            ),
            "minimize cost subject to latency <= 2, rouge >= 0.1, cost <= 9",
            ("cost", "latency", "rouge"),
        ),
        (
            ParetoSet("rouge", minimize("cost")),
            "Pareto set: maximize rouge, minimize cost",
            ("rouge", "cost"),
        ),
        (
            ParetoSet(
                "rouge",
                minimize("cost"),
                subject_to={"toxicity": at_most(0.1), "brevity": 0.5},
            ),
            "Pareto set: maximize rouge, minimize cost subject to toxicity <= 0.1, brevity >= 0.5",
            ("rouge", "cost", "toxicity", "brevity"),
        ),
        (
            ParetoSet("a", minimize("b"), subject_to={"b": 2, "a": at_least(0.5)}),
            "Pareto set: maximize a, minimize b subject to b <= 2, a >= 0.5",
            ("a", "b"),
        ),
    ],
)
def test_a_goal_reads_as_it_was_meant(
    goal: Any, text: str, metrics: tuple[str, ...]
) -> None:
    assert str(goal) == text
    assert goal.metrics == metrics


@pytest.mark.parametrize(
    ("goal", "means", "values"),
    [
        (BestFeasible("a"), [0.25], [0.25]),
        (BestFeasible(minimize("a")), [0.25], [-0.25]),
        (BestFeasible("a", {"b": 0.5}), [1, 0.75], [1, 0.25]),
        (BestFeasible("a", {"b": at_most(0.5)}), [1, 0.75], [1, -0.25]),
        (BestFeasible("a", {minimize("b"): 0.5}), [1, 0.25], [1, 0.25]),
        (BestFeasible("a", {minimize("b"): at_least(0.5)}), [1, 0.25], [1, -0.25]),
        # Slacks are in units of the range.
        (BestFeasible("a", {maximize("b", range=(0, 10)): 5}), [1, 7], [1, 0.2]),
        (BestFeasible("a", {"b": 0.5, "c": at_most(8)}), [1, 1, 4], [1, 0.5, 4]),
        (BestFeasible("a", {"a": 0.5}), [0.75], [0.75, 0.25]),
        (
            BestFeasible("a", {"b": at_least(1), minimize("b"): 3}),
            [1, 2.5],
            [1, 1.5, 0.5],
        ),
        (ParetoSet("a", minimize("b")), [1, 2], [1, -2]),
        (
            ParetoSet(maximize("a", range=(-1, 3)), minimize("b", range=(0, 8))),
            [1, 2],
            [0.25, -0.25],
        ),
        # Objectives, then slacks.
        (
            ParetoSet("a", minimize("b"), subject_to={"c": at_most(3)}),
            [1, 2, 3.5],
            [1, -2, -0.5],
        ),
        (
            ParetoSet("a", minimize("b"), subject_to={"a": 0.75, "b": 3}),
            [1, 2],
            [1, -2, 0.25, 1],
        ),
        (
            ParetoSet("a", minimize("b", range=(0, 8)), subject_to={"b": 3}),
            [1, 2],
            [1, -0.25, 0.125],
        ),
        (
            ParetoSet("a", subject_to={minimize("c", range=(0, 10)): 3}),
            [1, 8],
            [1, -0.5],
        ),
    ],
)
def test_values_are_larger_the_better(
    goal: Any, means: list[float], values: list[float]
) -> None:
    np.testing.assert_allclose(goal.values(np.array([means], dtype=float)), [values])


def test_a_mean_that_meets_its_bound_but_for_rounding_is_feasible() -> None:
    mean = np.array([[1.0, sum([0.1] * 3) / 3]])
    assert mean[0, 1] != 0.1
    for bound in (at_least(0.1), at_most(0.1)):
        assert BestFeasible("a", {"b": bound}).values(mean)[0, 1] == 0.0
    assert BestFeasible("a", {"b": 0.1 + 1e-7}).values(mean)[0, 1] < 0


@pytest.mark.parametrize(
    "scores",
    [
        {"a": 1, "b": 2.5},
        {"b": 2.5, "a": 1},
        [1, 2.5],
        (1.0, 2.5),
        np.array([1, 2.5]),
        np.array([1, 2.5], dtype=np.float32),
        [True, Decimal("2.5")],
        {"a": np.int64(1), "b": Fraction(5, 2)},
        [np.float16(1), np.array(2.5)],
    ],
)
def test_scores_come_as_a_mapping_or_in_order_as_any_kind_of_number(
    scores: Any,
) -> None:
    vector = ParetoSet("a", "b").vector(scores)
    assert vector == (1.0, 2.5)
    assert all(type(score) is float for score in vector)


BAD_SCORES = [
    (None, "NoneType"),
    ("12", "str"),
    (b"12", "bytes"),
    (3.0, "float"),
    ({1.0, 2.0}, "set"),
    (iter([1, 2]), "iterator"),
    ([], "but the number of scores is 0"),
    ([1], "but the number of scores is 1"),
    ([1, 2, 3], "but the number of scores is 3"),
    ({}, "but they lack ['a', 'b']"),
    ({"a": 1}, "but they lack ['b']"),
    ({"a": 1, "c": 1}, "but they lack ['b']. Got ['c']"),
    ([1, NAN], "'b' must be a finite number of at most 1e+100 in size. Got nan"),
    (
        {"a": INF, "b": 1},
        "'a' must be a finite number of at most 1e+100 in size. Got inf",
    ),
    ([1, -INF], "Got -inf"),
    ([1, 1e101], "of at most 1e+100 in size. Got 1e+101"),
    ([1, "2"], "'b' must be a number, got '2'"),
    ([None, 2], "'a' must be a number, got None"),
    ([1, 2j], "must be a number"),
    ([1, [2]], "must be a number, got [2]"),
    ([1, np.array([2.0, 3.0])], "'b' must be a"),
    ([1, 10**400], "'b' must be a"),
    ([[1, 2]], "but the number of scores is 1"),
    (np.array(1.0), "ndarray"),
    (np.ones((2, 2)), "'a' must be a"),
    (np.array(["x", "y"]), "'a' must be a"),
]


@pytest.mark.parametrize(("scores", "said"), BAD_SCORES)
def test_bad_scores_are_refused_with_what_came_and_what_was_expected(
    scores: Any, said: str
) -> None:
    with pytest.raises(InvalidScoresError) as error:
        ParetoSet("a", "b").vector(scores)
    assert said in str(error.value)


BAD_GOALS = [
    (lambda: ParetoSet(), "at least one metric"),
    (lambda: ParetoSet("a", "a"), "twice: ['a', 'a']"),
    (lambda: ParetoSet("a", minimize("a")), "twice"),
    (lambda: ParetoSet(1), "got 1"),  # type: ignore[arg-type]
    (lambda: ParetoSet(["a", "b"]), "['a', 'b']"),  # type: ignore[arg-type]
    (lambda: ParetoSet(""), "text that is not empty, got ''"),
    (lambda: ParetoSet("a", {"b": 1}), "by name: ParetoSet(..., subject_to={'b': 1})"),  # type: ignore[arg-type]
    (
        lambda: ParetoSet("a", subject_to=at_most(1)),
        "must be a mapping from metric to bound",
    ),  # type: ignore[arg-type]
    (lambda: ParetoSet("a", subject_to="b"), "must be a mapping from metric to bound"),  # type: ignore[arg-type]
    (
        lambda: ParetoSet("a", subject_to={"b": ...}),
        "the bound on 'b' needs a number, got Ellipsis",
    ),  # type: ignore[dict-item]
    (
        lambda: ParetoSet("a", subject_to={"b": "1"}),
        "the bound on 'b' needs a number, got '1'",
    ),  # type: ignore[dict-item]
    (
        lambda: ParetoSet("a", subject_to={"b": float("nan")}),
        "needs a single finite number",
    ),
    (lambda: ParetoSet("a", subject_to={1: 1}), "must be a metric's name"),  # type: ignore[dict-item]
    (lambda: ParetoSet("a", subject_to={"": 1}), "text that is not empty, got ''"),
    (
        lambda: ParetoSet(
            maximize("a", range=(0, 1)), subject_to={minimize("a", range=(0, 2)): 1}
        ),
        "'a' has two ranges, (0.0, 1.0) and (0.0, 2.0). Give one",
    ),
    (
        lambda: ParetoSet(
            "a",
            subject_to={maximize("b", range=(0, 1)): 0, minimize("b", range=(0, 2)): 1},
        ),
        "'b' has two ranges",
    ),
    (lambda: maximize(3), "text that is not empty, got 3"),  # type: ignore[arg-type]
    (lambda: maximize("a", range=(1, 1)), "is larger by at least 1e-50. Got (1, 1)"),
    (lambda: maximize("a", range=(2, 1)), "is larger by"),
    (lambda: maximize("a", range=(0, INF)), "finite"),
    (lambda: minimize("a", range=(NAN, 1)), "finite"),
    (lambda: minimize("a", range=(0,)), "two finite numbers"),  # type: ignore[arg-type]
    (lambda: minimize("a", range=3), "two finite numbers"),  # type: ignore[arg-type]
    (lambda: minimize("a", range=("low", "high")), "two finite numbers"),  # type: ignore[arg-type]
    (lambda: minimize("a", range=(0, 10**400)), "finite"),
    (lambda: minimize("a", range=(-1e308, 1e308)), "finite"),
    (lambda: BestFeasible(None), "got None"),  # type: ignore[arg-type]
    (lambda: BestFeasible("a", "b"), "mapping from metric to bound"),  # type: ignore[arg-type]
    (lambda: BestFeasible("a", None), "got None"),  # type: ignore[arg-type]
    (lambda: BestFeasible("a", ["b"]), "got ['b']"),  # type: ignore[list-item]
    (lambda: BestFeasible("a", {"b": "0.5"}), "'b' needs a number, got '0.5'"),  # type: ignore[dict-item]
    (lambda: BestFeasible("a", {"b": None}), "got None"),  # type: ignore[dict-item]
    (lambda: BestFeasible("a", {"b": True}), "got True"),
    (lambda: BestFeasible("a", {"b": NAN}), "got nan"),
    (lambda: BestFeasible("a", {"b": 10**400}), "finite"),
    (lambda: BestFeasible("a", {"b": np.array([1.0, 2.0])}), "number"),  # type: ignore[dict-item]
    (lambda: BestFeasible("a", {3: 0.5}), "got 3"),  # type: ignore[dict-item]
    (lambda: BestFeasible("a", {"": 0.5}), "not empty"),
    (lambda: at_least(-1e101), "at most 1e+100 in size"),
    (lambda: maximize("a", range=(0, 1e-51)), "is larger by at least"),
    (lambda: at_least("x"), "at_least() needs a number, got 'x'"),  # type: ignore[arg-type]
    (
        lambda: at_most(INF),
        "at_most() needs a single finite number of at most 1e+100 in size, got inf",
    ),
]


@pytest.mark.parametrize(("make", "said"), BAD_GOALS)
def test_bad_goals_are_refused_with_what_came_and_what_was_expected(
    make: Any, said: str
) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        make()
    assert said in str(error.value)


def test_goals_are_values() -> None:
    assert BestFeasible("a", {"b": 0.5}) == BestFeasible("a", {"b": at_least(0.5)})
    assert BestFeasible("a", {"b": 0.5}) != BestFeasible("a", {"b": at_most(0.5)})
    assert hash(ParetoSet("a", "b")) == hash(ParetoSet("a", "b"))
    assert ParetoSet("a", "b") != ParetoSet("b", "a")


def test_a_constrained_pareto_set_knows_directions_ranges_and_constraints() -> None:
    goal = ParetoSet(
        "a",
        minimize("b", range=(0, 8)),
        subject_to={"b": 3, "a": at_most(9), minimize("c"): 1, "d": 1},
    )
    assert goal.is_constrained
    assert goal.minimized == {"b", "c"}  # a is wanted large, though not too large
    assert goal.ranges == {"b": (0.0, 8.0)}
    assert [c.at_most for c in goal.constraints] == [True, True, True, False]
    assert goal.constraints[0].scale == 8
    assert not ParetoSet("a", "b").is_constrained
    assert ParetoSet("a", "b", subject_to={}) == ParetoSet("a", "b")
    assert ParetoSet("a", "b", subject_to={"c": 1}) != ParetoSet("a", "b")
    assert hash(goal) == hash(ParetoSet(*goal.objectives, subject_to=goal.constraints))


def test_bounds_that_differ_in_the_last_digit_stay_two() -> None:
    """A share's column is named by its bound, and a constraint's margin by its text."""
    nearly = math.nextafter(2.0, 3.0)
    slow, slower = (
        Constraint("latency", bound, True, quantile=0.95) for bound in (2.0, nearly)
    )
    goal = BestFeasible("accuracy", [slow, slower])
    assert goal.columns == (
        "accuracy",
        "latency",
        "latency <= 2",
        "latency <= 2.0000000000000004",
    )
    assert [bound.column for bound in goal.bounds] == [2, 3]
    others = [
        Constraint("latency", 2.0, True, quantile=np.float64(0.950000001)),
        Constraint("latency", 2.0, True),
        Constraint("latency", nearly, True),
        Constraint("latency", 1e-7, True),
        Constraint("latency", 100000.5, False, quantile=0.05),
    ]
    assert list(map(str, (slow, slower, *others))) == [
        "latency <= 2 on 95% of the examples",
        "latency <= 2.0000000000000004 on 95% of the examples",
        "latency <= 2 on 95.0000001% of the examples",
        "latency <= 2",
        "latency <= 2.0000000000000004",
        "latency <= 1e-07",
        "latency >= 100000.5 on 95% of the examples",
    ]
    selector = Selector(["x", "y"], goal, 4, "uniform", 2)
    for _ in range(4):
        selector.tell(selector.ask(), {"accuracy": 1.0, "latency": 1.0})
    assert selector.result().prompts[0].estimate.keys() >= {
        "latency <= 2",
        "latency <= 2.0000000000000004",
    }


def test_a_bare_bound_on_an_objective_goes_in_its_direction() -> None:
    assert (
        str(BestFeasible(minimize("cost"), {"cost": 2}))
        == "minimize cost subject to cost <= 2"
    )
    assert (
        str(BestFeasible(minimize("cost"), {"cost": at_least(2)}))
        == "minimize cost subject to cost >= 2"
    )
