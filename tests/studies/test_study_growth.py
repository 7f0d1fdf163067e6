"""Studies that go on: growth is durable, replayed, in snapshots and exports, and refused where it cannot have been."""

import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asktell import Adaptive, BestFeasible, Budget, Selector, Study, minimize
from asktell.errors import (
    InvalidArgumentError,
    InvalidStateError,
    StudyExistsError,
)
from asktell.studies.storages import Line
from asktell.studies.storages.memory import MemoryStorage
from tests.studies.test_study_plays import facts

TEXTS = ["a", "b", "c"]


def score(prompt: str, example: int | None) -> list[float]:
    return [
        random.Random(f"{prompt}/{example}").random(),
        random.Random(prompt).random(),
    ]


def new(method: Any = "auto", **options: Any) -> Selector:
    return Selector(
        TEXTS,
        BestFeasible("a", {"b": 0.1}),
        options.pop("budget", 15),
        method,
        examples=30,
        **options,
    )


def work(study: Study, n: int = 10_000) -> int:
    for told in range(n):
        trial = study.worker("w").ask()
        if trial is None:
            return told
        study.worker("w").tell(trial, score(trial.prompt, trial.example), 1.0)
    return n


def test_others_see_what_one_adds(tmp_path: Path) -> None:
    with (
        Study.create(tmp_path / "x.db", "s", new()) as study,
        Study.open(tmp_path / "x.db", "s") as other,
    ):
        work(study)
        assert study.done
        assert other.add(["d"]) == [3]
        other.extend(evaluations=5)
        other.retire("a", "too long")
        assert (study.budget, study.done, study.n_active) == (20, False, 3)
        assert work(study) == 5
        assert [entry.status for entry in other.result().prompts].count("retired") == 1
        assert {e.prompt for e in other.evaluations()} == {0, 1, 2, 3}
        seen = other.result().to_dict()
    with Study.open(tmp_path / "x.db", "s") as again:
        assert again.result().to_dict() == seen


def test_a_program_that_made_the_study_still_opens_it(tmp_path: Path) -> None:
    with Study.create(tmp_path / "x.db", "s", new()) as study:
        study.add(["d"])
        study.extend(5)
    with Study.create(tmp_path / "x.db", "s", new(), exist_ok=True) as study:
        assert (study.budget, len(study.result().prompts)) == (20, 4)


def edited(**changes: Any) -> Selector:
    arguments: dict[str, Any] = {
        "prompts": {"a": "x", "b": "y"},
        "goal": BestFeasible("q"),
        "budget": 20,
        "examples": ["i", "j", "k"],
        **changes,
    }
    return Selector(
        arguments.pop("prompts"),
        arguments.pop("goal"),
        arguments.pop("budget"),
        **arguments,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": 30},
        {"prompts": {"b": "y", "a": "x", "c": "z"}},
        {"examples": ["i", "j", "k", "l", "m"]},
        {
            "budget": 30,
            "prompts": {"a": "x", "b": "y", "c": "z"},
            "examples": ["i", "j", "k", "l"],
        },
    ],
)
def test_an_edited_program_extends_its_study_once(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    path, wanted = tmp_path / "x.db", edited(**changes)
    Study.create(path, "s", edited()).close()
    with ThreadPoolExecutor(4) as threads:  # four workers start at once
        for study in threads.map(
            lambda _: Study.create(path, "s", wanted, exist_ok=True), range(4)
        ):
            study.close()
    with Study.create(path, "s", edited(), exist_ok=True) as study:  # an older worker
        grown = study.selector
        assert grown.budget == wanted.budget
        assert grown.example_ids == wanted.example_ids
        assert set(grown.prompts.ids) == set(wanted.prompts.ids)
        assert len(grown.state.growth.events) == ("prompts" in changes) + (
            changes.keys() > {"prompts"} or "prompts" not in changes
        )
        trial = study.ask()
        assert trial is not None
        assert study.tell(trial, 0.5)


def test_budgets_of_different_versions_do_not_add_up(tmp_path: Path) -> None:
    for budget, expected in ((20, 20), (30, 30), (25, 30), (40, 40), (30, 40)):
        with Study.create(
            tmp_path / "x.db", "s", edited(budget=budget), exist_ok=True
        ) as study:
            assert study.budget == expected
    for cost, total in ((3.0, 3.0), (5.5, 5.5), (3.0, 5.5)):
        selector = edited(budget=Budget(cost=cost))
        with Study.create(tmp_path / "x.db", "c", selector, exist_ok=True) as study:
            assert study.max_cost == total


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"budget": 10}, r"budget: 20 evaluations then, 10 evaluations now\. .*shrink"),
        ({}, {"budget": Budget(cost=3)}, "20 evaluations then, a cost of 3 now"),
        ({}, {"prompts": {"a": "x", "b": "new"}}, r"prompt 'b': 'y' then, 'new' now\..*new id"),
        ({}, {"prompts": {"a": "x"}}, "prompt 'b': missing now"),
        ({}, {"prompts": ["x", "y"]}, "texts with ids then, a list of texts now"),
        (
            {"prompts": ["s" * 500 + " old " + "t" * 500, "y"]},
            {"prompts": ["s" * 500 + " new " + "t" * 500, "y"]},
            r"prompt 0: '\.\.\.s* old t*\.\.\.' then, '\.\.\.s* new t*\.\.\.' now",
        ),
        ({"prompts": ["x", "y"]}, {"prompts": ["x"]}, "prompts: 2 then, 1 now"),
        ({}, {"examples": ["j", "i", "k"]}, r"examples: 1 moved \('.'\)"),
        ({}, {"examples": 3}, "examples: 3 with ids then, 3 without ids now"),
        ({"examples": 3}, {"examples": 2}, "examples: 3 then, 2 now"),
        ({}, {"goal": BestFeasible(minimize("q"))}, "goal: maximize q then, minimize q now"),
        ({}, {"seed": 4, "budget": 25}, r"seed: 0 then, 4 now.*extend\(evaluations=5\)"),
        ({}, {"method": "race"}, "method: Adaptive then, Race now"),
        ({}, {"method": Adaptive(confidence=0.95)}, "method.confidence: None then, 0.95 now"),
        ({}, {"baseline": "a"}, "baseline: None then, prompt 'a' now"),
        ({"method": "csr"}, {"method": "csr", "budget": 30}, "values of budget.*10 evaluations more.*observe"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_both_values(
    before: dict[str, Any], after: dict[str, Any], expected: str
) -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", edited(**before))
    with pytest.raises(StudyExistsError, match=expected):
        Study.create(storage, "s", edited(**after), exist_ok=True)
    assert not study.selector.state.growth.events


def test_a_study_begins_with_a_selector_that_has_grown(tmp_path: Path) -> None:
    selector = new()
    selector.add(["d"])
    selector.extend(5)
    selector.retire("b", "no good")
    with Study.create(tmp_path / "x.db", "s", selector) as study:
        assert study.add(["e"]) == [4]
        work(study)
        result = study.result().to_dict()
        study._replica.save()
    with Study.open(tmp_path / "x.db", "s") as study:
        assert study.result().to_dict() == result


def _add(path: str, barrier: Any, outcomes: Any, name: str) -> None:
    with Study.open(path, "s") as study:
        barrier.wait()
        try:
            study.add([f"{name}'s own"])
            study.extend(evaluations=3)
            outcomes.put((name, study.add(["the same"])))
        except InvalidArgumentError as error:
            outcomes.put((name, str(error)))


def test_processes_add_at_once_and_of_the_same_text_one_is_taken(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "x.db")
    Study.create(path, "s", new()).close()
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_add, args=(path, barrier, outcomes, n))
        for n in ("x", "y", "z")
    ]
    for process in processes:
        process.start()
    found = dict(outcomes.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    (taken,) = [ids for ids in found.values() if isinstance(ids, list)]
    refused = [text for text in found.values() if isinstance(text, str)]
    assert len(refused) == 2
    assert all(f"the id {taken[0]}" in text for text in refused)
    with Study.open(path, "s") as study:
        assert study.budget == 15 + 9
        assert len(study.result().prompts) == 7


def test_threads_add_while_others_work() -> None:
    study = Study.create(MemoryStorage(), "s", new(budget=60))

    def adds(k: int) -> None:
        for j in range(3):
            study.add([f"{k}-{j}"])
            study.extend(evaluations=4)

    with ThreadPoolExecutor(3) as threads:
        for done in [
            threads.submit(adds, 0),
            threads.submit(adds, 1),
            threads.submit(work, study),
        ]:
            done.result()
    work(study)
    assert study.budget == study.spent == 60 + 24
    assert len(study.result().prompts) == 9


@pytest.mark.parametrize(
    "entry",
    [
        '["n",null,["a"],null,null]',
        '["n",["x"],["new"],null,null]',
        '["n",null,["new","new"],null,null]',
        '["n",null,["new"],[[1.0]],null]',
        '["q",7,"gone",null]',
        '["e",0,0.0,0,null,null]',
        '["e",1,1.0,0,null,null]',
        '["e",1,0.0,0,null,null,null]',
        '["e"]',
        '["z",1]',
    ],
)
def test_growth_that_cannot_have_been_is_refused(entry: str) -> None:
    storage = MemoryStorage()
    Study.create(storage, "s", new())
    with storage.transaction(1, durable=True) as transaction:
        transaction.append(Line(1, f"[{entry}]"))
    with pytest.raises(InvalidStateError):
        Study.open(storage, "s")


def test_growth_under_a_method_with_rounds_cannot_have_been() -> None:
    storage = MemoryStorage()
    Study.create(storage, "s", new("csr"))
    with storage.transaction(1, durable=True) as transaction:
        transaction.append(Line(1, '[["e",5,0.0,0,null,null]]'))
    with pytest.raises(InvalidStateError, match="rounds"):
        Study.open(storage, "s")


def test_one_line_may_hold_newcomers_and_what_was_asked_of_them() -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", new())
    with study._replica.writing(durable=True):
        study._replica.engine.add([f"n{k}" for k in range(20)])
        assert study._replica.engine.ask(10)
    assert facts(Study.open(storage, "s")) == facts(study)
