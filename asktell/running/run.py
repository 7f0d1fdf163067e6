"""Drive a selector or a study with an evaluator: in this thread, over any Executor, async, or in batches.

asyncio and tqdm are imported where they are needed, to keep `import asktell` light.
"""

import contextlib
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from asktell.arguments import whole
from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError, StorageError
from asktell.results import Result
from asktell.running.progress import Bar
from asktell.selector import Selector
from asktell.trial import Trial

if TYPE_CHECKING:
    from asktell.state import State
    from asktell.studies.worker import SharedStudy, Worker

Outcome: TypeAlias = Mapping[str, float] | Sequence[float] | BaseException
Evaluator: TypeAlias = Any
"""`evaluator(prompt, example)` -> scores, plain or async; or an object with `evaluate(prompt, example)` or with
`evaluate_batch(trials)` -> a list of scores or exceptions, one per trial."""
_T = TypeVar("_T")
OnTell: TypeAlias = Callable[[Any, Trial], None]

_log = logging.getLogger("asktell")
_DEFAULT_CONCURRENCY = 8


def run(
    selector: "Selector | SharedStudy | Worker",
    evaluator: Evaluator,
    executor: Executor | None = None,
    concurrency: int | None = None,
    progress: bool = True,
    *,
    batch_size: int | None = None,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: int | None = None,
) -> Result:
    """Evaluate until the selector is done, and return its result.

    Args:
        selector: what to ask and tell. Trials that are out when the run starts are evaluated first: a selector that
            was saved in the middle of a run continues. With a Study, a RemoteStudy or a `study.worker(name)`, this
            run is one of its workers, among any number in other processes; it waits for them at the end.
        evaluator: a callable `(prompt, example) -> scores`, where `example` is the trial's index; an async one; an
            object with `evaluate`; or one with `evaluate_batch(trials)`, which returns scores or an exception for
            each trial. Scores are a mapping, in which metrics beyond the goal's are ignored and "cost" is the trial's
            cost (if it is one of the goal's metrics, only where the budget is a cost); or a sequence in the goal's
            order.
        executor: runs plain and batch evaluators elsewhere: threads, processes, Dask, submitit's jobs.
        concurrency: evaluations at once; by default 8 where there is an executor, an async or a batch evaluator.
        batch_size: trials per call of a batch evaluator, by default as many as `concurrency`; fewer make several calls
            at once, over an executor or with an async evaluator.
        progress: show a progress bar on stderr.
        on_tell: called with the selector (or the worker) and the trial after each that was told or failed, in this
            thread; to save, log or plot.
        max_failures_in_a_row: stop after so many, since the cause is then not the prompts (a wrong key, a server that
            is down). The selector is then as before the first of them: they count against no prompt, and the same
            call goes on from there. In a study, where others may have seen them, they stay. None: never.

    An exception of the evaluator, its exit or cancellation too, or scores that the selector refuses, are that trial's
    failure and not the run's. A batch that is lost as a whole over an executor (its worker died) is tried again trial
    by trial.

    After KeyboardInterrupt, or any error of the machinery around, trials that are not finished are handed back: the
    selector can be saved and continued.

    Raises:
        InvalidArgumentError: an argument cannot be used.
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
            "get_executor(); for submitit there is asktell_adapters.executors.submitit."
        )
    how = Calling.of(evaluator)
    if how.is_async and executor is not None:
        raise InvalidArgumentError("An async evaluator runs in an event loop and takes no executor.")
    at_once = concurrency or _DEFAULT_CONCURRENCY
    size = min(batch_size or at_once, at_once) if how.in_batches else 1
    with open_board(selector, progress, on_tell, max_failures_in_a_row) as board:
        if how.is_async:
            import asyncio

            outside_of_loops(lambda: asyncio.run(_run_async(board, how, at_once, size)))
        elif executor is not None:
            _run_executor(board, how, executor, at_once, size)
        else:
            _run_here(board, how, size)
        return board.selector.result()


class Calling(NamedTuple):
    """How an evaluator is called: with a list of trials, or with a prompt and an example; awaited or not."""

    call: Callable[..., Any]
    in_batches: bool
    is_async: bool

    @classmethod
    def of(cls, evaluator: Evaluator) -> "Calling":
        """How this one is.

        Raises:
            InvalidArgumentError: it is no evaluator.
        """
        in_batches = callable(getattr(evaluator, "evaluate_batch", None))
        call = evaluator.evaluate_batch if in_batches else evaluator
        if not callable(call):
            call = getattr(evaluator, "evaluate", None)
        if not callable(call):
            raise InvalidArgumentError(
                "An evaluator is a callable (prompt, example) -> scores, or an object with evaluate() or "
                f"evaluate_batch(); got {evaluator!r}."
            )
        candidates = (call, getattr(call, "__call__", None))  # noqa: B004
        return cls(call, in_batches, any(map(inspect.iscoroutinefunction, candidates)))

    def arguments(self, group: list[Trial]) -> tuple[Any, ...]:
        """Of the call for these trials; one, if it does not take batches."""
        return (group,) if self.in_batches else (group[0].prompt, group[0].example)


@contextlib.contextmanager
def open_board(
    selector: "Selector | SharedStudy | Worker",
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: int | None = None,
) -> "Iterator[Board]":
    """What every driver of evaluations needs, for `run` and for those on clusters: see there.

    Trials that were out when it began are asked again; those that are out when the block ends are handed back.
    """
    if max_failures_in_a_row is not None:
        max_failures_in_a_row = whole("max_failures_in_a_row", max_failures_in_a_row, 1)
    with contextlib.ExitStack() as stack:
        if not isinstance(selector, Selector):
            from asktell.studies.worker import Worker

            if not isinstance(selector, Worker):
                if not callable(getattr(selector, "worker", None)):
                    raise InvalidArgumentError(f"run() needs a Selector or a Study, got {type(selector).__name__}.")
                selector = selector.worker()
            stack.enter_context(selector)
        for trial in selector.pending:
            selector.release(trial)
        bar = stack.enter_context(Bar(selector, progress))
        board = Board(selector, bar, on_tell, max_failures_in_a_row)
        stack.callback(board.hand_back)
        yield board


class Board:
    """The trials this run has out, and what becomes of them."""

    def __init__(self, selector: "Selector | Worker", bar: Bar, on_tell: OnTell | None, patience: int | None) -> None:
        self.selector = selector
        self._patience = patience
        self._failing: list[Trial] = []  # since the last success
        self._before: State | None = None  # the first of them failed; None in a study
        self._bar = bar
        self._on_tell = on_tell
        self._out: dict[int, Trial] = {}

    @property
    def busy(self) -> bool:
        """Whether anything is out."""
        return bool(self._out)

    def ask(self, n: int) -> list[Trial]:
        """Up to n trials; none only if nothing more is to be done, or something of this run is still out."""
        trials = self.selector.ask(n)
        while not trials and not self._out and not isinstance(self.selector, Selector) and self.selector.wait():
            trials = self.selector.ask(n)
        self._out.update({trial.id: trial for trial in trials})
        return trials

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Tell the scores, or count the failure."""
        error: BaseException | None
        if isinstance(outcome, BaseException):
            error, cost = outcome, cost_of(outcome)
        else:
            error, cost = self._tell(trial, outcome)
        if error is not None:
            where = f"trial {trial.id} (prompt {trial.prompt_id!r}, example {trial.example!r})"
            _log.warning("%s failed: %r", where, error)
            if not self._failing and isinstance(self.selector, Selector):
                self._before = self.selector.state
            self.selector.fail(trial, error, cost)
        if error is None:
            self._failing.clear()
        else:
            self._failing.append(trial)
        self._out.pop(trial.id, None)
        self._bar.show()
        if self._on_tell is not None:
            self._on_tell(self.selector, trial)
        if self._patience is not None and len(self._failing) >= self._patience:
            count = "They count as failures of their prompts"
            if isinstance(self.selector, Selector) and self._before is not None:
                if len(self.selector.state.history) == len(self._before.history):  # scores since then are not forgotten
                    self._out.update({failed.id: failed for failed in self._failing})
                    self.selector.restore(self._before)
                count = "They count against no prompt"
            raise EvaluatorError(
                f"{len(self._failing)} evaluations in a row failed, the last one with {error!r}. {count}: mend the "
                "cause and call run() again."
            ) from (outcome if isinstance(outcome, BaseException) else None)

    def settle_batch(self, trials: list[Trial], outcomes: object) -> None:
        """Settle each of a batch; a batch that failed whole, or has the wrong length, fails for each."""
        try:
            each = [outcomes] * len(trials) if isinstance(outcomes, BaseException) else one_each(trials, outcomes)
        except EvaluatorError as error:
            each = [error] * len(trials)
        for trial, outcome in zip(trials, each, strict=True):
            self.settle(trial, outcome)

    def hand_back(self) -> None:
        """Release what is still out, so that a saved selector asks it again."""
        for trial in self._out.values():
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)
        self._out.clear()

    def _tell(self, trial: Trial, scores: Any) -> tuple[AsktellError | None, float | None]:
        """What the selector had against the scores, and what they cost all the same."""
        cost = None
        if isinstance(scores, Mapping):
            scores, cost = goal_scores(self.selector, scores)
        try:
            self.selector.tell(trial, scores, cost)
        except StorageError:  # nothing is wrong with the scores
            raise
        except AsktellError as error:
            return error, _as_cost(cost)
        return None, None


def one_each(trials: Sequence[Trial], outcomes: object) -> Sequence[Any]:
    """What `evaluate_batch` returned.

    Raises:
        EvaluatorError: it is not one outcome for each trial.
    """
    if not isinstance(outcomes, Sequence) or len(outcomes) != len(trials):
        size = f"{len(outcomes)} results" if isinstance(outcomes, Sequence) else type(outcomes).__name__
        raise EvaluatorError(f"evaluate_batch() got {len(trials)} trials and returned {size}.")
    return outcomes


def cost_of(error: BaseException) -> float | None:
    """What an adapter knows a failed request to have cost: the error's `cost`."""
    return _as_cost(getattr(error, "cost", None))


def _as_cost(value: Any) -> float | None:
    usable = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if usable and 0 <= value < math.inf else None


def goal_scores(selector: "Selector | Worker", scores: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Of an evaluator's scores: those of the goal's metrics, and the cost."""
    metrics = selector.metrics
    cost = scores.get("cost") if "cost" not in metrics or selector.max_cost is not None else None
    return {name: scores[name] for name in metrics if name in scores}, cost


def is_failure(error: BaseException) -> bool:
    """Whether what an evaluator raised is its trial's failure: an exit or a cancellation is, an interrupt is not."""
    import asyncio

    return isinstance(error, (Exception, SystemExit, asyncio.CancelledError))


def attempt(call: Callable[..., Any], *args: Any) -> Any:
    """What the call returns, or its failure."""
    try:
        return call(*args)
    except BaseException as error:
        if not is_failure(error):
            raise
        return error


async def attempt_async(call: Callable[..., Any], *args: Any) -> Any:
    """The same of what is awaited; a cancellation of the task that awaits it goes on."""
    import asyncio

    try:
        return await call(*args)
    except BaseException as error:
        task = asyncio.current_task()
        ended = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if ended or not is_failure(error):
            raise
        return error


def _run_here(board: Board, how: Calling, size: int) -> None:
    while trials := board.ask(size):
        outcome = attempt(how.call, *how.arguments(trials))
        if how.in_batches:
            board.settle_batch(trials, outcome)
        else:
            board.settle(trials[0], outcome)


def _run_executor(board: Board, how: Calling, executor: Executor, at_once: int, size: int) -> None:
    running: dict[Future[Any], list[Trial]] = {}

    def start(groups: Iterable[list[Trial]]) -> None:
        for group in groups:
            try:
                future = executor.submit(how.call, *how.arguments(group))
            except Exception as error:  # each executor has its own for having been closed
                raise _broken(error) from error
            running[future] = group

    try:
        while True:
            start(_groups(board.ask(at_once - sum(map(len, running.values()))), size))
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                try:
                    error = future.exception()
                except CancelledError as cancelled:  # not by us
                    raise _broken(cancelled) from cancelled
                if isinstance(error, BrokenExecutor):
                    raise _broken(error) from error
                if error is not None and not is_failure(error):
                    raise error
                group = running.pop(future)
                if error is not None and len(group) > 1:
                    _log.warning("A batch of %d trials was lost, and is tried again one by one: %r", len(group), error)
                    start([trial] for trial in group)
                elif how.in_batches:
                    board.settle_batch(group, error or future.result())
                else:
                    board.settle(group[0], error or future.result())
    finally:
        for future in running:
            future.cancel()


def _broken(error: BaseException) -> EvaluatorError:
    return EvaluatorError(f"The executor broke down: {error!r}. The trials were handed back.")


async def _run_async(board: Board, how: Calling, at_once: int, size: int) -> None:
    import asyncio

    running: dict[Any, list[Trial]] = {}
    try:
        while True:
            for group in _groups(board.ask(at_once - sum(map(len, running.values()))), size):
                running[asyncio.create_task(attempt_async(how.call, *how.arguments(group)))] = group
            if not running:
                return
            finished, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                group = running.pop(task)
                try:
                    outcome = task.result()
                except asyncio.CancelledError as error:  # by the evaluator: ours are not looked at
                    outcome = error
                if how.in_batches:
                    board.settle_batch(group, outcome)
                else:
                    board.settle(group[0], outcome)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


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
