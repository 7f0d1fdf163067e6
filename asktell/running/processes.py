"""Process pools: what can return from their processes, and a new pool in the place of a broken one."""

import contextlib
import inspect
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from types import FrameType
from typing import Any

from asktell.errors import EvaluatorError
from asktell.problem.words import in_words
from asktell.running.evaluator import is_from_signal


def in_process(call: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a process of a pool. Its result or exception can be sent to the process of the run.

    A pool would break if an exception could be pickled but not unpickled, as with many
    exceptions whose constructor takes more than a message.

    Raises:
        EvaluatorError: the result cannot be sent. Or the function raised an exception
            that cannot be sent, whose type, message, cost and details the error has.
    """
    try:
        outcome = call(*args)
    except (Exception, SystemExit) as error:
        # The pool's signal to end, with a handler that a fork has inherited. The pool
        # waits for the end of the process.
        if is_from_signal(error):
            os._exit(1)
        # A broken pool that the evaluator uses is not the pool of this process
        if _why_not_sent(error) is None and not isinstance(error, BrokenExecutor):
            raise
        raise _sendable(error) from None
    if (why := _why_not_sent(outcome)) is not None:
        raise EvaluatorError(
            f"The evaluator returned {type(outcome).__name__}, which cannot be sent from its process ({why}). Return "
            "numbers and text only."
        )
    return outcome


def _why_not_sent(value: object) -> str | None:
    """Return why a value cannot be sent to another process. None if it can."""
    try:
        pickle.loads(pickle.dumps(value))
    except Exception as error:  # constructors and reducers may raise anything
        return in_words(error)
    return None


def _sendable(error: BaseException) -> EvaluatorError:
    """Return an error with the words, the cost and the details of another."""
    sendable = EvaluatorError(in_words(error))
    for name in ("cost", "details"):
        value = getattr(error, name, None)
        if value is not None and _why_not_sent(value) is None:
            setattr(sendable, name, value)
    return sendable


@contextlib.contextmanager
def postponed_signals() -> Iterator[None]:
    """Call the handlers of signals only at the end of a `with` block. Use it in the main thread.

    A pool whose start is interrupted leaves processes that nobody ends, and for which
    the interpreter waits forever when it exits.
    """
    owner, received = os.getpid(), list[int]()
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            received.append(number)
        else:  # in a process that was forked in the block
            handlers[number](number, frame)

    for valid in signal.valid_signals():
        if callable(handler := signal.getsignal(valid)):
            handlers[int(valid)] = handler
    try:
        for number in handlers:
            signal.signal(number, note)
        yield
    finally:
        for number in handlers:
            signal.signal(number, handlers[number])
        for number in received:
            handlers[number](number, inspect.currentframe())


def n_processes(executor: Executor) -> int | None:
    """Return the number of processes of a pool of concurrent.futures or loky. None for other executors."""
    is_pool = isinstance(executor, ProcessPoolExecutor) or _is_loky(executor)
    return int(executor._max_workers) if is_pool else None  # type: ignore[attr-defined]


def can_renew(executor: Executor) -> bool:
    """True if `renewed` can replace the executor when it is broken. A subclass may have arguments of its own."""
    has_same_arguments = type(executor).__init__ is ProcessPoolExecutor.__init__
    return has_same_arguments or _is_loky(executor)


def renewed(executor: Executor) -> Executor:
    """Return a new pool with the settings of a broken one."""
    pool: Any = executor  # no public attribute has the settings
    fresh: Executor
    if _is_loky(executor):
        fresh, _ = type(pool).get_reusable_executor(
            pool._max_workers,
            pool._context,
            pool._timeout,
            initializer=pool._initializer,
            initargs=pool._initargs,
            env=pool._env,
        )
        return fresh
    fresh = type(pool)(
        pool._max_workers,
        pool._mp_context,
        pool._initializer,
        pool._initargs,
        max_tasks_per_child=pool._max_tasks_per_child,
    )
    return fresh


def _is_loky(executor: Executor) -> bool:
    """True for the pool that `loky.get_reusable_executor` returns, also of the loky within joblib."""
    return type(executor).__name__ == "_ReusablePoolExecutor"
