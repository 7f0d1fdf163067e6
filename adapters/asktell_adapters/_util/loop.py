"""An event loop in its own thread, and a lock. Both can be pickled, and each copy gets its own."""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar, final

T = TypeVar("T")
Closer = Callable[[], Awaitable[object]]


@final
class Lock:
    """A `threading.Lock` for a `with` block, which can be pickled. The copy is a new lock, not held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()


@final
class LoopThread:
    """Runs coroutines in a daemon thread, which starts with the first coroutine and ends with this object.

    One client in that thread can serve synchronous callers and any number of event loops.
    Otherwise each event loop would need its own client, with its own connections and its
    own limit of concurrency.
    """

    def __init__(self) -> None:
        self._closers: list[Closer] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread, and return its future.

        Canceling the future cancels the coroutine.
        """
        with self._lock:
            # Start at the first use, so that an object that was pickled or never used
            # has no thread.
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # The thread must not hold `self`, or the finalizer below would never
                # run.
                arguments = (self._loop, self._closers)
                self._thread = threading.Thread(
                    target=_serve, args=arguments, name="asktell-llm", daemon=True
                )
                self._thread.start()
                self._finalizer = weakref.finalize(self, _stop, self._loop)
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def at_close(self, closer: Closer) -> None:
        """Await `closer()` in the loop before the thread ends.

        Args:
            closer: closes a client. The latest closer is awaited first.
        """
        self._closers.append(closer)

    def close(self) -> None:
        """Cancel the running coroutines and stop the thread. A later submit() starts a new thread."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._finalizer()
                self._thread.join()
            self._loop = self._thread = None

    def __reduce__(self) -> tuple[type["LoopThread"], tuple[()]]:
        return LoopThread, ()


def _serve(loop: asyncio.AbstractEventLoop, closers: list[Closer]) -> None:
    """Run the loop until it is stopped, then close the clients and the loop. The thread runs this."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_wind_up(closers))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _wind_up(closers: list[Closer]) -> None:
    """Cancel the running tasks, then await the closers, the latest first."""
    # Clients close last, because running requests still use them.
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    while closers:
        await closers.pop()()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    """Stop a loop from another thread, or from the finalizer of its owner."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
