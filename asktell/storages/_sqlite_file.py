"""A SQLite database in a file: its one connection, its transactions, and what forks do to them.

In WAL mode a commit with `synchronous=NORMAL` waits for no disk: it is in the file for every other process, and on the
disk with the next sync of the log, which is ours to do (`_sqlite_wal`). Writers wait for each other, and readers for
nobody.

SQLite goes on writing to a file that has lost its name, and to a write-ahead log that nobody else will read. So every
operation compares the files at the path with those that are open, before it begins and before anything is confirmed.

A connection must not reach a forked process: the child would believe that it holds the parent's locks, and the parent,
when it closes, would remove the log that the child writes to. So connections are closed before a fork.
"""

import ctypes
import math
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeAlias
from weakref import WeakSet

from asktell.errors import StorageError, StudyNotFoundError
from asktell.storages._sqlite_errors import busy, moved, not_synced, translation
from asktell.storages._sqlite_wal import WriteAheadLog
from asktell.storages.base import SCHEMA_VERSION, check_schema

_TABLES = (
    "CREATE TABLE asktell_schema (version INTEGER NOT NULL)",
    f"INSERT INTO asktell_schema VALUES ({SCHEMA_VERSION})",
    "CREATE TABLE asktell_studies (key INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, "
    "document BLOB NOT NULL)",
    "CREATE TABLE asktell_log (study INTEGER NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
    "position INTEGER NOT NULL, entries TEXT NOT NULL, PRIMARY KEY (study, position)) WITHOUT ROWID",
    "CREATE TABLE asktell_snapshots (study INTEGER PRIMARY KEY REFERENCES asktell_studies ON DELETE CASCADE, "
    "position INTEGER NOT NULL, parts INTEGER NOT NULL, head BLOB NOT NULL)",
    "CREATE TABLE asktell_parts (study INTEGER NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
    "number INTEGER NOT NULL, part BLOB NOT NULL, PRIMARY KEY (study, number)) WITHOUT ROWID",
    "CREATE TABLE asktell_details (study INTEGER NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
    "trial INTEGER NOT NULL, details TEXT NOT NULL, PRIMARY KEY (study, trial))",
)
_ATTEMPTS_TO_OPEN = 10  # while another file takes its place
_SECONDS_BETWEEN_ATTEMPTS = (0.0002, 0.002)

_Identity: TypeAlias = tuple[int, int] | None
"""Device and inode; None where there is no file."""


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SQLiteFile:
    """A database, opened when it is first needed. For several threads, and goes on in a forked process.

    Args:
        path: of the file; its folder must exist.
        patience: seconds to wait for other processes before StorageBusyError.
    """

    _open: sqlite3.Connection | None = None
    _log: WriteAheadLog | None = None

    def __init__(self, path: str | Path, patience: float) -> None:
        self.path = os.path.abspath(path)  # a change of the working directory must not lead to another file
        self._patience = patience
        self._still = False  # whether it is open as a file that nobody writes to
        self._files: dict[str, _Identity] = {}  # that are open, or were last, by their paths
        self._unsynced = False  # whether a sync has failed, so that the log's file may have a hole
        self._commits = self._flushed = 0  # how many there were, and how many are known to be on the disk
        self._flushing = Lock()  # taken before the other, if both are
        self._lock = RLock()
        with _forking:
            _in_use.add(self)

    def _confirm(self, patience: float) -> None:
        """Whether it could be written to; see AbstractStorage.check."""
        if not self._lock.acquire(timeout=patience):
            raise busy(self.path, patience)
        try:
            if not self._files and not os.path.exists(self.path):
                if not os.access(os.path.dirname(self.path), os.W_OK | os.X_OK):
                    raise StorageError(f"{self.path!r} cannot be made. Check its folder, and its permissions.")
                return
            with self._translated(patience), suppress(StudyNotFoundError):  # there are no tables yet
                connection = self._connection()
                self._compare_files()
                self._patiently(connection, "BEGIN IMMEDIATE", patience=patience)
                connection.execute("ROLLBACK")
        finally:
            self._lock.release()

    def _close(self) -> None:
        with self._lock:
            self._disconnect()
            self._files = {}

    def __del__(self) -> None:
        self._disconnect()  # since Python 3.13 sqlite3 warns where nobody does

    def _query(self, sql: str, *values: object) -> list[Any]:
        with self._lock, self._translated():
            rows = self._patiently(self._connection(), sql, values).fetchall()
            self._compare_files()
            return rows

    @contextmanager
    def _writing(self, durable: bool, create: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translated():
            connection = self._connection(create)
            self._compare_files()
            with self._committed(connection):
                yield connection
            self._commits += 1
            self._compare_files()
        if durable:
            self._flush()

    def _connection(self, create: bool = False) -> sqlite3.Connection:
        if self._open is not None and self._still and os.path.exists(f"{os.path.realpath(self.path)}-wal"):
            self._disconnect()  # somebody writes, and what was read once may be old
        if self._open is not None:
            return self._open
        for _ in range(_ATTEMPTS_TO_OPEN):
            before = _identity(self.path)
            if self._files.get(self.path, before) != before:
                raise moved(self.path)
            if before is None and not create:
                raise StudyNotFoundError(f"There is no file {self.path!r}. Study.create() makes it.")
            real_path = os.path.realpath(self.path)  # beside which the log lies, if the path is a link
            # Without the right to make the log's files it can be read only while it has none, that is, nobody writes.
            folder = os.path.dirname(real_path)
            self._still = not create and not os.access(folder, os.W_OK) and not os.path.exists(f"{real_path}-wal")
            how = "ro&immutable=1" if self._still else "rwc" if create else "rw"
            connection = sqlite3.connect(
                f"{Path(real_path).as_uri()}?mode={how}",
                uri=True,
                timeout=self._patience,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=32,
            )
            try:
                if before is None or before == _identity(self.path):
                    connection.execute("PRAGMA foreign_keys = ON")
                    connection.execute("PRAGMA fullfsync = ON")  # macOS: a sync reaches the disk, not its cache
                    self._prepare(connection, create)
                    connection.execute("PRAGMA busy_timeout = 0")  # from now on see _patiently
                    connection.execute("PRAGMA synchronous = NORMAL")  # see _sync
                    self._open = connection
                    # The last two are there as long as the database is open, unless it may only be read.
                    paths = self.path, f"{real_path}-wal", f"{real_path}-shm"
                    self._files = {path: found for path in paths if (found := _identity(path)) is not None}
                    return connection
            finally:
                if self._open is None:
                    connection.close()
        raise moved(self.path)

    def _disconnect(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _compare_files(self) -> None:
        """Refuse to go on with files that nobody else will find.

        Raises:
            StorageError: they have lost their names.
        """
        for path, opened in self._files.items():
            if _identity(path) != opened:
                raise moved(self.path)

    def _prepare(self, connection: sqlite3.Connection, create: bool) -> None:
        """Check the tables, or make them for whoever creates a study; nobody else writes here."""
        if self._has_tables(connection):
            return
        if not create:
            raise StudyNotFoundError(f"There are no studies in {self.path!r}. Study.create() makes one.")
        self._use_wal(connection)
        with self._committed(connection):
            if not self._has_tables(connection):  # another process may have been first
                for statement in _TABLES:
                    connection.execute(statement)

    def _has_tables(self, connection: sqlite3.Connection) -> bool:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'asktell_schema'").fetchone():
            return False
        check_schema(connection.execute("SELECT max(version) FROM asktell_schema").fetchone()[0], self.path)
        return True

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        (mode,) = self._patiently(connection, "PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StorageError(
                f"{self.path!r} cannot be used: SQLite offers no write-ahead log there. On a network file system use "
                "PostgreSQL or the HTTP service instead."
            )

    @contextmanager
    def _committed(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        process, began, log = os.getpid(), time.monotonic(), self._opened_log()
        has_turn = log is not None and log.enter(self._patience)
        try:
            left = self._patience - (time.monotonic() - began)
            self._patiently(connection, "BEGIN IMMEDIATE", patience=max(0.0, left))
            yield connection
            if os.getpid() != process:
                raise StorageError("The process was forked in the middle of a transaction, which is the parent's.")
            connection.execute("COMMIT")
        except BaseException:
            if os.getpid() == process:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        finally:
            if has_turn and log is not None and os.getpid() == process:
                log.leave()

    def _opened_log(self) -> WriteAheadLog | None:
        """The log's file; None while there is none yet, or it may only be read."""
        if self._log is None and self._open is not None:
            path = f"{os.path.realpath(self.path)}-wal"
            if path in self._files:
                with suppress(OSError):
                    self._log = WriteAheadLog(path)
        return self._log

    def _flush(self) -> None:
        """Wait until what was committed is on the disk. Other threads may commit meanwhile, and then wait together."""
        wanted = self._commits
        with self._flushing:
            if self._flushed < wanted:
                now = self._commits
                self._sync()
                self._flushed = now

    def _sync(self) -> None:
        """After a failure the kernel may take what it could not write for written. A checkpoint writes it anew."""
        log = self._log
        try:
            if log is not None and not self._unsynced and log.sync():
                return
        except OSError as error:
            self._unsynced = True
            raise not_synced(self.path, error) from error
        with self._lock, self._translated():
            connection = self._connection()
            log = self._opened_log()  # anew, if another thread has closed it: one that forks, say
            if log is not None and not self._unsynced and log.sync():
                return
            (busy_, *_), *_ = self._patiently(connection, "PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if busy_:
                raise busy(self.path, self._patience)
            self._unsynced = False

    def _patiently(
        self, connection: sqlite3.Connection, sql: str, values: Sequence[object] = (), patience: float | None = None
    ) -> sqlite3.Cursor:
        """Execute what may have to wait for another process.

        SQLite itself waits longer and longer between its attempts, so that among many processes some starve for
        seconds. With short waits of random length everybody has the same chance.
        """
        deadline = math.inf
        while True:
            try:
                return connection.execute(sql, values)
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                deadline = min(deadline, now + (self._patience if patience is None else patience))
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or now >= deadline:
                    raise
            time.sleep(random.uniform(*_SECONDS_BETWEEN_ATTEMPTS))

    @contextmanager
    def _translated(self, patience: float | None = None) -> Iterator[None]:
        """SQLite's errors in asktell's words."""
        try:
            yield
        except sqlite3.Error as error:
            try:
                self._compare_files()  # of another file no other error says much
            finally:
                self._disconnect()  # whatever state it is in: the next call begins anew
            raise translation(error, self.path, self._patience if patience is None else patience) from error


# Forks

_in_use: WeakSet[SQLiteFile] = WeakSet()
_forking = RLock()  # held during a fork, and while a file is added
_held: list[SQLiteFile] = []  # by the thread that forks


def _before_fork() -> None:
    """Wait until no thread is inside SQLite, whose own locks would stay locked in the child, and close."""
    _forking.acquire()
    for file in list(_in_use):
        if file._lock.acquire(timeout=file._patience):
            _held.append(file)
            if file._open is not None and not file._open.in_transaction:  # otherwise this thread is in the middle
                file._disconnect()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop()._lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    _forking = RLock()
    _held.clear()
    for file in list(_in_use):
        file._lock, file._flushing = RLock(), Lock()
        file._log = None  # the parent's turn, if it has one
        if file._open is not None:
            _never_close(file._open)
            file._open = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _never_close(connection: sqlite3.Connection) -> None:
    """Keep it from being closed when nobody uses it any more, at the process's end too."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
