"""Evaluators: how one is called, and what it may return: scores with a cost and details, or an error."""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias

from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError, MissingExtraError
from asktell.problem.candidates import Trial
from asktell.problem.checks import cause_of, needed_cost, some
from asktell.selector import Selection

Evaluator: TypeAlias = Any
"""`evaluator(prompt, example)` -> scores, plain or async; or an object with `evaluate(prompt, example)` or with
`evaluate_batch(trials)` -> a list of scores or exceptions, one per trial. A first argument called `candidate` gets the
trial's candidate, factor -> value, instead of the prompt; one called `trial` gets the whole trial instead of prompt and
example. As a further argument it may take `repeat`, or `repeats`, the numbers of `Selector.repeat_of`. `cancel(trial)`,
if it has one, stops an evaluation; see `run`."""

Outcome: TypeAlias = Mapping[str, float] | Sequence[float] | BaseException


class Calling(NamedTuple):
    """How an evaluator is called: with a list of trials, with one, or with a prompt and an example; awaited or not.

    `with_repeats`: it takes the numbers of the repeats too; `first`: the name of its first argument; `cancel`: stops an
    evaluation; `can_stop`: whether evaluations under way can be stopped at all.
    """

    call: Callable[..., Any]
    in_batches: bool
    is_async: bool
    with_repeats: bool
    first: Literal["trials", "trial", "candidate", "prompt"]
    cancel: Callable[[Trial], object] | None
    can_stop: bool

    @classmethod
    def of(cls, evaluator: Evaluator) -> "Calling":
        """How this one is."""
        in_batches = callable(getattr(evaluator, "evaluate_batch", None))
        call = evaluator.evaluate_batch if in_batches else evaluator
        if not callable(call):
            call = getattr(evaluator, "evaluate", None)
        if not callable(call):
            raise InvalidArgumentError(
                "An evaluator is a callable (prompt, example) -> scores, or an object with evaluate() or "
                f"evaluate_batch(); got {evaluator!r}."
            )
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError):  # of a function in C, say
            signature = None
        taken = list(signature.parameters) if signature else []
        first: Literal["trials", "trial", "candidate", "prompt"] = "trials" if in_batches else "prompt"
        if not in_batches and taken[:1] == ["candidate"]:
            first = "candidate"
        elif not in_batches and taken[:1] == ["trial"]:
            first = "trial"
        names = (first, "example") if first in ("prompt", "candidate") else (first,)
        repeats = "repeats" if in_batches else "repeat"
        with_repeats = taken[len(names) : len(names) + 1] == [repeats]
        if signature is not None:
            _check_signature(evaluator, call, signature, (*names, repeats) if with_repeats else names)
        calls = (call, getattr(call, "__call__", None))  # noqa: B004
        is_async = any(map(inspect.iscoroutinefunction, calls))
        cancel = getattr(evaluator, "cancel", _NOT_SAID)
        if is_async:  # it is stopped by its task, unless it says `cancel = None`
            return cls(call, in_batches, is_async, with_repeats, first, None, can_stop=cancel is not None)
        cancel = None if cancel is _NOT_SAID else _checked_cancel(cancel)
        return cls(call, in_batches, is_async, with_repeats, first, cancel, can_stop=cancel is not None)

    def arguments(self, group: list[Trial], repeat_of: Callable[[Trial], int]) -> tuple[Any, ...]:
        """The arguments of the call for these trials; there is one trial if it does not take batches."""
        repeats = [repeat_of(trial) for trial in group] if self.with_repeats else []
        if self.in_batches:
            return (group, repeats) if self.with_repeats else (group,)
        (trial,) = group
        if self.first == "trial":
            return (trial, *repeats)
        if self.first == "prompt" and trial.candidate is not None and len(trial.candidate) > 1:
            raise InvalidArgumentError(
                f"A candidate has the factors {some(list(trial.candidate))}; this evaluator takes (prompt, example) "
                "only. Call its first parameter `candidate`: then it gets the mapping from factor to value."
            )
        what = (trial.candidate or {"prompt": trial.prompt}) if self.first == "candidate" else trial.prompt
        return (what, trial.example, *repeats)


_NOT_SAID = object()


def _checked_cancel(cancel: Any) -> Callable[[Trial], object] | None:
    """An evaluator's `cancel`, which takes a trial; None for one that cannot be stopped."""
    if cancel is None:
        return None
    try:
        inspect.signature(cancel).bind("trial")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"An evaluator's cancel is called as cancel(trial), to stop an evaluation; this one is {cancel!r:.100}: "
            f"{error}. Give it another name, or set cancel = None if evaluations cannot be stopped."
        ) from error
    found: Callable[[Trial], object] = cancel
    return found


def _check_signature(
    evaluator: Evaluator, call: Callable[..., Any], signature: inspect.Signature, names: tuple[str, ...]
) -> None:
    try:
        signature.bind(*(("self",) if inspect.isclass(evaluator) and call is not evaluator else ()), *names)
        if inspect.isclass(evaluator) and call is not evaluator:
            raise TypeError("missing its object")
    except TypeError as error:
        name = getattr(call, "__qualname__", None) or repr(call)
        cure = f" Give an object of the class, as {evaluator.__name__}(...)." if inspect.isclass(evaluator) else ""
        raise InvalidArgumentError(
            f"An evaluator is called as {name}({', '.join(names)}), but this one is {name}{signature}: {error}.{cure}"
        ) from error


def attempt(call: Callable[..., Any], *args: Any) -> Any:
    """What the call returns, or its failure."""
    try:
        return call(*args)
    except BaseException as error:
        if not is_failure(error):
            raise
        return error


async def attempt_async(call: Callable[..., Any], *args: Any) -> Any:
    """The same of what is awaited, its cancellation included: its `cost`, if it has one, was paid."""
    try:
        return await call(*args)
    except BaseException as error:
        if not is_failure(error):
            raise
        return error


def one_each(trials: Sequence[Trial], outcomes: object) -> Sequence[Any]:
    """What `evaluate_batch` returned."""
    if not isinstance(outcomes, Sequence) or len(outcomes) != len(trials):
        size = f"{len(outcomes)} results" if isinstance(outcomes, Sequence) else type(outcomes).__name__
        raise EvaluatorError(f"evaluate_batch() got {len(trials)} trials and returned {size}.")
    return outcomes


def is_failure(error: BaseException) -> bool:
    """Whether what an evaluator raised is its trial's failure: an exit or a cancellation is, an interrupt is not."""
    import asyncio

    return isinstance(error, (Exception, SystemExit, asyncio.CancelledError))


def missing_extra(outcome: object) -> MissingExtraError | None:
    """The missing package that an error comes from: no evaluation can succeed."""
    error = outcome if isinstance(outcome, BaseException) else None
    while error is not None and not isinstance(error, MissingExtraError):
        error = error.__cause__
    return error


class Finding(NamedTuple):
    """What an outcome comes to: scores to tell, or an error and what it has cost all the same."""

    error: BaseException | None
    scores: Any
    cost: Any
    details: dict[str, Any] | None

    @classmethod
    def of(cls, selector: Selection, outcome: Outcome, with_details: bool) -> "Finding":
        """What this one comes to; scores or a cost that the selector would refuse are an error."""
        details = details_of(selector, outcome) if with_details else None
        if isinstance(outcome, BaseException):  # whose `cost` is what an adapter knows a failed request to have cost
            return cls(outcome, None, _as_cost(getattr(cause_of(outcome), "cost", None)), details)
        scores, cost = goal_scores(selector, outcome)
        try:
            selector.goal.vector(scores)
            needed_cost(cost, selector.max_cost)
        except AsktellError as error:
            return cls(error, None, _as_cost(cost), details)
        return cls(None, scores, cost, details)


def goal_scores(selector: Selection, scores: Any) -> tuple[Any, Any]:
    """The scores of the goal's metrics, and the cost, from what an evaluator returned: its `paid`, else "cost"."""
    if not isinstance(scores, Mapping):
        return scores, None
    metrics = selector.metrics
    cost = getattr(scores, "paid", None)
    if cost is None:
        cost = scores.get("cost")
        if "cost" in metrics and selector.max_cost is None:  # a score like others, and perhaps no money
            cost = _as_cost(cost)
    return {name: scores[name] for name in metrics if name in scores}, cost


def _as_cost(value: Any) -> float | None:
    usable = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if usable and 0 <= value < math.inf else None


def details_of(selector: Selection, outcome: Outcome) -> dict[str, Any] | None:
    """What a study keeps beside the scores: the outcome's own `details`, and all metrics if there are more.

    Scores that are no finite number, which only metrics beyond the goal's may be, are None.
    """
    found = getattr(outcome, "details", None)
    details = {name: value for name, value in found.items() if _is_json(value)} if isinstance(found, Mapping) else {}
    if isinstance(outcome, Mapping) and not set(outcome) <= set(selector.metrics):
        details["scores"] = {str(name): _finite(score) for name, score in outcome.items()}
    return details or None


def _finite(score: Any) -> float | None:
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
