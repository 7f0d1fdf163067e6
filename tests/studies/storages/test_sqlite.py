"""SQLite keeps the contract of storages; what is confirmed is on the disk; and writers take turns."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asktell import BestFeasible, InvalidArgumentError, Selector, StorageError, Study
from asktell.studies.storages import open_storage
from asktell.studies.storages.sqlite import SQLiteStorage
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
    return Study.create(
        path, "s", Selector(["x", "y"], BestFeasible("a"), 400, "uniform", examples=200)
    )


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
    trials = study.worker("w").ask(16)
    study.worker("w").heartbeat()
    assert set(modes) == {"NORMAL"}
    modes.clear()
    study.worker("w").tell_many([(trial, [1.0]) for trial in trials])
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
    # A commit without a change is not synced
    assert Path(f"{path}-wal").stat().st_size > size
    storage.close()


def test_many_threads_and_connections_take_turns(path: Path) -> None:
    new_study(path).close()

    def work(i: int) -> int:
        with Study.open(path, "s") as study:
            for _ in range(20):
                trial = study.worker(f"w{i}").ask()
                study.worker(f"w{i}").tell(trial, [float(i)])
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


# Whose eyes they are for


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_new_file_and_its_log_are_for_its_owner_only(
    path: Path, umask: int, has_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr("asktell._util.files.os.link", no_links)
    copies = path.parent / "copies"
    copies.mkdir()
    before = os.umask(umask)
    try:
        with new_study(path) as study:
            study.ask()
            study.export(copies / "s.jsonl")
            found = modes(path.parent)
            del found["copies"]
            assert found == {
                "studies.db": "0o600",
                "studies.db-wal": "0o600",
                "studies.db-shm": "0o600",
            }
        with Study.import_(copies / "imported.db", copies / "s.jsonl") as study:
            study.ask()
            assert set(modes(copies).values()) == {"0o600"}
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_permissions_of_a_file_that_is_there_stay(path: Path) -> None:
    new_study(path).close()
    path.chmod(0o640)  # for a group that works on it
    with Study.create(path, "t", Selector(["x", "y"], BestFeasible("a"), 4)) as study:
        study.ask()
        assert set(modes(path.parent).values()) == {"0o640"}


@pytest.mark.skipif(os.name == "nt", reason="no links")
def test_a_link_may_lead_to_a_file_that_is_not_there_yet(path: Path) -> None:
    path.symlink_to(path.parent / "real.db")
    new_study(path).close()
    assert path.is_symlink()
    assert Study.names(path.parent / "real.db") == ["s"]


def test_many_who_make_the_file_at_once_get_the_same(path: Path) -> None:
    def make(number: int) -> None:
        Study.create(
            path, f"s{number}", Selector(["x", "y"], BestFeasible("a"), 4)
        ).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))
    assert sorted(Study.names(path)) == [f"s{number}" for number in range(8)]
    assert [found.name for found in path.parent.iterdir()] == ["studies.db"]


@pytest.mark.parametrize("place", ["missing/studies.db", "a-file/studies.db"])
def test_what_cannot_be_made_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(
        StorageError,
        match=r"cannot be used\. The file cannot be opened.* unable to open database file",
    ):
        new_study(tmp_path / place)


@pytest.mark.parametrize(
    "location",
    ["sqlite:study.db", "file:study.db", "study.db?mode=ro", "sqlite:///study.db?mode=ro"],
)  # fmt: skip
def test_a_location_that_looks_like_another_kind_of_url_is_refused(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"sqlite:///PATH|no options"):
        open_storage(location)
    assert not list(tmp_path.iterdir())
