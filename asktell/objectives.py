"""What a goal is made of: metrics with a direction, and bounds on metrics.

Directions, ranges and bounds are the user's; `asktell.goals` turns them into values of which more is better.
"""

import math
from dataclasses import dataclass
from typing import final

from asktell.arguments import LARGEST, SMALLEST_RANGE, short
from asktell.errors import InvalidArgumentError


@final
@dataclass(frozen=True)
class Objective:
    """A metric with a direction, and optionally the range of its scores.

    The range puts metrics on a common scale, and what is guaranteed of a difference rests on it: scores outside are
    refused.
    """

    metric: str
    minimize: bool = False
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Refuse an empty name or an empty range."""
        if not isinstance(self.metric, str) or not self.metric:
            raise InvalidArgumentError(f"A metric's name must be a non-empty str, got {short(self.metric)}.")
        if self.range is not None:
            try:
                low, high = (float(x) for x in self.range)
            except (TypeError, ValueError, OverflowError):
                low = high = math.nan
            if not (-LARGEST <= low < high <= LARGEST and high - low >= SMALLEST_RANGE):
                raise InvalidArgumentError(
                    f"The range of {self.metric!r} must be two finite numbers, low < high; got {short(self.range)}."
                )
            object.__setattr__(self, "range", (low, high))

    @property
    def scale(self) -> float:
        """Width of the range, 1 without one; in metric units."""
        return 1.0 if self.range is None else self.range[1] - self.range[0]

    @property
    def sign(self) -> float:
        """1 if larger is better, -1 if smaller is."""
        return -1.0 if self.minimize else 1.0

    def __str__(self) -> str:
        return f"{'minimize' if self.minimize else 'maximize'} {self.metric}"


def maximize(metric: str, *, range: tuple[float, float] | None = None) -> Objective:  # noqa: A002 - the metric's range
    """A metric of which more is better; the same as its bare name."""
    return Objective(metric, False, range)


def minimize(metric: str, *, range: tuple[float, float] | None = None) -> Objective:  # noqa: A002 - the metric's range
    """A metric of which less is better, such as latency or cost."""
    return Objective(metric, True, range)


@final
@dataclass(frozen=True)
class Threshold:
    """A bound on a metric's mean, in the metric's own units; made by `at_least` and `at_most`."""

    bound: float
    at_most: bool


def at_least(bound: float) -> Threshold:
    """Bound a metric's mean from below, as in `subject_to={"brevity": asktell.at_least(0.5)}`."""
    return Threshold(finite("at_least()", bound), at_most=False)


def at_most(bound: float) -> Threshold:
    """Bound a metric's mean from above, as in `subject_to={"latency": asktell.at_most(2.0)}`."""
    return Threshold(finite("at_most()", bound), at_most=True)


@final
@dataclass(frozen=True)
class Constraint:
    """`metric` must be at least, or at most, `bound` on average; violations are measured in units of `scale`.

    `range`: the lowest and the highest score there can be, None if unknown.
    """

    metric: str
    bound: float
    at_most: bool = False
    scale: float = 1.0
    range: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.metric} {'<=' if self.at_most else '>='} {self.bound:g}"


def finite(what: str, number: object) -> float:
    """The number, checked; `what` it is says the error.

    Raises:
        InvalidArgumentError: it is no number, or not a finite one.
    """
    if isinstance(number, (bool, str, bytes)) or not hasattr(number, "__float__"):
        raise InvalidArgumentError(f"{what} needs a number, got {short(number)}.")
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{what} needs a single finite number: {error}.") from error
    if not -LARGEST <= value <= LARGEST:
        raise InvalidArgumentError(f"{what} needs a finite number, at most {LARGEST} in size; got {short(value)}.")
    return value
