"""Hypervolume and layers, against what a pencil gives."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell import (
    BestFeasible,
    IncompatibleMethodError,
    InvalidScoresError,
    ParetoSet,
    Result,
    Selector,
    at_most,
    minimize,
)
from asktell.numerics.pareto import pareto_mask
from asktell.problem.goals import Goal
from asktell.results.result import hypervolume, layers


def result(goal: Goal, *rows: Sequence[float]) -> Result:
    """The result of prompts whose estimates are exactly these rows, one more that was never evaluated."""
    prompts = [f"p{i}" for i in range(len(rows) + 1)]
    selector = Selector(
        prompts, goal, 100, "uniform", examples=2, inputs="given", repeats=1
    )
    for i, row in enumerate(rows):
        for example in range(2):
            selector.observe(i, row, example)
    return selector.result()


@pytest.mark.parametrize(
    ("rows", "reference", "volume"),
    [
        ([], [0, 0], 0),
        ([[3]], [1], 2),
        ([[3], [2]], [-1], 4),
        ([[1, 2]], [0, 0], 2),
        ([[1, 2], [2, 1]], [0, 0], 3),  # two rectangles of 2 that share a square
        # The dominated and the double add nothing
        ([[1, 2], [2, 1], [1, 1], [1, 2]], [0, 0], 3),
        ([[1, 2], [-1, 5]], [0, 0], 2),  # nor does what is not above the reference
        ([[0, 5]], [0, 0], 0),
        ([[1, 2], [2, 1]], [-1, -1], 8),  # 2 * 3 + 3 * 2 - 2 * 2
        # A cube of 1 and one more on three of its sides
        ([[1, 1, 2], [2, 1, 1], [1, 2, 1]], [0, 0, 0], 4),
        ([[2, 2, 2, 2], [1, 1, 1, 3]], [0, 0, 0, 0], 17),  # 16 and 1 * 1 * 1 * (3 - 2)
    ],
)
def test_volumes_by_hand(
    rows: list[list[float]], reference: list[float], volume: float
) -> None:
    values = np.array(rows, dtype=float).reshape(len(rows), len(reference))
    assert hypervolume(values, np.array(reference, dtype=float)) == pytest.approx(
        volume
    )


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (np.zeros((0, 2)), []),
        ([[1], [3], [3], [2]], [[1, 2], [3], [0]]),
        ([[1, 2], [2, 1], [0, 0], [1, 2], [-1, 5], [1, 1]], [[0, 1, 3, 4], [5], [2]]),
        (
            [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
            [[3, 4], [1, 2], [0]],
        ),
    ],
)
def test_layers_by_hand(rows: list[list[float]], found: list[list[int]]) -> None:
    assert [layer.tolist() for layer in layers(np.array(rows, dtype=float))] == found


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=25))
def test_a_layer_is_the_front_of_what_the_layers_before_leave(
    rows: list[tuple[int, ...]],
) -> None:
    values = np.array(rows, dtype=float)
    left = np.arange(len(rows))
    for layer in layers(values):
        np.testing.assert_array_equal(layer, left[pareto_mask(values[left])])
        left = np.setdiff1d(left, layer)
    assert not len(left)


def test_a_results_volume_is_in_the_metrics_units_and_directions() -> None:
    # Costs fall: from the worst, quality 0 and cost 9, the front dominates 2 * 6 + (4 -
    # 2) * 4.
    found = result(
        ParetoSet("quality", minimize("cost")), [2, 3], [4, 5], [0, 9], [1, 4]
    )
    assert {entry.id for entry in found.selected} == {0, 1}
    assert found.hypervolume() == pytest.approx(20)
    assert found.hypervolume({"quality": 1, "cost": 6}) == pytest.approx(1 * 3 + 2 * 1)
    assert found.hypervolume({"cost": 1, "quality": 0}) == 0
    with pytest.raises(InvalidScoresError, match="cost"):
        found.hypervolume({"quality": 1})


def test_a_range_of_a_metric_does_not_change_its_units() -> None:
    goal = ParetoSet("quality", minimize("cost", range=(0, 1000)))
    assert result(goal, [2, 3], [0, 9]).hypervolume() == pytest.approx(12)


def test_a_results_layers_are_prompts() -> None:
    found = result(
        ParetoSet("quality", minimize("cost")), [2, 3], [4, 5], [0, 9], [1, 4]
    )
    # The one that was never evaluated is expected to be as the mean of the others:
    # quality 1.75, cost 5.25.
    assert [[entry.id for entry in layer] for layer in found.layers()] == [
        [0, 1],
        [3, 4],
        [2],
    ]


def test_under_constraints_only_feasible_prompts_count() -> None:
    goal = ParetoSet(
        "quality", minimize("cost"), subject_to={"toxicity": at_most(0.5), "cost": 8}
    )
    # The third and the fourth miss a constraint: the worst feasible values are 1 and 5.
    found = result(goal, [2, 3, 0.5], [4, 5, 0], [9, 0, 0.6], [0, 9, 0], [1, 4, 0.1])
    assert {entry.id for entry in found.selected} == {0, 1}
    assert found.feasible is True
    assert [entry.p_feasible for entry in found.prompts[:5]] == [
        1.0,
        1.0,
        0.0,
        0.0,
        1.0,
    ], "they are known exactly"
    feasible = [entry.estimate for entry in found.prompts if entry.feasible]
    worst = {
        "quality": min(e["quality"] or 0 for e in feasible),
        "cost": max(e["cost"] or 0 for e in feasible),
    }
    assert found.hypervolume() == pytest.approx(found.hypervolume(worst))
    assert found.hypervolume({"quality": 1, "cost": 5}) == pytest.approx(
        (2 - 1) * (5 - 3)
    )
    assert found.hypervolume({"quality": 0, "cost": 6}) == pytest.approx(2 * 3 + 2 * 1)
    # The last one was not evaluated, and may be in either layer.
    assert [
        [entry.id for entry in layer if entry.id != 5] for layer in found.layers()
    ] == [[0, 1], [4]]


def test_without_a_feasible_prompt_there_is_no_volume_and_no_layer() -> None:
    found = result(
        ParetoSet("quality", "brevity", subject_to={"quality": 9}), [2, 3], [4, 5]
    )
    assert [(entry.id, entry.feasible) for entry in found.selected] == [(1, False)]
    assert found.hypervolume() == found.hypervolume({"quality": 0, "brevity": 0}) == 0
    assert found.layers() == []


def test_nothing_known_has_no_volume_and_no_layers() -> None:
    found = result(ParetoSet("quality", "brevity"))
    assert found.hypervolume() == 0
    assert found.layers() == []


def test_a_single_best_prompt_has_no_front() -> None:
    found = result(BestFeasible("quality", {"brevity": 0.5}), [1, 1])
    for ask in (found.hypervolume, found.layers):
        with pytest.raises(IncompatibleMethodError, match="goal is a BestFeasible"):
            ask()
