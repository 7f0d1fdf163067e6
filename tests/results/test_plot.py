"""Pictures of results; drawn without a display."""

import io
import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell import BestFeasible, ParetoSet, Selector, at_most, minimize
from asktell.results.plot import MOST_LABELS, drawable
from tests.plays import play


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def selector(goal: Any, n_told: int = 30, prompts: Any = None) -> Selector:
    prompts = prompts or [f"prompt {k}" for k in range(8)]
    selector = Selector(prompts, goal, 32, "uniform", examples=20)
    for trial in sorted(selector.ask(32))[:n_told]:
        m = len(selector.metrics)
        selector.tell(
            trial,
            [((trial.id % 8) * (j * 2 - 1) % 7) + (trial.id % 3) / 9 for j in range(m)],
        )
    return selector


GOALS = [
    BestFeasible("a"),
    BestFeasible("a", {"b": 3.0}),
    BestFeasible(minimize("a"), {"b": at_most(3.0), "c": 1.0}),
    BestFeasible("a", {"a": 2.0}),
    ParetoSet("a"),
    ParetoSet("a", "b"),
    ParetoSet("a", minimize("b", range=(0, 9))),
    ParetoSet("a", "b", "c"),
    ParetoSet("a", minimize("b"), subject_to={"b": 3.0}),
    ParetoSet("a", "b", subject_to={"c": at_most(3.0)}),
    ParetoSet("a", "b", subject_to={"c": 1000.0}),
]


@pytest.mark.parametrize(
    ("goal", "n_told"),
    [*((goal, 30) for goal in GOALS), *((goal, 0) for goal in GOALS[2::4])],
)
def test_draws_every_goal_at_every_stage_into_a_file(
    goal: Any, n_told: int, tmp_path: Path
) -> None:
    result = selector(goal, n_told).result()
    figure = result.plot().figure
    file = tmp_path / "result.png"
    figure.savefig(file, dpi=40)
    assert file.read_bytes().startswith(b"\x89PNG")
    m = len(goal.metrics)
    drawn = [axes for axes in figure.axes if axes.axison]
    assert len(drawn) == max(1, m * (m - 1) // 2)
    for axes in drawn:
        points = sum(
            len(container.lines[0].get_xdata()) for container in axes.containers
        )
        assert points == sum(entry.evaluations > 0 for entry in result.prompts)
        assert m == 1 or axes.get_xlabel() != axes.get_ylabel()
    assert str(goal) in drawn[0].get_title() + figure.get_suptitle()


def test_points_are_where_the_estimates_are() -> None:
    result = selector(ParetoSet("a", minimize("b"))).result()
    axes = result.plot()
    points = {
        (float(x), float(y))
        for container in axes.containers
        for x, y in zip(*container.lines[0].get_data(), strict=True)
    }
    assert points == {(e.estimate["a"], e.estimate["b"]) for e in result.prompts}
    assert {text.get_text() for text in axes.texts} == {
        str(e.id) for e in result.selected
    }


@pytest.mark.parametrize("n_prompts", [2, 8])
def test_ranks_are_whole_numbers(n_prompts: int) -> None:
    ax = (
        selector(BestFeasible("a"), 16, [f"prompt {k}" for k in range(n_prompts)])
        .result()
        .plot()
    )
    assert all(tick == int(tick) for tick in ax.get_xticks())


def test_thresholds_are_lines_and_fronts_are_staircases() -> None:
    axes = selector(BestFeasible("a", {"b": 3.0, "c": 1.0})).result().plot("a", "b")
    assert [
        line.get_label() for line in axes.lines if line.get_linestyle() == "--"
    ] == ["b >= 3"]
    low, high = axes.get_ylim()
    assert low <= 3.0 <= high
    axes = selector(BestFeasible("a", {"b": 3.0, "c": 1.0})).result().plot("c", "b")
    assert {
        line.get_label() for line in axes.lines if line.get_linestyle() == "--"
    } == {"b >= 3", "c >= 1"}
    axes = selector(ParetoSet("a", "b")).result().plot()
    assert "Pareto set" in [line.get_label() for line in axes.lines]


def test_a_front_under_constraints_is_that_of_the_feasible_and_others_are_crossed_out() -> (
    None
):
    result = selector(ParetoSet("a", "b", subject_to={"c": 2.0})).result()
    infeasible = {e.estimate["a"] for e in result.prompts if e.feasible is False}
    lines = {line.get_label(): line for line in result.plot().lines}
    assert infeasible
    assert (
        set(lines[f"violates a constraint ({len(infeasible)})"].get_xdata())
        == infeasible
    )
    assert set(lines["Pareto set"].get_xdata()) <= {
        e.estimate["a"] for e in result.selected
    }
    assert "c >= 2" not in lines
    labels = [line.get_label() for line in result.plot("a", "c").lines]
    assert "c >= 2" in labels
    assert "Pareto set" not in labels
    on_axis = selector(ParetoSet("a", "b", subject_to={"b": 2.0})).result().plot()
    labels = [line.get_label() for line in on_axis.lines]
    assert {"Pareto set", "b >= 2"} <= set(labels)
    assert not any(str(label).startswith("violates") for label in labels)


def test_axes_and_metrics_can_be_chosen() -> None:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots()
    result = selector(ParetoSet("a", "b", "c")).result()
    assert result.plot("c", "a", ax=axes) is axes
    assert axes.get_xlabel().startswith("c")
    assert axes.get_ylabel().startswith("a")


@pytest.mark.parametrize("half", [chr(0xD83D), chr(0xDE00)])
@pytest.mark.parametrize("kind", ["best", "front"])
def test_half_a_character_is_drawn_as_a_replacement(half: str, kind: str) -> None:
    metric, other = f"a{half}", "b"
    goal = (
        BestFeasible(metric, {other: 0.5})
        if kind == "best"
        else ParetoSet(other, minimize(metric))
    )
    selector = Selector({f"x{half}y": "one", "z": "two"}, goal, 8)
    play(selector, lambda trial: [trial.prompt == "one", 1.0])
    result = Selector.from_json(selector.to_json()).result()
    assert f"x{half}y" in {entry.id for entry in result.prompts}
    ax = result.plot()
    ax.figure.savefig(io.BytesIO())  # type: ignore[union-attr]
    assert "a\ufffd" in ax.get_xlabel() + ax.get_ylabel()
    if kind == "best":
        # Which may be the best
        assert [text.get_text() for text in ax.texts] == ["x\ufffdy", "z"]


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_any_text_can_be_drawn_saved_and_printed(text: str) -> None:
    drawn = drawable(text)
    assert drawable(drawn) == drawn
    drawn.encode()
    if text.isprintable():
        assert all(a in (b, "\ufffd", " ") for a, b in zip(drawn, text, strict=True))
    selector = Selector({text: f"a prompt {text}", "other": "b"}, BestFeasible("a"), 2)
    selector.tell(selector.ask() or "", [1.0])
    result = Selector.from_json(selector.to_json().encode()).result()
    assert {entry.id for entry in result.prompts} == {text, "other"}
    json.dumps(result.to_dict()).encode()
    str(result).encode()


def test_a_plane_names_few_prompts_and_those_that_matter_first() -> None:
    selector = Selector(
        {f"id {k}": f"prompt {k}" for k in range(40)}, ParetoSet("a", "b"), 40
    )
    for k in range(40):  # a long front: all but some are on it
        selector.observe(f"id {k}", [k, 40 - k - (k % 7 == 3) * 5])
    result = selector.result()
    axes = result.plot()
    axes.figure.canvas.draw()
    named = [text.get_text() for text in axes.texts]
    first = [str(entry.id) for entry in result.selected[:MOST_LABELS]]
    assert named == [id_ for id_ in first if id_ in named]
    assert len(named) >= MOST_LABELS - 2
    boxes = [text.get_window_extent() for text in axes.texts]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
