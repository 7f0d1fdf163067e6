"""How often somebody may ask, and answers that are kept for those who ask again. Both for one event loop."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple


class RateLimit:
    """A token bucket per key, for the `most` keys seen last.

    Args:
        rate: requests per second that go on for ever; 0 for no limit.
        burst: requests at once after a rest.
        clock: gives seconds.
        most: keys to remember.
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic, most: int = 10_000
    ) -> None:
        self._rate, self._burst = rate, max(1.0, burst)
        self._clock = clock
        self._most = most
        self._levels: OrderedDict[object, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait(self, key: object, take: float = 1.0) -> float:
        """Seconds until this key may come again; 0 if it may now, and then it has. With `take=0` only a look."""
        if self._rate <= 0:
            return 0.0
        now = self._clock()
        level, since = self._levels.pop(key, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        short = 1.0 - level
        self._levels[key] = (level if short > 0 else level - take), now
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return max(0.0, short / self._rate)


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Answers:
    """Answers by key, so that a request that is sent again is answered again, and not done again.

    Args:
        most: answers to keep.
        most_bytes: of their bodies together.
        seconds: to keep them.
        clock: gives seconds.
    """

    def __init__(
        self,
        most: int = 10_000,
        most_bytes: int = 2**26,
        seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_bytes, self._seconds = most, most_bytes, seconds
        self._clock = clock
        self._kept: OrderedDict[object, tuple[bytes, float, Answer]] = OrderedDict()
        self._bytes = 0
        self._running: dict[object, tuple[bytes, asyncio.Future[None]]] = {}

    async def get(self, key: object, request: bytes, make: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """The answer of this key, made if there is none; None if the key came with another request before.

        Args:
            key: chosen by the client, one per request.
            request: what tells requests apart.
            make: answers. Its answer is kept unless it asks to come again (429, or 500 and above).
        """
        while (running := self._running.get(key)) is not None:
            if running[0] != request:
                return None
            await asyncio.shield(running[1])
        self._forget()
        if (kept := self._kept.get(key)) is not None:
            return kept[2] if kept[0] == request else None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running[key] = request, ended
        try:
            answer = await make()
            if answer.status < 500 and answer.status != 429:
                self._kept[key] = request, self._clock() + self._seconds, answer
                self._bytes += len(answer.body)
            return answer
        finally:
            del self._running[key]
            ended.set_result(None)

    def _forget(self) -> None:
        now = self._clock()
        while self._kept:
            key, (_, until, answer) = next(iter(self._kept.items()))
            if until > now and len(self._kept) <= self._most and self._bytes <= self._most_bytes:
                return
            del self._kept[key]
            self._bytes -= len(answer.body)
