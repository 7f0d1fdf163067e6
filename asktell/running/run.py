"""`run` and `run_async` drive a selector or a study with an evaluator: in this thread, with any Executor, or async."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    ThreadPoolExecutor,
    wait,
)
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, NamedTuple

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import whole
from asktell.results.result import Result
from asktell.running.board import Board, MaxFailures, OnTell, Until, open_board
from asktell.running.crew import Crew
from asktell.running.evaluator import Calling, Evaluator
from asktell.running.loop import CallersTask, outside_of_loops
from asktell.selector import Selection

_DEFAULT_CONCURRENCY = 8
_LOOK = 0.5  # seconds between two searches for evaluations that should be stopped


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

            Except in other processes, the evaluator gets the context variables of the
            caller, such as the current trace, and its decimal context.
        concurrency: the largest number of trials that are evaluated at the same time.
            The default is 8 with an executor, and for async and batch evaluators.
            Otherwise it is 1. A process pool gets no more calls than it has processes.
        progress: True shows a progress bar on stderr, or below the cell of a notebook.
        batch_size: the largest number of trials in one call of a batch evaluator. The
            default is `concurrency`. If it is smaller than `concurrency`, an executor
            or an async evaluator has several calls at the same time.
        on_tell: a function that gets the selector or study, and the trial. It is called
            after the scores or the failure of the trial were recorded, in the thread of
            `run`. (For an async evaluator in a notebook, it is called in the thread of
            the evaluator.) Use it to save, log or plot, or to add prompts.
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

    - `check_selection(selection)` is called before the first evaluation. It gets the
      Selector or Study, and may raise an error, for example if the selection was made
      with other examples.
    - `check_prompts(prompts)` is called before the first evaluation. It gets all
      prompts (id -> text) or candidates (id -> mapping), and may raise an error.
    - `begin(result)` is called when a run begins. Its argument is a function that
      returns the present result whenever it is called.
    - `remarks()` returns notes for the result, as a mapping from metric to `(text,
      doubtful)`. The key of a note about all metrics is "responses". See
      `Selector.remark`.
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
    `max_failures_in_a_row`). This also holds if the evaluator itself calls `sys.exit`,
    or cancels its task. If the exception has an attribute `cost`, this cost is
    recorded. A MissingExtraError ends the run, because every evaluation would raise it.
    So does an evaluator that returns a coroutine, a future or a generator.

    **Processes that die.** An evaluation may end the process of an executor, for
    example because it needs too much memory. The trials that were lost with the process
    are then evaluated again, one at a time. A trial that has ended its process in three
    attempts fails. A pool of `concurrent.futures` or loky is broken after that, so the
    run continues with a new pool of the same settings. If another executor breaks, the
    run ends with an EvaluatorError. Start it again with a new executor: the attempts of
    a trial are counted until this Python process ends.

    **Details.** In a study, an evaluation can have details, which are stored with its
    scores. They are a mapping in the attribute `details` of the exception, or of the
    object with the scores. A plain dict cannot have this attribute, but an object of a
    subclass of dict can. If the scores have metrics that are not in the goal, the
    details get all scores under "scores". See `Study.evaluations`.

    **The end of a run.** An error can end a run, for example in `on_tell`. The run then
    waits for the evaluations that have started, and records their scores. Evaluations
    that an executor has not started are cancelled. An interrupt also stops the
    evaluations that have started: async evaluations are cancelled, and `cancel` is
    called for the others, if the evaluator has it. The run then waits for the
    evaluations to end. A second interrupt ends the wait, and the scores of running
    evaluations are lost. The costs of evaluations that failed or were stopped
    are recorded. All trials that are still pending are released, so that the selector
    can be saved and continued.

    An interrupt is Ctrl-C, the stop button of a notebook, or an exception that a signal
    handler raises, such as `sys.exit` in a handler of SIGTERM. (An exception of a
    handler of SIGALRM, SIGVTALRM or SIGPROF is the evaluator's own: it is a failure.)

    **One run at a time.** A selector, or a study that is bound to a worker's name, can
    have only one run at a time. Several runs can share the work of a study that is not
    bound to a name.

    Raises:
        InvalidArgumentError: an argument is invalid, for example an evaluator that
            takes other arguments. Or another run uses the selection.
        EvaluatorError: the executor broke down, too many evaluations failed in a row,
            or the evaluator returned a coroutine, a future or a generator.
        MissingExtraError: the evaluator needs a package that is not installed.
        StorageError: the storage of a study was unreachable for more than a minute.
    """
    if Calling.of(evaluator).is_async:
        return outside_of_loops(
            lambda: run_async(
                selector,
                evaluator,
                executor,
                concurrency,
                progress,
                batch_size=batch_size,
                on_tell=on_tell,
                max_failures_in_a_row=max_failures_in_a_row,
                repeatable=repeatable,
                until=until,
            )
        )
    # First of all, so that no cancellation since the beginning goes unnoticed
    with CallersTask() as caller:
        board = open_board(
            selector, progress, on_tell, max_failures_in_a_row, bool(repeatable), until
        )
        plan = _Plan.of(evaluator, executor, concurrency, batch_size)
        with board as opened, plan.crew(opened, in_thread=plan.how.can_stop) as crew:
            _begin(evaluator, opened, repeatable)
            _drive(crew, opened, caller)
            _remark(evaluator, opened)
            return opened.selector.result()


async def run_async(
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
    """Do what `run` does, as a coroutine in your own event loop.

        >>> import asktell, asyncio
        >>> async def evaluate(prompt, example):
        ...     return {"accuracy": float("step by step" in prompt)}
        >>> prompts = {"short": "Answer in one word.", "long": "Think step by step."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), budget=20, examples=10)
        >>> async def main():
        ...     return await asktell.run_async(selector, evaluate, progress=False)
        >>> asyncio.run(main()).best.id
        'long'

    An async evaluator runs in the loop that awaits the coroutine. So several runs in one
    loop can share an async client. Other evaluators run with the executor or, without
    one, in one other thread, so that they do not block the loop. All evaluators get the
    context variables of the coroutine's task, except in other processes.

    `ask`, `tell`, `on_tell` and the storage of a study are called in the thread of the
    loop. They block the loop for as long as they take: a decision of the default method
    takes some tenths of a second. Waiting for the other workers of a study does not
    block it.

    If the task of the coroutine is cancelled, the run ends as after a KeyboardInterrupt
    (see "The end of a run" in `run`), and then raises the CancelledError. A second
    cancellation ends the wait for running evaluations.

    Args:
        selector: as for `run`.
        evaluator: as for `run`.
        executor: as for `run`.
        concurrency: as for `run`.
        progress: as for `run`.
        batch_size: as for `run`.
        on_tell: as for `run`.
        max_failures_in_a_row: as for `run`.
        repeatable: as for `run`.
        until: as for `run`.

    Raises:
        InvalidArgumentError: as for `run`.
        EvaluatorError: as for `run`.
        MissingExtraError: as for `run`.
        StorageError: as for `run`.
    """
    board = open_board(
        selector, progress, on_tell, max_failures_in_a_row, bool(repeatable), until
    )
    plan = _Plan.of(evaluator, executor, concurrency, batch_size)
    with board as opened, plan.crew(opened, in_thread=not plan.how.is_async) as crew:
        _begin(evaluator, opened, repeatable)
        await _drive_async(crew, opened)
        _remark(evaluator, opened)
        return opened.selector.result()


class _Plan(NamedTuple):
    """How a run evaluates: the checked arguments about the evaluator."""

    how: Calling
    executor: Executor | None
    at_once: int | None
    batch_size: int | None

    @classmethod
    def of(
        cls,
        evaluator: Evaluator,
        executor: Executor | None,
        concurrency: int | None,
        batch_size: int | None,
    ) -> "_Plan":
        """Check the arguments of `run`."""
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
        return cls(how, executor, concurrency, batch_size)

    @contextlib.contextmanager
    def crew(self, board: Board, in_thread: bool) -> Iterator[Crew]:
        """Make the crew of a run.

        Args:
            board: the board of the run.
            in_thread: True if evaluations run in one other thread if there is no
                executor, so that the thread of the run can call `cancel`, or continue
                its loop.
        """
        at_once = self.at_once or _DEFAULT_CONCURRENCY
        size = min(self.batch_size or at_once, at_once) if self.how.in_batches else 1
        if self.executor is None and not self.how.is_async:
            at_once = size  # one call at a time
        if self.executor is not None or not in_thread:
            yield Crew(board, self.how, self.executor, at_once, size)
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="asktell")
        try:
            yield Crew(board, self.how, thread, at_once, size)
        finally:
            # Its evaluation has ended, or was abandoned by an interrupt
            thread.shutdown(wait=False)


def _drive(crew: Crew, board: Board, caller: CallersTask) -> None:
    """Go through the steps of a run, and wait for its evaluations in this thread."""
    steps = crew.steps()
    act: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            caller.check()
            running = act(value)
            act = steps.send
            value = (
                board.selector.wait()
                if running is None
                else wait(running, _LOOK, FIRST_COMPLETED).done
            )
        except StopIteration:
            return
        except BaseException as error:
            if getgeneratorstate(steps) == GEN_CLOSED:  # it ended with this error
                raise
            act, value = steps.throw, error


async def _drive_async(crew: Crew, board: Board) -> None:
    """Go through the steps of a run, and wait for its evaluations in the running event loop."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def wake(future: object) -> None:
        if isinstance(future, asyncio.Task):
            # At once, so that tasks that end together are seen together
            ended.set()
            return
        with contextlib.suppress(RuntimeError):  # abandoned, and the loop is closed
            loop.call_soon_threadsafe(ended.set)

    steps = crew.steps(wake)
    act: Callable[[Any], Any] = steps.send
    value: Any = None
    is_cancelled = False
    while True:
        try:
            running = act(value)
            act = steps.send
            if running is None:
                value = await asyncio.to_thread(board.selector.wait)
            else:
                look = loop.call_later(_LOOK, ended.set)
                try:
                    with _anyio_shield(is_cancelled):
                        await ended.wait()
                finally:
                    look.cancel()
                ended.clear()
                value = [future for future in running if future.done()]
        except StopIteration:
            return
        except BaseException as error:
            if getgeneratorstate(steps) == GEN_CLOSED:  # it ended with this error
                raise
            act, value = steps.throw, error
            is_cancelled = isinstance(error, asyncio.CancelledError)


def _anyio_shield(is_cancelled: bool) -> contextlib.AbstractContextManager[Any]:
    """Return what lets a cancelled run wait for its evaluations in a scope of anyio.

    Such a scope cancels its task again in every cycle of the loop, which is no second
    interrupt.
    """
    anyio: Any = sys.modules.get("anyio")
    if anyio is None or not is_cancelled:
        return contextlib.nullcontext()
    shield: contextlib.AbstractContextManager[Any] = anyio.CancelScope(shield=True)
    return shield


def _remark(evaluator: Evaluator, board: Board) -> None:
    """Add the evaluator's remarks about responses, and about metrics of the goal, to the selection."""
    if callable(remarks := getattr(evaluator, "remarks", None)):
        topics = ("responses", *board.selector.goal.metrics)
        for topic, (text, doubtful) in remarks().items():
            if topic in topics:
                board.selector.remark(text, topic=topic, doubtful=doubtful)


def _begin(evaluator: Evaluator, board: Board, repeatable: bool | None) -> None:
    """Call the methods of an evaluator that come before the first evaluation, if it has them."""
    if callable(check_selection := getattr(evaluator, "check_selection", None)):
        check_selection(board.selector)
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
