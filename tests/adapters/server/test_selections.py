"""One interface: a selector, a study, a worker and a study in a service take the same steps and answer alike."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    Budget,
    ExampleProfile,
    RemoteStudy,
    Selector,
    Study,
)
from asktell.selector import Selection
from asktell.studies.abstract import AbstractStudy
from tests.plays import play, scores

Kind = Any
_numbers = itertools.count()


def small(budget: int | Budget = 12, **options: Any) -> Selector:
    prompts = {"w": "be brief", "x": "be exact", "y": "be kind"}
    return Selector(
        prompts,
        BestFeasible("a", {"b": 0.0}),
        budget,
        options.pop("method", "csr-sh"),
        10,
        **options,
    )


@pytest.fixture(
    params=["selector", "study", "study, SQLite", "remote", "remote, PostgreSQL"]
)
def kept(
    request: pytest.FixtureRequest, tmp_path: Any
) -> Iterator[Callable[[Selector], Kind]]:
    """What makes a selector, a study or a remote study of a selector."""
    made: list[Any] = []

    def make(selector: Selector) -> Kind:
        name = f"s {next(_numbers)}"
        if request.param == "selector":
            return selector
        if request.param.startswith("study"):
            location = (
                tmp_path / "studies.db"
                if "SQLite" in request.param
                else f"memory://{name}"
            )
            made.append(Study.create(location, name, selector))
        elif request.param == "remote":
            made.append(
                RemoteStudy.create(
                    request.getfixturevalue("server").url, name, selector
                )
            )
        else:
            made.append(
                RemoteStudy.create(
                    request.getfixturevalue("postgresql_server_url"), name, selector
                )
            )
        return made[-1]

    yield make
    for study in made:
        study.close()


# Signatures

_OF_STUDIES = ("details",)
_OF_SERVICES = ("token", "timeout", "retries")


def public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def signature(kind: type, name: str, *without: str) -> inspect.Signature:
    found = inspect.signature(getattr(kind, name))
    return found.replace(
        parameters=[p for p in found.parameters.values() if p.name not in without]
    )


@pytest.mark.parametrize("kind", [Selector, Study, RemoteStudy])
@pytest.mark.parametrize("name", public(Selection))
def test_what_is_shared_has_one_signature(name: str, kind: type) -> None:
    if isinstance(getattr(Selection, name), property):
        assert isinstance(getattr(kind, name), property)
    else:
        assert signature(kind, name, *_OF_STUDIES) == signature(Selection, name)
        assert [
            p for p in inspect.signature(Selection.tell).parameters if p in _OF_STUDIES
        ] == []


@pytest.mark.parametrize("name", public(AbstractStudy))
def test_studies_here_and_in_a_service_have_the_same_signatures(name: str) -> None:
    if isinstance(getattr(Study, name), property):
        assert isinstance(getattr(RemoteStudy, name), property)
    else:
        assert signature(RemoteStudy, name) == signature(Study, name)
        own = [
            p
            for p in inspect.signature(getattr(Study, name)).parameters.values()
            if p.name in _OF_STUDIES
        ]
        assert all(p.kind == p.KEYWORD_ONLY for p in own)


@pytest.mark.parametrize("name", ["create", "open", "names", "delete", "worker"])
def test_studies_are_made_opened_and_removed_in_the_same_way(name: str) -> None:
    here, there = (
        [
            (p.name.replace("url", "location"), p.kind, p.default)
            for p in found.parameters.values()
        ]
        # A service takes neither details nor code.
        for found in (
            signature(Study, name, "details", *(["method"] if name == "open" else [])),
            signature(RemoteStudy, name, *_OF_SERVICES),
        )
    )
    assert here == there


@pytest.mark.parametrize("kind", [Selector, Study, RemoteStudy])
def test_everything_public_is_documented(kind: type) -> None:
    assert [
        name for name in public(kind) if not inspect.getdoc(getattr(kind, name))
    ] == []


# Steps


def record(selection: Kind) -> list[Any]:
    """What each step returned, or the error that it raised."""
    said: list[Any] = []

    def step(call: Callable[[], Any]) -> Any:
        try:
            outcome = call()
        except (asktell.AsktellError, TypeError) as error:
            outcome = (
                type(error),
                str(error),
                [type(each) for each in getattr(error, "outcomes", ())],
            )
        said.append(outcome)
        return outcome

    def look() -> None:
        said.append(
            {
                name: getattr(selection, name)
                for name in public(Selection)
                if name not in _METHODS
            }
        )
        said.append(selection.result().to_dict())

    look()
    for wrong in (-1, "3", 1.5):
        step(lambda wrong=wrong: selection.ask(wrong))
    first, second, third, fourth = step(lambda: selection.ask(4))
    fifth = step(selection.ask)
    step(lambda: selection.ask(0))
    look()
    step(lambda: selection.tell(first, scores(first), 0.5))
    step(lambda: selection.tell(first, scores(first)))  # known already
    step(lambda: selection.tell(first, [99.0, 1.0]))
    step(lambda: selection.tell(second.prompt, scores(second), cost=0.25))
    for unknown in (99, 10**30, "nobody", None):
        step(lambda trial=unknown: selection.tell(trial, [1.0, 1.0]))
    for wrong in (
        [1.0],
        [1.0, float("nan")],
        {"a": 1.0},
        {"a": 1.0, "c": 1.0},
        "ab",
        None,
    ):
        step(lambda scores=wrong: selection.tell(third, scores))
    step(lambda: selection.tell(third, [1.0, 1.0], cost=-1))
    step(lambda: selection.fail(third, 3))
    look()
    step(
        lambda: selection.tell_many(
            [(third, scores(third)), (third, scores(third)), (second, scores(second))]
        )
    )
    refused = [
        (fourth, [1.0]),
        (99, [1.0, 1.0]),
        (first, [1.0, 3.0]),
        fourth,
        (first, scores(first)),
    ]
    step(lambda: selection.tell_many(refused))
    step(lambda: selection.release(fourth))
    step(lambda: selection.release(fourth))
    step(lambda: selection.release(first))
    step(lambda: selection.fail(fifth, "no answer", 0.125))
    step(lambda: selection.fail(fifth, "no answer"))
    step(lambda: selection.fail(first, "no answer"))
    step(lambda: selection.tell(fifth, scores(fifth)))
    step(lambda: selection.observe("w", [9.0, 1.0], 9, 0.5))
    step(lambda: selection.observe("w", None, cost=0.5))
    step(lambda: selection.observe("be kind", {"a": 5.0, "b": 1.0}))
    for wrong in (
        ("nobody", [9.0, 1.0]),
        ("w", [9.0]),
        ("w", [9.0, 1.0], 10),
        ("w", None),
    ):
        step(lambda wrong=wrong: selection.observe(*wrong))
    step(lambda: selection.observe("w", [9.0, 1.0], cost=-1.0))
    look()
    step(lambda: selection.add({"z": "be good"}, key="k"))
    step(lambda: selection.add({"z": "be good"}, key="k"))
    step(lambda: selection.add({"v": "be good"}))
    step(lambda: selection.retire("x", "not wanted", key="r"))
    step(lambda: selection.retire("x", "not wanted", key="r"))
    step(lambda: selection.retire("x", "not wanted"))
    step(lambda: selection.retire("nobody", "?"))
    step(lambda: selection.extend(evaluations=3))
    for wrong in ({}, {"evaluations": -1}, {"cost": 1.0}):
        step(lambda wrong=wrong: selection.extend(**wrong))
    while trial := selection.ask():
        step(
            lambda trial=trial: (
                trial,
                selection.repeat_of(trial),
                selection.tell(trial, scores(trial)),
            )
        )
    look()
    step(lambda: selection.ask(3))
    step(lambda: selection.add({"u": "be of very good cheer"}))
    step(lambda: selection.extend(evaluations=6))
    look()
    while trial := selection.ask():
        step(lambda trial=trial: selection.tell(trial, np.array(scores(trial))))
    look()
    return said


_METHODS = [
    name
    for name in public(Selection)
    if not isinstance(getattr(Selection, name), property)
]


def test_all_return_the_same(kept: Any) -> None:
    expected, found = record(small(method="auto")), record(kept(small(method="auto")))
    for i, (mine, theirs) in enumerate(zip(expected, found, strict=True)):
        assert theirs == mine, f"step {i}"


def test_a_worker_returns_the_same(tmp_path: Any) -> None:
    with (
        Study.create(tmp_path / "s.db", "s", small()) as study,
        study.worker("w") as worker,
    ):
        first, second = worker.ask(2)
        third = worker.ask()
        assert third is not None
        assert worker.pending == [first, second, third]
        assert [
            worker.tell(first.id, scores(first)),
            worker.tell(first, scores(first)),
        ] == [True, False]
        assert worker.fail(second.prompt, "no answer", 0.5, details={"answer": "?"})
        assert worker.release(list(third))  # as it comes back from JSON
        assert worker.observe("w", [9.0, 1.0], 9)
        assert (worker.pending, worker.spent, worker.spent_cost, worker.budget) == (
            [],
            1,
            0.5,
            12,
        )


def test_evaluations_and_comparisons_are_the_same(kept: Any, tmp_path: Any) -> None:
    selection = kept(small())
    play(selection, scores)
    reference = small()
    play(reference, scores)
    for after in (0, 5):
        assert [e[:4] for e in selection.evaluations(after)] == [
            e[:4] for e in reference.evaluations(after)
        ]
    assert (
        selection.compare("w", "x").to_dict() == reference.compare("w", "x").to_dict()
    )
    selection.report(tmp_path / "page.html", {"model": "a small one"})
    assert "a small one" in (tmp_path / "page.html").read_text()


def test_profiles_of_earlier_studies_are_kept(kept: Any) -> None:
    ids = [f"example {j}" for j in range(4)]
    earlier = Selector(["x", "y"], BestFeasible("a"), 4, "uniform", examples=ids)
    play(earlier, lambda trial: [float(trial.id)])
    profile = ExampleProfile.of(earlier)
    study = kept(
        Selector(["p", "q"], BestFeasible("a"), 4, examples=ids, profile=profile)
    )
    assert getattr(study, "selector", study).state.problem.examples.profile == profile
    play(study, lambda trial: [float(trial.id)])
    assert sum(one.cells for one in ExampleProfile.of(study).examples("a")) == 4


def test_all_know_which_repeat_a_trial_is(kept: Any) -> None:
    study = kept(
        Selector(["x"], BestFeasible("a"), 6, "uniform", examples=2, repeats=3)
    )
    trials = study.ask(3)
    assert [study.repeat_of(trial) for trial in trials] == [0, 0, 1]
    for trial in trials:
        study.tell(trial, [float(trial.id)])
    trials = study.ask(3)
    assert [study.repeat_of(trial) for trial in trials] == [1, 2, 2]
    for trial in trials:
        study.tell(trial, [float(trial.id)])
    assert study.result().repeats == 3
    # The whole budget was spent
    assert "as often as it may be repeated" not in str(study.result())
    assert kept(small()).repeat_of(trials[0]) == 0


def test_a_run_loses_no_score_of_a_prompt_that_is_retired_meanwhile(kept: Any) -> None:
    prompts = {"w": "be brief", "x": "be exact"}
    study = kept(
        Selector(
            prompts,
            BestFeasible("a"),
            asktell.Budget(cost=30.0),
            examples=4,
            max_failure_rate=1,
        )
    )
    calls: list[str] = []

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        calls.append(prompt)
        if len(calls) == 1:  # recorded at once
            raise ConnectionError("down")
        if len(calls) == 2:
            study.retire(
                next(name for name, text in prompts.items() if text == prompt),
                "not wanted",
            )
        return {"a": 0.5, "cost": 2.0}

    result = asktell.run(study, evaluate, progress=False)
    assert result.spent == study.spent == len(calls) - 1
    assert sum(entry.evaluations for entry in result.prompts) == len(calls) - 1
    assert study.spent_cost == 2.0 * (len(calls) - 1)


def test_holdings_name_trials_that_are_not_wanted_any_more(kept: Any) -> None:
    study = kept(
        Selector(
            {"w": "be brief", "x": "be exact"},
            BestFeasible("a"),
            8,
            "uniform",
            examples=4,
        )
    )
    if isinstance(study, Selector):
        pytest.skip("a selector has no workers")
    trials = study.worker("one").ask(2)
    assert [each.wanted for each in study.workers()] == [True, True]
    study.retire("w", "not wanted")
    assert {each.trial.prompt_id: each.wanted for each in study.workers()} == {
        "w": False,
        "x": True,
    }
    (mine,) = [trial for trial in trials if trial.prompt_id == "w"]
    assert study.worker("one").tell(mine, [0.5])  # it was over first
    assert study.spent == 1


def test_a_remark_is_in_every_result_and_doubt_leaves_no_certainty(
    kept: Any, tmp_path: Any
) -> None:
    study = kept(small())
    for trial in study.ask(12):
        study.tell(trial, scores(trial))
    assert study.result().verdict.p_best is not None
    study.remark("A judge says so.", topic="a")
    study.remark("A judge said so.", topic="a")
    result = study.result()
    assert result.notes[0] == "A judge said so."
    assert "A judge says so." not in str(result)
    assert result.verdict.p_best is not None
    study.remark("The judge was wrong.", topic="a", doubtful=True)
    study.remark("Also, it is dear.")
    result = study.result()
    assert result.notes[:2] == ("The judge was wrong.", "Also, it is dear.")
    assert (
        result.verdict.sentence == "Do not rely on these scores. The judge was wrong."
    )
    assert {result.verdict.p_best, *(entry.p_best for entry in result.prompts)} == {
        None
    }
    assert {each.verdict for each in study.compare("w", "x").differences.values()} == {
        "undecided"
    }
    if not isinstance(study, RemoteStudy):
        again = Selector.from_json(
            study.selector.to_json() if isinstance(study, Study) else study.to_json()
        )
        assert again.result().to_dict() == result.to_dict()
        study.report(tmp_path / "report.html")
        assert "Do not rely on these scores" in (tmp_path / "report.html").read_text()
    with pytest.raises(asktell.InvalidArgumentError, match="needs text"):
        study.remark(" ")
