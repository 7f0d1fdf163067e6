"""What adapters have in common: trials by prompt, one by one after a failure, scores as numbers, checks of numbers."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TypeVar

from asktell import EvaluatorError, InvalidArgumentError, Trial

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def by_prompt(trials: Sequence[Trial], evaluate: Callable[[str, list[Trial]], Sequence[_Found]]) -> list[_Found]:
    """What `evaluate(prompt, its trials)` finds for each of its trials, in the order of all trials."""
    found: dict[int, _Found] = {}
    for prompt in dict.fromkeys(trial.prompt for trial in trials):
        places = [place for place, trial in enumerate(trials) if trial.prompt == prompt]
        found.update(zip(places, evaluate(prompt, [trials[place] for place in places]), strict=True))
    return [found[place] for place in range(len(trials))]


def or_alone(
    evaluate: Callable[[list[_Item]], Sequence[_Found | Exception]], items: list[_Item]
) -> Sequence[_Found | Exception]:
    """What `evaluate(items)` finds; where that raises, what it finds for each item alone, or the exception."""
    try:
        return evaluate(items)
    except Exception as error:
        return [error] if len(items) == 1 else [found for item in items for found in or_alone(evaluate, [item])]


def positive(name: str, number: float, unit: str = "") -> float:
    """The number, which must be finite and above 0."""
    if not 0 < number < math.inf:
        raise InvalidArgumentError(f"{name} must be a positive number{unit}, got {number!r}.")
    return number


def checked_example(example: int | None, n: int) -> int:
    """A trial's example, as an index of the n that there are."""
    if example is None or not 0 <= example < n:
        raise InvalidArgumentError(
            f"The trial's example is {example!r}, but there are {n}: make the selector with examples={n}."
        )
    return example


def plain(value: object) -> object:
    """Scalars of numpy and torch as Python's; anything else as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "size", 1) in (1, ()) else value


def number(metric: str, value: object) -> float:
    """A finite score: numbers (numpy's too), True and False as 1 and 0."""
    if value is None:
        raise EvaluatorError(f"the metric {metric!r} gave no score")
    value = plain(value)
    if not isinstance(value, Real):
        raise EvaluatorError(f"the metric {metric!r} gave {value!r:.100}, which is no number")
    score = float(value)
    if not math.isfinite(score):
        raise EvaluatorError(f"the metric {metric!r} gave {score}")
    return score
