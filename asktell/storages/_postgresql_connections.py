"""The connections of a process to PostgreSQL servers: a pool for each place, and a limit on every wait."""

import atexit
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

from asktell._util.extras import needs_extra
from asktell._util.forks import fresh_after_fork

with needs_extra("postgresql"):
    import psycopg
    from psycopg import sql
    from psycopg.abc import PQGen
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

_T = TypeVar("_T")
CONNECTIONS = 8
"""The most that a process has to one place."""
_SECONDS_TO_CONNECT = 10
SECONDS_OF_GRACE = 5.0  # for a server's answer, beyond the patience with others
_SECONDS_UNUSED = 60.0  # after which a connection is closed
_SECONDS_PAUSED = 30  # a machine that vanishes in the middle of a transaction must not keep the others out


class Connection(psycopg.Connection[Any]):
    """A connection that gives up on a server that is silent for too long: no time limit of the server's helps then."""

    silence = math.inf

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.process = os.getpid()

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:
        """See psycopg.Connection."""
        return super().wait(self._listening(gen), *args, **options)

    def _listening(self, gen: PQGen[_T]) -> PQGen[_T]:
        if self.process != os.getpid():
            raise psycopg.OperationalError(
                "the process was forked in the middle of a transaction, which is the parent's"
            )
        heard = time.monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.silence:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server has been silent for {self.silence:g} s")
                state = gen.send(ready)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


class Connections:
    """The connections of this process to one place, at most so many; the pool is made when it is first needed.

    Args:
        url: of the place.
        patience: seconds to wait for other processes, and for a connection that is free.
        most: how many connections.
    """

    def __init__(self, url: str, patience: float, most: int) -> None:
        self.most = most
        self.prepared = False  # whether the tables are known to be up to date
        self._url = url
        self._patience = patience
        self._users: WeakSet[object] = WeakSet()
        self._pool: ConnectionPool[Connection] | None = None
        self._lock = Lock()
        self._listener: Connection | None = None  # beside the pool: who waits must not keep others from telling
        self._listening = Lock()
        fresh_after_fork(self, Connections._renew)

    @contextmanager
    def one(self, user: object, patience: float) -> Iterator[Connection]:
        """A connection, to be used by this thread only."""
        while True:
            pool = self._opened(user, patience)
            try:
                connection = pool.getconn(patience)
                break
            except PoolClosed:  # by somebody else, meanwhile
                continue
        try:
            yield connection
        finally:
            if connection.process == os.getpid():
                if connection.closed:  # then the others are likely lost as well
                    self._close(pool)
                pool.putconn(connection)

    def listen(self, channel: str, is_due: Callable[[Connection], bool], seconds: float) -> None:
        """Wait for a notification, unless it has come already. One thread listens; others let the time pass.

        Args:
            channel: of `pg_notify`.
            is_due: whether what is waited for is there; asked when nothing can be missed any more.
            seconds: to wait at most.
        """
        if not self._listening.acquire(blocking=False):
            time.sleep(seconds)
            return
        try:
            if self._listener is None or self._listener.closed:
                self._listener = Connection.connect(self._url, **self._options(self._patience))
                self._configure(self._listener)
            connection = self._listener
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            if not is_due(connection):
                deque(connection.notifies(timeout=seconds, stop_after=1), maxlen=0)
            connection.execute("UNLISTEN *")
        except BaseException:  # nobody knows what it would hear next
            self._hang_up()
            raise
        finally:
            self._listening.release()

    def _hang_up(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def leave(self, user: object) -> None:
        """Close the connections if nobody else uses them."""
        self._users.discard(user)
        if not self._users:
            self.close()

    def close(self) -> None:
        """Close the connections, whoever uses them."""
        if self._pool is not None:
            self._close(self._pool)
        if self._listening.acquire(blocking=False):  # otherwise whoever listens soon has its answer, and keeps it
            self._hang_up()
            self._listening.release()

    def _opened(self, user: object, patience: float) -> ConnectionPool[Connection]:
        self._users.add(user)
        pool = self._pool
        if pool is not None:
            return pool
        if not self._lock.acquire(timeout=patience):
            raise PoolTimeout
        try:
            if self._pool is None:
                # A pool would go on trying where the first connection shows at once what is wrong.
                with Connection.connect(self._url, **self._options(patience)) as connection:
                    connection.silence = patience + SECONDS_OF_GRACE
                    connection.execute("SELECT 1")
                self._pool = ConnectionPool(
                    self._url,
                    connection_class=Connection,
                    kwargs=self._options(self._patience),
                    configure=self._configure,
                    min_size=0,
                    max_size=self.most,
                    timeout=self._patience,
                    max_idle=_SECONDS_UNUSED,
                    num_workers=1,
                    open=True,
                )
            return self._pool
        finally:
            self._lock.release()

    def _options(self, patience: float) -> dict[str, Any]:
        """How to connect, where the URL does not say it."""
        given = conninfo_to_dict(self._url)
        options = {
            "connect_timeout": math.ceil(min(patience + 1, _SECONDS_TO_CONNECT)),
            "application_name": "asktell",
            # A connection that is not used must also notice that the other end has vanished.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": int(1000 * (self._patience + SECONDS_OF_GRACE)),
        }
        return {"autocommit": True, **{name: value for name, value in options.items() if name not in given}}

    def _configure(self, connection: Connection) -> None:
        """Set limits, each a little further than the one before, so that the most telling error comes first."""
        locks, statements = self._patience, self._patience + SECONDS_OF_GRACE
        connection.silence = statements + SECONDS_OF_GRACE
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false), "
            "set_config('idle_in_transaction_session_timeout', %s, false), "
            "set_config('default_transaction_isolation', 'read committed', false)",
            [f"{max(1, round(1000 * seconds))}ms" for seconds in (locks, statements, _SECONDS_PAUSED)],
        )

    def _close(self, pool: ConnectionPool[Connection]) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool, self.prepared = None, False
        pool.close()

    def _renew(self) -> None:
        """In a forked process: leave the parent's connections alone, and make own ones when they are needed."""
        self._lock, self._listening = Lock(), Lock()
        if self._listener is not None:
            _inherited.append(self._listener)
            self._listener = None
        if self._pool is not None:
            _inherited.append(self._pool)
            self._pool, self.prepared = None, False


_places: dict[tuple[str, float, int], Connections] = {}
_inherited: list[ConnectionPool[Connection] | Connection] = []
"""Pools and connections of the process that this one was forked from: closing them would end the parent's sessions."""


@atexit.register
def _close_all() -> None:
    """Before the interpreter ends, when the threads of a pool can still be stopped."""
    for connections in list(_places.values()):
        connections.close()


def connections_to(url: str, patience: float, most: int) -> Connections:
    """The connections of this process, shared by whoever is at the same place."""
    place = (url, patience, most)
    return _places.get(place) or _places.setdefault(place, Connections(*place))
