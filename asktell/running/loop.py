"""Run async code from code that is not async, also inside of a running event loop, as in a notebook."""

import asyncio
import contextlib
import contextvars
import ctypes
import inspect
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from threading import Thread
from types import FrameType
from typing import Any, Self, TypeVar, overload

_T = TypeVar("_T")
# The first cancels the call. The second cancels what it then waits for. If it still does
# not end, the third abandons it.
_MOST_INTERRUPTS = 3
_LOOK = 0.02  # seconds between two looks whether the caller's task was cancelled


class CallersTask:
    """The task of an event loop in which code that is not async was called, as in a cell of a notebook.

    Such code blocks the loop, so that a cancellation of the task does not reach it:
    Ctrl-C, for instance, which only cancels the task in `asyncio.run`. Use this object
    in a `with` block.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        with contextlib.suppress(RuntimeError):  # no event loop is running
            self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._handler: Any = None

    def __enter__(self) -> Self:
        # In a cell with `await`, the stop button of a notebook sends SIGINT to a handler
        # that waits for the loop. In all other cells, it raises a KeyboardInterrupt.
        handler = signal.getsignal(signal.SIGINT)
        is_notebook = getattr(handler, "__module__", "").startswith("ipykernel.")
        if self._task is not None and is_notebook and callable(handler):
            with contextlib.suppress(ValueError):  # this is not the main thread
                signal.signal(signal.SIGINT, self._interrupt)
                self._handler = handler
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT as the notebook does, and end the code that blocks its loop."""
        self._handler(number, frame)
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise a CancelledError, once, if the task was asked to end since this object was made."""
        if self._task is not None and self._task.cancelling() > self._before:
            self._task = None
            raise asyncio.CancelledError


@overload
def outside_of_loops(call: Callable[[], Coroutine[Any, Any, _T]]) -> _T: ...


@overload
def outside_of_loops(call: Callable[[], _T]) -> _T: ...


def outside_of_loops(call: Callable[[], Any]) -> Any:
    """Return the result of an async function, or of a function that starts an event loop of its own.

    If an event loop is running in this thread already, as in a notebook, the function
    runs in another thread, with the context variables of this thread. It is stopped by
    an exception that is raised in this thread meanwhile, such as a KeyboardInterrupt or
    a signal handler's SystemExit, and by a cancellation of this thread's task: an async
    function is cancelled, and a function with a loop of its own gets a
    KeyboardInterrupt. When it has ended, the exception is raised again.

    Args:
        call: the function. It has no arguments.
    """
    is_running = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_running = False
    return _result(call) if not is_running else _result_elsewhere(call)


def _result(call: Callable[[], Any]) -> Any:
    """Return the result of the function, in this thread."""
    result = call()
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _result_elsewhere(call: Callable[[], Any]) -> Any:
    """Return the result of the function, in another thread."""
    elsewhere, interrupts = _Elsewhere(call), list[BaseException]()
    # Before the thread, so that no cancellation since its start goes unnoticed
    with CallersTask() as caller:
        try:
            elsewhere.start()
        except BaseException as interrupt:
            interrupts.append(interrupt)
            elsewhere.stop()
        while not elsewhere.has_ended and len(interrupts) < _MOST_INTERRUPTS:
            try:
                wait([elsewhere.outcome], _LOOK)
                caller.check()
            except BaseException as interrupt:
                interrupts.append(interrupt)
                elsewhere.stop()
    if interrupts:
        raise interrupts[0]
    return elsewhere.outcome.result()


class _Elsewhere:
    """A call of a function in another thread.

    Attributes:
        outcome: its result or exception. An interrupt may end the thread without one.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self.outcome: Future[Any] = Future()
        self._call = call
        context = contextvars.copy_context()
        # A daemon, so that an abandoned call does not keep the interpreter from exiting
        self._thread = Thread(
            target=context.run, args=(self._work,), name="asktell", daemon=True
        )
        self._is_async = self._is_stopped = False
        # Of an async function, once they are there
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    @property
    def has_ended(self) -> bool:
        return self.outcome.done() or not self._thread.is_alive()

    def start(self) -> None:
        """Start the thread. After an interrupt in this method, it may have started."""
        self._thread.start()

    def _work(self) -> None:
        if not self.outcome.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
            if inspect.iscoroutine(result):
                self._is_async = True
                result = asyncio.run(self._awaited(result))
            self.outcome.set_result(result)
        except BaseException as error:
            self.outcome.set_exception(error)

    async def _awaited(self, made: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._task = asyncio.get_running_loop(), task
        if self._is_stopped:
            made.close()
            raise asyncio.CancelledError
        return await made

    def stop(self) -> None:
        """Cancel an async function, or raise a KeyboardInterrupt in a function that is not async."""
        self._is_stopped = True  # an async function may be about to begin
        if self.outcome.cancel():  # nothing has begun, or will
            return
        if self._task is not None:
            loop, task = self._task
            with contextlib.suppress(RuntimeError):  # the loop was just closed
                loop.call_soon_threadsafe(task.cancel)
        elif not self._is_async and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident or 0),
                ctypes.py_object(KeyboardInterrupt),
            )
