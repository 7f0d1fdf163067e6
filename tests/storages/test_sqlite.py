"""SQLite keeps the contract of storages; what is confirmed is on the disk; and writers take turns."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asktell import BestFeasible, Selector, Study
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


def modes_of_commits(storage: SQLiteStorage) -> list[str]:
    """What `synchronous` is from now on whenever something is committed."""
    found, mode = list[str](), "unknown"

    def note(sql: str) -> None:
        nonlocal mode
        if sql.startswith("PRAGMA synchronous ="):
            mode = sql.split()[-1]
        elif sql == "COMMIT":
            found.append(mode)

    storage._connection().set_trace_callback(note)
    return found


def test_asking_waits_for_no_disk_and_a_batch_waits_once(path: Path) -> None:
    new_study(path).close()
    storage = SQLiteStorage(path)
    study = Study.open(storage, "s")
    modes = modes_of_commits(storage)
    trials = study.ask(16, worker="w")
    study.heartbeat("w")
    assert set(modes) == {"NORMAL"}
    modes.clear()
    study.tell_many([(trial, [1.0]) for trial in trials], worker="w")
    assert modes == ["FULL"]
    storage.close()


def test_what_was_told_before_is_on_the_disk_when_it_is_told_again(path: Path) -> None:
    """Another process may have been killed between its commit and the sync, which it owes to whoever tells again."""
    new_study(path).close()
    storage = SQLiteStorage(path)
    study = Study.open(storage, "s")
    trial = study.ask()
    study.tell(trial, [1.0])
    size = Path(f"{path}-wal").stat().st_size
    study.tell(trial, [1.0])
    assert Path(f"{path}-wal").stat().st_size > size  # a commit without a change is not synced
    storage.close()


def test_many_threads_and_connections_take_turns(path: Path) -> None:
    new_study(path).close()

    def work(i: int) -> int:
        with Study.open(path, "s") as study:
            for _ in range(20):
                trial = study.ask(worker=f"w{i}")
                study.tell(trial, [float(i)], worker=f"w{i}")
        return i

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(work, range(6))) == list(range(6))
    with Study.open(path, "s") as study:
        assert study.spent == 120


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
