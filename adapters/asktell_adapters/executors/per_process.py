"""One evaluator, with its loaded model, per process: for Dask and process pools."""

import gc
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import final

from asktell import InvalidArgumentError, Trial
from asktell.extend import Evaluator, Outcome, attempt
from asktell_adapters.executors._evaluation import BatchEvaluation, survivable

_lock = threading.Lock()
_made: dict[str, BatchEvaluation] = {}  # at most one: the model before it must make room


def per_process(factory: Callable[[], Evaluator], *, key: str | None = None) -> "PerProcess":
    """A batch evaluator to send to other processes, each of which makes its own by `factory()` at the first batch.

    Args:
        factory: returns the evaluator: plain, async or in batches. It is sent along with every batch, so let it load
            the model and the data rather than hold them.
        key: two of the same key share the evaluator that a process has; by default there is one of each call.

    A process keeps one evaluator, the last one it was asked for, and evaluates one batch at a time.

    Raises:
        InvalidArgumentError: the factory is not callable.
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
