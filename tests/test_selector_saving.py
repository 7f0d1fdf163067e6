"""Saved, reloaded and continued equals never interrupted, bit for bit; and nothing but a whole file is ever loaded."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell import InvalidStateError, ParetoSet, Selector
from asktell.testing.fakes import Table
from tests.plays import new_selector, random_table
from tests.presets import FRONTS, PRESETS


def step(selector: Selector, table: Table, rng: random.Random) -> Any:
    """One thing that a user may do, chosen by `rng` and by what the selector shows; returns what happened."""
    pending = selector.pending
    roll = rng.random()
    trial = rng.choice(pending) if pending else None
    if trial is None or roll < 0.45:
        asked = selector.ask()
        if asked is not None or trial is None:
            return asked
    if roll < 0.85:
        selector.tell(
            trial, table(trial.prompt, trial.example or 0), cost=rng.choice([None, 0.1])
        )
        return "told", trial
    if roll < 0.92:
        selector.release(trial)
        return "released", trial
    if roll < 0.96:
        selector.fail(trial, f"failure {rng.randrange(9)}")
        return "failed", trial
    prompt = rng.choice(table.prompts)
    n_examples = selector.state.problem.examples.n
    example = (
        None if n_examples is None or rng.random() < 0.5 else rng.randrange(n_examples)
    )
    selector.observe(prompt, table(prompt, example or 0), example)
    return "observed", prompt, example


def finish(selector: Selector, table: Table, rng: random.Random) -> list[Any]:
    log: list[Any] = []
    while not selector.done:
        log.append(step(selector, table, rng))
    return log


CASES = [
    (method, schedule, sampling)
    for method in (*PRESETS, *FRONTS)
    for schedule in ("default", "published")
    for sampling in ("shared", "iid")
]


@pytest.mark.parametrize(("method", "schedule", "sampling"), CASES)
def test_reloading_before_every_step_changes_nothing(
    method: str, schedule: str, sampling: str
) -> None:
    seed = CASES.index((method, schedule, sampling))
    table = random_table(6, 9, 1 + seed % 3, seed=seed)
    options = {
        "budget": 18,
        "schedule": schedule,
        "sampling": sampling,
        "seed": seed,
        "max_failure_rate": 0.2,
    }
    straight, reloaded = (new_selector(table, method, **options) for _ in range(2))
    left, right = random.Random(seed), random.Random(seed)
    while not straight.done:
        reloaded = Selector.from_json(reloaded.to_json())
        assert step(straight, table, left) == step(reloaded, table, right)
        assert straight.to_json() == reloaded.to_json()
    assert reloaded.done
    assert straight.result() == reloaded.result()


ELSEWHERE = """
import sys, json
from asktell import Selector
selector = Selector.from_json(sys.stdin.read())
log = [list(trial) for trial in selector.pending]
for prompt, example in [t[2:4] for t in log]:
    selector.tell(prompt, [len(prompt) / 7, (example * 37 % 11) / 11])
while trials := selector.ask(3):
    for trial in trials:
        log.append(list(trial))
        selector.tell(trial, [len(trial.prompt) / 7 + trial.example / 3, (trial.example * 37 % 11) / 11])
print(json.dumps([log, selector.result().to_dict(), selector.to_json()]))
"""


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_another_process_continues_in_the_same_way(hash_seed: str) -> None:
    prompts = {f"id-{k}": "x" * (k + 1) for k in range(7)}
    selector = Selector(
        prompts, ParetoSet("a", asktell.minimize("b")), 40, examples=9, seed=11
    )
    for trial in selector.ask(5)[:3]:
        selector.tell(trial, [1.5, 0.5])
    selector.fail(selector.pending[0], "boom")
    selector.observe("id-3", [2.0, 0.25], example=1)
    text = selector.to_json()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    process = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=text,
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    log, result, saved = json.loads(process.stdout)

    def score(trial: asktell.Trial, late: bool) -> list[float]:
        assert trial.example is not None
        return [
            len(trial.prompt) / 7 + (0 if late else trial.example / 3),
            (trial.example * 37 % 11) / 11,
        ]

    here = list(selector.pending)
    for trial in here[:]:
        selector.tell(trial, score(trial, late=True))
    while trials := selector.ask(3):
        for trial in trials:
            here.append(trial)
            selector.tell(trial, score(trial, late=False))
    assert log == [list(trial) for trial in here]
    assert len(log) > 20
    assert result == json.loads(json.dumps(selector.result().to_dict()))
    assert saved == selector.to_json()


# What is in a file


def midway(method: str = "ege-sr") -> Selector:
    goal = (
        asktell.BestFeasible("a", {"b": 0.4})
        if method.startswith("csr")
        else ParetoSet("a", "b")
    )
    selector = Selector(
        [f"prompt {k}" for k in range(4)],
        goal,
        20,
        method,
        examples=6,
        max_failure_rate=0.2,
    )
    for k in range(9):
        trial = selector.ask()
        assert trial is not None
        if k in (2, 5):
            selector.fail(trial, "boom")
        elif k not in (3, 7):
            selector.tell(trial, [k / 10, (k * 7 % 5) / 5])
    selector.release(selector.pending[0])
    selector.observe(2, [0.5, 0.5], example=4)
    selector.observe(3, [0.5, 0.5])
    return selector


def test_saving_is_plain_json_with_a_format_and_a_version() -> None:
    data = json.loads(midway().to_json())
    assert (data["format"], data["version"]) == ("asktell.selector", 1)
    assert data["method"]["type"] == "Elimination"


def test_saving_does_not_change_the_selector_and_bytes_load_too() -> None:
    selector = midway()
    text = selector.to_json()
    assert selector.to_json() == text
    assert Selector.from_json(text.encode()).to_json() == text


@pytest.mark.parametrize("method", PRESETS)
def test_methods_goals_and_options_come_back_as_they_were(method: str) -> None:
    goal: asktell.problem.goals.Goal
    if method.startswith("ege"):
        goal = ParetoSet("a", asktell.minimize("b", range=(0, 10)))
    else:
        goal = asktell.BestFeasible(
            asktell.minimize("a"),
            {"b": 0.1, asktell.minimize("c", range=(1, 9)): 3, "a": asktell.at_most(2)},
        )
    composed = asktell.preset(method, goal, schedule="published", data="round")
    prompts = {"ü\n": "\u2603 \ud800 'quotes' \"", "": "", "plain": "\x00"}
    selector = Selector(
        prompts,
        goal,
        17,
        composed,
        None,
        [[0.1, 1 / 3], [2, 3], [4, 5e-300]],
        2**64 - 1,
        "iid",
        max_failure_rate=1,
    )
    again = Selector.from_json(selector.to_json())
    assert (again.method, again.goal, again.budget) == (composed, goal, 17)
    problem, loaded = selector.state.problem, again.state.problem
    assert loaded.features.tolist() == problem.features.tolist()
    assert (
        loaded.seed,
        loaded.examples.sampling,
        loaded.max_failure_rate,
        loaded.examples.n,
    ) == (2**64 - 1, "iid", 1, None)
    assert [(e.id, e.prompt) for e in again.result().prompts] == list(prompts.items())


@pytest.mark.parametrize("method", ["ege-sr", "csr"])
def test_a_file_cut_anywhere_is_refused(method: str) -> None:
    text = midway(method).to_json()
    for end in range(len(text)):
        with pytest.raises(InvalidStateError):
            Selector.from_json(text[:end])


def load_or_refuse(saved: Any) -> None:
    """A file is refused whole, or what is loaded can be used to the end."""
    if isinstance(saved, dict) and type(saved.get("budget")) is int:
        # A plan of many pulls takes long to make
        saved["budget"] = min(saved["budget"], 10**3)
    if (
        isinstance(saved, dict)
        and type(saved.get("examples")) is int
        and saved["examples"] < 2**31
    ):
        saved["examples"] = min(saved["examples"], 10**4)  # and so does their order
    try:
        selector = Selector.from_json(json.dumps(saved))
    except InvalidStateError:
        return
    assert str(selector.result())
    json.dumps(selector.result().to_dict(), allow_nan=False)
    for trial in selector.pending:
        selector.tell(trial, [0.5] * len(selector.metrics))
    for _ in range(8):
        for trial in selector.ask(4):
            selector.tell(trial, [0.5] * len(selector.metrics))
    selector.result()
    Selector.from_json(selector.to_json())


def saved_selectors(method: str) -> list[Any]:
    """One in the middle of a run, and one that has finished."""
    selector = midway(method)
    saved = [json.loads(selector.to_json())]
    finish(selector, Table([[[k / 5, k / 7]] * 6 for k in range(4)]), random.Random(0))
    return [*saved, json.loads(selector.to_json())]


def paths(node: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield (*before, key)
        yield from paths(value, (*before, key))


def changed(saved: Any, path: tuple[Any, ...], change: Any) -> Any:
    saved = json.loads(json.dumps(saved))
    parent = saved
    for key in path[:-1]:
        parent = parent[key]
    if change == "deleted":
        del parent[path[-1]]
    elif change == "doubled":
        if isinstance(parent, list):
            parent.insert(path[-1], parent[path[-1]])
    else:
        parent[path[-1]] = change
    return saved


# Values that the nodes of a file may be mistaken for, and that once broke what was
# loaded.
VALUES = [None, -1, 0, 7, 2**40, 2**62, 0.5, 1e300, "", [], "deleted", "doubled"]


@pytest.mark.parametrize("finished", [False, True])
def test_a_file_changed_in_any_one_place_is_refused_or_usable(
    finished: bool, request: pytest.FixtureRequest
) -> None:
    thorough = request.config.getoption("--run-slow")
    saved = saved_selectors("csr-sh")[finished]
    for i, path in enumerate(paths(saved)):
        for change in VALUES if thorough else (VALUES[(i + finished) % len(VALUES)],):
            try:
                load_or_refuse(changed(saved, path, change))
            except Exception as error:
                raise AssertionError(f"{change!r} at {path}: {error!r}") from error


def test_more_decisions_than_the_method_has_rounds_are_refused() -> None:
    saved = json.loads(midway("csr-sh").to_json())
    decisions = saved["state"]["decisions"]
    for number in range(len(decisions), 9):
        rows, (tag, _, _, *rest) = decisions[-1]
        decisions.append([rows, [tag, number, [], *rest]])
    with pytest.raises(
        InvalidStateError, match="9 rounds were decided, but the method has"
    ):
        Selector.from_json(json.dumps(saved))


@settings(max_examples=60)
@given(st.binary(max_size=50), st.text(max_size=50))
def test_noise_is_refused(raw: bytes, text: str) -> None:
    for junk in (raw, text):
        with pytest.raises(InvalidStateError):
            Selector.from_json(junk)


GREEDY = [
    ("auto", ["draws"], 10_001),
    ("auto", ["draws"], 0),
    ("auto", ["draws"], 64.0),
    ("mlp-csr", ["estimator", "hidden"], 513),
    ("mlp-csr", ["estimator", "members"], 101),
    ("mlp-csr", ["estimator", "steps"], 100_001),
    ("mlp-csr", ["estimator", "learning_rate"], "fast"),
    ("mlp-csr", ["estimator", "regularization"], -1.0),
    ("lcsh", ["estimator", "ridge"], 1e300),
    ("lcsh", ["allocator", "max_iterations"], 1_000_001),
    ("lcsh", ["allocator", "tolerance"], None),
]


@pytest.mark.parametrize(("method", "path", "value"), GREEDY)
def test_a_file_cannot_demand_all_memory_or_all_time(
    method: str, path: list[str], value: Any
) -> None:
    goal = asktell.BestFeasible("a")
    data = json.loads(
        Selector(
            ["a", "b"], goal, 8, method, examples=4, features=[[0.0], [1.0]]
        ).to_json()
    )
    part = data["method"]
    for name in path[:-1]:
        part = part[name]
    field = path[-1]
    assert field in part
    part[field] = value
    with pytest.raises(InvalidStateError, match=f"{field} of {part['type']} must be"):
        Selector.from_json(json.dumps(data))


@pytest.mark.parametrize("method", ["uniform", "csr", "csr-sh"])
def test_a_round_of_too_many_evaluations_is_refused(method: str) -> None:
    def made(budget: int, examples: int | None, method: str) -> Selector:
        return Selector(
            ["a", "b"], asktell.BestFeasible("x"), budget, method, examples=examples
        )

    with pytest.raises(
        asktell.InvalidArgumentError,
        match="evaluations in one round, but one plan may have at most 10,000,000",
    ):
        made(10**8, None, method)
    data = json.loads(made(8, None, method).to_json())
    data["budget"] = 10**8
    with pytest.raises(InvalidStateError, match="evaluations in one round"):
        Selector.from_json(json.dumps(data))
    assert made(10**8, 50, method).ask()  # there are but 100
    assert made(10**8, None, "auto").ask()
