"""A function of many tasks, in processes of one thread each.

A process would import the caller's script anew, and so start a simulation itself, where
the script has no `if __name__ == "__main__"`. These start beside an empty one, and
import only what the function needs.
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

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}  # the environment of a process that computes on one thread


def can_leave(value: object) -> bool:
    """True if another process can have it: not what a script or a notebook defines itself, nor a lambda."""
    try:
        return b"__main__" not in pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False


def in_processes(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int
) -> Iterator[_Result]:
    """What `work` returns for each task, as it comes; the first error ends it, as does the death of a process."""
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), get_context("spawn"), _begin, (pickle.dumps(work),)
    )
    script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        running = [pool.submit(_done, task) for task in tasks]
    finally:
        sys.modules["__main__"] = script
    try:
        for each in as_completed(running):
            yield each.result()
    except BrokenProcessPool:
        raise AsktellError(
            "A process of the simulation died; if memory ran out, take fewer jobs."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(work: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    # Before NumPy
    os.environ.update(
        {name: value for name, value in ONE_THREAD.items() if name not in os.environ}
    )
    globals()["_work"] = pickle.loads(work)


def _done(task: Any) -> Any:
    try:
        return globals()["_work"](task)
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise AsktellError(f"{error}\n{traceback.format_exc()}") from None
        raise
