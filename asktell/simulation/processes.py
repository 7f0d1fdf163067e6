"""A function of many tasks, in processes of one thread each.

`multiprocessing` would import the caller's script anew in each process, and so start a simulation in each, where the
script has no `if __name__ == "__main__"`. These processes import only what the function needs.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
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


def in_processes(work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int) -> Iterator[_Result]:
    """What `work` returns for each task, as it comes; the first error ends it."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    environment = {**ONE_THREAD, **os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-P", "-c", "from asktell.simulation.processes import serve; serve()"]
    first, idle = pickle.dumps(work), SimpleQueue[Any]()
    children: list[Any] = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for _ in range(min(jobs, len(tasks)))
    ]
    with ThreadPoolExecutor(len(children)) as threads:
        try:
            for child in children:
                with contextlib.suppress(OSError):  # it died, as its first task will tell
                    child.stdin.write(first)
                idle.put(child)
            for done in as_completed([threads.submit(_done, idle, task) for task in tasks]):
                yield done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for child in children:
                child.kill()
                with contextlib.suppress(BrokenPipeError), child:
                    pass


def _done(idle: SimpleQueue[Any], task: Any) -> Any:
    """A task's result, by a process that has nothing to do."""
    child = idle.get()
    try:
        pickle.dump(task, child.stdin)
        child.stdin.flush()
        succeeded, value = pickle.load(child.stdout)
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):
        raise AsktellError("A process of the simulation died; if memory ran out, take fewer jobs.") from None
    finally:
        idle.put(child)
    if not succeeded:
        raise value
    return value


def serve() -> None:
    """Be such a process: a function, then tasks on stdin; results on stdout. What is printed goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work = None
    while True:
        try:
            work = work or pickle.load(source)
            result = True, work(pickle.load(source))
        except EOFError:
            return
        except Exception as error:
            error.add_note("".join(traceback.format_exception(error)))
            result = False, error
        try:
            sent = pickle.dumps(result)
            pickle.loads(sent)
        except Exception:  # an error that cannot be pickled
            sent = pickle.dumps((False, AsktellError(str(result[1]) + "\n" + traceback.format_exc())))
        sink.write(sent)
        sink.flush()
