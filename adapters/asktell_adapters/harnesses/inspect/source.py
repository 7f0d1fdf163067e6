"""Inspect (inspect-ai): a selection feeds samples to a running eval as scores arrive: one eval, one log."""

import copy
import logging
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError, Result, Selector, Trial
from asktell.extend import (
    Board,
    MaxFailures,
    OnTell,
    Outcome,
    Worker,
    attempt,
    in_words,
    needs_extra,
    open_board,
    whole,
)
from asktell_adapters.harnesses.inspect.samples import (
    GROUP,
    SYSTEM,
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

_log = logging.getLogger("asktell")
_WAIT = 1.0  # seconds between two looks at what other workers have out
_NO_MARKUP = str.maketrans("[]", "［］")
"""Inspect shows metrics' names through Rich, which takes what stands in square brackets for markup."""
_in_eval: ContextVar[object] = ContextVar("asktell_in_eval", default=None)


@dataclass
class _Flight:
    """A trial that Inspect runs, and what became of its epochs so far."""

    trial: Trial
    completed: list[EvalSample] = field(default_factory=list)
    abandoned: int = 0


@final
class InspectSource(SampleSource):  # type: ignore[misc]
    """A selector or a study as the source of an Inspect task's samples.

    `source.task` is the task, to be given to Inspect: `eval(source.task, model=...)`, or returned by a function with
    `@task` for `inspect eval`. As soon as a sample is scored, its scores are told and the next one is asked: nothing
    waits for the slowest of a batch. One that fails is a failed evaluation; one that an operator takes out of the queue
    is released. With several epochs, the evaluation is the mean over them (as many as the task has: give them to
    the task, and not to `eval`).

    A sample is called "prompt id|sample id", its metadata has prompt and example under "asktell", and scores are named
    as by `InspectTask`, tokens, latency and cost included. The log's metrics are computed for each prompt.

    Args:
        selector: a Selector, a Study, a RemoteStudy or a worker of one, with as many examples as the task has samples.
        task: an Inspect Task, or a function without arguments that makes one; it is not changed.
        insert: how a prompt enters: as for `InspectTask`.
        concurrency: evaluations at once; Inspect's own limits (`max_connections`, `max_samples`) hold besides.
        by_prompt: whether the log has each of the scorers' metrics for each prompt, as "metric(prompt id)", instead of
            once over all prompts.
        score_limited: as for `InspectTask`.
        value_to_float: as for `InspectTask`.
        on_tell: as for `asktell.run`; it is called in a thread beside Inspect's.
        max_failures_in_a_row: as for `asktell.run`; such an end is the eval's error. So is one without any success.

    A `with` block, or `close()`, hands back what an eval that was interrupted has left out. The same source may then be
    evaluated again, by the same model, and goes on.
    """

    def __init__(
        self,
        selector: Any,
        task: Any,
        *,
        insert: Insert = SYSTEM,
        concurrency: int = 10,
        by_prompt: bool = True,
        score_limited: bool = False,
        value_to_float: ValueToFloat | None = None,
        on_tell: OnTell | None = None,
        max_failures_in_a_row: MaxFailures = "first",
    ) -> None:
        theirs = checked_task(task)
        self.examples = tuple(theirs.dataset)
        self._selector = _patient(selector)
        _check_examples(self._selector, len(self.examples))
        check_metrics(self._selector.metrics, theirs)
        self._scoring = Scoring(value_to_float, score_limited, tuple(self._selector.metrics))
        self._concurrency = whole("concurrency", concurrency, 1)
        self._options: dict[str, Any] = {"on_tell": on_tell, "max_failures_in_a_row": max_failures_in_a_row}
        self._model: str | None = None
        self._board: Board | None = None
        self._close: Callable[[], object] = lambda: None
        self._flights: dict[str, _Flight] = {}  # by the sample's id
        self._names: set[str] = set()  # of samples in this eval
        self._failed: list[BaseException] = []  # in this eval
        self._succeeded = False
        self._rounds = 0  # in which samples were given, since the last one that was complete
        self._lock = anyio.Lock()
        self._epochs = theirs.epochs or 1
        self.task: Task = task_with(copy.copy(theirs), dataset=self, fail_on_error=False, **changes(theirs, insert))
        self.task.dataset = MemoryDataset([], theirs.dataset.name, theirs.dataset.location)
        if by_prompt:
            self.task.scorer = [_by_prompt(scorer) for scorer in self.task.scorer or ()]
            self.task.metrics = None if theirs.metrics is None else _grouped(theirs.metrics)

    def result(self) -> Result:
        return self._selector.result()

    def close(self) -> None:
        """Release pending trials; after an eval that was not interrupted there are none."""
        self._flights.clear()
        self._board = None
        self._close()

    def __enter__(self) -> "InspectSource":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # Inspect's interface

    def initial_samples(self) -> list[Sample]:
        """None: they are wanted when a task is made, which may never be run."""
        return []

    async def next_samples(self) -> list[Sample] | None:
        """The next samples, when none is running; None if the selection is done, here and at other workers."""
        async with self._lock:
            self._check_model()
            if _in_eval.get() is not self:  # this is the eval's first call
                _in_eval.set(self)
                await self._begin()
            elif not await self._settle_all():
                await self._end()
                return None
            while not (samples := await self._ask()):
                if await anyio.to_thread.run_sync(lambda: isinstance(self._selector, Selector) or self._selector.done):
                    await self._end()
                    return None
                await anyio.sleep(_WAIT)  # for what other workers have out
            self._rounds += 1
            return samples

    async def sample_complete(self, sample: EvalSample) -> list[Sample] | None:
        """Tell a sample's scores, once all its epochs are there, and ask for as many as are free."""
        async with self._lock:
            flight = self._flights.get(str(sample.id))
            if flight is None:
                _log.warning("Inspect ran sample %r more often than was asked: give epochs to the task.", sample.id)
                return None
            flight.completed.append(sample)
            self._rounds = 0
            await self._land(str(sample.id), flight)
            return await self._ask()

    async def sample_abandoned(self, sample: Sample, epoch: int) -> list[Sample] | None:
        """Hand back what an operator took out of the queue; it is asked again when the next sample is complete."""
        async with self._lock:
            flight = self._flights.get(str(sample.id))
            if flight is not None:
                flight.abandoned += 1
                await self._land(str(sample.id), flight)
        return None

    # Asking and telling, in threads: a storage, or a decision, may take a while

    async def _begin(self) -> None:
        self.close()
        self._names.clear()
        self._failed, self._succeeded = [], False
        self._rounds = 0
        stack = ExitStack()
        self._close = weakref.finalize(self, stack.close)
        self._board = await anyio.to_thread.run_sync(
            lambda: stack.enter_context(open_board(self._selector, progress=False, **self._options))
        )

    async def _end(self) -> None:
        await anyio.to_thread.run_sync(self.close)
        if self._failed and not self._succeeded:
            last = self._failed[-1]
            raise EvaluatorError(
                f"All {len(self._failed)} evaluations of this eval failed, the last one with {in_words(last)}"
            ) from last

    async def _ask(self) -> list[Sample]:
        board, free = self._opened(), self._concurrency - len(self._flights)
        samples = []
        for trial in await anyio.to_thread.run_sync(lambda: board.ask(free)) if free > 0 else ():
            sample = sample_of(trial, self.examples, self._names)
            sample.metadata[GROUP] = str(trial.prompt_id).translate(_NO_MARKUP)
            self._names.add(sample.id)
            self._flights[sample.id] = _Flight(trial)
            samples.append(sample)
        return samples

    async def _land(self, name: str, flight: _Flight) -> None:
        if len(flight.completed) + flight.abandoned >= self._epochs:
            await self._settle(name, flight)

    async def _settle(self, name: str, flight: _Flight) -> None:
        """Tell a trial, or hand it back if it was not run, or an epoch of it abandoned."""
        board, trial = self._opened(), flight.trial
        del self._flights[name]
        if flight.abandoned or not flight.completed:
            await anyio.to_thread.run_sync(lambda: board.release(trial))
        else:
            outcome: Outcome = attempt(self._scoring.of_epochs, flight.completed, str(self._model))
            if isinstance(outcome, BaseException):
                self._failed.append(outcome)
            else:
                self._succeeded = True
            await anyio.to_thread.run_sync(lambda: board.take(trial, outcome))

    async def _settle_all(self) -> bool:
        """Settle what is out although nothing runs. False if samples were given twice, and not one was run.

        The eval runs fewer epochs than the task has, or leaves samples out: by `limit`, by `sample_id`, or since an
        operator ends it.
        """
        for name, flight in list(self._flights.items()):
            await self._settle(name, flight)
        if self._rounds > 1:
            _log.warning("Inspect runs none of the samples that it is given: the source ends.")
        return self._rounds < 2

    def _opened(self) -> Board:
        assert self._board is not None
        return self._board

    def _check_model(self) -> None:
        model = str(get_model())
        if self._model not in (None, model):
            raise InvalidArgumentError(
                f"A selection is of one model: this one's is {self._model!r}, and the eval is of {model!r} too. Make a "
                "selector and a source for each."
            )
        self._model = model


class _Patient(Worker):
    """A worker that does not sleep while others have trials out: the source does, in Inspect's event loop."""

    def wait(self) -> bool:
        return False


def _patient(selector: Any) -> Selector | _Patient:
    if isinstance(selector, Selector):
        return selector
    worker = selector if isinstance(selector, Worker) or not hasattr(selector, "worker") else selector.worker()
    if not isinstance(worker, Worker):
        raise InvalidArgumentError(f"InspectSource needs a Selector or a Study, got {type(selector).__name__}.")
    return _Patient(worker.study, worker.name, worker.lease)


def _check_examples(selector: Selector | _Patient, n_samples: int) -> None:
    known = selector if isinstance(selector, Selector) else selector.selector
    n_examples = known.state.problem.n_examples
    if n_examples is None or n_examples > n_samples:
        raise InvalidArgumentError(
            f"The selector was made with examples={n_examples}, but the task has {n_samples} samples; make it with "
            f"examples={n_samples}."
        )


def _by_prompt(scorer: Scorer) -> Scorer:
    """A scorer whose metrics are computed for each prompt; those that are grouped already stay."""

    async def score(state: Any, target: Any) -> Any:
        return await scorer(state, target)

    update_wrapper(score, scorer)  # what Inspect's registry knows of it, too
    info = registry_info(scorer)
    metrics = _grouped(info.metadata["metrics"])
    changed = info.model_copy(update={"metadata": {**info.metadata, "metrics": metrics}})
    for name in [name for name, value in vars(score).items() if value is info]:
        setattr(score, name, changed)
    return score


def _grouped(metrics: Any) -> Any:
    if isinstance(metrics, Mapping):
        return {key: _grouped(values) for key, values in metrics.items()}
    return [_grouped(metric) if isinstance(metric, Mapping) else _for_each_prompt(metric) for metric in metrics]


def _for_each_prompt(metric: Metric) -> Metric:
    name = registry_info(metric).name.split("/", 1)[-1]
    if name == "grouped":
        return metric
    template = name.translate(_NO_MARKUP).replace("{", "{{").replace("}", "}}") + "({group_name})"
    return grouped(metric, GROUP, all=False, name_template=template)
