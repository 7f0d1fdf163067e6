"""Inspect (inspect-ai): a selection inside a single `eval()` or `inspect eval`, with one log.

The selection adds samples to the running eval as scores arrive.
"""

import copy
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError, Result, Selector, Trial
from asktell.extend import (
    AbstractStudy,
    Board,
    MaxFailures,
    OnTell,
    Outcome,
    attempt,
    in_words,
    log,
    needs_extra,
    open_board,
    whole,
)
from asktell_adapters.harnesses.inspect.samples import (
    GROUP,
    Insert,
    Scoring,
    ValueToFloat,
    changes,
    check_metrics,
    checked_task,
    sample_of,
)

with needs_extra("inspect"):
    import anyio
    import anyio.to_thread
    from inspect_ai import SampleSource, Task, task_with
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import EvalSample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import Metric, Scorer, grouped
    from inspect_ai.util import registry_info

_WAIT = 1.0  # Seconds between two checks of the trials that other workers hold.
# Inspect prints the names of metrics with Rich, which reads square brackets as markup.
# Wide brackets look similar.
_NO_MARKUP = str.maketrans("[]", "［］")
# The source whose eval has begun.
_in_eval: ContextVar[object] = ContextVar("asktell_in_eval", default=None)


@dataclass
class _Flight:
    """A trial that Inspect runs, its completed epochs, and the number of epochs that an operator cancelled."""

    trial: Trial
    completed: list[EvalSample] = field(default_factory=list)
    abandoned: int = 0


@final
class InspectSource(SampleSource):  # type: ignore[misc]
    """A selector or a study as the source of an Inspect task's samples.

    ```python
    source = InspectSource(selector, my_task, concurrency=10)
    eval(source.task, model="openai/gpt-4o-mini")
    print(source.result())
    ```

    For the command `inspect eval`, return `source.task` from a function with `@task`.

    As soon as a sample is scored, its scores are recorded and the next sample starts.
    So no sample waits for the slowest sample of a batch. A failed sample is a failed
    evaluation. If an operator cancels a sample in Inspect's queue, the selection may
    choose it again later. If the task has several epochs, a score is the mean over
    them. Set the number of epochs in the task, not in `eval`.

    Scores, ids of samples and the metadata "asktell" are the same as with
    `InspectTask`.

    If an eval is interrupted, some trials remain pending. `close()`, or the end of a
    `with` block, releases them, so that other workers can evaluate them immediately. To
    continue the selection, call `eval(source.task, ...)` again with the same source
    and the same model. This is possible after `close()`, too.

    Args:
        selector: a Selector, a Study, a RemoteStudy or a worker of a study. The
            argument `examples` of the selector must be the number of the task's
            samples, or a smaller number n. Then only the first n samples are used.
        task: an Inspect Task, or a function without arguments that creates one. It is
            not changed.
        insert: where the prompt goes, as for `InspectTask`.
        concurrency: number of simultaneous evaluations. Inspect's limits
            (`max_connections`, `max_samples`) apply, too.
        by_prompt: True (default): in the log, Inspect's metrics are computed for each
            prompt, with names such as "accuracy(0)" for the prompt with the id 0.
            False: they are computed once, over all prompts together.
        score_limited: as for `InspectTask`.
        value_to_float: as for `InspectTask`.
        on_tell: as for `asktell.run`, but it is called in a worker thread.
        max_failures_in_a_row: after this number of failures in a row, an error ends the
            eval. With "first" (default), an error ends the eval only if its first five
            evaluations all fail in the same way. See `asktell.run`. If all evaluations
            of an eval fail, it ends with an error in any case.

    Attributes:
        task: the Task to pass to Inspect.
        examples: the samples of your task.

    Raises:
        InvalidArgumentError: an argument cannot be used, the task lacks a metric of the
            goal, or the selector has no `examples` or more examples than the task has
            samples.
    """

    def __init__(
        self,
        selector: Any,
        task: Any,
        *,
        insert: Insert = "system",
        concurrency: int = 10,
        by_prompt: bool = True,
        score_limited: bool = False,
        value_to_float: ValueToFloat | None = None,
        on_tell: OnTell | None = None,
        max_failures_in_a_row: MaxFailures = "first",
    ) -> None:
        theirs = checked_task(task)
        self.examples = tuple(theirs.dataset)
        self._selector = _bound(selector)
        _check_examples(self._selector, len(self.examples))
        check_metrics(self._selector.metrics, theirs)
        self._scoring = Scoring(
            value_to_float, score_limited, tuple(self._selector.metrics)
        )
        self._concurrency = whole("concurrency", concurrency, 1)
        self._options: dict[str, Any] = {
            "on_tell": on_tell,
            "max_failures_in_a_row": max_failures_in_a_row,
        }
        self._model: str | None = None
        self._board: Board | None = None
        self._close: Callable[[], object] = lambda: None
        # By the sample's id.
        self._flights: dict[str, _Flight] = {}
        # The ids of all samples in this eval.
        self._names: set[str] = set()
        # The failures in this eval.
        self._failed: list[BaseException] = []
        self._succeeded = False
        # Number of calls that returned samples since the last completed sample.
        self._rounds = 0
        self._lock = anyio.Lock()
        self._epochs = theirs.epochs or 1
        self.task: Task = task_with(
            copy.copy(theirs),
            dataset=self,
            fail_on_error=False,
            **changes(theirs, insert),
        )
        # The name of the dataset is shown in the log.
        self.task.dataset = MemoryDataset(
            [], theirs.dataset.name, theirs.dataset.location
        )
        if by_prompt:
            self.task.scorer = [
                _scorer_by_prompt(scorer) for scorer in self.task.scorer or ()
            ]
            self.task.metrics = (
                None if theirs.metrics is None else _grouped(theirs.metrics)
            )

    def result(self) -> Result:
        """Return the result so far. See `Selector.result`."""
        result: Result = self._selector.result()
        return result

    def close(self) -> None:
        """Release the pending trials of an interrupted eval. A completed eval has no pending trials."""
        self._flights.clear()
        self._board = None
        self._close()

    def __enter__(self) -> "InspectSource":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # Inspect's interface

    def initial_samples(self) -> list[Sample]:
        """Return an empty list. Inspect calls this method when a task is created.

        The task may never run, so no trial is requested yet. The first samples come
        from `next_samples`.
        """
        return []

    async def next_samples(self) -> list[Sample] | None:
        """Return the next samples, or None if the selection is done.

        Inspect calls this method at the start of an eval, and when no sample is
        running. If other workers of the study hold all remaining trials, the method
        waits until a trial is free or the selection is done.

        Raises:
            InvalidArgumentError: the eval's model differs from that of an earlier eval.
            EvaluatorError: every evaluation of the eval failed.
        """
        async with self._lock:
            self._check_model()
            # The first call of an eval begins it.
            if _in_eval.get() is not self:
                _in_eval.set(self)
                await self._begin()
            elif not await self._settle_all():
                await self._end()
                return None
            while not (samples := await self._ask()):
                if await anyio.to_thread.run_sync(
                    lambda: isinstance(self._selector, Selector) or self._selector.done
                ):
                    await self._end()
                    return None
                # Other workers hold the remaining trials.
                await anyio.sleep(_WAIT)
            # An eval that runs none of the returned samples would be asked forever.
            self._rounds += 1
            return samples

    async def sample_complete(self, sample: EvalSample) -> list[Sample] | None:
        """Record the scores of a sample after its last epoch, and return new samples.

        Inspect calls this method after each epoch of a sample. Nothing is recorded
        before the last epoch. There are as many new samples as needed to have
        `concurrency` samples running.
        """
        async with self._lock:
            flight = self._flights.get(str(sample.id))
            if flight is None:
                log.warning(
                    "Inspect ran the sample %r too often. Set epochs in the task, not in eval().",
                    sample.id,
                )
                return None
            flight.completed.append(sample)
            self._rounds = 0
            await self._land(str(sample.id), flight)
            return await self._ask()

    async def sample_abandoned(self, sample: Sample, epoch: int) -> list[Sample] | None:
        """Release a sample that an operator cancelled in Inspect's queue. The selection may choose it again later."""
        async with self._lock:
            flight = self._flights.get(str(sample.id))
            if flight is not None:
                flight.abandoned += 1
                await self._land(str(sample.id), flight)
        return None

    # Asking and telling run in threads, because a storage or a decision may take a
    # while.

    async def _begin(self) -> None:
        """Start an eval: forget the previous one and open a board, which `close` closes."""
        self.close()
        self._names.clear()
        self._failed, self._succeeded = [], False
        self._rounds = 0
        stack = ExitStack()
        self._close = weakref.finalize(self, stack.close)
        self._board = await anyio.to_thread.run_sync(
            lambda: stack.enter_context(
                # The source waits for other workers in Inspect's event loop.
                open_board(self._selector, progress=False, waits=False, **self._options)
            )
        )

    async def _end(self) -> None:
        """Close the source, and raise an error if every evaluation failed."""
        await anyio.to_thread.run_sync(self.close)
        if self._failed and not self._succeeded:
            last = self._failed[-1]
            raise EvaluatorError(
                f"All {len(self._failed)} evaluations of this eval failed, the last with {in_words(last)}"
            ) from last

    async def _ask(self) -> list[Sample]:
        """Ask for as many trials as there are free places, and return them as samples."""
        board, free = self._opened(), self._concurrency - len(self._flights)
        samples = []
        for trial in (
            await anyio.to_thread.run_sync(lambda: board.ask(free)) if free > 0 else ()
        ):
            sample = sample_of(trial, self.examples, self._names)
            sample.metadata[GROUP] = str(trial.prompt_id).translate(_NO_MARKUP)
            self._names.add(sample.id)
            self._flights[sample.id] = _Flight(trial)
            samples.append(sample)
        return samples

    async def _land(self, name: str, flight: _Flight) -> None:
        """Settle a trial whose epochs are all completed or cancelled."""
        if len(flight.completed) + flight.abandoned >= self._epochs:
            await self._settle(name, flight)

    async def _settle(self, name: str, flight: _Flight) -> None:
        """Record the outcome of a trial. Release it instead if no epoch ran or one was cancelled."""
        board, trial = self._opened(), flight.trial
        del self._flights[name]
        if flight.abandoned or not flight.completed:
            await anyio.to_thread.run_sync(lambda: board.release(trial))
        else:
            outcome: Outcome = attempt(
                self._scoring.of_epochs, flight.completed, str(self._model)
            )
            if isinstance(outcome, BaseException):
                self._failed.append(outcome)
            else:
                self._succeeded = True
            await anyio.to_thread.run_sync(lambda: board.take(trial, outcome))

    async def _settle_all(self) -> bool:
        """Settle all trials, although some epochs did not run. False if Inspect ran no sample of two rounds.

        This happens if the eval runs fewer epochs than the task has, or skips samples
        because of `limit`, `sample_id` or an operator who ends it.
        """
        for name, flight in list(self._flights.items()):
            await self._settle(name, flight)
        if self._rounds > 1:
            log.warning(
                "Inspect ran none of the samples that the source returned, so the source ends the eval."
            )
        return self._rounds < 2

    def _opened(self) -> Board:
        assert self._board is not None
        return self._board

    def _check_model(self) -> None:
        """Check that every eval of this source has the same model."""
        model = str(get_model())
        if self._model not in (None, model):
            raise InvalidArgumentError(
                f"A source supports one model. Its model is {self._model!r}, but this eval runs {model!r}. Create a "
                "selector and a source for each model."
            )
        self._model = model


def _bound(selector: Any) -> Any:
    """Return the selector, or the study, bound to the name of a worker."""
    if isinstance(selector, Selector):
        return selector
    if not isinstance(selector, AbstractStudy):
        raise InvalidArgumentError(
            f"InspectSource needs a Selector or a Study, got {type(selector).__name__}."
        )
    return selector if selector.worker_name is not None else selector.worker()


def _check_examples(selector: Any, n_samples: int) -> None:
    """Check that the task has a sample for each example.

    Raises:
        InvalidArgumentError: the selector has no examples, or more than the task.
    """
    inner = selector if isinstance(selector, Selector) else selector.selector
    n_examples = inner.state.problem.examples.n
    if n_examples is None or n_examples > n_samples:
        raise InvalidArgumentError(
            f"The selector was created with examples={n_examples}, but the task has {n_samples} samples. Create it "
            f"with examples={n_samples}."
        )


def _scorer_by_prompt(scorer: Scorer) -> Scorer:
    """Return a scorer whose metrics are computed for each prompt. Metrics that are already grouped stay unchanged."""

    async def score(state: Any, target: Any) -> Any:
        return await scorer(state, target)

    # This copies the attributes of Inspect's registry, too.
    update_wrapper(score, scorer)
    info = registry_info(scorer)
    metrics = _grouped(info.metadata["metrics"])
    changed = info.model_copy(
        update={"metadata": {**info.metadata, "metrics": metrics}}
    )
    for name in [name for name, value in vars(score).items() if value is info]:
        setattr(score, name, changed)
    return score


def _grouped(metrics: Any) -> Any:
    """Compute metrics for each prompt, also in nested groups of metrics."""
    if isinstance(metrics, Mapping):
        return {key: _grouped(values) for key, values in metrics.items()}
    return [
        _grouped(metric) if isinstance(metric, Mapping) else _metric_by_prompt(metric)
        for metric in metrics
    ]


def _metric_by_prompt(metric: Metric) -> Metric:
    """Compute a metric for each prompt, with the prompt's id in its name."""
    name = registry_info(metric).name.split("/", 1)[-1]
    if name == "grouped":
        return metric
    template = (
        name.translate(_NO_MARKUP).replace("{", "{{").replace("}", "}}")
        + "({group_name})"
    )
    return grouped(metric, GROUP, all=False, name_template=template)
