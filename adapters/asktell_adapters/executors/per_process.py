"""One evaluator with its loaded model per process, for Dask and process pools."""

import asyncio
import gc
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import Calling, Evaluator, Outcome, attempt, in_words
from asktell_adapters._util.scores import plain


@final
class BatchEvaluation:
    """Wraps a plain, async or batch evaluator, so that all three are called in the same way.

    The wrapper takes a list of trials, and returns an outcome for each: scores or an
    exception.

    The outcomes can be sent to any other process, because they contain only builtin
    types and asktell's errors. A plain evaluator evaluates the trials one after the
    other, and an async evaluator evaluates them all at once. All batches share an event
    loop, so that async clients keep their connections.

    Args:
        evaluator: the evaluator.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._how = Calling.of(evaluator)
        self._loop: asyncio.AbstractEventLoop | None = None
        if self._how.is_async:
            self._loop = asyncio.new_event_loop()
            # An event loop that is not closed warns at the end of the process.
            weakref.finalize(self, self._loop.close)

    def __call__(
        self, trials: Sequence[Trial], repeats: Sequence[int] | None = None
    ) -> list[Outcome]:
        """Return scores or an exception for each trial.

        Args:
            trials: the trials.
            repeats: how often each trial was evaluated before. By default, all 0.

        Raises:
            EvaluatorError: a batch evaluator failed as a whole, or returned another
                number of outcomes.
        """
        groups = (
            [list(trials)] if self._how.in_batches else [[trial] for trial in trials]
        )
        # Each call of the evaluator gets the numbers of its own trials.
        numbers = dict(
            zip(
                (trial.id for trial in trials),
                repeats or [0] * len(trials),
                strict=True,
            )
        )
        arguments = [
            self._how.arguments(group, lambda trial: numbers[trial.id])
            for group in groups
        ]
        if self._loop is None:
            results = [attempt(self._how.call, *call) for call in arguments]
        else:
            results = self._loop.run_until_complete(self._attempt_all(arguments))
        outcomes = results[0] if self._how.in_batches else results
        if isinstance(outcomes, BaseException):
            raise survivable(outcomes)
        if not isinstance(outcomes, Sequence) or len(outcomes) != len(trials):
            size = (
                f"{len(outcomes)} results"
                if isinstance(outcomes, Sequence)
                else type(outcomes).__name__
            )
            raise EvaluatorError(
                "evaluate_batch() must return a list with one outcome for each trial. The number of trials was "
                f"{len(trials):,}, and it returned {size}."
            )
        return [_plain(outcome) for outcome in outcomes]

    async def _attempt_all(self, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Call an async evaluator with each of the arguments, all at once."""

        async def one(call: tuple[Any, ...]) -> Any:
            try:
                return await self._how.call(*call)
            except SystemExit as error:
                # An evaluator that exits must not end this process.
                return error

        return await asyncio.gather(*map(one, arguments), return_exceptions=True)


def _plain(outcome: Any) -> Outcome:
    """Convert an outcome to builtin types and asktell's errors.

    Another process may be unable to read an exception of some package.
    """
    if isinstance(outcome, BaseException):
        return plain_error(outcome)
    if isinstance(outcome, Mapping):
        return {str(name): _number(value) for name, value in outcome.items()}
    if isinstance(outcome, Sequence) and not isinstance(outcome, str):
        return [_number(value) for value in outcome]
    return EvaluatorError(
        f"The evaluator returned {type(outcome).__name__} instead of scores."
    )


def survivable(error: BaseException) -> Exception:
    """Return an error that cannot end the process: an exit or a cancellation becomes an EvaluatorError."""
    return error if isinstance(error, Exception) else plain_error(error)


def plain_error(error: BaseException) -> EvaluatorError:
    """Convert any error to an EvaluatorError with the same message and cost, which every process can read."""
    if type(error) is EvaluatorError:
        return error
    plain = EvaluatorError(in_words(error))
    cost = getattr(error, "cost", None)
    if cost is not None:
        plain.cost = cost  # type: ignore[attr-defined]
    return plain


def _number(value: Any) -> Any:
    """Convert scalars of numpy and torch to Python's. Other values become text, which the selector refuses."""
    value = plain(value)
    return (
        value
        if value is None or isinstance(value, int | float | str)
        else f"{value!r:.100}"
    )


_lock = threading.Lock()
# By key. It has at most one entry, so that two models are never loaded.
_made: dict[str, BatchEvaluation] = {}


def per_process(
    factory: Callable[[], Evaluator], *, key: str | None = None
) -> "PerProcess":
    """Return a batch evaluator for other processes. Each process creates its own evaluator at its first batch.

    A process evaluates one batch at a time. It keeps only the evaluator that it used
    last, so that two models are never loaded at once.

    ```python
    def factory():
        return LLMEvaluator(HuggingFace("HuggingFaceTB/SmolLM2-135M-Instruct"), examples, [token_f1])

    with ProcessPoolExecutor(4) as pool:
        result = asktell.run(selector, per_process(factory), pool)
    ```

    Args:
        factory: a function that returns the evaluator: plain, async or with
            `evaluate_batch`. It is sent with every batch. So it should load the model
            and the data when it is called, and not contain them.
        key: the name under which a process keeps the evaluator between batches. If you
            call `per_process` several times with the same key, the batch evaluators
            that it returns share one evaluator in each process. By default, each
            returned batch evaluator has its own evaluator, which all its batches share.

    Raises:
        InvalidArgumentError: `factory` is not callable.
    """
    if not callable(factory):
        raise InvalidArgumentError(
            f"factory must be a function that returns an evaluator, got {factory!r}."
        )
    return PerProcess(factory, key or uuid.uuid4().hex)


@final
class PerProcess:
    """The evaluator that `per_process` returns. It can be pickled if its factory can. Dask can pickle any function.

    Args:
        factory: a function that returns the evaluator of a process.
        key: the name under which a process keeps the evaluator. See `per_process`.
    """

    def __init__(self, factory: Callable[[], Evaluator], key: str) -> None:
        self.factory = factory
        self.key = key

    def evaluate_batch(
        self, trials: Sequence[Trial], repeats: Sequence[int] | None = None
    ) -> list[Outcome]:
        """Evaluate with this process's evaluator, which is created first if there is none."""
        with _lock:
            if self.key not in _made:
                # Free the memory of the previous model before the next one is loaded.
                _made.clear()
                gc.collect()
                evaluator = attempt(self.factory)
                if isinstance(evaluator, BaseException):
                    raise survivable(evaluator)
                _made[self.key] = BatchEvaluation(evaluator)
            return _made[self.key](trials, repeats)
