import numpy as np
import pytest

from benchmarks.selection.metrics import evaluate
from tests.benchmarks.pools import exact

# The threshold at the .25 quantile of b is 4.75 with these: only the last prompt misses
# it.
POOL = ((1.0, 10.0), (2.0, 8.0), (3.0, 6.0), (9.0, 1.0))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            2,
            {
                "quality": 1.0,
                "hard": 1.0,
                "soft": 1.0,
                "infeasible": 0.0,
                "identified": 1.0,
                "regret": 0.0,
            },
        ),
        (
            1,
            {
                "quality": 0.0,
                "hard": 2 / 3,
                "soft": 2 / 3,
                "infeasible": 0.0,
                "identified": 0.0,
                "regret": 1.0,
            },
        ),
        (0, {"quality": 0.0, "hard": 1 / 3, "regret": 2.0, "violation": 0.0}),
        (
            3,
            {
                "quality": 0.0,
                "hard": 0.0,
                "soft": 0.0,
                "infeasible": 1.0,
                "violation": 3.75,
                "regret": 0.0,
            },
        ),
    ],
)
def test_best_feasible(answer: int, expected: dict[str, float]) -> None:
    found = evaluate(exact("best@.25", *POOL), [answer])
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_the_soft_reward_tolerates_a_tenth_of_the_threshold() -> None:
    problem = exact("best@.5", (1.0, 10.0), (2.0, 9.5), (3.0, 10.5))
    assert problem.threshold == 10.0
    found = evaluate(problem, [1])
    assert (found["hard"], found["soft"]) == (0.0, pytest.approx(2 / 3))


def test_no_answer_is_worth_nothing() -> None:
    assert evaluate(exact("best@.25", *POOL), [])["quality"] == 0.0
    assert evaluate(exact("pareto", *POOL), [])["quality"] == 0.0


def test_pareto_set_by_hand() -> None:
    # In units of the ranges: (0, 1), (1, 0), (.5, .5) and a dominated (.25, .25).
    problem = exact("pareto", (0.0, 4.0), (8.0, 0.0), (4.0, 2.0), (2.0, 1.0))
    assert evaluate(problem, [0, 1, 2])["quality"] == 1.0
    found = evaluate(problem, [2, 3])
    # The ends of the front span no area from the worst corner
    assert found["hypervolume"] == pytest.approx(1.0)
    assert (found["precision"], found["recall"], found["size"]) == (
        0.5,
        pytest.approx(1 / 3),
        2.0,
    )
    assert found["f1"] == pytest.approx(0.4)
    assert found["quality"] == pytest.approx(0.7)
    assert evaluate(problem, [3])["hypervolume"] == pytest.approx(0.25)


def test_a_constant_metric_does_not_break_the_hypervolume() -> None:
    problem = exact("pareto", (1.0, 1.0), (2.0, 1.0))
    assert evaluate(problem, [1])["hypervolume"] == 1.0
    assert evaluate(exact("pareto", (1.0, 1.0), (1.0, 1.0)), [0])["hypervolume"] == 1.0


# The median of b is 5: the first two keep a floor, the last three a ceiling (one of
# them on it keeps both).
FRONT_POOL = ((0.0, 9.0), (2.0, 7.0), (4.0, 5.0), (1.0, 4.0), (6.0, 1.0))


@pytest.mark.parametrize(
    ("goal", "feasible", "front"),
    [
        ("front@floor.5", [0, 1, 2], [0, 1, 2]),
        ("front@ceiling.5", [2, 3, 4], [2, 4]),
        ("pareto", range(5), [0, 1, 2, 4]),
    ],
)
def test_fronts_under_a_constraint(
    goal: str, feasible: list[int], front: list[int]
) -> None:
    problem = exact(goal, *FRONT_POOL)
    assert np.flatnonzero(problem.truth.feasible).tolist() == list(feasible)
    assert np.flatnonzero(problem.truth.front).tolist() == front
    assert evaluate(problem, front)["quality"] == 1.0
    assert evaluate(problem, [])["quality"] == 0.0


def test_only_feasible_members_count_from_the_worst_feasible_point() -> None:
    problem = exact(
        "front@floor.5", (0.0, 9.0), (2.0, 7.0), (4.0, 5.0), (9.0, 4.0), (9.0, 1.0)
    )
    # In the box of the feasible ones: (0, 1), (.5, .5), (1, 0).
    found = evaluate(problem, [1, 3])
    assert found["hypervolume"] == 1.0
    assert (found["f1"], found["size"], found["infeasible"]) == (
        pytest.approx(2 / 5),
        2.0,
        1.0,
    )
    assert evaluate(problem, [3, 4])["quality"] == 0.0
    assert "infeasible" not in evaluate(exact("pareto", *FRONT_POOL), [0])
