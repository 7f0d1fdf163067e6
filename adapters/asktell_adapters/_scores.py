"""Converts the return values of third-party metrics to numbers."""

import math
from numbers import Real

from asktell import EvaluatorError


def number(metric: str, value: object) -> float:
    """A finite score: numbers (numpy's too), True and False as 1 and 0.

    Raises:
        EvaluatorError: the metric gave none.
    """
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
