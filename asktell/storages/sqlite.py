"""Studies in a SQLite file: several processes on one machine. Not for network file systems."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from asktell.errors import AsktellError, StorageError
from asktell.storages._sqlite_file import SQLiteFile
from asktell.storages.base import (
    MOST,
    AbstractStorage,
    Line,
    Snapshot,
    details_taken,
    no_study,
    position_taken,
    study_exists,
    study_gone,
)

_READ = "SELECT position, entries FROM asktell_log WHERE study = ? AND position > ? ORDER BY position LIMIT ?"
_ATTACH = "INSERT INTO asktell_details VALUES (?, ?, ?)"
_DETAILS = "SELECT trial, details FROM asktell_details WHERE study = ? AND trial IN (SELECT value FROM json_each(?))"
_HEAD = "SELECT position, parts, head FROM asktell_snapshots WHERE study = ?"
_PARTS = "SELECT part FROM asktell_parts WHERE study = ? AND number <= ? ORDER BY number"


class _Transaction:
    def __init__(self, connection: sqlite3.Connection, key: int, storage: "SQLiteStorage") -> None:
        self._connection = connection
        self._key = key
        self._path = storage.path
        self.now = storage.now

    def read(self, after: int) -> Sequence[Line]:
        return [Line(*row) for row in self._connection.execute(_READ, (self._key, after, MOST))]

    def append(self, line: Line) -> None:
        try:
            self._connection.execute("INSERT INTO asktell_log VALUES (?, ?, ?)", (self._key, *line))
        except sqlite3.IntegrityError as error:
            raise self._refused(error, position_taken(line.position, self._path)) from error

    def attach(self, trial: int, details: str) -> None:
        try:
            self._connection.execute(_ATTACH, (self._key, trial, details))
        except sqlite3.IntegrityError as error:
            raise self._refused(error, details_taken(trial, self._path)) from error

    def _refused(self, error: sqlite3.IntegrityError, taken: StorageError) -> AsktellError:
        is_key = error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
        return taken if is_key else study_gone(self._path)  # its foreign key leads nowhere

    def head(self) -> Snapshot | None:
        row = self._connection.execute(_HEAD, (self._key,)).fetchone()
        return None if row is None else Snapshot(row[0], row[2])

    def save(self, position: int, head: bytes, part: bytes) -> None:
        row = self._connection.execute(_HEAD, (self._key,)).fetchone()
        number = 1 if row is None else row[1] + 1
        self._connection.execute("INSERT INTO asktell_parts VALUES (?, ?, ?)", (self._key, number, part))
        self._connection.execute(
            "INSERT OR REPLACE INTO asktell_snapshots VALUES (?, ?, ?, ?)", (self._key, position, number, head)
        )


class SQLiteStorage(SQLiteFile, AbstractStorage):
    """Studies in one file, made when the first study is.

    Args:
        path: of the file; its folder must exist.
        clock: gives seconds since 1970.
        patience: seconds to wait for other processes before StorageBusyError.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time, patience: float = 60.0) -> None:
        super().__init__(path, patience)
        self._clock = clock

    def create(
        self, name: str, document: bytes, lines: Iterable[str] = (), details: Iterable[tuple[int, str]] = ()
    ) -> int:
        """See AbstractStorage."""
        with self._writing(durable=True, create=True) as connection:
            try:
                key = connection.execute(
                    "INSERT INTO asktell_studies (name, document) VALUES (?, ?)", (name, document)
                ).lastrowid
            except sqlite3.IntegrityError:
                raise study_exists(name, self.path) from None
            assert key is not None
            rows = ((key, position, text) for position, text in enumerate(lines, start=1))
            connection.executemany("INSERT INTO asktell_log VALUES (?, ?, ?)", rows)
            connection.executemany(_ATTACH, ((key, *each) for each in details))
            return key

    def find(self, name: str) -> int:
        """See AbstractStorage."""
        rows = self._query("SELECT key FROM asktell_studies WHERE name = ?", name)
        if not rows:
            raise no_study(name, self.names(), self.path)
        return int(rows[0][0])

    def names(self) -> list[str]:
        """See AbstractStorage."""
        return [str(row[0]) for row in self._query("SELECT name FROM asktell_studies ORDER BY key")]

    def delete(self, name: str) -> None:
        """See AbstractStorage."""
        key = self.find(name)
        with self._writing(durable=True) as connection:
            connection.execute("DELETE FROM asktell_studies WHERE key = ?", (key,))

    def document(self, key: int) -> bytes:
        """See AbstractStorage."""
        rows = self._query("SELECT document FROM asktell_studies WHERE key = ?", key)
        if not rows:
            raise study_gone(self.path)
        return bytes(rows[0][0])

    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        """See AbstractStorage."""
        return [Line(*row) for row in self._query(_READ, key, after, most)]

    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        """See AbstractStorage."""
        return dict(self._query(_DETAILS, key, json.dumps(list(trials))))

    def snapshot(self, key: int) -> Snapshot | None:
        """See AbstractStorage."""
        rows = self._query(_HEAD, key)
        if not rows:
            return None
        position, n_parts, head = rows[0]
        return Snapshot(position, head, [part for (part,) in self._query(_PARTS, key, n_parts)])

    @contextmanager
    def transaction(self, key: int, durable: bool) -> Iterator[_Transaction]:
        """See AbstractStorage."""
        with self._writing(durable) as connection:
            yield _Transaction(connection, key, self)

    flushes = True

    def flush(self) -> None:
        """See AbstractStorage."""
        self._flush()

    def now(self) -> float:
        """See AbstractStorage."""
        return self._clock()

    def check(self, patience: float = 1.0) -> None:
        """See AbstractStorage."""
        self._confirm(patience)

    def close(self) -> None:
        """See AbstractStorage."""
        self._close()
