"""The evaluations of a run that are in progress, in any kind of run.

All kinds share one loop, `Crew.steps`. They differ in how an evaluation is started (in
this thread, by an executor, or as a task of an event loop) and in how the loop waits.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures.thread import BrokenThreadPool
from typing import Any, TypeAlias

from asktell._util.log import log
from asktell.errors import EvaluatorError
from asktell.problem.trials import Trial
from asktell.problem.words import in_words
from asktell.running.board import Board
from asktell.running.evaluator import Calling, attempt, attempt_async, is_failure
from asktell.running.processes import (
    can_renew,
    in_process,
    n_processes,
    postponed_signals,
    renewed,
)

Running: TypeAlias = "Future[Any] | asyncio.Task[Any]"
"""An evaluation in progress."""
Start: TypeAlias = Callable[..., Running]
"""Starts a call of the evaluator's function with these arguments."""
Steps: TypeAlias = Generator[Collection[Running] | None, Any, None]
"""The steps of a run. It yields what to wait for, and is sent the outcome of the wait.

It yields running evaluations, to wait until one of them ends, or for half a second. Send
it those that have ended. Or it yields None, if only other workers of a study can
continue. Then call `Selection.wait`, and send its return value.
"""

_ATTEMPTS = 3  # as many as leases of a trial of a study
_LOST = "A batch of %d trials failed, and is evaluated again trial by trial. Its error was %r"
_DIED = "A process of the executor died while it evaluated %s. These are evaluated again, one at a time. %s"


class Crew:
    """Starts the evaluations of a run, and takes their outcomes to the board.

    Args:
        board: hands out the trials, and records their outcomes.
        how: how the evaluator is called.
        executor: runs the evaluations. None: they are tasks of the running event loop
            if the evaluator is async, and run in this thread otherwise.
        at_once: the largest number of trials that are evaluated at the same time.
        size: the largest number of trials in one call of the evaluator.
    """

    def __init__(
        self,
        board: Board,
        how: Calling,
        executor: Executor | None,
        at_once: int,
        size: int,
    ) -> None:
        self._board, self._how, self._executor = board, how, executor
        self._size = size
        # A process pool moves more calls to its processes than they can begin, and these
        # cannot be taken back when the run is stopped.
        most = None if executor is None else n_processes(executor)
        self._at_once = at_once if most is None else min(at_once, most * size)
        self._start_call, self._has_started = self._starter(), False
        self._running: dict[Running, list[Trial]] = {}
        # Trials that were lost, with their process or in a batch. They are evaluated one
        # at a time, because all trials of a process that dies are lost with it.
        self._suspects: deque[Trial] = deque()
        # Trials whose process pool broke, until all its evaluations have ended
        self._lost: list[Trial] = []
        self._break: BaseException | None = None
        # A pool breaks as a whole, so that nothing may run beside a suspect
        self._has_broken = False
        self._is_abandoned = False  # its evaluations may never end
        self._is_ending = False  # no evaluation is started any more
        self._own_pool: Executor | None = None

    def steps(self, wake: Callable[[object], object] | None = None) -> Steps:
        """Evaluate until the run is over. See `Steps`.

        An exception that is thrown into it ends the run: evaluations that have not
        started are cancelled, the others are waited for, and their scores are recorded.

        Args:
            wake: is called, in any thread, when an evaluation has ended.
        """
        try:
            while True:
                trials = yield from self._board.asking(self._n_free)
                self._start(trials, wake)
                if not self._running:
                    break
                done: Collection[Running] = ()
                while self._running and not done:
                    self._stop_unwanted()
                    done = (yield self._running) if self._running else ()
                with self._board.together():
                    # In the order in which they started
                    for future in [
                        running for running in self._running if running in done
                    ]:
                        self._take(future)
                if self._break is not None and not self._running:
                    self._recover(self._break)
                for suspect in [s for s in self._suspects if not self._board.needs(s)]:
                    self._suspects.remove(suspect)
                    self._board.release(suspect)
        except BaseException as error:
            yield from self._end(error)
            raise
        finally:
            if self._own_pool is not None:
                is_idle = all(future.done() for future in self._running)
                self._own_pool.shutdown(is_idle, cancel_futures=True)

    # Starting

    def _starter(self) -> Start:
        """Return how to start a call of the evaluator."""
        call, executor = self._how.call, self._executor
        if executor is None and self._how.is_async:
            return lambda *args: asyncio.create_task(attempt_async(call, *args))
        if executor is None:
            return lambda *args: _call_here(call, *args)
        if isinstance(executor, ProcessPoolExecutor):
            return lambda *args: executor.submit(in_process, call, *args)
        if isinstance(executor, ThreadPoolExecutor) and not _has_interpreters(executor):
            # Traces and other context variables of the caller reach the evaluator
            return lambda *args: executor.submit(
                contextvars.copy_context().run, call, *args
            )
        return lambda *args: executor.submit(call, *args)

    @property
    def _n_free(self) -> int:
        """How many trials can start. Beside suspects of a lost batch, these are whole groups."""
        if self._break is not None or (self._suspects and self._has_broken):
            return 0
        out = sum(map(len, self._running.values()))
        n = max(0, self._at_once - len(self._suspects) - out)
        return n - n % self._size if self._suspects else n

    def _start(
        self, trials: list[Trial], wake: Callable[[object], object] | None
    ) -> None:
        """Start trials in groups, and a suspect if it can be evaluated by itself."""
        # Lost in an earlier run of this selection
        suspects = [trial for trial in trials if self._board.losses[trial.id]]
        self._suspects.extend(suspects)
        self._has_broken = self._has_broken or bool(suspects)
        fresh = [trial for trial in trials if not self._board.losses[trial.id]]
        groups = list(_groups(fresh, self._size))
        all_groups = [*self._running.values(), *groups]
        is_alone = (
            not all_groups
            if self._has_broken
            else all(len(group) > 1 for group in all_groups)
        )
        if self._suspects and is_alone and self._break is None:
            groups.append([self._suspects.popleft()])
        is_main = threading.current_thread() is threading.main_thread()
        in_threads = isinstance(self._executor, ThreadPoolExecutor)
        # The first call of a pool of processes forks these, which a new thread must not do
        may_fork = not self._has_started and not in_threads
        if self._executor is None or not is_main or may_fork:
            is_pool = isinstance(self._executor, ProcessPoolExecutor)
            starts = is_pool and is_main and may_fork
            with postponed_signals() if starts else contextlib.nullcontext():
                self._submit(groups[:1], wake)
            groups = groups[1:]
        if groups and (self._executor is None or not is_main):
            self._submit(groups, wake)
        elif groups:
            self._submit_elsewhere(groups, wake)

    def _submit_elsewhere(
        self, groups: list[list[Trial]], wake: Callable[[object], object] | None
    ) -> None:
        """Submit groups in another thread: an interrupt within `submit`, in the main thread, would lose evaluations."""
        submitted: Future[None] = Future()

        def submit() -> None:
            if not submitted.set_running_or_notify_cancel():
                return
            try:
                self._submit(groups, wake)
                submitted.set_result(None)
            except BaseException as error:
                submitted.set_exception(error)

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(submit,), daemon=True)
        try:
            thread.start()
            submitted.result()
        except BaseException:
            self._is_ending = True
            raise
        finally:
            if not submitted.cancel():
                submitted.exception()  # waits for the call of `submit` in progress

    def _submit(
        self, groups: list[list[Trial]], wake: Callable[[object], object] | None
    ) -> None:
        """Start the evaluations of groups of trials."""
        groups = list(groups)
        while groups and not self._is_ending:
            group = groups.pop(0)
            arguments = self._how.arguments(group, self._board.repeat_of)
            try:
                future = self._start_call(*arguments)
            except BrokenExecutor as error:
                # It broke before this call: now, which its evaluations will show, or in an
                # earlier run
                for later in [group, *groups]:
                    self._suspects.extend(later)
                if self._running:
                    self._break = error
                    return
                self._recover(error)
                groups = [[self._suspects.popleft()]]
                continue
            except Exception as error:
                if self._executor is None:
                    raise
                # Each executor has its own exception for having been closed
                raise self._broken(error) from error
            self._running[future] = group
            self._has_started = True
            if wake is not None:
                future.add_done_callback(wake)

    # Ending

    def _stop_unwanted(self) -> None:
        """Stop the evaluations of prompts that were eliminated or retired, where that is possible."""
        if self._how.is_async and not self._how.can_stop:
            return
        board = self._board
        new = {trial.id for trial in board.unwanted()}
        for future, group in list(self._running.items()):
            if not any(trial.id in new for trial in group) or not all(
                trial.id in board.stopped for trial in group
            ):
                continue
            if not isinstance(future, Future):
                future.cancel()
            elif future.cancel():
                del self._running[future]
                for trial in group:
                    board.release(trial)
            elif self._how.cancel is not None:
                self._cancel(group)

    def _cancel(self, group: list[Trial]) -> None:
        """Call the evaluator's `cancel` for each trial. An error is logged, and the evaluation continues."""
        assert self._how.cancel is not None
        for trial in group:
            try:
                self._how.cancel(trial)
            except Exception as error:  # the evaluation continues, and its scores count
                log.warning(
                    "cancel() failed, so the evaluation of trial %d continues: %r",
                    trial.id,
                    error,
                )

    def _take(self, future: Running) -> None:
        """Record the outcome of an evaluation that has ended."""
        group = self._running[future]
        if isinstance(future, Future) and future.cancelled():
            # By the executor: this class cancels no future that it waits for
            raise self._broken(CancelledError())
        error = _error_of(future)
        if error is not None and self._is_break(error):
            self._lose(future, error)
            return
        if error is not None and not is_failure(error):
            raise error
        del self._running[future]
        if error is not None and len(group) > 1 and isinstance(future, Future):
            log.warning(_LOST, len(group), error)
            self._suspects.extend(group)
        else:
            outcome = error or future.result()
            self._board.take_batch(
                group, outcome if self._how.in_batches else [outcome]
            )

    def _end(self, reason: BaseException) -> Steps:
        """Cancel what has not started, wait for the other evaluations, and record their scores."""
        is_interrupt = not isinstance(reason, Exception)
        # The newest first: a thread that becomes free would begin the oldest
        for future in reversed(list(self._running)):
            if isinstance(future, Future):
                if future.cancel():
                    del self._running[future]
            elif is_interrupt:
                future.cancel()
        if self._how.cancel is not None and is_interrupt:
            for future, group in self._running.items():
                if not future.done():
                    self._cancel(group)
        try:
            waiting = [running for running in self._running if not running.done()]
            if waiting and not self._is_abandoned:
                log.warning(
                    "The run is ending. It waits for %d running evaluations. Interrupt it to abandon them.",
                    len(waiting),
                )
                while waiting:
                    yield waiting
                    waiting = [running for running in waiting if not running.done()]
        finally:
            for future, group in self._running.items():
                if future.done() and not future.cancelled():
                    outcome = future.exception() or future.result()
                    self._board.rescue(
                        group, outcome if self._how.in_batches else [outcome]
                    )

    # Processes that die

    def _is_break(self, error: BaseException) -> bool:
        """True if the executor itself broke, and not one that the evaluator uses in its thread."""
        if self._executor is None:
            return False
        in_threads = isinstance(self._executor, ThreadPoolExecutor)
        return isinstance(error, BrokenThreadPool if in_threads else BrokenExecutor)

    def _lose(self, future: Running, error: BaseException) -> None:
        """Note that an evaluation was lost with its process. All others of the pool will be, too."""
        if self._can_renew:
            self._break = error
            self._lost += self._running.pop(future)
            return
        # What has ended before is recorded when the run ends
        trials: list[Trial] = []
        for running in list(self._running):
            if not _has_outcome(running):
                trials += self._running.pop(running)
        if not isinstance(self._executor, ThreadPoolExecutor):
            self._blame(trials, error)
        raise self._broken(error, trials) from error

    def _recover(self, error: BaseException) -> None:
        """Continue with new processes."""
        if not self._can_renew:
            raise self._broken(error) from error
        lost, self._lost, self._break = self._lost, [], None
        self._has_broken = True
        self._renew()
        # A repeated evaluation is not tried again
        for trial in [trial for trial in lost if trial.id < 0]:
            self._board.release(trial)
        lost = [trial for trial in lost if trial.id >= 0]
        if lost and not self._blame(lost, error):
            log.warning(_DIED, self._named(lost), _words(error))
            self._suspects.extend(lost)

    def _blame(self, lost: list[Trial], error: BaseException) -> bool:
        """Count the attempts of trials that were lost together. A trial alone fails after enough attempts.

        The next run of the selection knows the count.

        Returns:
            True if the trial has failed.
        """
        losses = self._board.losses
        losses.update(trial.id for trial in lost if trial.id >= 0)
        if len(lost) != 1 or losses[lost[0].id] < _ATTEMPTS:
            return False
        # An error with a cause is about an exception or a result that could not be read
        hint = (
            ""
            if error.__cause__
            else "It may need too much memory, crash in native code, or call os._exit(), or the initializer of the "
            "pool failed. "
        )
        failure = EvaluatorError(
            f"Each of {losses[lost[0].id]} attempts to evaluate {self._named(lost)} ended its process. {hint}"
            f"{_words(error)}"
        )
        failure.__cause__ = error
        self._board.take(lost[0], failure)
        return True

    @property
    def _can_renew(self) -> bool:
        """True if a broken executor can be replaced by a new one."""
        return self._executor is not None and can_renew(self._executor)

    def _renew(self) -> None:
        """Replace the executor, which is broken, by a new one of its kind."""
        assert self._executor is not None
        if self._own_pool is not None:
            self._own_pool.shutdown(wait=False)
        self._executor = renewed(self._executor)
        # loky shares its pool with the caller
        is_own = isinstance(self._executor, ProcessPoolExecutor)
        self._own_pool = self._executor if is_own else None
        self._start_call, self._has_started = self._starter(), False

    def _named(self, trials: Iterable[Trial]) -> str:
        """Trials in words, with the ids of their prompts and examples."""
        return "; ".join(map(self._board.described, trials))

    def _broken(
        self, error: BaseException, lost: Collection[Trial] = ()
    ) -> EvaluatorError:
        """Return the error that ends the run. Its evaluations are not waited for."""
        self._is_abandoned = True
        where = f" while it evaluated {self._named(lost)}" if lost else ""
        return EvaluatorError(
            f"The executor broke down{where}. Its trials were released. Recorded scores are kept. Start the run again, "
            f"with a new executor, to evaluate the rest. {_words(error)}"
        )


def _call_here(call: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call the evaluator in this thread. Returns a future that is done."""
    future: Future[Any] = Future()
    future.set_result(attempt(call, *args))
    return future


def _has_interpreters(executor: Executor) -> bool:
    """True if the threads of an executor have interpreters of their own, to which no context can be sent."""
    return any(kind.__name__ == "InterpreterPoolExecutor" for kind in type(executor).__mro__)  # fmt: skip


def _error_of(future: Running) -> BaseException | None:
    """Return the exception of an evaluation that has ended. A task that was cancelled has a CancelledError."""
    try:
        return future.exception()
    except asyncio.CancelledError as error:
        return error


def _has_outcome(future: Running) -> bool:
    """True if an evaluation has ended, and was not lost."""
    return (
        future.done()
        and not future.cancelled()
        and not isinstance(future.exception(), BrokenExecutor)
    )


def _words(error: BaseException) -> str:
    """Return a sentence with the error and, for an error from another process, the last line of its traceback."""
    text = " ".join(f"The error was {in_words(error)}".split())
    cause = str(error.__cause__ or "").splitlines()
    lines = [line for line in cause if line.strip(" '\"")]
    return f"{text} ({lines[-1].strip()})" if lines else text


def _groups(trials: list[Trial], size: int) -> Iterator[list[Trial]]:
    """Yield the trials in groups of `size`. The last group may be smaller."""
    for start in range(0, len(trials), size):
        yield trials[start : start + size]
