"""Drive a selector or a study with an evaluator: in this thread, over any Executor, async, or in batches.

asyncio and tqdm are imported where they are needed, to keep `import asktell` light.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from typing import TYPE_CHECKING, Any, TypeVar

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.problem.candidates import Trial
from asktell.problem.checks import whole
from asktell.results import Result
from asktell.running.board import Board, MaxFailures, OnTell, Until, open_board
from asktell.running.evaluator import Calling, Evaluator, attempt, attempt_async, is_failure
from asktell.selector import Selection

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

_log = logging.getLogger("asktell")
_DEFAULT_CONCURRENCY = 8
_LOOK = 0.5  # seconds between two looks for evaluations that are to be stopped
_LOST = "A batch of %d trials was lost, and is tried again one by one: %r"


def run(
    selector: Selection,
    evaluator: Evaluator,
    executor: Executor | None = None,
    concurrency: int | None = None,
    progress: bool = True,
    *,
    batch_size: int | None = None,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: MaxFailures = "first",
    repeatable: bool | None = None,
    until: Until | None = None,
) -> Result:
    """Evaluate until the selector is done, and return its result.

    Args:
        selector: what to ask and tell. Trials that are out when the run starts are evaluated first: a selector that
            was saved in the middle of a run continues. With a Study, a RemoteStudy or a `study.worker(name)`, this
            run is one of its workers, among any number in other processes; it waits for them at the end.
        evaluator: a callable `(prompt, example) -> scores`, where `example` is the trial's index; an async one; an
            object with `evaluate`; or one with `evaluate_batch(trials)`, which returns scores or an exception for
            each trial. One whose third argument is called `repeat` (or `repeats`, the second of `evaluate_batch`) also
            gets how often the prompt was asked on the example before, or a list of that: see `Selector.repeat_of`.
            One whose first argument is called `candidate` gets `trial.candidate`, factor -> value, in place of the
            prompt; one whose first argument is called `trial` gets the trial in place of prompt and example.
            One with a method `check_prompts` is given all prompts, id -> text, or candidates, id -> (factor ->
            value), before the first is evaluated, and may raise.
            One with a method `cancel` can stop an evaluation: see below.
            One with a method `begin` is called with the selection's `result`, a function, when a run begins; and one
            with `remarks` says by metric what results are to say of it: see `Selector.remark`.
            Scores are a mapping, in which metrics beyond the goal's are ignored and "cost" is the trial's cost, also if
            it is one of the goal's metrics; or a sequence in the goal's order; or a number, if there is one metric.
        executor: runs plain and batch evaluators elsewhere: threads, processes, Dask.
        concurrency: evaluations at once; by default 8 where there is an executor, an async or a batch evaluator.
        batch_size: trials per call of a batch evaluator, by default as many as `concurrency`; fewer make several calls
            at once, over an executor or with an async evaluator.
        progress: show a progress bar on stderr, or below the cell of a notebook.
        on_tell: called with the selector (or the worker) and the trial after each that was told or failed, in this
            thread; to save, log or plot, or to let prompts join (`add`), which are then evaluated too.
        max_failures_in_a_row: number of failures in a row that stop the run, if they are of more than one example: the
            cause is then a server that is down, say. "first" (default): only if the first five evaluations all fail in
            the same way, at no cost, as with a wrong key; that stops a run with a number, too. None: no failure stops
            it. Every failure is recorded at once, as of its prompt. After the last one allowed nothing more is asked
            until the evaluations under way have ended: a success among them continues the run. What fails meanwhile is
            handed back, and its cost booked.
        repeatable: whether an evaluation gives the same scores when it is repeated; None: as the evaluator says, by its
            attribute of that name (`LLMEvaluator` does). Unless it is, and the selection is about given examples
            (`inputs="given"`), a few evaluations are repeated, on top of the budget: a fortieth soon after they were
            made, at least two, and as many of the first ones when the run ends. If scores differ, they count as noisy
            from then on, and the result says so; if they differ at the end, what is evaluated may have changed during
            the run.
        until: called with the selector (or the worker) before it is asked; once it returns True the run ends.

    A trial whose prompt was eliminated or retired meanwhile is stopped: the task of an async evaluator is cancelled,
    unless the evaluator has `cancel = None`; of any other one, `cancel(trial)` is called in this process, in another
    thread than the evaluation, which then is to end. An evaluator that has `cancel` and no `executor` runs in a thread.
    The trial is handed back, and the `cost` of the exception by which it ends is booked. It counts as no failure. If
    the evaluation returns scores all the same, they are told. In a study, a worker finds out at its next heartbeat, in
    a third of its lease.

    An exception of the evaluator, its exit or cancellation too, or scores that the selector refuses, are that trial's
    failure and not the run's; a MissingExtraError is the run's. A batch that is lost as a whole over an executor (its
    worker died) is tried again trial by trial.

    In a study, what scores (or an exception) carry as `details`, a mapping, is kept beside them, as are metrics beyond
    the goal's: see `Study.evaluations`.

    However a run ends, what was paid for is kept. Evaluations that an executor has begun and cannot cancel are waited
    for, and so are async ones, but after KeyboardInterrupt, which cancels them; a second one ends the waiting. Other
    trials are handed back: the selector can be saved and continued. The cost of those that failed meanwhile, or were
    stopped, is booked.

    Raises:
        EvaluatorError: the executor broke down, or nothing but failures came.
        StorageError: a study's storage was out of reach for more than a minute.
    """
    if concurrency is not None:
        concurrency = whole("concurrency", concurrency, 1)
    if batch_size is not None:
        batch_size = whole("batch_size", batch_size, 1)
    if executor is not None and not isinstance(executor, Executor):
        raise InvalidArgumentError(
            f"executor must be a concurrent.futures.Executor, got {type(executor).__name__}. Dask's clients have a "
            "get_executor()."
        )
    how = Calling.of(evaluator)
    if how.is_async and executor is not None:
        raise InvalidArgumentError("An async evaluator runs in an event loop and takes no executor.")
    at_once = concurrency or _DEFAULT_CONCURRENCY
    size = min(batch_size or at_once, at_once) if how.in_batches else 1
    with open_board(selector, progress, on_tell, max_failures_in_a_row, bool(repeatable), until) as board:
        _check_prompts(evaluator, board)
        if repeatable is None:  # as it says now that it has seen the candidates, which may have a temperature
            board.repeatable = bool(getattr(evaluator, "repeatable", False))
        if callable(begin := getattr(evaluator, "begin", None)):
            begin(board.selector.result)
        _remark(evaluator, board)
        if how.is_async:
            import asyncio

            outside_of_loops(lambda: asyncio.run(_run_async(board, how, at_once, size)))
        elif executor is not None:
            _run_executor(board, how, executor, at_once, size)
        elif how.can_stop:
            with ThreadPoolExecutor(1) as thread:
                _run_executor(board, how, thread, at_once if how.in_batches else 1, size)
        else:
            _run_here(board, how, at_once if how.in_batches else 1, size)
        _remark(evaluator, board)
        return board.selector.result()


def _remark(evaluator: Evaluator, board: Board) -> None:
    if callable(remarks := getattr(evaluator, "remarks", None)):
        for topic, (text, doubtful) in remarks().items():
            if topic in board.selector.goal.metrics:
                board.selector.remark(text, topic=topic, doubtful=doubtful)


def _check_prompts(evaluator: Evaluator, board: Board) -> None:
    """Let an evaluator that can say so refuse prompts before anything is spent; it sees candidates in any case."""
    if callable(check := getattr(evaluator, "check_prompts", None)):
        result = board.selector.result()
        if not result.spent or result.prompts[0].candidate is not None:
            check({str(entry.id): entry.candidate or entry.prompt for entry in result.prompts})


def _run_here(board: Board, how: Calling, at_once: int, size: int) -> None:
    while trials := board.ask(at_once):
        for group in _groups(trials, size):
            outcome = attempt(how.call, *how.arguments(group, board.repeat_of))
            board.take_batch(group, outcome if how.in_batches else [outcome])


def _run_executor(board: Board, how: Calling, executor: Executor, at_once: int, size: int) -> None:
    running: dict[Future[Any], list[Trial]] = {}
    is_broken = False

    def broken(error: BaseException) -> EvaluatorError:
        nonlocal is_broken
        is_broken = True
        return EvaluatorError(f"The executor broke down: {error!r}. The trials were handed back.")

    def start(groups: Iterable[list[Trial]]) -> None:
        for group in groups:
            try:
                future = executor.submit(how.call, *how.arguments(group, board.repeat_of))
            except Exception as error:  # each executor has its own for having been closed
                raise broken(error) from error
            running[future] = group

    try:
        while True:
            start(_groups(board.ask(at_once - sum(map(len, running.values()))), size))
            if not running:
                return
            _stop_unwanted(board, how, running)
            while not (done := wait(running, _LOOK if how.can_stop else None, FIRST_COMPLETED).done):
                _stop_unwanted(board, how, running)
            with board.together():
                for future in [each for each in running if each in done]:  # in the order in which they were begun
                    try:
                        error = future.exception()
                    except CancelledError as cancelled:  # not by us
                        raise broken(cancelled) from cancelled
                    if isinstance(error, BrokenExecutor):
                        raise broken(error) from error
                    if error is not None and not is_failure(error):
                        raise error
                    group = running.pop(future)
                    if error is not None and len(group) > 1:
                        _log.warning(_LOST, len(group), error)
                        start([trial] for trial in group)
                    else:
                        outcome = error or future.result()
                        board.take_batch(group, outcome if how.in_batches else [outcome])
    except BaseException as error:
        started = {future: group for future, group in running.items() if not future.cancel()}
        if how.cancel is not None and not isinstance(error, Exception):
            for future, group in started.items():
                if not future.done():
                    _cancel(how.cancel, group)
        try:
            if not is_broken:  # one that is may never end what it runs
                _warn_of_waiting(started)
                wait(started)
        finally:
            _rescue(board, how, started)
        raise


def _newly_unwanted(board: Board, running: Mapping[Any, list[Trial]]) -> dict[Any, list[Trial]]:
    """Evaluations under way of which every trial is unwanted, and one since the last look."""
    new = {trial.id for trial in board.unwanted()}
    return {
        each: group
        for each, group in running.items()
        if any(trial.id in new for trial in group) and all(trial.id in board.stopped for trial in group)
    }


def _stop_unwanted(board: Board, how: Calling, running: dict[Future[Any], list[Trial]]) -> None:
    """Take back what an executor has not begun, and stop what it has, where the evaluator can."""
    for future, group in _newly_unwanted(board, running).items():
        if future.cancel():
            del running[future]
            for trial in group:
                board.release(trial)
        elif how.cancel is not None:
            _cancel(how.cancel, group)


def _cancel(cancel: Callable[[Trial], object], group: list[Trial]) -> None:
    for trial in group:
        try:
            cancel(trial)
        except Exception as error:  # the evaluation goes on, and its scores count
            _log.warning("cancel() failed, and trial %d is evaluated to its end: %r", trial.id, error)


def _warn_of_waiting(running: "Iterable[Future[Any] | asyncio.Task[Any]]") -> None:
    if n := sum(not each.done() for each in running):
        _log.warning("The run ends. It waits for %d evaluations that are under way; interrupt it to leave them.", n)


def _rescue(board: Board, how: Calling, running: Mapping[Any, list[Trial]]) -> None:
    """Take what came of evaluations while the run was being ended."""
    for each, group in running.items():
        if each.done() and not each.cancelled():
            outcome = each.exception() or each.result()
            board.rescue(group, outcome if how.in_batches else [outcome])


async def _run_async(board: Board, how: Calling, at_once: int, size: int) -> None:
    import asyncio

    running: dict[Any, list[Trial]] = {}
    try:
        while True:
            for group in _groups(board.ask(at_once - sum(map(len, running.values()))), size):
                called = attempt_async(how.call, *how.arguments(group, board.repeat_of))
                running[asyncio.create_task(called)] = group
            if not running:
                return
            finished = set[Any]()
            while not finished:
                for task in _newly_unwanted(board, running) if how.can_stop else ():
                    task.cancel()
                look = _LOOK if how.can_stop else None
                finished, _ = await asyncio.wait(running, timeout=look, return_when=asyncio.FIRST_COMPLETED)
            with board.together():
                for task in [each for each in running if each in finished]:  # in the order in which they were begun
                    group = running.pop(task)
                    try:
                        outcome = task.result()
                    except asyncio.CancelledError as error:  # by the evaluator: ours are not looked at
                        outcome = error
                    board.take_batch(group, outcome if how.in_batches else [outcome])
    except BaseException as error:
        if isinstance(error, Exception):
            _warn_of_waiting(running)
        else:
            for task in running:
                task.cancel()
        try:
            await asyncio.gather(*running, return_exceptions=True)
        finally:
            _rescue(board, how, running)
        raise


def _groups(trials: list[Trial], size: int) -> Iterator[list[Trial]]:
    for start in range(0, len(trials), size):
        yield trials[start : start + size]


def outside_of_loops(call: Callable[[], _T]) -> _T:
    """What the call returns, in a thread of its own where an event loop is running already, as in a notebook."""
    import asyncio

    loop = None
    with contextlib.suppress(RuntimeError):  # none is running
        loop = asyncio.get_running_loop()
    if loop is None:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
