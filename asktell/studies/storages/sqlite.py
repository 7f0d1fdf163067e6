"""Studies in a SQLite file: several processes on one machine. Not for network file systems.

In WAL mode readers do not wait, and writers wait for each other. `PRAGMA synchronous`
is set for each transaction. With FULL, COMMIT returns once the transaction and all
earlier ones are on the disk. With NORMAL, it does not wait.

SQLite continues to write to a file that has lost its name, and to a write-ahead log
that no other process will read. So every operation compares the files at the path with
the open ones, before it begins and before it confirms anything.
"""

import json
import math
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import starmap
from pathlib import Path
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakSet

from asktell._util.files import check_path
from asktell.errors import (
    AsktellError,
    StorageBusyError,
    StorageError,
    StudyNotFoundError,
)
from asktell.studies.storages.base import MOST, Line, study_exists, study_gone, taken
from asktell.studies.storages.sql import (
    APPEND,
    ATTACH,
    READ,
    SQLStorage,
    SQLTransaction,
    tables,
)

_TABLES = tables(
    "INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER", "BLOB", " WITHOUT ROWID"
)
_SECONDS_BETWEEN_ATTEMPTS = (0.0002, 0.002)

_Identity: TypeAlias = tuple[int, int] | None
"""Device and inode of a file. None if there is no file."""

_CURES = {
    sqlite3.SQLITE_FULL: "The disk is full. Make room, and try again. Recorded scores are not lost.",
    sqlite3.SQLITE_READONLY: "The file, or its folder, cannot be written to. Check their permissions.",
    sqlite3.SQLITE_CANTOPEN: "The file cannot be opened. Check that its folder exists, and the permissions of both.",
    sqlite3.SQLITE_PERM: "The file may not be opened. Check its permissions.",
    sqlite3.SQLITE_IOERR: "The disk could not be read or written. Check the disk, and try again. "
    "Recorded scores are not lost.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged. Keep a copy of it, with its -wal file, before you try to repair "
    "it with `sqlite3 FILE .recover`, or use a backup.",
    sqlite3.SQLITE_NOTADB: "This is not a SQLite file, or its first page is damaged. Check the path, or use a backup.",
}
_OTHER_CURE = "The file may be damaged, or another program may have written to it. Keep a copy of it, and use a backup."

_DETAILS = "SELECT trial, details FROM asktell_details WHERE study = ? AND trial IN (SELECT value FROM json_each(?))"


def _identity(path: str) -> _Identity:
    """Return the device and the inode of the file at a path, None if there is no file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


class _Transaction(SQLTransaction):
    """Reads and writes with the connection of the storage, which is inside a transaction."""

    def __init__(
        self, connection: sqlite3.Connection, key: int, storage: "SQLiteStorage"
    ) -> None:
        self._connection = connection
        self._key = key
        self._where = storage.where
        self.now = storage.now

    def _execute(self, sql: str, *values: object) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def read(self, after: int) -> Sequence[Line]:
        return list(
            starmap(Line, self._connection.execute(READ, (self._key, after, MOST)))
        )

    def append(self, line: Line) -> None:
        try:
            self._connection.execute(APPEND, (self._key, *line))
        except sqlite3.IntegrityError as error:
            raise self._refused(
                error, taken(f"Line {line.position} is in the log", self._where)
            ) from error

    def attach(self, trial: int, details: str) -> None:
        try:
            self._connection.execute(ATTACH, (self._key, trial, details))
        except sqlite3.IntegrityError as error:
            raise self._refused(
                error, taken(f"Trial {trial} has details", self._where)
            ) from error

    def _refused(
        self, error: sqlite3.IntegrityError, taken: StorageError
    ) -> AsktellError:
        """Return the error for a row that the tables refuse: it exists already, or its study was deleted."""
        is_key = error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
        # Its foreign key leads nowhere
        return taken if is_key else study_gone(self._where)


class SQLiteStorage(SQLStorage):
    """Studies in one file, made when the first study is.

    The file is opened when it is first needed. Its folder must exist. May be used from
    several threads, and also in a forked process.

    Args:
        path: the path of the file.
        clock: returns seconds since 1970.
        patience: seconds to wait for other processes, before a StorageBusyError.
    """

    _open: sqlite3.Connection | None = None

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], float] = time.time,
        patience: float = 60.0,
    ) -> None:
        check_path(path)
        # Absolute, as a change of the working directory must not lead to another file.
        self.path = self.where = os.path.abspath(path)
        self._clock = clock
        self._patience = patience
        self._still = False  # whether it is open as a file that nobody writes to
        # That are open, or were last, by their paths
        self._files: dict[str, _Identity] = {}
        self._lock = RLock()
        with _forking:
            _storages.add(self)

    def __del__(self) -> None:
        self._disconnect()  # since Python 3.13 sqlite3 warns where nobody does

    def create(
        self,
        name: str,
        document: bytes,
        lines: Iterable[str] = (),
        details: Iterable[tuple[int, str]] = (),
    ) -> int:
        with self._writing(durable=True, create=True) as connection:
            try:
                key = connection.execute(
                    "INSERT INTO asktell_studies (name, document) VALUES (?, ?)",
                    (name, document),
                ).lastrowid
            except sqlite3.IntegrityError:
                raise study_exists(name, self.path) from None
            assert key is not None
            rows = (
                (key, position, text) for position, text in enumerate(lines, start=1)
            )
            connection.executemany(APPEND, rows)
            connection.executemany(ATTACH, ((key, *row) for row in details))
            return key

    def delete(self, name: str) -> None:
        key = self.find(name)
        with self._writing(durable=True) as connection:
            connection.execute("DELETE FROM asktell_studies WHERE key = ?", (key,))

    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        return dict(self._query(_DETAILS, key, json.dumps(list(trials))))

    @contextmanager
    def transaction(self, key: int, durable: bool) -> Iterator[_Transaction]:
        with self._writing(durable) as connection:
            yield _Transaction(connection, key, self)

    def now(self) -> float:
        return self._clock()

    def check(self, patience: float = 1.0) -> None:
        if not self._lock.acquire(timeout=patience):
            raise self._busy(patience)
        try:
            if not self._files and not os.path.exists(self.path):
                if not os.access(os.path.dirname(self.path), os.W_OK | os.X_OK):
                    raise StorageError(
                        f"{self.path!r} cannot be created. Check its folder, and the permissions of the folder."
                    )
                return
            # There are no tables yet
            with suppress(StudyNotFoundError):
                connection = self._connection()
                self._compare_files()
                self._patiently(connection, "BEGIN IMMEDIATE", patience=patience)
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._translated(error, patience) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._disconnect()
            self._files = {}

    # Reading and writing

    def _query(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                rows = self._patiently(self._connection(), sql, values).fetchall()
                self._compare_files()
                return rows
            except sqlite3.Error as error:
                raise self._translated(error, self._patience) from error

    @contextmanager
    def _writing(
        self, durable: bool, create: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """Give a connection for one transaction, which is committed at the end of the `with` block.

        A durable transaction is on the disk when the block ends.
        """
        with self._lock:
            try:
                connection = self._connection(create)
                self._compare_files()
                synchronous = "FULL" if durable else "NORMAL"
                connection.execute(f"PRAGMA synchronous = {synchronous}")
                with self._committed(connection):
                    before = connection.total_changes
                    yield connection
                    if durable and connection.total_changes == before:
                        # COMMIT syncs nothing if nothing is written. But data that this
                        # process has read may not be on the disk yet.
                        connection.execute("PRAGMA user_version = 0")
                self._compare_files()
            except sqlite3.Error as error:
                raise self._translated(error, self._patience) from error

    @contextmanager
    def _committed(
        self, connection: sqlite3.Connection
    ) -> Iterator[sqlite3.Connection]:
        """Commit a transaction at the end of the `with` block, or roll it back after an exception."""
        try:
            self._patiently(connection, "BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _patiently(
        self,
        connection: sqlite3.Connection,
        sql: str,
        values: Sequence[object] = (),
        patience: float | None = None,
    ) -> sqlite3.Cursor:
        """Execute a statement that may have to wait for another process.

        SQLite itself waits longer and longer between its attempts, so that some of many
        processes starve for seconds. With short waits of random length, all processes
        have the same chance.
        """
        deadline = math.inf
        while True:
            try:
                return connection.execute(sql, values)
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                deadline = min(
                    deadline, now + (self._patience if patience is None else patience)
                )
                if (
                    error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY
                    or now >= deadline
                ):
                    raise
            time.sleep(random.uniform(*_SECONDS_BETWEEN_ATTEMPTS))

    # The connection

    def _connection(self, create: bool = False) -> sqlite3.Connection:
        """Return the open connection, or open one."""
        if (
            self._open is not None
            and self._still
            and os.path.exists(f"{os.path.realpath(self.path)}-wal")
        ):
            # Another process writes, and what this one has read may be old
            self._disconnect()
        if self._open is None:
            self._open = self._connect(create)
        return self._open

    def _connect(self, create: bool) -> sqlite3.Connection:
        """Open the file, and remember which files it consists of.

        Raises:
            StudyNotFoundError: there is no file, or it has no studies.
            StorageError: the path leads to another file than the one that was open
                before.
        """
        before = _identity(self.path)
        if self._files.get(self.path, before) != before:
            raise self._moved()
        if before is None and not create:
            raise StudyNotFoundError(
                f"There is no file {self.path!r}. Correct the path, or create a study there first."
            )
        # Beside which the log lies, if the path is a link
        real_path = os.path.realpath(self.path)
        if before is None:
            with suppress(OSError):  # SQLite reports the error
                # SQLite gives the -wal and -shm files the same permissions
                make_private(Path(real_path))
        # Without the right to make the log's files it can be read only while it has
        # none, that is, nobody writes.
        folder = os.path.dirname(real_path)
        self._still = (
            not create
            and not os.access(folder, os.W_OK)
            and not os.path.exists(f"{real_path}-wal")
        )
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
            # Another file has taken its place
            if before not in (None, _identity(self.path)):
                raise self._moved()
            connection.execute("PRAGMA foreign_keys = ON")
            # macOS: a sync reaches the disk, not its cache
            connection.execute("PRAGMA fullfsync = ON")
            self._prepare(connection, create)
            connection.execute("PRAGMA busy_timeout = 0")  # from now on see _patiently
            # The last two are there as long as the database is open, unless it may only
            # be read.
            paths = self.path, f"{real_path}-wal", f"{real_path}-shm"
            self._files = {
                path: identity
                for path in paths
                if (identity := _identity(path)) is not None
            }
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        """Close the connection. The next call opens a new one."""
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _compare_files(self) -> None:
        """Check that the open files are still the ones at their paths.

        Otherwise this process would continue with files that no other process finds.

        Raises:
            StorageError: a file was removed, renamed or replaced.
        """
        for path, opened in self._files.items():
            try:
                stat = os.stat(path)
            except OSError:
                raise self._moved() from None
            if (stat.st_dev, stat.st_ino) != opened:
                raise self._moved()

    def _prepare(self, connection: sqlite3.Connection, create: bool) -> None:
        """Check the tables. If there are none, and a study is being created, make them."""
        if self._has_tables(connection):
            return
        if not create:
            raise StudyNotFoundError(
                f"There are no studies in {self.path!r}. Correct the path, or create a study there first."
            )
        (mode,) = self._patiently(connection, "PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StorageError(
                f"{self.path!r} cannot be used, because SQLite cannot make a write-ahead log there. On a network file "
                "system, use PostgreSQL or the HTTP service instead."
            )
        with self._committed(connection):
            if not self._has_tables(connection):  # another process may have been first
                for statement in _TABLES.split(";"):
                    connection.execute(statement)

    def _has_tables(self, connection: sqlite3.Connection) -> bool:
        """True if the file has tables of this version.

        Raises:
            StorageError: the tables have another version.
        """
        if not connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'asktell_schema'"
        ).fetchone():
            return False
        self._check_schema(
            connection.execute("SELECT max(version) FROM asktell_schema").fetchone()[0]
        )
        return True

    # Errors

    def _translated(self, error: sqlite3.Error, patience: float) -> StorageError:
        """Return the error to raise in the place of SQLite's, after closing the connection.

        Raises:
            StorageError: the file was replaced. This is the cause, whatever SQLite
                reports.
        """
        try:
            self._compare_files()
        finally:
            self._disconnect()  # its state is unknown, so the next call connects again
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self._busy(patience)
        cure = _CURES.get(code, _OTHER_CURE)
        return StorageError(
            f"{self.path!r} cannot be used. {cure} SQLite reports: {error}."
        )

    def _busy(self, patience: float) -> StorageBusyError:
        """Return the error for a file that other processes have locked for too long."""
        return StorageBusyError(
            f"{self.path!r} has been locked by another process for {patience:g} s. Nothing was changed. Try again."
        )

    def _moved(self) -> StorageError:
        """Return the error for files that are not at their paths any more."""
        return StorageError(
            f"{self.path!r}, or its -wal or -shm file, was removed, renamed or replaced while it was in use. The last "
            "change may be lost. Put the files back where they were and try again, or open the study again."
        )


# Forks. A child that used its parent's connection would believe that it holds the
# parent's locks, and the parent, when it closes, would remove the log that the child
# writes to (https://www.sqlite.org/howtocorrupt.html, section 2.6). So connections are
# closed before a fork.

_storages: WeakSet[SQLiteStorage] = WeakSet()
_forking = RLock()  # held during a fork, and while a storage is added
_held: list[SQLiteStorage] = []  # by the thread that forks
# By a fork in the middle of a transaction; to be left alone
_inherited: list[sqlite3.Connection] = []


def _before_fork() -> None:
    """Wait until no thread is inside SQLite, whose own locks would stay locked in the child, and close."""
    _forking.acquire()
    for storage in list(_storages):
        if storage._lock.acquire(timeout=storage._patience):
            _held.append(storage)
            # Otherwise this thread is in one
            if storage._open is not None and not storage._open.in_transaction:
                storage._disconnect()


def _after_fork_in_parent() -> None:
    """Let the threads of the parent use SQLite again."""
    while _held:
        _held.pop()._lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    """Begin without connections. An inherited one that is inside a transaction is kept, but not used."""
    global _forking
    _forking = RLock()
    _held.clear()
    for storage in list(_storages):
        storage._lock = RLock()
        if storage._open is not None:
            _inherited.append(storage._open)
            storage._open = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless the file exists.

    The file is made under another name and then linked. On POSIX, a process that closes
    a file loses all of its locks on the file, even locks of another thread that has
    just begun to use it. So the file itself is never opened here.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    try:
        os.link(name, path)
    except FileExistsError:
        return
    except OSError:
        # The file system has no links.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    finally:
        os.unlink(name)
