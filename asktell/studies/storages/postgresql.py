"""Studies in a PostgreSQL database, for workers on several machines. Uses psycopg 3.

A transaction locks the row of its study. Locking and reading take one round trip,
appending and committing another one.

`synchronous_commit` is off, so that no worker waits for the disk or for a standby
server while it holds the lock. The server's log keeps the order of commits. So a crash
loses at most the last commits, and never one that came before a synchronous commit. A
durable transaction is therefore followed by a synchronous commit of a transaction that
holds no lock. Both are sent together, and the server syncs those of many processes at
once.

A storage has a pool of connections, which is made when it is first needed. TCP notices
a server that has vanished (`tcp_user_timeout`, keepalives). The server itself ends a
statement that takes too long (`statement_timeout`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock, local
from typing import Any, LiteralString, TypeAlias
from weakref import finalize

from asktell._util.extras import needs_extra
from asktell._util.forks import fresh_after_fork
from asktell.errors import (
    InvalidArgumentError,
    StorageBusyError,
    StorageError,
    StudyNotFoundError,
)
from asktell.studies.storages.base import Line, study_exists, study_gone, taken
from asktell.studies.storages.sql import (
    APPEND,
    ATTACH,
    SQLStorage,
    SQLTransaction,
    tables,
)

with needs_extra("postgresql"):
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

Connection: TypeAlias = psycopg.Connection[Any]

CONNECTIONS = 8
"""The largest number of connections that a storage opens."""
_SECONDS_TO_CONNECT = 10
_SECONDS_OF_GRACE = 5.0  # for a server's answer, beyond the patience with others
_SECONDS_UNUSED = 60.0  # after which a connection is closed
# A machine that vanishes in the middle of a transaction must not keep the others out
_SECONDS_PAUSED = 30

_TABLES = tables(
    "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BIGINT", "BYTEA", ""
)
_LOCK_OF_SCHEMA = 0x61736B74656C6C  # "asktell"

_LOOK: LiteralString = (
    "SELECT current_setting('transaction_read_only'), to_regclass('asktell_studies'), "
    "set_config('lock_timeout', %s, true)"
)
_BEGIN = b"""
    BEGIN ISOLATION LEVEL READ COMMITTED;  -- whatever the server's default
    SET LOCAL synchronous_commit TO off;
    SELECT 1 FROM asktell_studies WHERE key = %d FOR UPDATE;
    SELECT position, entries FROM asktell_log WHERE study = %d AND position > %d
    UNION ALL SELECT 0, extract(epoch FROM clock_timestamp())::text ORDER BY position
"""
# Who writes nothing waits for no disk
_SYNC = b"SELECT pg_logical_emit_message(true, 'asktell', '')"
_DETAILS: LiteralString = (
    "SELECT trial, details FROM asktell_details WHERE study = ? AND trial = ANY(?)"
)
_NOW: LiteralString = "SELECT extract(epoch FROM clock_timestamp())::float8"


class _Transaction(SQLTransaction):
    """A transaction, in two round trips: it begins with its first read, and sends its writes with the commit."""

    def __init__(
        self,
        connection: Connection,
        key: int,
        durable: bool,
        where: str,
        clock: Callable[[], float] | None,
    ) -> None:
        self._connection = connection
        self._key = key
        self._durable = durable
        self._where = where
        self._clock = clock
        self._time = 0.0
        self._position = 0
        self._trial = 0
        self._writes: list[bytes] = []

    def read(self, after: int) -> Sequence[Line]:
        # One query of several statements, each of which reads the lines that were
        # committed while the statement before it waited. Not a pipeline: what psycopg sends at the end of one
        # stops the server's clock of transactions that pause.
        cursor = self._connection.execute(_BEGIN % (self._key, self._key, after))
        locked, ((_, time_), *lines) = [
            cursor.fetchall() for _ in _results(cursor) if cursor.description
        ]
        if not locked:
            raise study_gone(self._where)
        self._time = float(time_)
        return [Line(*row) for row in lines]

    def now(self) -> float:
        return self._time if self._clock is None else self._clock()

    def append(self, line: Line) -> None:
        self._position = line.position
        self._writes.append(
            b"INSERT INTO asktell_log VALUES (%d, %d, %s)"
            % (self._key, line.position, _quoted(line.text))
        )

    def attach(self, trial: int, details: str) -> None:
        self._trial = trial
        self._writes.append(
            b"INSERT INTO asktell_details VALUES (%d, %d, %s)"
            % (self._key, trial, _quoted(details))
        )

    def _execute(self, sql: LiteralString, *values: object) -> list[Any]:
        return _execute(self._connection, sql, values)

    def commit(self) -> None:
        try:
            # The server goes on with the next statement by itself, and with none after
            # an error.
            self._connection.execute(
                b";".join(
                    [*self._writes, b"COMMIT", *([_SYNC] if self._durable else [])]
                )
            )
        except errors.UniqueViolation as error:
            if error.diag.table_name == "asktell_details":
                raise taken(f"Trial {self._trial} has details", self._where) from error
            raise taken(f"Line {self._position} is in the log", self._where) from error


_inherited: list[ConnectionPool[Connection]] = []
"""Pools of the process that this one was forked from: closing them would end the parent's sessions."""


class PostgreSQLStorage(SQLStorage):
    """Studies in a database, whose tables are made with the first study.

    Args:
        url: `postgresql://user@host:port/database`; what it leaves out comes from the
            PG* environment variables, and the password best from there or from
            ~/.pgpass.
        clock: gives seconds since 1970; None (for all but tests): the server's.
        patience: seconds to wait for other processes, and for a connection that is
            free, before StorageBusyError.
        connections: the most that this storage opens; when all are in use, others wait.
            Studies that are given the same storage share them.
    """

    _pool: ConnectionPool[Connection] | None = None
    _closes: "finalize[Any, Any]"

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] | None = None,
        patience: float = 60.0,
        connections: int = CONNECTIONS,
    ) -> None:
        self._clock = clock
        self._patience = patience
        parts = _parts(url)
        self._url, self._most = url, connections
        self._renew()
        fresh_after_fork(self, PostgreSQLStorage._renew)
        # For messages, and so without the password.
        host = ":".join(
            str(parts[name]) for name in ("host", "port") if parts.get(name)
        )
        self.where = f"PostgreSQL database {str(parts.get('dbname', ''))!r} at {host or 'the default host'}"

    def create(
        self,
        name: str,
        document: bytes,
        lines: Iterable[str] = (),
        details: Iterable[tuple[int, str]] = (),
    ) -> int:
        with self._connected(create=True) as connection, connection.transaction():
            insert: LiteralString = "INSERT INTO asktell_studies (name, document) VALUES (?, ?) RETURNING key"
            try:
                ((key,),) = _execute(connection, insert, (name, document))
            except errors.UniqueViolation:
                raise study_exists(name, self.where) from None
            connection.cursor().executemany(
                _marked(APPEND),
                ((key, i, text) for i, text in enumerate(lines, start=1)),
            )
            connection.cursor().executemany(
                _marked(ATTACH), ((key, *row) for row in details)
            )
            return int(key)

    def delete(self, name: str) -> None:
        self._query(
            "DELETE FROM asktell_studies WHERE key = ? RETURNING key", self.find(name)
        )

    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        return dict(self._query(_DETAILS, key, list(trials)))

    @contextmanager
    def transaction(self, key: int, durable: bool) -> Iterator[_Transaction]:
        with self._connected() as connection:
            transaction = _Transaction(
                connection, key, durable, self.where, self._clock
            )
            try:
                yield transaction
                transaction.commit()
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise

    def now(self) -> float:
        return float(self._query(_NOW)[0][0]) if self._clock is None else self._clock()

    def check(self, patience: float = 1.0) -> None:
        with (
            self._translated(patience),
            self._connection(patience) as connection,
            connection.transaction(force_rollback=True),
        ):
            (row,) = connection.execute(
                _LOOK, [f"{max(1, round(1000 * patience))}ms"]
            ).fetchall()
            read_only, table, _ = row
            # No row is written, but a lock is waited for
            if read_only != "on" and table is not None:
                connection.execute("UPDATE asktell_studies SET name = name WHERE false")
        if read_only == "on":
            raise StorageError(
                f"{self.where} is read-only. Connect to the primary server."
            )

    def close(self) -> None:
        if self._pool is not None:
            self._close(self._pool)

    # Connections

    def _renew(self) -> None:
        """Begin; a forked process leaves the parent's connections alone, and makes its own when they are needed."""
        if self._pool is not None:
            _inherited.append(self._pool)
            self._closes.detach()
        self._lock, self._pool, self._is_prepared = Lock(), None, False
        self._thread = local()  # .connection: the connection that this thread uses

    @contextmanager
    def _connection(self, patience: float) -> Iterator[Connection]:
        """A connection, to be used by this thread only."""
        while True:
            pool = self._opened(patience)
            try:
                connection = pool.getconn(patience)
                break
            except PoolClosed:  # by somebody else, meanwhile
                continue
        try:
            yield connection
        finally:
            if connection.closed:  # then the others are likely lost as well
                self._close(pool)
            pool.putconn(connection)

    def _opened(self, patience: float) -> ConnectionPool[Connection]:
        pool = self._pool
        if pool is not None:
            return pool
        if not self._lock.acquire(timeout=patience):
            raise PoolTimeout
        try:
            if self._pool is None:
                # A pool would go on trying where the first connection shows at once
                # what is wrong.
                with psycopg.connect(
                    self._url, **self._options(patience)
                ) as connection:
                    connection.execute("SELECT 1")
                self._pool = ConnectionPool(
                    self._url,
                    kwargs=self._options(self._patience),
                    configure=partial(_configure, patience=self._patience),
                    min_size=0,
                    max_size=self._most,
                    timeout=self._patience,
                    max_idle=_SECONDS_UNUSED,
                    num_workers=1,
                    open=True,
                )
                # Also before the interpreter ends, when the threads of a pool can still
                # be stopped.
                self._closes = finalize(self, self._pool.close)
            return self._pool
        finally:
            self._lock.release()

    def _options(self, patience: float) -> dict[str, Any]:
        """How to connect, where the URL does not say it."""
        parameters = conninfo_to_dict(self._url)
        options = {
            "connect_timeout": math.ceil(min(patience + 1, _SECONDS_TO_CONNECT)),
            "application_name": "asktell",
            # A connection that is not used must also notice that the other end has
            # vanished.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": int(1000 * (self._patience + _SECONDS_OF_GRACE)),
        }
        return {
            "autocommit": True,
            **{
                name: value for name, value in options.items() if name not in parameters
            },
        }

    def _close(self, pool: ConnectionPool[Connection]) -> None:
        """Close the connections. Whoever still needs one gets a new one."""
        with self._lock:
            if self._pool is pool:
                self._pool, self._is_prepared = None, False
                self._closes.detach()
        pool.close()

    def _query(self, sql: LiteralString, *values: object) -> list[Any]:
        with self._connected() as connection:
            return _execute(connection, sql, values)

    @contextmanager
    def _connected(self, create: bool = False) -> Iterator[Connection]:
        """A connection; while this thread is using one, the same."""
        held = getattr(self._thread, "connection", None)
        if held is not None:
            yield held
            return
        with (
            self._translated(self._patience),
            self._connection(self._patience) as connection,
        ):
            if not self._is_prepared:
                self._prepare(connection, create)
                self._is_prepared = True
            self._thread.connection = connection
            try:
                yield connection
            finally:
                self._thread.connection = None

    def _prepare(self, connection: Connection, create: bool) -> None:
        """Check the tables, or make them for whoever creates a study; nobody else writes here."""
        if self._has_tables(connection):
            return
        if not create:
            raise StudyNotFoundError(
                f"There are no studies in {self.where}. Correct the URL, or create a study there first."
            )
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_OF_SCHEMA,))
            if not self._has_tables(connection):  # another process may have been first
                connection.execute(_TABLES)

    def _has_tables(self, connection: Connection) -> bool:
        # Not by to_regclass(), which may not see yet what another process made while
        # this one waited for its lock.
        is_there = "SELECT 1 FROM pg_class WHERE relname = 'asktell_schema' AND pg_table_is_visible(oid)"
        if not connection.execute(is_there).fetchall():
            return False
        self._check_schema(
            connection.execute("SELECT max(version) FROM asktell_schema").fetchall()[0][
                0
            ]
        )
        return True

    @contextmanager
    def _translated(self, patience: float) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._translation(error, patience) from error

    def _translation(self, error: psycopg.Error, patience: float) -> Exception:
        if isinstance(error, errors.ForeignKeyViolation):
            return study_gone(self.where)
        if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected):
            return StorageBusyError(
                f"{self.where} has been locked by another process for {patience:g} s. Nothing was changed. Try again."
            )
        if isinstance(error, PoolTimeout):
            return StorageBusyError(
                f"This storage got no connection to {self.where} within {patience:g} s. It may use {self._most} at the "
                "same time. All of these are busy, or the server allows no more. Nothing was changed. Try again."
            )
        text = " ".join(str(error).split())
        if isinstance(error, errors.DiskFull):
            cure = "The server's disk is full. Make room, and try again. Recorded scores are not lost."
        elif isinstance(
            error, errors.ReadOnlySqlTransaction | errors.InsufficientPrivilege
        ):
            cure = "Connect to the primary server, as a user who may write there."
        elif isinstance(
            error, psycopg.OperationalError | errors.IdleInTransactionSessionTimeout
        ):
            cure = "Check the server and the URL, and try again. Recorded scores are not lost."
        else:
            cure = "Nothing was changed."
        return StorageError(
            f"{self.where} cannot be used. {cure} PostgreSQL reports: {text}"
        )


def _parts(url: str) -> dict[str, Any]:
    """Return the parts of a URL by the names that libpq gives them.

    Raises:
        InvalidArgumentError: the URL is malformed, or a part of its password could be
            taken for a host, a port or a database, which messages show.
    """
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {}
    authority, _, path = url.partition("://")[2].partition("/")
    ports = [port for port in str(parts.get("port", "")).split(",") if port]
    if (
        not parts
        or authority.partition("?")[0].count("@") > 1
        or "@" in path.partition("?")[0]
        or not all(port.isdecimal() for port in ports)
    ):
        # Without any part of the URL: even a wrong part may be of the password
        raise InvalidArgumentError(
            "The PostgreSQL URL is malformed. It must have the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE. In "
            "the user and the password, write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25. Or leave "
            "out the password, and set it in the environment variable PGPASSWORD or in ~/.pgpass."
        )
    return parts


def _configure(connection: Connection, patience: float) -> None:
    """Set limits, each a little further than the one before, so that the most telling error comes first."""
    locks, statements = patience, patience + _SECONDS_OF_GRACE
    connection.execute(
        "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false), "
        "set_config('idle_in_transaction_session_timeout', %s, false), "
        "set_config('default_transaction_isolation', 'read committed', false)",
        [
            f"{max(1, round(1000 * seconds))}ms"
            for seconds in (locks, statements, _SECONDS_PAUSED)
        ],
    )


def _marked(statement: LiteralString) -> LiteralString:
    """A statement with the places of its values marked as psycopg has it."""
    return statement.replace("?", "%s")


def _execute(
    connection: Connection, statement: LiteralString, values: Sequence[object]
) -> list[Any]:
    cursor = connection.execute(_marked(statement), values)
    return cursor.fetchall() if cursor.description else []


def _quoted(text: str) -> bytes:
    """ASCII text as a literal, whatever the server's settings."""
    return b"E'%s'" % text.encode("ascii").replace(b"\\", b"\\\\").replace(b"'", b"''")


def _results(cursor: psycopg.Cursor[Any]) -> Iterator[None]:
    """Have the cursor stand at each of its results."""
    yield
    while cursor.nextset():
        yield
