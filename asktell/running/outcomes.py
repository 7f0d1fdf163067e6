"""What evaluators return: scores with a cost and details, or the error of an evaluation that failed."""

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

from asktell.errors import AsktellError, EvaluatorError, MissingExtraError
from asktell.problem.candidates import Trial
from asktell.problem.checks import cause_of, needed_cost
from asktell.selector import Selector

if TYPE_CHECKING:
    from asktell.studies.worker import Worker

Outcome: TypeAlias = Mapping[str, float] | Sequence[float] | BaseException


def one_each(trials: Sequence[Trial], outcomes: object) -> Sequence[Any]:
    """What `evaluate_batch` returned.

    Raises:
        EvaluatorError: it is not one outcome for each trial.
    """
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


def failure_of(selector: "Selector | Worker", outcome: Outcome) -> BaseException | None:
    """Why an outcome is a failure: its error, or what is wrong with its scores or its cost; None if it is none."""
    if isinstance(outcome, BaseException):
        return outcome
    try:
        scores, cost = goal_scores(selector, outcome)
        selector.goal.vector(scores)
        needed_cost(cost, selector.max_cost)
    except AsktellError as error:
        return error
    return None


def goal_scores(selector: "Selector | Worker", scores: Any) -> tuple[Any, Any]:
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


def cost_of(error: BaseException) -> float | None:
    """What an adapter knows a failed request to have cost: the error's `cost`."""
    return _as_cost(getattr(cause_of(error), "cost", None))


def cost_of_failure(selector: "Selector | Worker", outcome: Outcome) -> float | None:
    """What an evaluation that failed has cost all the same, be it with scores of no use."""
    return cost_of(outcome) if isinstance(outcome, BaseException) else _as_cost(goal_scores(selector, outcome)[1])


def _as_cost(value: Any) -> float | None:
    usable = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if usable and 0 <= value < math.inf else None


def details_of(selector: "Selector | Worker", outcome: Outcome) -> dict[str, Any] | None:
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
