"""Selections that go on: prompts join or are retired, money and examples are added."""

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asktell
from asktell import (
    Adaptive,
    BestFeasible,
    Budget,
    ParetoSet,
    Race,
    Selector,
    at_least,
    maximize,
)
from asktell.errors import (
    IncompatibleMethodError,
    InvalidArgumentError,
    InvalidStateError,
)
from asktell.problem.examples.examples import Examples
from asktell.problem.problem import Problem
from asktell.record.growth import problem_after
from tests.presets import PRESETS

A = maximize("a", tolerance=0.2)
GOALS = {
    "best": BestFeasible(A, {"b": at_least(0.3, tolerance=0.2)}),
    "set": ParetoSet(A, maximize("b", tolerance=0.2)),
}
TAKES_MORE = {
    "auto": "auto",
    "race": Race(block=2),
    "sure": Adaptive(confidence=0.9),
}


def scores(prompt: str, example: int | None) -> list[float]:
    """Of any prompt on any example, for ever the same."""
    rng = random.Random(f"{prompt}/{example}")
    level = random.Random(prompt).random()
    return [round(level + 0.2 * rng.random(), 6), rng.random()]


def play(selector: Selector, steps: int = 10_000) -> list[asktell.Trial]:
    asked = []
    while len(asked) < steps and (trial := selector.ask()):
        selector.tell(
            trial,
            scores(trial.prompt, trial.example)[: len(selector.metrics)],
            cost=1.0,
        )
        asked.append(trial)
    return asked


def statuses(selector: Selector) -> dict[Any, str]:
    return {entry.id: entry.status for entry in selector.result().prompts}


def facts(selector: Selector) -> Any:
    return (
        selector.to_json(),
        selector.state.finished,
        selector.state.active.tolist(),
        selector.prompts.texts,
    )


# Whatever is played


# Prompts that join


@pytest.mark.parametrize("method", sorted(TAKES_MORE))
@pytest.mark.parametrize("goal", sorted(GOALS))
def test_a_selection_that_was_done_goes_on_with_newcomers(
    method: str, goal: str
) -> None:
    selector = Selector(
        ["a", "b", "c"], GOALS[goal], 15, TAKES_MORE[method], examples=20
    )
    before = play(selector)
    assert selector.done
    assert selector.add(["d", "e"]) == [3, 4]
    assert selector.done  # there is no money
    selector.extend(evaluations=10)
    assert not selector.done
    after = play(selector)
    assert selector.done
    assert {trial.prompt_id for trial in after} >= {3, 4}
    assert len(before) + len(after) == selector.spent <= 25
    assert not {(t.prompt_id, t.example) for t in before} & {
        (t.prompt_id, t.example) for t in after
    }
    assert len(selector.result().prompts) == 5


@pytest.mark.parametrize("method", ["auto", "sure"])
def test_newcomers_take_examples_that_the_others_have_seen(method: str) -> None:
    selector = Selector(
        [f"p{k}" for k in range(20)],
        BestFeasible("a"),
        200,
        TAKES_MORE[method],
        examples=1000,
    )
    seen = {trial.example for trial in play(selector, 100)}
    new = selector.add([f"n{k}" for k in range(4)])
    firsts: dict[Any, int | None] = {}
    for trial in play(selector, 60):
        firsts.setdefault(trial.prompt_id, trial.example)
    assert {firsts[id_] for id_ in new} <= seen


def test_newcomers_of_a_race_catch_up_before_anybody_goes_on() -> None:
    selector = Selector(
        ["a", "b"],
        BestFeasible("a"),
        200,
        Race(confidence=0.999, block=5),
        examples=100,
    )
    rng = random.Random(0)

    def play(selector: Selector, n: int) -> list[asktell.Trial]:
        trials = [trial for _ in range(n) if (trial := selector.ask())]
        for trial in trials:
            selector.tell(trial, [rng.random()])
        return trials

    before = play(selector, 20)
    new = selector.add(["c", "d"])
    before += play(selector, 10)  # the block that was planned already
    after = play(selector, 30)
    assert {trial.prompt_id for trial in after} == set(new)
    places = {(trial.prompt_id, trial.example) for trial in after}
    assert places == {(id_, trial.example) for id_ in new for trial in before}
    assert len({trial.prompt_id for trial in play(selector, 20)}) == 4


def test_a_race_that_had_no_money_for_all_completes_the_example_when_there_is_more() -> (
    None
):
    selector = Selector(
        ["a", "b", "c"],
        BestFeasible("a"),
        8,
        Race(confidence=0.999, block=1),
        examples=100,
    )
    asked = play(selector)
    assert len(asked) == 8
    selector.extend(1)
    (last,) = play(selector)
    counts = {
        e: [t.example for t in [*asked, last]].count(e)
        for e in {t.example for t in asked}
    }
    assert set(counts.values()) == {3}


def test_ids_are_positions_or_names_as_before() -> None:
    named = Selector({"x": "one"}, BestFeasible("a"), 5)
    with pytest.raises(InvalidArgumentError, match="have ids"):
        named.add(["two"])
    assert named.add({"y": "two", "z": "three"}) == ["y", "z"]
    assert named.add({"x": "one", "w": "four"}) == ["x", "w"]  # the first is no news
    assert named.add({"w": "four"}) == ["w"]
    assert [entry.id for entry in named.result().prompts] == ["x", "y", "z", "w"]
    numbered = Selector(["one"], BestFeasible("a"), 5)
    with pytest.raises(InvalidArgumentError, match="positions"):
        numbered.add({"y": "two"})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["one"], "exists already, with the id 0"),
        (["two", "two"], "more than once"),
        ([], "empty"),
        ("two", "list of texts"),
        ([2], "must be text"),
    ],
)
def test_bad_newcomers_change_nothing(more: Any, message: str) -> None:
    selector = Selector(["one"], BestFeasible("a"), 5)
    before = facts(selector)
    with pytest.raises(InvalidArgumentError, match=message):
        selector.add(more)
    assert facts(selector) == before


def test_a_request_with_a_key_is_done_once() -> None:
    selector = Selector(["one"], BestFeasible("a"), 5)
    assert selector.add(["two"], key="k1") == [1]
    assert selector.add(["three"]) == [2]
    for _ in range(2):
        assert selector.add(["two"], key="k1") == [1]
        selector.extend(3, key="k2")
        selector.retire("two", "old", key="k3")
    assert (selector.budget, statuses(selector)[1]) == (8, "retired")
    with pytest.raises(InvalidArgumentError, match="different request"):
        selector.extend(3, key="k1")
    before = facts(selector)
    for more in (["four"], ["two", "four"]):
        with pytest.raises(InvalidArgumentError, match="different request"):
            selector.add(more, key="k1")
    assert facts(selector) == before
    before = facts(selector)
    for again in (
        lambda: selector.extend(3, key="k1"),
        lambda: selector.add(["four"], key="k1"),
        lambda: selector.extend(4, key="k2"),
        lambda: selector.retire("three", "old", key="k3"),
    ):
        with pytest.raises(
            InvalidArgumentError, match=r"Nothing was done\. Choose another key"
        ):
            again()
    assert facts(selector) == before
    named = Selector({"x": "one"}, BestFeasible("a"), 5)
    more = {"y": "two", "x": "one", "z": "three"}
    for _ in range(2):
        assert named.add(more, key="k") == ["y", "x", "z"]
    with pytest.raises(InvalidArgumentError, match="different request"):
        named.add({"y": "two", "x": "one"}, key="k")


def test_a_newcomer_that_has_failed_on_every_example_is_asked_again_where_it_may_be() -> (
    None
):
    selector = Selector(
        ["a", "b"], BestFeasible("x"), 20, examples=1, repeats=3, max_failure_rate=1
    )
    for trial in selector.ask(2):
        selector.tell(trial, [0.5])
    selector.add(["c"])
    asked = 0
    while trial := selector.ask():
        if trial.prompt == "c":
            asked += 1
            selector.fail(trial, "boom")
        else:
            selector.tell(trial, [0.5 + trial.id % 3])
    assert asked == 3


# Features


def test_newcomers_have_no_features_since_methods_that_grow_use_none() -> None:
    features = [[0, 1], [1, 0], [1, 1]]
    selector = Selector(
        ["a", "b", "c"], BestFeasible("a"), 9, examples=9, features=features
    )
    assert selector.state.problem.features.tolist() == features
    selector.add(["d"])
    assert selector.state.problem.features is None
    play(selector)
    assert Selector.from_json(selector.to_json()).to_json() == selector.to_json()
    with pytest.raises(TypeError, match="features"):
        selector.add(["e"], features=[[1, 1]])  # type: ignore[call-arg]


# Prompts that leave


@pytest.mark.parametrize("method", [*TAKES_MORE, *PRESETS])
def test_a_retired_prompt_is_asked_no_more_and_its_trials_may_be_told(
    method: str,
) -> None:
    goal = GOALS["best" if method.startswith("csr") else "set"]
    selector = Selector(
        ["a", "b", "c", "d"], goal, 20, TAKES_MORE.get(method, method), examples=20
    )
    trials = selector.ask(4)
    out = next(trial for trial in trials if trial.prompt_id == 2)
    selector.retire("c", "too long")
    for trial in trials:
        selector.tell(trial, scores(trial.prompt, trial.example))
    assert 2 not in {trial.prompt_id for trial in play(selector)}
    entry = selector.result().prompts[2]
    assert (entry.status, entry.reason, entry.evaluations) == ("retired", "too long", 1)
    assert selector.state.history.scores_of(out.id) is not None
    assert 2 not in {each.id for each in selector.result().selected}
    with pytest.raises(
        InvalidArgumentError, match=r"retired already\. The reason was 'too long'"
    ):
        selector.retire(2, "again")


@pytest.mark.parametrize("method", [*TAKES_MORE, *PRESETS])
def test_when_the_answer_is_retired_another_one_is(method: str) -> None:
    goal = BestFeasible("a") if not method.startswith("ege") else ParetoSet("a")
    selector = Selector(
        ["a", "b", "c", "d"],
        goal,
        40,
        TAKES_MORE.get(method, method),
        examples=20,
        seed=1,
    )
    table = {"a": 0.2, "b": 0.9, "c": 0.6, "d": 0.4}

    def to_the_end() -> None:
        while trial := selector.ask():
            selector.tell(trial, [table[trial.prompt]])
        assert selector.done

    to_the_end()
    order = []
    while selected := selector.result().selected:
        order.append(selected[0].prompt)
        selector.retire(selected[0].id, "used up")
        assert Selector.from_json(selector.to_json()).to_json() == selector.to_json()
        to_the_end()
    assert order == ["b", "c", "d", "a"]
    assert set(statuses(selector).values()) == {"retired"}
    if method in TAKES_MORE:
        selector.extend(5)
        (new,) = selector.add(["b again"])
        table["b again"] = 0.9
        to_the_end()
        assert selector.result().selected[0].id == new


def test_the_baseline_is_not_retired() -> None:
    selector = Selector(["a", "b"], BestFeasible("a"), 5, baseline="a")
    with pytest.raises(InvalidArgumentError, match="baseline"):
        selector.retire("a", "old")
    for bad in ("nobody", 7, None):
        with pytest.raises(InvalidArgumentError, match="no prompt"):
            selector.retire(bad, "old")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="reason"):
        selector.retire("b", None)  # type: ignore[arg-type]


# More to spend, more to see


@pytest.mark.parametrize("method", sorted(TAKES_MORE))
def test_a_budget_grows_as_if_it_had_been_larger(method: str) -> None:
    selector = Selector(
        ["a", "b", "c"], BestFeasible("a"), 9, TAKES_MORE[method], examples=100
    )
    play(selector)
    first = statuses(selector)
    assert set(first.values()) == {"accepted", "rejected"}
    selector.extend(evaluations=9)
    assert selector.budget == 18
    assert set(statuses(selector).values()) == {"active"}
    play(selector)
    assert selector.done
    assert selector.result().to_dict()["budget"] == 18


def test_a_budget_of_cost_grows() -> None:
    selector = Selector(
        ["a", "b", "c"], BestFeasible("a"), Budget(cost=6.0), examples=100
    )
    assert len(play(selector)) == 6
    selector.extend(cost=3.5)
    assert selector.max_cost == 9.5
    assert len(play(selector)) == 3
    assert selector.budget == 300
    selector.add(["d"])
    assert selector.budget == 400
    with pytest.raises(InvalidArgumentError, match=r"cost of 9\.5"):
        selector.extend(evaluations=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "needs evaluations"),
        ({"evaluations": 0}, "evaluations"),
        ({"evaluations": 1.5}, "evaluations"),
        ({"evaluations": 10**8}, "100000000"),
        ({"cost": 1.0}, "whatever they cost"),
        ({"cost": float("nan")}, "cost"),
        ({"examples": 10**7}, "10000000"),
        ({"evaluations": 3, "key": ""}, "key"),
    ],
)
def test_bad_extensions_change_nothing(changes: Any, message: str) -> None:
    selector = Selector(["a", "b"], BestFeasible("a"), 9, examples=100)
    before = facts(selector)
    with pytest.raises(InvalidArgumentError, match=message):
        selector.extend(**changes)
    assert facts(selector) == before
    with pytest.raises(InvalidArgumentError, match="without `examples`"):
        Selector(["a", "b"], BestFeasible("a"), 9).extend(examples=3)


@given(
    first=st.integers(1, 30),
    more=st.lists(st.integers(1, 30), max_size=4),
    seed=st.integers(0, 99),
)
def test_examples_that_join_come_behind_those_there_were(
    first: int, more: list[int], seed: int
) -> None:
    problem = Problem(2, BestFeasible("a"), 5, Examples(first, seed=seed))
    for n in more:
        before = problem.examples
        problem = problem_after(problem, asktell.record.Extended(examples=n))
        now = problem.examples
        np.testing.assert_array_equal(now.order[: len(before.order)], before.order)
        np.testing.assert_array_equal(now.place[: len(before.place)], before.place)
        first += n
        assert sorted(now.order) == list(range(first))


def test_the_truth_becomes_the_larger_set() -> None:
    selector = Selector(
        ["a", "b"], BestFeasible("a"), 100, examples=3, inputs="given", repeats=1
    )
    assert len(play(selector)) == 6
    selector.extend(examples=2)
    assert sorted(trial.example or 0 for trial in play(selector)) == [3, 3, 4, 4]
    entry = selector.result().prompts[0]
    assert entry.estimate["a"] == pytest.approx(
        np.mean([scores("a", e)[0] for e in range(5)])
    )
    assert entry.standard_error["a"] == 0


# Methods that plan rounds


@pytest.mark.parametrize("method", PRESETS)
def test_methods_with_rounds_refuse_with_the_names_of_those_that_do_not(
    method: str,
) -> None:
    selector = Selector(
        ["a", "b"], GOALS["set" if method.startswith("ege") else "best"], 9, method
    )
    before = facts(selector)
    for call in (lambda: selector.add(["c"]), lambda: selector.extend(3)):
        with pytest.raises(
            IncompatibleMethodError,
            match=r"'auto' or 'race'.*This selection uses .*, which planned",
        ):
            call()
    assert facts(selector) == before


# Files


def test_a_saved_selection_has_the_budget_of_the_start_and_how_it_grew() -> None:
    selector = Selector(["a", "b"], BestFeasible("a"), 9)
    selector.extend(1)
    data = json.loads(selector.to_json())
    assert data["budget"] == 9
    assert data["state"]["growth"] == [[0, 0, 0.0, ["e", 1, 0.0, 0, None, None]]]


@pytest.mark.parametrize(
    "entry",
    [
        ["e", 1, 0.0, 0, None, None, None],
        ["e", -1, 0.0, 0, None, None],
        ["e", None, 1.0, 0, None, None],
        ["e", 1, False, 0, None, None],
        ["e", 1, 0.0, ["x"], None, None],
        ["e", 1, 0.0, 0, 7, None],
        ["q", 9, "x", None],
        ["n", None, ["a"], None, None],
        ["n", ["x"], ["new"], None, None],
        ["n", None, ["new"], [[1.0]], None],
        7,
    ],
)
def test_growth_that_cannot_have_been_is_refused(entry: Any) -> None:
    data = json.loads(Selector(["a", "b"], BestFeasible("a"), 9).to_json())
    data["state"]["growth"] = [[0, 0, 0.0, entry]]
    data["state"]["draws"] += [0] * (
        entry[0] == "n" if isinstance(entry, list) and entry else 0
    )
    with pytest.raises(InvalidStateError):
        Selector.from_json(data)
