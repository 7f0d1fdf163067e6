"""A time limit for the head of a request. uvicorn has none, so a silent connection would stay open forever."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# A client sends a head in one packet, so ten seconds suffice on any network.
SECONDS_FOR_A_HEAD = 10.0


class TimedProtocol(H11Protocol):
    """uvicorn's connection with a time limit for the head of each request.

    The time runs from the start of the connection, or from the first byte of a later
    request, until the request is complete. Between requests, uvicorn's own time limit
    holds.
    """

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time of the first request."""
        super().connection_made(transport)
        self._limit = self.loop.call_later(SECONDS_FOR_A_HEAD, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Stop the time while a request is answered, and start it at the first byte of the next."""
        super().data_received(data)
        answers = self.cycle is not None and not self.cycle.response_complete
        if answers and self._limit is not None:
            self._limit.cancel()
            self._limit = None
        elif not answers and self._limit is None:
            self._limit = self.loop.call_later(SECONDS_FOR_A_HEAD, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time, because the connection is closed."""
        super().connection_lost(exc)
        if self._limit is not None:
            self._limit.cancel()
