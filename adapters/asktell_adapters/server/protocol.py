"""A time limit for the head of a request, as uvicorn has none: a silent connection would stay open forever."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_A_HEAD = 10.0


class TimedProtocol(H11Protocol):
    """uvicorn's connection, cut off when no request becomes complete in time after its first byte, or the connection's.

    Between requests uvicorn's own time limit holds.
    """

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit = self.loop.call_later(SECONDS_FOR_A_HEAD, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answers = self.cycle is not None and not self.cycle.response_complete
        if answers and self._limit is not None:
            self._limit.cancel()
            self._limit = None
        elif not answers and self._limit is None:
            self._limit = self.loop.call_later(SECONDS_FOR_A_HEAD, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._limit is not None:
            self._limit.cancel()
