"""`run` drives a selector or a study with an evaluator: in this thread, with any Executor, async, or in batches.

asyncio and tqdm are imported where they are needed, to keep `import asktell` fast.
"""

import contextlib
import logging
from collections import deque
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
from asktell.results.result import Result
from asktell.running.board import Board, MaxFailures, OnTell, Until, open_board
from asktell.running.evaluator import (
    Calling,
    Evaluator,
    attempt,
    attempt_async,
    is_failure,
)
from asktell.selector import Selection

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

_log = logging.getLogger("asktell")
_DEFAULT_CONCURRENCY = 8
_LOOK = 0.5  # seconds between two searches for evaluations that should be stopped
_LOST = "A batch of %d trials failed, and is evaluated again trial by trial. Its error was %r"


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
    """Evaluate until the selection is done, and return its result.

        >>> import asktell
        >>> def evaluate(prompt, example):
        ...     return {"accuracy": float("step by step" in prompt)}
        >>> prompts = {"short": "Answer in one word.", "long": "Think step by step."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), budget=20, examples=10)
        >>> result = asktell.run(selector, evaluate, progress=False)
        >>> result.best.id
        'long'

    Args:
        selector: the selection: a Selector, a Study or a RemoteStudy. Trials that are
            pending at the beginning are evaluated first, so you can continue a selector
            that was saved during a run.

            With a Study or a RemoteStudy, this run is one worker of the study. At the
            end, it waits for the other workers. Pass `study.worker(name)` to choose the
            name of the worker. Otherwise the name is made of the host, the process id
            and random letters.
        evaluator: evaluates prompts on examples. See "Evaluators" below.
        executor: a `concurrent.futures.Executor`, which runs the evaluator in threads,
            in processes or with Dask (`client.get_executor()`). None: the evaluator
            runs in this thread, or in one other thread if it has a method `cancel`. An
            async evaluator cannot have an executor.
        concurrency: the largest number of trials that are evaluated at the same time.
            The default is 8 with an executor, and for async and batch evaluators.
            Otherwise it is 1.
        progress: True shows a progress bar on stderr, or below the cell of a notebook.
        batch_size: the largest number of trials in one call of a batch evaluator. The
            default is `concurrency`. If it is smaller than `concurrency`, an executor
            or an async evaluator has several calls at the same time.
        on_tell: a function that gets the selector or study, and the trial. It is called
            in the thread of `run`, after the scores or the failure of the trial were
            recorded. Use it to save, log or plot, or to add prompts.
        max_failures_in_a_row: "first" (default), a number, or None. With "first", the
            run stops if its first five evaluations all fail in the same way, as with a
            wrong key or a metric that returns None. It also stops later if its last
            evaluations all failed in the same way, and would very probably not have
            done so if prompts failed as often as before, as with a key that has
            expired. With a number, the run also stops after this number of failures in
            a row. It stops only if the failures are on at least two different examples.
            With None, no failure stops the run.

            While the evaluations fail in the same way, only their costs are recorded.
            With the next success, or the next failure of another kind, the failures are
            recorded, too, and count for the `max_failure_rate` of their prompts. If the
            run stops, they do not count: their trials are released, and the next run
            evaluates them again. After the last of these failures, the run waits for
            the evaluations in progress before it stops, and asks for no new trials. If
            one of them succeeds, the run continues.
        repeatable: True if a repeated evaluation gives the same scores. None (default):
            the attribute `repeatable` of the evaluator, or False if it has none.
            `LLMEvaluator` has this attribute.

            If it is False and the selection has inputs="given", the run repeats a few
            evaluations to measure whether scores differ. One in 40 evaluations is
            repeated soon after the first time, but at least two in all. At the end of
            the run, as many evaluations are repeated again, drawn from the earliest
            evaluations of the selection. A selection with fewer than 16 evaluations has
            no repeats. These repeats do not count against the number of evaluations in
            the budget. If scores differ, they count as noisy from then on, and the
            result has a note. If the scores at the end differ, the note is that the
            model may have changed during the run.
        until: a function that gets the selector or study before each `ask`. As soon as
            it returns True, no new trial is asked for, and the run ends after the
            evaluations in progress.

    **Evaluators.** An evaluator is one of these:

    - a function `(prompt, example) -> scores`, or an object with such a method
      `evaluate`. `example` is the position of the example, from 0.
    - an object with a method `evaluate_batch(trials)`. It returns a list with the
      scores or the exception of each trial.

    All may be async. Scores are a mapping from metric to number, or numbers in the
    order of `goal.metrics`. With one metric, they can also be a number. In a mapping,
    "cost" is the cost of the evaluation, even if it is also a metric of the goal. A
    mapping may also have scores of the selection's `proxies`. A Selector ignores other
    metrics, and a study stores them (see "Details").

    The names of the arguments decide what an evaluator gets:

    - If the first argument is named `candidate`, it gets a mapping from factor to value
      (`trial.candidate`) instead of the prompt.
    - If the first argument is named `trial`, it gets the trial instead of the prompt
      and the example.
    - If a further argument is named `repeat`, it gets the number of earlier trials of
      the prompt on this example (see `Selector.repeat_of`). A second argument `repeats`
      of `evaluate_batch` gets a list of these numbers, one for each trial.

    An evaluator may also have these methods:

    - `check_prompts(prompts)` is called before the first evaluation. It gets all
      prompts (id -> text) or candidates (id -> mapping), and may raise an error.
    - `begin(result)` is called when a run begins. Its argument is a function that
      returns the present result whenever it is called.
    - `remarks()` returns notes for the result, as a mapping from metric to `(text,
      doubtful)`. See `Selector.remark`.
    - `cancel(trial)` stops the evaluation of a trial.

    **Stopped evaluations.** When a prompt is eliminated or retired, its running
    evaluations are stopped. For an async evaluator, the task is cancelled, unless the
    evaluator has `cancel = None`. For other evaluators, `cancel(trial)` is called, if
    there is such a method. The evaluation should then raise an exception. `cancel` is
    called in this process, and in another thread than the evaluation. So an evaluator
    with `cancel` runs in a thread, even without an executor.

    The trial of a stopped evaluation is released, and does not count as a failure. If
    the exception has an attribute `cost`, this cost is recorded. If the evaluation
    returns scores in spite of `cancel`, the scores are recorded. In a study, other
    workers eliminate prompts, too. A worker finds out when it extends its leases, which
    it does three times per lease.

    **Failures.** If the evaluator raises an exception, or returns scores that the
    selector refuses, its trial fails and the run continues (but see
    `max_failures_in_a_row`). This also holds for SystemExit and the cancellation of a
    task. If the exception has an attribute `cost`, this cost is recorded. A
    MissingExtraError ends the run, because every evaluation would raise it. So does an
    evaluator that returns a coroutine, a future or a generator. If an
    executor loses a whole batch because its process died, the trials of the batch are
    evaluated again one by one.

    **Details.** In a study, an evaluation can have details, which are stored with its
    scores. They are a mapping in the attribute `details` of the exception, or of the
    object with the scores. A plain dict cannot have this attribute, but an object of a
    subclass of dict can. If the scores have metrics that are not in the goal, the
    details get all scores under "scores". See `Study.evaluations`.

    **The end of a run.** An error can end a run, for example in `on_tell`. The run then
    waits for the evaluations that have started, and records their scores. Evaluations
    that an executor has not started are cancelled. A KeyboardInterrupt also stops the
    evaluations that have started: async evaluations are cancelled, and `cancel` is
    called for the others, if the evaluator has it. The run then waits for the
    evaluations to end. A second KeyboardInterrupt ends the wait, and the scores of
    running evaluations are lost. The costs of evaluations that failed or were stopped
    are recorded. All trials that are still pending are released, so that the selector
    can be saved and continued.

    Raises:
        InvalidArgumentError: an argument is invalid, for example an evaluator that
            takes other arguments.
        EvaluatorError: the executor broke down, too many evaluations failed in a row,
            or the evaluator returned a coroutine, a future or a generator.
        MissingExtraError: the evaluator needs a package that is not installed.
        StorageError: the storage of a study was unreachable for more than a minute.
    """
    if concurrency is not None:
        concurrency = whole("concurrency", concurrency, 1)
    if batch_size is not None:
        batch_size = whole("batch_size", batch_size, 1)
    if executor is not None and not isinstance(executor, Executor):
        raise InvalidArgumentError(
            f"executor must be a concurrent.futures.Executor, got {type(executor).__name__}. For Dask, pass "
            "client.get_executor()."
        )
    how = Calling.of(evaluator)
    if how.is_async and executor is not None:
        raise InvalidArgumentError(
            "An async evaluator runs in an event loop. Leave out executor=."
        )
    at_once = concurrency or _DEFAULT_CONCURRENCY
    size = min(batch_size or at_once, at_once) if how.in_batches else 1
    here_at_once = at_once if how.in_batches else 1  # without an executor
    with open_board(
        selector, progress, on_tell, max_failures_in_a_row, bool(repeatable), until
    ) as board:
        _begin(evaluator, board, repeatable)
        if how.is_async:
            import asyncio  # here, because only async evaluators need it

            outside_of_loops(lambda: asyncio.run(_run_async(board, how, at_once, size)))
        elif executor is not None:
            _run_executor(board, how, executor, at_once, size)
        elif how.can_stop:
            # In a thread, so that this one can call `cancel`
            with ThreadPoolExecutor(1) as thread:
                _run_executor(board, how, thread, here_at_once, size)
        else:
            _run_here(board, how, here_at_once, size)
        _remark(evaluator, board)
        return board.selector.result()


def _remark(evaluator: Evaluator, board: Board) -> None:
    """Add the evaluator's remarks about metrics of the goal to the selection."""
    if callable(remarks := getattr(evaluator, "remarks", None)):
        for topic, (text, doubtful) in remarks().items():
            if topic in board.selector.goal.metrics:
                board.selector.remark(text, topic=topic, doubtful=doubtful)


def _begin(evaluator: Evaluator, board: Board, repeatable: bool | None) -> None:
    """Call the methods of an evaluator that come before the first evaluation, if it has them."""
    if callable(check := getattr(evaluator, "check_prompts", None)):
        result = board.selector.result()
        # The prompts of a continued selection were checked before. Candidates are checked
        # again, because an evaluator may read from them whether it is repeatable.
        if not result.spent or result.prompts[0].candidate is not None:
            check(
                {
                    str(entry.id): entry.candidate or entry.prompt
                    for entry in result.prompts
                }
            )
    # Read only after check_prompts: candidates may have a temperature as a factor
    if repeatable is None:
        board.repeatable = bool(getattr(evaluator, "repeatable", False))
    if callable(begin := getattr(evaluator, "begin", None)):
        begin(board.selector.result)
    _remark(evaluator, board)


def _run_here(board: Board, how: Calling, at_once: int, size: int) -> None:
    """Evaluate in this thread, in groups of `size` trials."""
    while trials := board.ask(at_once):
        for group in _groups(trials, size):
            outcome = attempt(how.call, *how.arguments(group, board.repeat_of))
            board.take_batch(group, outcome if how.in_batches else [outcome])


class _Crew:
    """Evaluations that an executor runs."""

    def __init__(self, board: Board, how: Calling, executor: Executor) -> None:
        self._board, self._how, self._executor = board, how, executor
        self.running: dict[Future[Any], list[Trial]] = {}
        # The trials of lost batches. They are evaluated one at a time, because all trials
        # of a process that dies are lost with it.
        self._suspects: deque[Trial] = deque()
        self._is_broken = False

    def free(self, at_once: int, size: int) -> int:
        """Return how many trials can start. Beside suspects, these are whole groups, which can be evaluated again."""
        n = at_once - len(self._suspects) - sum(map(len, self.running.values()))
        return n - n % size if self._suspects else n

    def start(self, groups: Iterable[list[Trial]]) -> None:
        """Submit groups of trials, and a suspect if no other trial is running by itself."""
        groups = list(groups)
        others = [*self.running.values(), *groups]
        if self._suspects and all(len(each) > 1 for each in others):
            groups.append([self._suspects.popleft()])
        for group in groups:
            try:
                future = self._executor.submit(
                    self._how.call, *self._how.arguments(group, self._board.repeat_of)
                )
            except Exception as error:
                # Each executor has its own exception for having been closed
                raise self._broken(error) from error
            self.running[future] = group

    def stop_unwanted(self) -> None:
        """Stop the evaluations of prompts that were eliminated or retired, where that is possible."""
        for future, group in _newly_unwanted(self._board, self.running).items():
            if future.cancel():
                del self.running[future]
                for trial in group:
                    self._board.release(trial)
            elif self._how.cancel is not None:
                _cancel(self._how.cancel, group)

    def take(self, future: Future[Any]) -> None:
        """Record the outcome of an evaluation that has ended."""
        try:
            error = future.exception()
        except CancelledError as cancelled:
            # By the executor: this class cancels no future that it waits for
            raise self._broken(cancelled) from cancelled
        if isinstance(error, BrokenExecutor):
            raise self._broken(error) from error
        if error is not None and not is_failure(error):
            raise error
        group = self.running.pop(future)
        if error is not None and len(group) > 1:
            _log.warning(_LOST, len(group), error)
            self._suspects.extend(group)
        else:
            outcome = error or future.result()
            self._board.take_batch(
                group, outcome if self._how.in_batches else [outcome]
            )
        for suspect in [s for s in self._suspects if not self._board.needs(s)]:
            self._suspects.remove(suspect)
            self._board.release(suspect)

    def end(self, reason: BaseException) -> None:
        """Cancel what has not started, wait for the other evaluations, and record their scores."""
        started = {
            future: group
            for future, group in self.running.items()
            if not future.cancel()
        }
        if self._how.cancel is not None and not isinstance(reason, Exception):
            for future, group in started.items():
                if not future.done():
                    _cancel(self._how.cancel, group)
        try:
            # The evaluations of a broken executor may never end
            if not self._is_broken:
                _warn_of_waiting(started)
                wait(started)
        finally:
            _rescue(self._board, self._how, started)

    def _broken(self, error: BaseException) -> EvaluatorError:
        """Return the error that ends the run. Its evaluations are not waited for."""
        self._is_broken = True
        return EvaluatorError(
            "The executor broke down. Its trials were released. Recorded scores are kept. Start the run again to "
            f"evaluate the rest. The error was {error!r}."
        )


def _run_executor(
    board: Board, how: Calling, executor: Executor, at_once: int, size: int
) -> None:
    """Evaluate with an executor: up to `at_once` trials at the same time, in groups of `size`."""
    crew = _Crew(board, how, executor)
    running = crew.running
    try:
        while True:
            crew.start(_groups(board.ask(crew.free(at_once, size)), size))
            if not running:
                return
            crew.stop_unwanted()
            while running and not (
                done := wait(
                    running, _LOOK if how.can_stop else None, FIRST_COMPLETED
                ).done
            ):
                crew.stop_unwanted()
            with board.together():
                # In the order in which they started
                for future in [each for each in running if each in done]:
                    crew.take(future)
    except BaseException as error:
        crew.end(error)
        raise


def _newly_unwanted(
    board: Board, running: Mapping[Any, list[Trial]]
) -> dict[Any, list[Trial]]:
    """Return the running evaluations whose trials are all unwanted, and at least one of them since the last call."""
    new = {trial.id for trial in board.unwanted()}
    return {
        each: group
        for each, group in running.items()
        if any(trial.id in new for trial in group)
        and all(trial.id in board.stopped for trial in group)
    }


def _cancel(cancel: Callable[[Trial], object], group: list[Trial]) -> None:
    """Call the evaluator's `cancel` for each trial. An error is logged, and the evaluation continues."""
    for trial in group:
        try:
            cancel(trial)
        except Exception as error:  # the evaluation continues, and its scores count
            _log.warning(
                "cancel() failed, so the evaluation of trial %d continues: %r",
                trial.id,
                error,
            )


def _warn_of_waiting(running: "Iterable[Future[Any] | asyncio.Task[Any]]") -> None:
    """Log how many evaluations the end of the run waits for."""
    if n := sum(not each.done() for each in running):
        _log.warning(
            "The run is ending. It waits for %d running evaluations. Interrupt it to abandon them.",
            n,
        )


def _rescue(board: Board, how: Calling, running: Mapping[Any, list[Trial]]) -> None:
    """Record the outcomes of evaluations that ended while the run was ending."""
    for each, group in running.items():
        if each.done() and not each.cancelled():
            outcome = each.exception() or each.result()
            board.rescue(group, outcome if how.in_batches else [outcome])


async def _run_async(board: Board, how: Calling, at_once: int, size: int) -> None:
    """Evaluate in an event loop: up to `at_once` trials at the same time, in groups of `size`."""
    import asyncio

    running: dict[Any, list[Trial]] = {}
    try:
        while True:
            for group in _groups(
                board.ask(at_once - sum(map(len, running.values()))), size
            ):
                called = attempt_async(how.call, *how.arguments(group, board.repeat_of))
                running[asyncio.create_task(called)] = group
            if not running:
                return
            finished = set[Any]()
            while not finished:
                for task in _newly_unwanted(board, running) if how.can_stop else ():
                    task.cancel()
                look = _LOOK if how.can_stop else None
                finished, _ = await asyncio.wait(
                    running, timeout=look, return_when=asyncio.FIRST_COMPLETED
                )
            with board.together():
                # In the order in which they started
                for task in [each for each in running if each in finished]:
                    group = running.pop(task)
                    try:
                        outcome = task.result()
                    except asyncio.CancelledError as error:
                        # By the evaluator, or because the trial is unwanted
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
    """Yield the trials in groups of `size`. The last group may be smaller."""
    for start in range(0, len(trials), size):
        yield trials[start : start + size]


def outside_of_loops(call: Callable[[], _T]) -> _T:
    """Return the result of `call()`, which may start an event loop of its own.

    If an event loop is running already, as in a notebook, `call` runs in another
    thread, and this function waits for it.
    """
    import asyncio

    loop = None
    with contextlib.suppress(RuntimeError):  # no event loop is running
        loop = asyncio.get_running_loop()
    if loop is None:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
