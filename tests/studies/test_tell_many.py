"""Several scores at once: one line of the log, one wait for the disk, and no harm by a neighbour."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study, Tell
from asktell.errors import (
    ConflictingTellError,
    InvalidArgumentError,
    InvalidScoresError,
    StorageError,
    TellManyError,
    UnknownTrialError,
)
from asktell.studies.storages import AbstractStorage
from asktell.studies.storages.memory import MemoryStorage


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return (
        f"sqlite:///{tmp_path}/x.db"
        if request.param == "sqlite"
        else f"memory://{tmp_path}"
    )


@pytest.fixture
def study(location: str) -> Iterator[Study]:
    with Study.create(location, "s", selector()) as made:
        yield made


def selector() -> Selector:
    return Selector(["x", "y"], BestFeasible("a"), 40, "uniform", examples=20)


def lines(study: Study) -> list[str]:
    return list(study._replica.lines())


def test_a_batch_is_one_line_and_in_bits_what_single_tells_are(
    study: Study, location: str
) -> None:
    reference = selector()
    trials = study.ask(8)
    assert reference.ask(8) == trials
    n_lines = len(lines(study))
    assert (
        study.tell_many([(trial, [0.1 * trial.id]) for trial in trials]) == [True] * 8
    )
    assert len(lines(study)) == n_lines + 1
    for trial in trials:
        reference.tell(trial, [0.1 * trial.id])
    with Study.open(location, "s") as again:
        assert (
            again.selector.to_json() == study.selector.to_json() == reference.to_json()
        )


def test_a_bad_neighbour_costs_nobody_a_score(study: Study, location: str) -> None:
    trials = study.ask(6)
    study.tell(trials[5], [0.5])
    n_lines = len(lines(study))
    tells: list[Any] = [
        (trials[0], [1.0]),
        (trials[1], [float("nan")]),
        Tell(trials[2], {"a": 2.0}, 0.25, {"answer": "two"}),
        (99, [1.0]),
        (trials[3], [3.0], -1.0),
        (trials[3], [3.0], "free"),
        trials[4],
        "scores",
        (trials[5], [0.5]),
        (trials[5], [0.75]),
        (trials[4], [4.0]),
        (trials[4], [4.0]),
    ]
    with pytest.raises(
        TellManyError,
        match=r"7 of 12 scores were refused.*Item 1 has InvalidScoresError",
    ) as caught:
        study.tell_many(tells)
    kinds = [
        each if isinstance(each, bool) else type(each) for each in caught.value.outcomes
    ]
    assert kinds == [
        True,
        InvalidScoresError,
        True,
        UnknownTrialError,
        InvalidArgumentError,
        InvalidArgumentError,
        InvalidArgumentError,  # although it is a tuple of four parts
        InvalidArgumentError,
        False,
        ConflictingTellError,
        True,
        False,
    ]
    assert sorted(study.pending) == sorted([trials[1], trials[3]])
    assert len(lines(study)) == n_lines + 1
    with Study.open(location, "s") as again:
        assert again.spent == 4
        assert again.spent_cost == 0.25
        assert [e.details for e in again.evaluations() if e.details] == [
            {"answer": "two"}
        ]
        assert again.pending == study.pending


def test_nothing_is_told_by_nothing(study: Study) -> None:
    n_lines = len(lines(study))
    assert study.tell_many([]) == []
    assert study.tell_many(iter(())) == []
    assert len(lines(study)) == n_lines
    with pytest.raises(InvalidArgumentError, match="The name of a worker"):
        study.worker("").tell_many([])


def test_scores_that_come_late_are_not_taken_and_no_error(study: Study) -> None:
    mine = study.worker("slow", lease=1e-3).ask(2)
    time.sleep(0.01)
    theirs = study.worker("quick").ask(2)
    assert {trial.id for trial in mine} == {trial.id for trial in theirs}
    assert study.worker("quick").tell_many([(0, [1.0])]) == [True]
    assert study.worker("slow").tell_many([(0, [2.0]), (1, [2.0])]) == [False, True]


def test_a_storage_that_fails_takes_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", selector())
    trials = study.ask(3)

    def gone(*_: object) -> AbstractStorage:
        raise StorageError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStorage, "transaction", gone)
        with pytest.raises(StorageError, match="gone"):
            study.tell_many([(trial, [1.0]) for trial in trials])
    assert len(study.pending) == 3
    assert study.tell_many([(trial, [1.0]) for trial in trials]) == [True] * 3


def test_a_worker_has_out_what_was_refused(study: Study) -> None:
    with study.worker("w") as worker:
        trials = worker.ask(4)
        assert worker.tell_many(
            [(trials[0], [1.0]), (trials[1], [2.0], 0.5, {"answer": "x"})]
        ) == [True, True]
        assert worker.pending == sorted(trials[2:])
        with pytest.raises(TellManyError):
            worker.tell_many([(trials[2].id, [1.0]), (trials[3], [])])
        assert worker.pending == trials[3:]
        worker.release(trials[3])


def test_the_error_goes_to_another_process() -> None:
    error = TellManyError("one", [True, ValueError("two")])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "one"
    assert again.outcomes[0] is True
    assert str(again.outcomes[1]) == "two"


class Batches:
    """An evaluator of batches, of which one score is of no use."""

    def evaluate_batch(self, trials: list[asktell.Trial]) -> list[Any]:
        return [
            {"a": float("nan") if trial.id == 5 else 0.1 * trial.id, "more": 1.0}
            for trial in trials
        ]


def test_a_run_in_batches_tells_a_batch_in_one_line(study: Study) -> None:
    seen: list[int] = []
    asktell.run(
        study,
        Batches(),
        concurrency=8,
        batch_size=8,
        progress=False,
        on_tell=lambda _, trial: seen.append(trial.id),
    )
    assert study.spent == 39
    assert sorted(seen) == list(range(40))
    told = [line for line in lines(study) if '["t"' in line]
    assert len(told) <= 8
    assert max(line.count('["t"') for line in told) == 8
    assert [e.details for e in study.evaluations() if e.trial == 0] == [
        {"scores": {"a": 0.0, "more": 1.0}}
    ]
