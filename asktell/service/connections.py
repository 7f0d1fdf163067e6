"""How long a connection may be silent, and how many connections strangers may have: what uvicorn has no settings for.

A connection is a stranger's until a request on it was let in. Of strangers' there are only so many, so that enough is
left for the others; the oldest gives way to the newest, so that whoever speaks at once is heard.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from asktell.service.gate import LET_IN


@dataclass(frozen=True)
class ConnectionLimits:
    """What a connection may take.

    Attributes:
        strangers: connections of strangers.
        strangers_per_address: of them.
        head_seconds: from the connection, or the first byte of a request, to the end of its head.
        stalled_seconds: in which a client takes nothing of an answer.
    """

    strangers: int = 400
    strangers_per_address: int = 200
    head_seconds: float = 10.0
    stalled_seconds: float = 30.0


class Connections:
    """The connections that are open, for one event loop.

    `protocol` makes one, as uvicorn's setting `http`; `sweep` is to be called every second or so.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: dict[_Connection, None] = {}
        # The oldest first.
        self._strangers: dict[_Connection, None] = {}
        self._of_address: defaultdict[str, dict[_Connection, None]] = defaultdict(dict)

    def protocol(self, *args: Any, **options: Any) -> "_Connection":
        """Make a connection; what uvicorn calls its protocol."""
        return _Connection(self, *args, **options)

    async def sweep(self) -> None:
        """Cut off those that were silent for too long."""
        for connection in list(self._open):
            if connection.is_too_slow(self._limits):
                self._cut_off(connection)

    def opened(self, connection: "_Connection") -> None:
        """Count it, at first as a stranger's."""
        neighbours = self._of_address[connection.address]
        for others, most in (
            (neighbours, self._limits.strangers_per_address),
            (self._strangers, self._limits.strangers),
        ):
            if len(others) >= most:
                self._cut_off(next(iter(others)))
        self._open[connection] = self._strangers[connection] = None
        self._of_address[connection.address][connection] = None

    def let_in(self, connection: "_Connection") -> None:
        """Count the connection among the strangers' no more."""
        self._strangers.pop(connection, None)
        neighbours = self._of_address[connection.address]
        neighbours.pop(connection, None)
        if not neighbours:
            del self._of_address[connection.address]

    def closed(self, connection: "_Connection") -> None:
        """Forget a connection that was closed."""
        self._open.pop(connection, None)
        self.let_in(connection)

    def _cut_off(self, connection: "_Connection") -> None:
        self.closed(connection)
        connection.transport.abort()


class _Connection(H11Protocol):
    def __init__(self, connections: Connections, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._counted = connections
        self.address = ""
        self._waits_since: float | None = None  # for a head, or the rest of it
        self._unsent, self._stalls_since = 0, 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.app_state = {**self.app_state, LET_IN: lambda: self._counted.let_in(self)}
        self._waits_since = self.loop.time()
        self._counted.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._counted.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = self.loop.time()

    def is_too_slow(self, limits: ConnectionLimits) -> bool:
        """Whether nothing came or went for too long. Between requests uvicorn looks after that."""
        now, unsent = self.loop.time(), self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._stalls_since = unsent, now
        head = math.inf if self._waits_since is None else self._waits_since + limits.head_seconds
        return now > head or (unsent > 0 and now > self._stalls_since + limits.stalled_seconds)
