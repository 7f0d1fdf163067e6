"""Studies that are paused: nothing is handed out, scores are taken, workers wait, and it outlives whoever paused it."""

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study
from asktell.errors import InvalidStateError
from asktell.studies import replica as replicas
from asktell.studies.storages import Line
from asktell.studies.storages.memory import MemoryStorage
from tests.plays import play
from tests.studies.test_study_plays import facts
from tests.times import Clock


def new(budget: int = 12) -> Selector:
    return Selector(["a", "b", "c"], BestFeasible("score"), budget, examples=20)


def score(prompt: str, example: int | None) -> float:
    return {"a": 0.2, "b": 0.5, "c": 0.4}[prompt] + 0.01 * (example or 0)


def test_while_paused_scores_are_taken_and_nothing_is_handed_out(
    tmp_path: Path,
) -> None:
    with (
        Study.create(tmp_path / "x.db", "s", new()) as study,
        Study.open(tmp_path / "x.db", "s") as other,
    ):
        (trial, held) = study.worker("w", lease=60).ask(2)
        assert not study.paused
        other.pause()
        assert (study.paused, study.standing.paused) == (True, True)
        assert study.ask() is None
        assert study.worker("w").ask(5) == other.ask(3) == []
        assert study.worker("w").tell(trial, 0.5)
        assert study.worker("w", lease=60).heartbeat() == [held]
        assert (study.done, study.spent) == (False, 1)
        study.resume()
        assert study.worker("w").ask(1) == [held]
        assert not other.paused


def test_a_pause_is_noted_once_and_outlives_its_process(tmp_path: Path) -> None:
    with Study.create(tmp_path / "x.db", "s", new()) as study:
        study.resume()  # it is not paused
        study.pause()
        study.pause()
        assert [line.text[:4] for line in study._replica.storage.read(1, 0)] == ['[["p']
        version = study.standing.version
    with Study.open(tmp_path / "x.db", "s") as study:
        assert study.paused
        assert study.ask() is None
        assert study.standing.version == version
        study.export(tmp_path / "x.jsonl")
        study.resume()
        assert study.standing.version != version
        assert study.ask() is not None
    with Study.import_(tmp_path / "y.db", tmp_path / "x.jsonl") as copied:
        assert copied.paused


def test_snapshots_know_of_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "ENTRIES_PER_SNAPSHOT", 4)
    storage = MemoryStorage(clock=Clock())
    study = Study.create(storage, "s", new())
    for k in range(3):
        trial = study.ask()
        study.tell(trial, 0.1 * k)
    study.pause()
    study._replica.save()
    assert storage.snapshot(1) is not None
    again = Study.open(storage, "s")
    assert again.paused
    assert facts(again) == facts(study)
    study.resume()
    play(study, lambda _: 0.3, n=3)
    study._replica.save()
    assert not Study.open(storage, "s").paused


def test_a_lease_that_runs_out_in_a_pause_ends_after_it() -> None:
    clock = Clock()
    study = Study.create(MemoryStorage(clock=clock), "s", new(), max_attempts=1)
    (trial,) = study.worker("dies", lease=10).ask(1)
    study.pause()
    clock.time += 100
    assert study.worker("other").ask(1) == []
    assert study.pending == [trial]
    assert study.worker("dies").tell(trial, 0.5)  # late, and nobody else was asked
    study.resume()
    assert study.worker("other").ask(1) != []


@pytest.mark.parametrize(
    "entry", ['["p"]', '["p","now"]', '["p",-1]', '["p",NaN]', '["g",1]']
)
def test_what_is_no_pause_is_refused(entry: str) -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", new())
    with storage.transaction(1, True) as transaction:
        transaction.append(Line(1, f"[{entry}]"))
    with pytest.raises(InvalidStateError):
        study.ask()


@pytest.mark.parametrize("failing", [False, True])
def test_a_run_waits_for_the_end_of_a_pause(
    failing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither does it look ahead at what comes after failures, which would cost as much as an evaluation."""
    study = Study.create(MemoryStorage(), "s", new(budget=6))
    paused_at, calls = threading.Event(), []

    def evaluate(prompt: str, example: Any) -> float:
        calls.append((prompt, example, study.paused))
        if len(calls) == 3:
            study.pause()
            paused_at.set()
        if failing and len(calls) <= 3:
            raise RuntimeError(f"down {prompt}")
        return score(prompt, example)

    def resume() -> None:
        paused_at.wait(60)
        while "paused" not in caplog.text:
            threading.Event().wait(0.01)
        study.resume()

    thread = threading.Thread(target=resume)
    with caplog.at_level(logging.WARNING, "asktell"):
        thread.start()
        result = asktell.run(study, evaluate, progress=False)
        thread.join()
    assert result.spent == 6
    assert not any(paused for _, _, paused in calls)
    assert caplog.text.count("The study is paused") == 1
