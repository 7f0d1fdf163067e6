"""One evaluator, with its loaded model, per process: for Dask and process pools."""

import asyncio
import gc
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import Calling, Evaluator, Outcome, attempt, in_words
from asktell_adapters._scores import plain


@final
class BatchEvaluation:
    """Plain, async and batch evaluators as one thing: trials -> outcomes that every process can read.

    A plain evaluator evaluates one after the other, an async one all at once. Its event loop stays the same from batch
    to batch, so that clients keep their connections.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._how = Calling.of(evaluator)
        self._loop: asyncio.AbstractEventLoop | None = None
        if self._how.is_async:
            self._loop = asyncio.new_event_loop()
            weakref.finalize(self, self._loop.close)

    def __call__(self, trials: Sequence[Trial], repeats: Sequence[int] | None = None) -> list[Outcome]:
        """Scores or an exception for each trial; `repeats` are their numbers, by default all the first."""
        groups = [list(trials)] if self._how.in_batches else [[trial] for trial in trials]
        numbers = dict(zip((trial.id for trial in trials), repeats or [0] * len(trials), strict=True))
        arguments = [self._how.arguments(group, lambda trial: numbers[trial.id]) for group in groups]
        if self._loop is None:
            results = [attempt(self._how.call, *each) for each in arguments]
        else:
            results = self._loop.run_until_complete(self._attempt_all(arguments))
        outcomes = results[0] if self._how.in_batches else results
        if isinstance(outcomes, BaseException):
            raise survivable(outcomes)
        if not isinstance(outcomes, Sequence) or len(outcomes) != len(trials):
            size = f"{len(outcomes)} results" if isinstance(outcomes, Sequence) else type(outcomes).__name__
            raise EvaluatorError(f"evaluate_batch() got {len(trials)} trials and returned {size}.")
        return [_plain(outcome) for outcome in outcomes]

    async def _attempt_all(self, arguments: list[tuple[Any, ...]]) -> list[Any]:
        return await asyncio.gather(*(self._attempt(each) for each in arguments), return_exceptions=True)

    async def _attempt(self, arguments: tuple[Any, ...]) -> Any:
        try:
            return await self._how.call(*arguments)
        except SystemExit as error:  # of the evaluator, and not the end of this process
            return error


def _plain(outcome: Any) -> Outcome:
    """The same in builtin types and asktell's errors: an exception of some package may fail to be read elsewhere."""
    if isinstance(outcome, BaseException):
        return plain_error(outcome)
    if isinstance(outcome, Mapping):
        return {str(name): _number(value) for name, value in outcome.items()}
    if isinstance(outcome, Sequence) and not isinstance(outcome, str):
        return [_number(value) for value in outcome]
    return EvaluatorError(f"The evaluator returned {type(outcome).__name__} instead of scores.")


def survivable(error: BaseException) -> Exception:
    """The same, or in place of an exit an error: the process is not the evaluator's to end."""
    return error if isinstance(error, Exception) else plain_error(error)


def plain_error(error: BaseException) -> EvaluatorError:
    """An error of asktell's with the same words and cost."""
    if type(error) is EvaluatorError:
        return error
    plain = EvaluatorError(in_words(error))
    if (cost := getattr(error, "cost", None)) is not None:
        plain.cost = cost  # type: ignore[attr-defined]
    return plain


def _number(value: Any) -> Any:
    """Scalars of numpy and torch as Python's; what is no number as text, for the selector to refuse."""
    value = plain(value)
    return value if value is None or isinstance(value, int | float | str) else f"{value!r:.100}"


_lock = threading.Lock()
_made: dict[str, BatchEvaluation] = {}  # at most one: the model before it must make room


def per_process(factory: Callable[[], Evaluator], *, key: str | None = None) -> "PerProcess":
    """A batch evaluator to send to other processes, each of which makes its own by `factory()` at the first batch.

    Args:
        factory: returns the evaluator: plain, async or in batches. It is sent along with every batch, so let it load
            the model and the data rather than hold them.
        key: two of the same key share the evaluator that a process has; by default there is one of each call.

    A process keeps one evaluator, the last one it was asked for, and evaluates one batch at a time.
    """
    if not callable(factory):
        raise InvalidArgumentError(f"per_process() needs a function that makes an evaluator, got {factory!r}.")
    return PerProcess(factory, key or uuid.uuid4().hex)


@final
class PerProcess:
    """See `per_process`. Can be pickled if its factory can; Dask pickles any function."""

    def __init__(self, factory: Callable[[], Evaluator], key: str) -> None:
        self.factory = factory
        self.key = key

    def evaluate_batch(self, trials: Sequence[Trial], repeats: Sequence[int] | None = None) -> list[Outcome]:
        with _lock:
            if self.key not in _made:
                _made.clear()
                gc.collect()
                evaluator = attempt(self.factory)
                if isinstance(evaluator, BaseException):
                    raise survivable(evaluator)
                _made[self.key] = BatchEvaluation(evaluator)
            return _made[self.key](trials, repeats)
