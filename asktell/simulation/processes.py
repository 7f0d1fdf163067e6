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
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
}
"""The environment of a process that computes on one thread."""


def can_leave(value: object) -> bool:
    """True if another process can have it: not what a script or a notebook defines itself, nor a lambda."""
    try:
        return b"__main__" not in pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False


def in_processes(work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int) -> Iterator[_Result]:
    """What `work` returns for each task, as it comes; the first error ends it.

    Raises:
        AsktellError: a process died.
    """
    waiting, done = deque(tasks), SimpleQueue[tuple[bool, Any]]()
    first = pickle.dumps(work)
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    command = [sys.executable, "-P", "-c", "from asktell.simulation.processes import serve; serve()"]
    children = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ONE_THREAD, **os.environ, "PYTHONPATH": paths},
        )
        for _ in range(min(jobs, len(tasks)))
    ]
    threads = [threading.Thread(target=_talk, args=(child, first, waiting, done)) for child in children]
    try:
        for thread in threads:
            thread.start()
        for _ in tasks:
            succeeded, value = done.get()
            if not succeeded:
                raise value
            yield value
    finally:
        waiting.clear()
        for child in children:
            child.kill()
        for thread in threads:
            thread.join()


def _talk(child: "subprocess.Popen[bytes]", first: bytes, waiting: deque[Any], done: SimpleQueue[Any]) -> None:
    """Give a process tasks while there are any."""
    with contextlib.suppress(BrokenPipeError), child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(first)
            while True:
                pickle.dump(waiting.popleft(), child.stdin)
                child.stdin.flush()
                done.put(pickle.load(child.stdout))
        except IndexError:  # nothing is waiting
            pass
        except (EOFError, OSError, pickle.UnpicklingError):
            message = "A process of the simulation died; if memory ran out, take fewer jobs."
            done.put((False, AsktellError(message)))


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
