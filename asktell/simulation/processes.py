"""One function for many tasks, in processes with one thread each.

A new process usually imports the caller's script again. A script without `if __name__
== "__main__"` would then start its simulation again. So these processes start with an
empty script, and import only the modules that the function needs.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import ModuleType
from typing import Any, TypeVar

from asktell.errors import AsktellError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

# The environment of a process that computes on one thread
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def can_leave(value: object) -> bool:
    """True if another process can load the value. A lambda or an object defined in a script or a notebook cannot."""
    try:
        return b"__main__" not in pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False


def in_processes(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int
) -> Iterator[_Result]:
    """The result of `work` for each task, in the order of completion. The first error ends all processes.

    Raises:
        AsktellError: a process died.
    """
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), get_context("spawn"), _begin, (pickle.dumps(work),)
    )
    script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        running = [pool.submit(_done, task) for task in tasks]
    finally:
        sys.modules["__main__"] = script
    try:
        for future in as_completed(running):
            yield future.result()
    except BrokenProcessPool:
        raise AsktellError(
            "A process of the simulation died. If the memory was full, use fewer jobs."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(work: bytes) -> None:
    """Prepare a process, once for all of its tasks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    # Unpickling imports NumPy, which reads these variables once
    os.environ.update(
        {name: value for name, value in ONE_THREAD.items() if name not in os.environ}
    )
    globals()["_work"] = pickle.loads(work)


def _done(task: Any) -> Any:
    """The result of a task. An error that cannot be pickled becomes an `AsktellError` with the same text."""
    try:
        return globals()["_work"](task)
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise AsktellError(f"{error}\n{traceback.format_exc()}") from None
        raise
