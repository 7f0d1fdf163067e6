"""Studies in a PostgreSQL database: what all storages do, and how connections are shared, limited and lost."""

import gc
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from asktell import (
    BestFeasible,
    InvalidArgumentError,
    Selector,
    StorageBusyError,
    StorageError,
    Study,
)
from asktell.studies.storages import AbstractStorage, Line, postgresql
from asktell.studies.storages.postgresql import CONNECTIONS, PostgreSQLStorage
from asktell.testing.storage_contract import Connect, StorageContract
from tests.elsewhere import FORKING


@pytest.fixture
def open_storage(postgresql_url: str) -> Iterator[Callable[..., Any]]:
    made: list[AbstractStorage] = []

    def open_(url: str = postgresql_url, **options: Any) -> AbstractStorage:
        made.append(PostgreSQLStorage(url, **options))
        return made[-1]

    yield open_
    for storage in made:
        storage.close()


class TestPostgreSQLStorage(StorageContract):
    @pytest.fixture
    def connect(self, open_storage: Callable[..., Any]) -> Connect:
        return open_storage


def selector() -> Selector:
    return Selector(
        [f"prompt {i}" for i in range(5)],
        BestFeasible("a"),
        400,
        "uniform",
        examples=100,
    )


def sessions(url: str) -> list[int]:
    """The processes of the server that serve asktell in this test's schema."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s",
            (application(url),),
        ).fetchall()
    return [pid for (pid,) in rows]


def application(url: str) -> str:
    return url.rpartition("_")[2]


@pytest.fixture
def named_url(postgresql_url: str) -> str:
    """One whose sessions can be told from those of other tests."""
    return f"{postgresql_url}&application_name={application(postgresql_url)}"


# Sharing


def test_studies_of_one_storage_share_so_many_connections(
    postgresql_url: str, named_url: str, open_storage: Callable[..., Any]
) -> None:
    n_threads, most, storage = 24, [], open_storage(named_url)
    studies = [
        Study.create(storage, f"study {i}", selector()) for i in range(n_threads)
    ]

    def work(study: Study) -> None:
        for _ in range(5):
            study.tell(study.ask(), [1])

    with ThreadPoolExecutor(n_threads) as threads:
        working = [threads.submit(work, study) for study in studies]
        while not all(one.done() for one in working):
            most.append(len(sessions(postgresql_url)))
        for one in working:
            one.result()
    # And the one that looked first whether the server is there
    assert 1 < max(most) <= CONNECTIONS + 1
    for study in studies:
        study.close()  # not the storage, which is not theirs
    assert sessions(postgresql_url)
    storage.close()
    while sessions(postgresql_url):
        time.sleep(0.01)
    assert studies[0].spent == 5


def test_a_storage_that_nobody_holds_any_more_leaves_no_session(
    postgresql_url: str, named_url: str
) -> None:
    Study.create(named_url, "s", selector())
    while sessions(postgresql_url):
        gc.collect()
        time.sleep(0.01)


def test_who_finds_no_free_connection_waits_and_then_says_so(
    open_storage: Callable[..., Any],
) -> None:
    storage = open_storage(connections=1, patience=1)
    key = storage.create("s", b"", ["one"])
    with (
        ThreadPoolExecutor(1) as other,
        storage.transaction(key, durable=True) as transaction,
    ):
        transaction.read(0)
        assert len(storage.read(key, 0)) == 1  # of this thread: by the same connection
        with pytest.raises(StorageBusyError, match="It may use 1 at the same time"):
            other.submit(storage.names).result()
        waiting = other.submit(storage.find, "s")
        transaction.append(Line(2, "two"))
    assert waiting.result() == key


EXIT = """
import os, sys, threading
from asktell import BestFeasible, Selector, Study

study = Study.create(sys.argv[1], "s", Selector(["x", "y"], BestFeasible("a"), 20, "uniform"))
study.tell(study.ask(), [1])
pid = os.fork()
study.tell(study.ask(), [1])
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    print(study.spent)
"""


@pytest.mark.parametrize("options", [[], ["-W", "error"]])
def test_a_process_ends_without_closing(
    options: list[str], postgresql_url: str
) -> None:
    command = [sys.executable, *options, *FORKING, "-c", EXIT, postgresql_url]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


# Isolation


@pytest.mark.parametrize(
    "level", ["serializable", "repeatable\\ read", "read\\ committed"]
)
def test_the_server_s_default_isolation_does_not_matter(
    level: str, postgresql_url: str, open_storage: Callable[..., Any]
) -> None:
    url = postgresql_url + quote(f" -cdefault_transaction_isolation={level}")
    key = open_storage().create("s", b"")

    def count(storage: Any) -> None:
        for _ in range(20):
            with storage.transaction(key, durable=False) as transaction:
                n = len(transaction.read(0))
                transaction.append(Line(n + 1, str(n)))

    with ThreadPoolExecutor(4) as threads:
        for one in [threads.submit(count, open_storage(url)) for _ in range(4)]:
            one.result()
    assert [line.text for line in open_storage().read(key, 0)] == [
        str(n) for n in range(80)
    ]


# Time limits


def test_a_statement_has_time_limits(open_storage: Callable[..., Any]) -> None:
    storage = open_storage(patience=2.5)
    storage.create("s", b"")
    names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    found = [storage._query("SELECT current_setting(%s)", name)[0][0] for name in names]
    assert found == ["2500ms", "7500ms", "30s"]
    with storage._connected() as connection:
        assert connection.info.get_parameters()["tcp_user_timeout"] == "7500"


def test_who_pauses_in_a_transaction_loses_it(
    open_storage: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_SECONDS_PAUSED", 0.2)
    pausing, other = open_storage(), open_storage()
    key = other.create("s", b"")

    def pause() -> None:
        with pausing.transaction(key, durable=True) as transaction:
            transaction.read(0)
            with other.transaction(key, durable=True) as others:  # waits until it may
                others.read(0)
                others.append(Line(1, "other"))
            transaction.append(Line(1, "late"))

    with pytest.raises(StorageError, match="try again"):
        pause()
    assert pausing.read(key, 0) == [Line(1, "other")]


def test_a_commit_may_take_longer_than_a_statement(
    open_storage: Callable[..., Any],
) -> None:
    """For PostgreSQL says of one that is cut short, while it waits for a standby server, that it succeeded."""
    storage = open_storage(connections=1)
    key = storage.create("s", b"")
    with storage._connected() as connection:
        connection.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END'"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON asktell_log DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        connection.execute("SET statement_timeout TO '500ms'")
    with storage.transaction(key, durable=True) as transaction:
        transaction.read(0)
        transaction.append(Line(1, "one"))
    assert storage.read(key, 0) == [Line(1, "one")]


def test_nobody_waits_for_the_disk_while_he_keeps_others_out(
    open_storage: Callable[..., Any], postgresql_url: str
) -> None:
    """A study's row is free as soon as it is committed; what must be durable is flushed when its end has come."""
    storage = open_storage(connections=1)
    key = storage.create("s", b"")
    positions, flushed = (
        itertools.count(1),
        "SELECT pg_current_wal_flush_lsn() = pg_current_wal_insert_lsn()",
    )
    seen: dict[bool, set[bool]] = {True: set(), False: set()}
    with storage._connected() as connection:
        # The server's own writing comes in between now and then
        for durable in [True, False] * 10:
            with storage.transaction(key, durable) as transaction:
                transaction.read(0)
                transaction.append(Line(next(positions), "x" * 2000))
            seen[durable].add(connection.execute(flushed).fetchone() == (True,))
    assert True in seen[True]
    assert False in seen[False]
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            waiting, other = open_storage(), open_storage()
            with ThreadPoolExecutor(1) as thread:

                def append() -> None:
                    with waiting.transaction(key, durable=True) as transaction:
                        transaction.read(0)
                        transaction.append(
                            Line(21, "waits for a standby server that there is not")
                        )

                done = thread.submit(append)
                while len(other.read(key, 20)) < 1:
                    time.sleep(0.01)
                with other.transaction(key, durable=False) as transaction:
                    assert len(transaction.read(20)) == 1
                    transaction.append(Line(22, "meanwhile"))
                assert not done.done()
                connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                connection.execute("SELECT pg_reload_conf()")
                done.result(timeout=10)
        finally:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
    assert len(storage.read(key, 0)) == 22


def test_who_closes_leaves_the_others_connected(
    open_storage: Callable[..., Any],
) -> None:
    storage, other = open_storage(), open_storage()
    key = storage.create("s", b"")
    other.read(key, 0)
    pool = storage._opened(1.0)
    other.close()
    assert storage._pool is pool
    storage.close()
    assert storage._pool is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se@cret@host/studies",
        "postgresql://me:se/cret@host/studies",
        "postgresql://me:12/cret@host/studies",
        "postgresql://me:cret/studies",
        "postgresql://me:se%cret@host/studies",
        "postgres://me:se%ZZcret@host/studies",
        "postgresql:/me:secret@host/studies",
    ],
)
def test_no_part_of_a_password_stands_in_an_error(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="postgresql://") as caught:
        Study.open(url, "s")
    assert "cret" not in str(caught.value)
    if "//" in url:
        assert "%40" in str(caught.value)
        assert "%2F" in str(caught.value)
