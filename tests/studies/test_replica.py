"""Transactions shared by threads, and logs that are not what they were."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, InvalidStateError, Selector, StorageError, Study
from asktell.studies.storages import Line
from asktell.studies.storages.memory import MemoryStorage


def new(storage: MemoryStorage | None = None) -> Study:
    selector = Selector(["x", "y"], BestFeasible("a"), 40, "uniform")
    return Study.create(storage or MemoryStorage(), "s", selector)


def at_once(study: Study, operations: list[Callable[[], Any]]) -> list[Any]:
    """What became of operations of as many threads, that all wait for the same lock."""
    outcomes: list[Any] = [None] * len(operations)

    def run(i: int) -> None:
        try:
            outcomes[i] = operations[i]()
        except BaseException as error:
            outcomes[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(operations))]
    with study._replica.lock:
        for thread in threads:
            thread.start()
        while len(study._replica._waiting) < len(operations):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    return outcomes


def test_threads_that_tell_at_the_same_time_share_a_commit() -> None:
    storage = MemoryStorage()
    study = new(storage)
    trials = study.ask(6)
    before = len(storage.read(1, 0))
    assert (
        at_once(study, [lambda t=t: study.tell(t, [t.id]) for t in trials])
        == [True] * 6
    )
    assert len(storage.read(1, 0)) == before + 1
    assert study.spent == Study.open(storage, "s").spent == 6


def test_the_mistake_of_one_is_its_own() -> None:
    study = new()
    a, b, c = study.ask(3)
    told = at_once(
        study,
        [
            lambda: study.tell(a, [1.0]),
            lambda: study.tell(b, [float("nan")]),
            lambda: study.tell(99, [1.0]),
            lambda: study.tell(c, [3.0]),
        ],
    )
    assert told[0] is told[3] is True
    assert isinstance(told[1], asktell.InvalidScoresError)
    assert isinstance(told[2], asktell.UnknownTrialError)
    assert study.pending == [b]


def test_a_commit_that_fails_fails_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    study = new()
    trials = study.ask(3)

    def gone(*_: Any) -> Any:
        raise StorageError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStorage, "transaction", gone)
        outcomes = at_once(study, [lambda t=t: study.tell(t, [1.0]) for t in trials])
    assert [str(error) for error in outcomes] == ["gone"] * 3
    assert len(set(map(id, outcomes))) == 3
    assert study.spent == 0
    assert [study.tell(trial, [1.0]) for trial in trials] == [True] * 3


@pytest.mark.parametrize("lost", [1, 2, 5])
@pytest.mark.parametrize("then", ["nothing", "others go on"])
def test_a_log_that_lost_its_end_is_read_anew(lost: int, then: str) -> None:
    storage = MemoryStorage()
    study = new(storage)
    for _ in range(4):
        study.tell(study.worker("w").ask(), [1.0])
    held = study.worker("w").ask()
    # As after a crash of a server, with what was not durable
    del storage._logs[1].lines[-lost:]
    if then == "others go on":
        other = Study.open(storage, "s")
        for trial in other.worker("v").ask(5):
            other.worker("v").tell(trial, [2.0])
        assert study.spent == other.spent
        assert study.selector.to_json() == other.selector.to_json()
        if held.id not in study.selector.state.history.trials():
            with pytest.raises(asktell.UnknownTrialError):
                study.tell(held, [1.0])
    else:
        assert study.spent == Study.open(storage, "s").spent
    while trial := study.worker("w").ask():
        study.worker("w").tell(trial, [1.0])
    assert study.done


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "{}",
        "[1]",
        "[[]]",
        '[["z"]]',
        '[["a",0,0]]',
        '[["a",7,0,null]]',
        '[["a",0,9,null]]',
        '[["t",0,[1.0]]]',
        '[["t",0,[NaN]]]',
        '[["t",0,[1e999]]]',
        '[["r",0]]',
        '[["x",0]]',
        '[["l","w",1e999,[0]]]',
        '[["l","w",1,[0]]]',
        '[["o",0,0,[1.0]]]',
        '[["o",0,null,null]]',
        '[["o",0,null,null,-1.0]]',
        '[["o",0,null,[1.0],null,null]]',
        '[["o",9,null,[1.0]]]',
        '[["o",0,null,[1.0,1.0]]]',
        '[["o",0,null,[1.0],1e-60]]',
        '[["t",1e999,[1.0]]]',
        '[["a",' + "9" * 5000 + ",0,null]]",
        "[" * 100_000,
        '[["f",0,"why"]]',
        '[["d"]]',
        '[["d",{}]]',
        '[["d",0,[[9,"rejected","why"]],1]]',
        '[["d",0,[[0,"bored","why"]],1]]',
        '[["d",0,[[0,"rejected","why",[1.0,2.0],[]]],1]]',
        '[["d",0,[],0,true,[7]]]',
        '[["d",0,[],0,false,[],[[0,3]]]]',
        '[["a",0,0,null],["t",0,[1.0]],["t",0,[1.0]]]',
        '[["d",0,[],99]]',
        '[["d",1,[],1]]',
    ],
)
def test_a_line_that_cannot_be_is_refused_whole(text: str) -> None:
    storage = MemoryStorage()
    study = new(storage)
    before = study.selector.to_json()
    with storage.transaction(1, durable=True) as transaction:
        transaction.append(Line(1, text))
    for attempt in (
        lambda: study.spent,
        study.ask,
        lambda: study.tell(0, [1.0]),
        lambda: Study.open(storage, "s"),
    ):
        with pytest.raises(InvalidStateError):
            attempt()
    assert study._replica.selector.to_json() == before


def test_a_missing_line_is_noticed() -> None:
    storage = MemoryStorage()
    study = new(storage)
    storage.read = lambda key, after, most=0: [Line(2, "[]")]  # type: ignore[method-assign, assignment, misc]
    with pytest.raises(InvalidStateError, match="lacks line 1"):
        assert study.spent
