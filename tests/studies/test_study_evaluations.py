"""What is kept beside the scores, and every evaluation in the order in which it was told."""

import json
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study
from asktell.results.evaluations import Evaluation
from asktell.studies.storages.memory import MemoryStorage


def location(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    if backend == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return tmp_path / "x.db" if backend == "sqlite" else MemoryStorage()


def selector(**options: Any) -> Selector:
    return Selector(
        {"p": "x", "q": "y\ud800"},
        BestFeasible("a"),
        8,
        "uniform",
        examples=4,
        **options,
    )


def told(study: Study) -> list[Evaluation]:
    """Something of everything, told out of order."""
    first, second, third, fourth = study.ask(4)
    assert study.tell(
        third, [0.3], 0.5, details={"output": "\x00\ud800", "scores": {"b": None}}
    )
    # Harmless, and changes nothing
    assert not study.tell(third, [0.3], 0.5, details={"output": "another"})
    assert study.fail(first, ValueError("no"), 0.1, details={"seconds": 1.5})
    study.release(second)
    assert study.tell(second, [0.2])
    study.observe("p", [0.9], 3)
    assert fourth in study.pending
    kept = {"output": "\x00\ud800", "scores": {"b": None}}
    return [
        Evaluation(
            third.id, third.prompt_id, third.example, {"a": 0.3}, 0.5, None, kept
        ),
        Evaluation(
            first.id,
            first.prompt_id,
            first.example,
            None,
            0.1,
            "ValueError: no",
            {"seconds": 1.5},
        ),
        Evaluation(second.id, second.prompt_id, second.example, {"a": 0.2}),
    ]


@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgresql"])
def test_evaluations_come_in_the_order_told_with_their_details(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = location(backend, tmp_path, request)
    with Study.create(place, "s", selector()) as study:
        expected = told(study)
        assert list(study.evaluations()) == expected
        with Study.open(place, "s") as other:
            assert list(other.evaluations()) == expected
        study.export(tmp_path / "s.jsonl")
        with Study.import_(place, tmp_path / "s.jsonl", "t") as copy:
            assert list(copy.evaluations()) == expected
            copy.export(tmp_path / "t.jsonl")
    lines, again = (
        (tmp_path / name).read_text().splitlines() for name in ("s.jsonl", "t.jsonl")
    )
    assert lines[1:] == again[1:]


def test_what_the_selector_was_told_before_comes_first() -> None:
    begun = selector()
    trials = begun.ask(3)
    begun.tell(trials[0], [0.1])
    begun.fail(trials[1], "no")
    with Study.create(
        "memory://", "begun", begun, details=[(trials[0].id, {"output": "x"})]
    ) as study:
        study.tell(trials[2], [0.3])
        found = list(study.evaluations())
    assert [(e.trial, e.scores, e.error, e.details) for e in found] == [
        (trials[0].id, {"a": 0.1}, None, {"output": "x"}),
        (trials[1].id, None, "no", None),
        (trials[2].id, {"a": 0.3}, None, None),
    ]
    assert [(e.prompt, e.example) for e in found] == [
        (t.prompt_id, t.example) for t in trials
    ]
    Study.delete("memory://", "begun")


@pytest.mark.parametrize("details", ["text", [1]])
def test_details_that_are_no_mapping_are_refused(details: Any) -> None:
    study = Study.create(MemoryStorage(), "s", selector())
    trial = study.ask()
    assert trial is not None
    for attempt in (
        lambda: study.tell(trial, [0.5], details=details),
        lambda: study.fail(trial, "", details=details),
    ):
        with pytest.raises(
            asktell.InvalidArgumentError, match="details must be a mapping"
        ):
            attempt()
    assert study.pending == [trial]
    assert list(study.evaluations()) == []


def test_a_file_with_details_that_fit_no_trial_makes_no_study(tmp_path: Path) -> None:
    study = Study.create(MemoryStorage(), "s", selector())
    told(study)
    study.export(tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_text().splitlines()
    *log, first, second, last = lines
    assert json.loads(last)["details"] == 2
    storage = MemoryStorage()
    for broken in (
        [*log, first, last],
        [*log, first, first, last],
        [*log, first, second],
        [*log, '{"trial":3,"details":{}}', second, last],  # it is out
        [*log, '{"trial":99,"details":{}}', second, last],
        [*log, '{"trial":2,"details":[]}', second, last],
        [*log, first, second, log[-1], last],
        [*log, first, second, last, last],
    ):
        (tmp_path / "broken.jsonl").write_text("".join(line + "\n" for line in broken))
        with pytest.raises(asktell.InvalidStateError):
            Study.import_(storage, tmp_path / "broken.jsonl")
    assert storage.names() == []


@pytest.mark.parametrize(
    "line",
    ['[["t",99,[0.5],null]]', "[", "\ud800", '[["t",0,[0.5],null],["t",0,[0.5],null]]'],
)
def test_a_damaged_line_below_a_snapshot_is_named(line: str) -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", selector())
    told(study)
    study._replica.save()
    storage._logs[1].lines[1] = line
    again = Study.open(storage, "s")  # from the snapshot
    with pytest.raises(asktell.InvalidStateError, match="Line 2 of the study's log"):
        list(again.evaluations())
