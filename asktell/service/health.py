"""Whether the storage can be used: found out when somebody asks, seldom, and never waited for without end."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread

from asktell.errors import StorageBusyError


class Health:
    """What a check finds, kept for a moment.

    Args:
        check: raises an error if something is wrong. It runs in a thread of its own, so that it needs nothing of what
            may be stuck; one at a time.
        fresh: seconds for which its finding is good.
        patience: seconds that it may take.
        clock: gives seconds.
    """

    def __init__(
        self,
        check: Callable[[], None],
        fresh: float = 2.0,
        patience: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check = check
        self._fresh, self._patience = fresh, patience
        self._clock = clock
        self._found: Future[None] | None = None
        self._began = 0.0

    async def confirm(self) -> None:
        """Return if all is well.

        Raises:
            StorageBusyError: the check takes too long.
        """
        now = self._clock()
        if self._found is None or (self._found.done() and now - self._began >= self._fresh):
            self._found, self._began = Future(), now
            self._found.set_running_or_notify_cancel()  # so that no one who waits in vain can cancel it
            Thread(target=self._run, args=(self._found,), name="asktell health", daemon=True).start()
        try:
            left = max(0.0, self._began + self._patience - now)
            await asyncio.wait_for(asyncio.wrap_future(self._found), left)
        except TimeoutError:
            raise StorageBusyError(f"A check of the storage has been running for over {self._patience:g} s.") from None

    def _run(self, found: "Future[None]") -> None:
        try:
            self._check()
        except Exception as error:
            found.set_exception(error)
        else:
            found.set_result(None)
