"""What harnesses have in common: a trial's example, and what third-party metrics return as numbers."""

import math
from numbers import Real

from asktell import EvaluatorError, InvalidArgumentError


def checked_example(example: int | None, n: int) -> int:
    """A trial's example, as an index of the n that there are."""
    if example is None or not 0 <= example < n:
        raise InvalidArgumentError(
            f"The trial's example is {example!r}, but there are {n}: make the selector with examples={n}."
        )
    return example


def number(metric: str, value: object) -> float:
    """A finite score: numbers (numpy's too), True and False as 1 and 0."""
    if value is None:
        raise EvaluatorError(f"the metric {metric!r} gave no score")
    if not isinstance(value, Real):
        item = getattr(value, "item", None)  # numpy's and torch's scalars
        value = item() if callable(item) and getattr(value, "size", 1) == 1 else value
    if not isinstance(value, Real):
        raise EvaluatorError(f"the metric {metric!r} gave {value!r:.100}, which is no number")
    score = float(value)
    if not math.isfinite(score):
        raise EvaluatorError(f"the metric {metric!r} gave {score}")
    return score
