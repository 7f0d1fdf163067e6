"""Evaluators whose scores say how long they took. A caller can also keep every outcome."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import asktell
from asktell.extend import Calling
from asktell_adapters._util.scores import Scores
from asktell_adapters.evaluators.llm import asked_of
from asktell_adapters.llms.base import Asked


def _with_time(scores: Any, seconds: float) -> Scores:
    """Scores whose details say how long they took."""
    details = {**getattr(scores, "details", {}), "seconds": round(seconds, 3)}
    return Scores(scores, details, getattr(scores, "paid", None))


class _Clocked:
    """Also shows every outcome to `keep`, with its prompt's text, or its candidate, and its example."""

    def __init__(
        self,
        evaluator: Any,
        keep: Callable[[Asked, int | None, object], None] | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._keep = keep or (lambda asked, example, outcome: None)

    def __getattr__(self, name: str) -> Any:
        # `check_prompts`, `begin`, `remarks`, `repeatable`
        return getattr(self._evaluator, name)


class TimedBatches(_Clocked):
    """An evaluator with `evaluate_batch(trials)`; each trial took its part of the time."""

    def evaluate_batch(
        self, trials: Sequence[asktell.Trial], repeats: Sequence[int] = ()
    ) -> Any:
        """Scores or an exception for each trial, with the seconds that the batch took."""
        start = time.perf_counter()
        returned = self._evaluator.evaluate_batch(trials, repeats)
        seconds = (time.perf_counter() - start) / len(trials)
        if not isinstance(returned, Sequence):
            return returned  # `run` refuses it
        outcomes = [
            outcome
            if isinstance(outcome, BaseException)
            else _with_time(outcome, seconds)
            for outcome in returned
        ]
        # `run` refuses another number
        for trial, outcome in zip(trials, outcomes, strict=False):
            self._keep(asked_of(trial), trial.example, outcome)
        return outcomes


class TimedCalls(_Clocked):
    """An async evaluator, whichever way it is called."""

    async def __call__(self, trial: asktell.Trial, repeat: int = 0) -> Any:
        how = Calling.of(self._evaluator)
        start = time.perf_counter()
        returned = await how.call(*how.arguments([trial], lambda _: repeat))
        outcome = _with_time(returned, time.perf_counter() - start)
        self._keep(asked_of(trial), trial.example, outcome)
        return outcome


def timed(
    evaluator: Any, keep: Callable[[Asked, int | None, object], None] | None = None
) -> _Clocked:
    """The evaluator, with the seconds of each evaluation in the details of its scores."""
    in_batches = callable(getattr(evaluator, "evaluate_batch", None))
    return (TimedBatches if in_batches else TimedCalls)(evaluator, keep)
