"""Objectives and constraints: metrics with a direction, a range and a tolerance, and bounds on their means."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, final

import numpy as np

from asktell.errors import (
    InvalidArgumentError,
)
from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.problem.checks import (
    LARGEST,
    SMALLEST_RANGE,
    check_flag,
    check_number,
    check_part,
    finite,
)
from asktell.problem.words import exact, short


@final
@dataclass(frozen=True)
class Objective:
    """A metric with a direction, and optionally the range of its scores. Made by `maximize` and `minimize`.

    The range puts metrics on a common scale. Confidence statements about a metric are
    guaranteed only if its range is known, so scores outside the range are refused.

    Attributes:
        metric: the name of the metric.
        minimize: whether less is better.
        range: the lowest and the highest possible score, None if unknown.
        worst_segment: whether the mean of the worst segment counts instead of the
            overall mean.
        tolerance: the difference between two means that does not matter, in the
            metric's units. None if it was not stated.
    """

    metric: str
    minimize: bool = False
    range: tuple[float, float] | None = None
    worst_segment: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str) or not self.metric:
            raise InvalidArgumentError(
                f"A metric's name must be text that is not empty, got {short(self.metric)}."
            )
        object.__setattr__(self, "metric", str(self.metric))
        for name in ("minimize", "worst_segment"):
            object.__setattr__(self, name, check_flag(name, getattr(self, name)))
        if self.range is not None:
            try:
                low, high = (finite("range", x) for x in self.range)
            except (TypeError, ValueError, InvalidArgumentError):
                low = high = math.nan
            if not (-LARGEST <= low < high <= LARGEST and high - low >= SMALLEST_RANGE):
                raise InvalidArgumentError(
                    f"The range of {self.metric!r} must be two finite numbers, of which the second is larger by at "
                    f"least {SMALLEST_RANGE}. Got {short(self.range)}."
                )
            object.__setattr__(self, "range", (low, high))
        tolerance = checked_tolerance(self.metric, self.tolerance, self.range)
        object.__setattr__(self, "tolerance", tolerance)

    @property
    def scale(self) -> float:
        """Width of the range in metric units, 1 if the range is unknown."""
        return 1.0 if self.range is None else self.range[1] - self.range[0]

    @property
    def sign(self) -> float:
        """1 if larger is better, -1 if smaller is."""
        return -1.0 if self.minimize else 1.0

    @property
    def quantity(self) -> str:
        """The name of what is optimized, such as "rouge" or "worst-segment rouge"."""
        return f"worst-segment {self.metric}" if self.worst_segment else self.metric

    def __str__(self) -> str:
        where = " in its worst segment" if self.worst_segment else ""
        return f"{'minimize' if self.minimize else 'maximize'} {self.metric}{where}"


def maximize(
    metric: str | Callable[..., Any],
    *,
    range: tuple[float, float] | None = None,  # noqa: A002 - the metric's range
    worst_segment: bool = False,
    tolerance: float | None = None,
) -> Objective:
    """An objective to maximize. `maximize("rouge")` is equivalent to the bare name "rouge".

    Use it to declare the range of the scores, or to optimize the worst segment.

        >>> import asktell
        >>> asktell.BestFeasible(asktell.maximize("rouge", range=(0, 1))).ranges
        {'rouge': (0.0, 1.0)}

    Args:
        metric: the name of the metric, as in the scores. Or a metric of an evaluator,
            such as `token_f1`, which has its name and its range as attributes.
        range: the lowest and the highest possible score. Scores outside the range are
            refused with an InvalidScoresError. Without a range, most confidence
            statements about the metric are only approximate (see
            `Difference.guaranteed`).
        worst_segment: True optimizes the mean over the prompt's worst segment, instead
            of the mean over all examples. Needs `Selector(..., segments=...)`.
        tolerance: a difference between two means that does not matter to you, in the
            metric's units. It is above 0, and less than the width of the range. A
            prompt within the tolerance of the best prompt counts as good (see
            `Verdict`), and methods that stop early then end with such a prompt. None:
            the verdict assumes 1% of the range, and early stops need the best prompt
            itself.

    Raises:
        InvalidArgumentError: the name is empty, the range is not two finite numbers,
            the smaller one first, or the tolerance is not a finite number above 0 and
            below the width of the range.
    """
    name, span = _name_and_range(metric, range)
    return Objective(name, False, span, worst_segment, tolerance)


def minimize(
    metric: str | Callable[..., Any],
    *,
    range: tuple[float, float] | None = None,  # noqa: A002 - the metric's range
    worst_segment: bool = False,
    tolerance: float | None = None,
) -> Objective:
    """An objective to minimize, such as latency or cost. The arguments and errors are as for `maximize`.

        >>> import asktell
        >>> print(asktell.ParetoSet("rouge", asktell.minimize("cost")))
        Pareto set: maximize rouge, minimize cost

    As a key of `subject_to`, it means that a number is the highest allowed mean.
    """
    name, span = _name_and_range(metric, range)
    return Objective(name, True, span, worst_segment, tolerance)


def _name_and_range(
    metric: Any, span: tuple[float, float] | None
) -> tuple[str, tuple[float, float] | None]:
    """The name and the range of a metric, which may be an object with these attributes. A given range counts."""
    if isinstance(metric, str) or not callable(metric):
        return metric, span
    name = getattr(metric, "name", None) or getattr(metric, "__name__", None)
    return name or "", getattr(metric, "range", None) if span is None else span


@final
@dataclass(frozen=True)
class Threshold:
    """A bound on a metric's mean or quantile, in the metric's own units. Made by `at_least` and `at_most`."""

    bound: float
    at_most: bool
    quantile: float | None = None
    in_every_segment: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        at_most = check_flag("at_most", self.at_most)
        name = "at_most()" if at_most else "at_least()"
        quantile = self.quantile
        if quantile is not None:
            quantile = check_part(f"The quantile of {name}", quantile)
        vars(self).update(
            bound=finite(name, self.bound),
            at_most=at_most,
            quantile=quantile,
            in_every_segment=check_flag("in_every_segment", self.in_every_segment),
            tolerance=_positive(f"The tolerance of {name}", self.tolerance),
        )


def at_least(
    bound: float,
    *,
    quantile: float | None = None,
    in_every_segment: bool = False,
    tolerance: float | None = None,
) -> Threshold:
    """Require that a metric's mean is at least `bound`.

        >>> import asktell
        >>> print(asktell.BestFeasible("rouge", subject_to={"brevity": asktell.at_least(0.5)}))
        maximize rouge subject to brevity >= 0.5
        >>> tail = asktell.at_least(0.5, quantile=0.05)
        >>> print(asktell.BestFeasible("rouge", subject_to={"brevity": tail}))
        maximize rouge subject to brevity >= 0.5 on 95% of the examples

    Args:
        bound: in the metric's units. A mean that equals the bound satisfies the
            constraint.
        quantile: a number above 0 and below 1. The bound then applies to this quantile
            of the scores over the examples, instead of to the mean. With `at_least(0.5,
            quantile=0.05)`, at least 95% of the examples must score 0.5 or more.
        in_every_segment: True requires the bound in each segment of the examples. Needs
            `Selector(..., segments=...)`.
        tolerance: a violation that does not matter to you, in the metric's units. With
            `quantile`, it is a share of the examples, such as 0.01. It is above 0. A
            method that stops early may select a prompt that violates the constraint by
            up to the tolerance. All probabilities are still about the bound itself. If
            the metric is also an objective, both have one tolerance, so it is enough to
            state it once.

    Raises:
        InvalidArgumentError: the bound is not finite, the quantile is not above 0 and
            below 1, or the tolerance is not a finite number above 0.
    """
    return Threshold(bound, False, quantile, in_every_segment, tolerance)


def at_most(
    bound: float,
    *,
    quantile: float | None = None,
    in_every_segment: bool = False,
    tolerance: float | None = None,
) -> Threshold:
    """Require that a metric's mean is at most `bound`. The arguments and errors are as for `at_least`.

    With `at_most(2.0, quantile=0.95)`, at least 95% of the examples must score 2.0 or
    less.

        >>> import asktell
        >>> print(asktell.BestFeasible("rouge", subject_to={"latency": asktell.at_most(2.0)}))
        maximize rouge subject to latency <= 2
    """
    return Threshold(bound, True, quantile, in_every_segment, tolerance)


BEST, BASELINE = "best", "baseline"


@final
@dataclass(frozen=True)
class Within:
    """A bound relative to another prompt's mean. Made by `within`."""

    margin: float
    of: str = BEST
    tolerance: float | None = None

    def __post_init__(self) -> None:
        margin = check_number("the margin of within()", self.margin, 0.0, LARGEST)
        object.__setattr__(self, "margin", margin)
        tolerance = _positive("The tolerance of within()", self.tolerance)
        object.__setattr__(self, "tolerance", tolerance)
        if self.of not in (BEST, BASELINE):
            raise InvalidArgumentError(
                f'within(..., of=...) must be "{BEST}" or "{BASELINE}", got {short(self.of)}. The baseline is the '
                "prompt in use: Selector(..., baseline=ID)."
            )


def within(margin: float, *, of: str = BEST, tolerance: float | None = None) -> Within:
    """Require that a metric's mean is at most `margin` worse than the mean of a reference prompt.

        >>> import asktell
        >>> cheapest = asktell.minimize("cost")
        >>> print(asktell.BestFeasible(cheapest, subject_to={"accuracy": asktell.within(0.02)}))
        minimize cost subject to accuracy >= best - 0.02

    The key in `subject_to` decides what "worse" means:

    - The name of an objective: the direction of this objective.
    - `asktell.minimize("latency")`: more is worse, as in `{asktell.minimize("latency"):
      asktell.within(0.5)}`.
    - Any other name: less is worse. Names that contain a word such as "latency" or
      "cost" are refused, because their direction is unclear. Use `minimize(...)` or
      `maximize(...)` for them.

    Args:
        margin: in the metric's units, 0 or more. A mean that is worse by exactly the
            margin satisfies the constraint.
        of: the reference prompt. "best" (default) is the best prompt in this metric,
            even if this prompt violates a constraint or was eliminated. Failed and
            retired prompts do not count. "baseline" is the prompt in use
            (`Selector(..., baseline=ID)`).
        tolerance: as in `at_least`. It is added to the margin where it is used.

    Raises:
        InvalidArgumentError: the margin is negative or not finite, `of` is neither
            "best" nor "baseline", or the tolerance is not a finite number above 0.
    """
    return Within(margin, of, tolerance)


@final
@dataclass(frozen=True)
class Constraint:
    """A constraint of a goal. `goal.constraints` has one per entry of `subject_to`.

    Attributes:
        metric: the name of the constrained metric.
        bound: the bound on its mean, in the metric's units. With `of`, the margin.
        at_most: whether the mean must be at most the bound, instead of at least.
        scale: the unit of violations, in the metric's units: the width of the range, or
            1.
        range: the lowest and the highest possible score, None if unknown.
        quantile: the quantile over the examples that is constrained, None for the mean.
            Violations are then shares of the examples.
        in_every_segment: whether each segment must satisfy the constraint.
        of: the reference of a relative constraint, "best" or "baseline". None for an
            absolute constraint.
        tolerance: a violation that does not matter, in the metric's units. With
            `quantile`, a share of the examples. None if it was not stated.
    """

    metric: str
    bound: float
    at_most: bool = False
    scale: float = 1.0
    range: tuple[float, float] | None = None
    quantile: float | None = None
    in_every_segment: bool = False
    of: str | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        threshold = Threshold(
            self.bound,
            self.at_most,
            self.quantile,
            self.in_every_segment,
            self.tolerance,
        )
        if self.of is not None:
            Within(self.bound, self.of)
            self._check_relative()
        like = Objective(self.metric, self.at_most, self.range)
        scale = check_number(
            "a constraint's scale", self.scale, SMALLEST_RANGE, 2 * LARGEST
        )
        vars(self).update(
            vars(threshold), metric=like.metric, scale=scale, range=like.range
        )
        self._check_bound()

    def _check_bound(self) -> None:
        """Check that the bound is within the range of the metric, or the margin is less than the width of the range."""
        span = (0.0, 1.0) if self.metric == FAILURE_RATE else self.range
        if span is None:
            return
        if self.of is not None:
            check_less_than_range(
                f"The margin of within() for {self.metric!r}", self.bound, span
            )
        elif not span[0] <= self.bound <= span[1]:
            name = "at_most()" if self.at_most else "at_least()"
            raise InvalidArgumentError(
                f"The bound of {name} on {self.metric!r} must be within the range of the metric, [{exact(span[0])}, "
                f"{exact(span[1])}], got {exact(self.bound)}. Every prompt or none would satisfy it."
                f"{_percent_hint(self.bound, span, '%')}"
            )

    def _check_relative(self) -> None:
        """Check that a relative constraint applies to a mean over all examples."""
        if self.metric == FAILURE_RATE:
            raise InvalidArgumentError(
                f"{FAILURE_RATE!r} cannot be constrained by within(). Give the highest share of failed evaluations, "
                "such as asktell.at_most(0.02)."
            )
        if self.quantile is not None or self.in_every_segment:
            raise InvalidArgumentError(
                f"The relative constraint on {self.metric!r} applies to the mean over all examples. For a quantile or "
                "in_every_segment, use at_least() or at_most()."
            )

    @property
    def column(self) -> str:
        """The constrained column of the goal: the metric, or the share of examples that satisfy a quantile's bound."""
        return self.metric if self.quantile is None else self._bounded

    @property
    def _bounded(self) -> str:
        """The metric and its bound, such as "accuracy >= best - 0.02"."""
        number = exact(self.bound)
        if self.of is not None:
            number = (
                f"{self.of} {'+' if self.at_most else '-'} {number}"
                if self.bound
                else self.of
            )
        return f"{self.metric} {'<=' if self.at_most else '>='} {number}"

    def __str__(self) -> str:
        part = ""
        if self.quantile is not None:
            share = Decimal(repr(float(self.quantile)))  # in which 1 - 0.95 is 0.05
            percent = 100 * (share if self.at_most else 1 - share)
            part = f" on {percent.normalize():f}% of the examples"
        where = " in every segment" if self.in_every_segment else ""
        return f"{self._bounded}{part}{where}"


class Bound(NamedTuple):
    """A constraint on the mean of a column, in the form that the engine uses.

    The mean must be at least `bound`, or with `at_most` at most `bound`. Violations are
    in units of `scale`. With `of` ("best" or "baseline"), `bound` is added to the mean
    of that prompt.
    """

    column: int
    bound: float
    at_most: bool
    scale: float
    of: str | None = None

    @property
    def is_of_best(self) -> bool:
        """True if the bound is relative to the best prompt in the metric."""
        return self.of == BEST

    @property
    def is_of_baseline(self) -> bool:
        """True if the bound is relative to the baseline."""
        return self.of == BASELINE

    @property
    def margin(self) -> float:
        """How much worse than the mean of the reference `of` a mean may be, in units of `scale`."""
        return abs(self.bound) / self.scale


class Subset(NamedTuple):
    """A column over a subset of the examples: the mean of `column` on one kind of examples.

    The kinds are the segments, by their numbers.
    """

    column: int
    kind: int


class Share(NamedTuple):
    """A column of 0 and 1: whether a score of `metric` satisfies the bound."""

    metric: int
    bound: float
    at_most: bool

    def of(self, scores: Float[Floats, " rows"]) -> Float[Floats, " rows"]:
        """1 for each score that satisfies the bound, up to rounding, else 0."""
        off = (scores - self.bound) * (1.0 if self.at_most else -1.0)
        return np.asarray(
            off <= max(ROUNDING, SINGLE_PRECISION * abs(self.bound)), dtype=np.float64
        )


# The metric that the engine itself fills in: 1 for an evaluation that failed, else 0
FAILURE_RATE = "failure_rate"


# Averages of decimal fractions can violate a bound that they equal, by some units in
# the last place. So can scores in single precision, for example from a GPU, whose last
# place is 6e-8 of the score.
ROUNDING = 1e-12


SINGLE_PRECISION = 1e-7


def _positive(name: str, tolerance: object) -> float | None:
    """Check that a tolerance is a finite number above 0, or None."""
    if tolerance is None:
        return None
    return check_number(name, tolerance, 0.0, LARGEST, above=True)


def checked_tolerance(
    metric: str, tolerance: object, span: tuple[float, float] | None
) -> float | None:
    """The tolerance of a metric as a float, after a check. `span`: the metric's range, if it is known."""
    name = f"The tolerance for {metric!r}"
    checked = _positive(name, tolerance)
    if checked is not None and span is not None:
        check_less_than_range(name, checked, span)
    return checked


def check_less_than_range(name: str, margin: float, span: tuple[float, float]) -> None:
    """Check that a margin or a tolerance is less than the width of a metric's range, since any two scores are as close.

    Raises:
        InvalidArgumentError: it is not. The message suggests the number that was
            probably meant.
    """
    width = span[1] - span[0]
    if margin >= width:
        raise InvalidArgumentError(
            f"{name} must be less than the width of the metric's range, {exact(width)}, got {exact(margin)}. No two "
            f"scores differ by more.{_percent_hint(margin, span, ' points')}"
        )


def _percent_hint(number: float, span: tuple[float, float], unit: str) -> str:
    """The sentence for a number that was probably meant in percent of a range from 0 to 1."""
    if span != (0.0, 1.0) or not 1.0 <= number <= 100.0:
        return ""
    share = Decimal(repr(float(number))) / 100
    return f" For {exact(number)}{unit}, write {share.normalize():f}."
