"""What goes wrong with disks, locks and servers is a clear error, and loses nothing that was confirmed."""

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asktell
from asktell import BestFeasible, Selector, StorageBusyError, StorageError, Study
from asktell.studies.storages import Line
from asktell.studies.storages.postgresql import (
    _LOCK_OF_SCHEMA,
    _TABLES,
    PostgreSQLStorage,
)
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell.testing.postgresql_server import Server


def selector(budget: int = 400) -> Selector:
    return Selector(
        [f"prompt {i}" for i in range(5)],
        BestFeasible("a"),
        budget,
        "uniform",
        examples=100,
    )


def tell_some(study: Study, n: int) -> list[int]:
    trials = study.worker("w").ask(n)
    for trial in trials:
        study.worker("w").tell(trial, [trial.id])
    return [trial.id for trial in trials]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "studies.db"


# A file


def test_a_locked_file(path: Path) -> None:
    storage = SQLiteStorage(path, patience=0.1)
    study = Study.create(storage, "s", selector())
    trial = study.ask()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusyError, match=r"locked by another process for 0\.1 s"):
        study.tell(trial, [1])
    assert study.spent == 0  # readers wait for nobody
    other.execute("ROLLBACK")
    study.tell(trial, [1])
    assert Study.open(path, "s").spent == 1
    other.close()
    storage.close()


def test_a_check_finds_a_locked_file(path: Path) -> None:
    storage = SQLiteStorage(path)
    storage.create("s", b"")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusyError, match=r"locked by another process for 0\.1 s"):
        storage.check(patience=0.1)
    with ThreadPoolExecutor(1) as thread:
        # Which holds this storage's lock meanwhile
        waiting = thread.submit(storage.delete, "s")
        for _ in range(3):
            with pytest.raises(StorageBusyError):
                storage.check(patience=0.1)
        other.execute("ROLLBACK")
        waiting.result()
    storage.check()
    other.close()
    storage.close()


def test_a_check_finds_a_file_that_may_not_be_written(path: Path) -> None:
    storage = SQLiteStorage(path)
    storage.create("s", b"")
    storage._connection().execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="permissions"):
        storage.check()
    storage.check()  # by a new connection
    storage.close()
    with pytest.raises(StorageError, match="cannot be created"):
        SQLiteStorage(path.parent / "missing" / "x.db").check()


def test_a_full_disk(path: Path) -> None:
    storage = SQLiteStorage(path)
    study = Study.create(storage, "s", selector())
    told = []
    (pages,) = storage._connection().execute("PRAGMA page_count").fetchone()
    storage._connection().execute(f"PRAGMA max_page_count = {pages + 1}")

    def work() -> None:
        while trial := study.worker("w").ask():
            study.worker("w").tell(trial, [trial.id])
            told.append(trial.id)

    with pytest.raises(StorageError, match="disk is full"):
        work()
    assert told
    assert study.spent == len(told)  # by a new connection, without the limit
    assert Study.open(path, "s").selector.state.history.trials().tolist() == told
    assert tell_some(study, 3)
    storage.close()


WRITE_UNTIL_FULL = """
import resource, sys
from asktell import StorageError, Study
study = Study.open(sys.argv[1], "s")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    while trial := study.worker("w").ask():
        study.worker("w").tell(trial, [trial.id])
        print(trial.id, flush=True)
except StorageError as error:
    print(error, file=sys.stderr)
"""


def test_a_file_that_may_not_grow(path: Path) -> None:
    with Study.create(path, "s", selector()):
        pass
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert soft == resource.RLIM_INFINITY
    for limit in (100_000, 123_457):
        before = set(Study.open(path, "s").selector.state.history.trials().tolist())
        command = [sys.executable, "-c", WRITE_UNTIL_FULL, str(path), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "cannot be used" in done.stderr
        told = set(map(int, done.stdout.split()))
        study = Study.open(path, "s")
        assert told
        assert before | told == set(study.selector.state.history.trials().tolist())
        assert tell_some(study, 2)
        study.close()


FILL_A_DISK = """
import subprocess, sys
from pathlib import Path
import asktell
from asktell import StorageError, Study

disk = Path(sys.argv[1])
path, ballast = disk / "studies.db", disk / "ballast"
ballast.write_bytes(bytes(200_000))
selector = asktell.Selector(["a", "b"], asktell.BestFeasible("x"), 10**6, "uniform", examples=10**6)
Study.create(path, "s", selector).close()
confirmed = []
for ballast_gone in (False, True):
    study = Study.open(path, "s")
    assert study.selector.state.history.trials().tolist() == confirmed
    try:
        while trial := study.worker("w").ask():
            study.worker("w").tell(trial, [trial.id])
            confirmed.append(trial.id)
    except StorageError as error:
        print(error)
    study.close()
    print(len(confirmed))
    ballast.unlink(missing_ok=True)
    if ballast_gone:
        break
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
study = Study.open(path, "s")
assert study.spent == len(confirmed)
try:
    study.ask()
except StorageError as error:
    print(error)
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=1m tmpfs '{tmp_path}'"
    if subprocess.run([*mounted, mount], capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    run = f"{mount} && exec '{sys.executable}' -c \"$1\" '{tmp_path}'"
    done = subprocess.run(
        [*mounted, run, "sh", FILL_A_DISK], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    full, first, again, second, read_only = done.stdout.splitlines()
    assert "disk is full" in full
    assert "disk is full" in again
    assert 0 < int(first) < int(second)
    assert "permissions" in read_only


def test_a_file_that_may_not_be_written(path: Path) -> None:
    storage = SQLiteStorage(path)
    study = Study.create(storage, "s", selector())
    storage._connection().execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="permissions"):
        study.ask()
    assert study.pending == []
    storage.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database, but text that is long enough to be read as a header" * 99],
)
def test_a_file_of_another_kind(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises((StorageError, asktell.StudyNotFoundError)):
        Study.open(path, "s")
    assert path.read_bytes() == content


def test_a_folder_and_a_missing_folder(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "missing" / "x.db"):
        with pytest.raises(StorageError):
            Study.create(wrong, "s", selector())


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "studies.db"
    with Study.create(path, "s", selector()) as study:
        tell_some(study, 150)
    return path.read_bytes()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), cut=st.booleans())
def test_a_torn_or_damaged_file_is_refused_or_right(
    seed: int, cut: bool, path: Path, whole_file: bytes
) -> None:
    rng = random.Random(seed)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    data = bytearray(whole_file)
    if cut:
        data = data[: rng.randrange(len(data))]
    else:
        start = rng.randrange(len(data) // 4096) * 4096
        data[start : start + 4096] = rng.randbytes(4096)
    path.write_bytes(data)
    try:
        with Study.open(path, "s") as study:
            history = study.selector.state.history
            assert history.scores().ravel().tolist() == history.trials().tolist()
            study.ask()
    except asktell.AsktellError:
        pass  # and nothing else


def test_a_torn_write_ahead_log_loses_only_its_end(path: Path, tmp_path: Path) -> None:
    study = Study.create(path, "s", selector())
    told, found = tell_some(study, 30), []
    wal = Path(f"{path}-wal").read_bytes()
    for i in range(20):
        copy = tmp_path / f"copy{i}.db"
        copy.write_bytes(path.read_bytes())
        Path(f"{copy}-wal").write_bytes(wal[: len(wal) * i // 20 + i])
        try:
            with Study.open(copy, "s") as torn:
                assert (
                    torn.selector.state.history.trials().tolist() == told[: torn.spent]
                )
                found.append(torn.spent)
        except asktell.StudyNotFoundError:
            assert not found  # it was cut off before the study was made
    assert len(set(found)) > 5
    assert found == sorted(found)
    study.close()


def test_a_forked_process_opens_a_connection_of_its_own(path: Path) -> None:
    script = """
import os, sys
from asktell import BestFeasible, Selector, Study
study = Study.create(sys.argv[1], "s", Selector(["x", "y"], BestFeasible("a"), 20, "uniform"))
for i in range(3):
    pid = os.fork()
    trial = study.ask()
    study.tell(trial, [trial.id])
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
print(study.spent)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "6\n"


def remove_all(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def put_a_copy_there(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db")).replace(path)


def put_another_study_there(path: Path) -> None:
    remove_all(path)
    with Study.create(path, "s", selector(300)) as study:
        tell_some(study, 10)


MOVES: dict[str, Callable[[Path], object]] = {
    "remove": Path.unlink,
    "remove all": remove_all,
    "remove the log": lambda path: Path(f"{path}-wal").unlink(),
    "remove the index": lambda path: Path(f"{path}-shm").unlink(),
    "rename": lambda path: path.rename(path.with_name("renamed.db")),
    "put a copy there": put_a_copy_there,
    "put another study there": put_another_study_there,
    "rename the folder": lambda path: path.parent.rename(
        path.parent.with_name("renamed")
    ),
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_file_that_is_no_longer_at_its_path_is_noticed(
    move: Callable[[Path], object], linked: bool, tmp_path: Path
) -> None:
    path, link = tmp_path / "folder" / "studies.db", tmp_path / "link.db"
    path.parent.mkdir()
    link.symlink_to(path)
    storage = SQLiteStorage(link if linked else path)
    study = Study.create(storage, "s", selector())
    tell_some(study, 5)
    trial = study.worker("w").ask()
    move(path)
    there = path.read_bytes() if path.exists() else b""
    uses: list[Callable[[], object]] = [
        lambda: study.worker("w").tell(trial, [1]),
        lambda: study.worker("other").ask(),
        lambda: study.spent,
        lambda: study.result(),
        storage.check,
        storage.names,
        lambda: storage.create("t", b""),
        lambda: storage.delete("s"),
        lambda: study.worker("w").tell(trial, [1]),
    ]
    for use in uses:
        with pytest.raises(StorageError, match="removed, renamed or replaced"):
            use()
    assert there == (path.read_bytes() if path.exists() else b"")
    storage.close()


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_file_that_leaves_its_path_during_a_transaction_is_noticed(
    move: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "folder" / "studies.db"
    path.parent.mkdir()
    storage = SQLiteStorage(path)
    key = storage.create("s", b"")

    def append() -> None:
        with storage.transaction(key, durable=True) as transaction:
            transaction.append(Line(1, "lost"))
            move(path)

    with pytest.raises(StorageError, match="last change may be lost"):
        append()
    storage.close()


def test_a_file_that_comes_back_is_gone_on_with(path: Path) -> None:
    study = Study.create(path, "s", selector())
    told = tell_some(study, 5)
    away = path.with_name("away.db")
    path.rename(away)
    with pytest.raises(StorageError, match="Put the files back"):
        study.ask()
    away.rename(path)
    told += tell_some(study, 5)
    study.close()
    with Study.open(path, "s") as study:
        assert study.selector.state.history.trials().tolist() == told


def test_after_closing_what_is_there_now_is_opened(path: Path) -> None:
    storage = SQLiteStorage(path)
    storage.create("old", b"")
    path.unlink()
    with SQLiteStorage(path)._writing(durable=True, create=True):
        pass
    with pytest.raises(StorageError, match="open the study again"):
        storage.names()
    storage.close()
    assert storage.names() == []
    storage.close()


def test_closing_does_not_remove_the_log_of_the_file_that_is_there_now(
    path: Path,
) -> None:
    old = Study.create(path, "s", selector())
    tell_some(old, 5)
    remove_all(path)
    new = Study.create(path, "s", selector())
    told = tell_some(new, 5)
    old.close()
    told += tell_some(new, 5)
    copy = path.with_name("copy.db")
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")  # as a crash would leave it
    with Study.open(copy, "s") as study:
        assert study.selector.state.history.trials().tolist() == told
    new.close()


def test_another_working_directory_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = Study.create("x.db", "s", selector())
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    study.close()
    assert study.ask() is not None
    assert os.listdir() == []
    study.close()


# A server


def terminate(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def test_a_lost_connection(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = PostgreSQLStorage(postgresql_url)
    study = Study.create(storage, "s", selector())
    tell_some(study, 3)
    terminate(postgresql_url)
    with pytest.raises(StorageError, match="try again"):
        study.worker("w").ask()
    trial = study.worker("w").ask()  # by a new connection
    assert trial.id == 3

    encode = asktell.studies.log.encode

    def lose(entries: list[asktell.studies.leases.Entry]) -> str:
        terminate(postgresql_url)
        return encode(entries)

    with monkeypatch.context() as patch:
        patch.setattr(asktell.studies.log, "encode", lose)
        with pytest.raises(StorageError, match="Recorded scores are not lost"):
            study.tell(trial, [3])
    assert study.spent == 3
    assert study.worker("w").ask() == trial
    study.tell(trial, [3])
    assert study.spent == 4
    storage.close()


def test_a_server_that_crashes(postgresql_server: Server, postgresql_url: str) -> None:
    study = Study.create(postgresql_url, "s", selector())
    told = tell_some(study, 20)
    postgresql_server.stop("immediate")
    with pytest.raises(StorageError):
        study.ask()
    with pytest.raises(StorageError, match="Check the server"):
        Study.open(postgresql_url, "s")
    postgresql_server.start()
    assert study.selector.state.history.trials().tolist() == told
    assert tell_some(study, 2)
    study.close()


def test_a_locked_study(postgresql_url: str) -> None:
    storage = PostgreSQLStorage(postgresql_url, patience=0.1)
    study = Study.create(storage, "s", selector())
    other = PostgreSQLStorage(postgresql_url)
    with other.transaction(1, durable=True) as transaction:
        transaction.read(0)
        with pytest.raises(StorageBusyError, match=r"0\.1 s"):
            study.ask()
        assert study.spent == 0
    assert study.ask() is not None
    storage.close()
    other.close()


def test_a_check_finds_a_server_that_is_read_only_or_gone(postgresql_url: str) -> None:
    made = PostgreSQLStorage(postgresql_url)
    made.create("s", b"")
    made.close()
    read_only = PostgreSQLStorage(
        f"{postgresql_url}%20-cdefault_transaction_read_only%3Don"
    )
    with pytest.raises(StorageError, match="read-only"):
        read_only.check()
    read_only.close()
    with pytest.raises(StorageError, match="Check the server"):
        PostgreSQLStorage("postgresql://127.0.0.1:1/db").check()


def test_two_that_create_the_first_study_of_a_database(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url) as first, ThreadPoolExecutor(1) as thread:
        first.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_OF_SCHEMA,))
        second = thread.submit(
            Study.create, postgresql_url, "s", selector(), exist_ok=True
        )
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not first.execute(waiting).fetchall():
            assert not second.done(), second.exception()
            time.sleep(0.01)
        first.execute(_TABLES)
        first.commit()
        with second.result() as study:
            assert study.ask() is not None


def test_a_password_stays_out_of_messages() -> None:
    with pytest.raises(StorageError) as raised:
        Study.open("postgresql://me:geheim@127.0.0.1:1/db", "s")
    assert "geheim" not in str(raised.value)
    assert "127.0.0.1:1" in str(raised.value)
    with pytest.raises(asktell.InvalidArgumentError) as refused:
        Study.open("postgresql://me:geheim@[::1", "s")
    assert "geheim" not in str(refused.value)
