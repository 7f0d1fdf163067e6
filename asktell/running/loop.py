"""Run a coroutine from code that is not async, also inside of a running event loop, as in a notebook."""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, TypeVar

_T = TypeVar("_T")
# The first cancels the coroutine. The second cancels the wait for its evaluations. If
# the coroutine still does not end, the third abandons it.
_MOST_INTERRUPTS = 3


def outside_of_loops(call: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Return the result of the coroutine that `call()` returns.

    If an event loop is running in this thread already, as in a notebook, the coroutine
    runs in a loop in another thread, with the context variables of this thread. An
    exception that is raised in this thread meanwhile, such as a KeyboardInterrupt or a
    signal handler's SystemExit, cancels the coroutine. It is raised again after the
    coroutine has ended.

    Args:
        call: an async function without arguments.
    """
    is_running = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_running = False
    if not is_running:
        return asyncio.run(call())
    outcome: Future[_T] = Future()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> _T:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        return await call()

    def body() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:
            outcome.set_exception(error)

    # A daemon, so that an abandoned coroutine does not keep the interpreter from exiting
    context = contextvars.copy_context()
    Thread(target=context.run, args=(body,), name="asktell", daemon=True).start()
    interrupts: list[BaseException] = []
    while not outcome.done():
        try:
            wait([outcome])
        except BaseException as interrupt:
            interrupts.append(interrupt)
            if len(interrupts) == _MOST_INTERRUPTS:
                break
            loop, task = begun.result()
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(task.cancel)
    if interrupts:
        raise interrupts[0]
    return outcome.result()
