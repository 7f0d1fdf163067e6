"""Studies: the Selector's behaviour, kept; and leases."""

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import (
    BestFeasible,
    ConflictingWorkerError,
    ParetoSet,
    Selector,
    Study,
)
from asktell.studies.leases import Holding
from asktell.studies.storages import AbstractStorage
from asktell.studies.storages.memory import MemoryStorage
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell.testing.fakes import Table
from tests.plays import new_selector, play, random_table, scores
from tests.times import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> Iterator[AbstractStorage]:
    made: AbstractStorage
    if request.param == "memory":
        made = MemoryStorage(clock=clock)
    elif request.param == "sqlite":
        made = SQLiteStorage(tmp_path / "x.db", clock=clock)
    else:
        url = request.getfixturevalue("postgresql_url")
        from asktell.studies.storages.postgresql import PostgreSQLStorage

        made = PostgreSQLStorage(url, clock=clock)
    yield made
    made.close()


def small(budget: int = 12, method: str = "csr-sh", **options: Any) -> Selector:
    prompts = {"w": "be brief", "x": "be exact", "y": "be kind"}
    return Selector(
        prompts, BestFeasible("a", {"b": 0.0}), budget, method, examples=10, **options
    )


@pytest.fixture
def study(storage: AbstractStorage) -> Study:
    return Study.create(storage, "s", small())


# The same as a Selector


@pytest.mark.parametrize(("method", "batch"), [("auto", 1), ("csr-sh", 7)])
def test_a_study_asks_and_answers_as_the_selector_does(
    method: str, batch: int, storage: AbstractStorage
) -> None:
    table: Table = random_table(6, 12)
    selector = new_selector(table, method, budget=40)
    study = Study.create(storage, "s", selector)
    assert selector.spent == 0
    asked = play(study, table, batch)
    assert asked == play(selector, table, batch)
    assert study.done
    assert str(study.result()) == str(selector.result())
    reopened = Study.open(storage, "s")
    assert reopened.result().to_dict() == selector.result().to_dict()
    assert reopened.selector.to_json() == selector.to_json()


def test_a_study_starts_where_its_selector_stands(storage: AbstractStorage) -> None:
    selector = small()
    first, second = selector.ask(2)
    selector.tell(first, scores(first))
    study = Study.create(storage, "s", selector)
    assert study.pending == [second]
    assert study.spent == 1
    study.tell(second, scores(second))
    assert selector.spent == 1


def test_two_connections_see_each_other(study: Study, storage: AbstractStorage) -> None:
    other = Study.open(storage, "s")
    trials = [study.ask(), other.ask(), study.ask()]
    assert [trial.id for trial in trials if trial] == [0, 1, 2]
    assert study.pending == other.pending == trials
    other.tell(trials[0], [1, 2])
    assert study.spent == 1
    study.tell(trials[0], [1, 2])
    with pytest.raises(asktell.ConflictingTellError):
        study.tell(trials[0], [2, 2])
    study.observe("be kind", [3, 3], example=1)
    study.release(trials[2])
    assert other.ask() == trials[2]
    study.fail(trials[1], ValueError("no"))
    assert other.result().to_dict() == study.result().to_dict()


def test_a_selector_taken_out_is_independent(study: Study) -> None:
    trial = study.ask()
    selector = study.selector
    assert type(selector) is Selector
    selector.tell(trial, [1, 1])
    assert study.spent == 0
    study.tell(trial, [2, 2])
    assert selector.state.history.scores_of(0) == (1.0, 1.0)


def test_a_study_that_is_not_there() -> None:
    with pytest.raises(asktell.StudyNotFoundError, match="'y'"):
        Study.open("memory://nothing", "y")
    with pytest.raises(asktell.InvalidArgumentError, match="printable"):
        Study.open("memory://nothing", "a\0b")


def test_names_and_removal(storage: AbstractStorage) -> None:
    one, _ = (
        Study.create(storage, "one", small()),
        Study.create(storage, "two", small()),
    )
    assert Study.names(storage) == ["one", "two"]
    with pytest.raises(asktell.StudyExistsError, match="'one'"):
        Study.create(storage, "one", small())
    Study.delete(storage, "one")
    assert Study.names(storage) == ["two"]
    with pytest.raises(asktell.StudyNotFoundError):
        one.ask()


def test_a_deleted_study_cannot_be_read(storage: AbstractStorage) -> None:
    study = Study.create(storage, "x", small())
    trial = study.ask()
    assert trial is not None
    Study.delete(storage, "x")
    for _ in range(2):
        with pytest.raises(asktell.StudyNotFoundError):
            study.result()
    with pytest.raises(asktell.StudyNotFoundError):
        study.tell(trial, [0.5, 0.5])


# Leases


def test_a_worker_that_asks_again_gets_what_it_holds(
    study: Study, storage: AbstractStorage
) -> None:
    mine = study.worker("w1", lease=60).ask(3)
    assert len(mine) == 3
    restarted = Study.open(storage, "s")
    assert restarted.worker("w1").ask(3) == mine
    assert restarted.worker("w1").ask() == min(mine)
    assert set(restarted.worker("w1").ask(5)) > set(mine)
    assert restarted.worker("w1").ask(2) == sorted(mine)[:2]
    assert not set(restarted.worker("w2").ask(2)) & set(mine)


def test_who_holds_what(study: Study, clock: Clock) -> None:
    a = study.worker("w1", lease=60).ask()
    b = study.ask()
    c = study.worker("w2", lease=10).ask()
    clock.time += 5
    name = study.workers()[1].worker
    assert name is not None
    assert str(os.getpid()) in name
    assert study.workers() == [
        Holding("w1", a, 55.0, 1, seconds_held=5.0),
        Holding(name, b, 595.0, 1, seconds_held=5.0),
        Holding("w2", c, 5.0, 1, seconds_held=5.0),
    ]
    study.tell(a, [1, 1])
    clock.time += 10
    unnamed = Holding(name, b, 585.0, 1, seconds_held=15.0)
    assert study.workers() == [
        unnamed,
        Holding("w2", c, -5.0, 1, seconds_held=15.0),
    ]
    assert study.worker("w3", lease=7).ask() == c
    assert study.workers() == [unnamed, Holding("w3", c, 7.0, 2, seconds_held=0.0)]


def test_a_lease_that_ran_out_is_given_to_who_asks_next(
    study: Study, storage: AbstractStorage, clock: Clock
) -> None:
    lost = study.worker("w1", lease=60).ask()
    other = Study.open(storage, "s")
    clock.time += 59.9
    assert other.worker("w2", lease=60).ask() != lost
    clock.time += 0.1
    assert other.worker("w3", lease=60).ask() == lost
    assert study.worker("w1").heartbeat() == []


def test_a_heartbeat_keeps_leases(
    study: Study, storage: AbstractStorage, clock: Clock
) -> None:
    a, b = sorted(study.worker("w1", lease=60).ask(2))
    clock.time += 50
    assert study.worker("w1", lease=60).heartbeat() == [a, b]
    clock.time += 50
    assert study.worker("w1", lease=60).heartbeat(a) == [a]
    assert study.worker("nobody").heartbeat() == []
    clock.time += 20
    assert Study.open(storage, "s").worker("w2").ask() == b
    assert [h.worker for h in study.workers()] == ["w1", "w2"]


def test_a_late_heartbeat_counts_if_nobody_came(study: Study, clock: Clock) -> None:
    mine = study.worker("w1", lease=60).ask()
    clock.time += 100
    assert study.worker("w1", lease=60).heartbeat() == [mine]
    assert study.worker("w2").ask() != mine


def test_late_scores_are_taken_once(study: Study, clock: Clock) -> None:
    mine = study.worker("w1", lease=60).ask()
    clock.time += 61
    assert study.worker("w2", lease=60).ask() == mine
    assert study.worker("w1").tell(mine, [1, 1]) is True
    assert study.worker("w2").tell(mine, [2, 2]) is False
    assert study.worker("w2").tell(mine, [1, 1]) is False  # the same
    assert study.tell(mine, [2, 2]) is False
    with pytest.raises(asktell.ConflictingTellError):
        study.worker("w1").tell(mine, [2, 2])
    assert study.spent == 1
    assert study.selector.state.history.scores_of(mine.id) == (1.0, 1.0)
    assert study.worker("w2").fail(mine, "late") is False
    assert study.worker("w2").release(mine) is False


def test_late_scores_are_taken_before_the_trial_is_given_to_anybody(
    study: Study, clock: Clock
) -> None:
    mine = study.worker("w1", lease=60).ask()
    clock.time += 61
    # The same trial, back in the queue
    study.worker("w2").release(study.worker("w2").ask())
    assert study.worker("w1").tell(mine, [1, 1]) is True
    assert study.worker("w2").ask() != mine


def test_what_is_somebody_elses_by_now_is_left_alone(
    study: Study, clock: Clock
) -> None:
    mine = study.worker("w1", lease=60).ask()
    clock.time += 61
    assert study.worker("w2").ask() == mine
    assert study.worker("w1").fail(mine, "my connection broke") is False
    assert study.worker("w1").release(mine) is False
    assert study.pending == [mine]
    assert study.worker("w2").release(mine) is True
    assert study.worker("w2").release(mine) is False


def test_scores_of_a_trial_that_was_handed_out_once_must_agree(study: Study) -> None:
    trial = study.worker("w1").ask()
    study.worker("w1").tell(trial, [1, 1])
    for mine in [study.worker("w1"), study.worker("w2"), study]:
        with pytest.raises(asktell.ConflictingTellError):
            mine.tell(trial, [2, 2])


def test_a_trial_that_nobody_finishes_fails(
    storage: AbstractStorage, clock: Clock
) -> None:
    study = Study.create(storage, "s", small(max_failure_rate=1e-6), max_attempts=2)
    trial = study.worker("w1", lease=10).ask()
    clock.time += 11
    assert study.worker("w2", lease=10).ask() == trial
    clock.time += 11
    following = study.worker("w3", lease=10).ask()
    assert following.id != trial.id
    (failed,) = [entry for entry in study.result().prompts if entry.status == "failed"]
    assert failed.id == trial.prompt_id
    assert (
        failed.reason
        == "1 of 1 evaluations failed, last: 2 leases of this trial expired, the last of worker w2"
    )
    assert study.worker("w1").tell(trial, [1, 1]) is False
    assert study.worker("w2").fail(trial, "late") is False
    assert study.spent == 0


def test_a_prompt_is_the_workers_own_trial(storage: AbstractStorage) -> None:
    study = Study.create(storage, "s", small(method="uniform"))
    trials = sorted(study.worker("w1").ask(6))
    prompt = trials[0].prompt
    second = next(t for t in study.worker("w2").ask(6) if t.prompt == prompt)
    study.worker("w2").tell(prompt, [1, 1])
    assert second not in study.pending
    assert trials[0] in study.pending


def test_without_a_name_a_trial_is_held_while_its_object_asks(
    study: Study, storage: AbstractStorage, clock: Clock
) -> None:
    trial = study.ask()
    clock.time += 1e6  # such as a machine that slept
    assert study.ask() != trial
    assert [holding.attempt for holding in study.workers()] == [1, 1]
    assert Study.open(storage, "s").ask() not in study.pending[:2]
    study.tell(trial, [1, 1])
    assert study.spent == 1


def test_without_a_name_a_lost_trial_is_handed_out_again(
    study: Study, storage: AbstractStorage, clock: Clock
) -> None:
    lost = study.ask()
    study.close()
    other = Study.open(storage, "s")
    clock.time += 599
    assert other.worker("w").ask() != lost
    clock.time += 2
    assert other.ask() == lost


def test_without_a_name_a_prompt_is_the_trial_of_this_object(
    storage: AbstractStorage,
) -> None:
    study = Study.create(storage, "s", small(method="uniform"))
    other = Study.open(storage, "s")
    trials, mine = sorted(other.ask(6)), sorted(study.ask(6))
    prompt = mine[0].prompt
    assert any(trial.prompt == prompt for trial in trials)
    assert study.tell_many([(prompt, [1, 1])]) == [True]
    assert mine[0] not in study.pending
    assert not study.ask(6)  # every other trial is out
    assert len(study.pending) == 11


def test_each_score_keeps_the_other_trials_of_its_holder(
    storage: AbstractStorage, clock: Clock
) -> None:
    study = Study.create(storage, "s", small(method="uniform"))
    for mine, lease in ((study, 600), (study.worker("w", lease=40), 40)):
        first, second, third = mine.ask(3)
        for trial in (first, second):
            clock.time += 0.6 * lease
            mine.tell(trial, [1, 1])
        clock.time += 0.6 * lease
        assert Study.open(storage, "s").worker("other").ask() != third
        mine.tell(third, [1, 1])
    assert study.spent == 6


def test_trials_that_were_pending_in_the_selector_are_no_leak(
    storage: AbstractStorage, clock: Clock
) -> None:
    selector = small()
    trial = selector.ask()
    assert trial is not None
    study = Study.create(storage, "s", selector)
    assert study.ask() != trial
    other = Study.open(storage, "s")
    clock.time += 601
    assert other.ask() == trial
    study.tell(trial, [1, 1])
    assert other.spent == 1


# A worker that is alive, and a clock that jumps


@pytest.mark.parametrize("jump", [61, 700, 1e5, -1e5])
def test_a_worker_gets_no_trial_twice_after_a_jump_of_the_clock(
    study: Study, clock: Clock, jump: float
) -> None:
    mine = study.worker("w", lease=60)
    busy = mine.ask(2)
    for _ in range(4):
        clock.time += jump
        new = mine.ask()
        assert new is not None
        assert new not in busy
        busy.append(new)
    assert {holding.attempt for holding in study.workers()} == {1}
    if jump < 0:  # its leases last until the old time, and new ones less long
        clock.time += 61
        assert mine.ask() not in busy
    assert mine.tell_many([(trial, [1, 1]) for trial in busy]) == [True] * 6


def test_a_worker_that_is_restarted_after_its_leases_expired_gets_its_trials(
    storage: AbstractStorage, clock: Clock
) -> None:
    study = Study.create(storage, "s", small(), max_attempts=2)
    mine = study.worker("w", lease=60).ask(2)
    for _ in range(3):
        clock.time += 1000
        assert Study.open(storage, "s").worker("w", lease=60).ask(2) == mine
    assert [holding.attempt for holding in study.workers()] == [1, 1]


# Two processes under one name


def test_two_processes_under_one_name_are_noticed(
    study: Study, storage: AbstractStorage, clock: Clock
) -> None:
    first = study.worker("w")
    mine = first.ask()
    second = Study.open(storage, "s").worker("w")
    assert second.ask() == mine  # as after a crash, at once
    for use in (first.ask, first.heartbeat):
        with pytest.raises(ConflictingWorkerError, match=r"'w'.*different name"):
            use()
    assert first.release(mine) is False
    assert first.fail(mine, "stopped") is False
    assert second.heartbeat() == [mine]
    assert first.tell(mine, [1, 1]) is True  # it was paid for
    assert second.tell(mine, [1, 1]) is False
    another = second.ask()
    assert another is not None
    # A service or a tool that reads with new objects is no other process
    assert study.worker("w").heartbeat() == [another]
    assert study.worker("w").tell(another, [1, 1]) is True
    assert second.ask() is not None


def test_processes_that_hold_nothing_at_the_same_time_are_noticed(
    study: Study, storage: AbstractStorage
) -> None:
    first, second = study.worker("w"), Study.open(storage, "s").worker("w")
    for mine in (first, second):
        trial = mine.ask()
        assert trial is not None
        mine.tell(trial, [1, 1])
    with pytest.raises(ConflictingWorkerError):
        first.ask()
    study._replica.save()
    with pytest.raises(ConflictingWorkerError):  # also from a snapshot
        first.ask()
    assert second.ask() is not None


def test_a_run_ends_when_another_process_takes_its_name(
    study: Study, storage: AbstractStorage
) -> None:
    calls = []

    def evaluate(prompt: str, example: int | None) -> list[float]:
        calls.append(prompt)
        if len(calls) == 3:
            assert Study.open(storage, "s").worker("w").ask() is not None
        return [1.0, 1.0]

    with pytest.raises(ConflictingWorkerError):
        asktell.run(study.worker("w"), evaluate, progress=False)
    assert study.spent == len(calls) == 3


# Why there is no trial


def test_a_result_says_why_ask_returns_no_trial(
    storage: AbstractStorage, clock: Clock
) -> None:
    study = Study.create(storage, "s", small(method="csr"))
    assert study.result().notes == Study.open(storage, "s").result().notes
    lost = study.worker("lost").ask()
    assert lost is not None
    assert "ask()" not in str(study.result())
    play(study, scores)
    assert not study.done
    (note,) = [each for each in study.result().notes if "ask()" in each]
    assert "the pending trials are recorded: 1 trial held by worker lost" in note
    assert f"(trial {lost.id} since " in note
    study.pause()
    assert any("paused" in each for each in study.result().notes)
    study.resume()
    clock.time += 601
    play(study, scores)
    assert study.done
    assert not any("ask()" in each for each in study.result().notes)


# What is on disk


def test_a_failing_storage_undoes_what_was_not_kept(
    study: Study, storage: AbstractStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = study.worker("w1").ask()
    before = study.selector.to_json()
    with monkeypatch.context() as patch:
        patch.setattr(asktell.studies.log, "encode", lambda entries: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            study.tell(trial, [1, 1])
        with pytest.raises(ZeroDivisionError):
            study.worker("w2").ask()
    assert study.selector.to_json() == before
    assert [h.worker for h in study.workers()] == ["w1"]
    study.tell(trial, [1, 1])
    assert Study.open(storage, "s").spent == 1


def test_a_decision_that_fails_costs_no_score(
    study: Study, storage: AbstractStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    while trials := study.ask(3):
        for trial in trials[:-1]:
            study.tell(trial, scores(trial))
        monkeypatch.setattr(asktell.Elimination, "decide", lambda *_: 1 / 0)
        study.tell(trials[-1], scores(trials[-1]))
        if study._replica.engine.state.may_decide:
            break
        monkeypatch.undo()
    with pytest.raises(ZeroDivisionError):
        study.ask()
    monkeypatch.undo()
    assert Study.open(storage, "s").spent == study.spent > 0
    assert study.ask() is not None


def test_hostile_texts_survive(storage: AbstractStorage) -> None:
    hostile = [
        "'; DROP TABLE x; --",
        '"\\"',
        "a\0b",
        "\ud800 alone",
        "\x1b[31mred\x07",
        "<script>alert(1)</script>",
    ]
    hostile += [
        "\u202eright to left",
        "x" * 1_000_000,
        "\U0001f600",
        " ",
        "$1 %s {0} ?",
    ]
    selector = Selector(
        {f"{i}{text[:9]}": text for i, text in enumerate(hostile)},
        ParetoSet("a\0", "'b\ud800"),
        60,
    )
    study = Study.create(storage, "s", selector)
    trials = study.worker("w' \u00fc").ask(len(hostile))
    study.fail(trials[0], "\0\ud800'\x1b")
    study.tell(trials[1], {"a\0": 1.0, "'b\ud800": 2.0})
    again = Study.open(storage, "s")
    assert sorted(
        t.prompt for t in again.worker("w' \u00fc").ask(len(hostile) - 2)
    ) == sorted(t.prompt for t in trials[2:])
    assert sorted(entry.prompt for entry in again.result().prompts) == sorted(hostile)
    str(again.result())


def test_asking_takes_few_steps(tmp_path: Path) -> None:
    """So that one can follow it in a debugger: calls within asktell, and how often the next one is in another file."""
    root, calls = str(Path(asktell.__file__).parent), list[str]()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            calls.append(frame.f_code.co_filename)

    selector = Selector(["x", "y"], BestFeasible("a"), 40, "uniform", examples=50)
    with Study.create(tmp_path / "s.db", "s", selector) as study:
        mine = study.worker("w")
        mine.tell(mine.ask(), 0.5)
        sys.setprofile(note)
        try:
            mine.ask()
        finally:
            sys.setprofile(None)
    changes = sum(before != after for before, after in pairwise(calls))
    assert len(calls) <= 49
    assert changes <= 26
