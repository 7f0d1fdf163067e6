"""Studies that go on: growth is durable, replayed, in snapshots and exports, and refused where it cannot have been."""

import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asktell import BestFeasible, Selector, Study
from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.storages import Line
from asktell.storages.memory import MemoryStorage
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
    with study._replica.writing(durable=True) as (logged, _):
        logged.selector.add([f"n{k}" for k in range(20)])
        assert logged.selector.ask(10)
    assert facts(Study.open(storage, "s")) == facts(study)
