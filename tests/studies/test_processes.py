"""What a killed process held is given to others at once, where it is certain that it is gone; who waits says so."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import asktell
from asktell import BestFeasible, InvalidStateError, Selector, Study
from asktell.storages import Line
from asktell.storages.memory import MemoryStorage
from asktell.studies import leases, replica
from asktell.studies import worker as workers
from asktell.studies.leases import is_gone, this_process

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere nobody is known to be gone")
HOLD = """
import sys, time
from asktell import RemoteStudy, Study
name = sys.argv[2]
study = RemoteStudy.open(sys.argv[1], "s") if sys.argv[1].startswith("http") else Study.open(sys.argv[1], "s")
with study.worker(name, lease=3600.0) as worker:
    print(len(worker.ask(3)), flush=True)
    time.sleep(600)
"""


def new(budget: int = 12) -> Selector:
    return Selector(["a", "b", "c"], BestFeasible("q"), budget, "uniform", examples=8)


def score(prompt: str, example: int | None) -> float:
    return 0.1 * ord(prompt[0]) % 1


def holder(url: str, name: str = "killed") -> "subprocess.Popen[str]":
    """A process that holds three trials for an hour."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, url, name], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "3\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def parts() -> list[str]:
    this = this_process()
    if this is None:
        pytest.skip("processes are not known on this machine")
    return this.split(":")


@linux
@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_a_run_after_a_kill_waits_for_nobody(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = str(tmp_path / "x.db") if place == "sqlite" else request.getfixturevalue("postgresql_url")
    study = Study.create(url, "s", new())
    end(holder(url))
    before = time.monotonic()
    result = asktell.run(study, score, progress=False)
    assert time.monotonic() - before < 60
    assert (result.spent, study.pending) == (12, [])
    study.close()


@linux
def test_who_lives_keeps_its_trials(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "x.db", "s", new())
    process = holder(str(tmp_path / "x.db"))
    assert len(study.ask(12, worker="other")) == 9
    os.kill(process.pid, signal.SIGSTOP)  # it may go on
    assert study.ask(12, worker="third") == []
    process.kill()
    while not is_gone(study._replica.logged.leases.by_trial[0].process or ""):  # as a zombie: nobody waited for it yet
        time.sleep(0.01)
    assert [trial.id for trial in study.ask(12, worker="third")] == [0, 1, 2]
    assert [holding.attempt for holding in study.workers()] == [2] * 3 + [1] * 9
    end(process)
    study.close()


@linux
def test_a_worker_that_is_restarted_has_not_failed(tmp_path: Path) -> None:
    """Its trials are its own, however often it is killed; another one's attempts are counted."""
    study = Study.create(tmp_path / "x.db", "s", new(), max_attempts=2)
    for _ in range(4):
        end(holder(str(tmp_path / "x.db"), "same"))
    assert [holding.attempt for holding in study.workers()] == [1] * 3
    assert {0, 1, 2} <= {trial.id for trial in study.ask(12, worker="same")}
    study.close()


@linux
def test_only_who_is_certainly_gone_is_gone(parts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    machine, pid, start = parts
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_gone(f"{machine}:{pid}:{start}")
    assert is_gone(f"{machine}:{pid}:{int(start) + 1}")  # another process has its number by now
    assert is_gone(f"{machine}:{ended.pid}:{start}")
    assert not is_gone(f"{'0' * 16}:{ended.pid}:{start}")  # of another machine, or boot, or container
    assert not is_gone(f"{machine}:1:{leases._start(1)}")
    for text in ("", machine, f"{machine}:-1:1", f"{machine}:{ended.pid}", f"x{machine}:9:9", f"{machine}:../x:1"):
        assert not is_gone(text)


@linux
def test_where_machines_cannot_be_told_apart_nobody_is_gone(parts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_machine", lambda: None)
    assert this_process() is None
    assert not is_gone(f"{parts[0]}:{2**22 + 1}:1")
    study = Study.create(MemoryStorage(), "s", new())
    with study.worker("w") as worker:
        worker.ask(2)
        assert study._replica.logged.leases.by_trial[0].process is None
        assert asktell.run(study.worker("w"), score, progress=False).done


@linux
def test_a_name_of_a_process_may_hold_anything(tmp_path: Path) -> None:
    link = tmp_path / "a) R 1 (b"
    link.symlink_to(sys.executable)
    process = subprocess.Popen([link, "-c", "import time; time.sleep(60)"])
    found, mine = leases._start(process.pid), leases._start(os.getpid())
    process.kill()
    process.wait()
    assert found is not None
    assert mine is not None
    assert int(found) >= int(mine)


@linux
def test_processes_are_kept_in_logs_and_snapshots(parts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "ENTRIES_PER_SNAPSHOT", 4)
    storage, process = MemoryStorage(), ":".join(parts)
    study = Study.create(storage, "s", new())
    (trial,) = study.ask(1, worker="w", process=process)
    study.heartbeat("w")  # from whatever process
    assert Study.open(storage, "s")._replica.logged.leases.by_trial[trial.id].process == process
    study._replica.save()
    assert storage.snapshot(1) is not None
    assert Study.open(storage, "s")._replica.logged.leases.by_trial[trial.id].process == process
    assert study.ask(1, worker="other") != []
    study.tell(trial, 0.5, worker="other")
    with pytest.raises(asktell.InvalidArgumentError, match="process"):
        study.ask(1, worker="w", process="")
    with storage.transaction(1, True) as transaction:
        lines = transaction.read(0)
        transaction.append(Line(lines[-1].position + 1, '[["l","w",1.0,[1],7]]'))
    with pytest.raises(InvalidStateError, match="process"):
        study.ask()


def test_who_waits_says_for_whom(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_SAID_AFTER", 0.1)
    study = Study.create(MemoryStorage(), "s", new())
    study.ask(2, worker="slow", lease=1.5)
    unnamed = study.ask()
    assert unnamed is not None

    def evaluate(prompt: str, example: int | None) -> float:
        if study.spent == 8:
            study.tell(unnamed, 0.5)
        return score(prompt, example)

    with caplog.at_level(logging.WARNING, "asktell"):
        ends = time.time() + 1.5
        assert asktell.run(study, evaluate, progress=False).spent == 12
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Waiting for 2 trials held by worker slow until ")
    assert time.strftime("%H:%M:", time.localtime(ends)) in line
    held = study.workers
    study.ask(1)
    assert held() == []
    other = Study.create(MemoryStorage(), "s", new())
    other.ask()
    assert workers.held_by(other.workers(), 0.0).startswith("1 trial asked without a worker's name")
