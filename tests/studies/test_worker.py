"""`asktell.run` on a study, by one worker or several."""

import asyncio
import logging
import re
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, Selector, StorageError, Study, Trial
from asktell.studies import worker as worker_module
from asktell.studies.storages.memory import MemoryStorage
from asktell.testing.fakes import Table
from tests.plays import new_selector, random_table
from tests.times import Clock

SPENT = 59  # by the rounds of sequential halving, of a budget of 60


@pytest.fixture
def table() -> Table:
    return random_table(5, 20)  # type: ignore[no-any-return]


@pytest.fixture
def selector(table: Table) -> Selector:
    return new_selector(table, "csr-sh", budget=60)  # type: ignore[no-any-return]


@pytest.fixture
def study(selector: Selector, tmp_path: Path) -> Study:
    return Study.create(tmp_path / "x.db", "s", selector)


class Batch:
    def __init__(self, table: Table) -> None:
        self.table = table

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
        return [self.table(trial.prompt, trial.example) for trial in trials]


@pytest.mark.parametrize("kind", ["plain", "batch", "executor", "async"])
def test_a_study_is_run_as_a_selector_is(
    kind: str, study: Study, selector: Selector, table: Table
) -> None:
    expected = asktell.run(selector, table, progress=False, repeatable=True)
    if kind == "executor":
        with ThreadPoolExecutor(3) as executor:
            result = asktell.run(
                study, table, executor, progress=False, repeatable=True
            )
    elif kind == "async":

        async def evaluate(prompt: str, example: int) -> Any:
            return table(prompt, example)

        result = asktell.run(study, evaluate, progress=False, repeatable=True)
    else:
        result = asktell.run(
            study,
            Batch(table) if kind == "batch" else table,
            progress=True,
            repeatable=True,
        )
    assert result.to_dict() == expected.to_dict()
    assert study.pending == []


def test_several_runs_share_a_study(
    study: Study, selector: Selector, table: Table
) -> None:
    expected = asktell.run(selector, table, progress=False, repeatable=True)
    n_calls = len(table.calls)

    def work(concurrency: int) -> asktell.Result:
        with Study.open(study._replica.storage.path, "s") as mine:  # type: ignore[attr-defined]
            return asktell.run(
                mine,
                Batch(table),
                concurrency=concurrency,
                progress=False,
                repeatable=True,
            )

    with ThreadPoolExecutor(3) as threads:
        assert [result.to_dict() for result in threads.map(work, (1, 2, 5))] == [
            expected.to_dict()
        ] * 3
    assert len(table.calls) == 2 * n_calls


def test_a_run_waits_for_what_another_worker_holds(study: Study, table: Table) -> None:
    held = study.worker("other", lease=0.5).ask()  # and dies
    result = asktell.run(study, table, progress=False)
    assert result.done
    assert result.spent == SPENT
    assert (held.prompt, held.example) in table.calls


def test_a_heartbeat_keeps_what_takes_long(study: Study, table: Table) -> None:
    taken = []

    def slow(prompt: str, example: int) -> Any:
        if not taken:
            taken.append(example)
            time.sleep(0.5)
            assert study.worker("thief").ask().id == 1  # type: ignore[union-attr]
            assert [h.attempt for h in study.workers()] == [1, 1]
            study.worker("thief").release(1)
        return table(prompt, example)

    assert asktell.run(study.worker("w", lease=0.2), slow, progress=False).done


def test_a_worker_that_was_restarted_goes_on_with_its_trials(study: Study) -> None:
    first = study.worker("w")
    held = first.ask(3)
    assert first.ask(2) != held
    second = study.worker("w")
    assert sorted(second.ask(4)) == sorted(held) + sorted(study.pending)[3:4]
    assert second.pending == sorted(study.pending)[:4]


def test_an_interruption_hands_back(study: Study, table: Table) -> None:
    def interrupt(prompt: str, example: int) -> Any:
        if len(table.calls) == 7:
            raise KeyboardInterrupt
        return table(prompt, example)

    with pytest.raises(KeyboardInterrupt):
        asktell.run(study, interrupt, progress=False)
    assert study.spent == 7
    assert study.pending == []
    assert asktell.run(study, table, progress=False).spent == SPENT


def test_an_interruption_of_ask_hands_back_what_never_arrived(
    study: Study, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(mine: Study, *args: Any) -> Any:
        hand_out(mine, *args)
        raise SystemExit(143)

    hand_out = Study._hand_out

    held = study.worker("other").ask(2)
    monkeypatch.setattr(Study, "_hand_out", interrupted)
    with pytest.raises(SystemExit):
        asktell.run(study, table, progress=False)
    assert study.pending == held
    monkeypatch.undo()
    assert [study.worker("other").release(trial) for trial in held] == [True, True]
    assert asktell.run(study, table, progress=False).spent == SPENT


def test_an_evaluation_that_fails_is_a_failure(study: Study, table: Table) -> None:
    def fail(prompt: str, example: int) -> Any:
        if prompt == "prompt 3":
            raise ValueError("no")
        return table(prompt, example)

    result = asktell.run(study, fail, progress=False)
    assert [entry.prompt for entry in result.prompts if entry.status == "failed"] == [
        "prompt 3"
    ]


def test_a_storage_that_is_out_of_reach_is_waited_for(
    study: Study, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    fail_next = [0]
    append = type(study._replica.storage).transaction

    def sometimes(self: Any, key: int, durable: bool) -> Any:
        fail_next[0] += 1
        if fail_next[0] % 3:
            raise StorageError("gone for a moment")
        return append(self, key, durable)

    monkeypatch.setattr(type(study._replica.storage), "transaction", sometimes)
    assert asktell.run(study, table, progress=False).spent == SPENT
    assert all(entry.failures == 0 for entry in study.result().prompts)


def test_a_storage_that_stays_out_of_reach_ends_the_run(
    study: Study, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_PATIENCE", 0.2)

    def evaluate(prompt: str, example: int) -> Any:
        monkeypatch.setattr(type(study._replica.storage), "transaction", gone)
        return table(prompt, example)

    def gone(*_: Any) -> Any:
        raise StorageError("gone for good")

    with pytest.raises(StorageError, match="for good"):
        asktell.run(study, evaluate, progress=False)
    monkeypatch.undo()
    assert study.spent == 0
    assert all(entry.failures == 0 for entry in study.result().prompts)


def test_an_outage_is_logged_once_not_at_every_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module.time, "sleep", lambda _: None)
    answers = ["gone", "gone", "gone", "locked", "gone", "gone", None]

    def operation() -> str:
        if (answer := answers.pop(0)) is not None:
            raise StorageError(answer)
        return "back"

    assert worker_module.patiently(operation) == "back"
    said = [record.getMessage() for record in caplog.records]
    assert [line.split()[-1] for line in said] == ["gone", "locked", "gone"]


def test_only_a_selector_or_a_study_is_run(table: Table) -> None:
    with pytest.raises(
        asktell.InvalidArgumentError, match="Selector or a Study, got str"
    ):
        asktell.run("sqlite:///x.db", table)  # type: ignore[arg-type]


def test_names_of_workers_differ() -> None:
    assert worker_module.default_name() != worker_module.default_name()
    study = Study.create(
        "memory://names of workers", "s", Selector(["x", "y"], BestFeasible("a"), 4)
    )
    assert study.worker().worker_name != study.worker().worker_name
    for wrong in ({"name": ""}, {"lease": 0}):
        with pytest.raises(asktell.InvalidArgumentError):
            study.worker(**wrong)  # type: ignore[arg-type]


def test_trials_are_asked_for_ahead_of_need(
    study: Study, selector: Selector, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks: list[int] = []
    hand_out = Study._hand_out

    def counted(mine: Study, n: int) -> Any:
        asks.append(n)
        return hand_out(mine, n)

    monkeypatch.setattr(Study, "_hand_out", counted)
    with study.worker("w", ahead=5) as worker:
        first, second = worker.ask(1), worker.ask(2)
        assert (len(first), len(second), asks) == (1, 2, [6])
        assert worker.pending == sorted(first + second)
        third = worker.ask(6)  # three are at hand
        assert (len(third), asks) == (6, [6, 8])
        assert len({trial.id for trial in first + second + third}) == 9
        for trial in first + second + third:
            worker.release(trial)
        assert len(study.workers()) == 5
    assert study.workers() == []
    with study.worker("w", ahead=3) as worker:
        assert asktell.run(worker, table, progress=False) == asktell.run(
            selector, table, progress=False
        )


@pytest.mark.parametrize("ahead", [-1, 1.5, None, True])
def test_how_far_ahead_is_a_whole_number(ahead: Any, study: Study) -> None:
    with pytest.raises(asktell.InvalidArgumentError, match="ahead"):
        study.worker(ahead=ahead)


# Whom a worker waits for


def few() -> Selector:
    return Selector(["a", "b", "c"], BestFeasible("q"), 12, "uniform", examples=8)


def test_who_waits_says_for_whom(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_SAID_AFTER", 0.1)
    study = Study.create(MemoryStorage(), "s", few())
    study.worker("slow", lease=0.8).ask(2)
    unnamed = study.ask()
    assert unnamed is not None

    def evaluate(prompt: str, example: int | None) -> float:
        if study.spent == 8:
            study.tell(unnamed, 0.5)
        return 0.1 * ord(prompt[0]) % 1

    with caplog.at_level(logging.WARNING, "asktell"):
        ends = time.time() + 0.8
        assert asktell.run(study, evaluate, progress=False).spent == 12
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Waiting for 2 trials held by worker slow until ")
    assert time.strftime("%H:%M:", time.localtime(ends)) in line
    held = study.workers
    study.ask(1)
    assert held() == []
    other = Study.create(MemoryStorage(), "s", few())
    other.ask()
    assert re.match(
        r"1 trial held by worker .* until [0-9:]{8}, or longer .* \(trial 0 since [0-9:]{8}\)",
        worker_module.held_by(other.workers(), time.time()),
    )


# A study bound to a worker's name


def test_a_bound_study_shares_the_study(study: Study) -> None:
    mine = study.worker("w")
    assert (study.worker_name, mine.worker_name, mine.name) == (None, "w", "s")
    assert "worker 'w'" in repr(mine)
    first, second = mine.ask(2)
    other = study.ask()
    assert sorted(study.pending) == sorted([first, second, other])
    assert mine.pending == sorted([first, second])
    assert mine.ask() not in (None, first, second)  # no trial twice
    assert study.worker("w", besides=[first.id]).ask() == second
    mine.close()
    assert study.spent == mine.spent == 0
    with study.worker("v"):
        pass
    assert study.release(other)


def test_what_is_for_a_worker_needs_its_name(study: Study) -> None:
    with pytest.raises(asktell.InvalidArgumentError, match=r"study\.worker"):
        study.heartbeat()


def test_waiting_ends_with_the_study(
    study: Study, selector: Selector, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = list[float]()
    monkeypatch.setattr(time, "sleep", waited.append)
    mine = study.worker("w")
    assert [study.wait(), study.wait(0.5), mine.wait(), mine.wait()] == [True] * 4
    assert waited == [1.0, 0.5, 0.02, 0.04]
    assert not selector.wait()
    monkeypatch.undo()
    asktell.run(study, table, progress=False)
    assert not study.wait()
    assert not mine.wait()


def test_the_scores_of_a_run_are_checked_once(
    study: Study, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, checked = type(study.goal), list[object]()
    vector = kind.vector

    def counted(goal: Any, scores: object, *options: Any) -> Any:
        checked.append(scores)
        return vector(goal, scores, *options)

    monkeypatch.setattr(kind, "vector", counted)
    assert asktell.run(study, table, progress=False).spent == len(checked)


def test_prompts_that_were_retired_are_not_wanted(study: Study) -> None:
    local = study.selector
    for selection in (local, study):
        trials = selection.ask(3)
        assert selection.unwanted == []
        selection.retire(trials[0].prompt_id, "too long")
        gone = [t for t in trials if t.prompt_id == trials[0].prompt_id]
        assert selection.unwanted == sorted(gone)


def test_threads_that_share_a_bound_study_never_get_the_same_trial() -> None:
    selector = asktell.Selector(
        ["a", "b", "c"], asktell.BestFeasible("score"), 60, "uniform", examples=30
    )
    study = asktell.Study.create("memory://threads-of-one-worker", "shared", selector)
    returned: list[int] = []

    def work(mine: asktell.Study) -> None:
        while trial := mine.ask():
            returned.append(trial.id)
            mine.tell(trial, {"score": 0.5})

    interval = sys.getswitchinterval()
    # Many switches between threads, so that a missing lock shows
    sys.setswitchinterval(1e-6)
    try:
        with study.worker("one") as mine, ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [mine] * 4))
    finally:
        sys.setswitchinterval(interval)
    assert sorted(returned) == list(range(60))


class Counted(dict[int, Trial]):
    """Counts how often one asks whether a trial is in it."""

    lookups = 0

    def __contains__(self, trial: object) -> bool:
        self.lookups += 1
        return super().__contains__(trial)


def test_a_worker_with_many_trials_asks_as_fast_as_one_with_few() -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 40_000, "uniform", 20_000)
    mine = Study.create("memory://many-trials", "s", selector).worker("w")
    trials = mine.ask(20_000)
    mine.ask()  # reads all trials once
    worker = mine._worker
    assert worker is not None
    worker.out = counted = Counted(worker.out)
    assert mine.ask() not in [*trials, None]
    assert counted.lookups <= 256
    counted.lookups = 0
    mine.tell(trials[5], 0.5)
    mine.ask()
    assert counted.lookups <= 2 * 256


def test_a_worker_that_begins_again_gets_its_many_trials_one_by_one() -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 2000, "uniform", 1000)
    study = Study.create("memory://begins-again", "s", selector)
    ids = sorted(trial.id for trial in study.worker("w").ask(600))
    again = study.worker("w", besides=ids[:10])
    got = []
    for i in range(590):
        trial = again.ask()
        assert trial is not None
        got.append(trial.id)
        if i == 300:
            again.tell(trial, 0.5)
    assert got == ids[10:]
    # All are busy, and a trial that is released is handed out again first.
    new = again.ask()
    assert new is not None
    assert new.id == 600
    again.release(got[40])
    assert [trial.id for trial in again.ask(2)] == [got[40], 601]


def test_a_prompt_stands_for_the_oldest_trial_of_it_that_is_out() -> None:
    selector = Selector({"x": "X", "y": "Y"}, BestFeasible("a"), 40, "uniform", 20)
    study = Study.create("memory://oldest", "s", selector)
    study.worker("other").ask(4)
    mine = study.worker("w")
    own = [trial for trial in sorted(mine.ask(8)) if trial.prompt_id == "y"]
    mine.tell("y", 0.5)
    mine.tell("Y", 0.25)
    told = [evaluation.trial for evaluation in study.evaluations()]
    assert told == [trial.id for trial in own[:2]]
    # Without this process, which knows what is out: the oldest that the worker holds.
    again = study.worker("w")
    again.tell("Y", 0.75)
    assert [e.trial for e in study.evaluations()][2:] == [own[2].id]


@pytest.mark.parametrize("jump", [61.0, 200.0, 1e5])
@pytest.mark.parametrize("kind", ["plain", "executor", "async"])
def test_no_evaluation_is_paid_twice_when_the_clock_jumps(
    kind: str, jump: float
) -> None:
    clock, paid = Clock(), []
    selector = Selector(["a", "b", "c"], BestFeasible("q"), Budget(cost=20), examples=9)
    study = Study.create(MemoryStorage(clock=clock), "s", selector)

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        paid.append((prompt, example))
        clock.time += jump  # a laptop that slept
        return {"q": ord(prompt) % 3 / 3, "cost": 1.0}

    async def evaluate_async(prompt: str, example: int) -> dict[str, float]:
        await asyncio.sleep(0)
        return evaluate(prompt, example)

    if kind == "executor":
        with ThreadPoolExecutor(4) as executor:
            asktell.run(study, evaluate, executor, progress=False)
    else:
        evaluator: Any = evaluate if kind == "plain" else evaluate_async
        asktell.run(study, evaluator, concurrency=4, progress=False)
    assert study.spent_cost == len(paid) == 20
    assert len(set(paid)) == 20
    assert not study.result().failures


def test_an_interrupt_while_heartbeats_begin_leaves_no_thread(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            raise KeyboardInterrupt

    def beats() -> bool:
        return any(each.name == "heartbeat of w" for each in threading.enumerate())

    worker = study.worker("w")
    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt), worker:
            pass
    until = time.monotonic() + 10
    while beats():
        assert time.monotonic() < until
        time.sleep(0.01)
    with worker:
        assert beats()
    assert not beats()
