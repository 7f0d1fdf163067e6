"""SQLite keeps the contract of storages; what is confirmed is on the disk; and writers take turns."""

import errno
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asktell import BestFeasible, Selector, StorageBusyError, StorageError, Study
from asktell.storages import _sqlite_wal
from asktell.storages.sqlite import SQLiteStorage
from asktell.testing.storage_contract import Connect, StorageContract


class TestSQLiteStorage(StorageContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return lambda: SQLiteStorage(tmp_path / "studies.db")


# Syncing, and waiting for a turn to write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "studies.db"


def new_study(path: Path) -> Study:
    return Study.create(path, "s", Selector(["x", "y"], BestFeasible("a"), 400, "uniform", examples=200))


def test_what_was_confirmed_is_in_what_was_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of power takes what was written since the last sync; other processes' commits are in between."""
    study, other = new_study(path), Study.open(path, "s")
    synced = path.with_name("synced.db")
    sync = _sqlite_wal._sync

    def remember(handle: int) -> None:
        sync(handle)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{synced}{suffix}")

    monkeypatch.setattr(_sqlite_wal, "_sync", remember)
    for i in range(40):
        mine, theirs = study.ask(2, worker="mine"), other.ask(worker="theirs")
        if i % 3 == 0:
            study.tell_many([(trial, [trial.id]) for trial in mine], worker="mine")
        else:
            for trial in mine:
                study.tell(trial, [trial.id], worker="mine")
        assert theirs is not None
        told = study.spent
        with Study.open(synced, "s") as survived:
            assert survived.spent == told
        Path(f"{synced}-shm").unlink(missing_ok=True)
        other.tell(theirs, [0.0], worker="theirs")
    other.close()
    study.close()


def test_asking_waits_for_no_disk_and_a_batch_waits_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = new_study(path)
    syncs: list[int] = []
    monkeypatch.setattr(_sqlite_wal, "_sync", syncs.append)
    trials = study.ask(16, worker="w")
    study.heartbeat("w")
    assert not syncs
    study.tell_many([(trial, [1.0]) for trial in trials], worker="w")
    assert len(syncs) == 1
    study.close()


def test_a_disk_that_fails_to_sync_confirms_nothing_until_all_is_written_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = new_study(path)
    first, second = study.ask(2)

    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(_sqlite_wal, "_sync", fail)
        with pytest.raises(StorageError, match="not confirmed"):
            study.tell(first, [1.0])
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM asktell_log").fetchall()  # so that the log cannot be emptied
    with pytest.raises(StorageBusyError):
        study.tell(first, [1.0])
    reader.close()
    assert study.tell(first, [1.0])
    assert Path(f"{path}-wal").stat().st_size == 0  # it is in the database, synced by SQLite
    assert study.tell(second, [2.0])
    assert Study.open(path, "s").spent == 2
    study.close()


@pytest.mark.parametrize("kernel_has_queues", [True, False])
def test_many_threads_and_connections_take_turns(
    kernel_has_queues: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel_has_queues:
        monkeypatch.setattr(_sqlite_wal, "fcntl", None)
    new_study(path).close()

    def work(i: int) -> int:
        with Study.open(path, "s") as study:
            for _ in range(20):
                trial = study.ask(worker=f"w{i}")
                assert trial is not None
                study.tell(trial, [float(i)], worker=f"w{i}")
        return i

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(work, range(6))) == list(range(6))
    with Study.open(path, "s") as study:
        assert study.spent == 120


def test_who_stands_still_when_it_is_its_turn_keeps_nobody_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(_sqlite_wal, "_SECONDS_IN_QUEUE", 0.05)
    study = new_study(path)
    trial = study.ask()
    with open(f"{path}-wal", "rb") as still:
        fcntl.flock(still, fcntl.LOCK_EX)
        assert study.tell(trial, [1.0])
        trial = study.ask()
        study.close()  # while its thread stands in the queue
        with Study.open(path, "s") as again:
            assert again.tell(trial, [1.0])
    with Study.open(path, "s") as study:  # the thread that was left standing has had its turn, and is gone
        assert study.spent == 2
        deadline = time.monotonic() + 10
        while any("queues for a database" in t.name for t in threading.enumerate()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not [t for t in threading.enumerate() if "queues for a database" in t.name]


def test_a_turn_comes_when_the_one_before_ends(path: Path) -> None:
    study, other = new_study(path), Study.open(path, "s")
    trial = other.ask()
    assert trial is not None
    with ThreadPoolExecutor(1) as thread:
        with study._replica.writing(durable=False):
            waiting = thread.submit(other.tell, trial, [1.0])
            time.sleep(0.05)
            assert not waiting.done()
        assert waiting.result(timeout=10)
    other.close()
    study.close()
