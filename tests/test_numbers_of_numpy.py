"""Scalars of numpy are numbers, texts and flags in every argument, and saved as plain JSON."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import Adaptive, BestFeasible, Budget, ParetoSet, Race, Selector, Study
from asktell.extend import Goal
from asktell.methods import Elimination
from asktell.methods.rounds.allocators import GOptimalDesign
from asktell.methods.rounds.estimators import MLP, LeastSquares
from asktell.methods.rounds.parts import dump_part
from asktell.problem.examples.ids import ExampleIds

I, F, S = np.int64, np.float64, np.str_  # noqa: E741


def is_plain(value: Any) -> bool:
    """Whether a value and all that is in it is of Python."""
    if isinstance(value, dict):
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return type(value) in (str, int, float, bool, type(None))


def play(selector: Any, n: Any = None) -> None:
    while trials := selector.ask(I(1) if n is None else n):
        for trial in trials:
            name = str(trial.prompt_id)
            selector.tell(trial, F(0.3 + 0.05 * len(name) + trial.example % 7 / 20))


METHODS: list[Callable[[], Any]] = [
    lambda: Race(np.float32(0.9), np.int32(5)),
    lambda: Adaptive(F(2), np.float16(0.5), I(128), np.float32(0.9)),
    lambda: "auto",
    lambda: "uniform",
]


@pytest.mark.parametrize("make", METHODS)
def test_a_whole_selection_of_numpy_is_saved_and_continued(make: Any) -> None:
    import pandas as pd

    goal = BestFeasible(
        asktell.maximize(S("acc"), range=np.array([0, 1])),
        {
            S("acc"): asktell.at_least(
                np.float32(0.1), quantile=np.float32(0.05), in_every_segment=np.False_
            )
        },
        sure=np.float32(0.5) if isinstance(make(), str) and make() == "auto" else None,
    )
    selector = Selector(
        {S("a"): S("short"), S("bb"): S("a longer text")},
        goal,
        I(24),
        make(),
        examples=pd.Series([f"e{i}" for i in range(12)]),
        seed=np.uint64(2**63),
        sampling=S("shared"),
        on_failure={S("acc"): np.float32(0)},
        max_failure_rate=np.float32(0.5),
        baseline=S("a"),
        repeats=I(1),
        inputs=S("given"),
    )
    saved = selector.to_json()
    play(selector)
    again = Selector.from_json(saved, examples=I(12))
    play(again, 1)
    assert again.to_json() == selector.to_json()
    assert selector.result().best.id == "bb"
    assert is_plain(selector.result().to_dict())
    assert is_plain(dump_part(selector.method))


@pytest.mark.parametrize("kind", ["selector", "study", "bound"])
def test_ids_of_asktells_own_table_name_prompts_and_trials(kind: str) -> None:
    selector: Any = Selector(
        ["x", "y", "z"],
        BestFeasible("acc"),
        Budget(I(30), np.float32(9)),
        examples=I(20),
    )
    if kind != "selector":
        selector = Study.create("memory://numpy", kind, selector, max_attempts=I(3))
    if kind == "bound":
        selector = selector.worker(S("me"), lease=np.float32(60))
    trial = selector.ask()
    row = pytest.importorskip("pandas").DataFrame([trial._asdict()]).iloc[0]
    assert selector.release(row["id"])
    (trial,) = selector.ask(I(1))
    assert selector.tell(I(trial.id), np.float32(0.5), cost=np.float32(0.25))
    assert selector.observe(I(1), F(0.4), example=I(3), cost=I(0))
    (trial,) = selector.ask(1)
    as_json = [I(trial.id), I(trial.prompt_id), S(trial.prompt), I(trial.example)]
    assert selector.tell(as_json, {S("acc"): I(1)}, F(0.1))
    while trials := selector.ask(I(4)):
        selector.tell_many((I(t.id), F(0.5 + 0.1 * t.prompt_id), I(0)) for t in trials)
    result = selector.result()
    frame = result.to_dataframe()
    best, other = frame["id"].iloc[0], frame["id"].iloc[1]
    assert type(best) is not int
    for compare in (result.compare, selector.compare):
        assert compare(best, other, np.float32(0.9), np.float32(0.01)).a == best
    worst = frame.set_index("id")["acc"].idxmin()
    selector.retire(worst, S("worst"), key=S("k1"))
    selector.retire(int(worst), "worst", key="k1")
    selector.extend(examples=I(5), key=S("k2"))
    selector.extend(cost=np.float32(0.5))
    assert selector.add([S("a new one")], key=S("k3")) == [3]
    selector.remark(S("a note"), topic=S("acc"), doubtful=np.True_)
    assert len(list(selector.evaluations(I(2)))) == selector.spent - 2
    if kind == "selector":
        assert Selector.from_json(selector.to_json()).to_json() == selector.to_json()
    else:
        with Study.open("memory://numpy", kind) as again:
            assert again.result().to_dict() == selector.result().to_dict()
        Study.delete("memory://numpy", kind)


def test_levels_of_a_grid_are_plain() -> None:
    grid = asktell.grid(
        model=np.array(["small", "large"]),
        temperature=np.array([0.0, 0.5], dtype=np.float32),
        n=[I(1), I(2)],
        chat={S("yes"): np.True_, "no": np.False_},
    )
    assert is_plain(grid.to_data())
    assert grid[0] == {"model": "small", "temperature": 0.0, "n": 1, "chat": True}
    both = asktell.Candidates([{"n": I(1)}, {"n": np.float32(0.5)}])
    assert is_plain(both.to_data())
    selector = Selector(grid, BestFeasible("acc"), 16, examples=5)
    assert is_plain(json.loads(selector.to_json()))


def test_parts_and_goals_are_plain() -> None:
    for part in (
        MLP(I(4), I(2), np.float32(0.5), np.float32(0.5), I(10)),
        LeastSquares(np.float32(1), np.False_),  # type: ignore[arg-type]
        GOptimalDesign(np.float32(0.5), np.True_, I(10)),  # type: ignore[arg-type]
    ):
        assert is_plain(dump_part(part))
    goal: Goal = ParetoSet(
        asktell.minimize(
            S("x"), range=(np.int8(0), np.float32(1)), worst_segment=np.False_
        ),  # type: ignore[arg-type]
        "y",
        subject_to={
            S("x"): asktell.within(np.float32(0.25)),
            "y": asktell.at_most(np.array(3)),  # type: ignore[arg-type]
        },
    )
    assert all(is_plain(list(vars(o).values())) for o in goal.objectives)
    assert all(is_plain(list(vars(c).values())) for c in goal.constraints)
    assert is_plain(list(vars(Budget(I(3), np.float32(2), np.float16(1))).values()))


def test_numbers_of_a_run_and_a_simulation() -> None:
    selector = Selector(["x", "y"], BestFeasible("acc"), 10, examples=10)
    asktell.run(
        selector, lambda p, e: np.float32(0.5), concurrency=I(2), batch_size=I(1),
        max_failures_in_a_row=I(3), repeatable=np.True_, progress=False,
    )  # fmt: skip
    scores = np.random.default_rng(0).random((3, 10))
    simulation = asktell.simulate(
        scores, BestFeasible("acc"), ["uniform"], budgets=np.array([2, 4]), seeds=I(2), jobs=I(1)
    )  # fmt: skip
    again = asktell.simulate(
        scores, BestFeasible("acc"), ["uniform"], budgets=[2, 4], seeds=np.arange(2), jobs=1
    )  # fmt: skip
    assert simulation.runs == again.runs
    one = asktell.simulate(
        scores, BestFeasible("acc"), ["uniform"], budgets=np.float32(2), seeds=1, jobs=1
    )  # fmt: skip
    assert one.runs == again.runs[:1]


def test_ids_of_examples_may_be_of_numpy() -> None:
    import pandas as pd

    for ids in (np.array(["a", "b"]), [S("a"), S("b")], pd.Index(["a", "b"])):
        selector = Selector(["x", "y"], BestFeasible("acc"), 4, examples=ids)  # type: ignore[arg-type]
        assert is_plain(selector.example_ids)
        assert selector.observe("x", 0.5, example=S("b"))
    assert is_plain(ExampleIds([S("a")]))


@pytest.mark.parametrize(
    "wrong",
    [np.True_, F(2.5), np.timedelta64(3), np.complex64(3), S("3"), np.array([3, 4])],
)
def test_other_scalars_are_no_whole_numbers(wrong: Any) -> None:
    for make in (
        lambda: Selector(["x", "y"], BestFeasible("acc"), wrong),
        lambda: Selector(["x", "y"], BestFeasible("acc"), 4, seed=wrong),
        lambda: Race(block=wrong),
        lambda: Budget(evaluations=wrong),
    ):
        with pytest.raises(asktell.InvalidArgumentError):
            make()


@pytest.mark.parametrize("wrong", [np.True_, np.timedelta64(1), np.complex64(0.5), S("0.5")])  # fmt: skip
def test_other_scalars_are_no_confidence(wrong: Any) -> None:
    for make in (
        lambda: Race(confidence=wrong),
        lambda: asktell.maximize("a", tolerance=wrong),
        lambda: asktell.within(wrong),
        lambda: asktell.at_least(0.5, quantile=wrong),
        lambda: Budget(cost=wrong),
    ):
        with pytest.raises(asktell.InvalidArgumentError):
            make()


def test_the_parts_of_a_method_take_numbers_of_numpy() -> None:
    features = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    selector = Selector([*"abcd"], BestFeasible("acc"), I(40), "lcsh", examples=I(20), features=features)  # fmt: skip
    assert isinstance(selector.method, Elimination)
    play(selector)
    assert selector.done
