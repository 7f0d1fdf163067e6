"""submitit's executors (Slurm, or local processes) as one of `concurrent.futures`: each call is a job."""

import functools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any, ParamSpec, TypeVar, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra

_P = ParamSpec("_P")
_T = TypeVar("_T")
_log = logging.getLogger("asktell")


@final
class SubmititExecutor(Executor):
    """For `asktell.run(study, evaluator, SubmititExecutor(submitit.AutoExecutor(folder)), ...)`, in a `with` block.

    What is submitted at about the same time becomes one job array. A call whose job is killed, or runs out of its time,
    raises; jobs of futures that are cancelled are cancelled. A job that was preempted is begun again by submitit.

    Args:
        executor: submitit's, with its parameters set: `executor.update_parameters(timeout_min=60, gpus_per_node=1)`.
        interval: seconds between looks at the jobs.
        patience: seconds for which the result of a job that has ended may be missing from a shared file system.

    Raises:
        InvalidArgumentError: it is no executor of submitit's.
        MissingExtraError: submitit is missing.
    """

    def __init__(self, executor: Any, *, interval: float = 0.5, patience: float = 15.0) -> None:
        check_extra("submitit", "submitit")
        if not callable(getattr(executor, "submit_array", None)):
            raise InvalidArgumentError(f"SubmititExecutor() needs a submitit.AutoExecutor, got {executor!r}.")
        self._executor = executor
        self._interval = interval
        self._patience = patience
        self._queue: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._running: dict[Future[Any], Any] = {}  # their jobs
        self._ended: dict[Future[Any], float] = {}  # when, of those whose result is missing
        self._lock = threading.Lock()
        self._closed = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="submitit", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Make a job of a call; it goes to the cluster within `interval` seconds.

        Raises:
            RuntimeError: the executor was shut down.
        """
        future: Future[_T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._queue.append((future, functools.partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait for those that run, or cancel them."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                for future in [*self._running, *(future for future, _ in self._queue)]:
                    future.cancel()
        self._wake.set()
        if wait:
            self._thread.join()

    def _watch(self) -> None:
        while not (self._closed and not self._queue and not self._running):
            self._wake.wait(self._interval)
            self._wake.clear()
            self._submit()
            for future, job in list(self._running.items()):
                try:
                    self._look(future, job)
                except Exception as error:  # the cluster's commands, or its file system: look again
                    _log.warning("Looking at job %s failed: %s", job.job_id, error)

    def _submit(self) -> None:
        with self._lock:
            calls = {future: call for future, call in self._queue if not future.cancelled()}
            self._queue.clear()
            if not calls:
                return
            try:
                jobs = self._executor.submit_array(list(calls.values()))
            except Exception as error:
                broken = BrokenExecutor(f"submitit could not submit {len(calls)} jobs: {error}")
                broken.__cause__ = error
                for future in calls:
                    _resolve(future, broken)
            else:
                self._running.update(zip(calls, jobs, strict=True))

    def _look(self, future: Future[Any], job: Any) -> None:
        if future.cancelled():
            job.cancel(check=False)
        elif not job.done():
            return
        elif job.paths.result_pickle.exists():
            try:
                _resolve(future, job.result())
            except Exception as error:
                _resolve(future, error)
        elif time.monotonic() < self._ended.setdefault(future, time.monotonic()) + self._patience:
            return
        else:
            _resolve(future, EvaluatorError(f"Job {job.job_id} ended without a result; see {job.paths.stderr}."))
        del self._running[future]
        self._ended.pop(future, None)


def _resolve(future: Future[Any], outcome: Any) -> None:
    if future.set_running_or_notify_cancel():
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
