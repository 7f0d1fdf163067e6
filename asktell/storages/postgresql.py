"""Studies in a PostgreSQL database: several machines. By psycopg 3.

A transaction locks its study's row. Locking and reading are one round trip, appending and committing another.
`synchronous_commit` is off for what need not be durable: the server's log keeps the order, so a crash of the server
takes at most the last of it, and never what came before a synchronous commit.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, LiteralString

from asktell.errors import InvalidArgumentError, MissingExtraError, StorageBusyError, StorageError
from asktell.storages.base import (
    MOST,
    AbstractStorage,
    Line,
    Snapshot,
    no_study,
    position_taken,
    study_exists,
    study_gone,
)
from asktell.storages.schema import steps_to_take

try:
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingExtraError(f"{error}. Run: pip install 'asktell[postgresql]'") from error

if TYPE_CHECKING:
    Connection = psycopg.Connection[Any]

STEPS: tuple[tuple[LiteralString, ...], ...] = (
    (
        "CREATE TABLE asktell_studies (key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "name TEXT NOT NULL UNIQUE, document BYTEA NOT NULL)",
        "CREATE TABLE asktell_log (study BIGINT NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
        "position BIGINT NOT NULL, entries TEXT NOT NULL, PRIMARY KEY (study, position))",
    ),
    (
        "CREATE TABLE asktell_snapshots (study BIGINT PRIMARY KEY REFERENCES asktell_studies ON DELETE CASCADE, "
        "position BIGINT NOT NULL, parts BIGINT NOT NULL, head BYTEA NOT NULL)",
        "CREATE TABLE asktell_parts (study BIGINT NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
        "number BIGINT NOT NULL, part BYTEA NOT NULL, PRIMARY KEY (study, number))",
    ),
)
"""What makes schema version n + 1 of version n."""

_LOCK_OF_SCHEMA = 0x61736B74656C6C  # "asktell"
_SECONDS_TO_CONNECT = 10
_READ: LiteralString = (
    "SELECT position, entries FROM asktell_log WHERE study = %s AND position > %s ORDER BY position LIMIT %s"
)
_APPEND: LiteralString = "INSERT INTO asktell_log VALUES (%s, %s, %s)"
_HEAD: LiteralString = "SELECT position, parts, head FROM asktell_snapshots WHERE study = %s"
_PARTS: LiteralString = "SELECT part FROM asktell_parts WHERE study = %s AND number <= %s ORDER BY number"
_NOW: LiteralString = "SELECT extract(epoch FROM clock_timestamp())::float8"

_inherited: list["Connection"] = []
"""Connections of the process that this one was forked from: closing them would end the parent's sessions."""


class _Transaction:
    """Begins when it first reads, to save a round trip; what it writes is sent with the commit, for the same reason."""

    def __init__(
        self, connection: "Connection", key: int, durable: bool, where: str, clock: Callable[[], float] | None
    ) -> None:
        self._connection = connection
        self._key = key
        self._durable = durable
        self._where = where
        self._clock = clock
        self._time = 0.0
        self._position = 0
        self._writes: list[tuple[LiteralString, tuple[object, ...]]] = []

    def read(self, after: int) -> Sequence[Line]:
        connection = self._connection
        with connection.pipeline():
            connection.execute("BEGIN")
            if not self._durable:
                connection.execute("SET LOCAL synchronous_commit TO off")
            locked = connection.execute("SELECT 1 FROM asktell_studies WHERE key = %s FOR UPDATE", (self._key,))
            lines = connection.execute(
                _READ, (self._key, after, MOST)
            )  # sees what was committed while the lock was awaited
            clock = connection.execute(_NOW)
        if locked.fetchone() is None:
            raise study_gone(self._where)
        self._time = clock.fetchall()[0][0]
        return [Line(*row) for row in lines]

    def now(self) -> float:
        return self._time if self._clock is None else self._clock()

    def append(self, line: Line) -> None:
        self._position = line.position
        self._writes.append((_APPEND, (self._key, *line)))

    def head(self) -> Snapshot | None:
        row = self._connection.execute(_HEAD, (self._key,)).fetchone()
        return None if row is None else Snapshot(row[0], row[2])

    def save(self, position: int, head: bytes, part: bytes) -> None:
        row = self._connection.execute(_HEAD, (self._key,)).fetchone()
        number = 1 if row is None else row[1] + 1
        self._writes.append(("INSERT INTO asktell_parts VALUES (%s, %s, %s)", (self._key, number, part)))
        self._writes.append(
            (
                "INSERT INTO asktell_snapshots VALUES (%s, %s, %s, %s) ON CONFLICT (study) DO UPDATE SET "
                "position = excluded.position, parts = excluded.parts, head = excluded.head",
                (self._key, position, number, head),
            )
        )

    def commit(self) -> None:
        try:
            with self._connection.pipeline():
                for sql, values in self._writes:
                    self._connection.execute(sql, values)
                self._connection.execute("COMMIT")
        except errors.UniqueViolation as error:
            raise position_taken(self._position, self._where) from error


class PostgreSQLStorage(AbstractStorage):
    """Studies in a database, whose tables are made with the first study.

    Args:
        url: `postgresql://user@host:port/database`; what it leaves out comes from the PG* environment variables, and
            the password best from there or from ~/.pgpass.
        clock: gives seconds since 1970; None (for all but tests): the server's.
        patience: seconds to wait for other processes before StorageBusyError.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None, patience: float = 60.0) -> None:
        self._url = url
        self._clock = clock
        self._patience = patience
        self._open: Connection | None = None
        self._pid = os.getpid()
        self._lock = RLock()
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error:
            raise InvalidArgumentError(
                "The PostgreSQL URL is malformed: postgresql://USER@HOST:PORT/DATABASE"
            ) from None
        # For messages, and so without the password.
        host = ":".join(str(parts[name]) for name in ("host", "port") if parts.get(name))
        self._where = f"PostgreSQL database {str(parts.get('dbname', ''))!r} at {host or 'the default host'}"

    def create(self, name: str, document: bytes, lines: Iterable[str] = ()) -> int:
        """See AbstractStorage."""
        with self._lock, self._translated(), self._connection(create=True).transaction():
            connection = self._connection()
            sql: LiteralString = "INSERT INTO asktell_studies (name, document) VALUES (%s, %s) RETURNING key"
            try:
                (key,) = connection.execute(sql, (name, document)).fetchall()[0]
            except errors.UniqueViolation:
                raise study_exists(name, self._where) from None
            connection.cursor().executemany(_APPEND, ((key, i, text) for i, text in enumerate(lines, start=1)))
            return int(key)

    def find(self, name: str) -> int:
        """See AbstractStorage."""
        rows = self._query("SELECT key FROM asktell_studies WHERE name = %s", name)
        if not rows:
            raise no_study(name, self.names(), self._where)
        return int(rows[0][0])

    def names(self) -> list[str]:
        """See AbstractStorage."""
        return [str(row[0]) for row in self._query("SELECT name FROM asktell_studies ORDER BY key")]

    def delete(self, name: str) -> None:
        """See AbstractStorage."""
        self._query("DELETE FROM asktell_studies WHERE key = %s RETURNING key", self.find(name))

    def document(self, key: int) -> bytes:
        """See AbstractStorage."""
        rows = self._query("SELECT document FROM asktell_studies WHERE key = %s", key)
        if not rows:
            raise study_gone(self._where)
        return bytes(rows[0][0])

    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        """See AbstractStorage."""
        return [Line(*row) for row in self._query(_READ, key, after, most)]

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
        with self._lock, self._translated():
            connection = self._connection()
            transaction = _Transaction(connection, key, durable, self._where, self._clock)
            try:
                yield transaction
                transaction.commit()
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise

    def now(self) -> float:
        """See AbstractStorage."""
        return float(self._query(_NOW)[0][0]) if self._clock is None else self._clock()

    def close(self) -> None:
        """See AbstractStorage."""
        with self._lock:
            if self._open is not None:
                if self._pid == os.getpid():
                    with suppress(psycopg.Error):
                        self._open.close()
                else:
                    _inherited.append(self._open)
            self._open = None

    # Connections

    def _query(self, sql: LiteralString, *values: object) -> list[Any]:
        with self._lock, self._translated():
            return self._connection().execute(sql, values).fetchall()

    def _connection(self, create: bool = False) -> "Connection":
        if self._open is not None and self._pid == os.getpid():
            return self._open
        self.close()
        connection: Connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=_SECONDS_TO_CONNECT,
            application_name="asktell",
        )
        try:
            # A machine that vanishes in the middle must not keep the others out.
            connection.execute("SET idle_in_transaction_session_timeout = '5min'")
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{int(1000 * self._patience)}ms",))
            self._prepare(connection, create)
        except BaseException:
            connection.close()
            raise
        self._open, self._pid = connection, os.getpid()
        return connection

    def _prepare(self, connection: "Connection", create: bool) -> None:
        """Bring the schema up to date."""
        version = _version(connection)
        if not steps_to_take(version, len(STEPS), self._where):
            return
        if not version and not create:
            raise no_study("", [], self._where)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_OF_SCHEMA,))
            # Again: another process may have been first.
            for step in steps_to_take(_version(connection), len(STEPS), self._where):
                for statement in STEPS[step]:
                    connection.execute(statement)
                connection.execute("CREATE TABLE IF NOT EXISTS asktell_schema (version BIGINT NOT NULL)")
                connection.execute("DELETE FROM asktell_schema")
                connection.execute("INSERT INTO asktell_schema VALUES (%s)", (step + 1,))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Psycopg's errors in asktell's words."""
        try:
            yield
        except psycopg.Error as error:
            if self._open is not None and (self._open.closed or self._open.broken):
                self.close()  # the next call connects anew
            raise self._translation(error) from error

    def _translation(self, error: psycopg.Error) -> Exception:
        if isinstance(error, errors.ForeignKeyViolation):
            return study_gone(self._where)
        if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected):
            return StorageBusyError(
                f"{self._where} has been locked by another process for {self._patience:g} s. Nothing was changed; try "
                "again."
            )
        text = " ".join(str(error).split())
        if isinstance(error, errors.DiskFull):
            cure = "The server's disk is full. Nothing that was confirmed is lost; make room and try again."
        elif isinstance(error, errors.ReadOnlySqlTransaction | errors.InsufficientPrivilege):
            cure = "Connect to the primary server, as a user who may write there."
        elif isinstance(error, psycopg.OperationalError):
            cure = "The server is out of reach or went away. Nothing that was confirmed is lost; try again."
        else:
            cure = "Nothing was changed."
        return StorageError(f"{self._where} cannot be used: {text}. {cure}")


def _version(connection: "Connection") -> int:
    # Not by to_regclass(), which may not see yet what another process made while this one waited for its lock.
    is_there = "SELECT 1 FROM pg_class WHERE relname = 'asktell_schema' AND pg_table_is_visible(oid)"
    if not connection.execute(is_there).fetchall():
        return 0
    return connection.execute("SELECT max(version) FROM asktell_schema").fetchall()[0][0]  # type: ignore[no-any-return]
