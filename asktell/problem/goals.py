"""Goals: the best feasible prompt, or the Pareto set.

Scores, estimates and saved files keep each metric in its own units and direction.
Directions, bounds and scales are used only here: a goal turns means into `values`,
where larger is better.
"""

import contextlib
import math
import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, final

import numpy as np

from asktell.errors import (
    IncompatibleMethodError,
    InvalidArgumentError,
    InvalidScoresError,
)
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.problem.checks import (
    LARGEST,
    SMALLEST_RANGE,
    check_flag,
    check_number,
    check_part,
    finite,
    is_nan,
    real,
)
from asktell.problem.words import exact, nearest, short, some

_RESOURCES = """
cost costs price prices fee fees expense expenses money spend spending usd eur dollars
cents energy emissions carbon
latency latencies delay delays duration durations time times runtime walltime elapsed
seconds secs sec ms milliseconds minutes hours ttft tpot
tokens length size words characters chars bytes calls requests steps turns retries
memory
"""
_FAULTS = """
error errors err loss losses logloss nll perplexity perplexities ppl entropy distance
distances divergence regret brier ece mse rmse mae mape msle rmsle
wer cer ter eer fpr fnr
toxicity harm harms harmfulness bias risk risks hallucination hallucinations
violation violations penalty penalties failure failures mistake mistakes defects bugs
timeouts crashes
"""

# Words in the names of metrics where less is usually better, such as `cost`,
# `latency_ms` or `outputTokens`
LESS_IS_BETTER = frozenset((_RESOURCES + _FAULTS).split())

_REVERSE = """
free no non not without low lower neg negative negated inverse inv minus anti
efficiency efficient effectiveness savings saving saved reduction improvement
accuracy correct correctness precision recall f1 success pass passed quality
reward utility satisfaction detection detected avoidance avoided resistance
robustness tolerance recovery handling correction corrected compliance completed
"""

# Words that reverse the meaning of these words, such as in `error_free`,
# `neg_mean_squared_error`, `cost_efficiency` or `error_detection`
_REVERSING = frozenset(_REVERSE.split())
# A score of a resource, such as `latency_score`, is usually larger if less is used. A
# score of a fault, such as `toxicity_score`, is not.
_RATING = frozenset(("score", "scores", "rating", "grade"))


def less_may_be_better(metric: str) -> bool:
    """True if a metric's name suggests that less is better, because it contains a word such as "cost" or "latency".

    `asktell.problem.goals.LESS_IS_BETTER` lists the words. A word that reverses the
    meaning, as in "error_free" or "cost_efficiency", makes it False.
    """
    words = _words(metric)
    if not _REVERSING.isdisjoint(words):
        return False
    if not _RATING.isdisjoint(words):
        return not words.isdisjoint(_FAULTS.split())
    return not words.isdisjoint(LESS_IS_BETTER)


def _words(metric: str) -> set[str]:
    """The words in the name of a metric, in small letters."""
    parts = re.findall(r"[fF]1|[A-Z]?[a-z]+|[A-Z]+(?![a-z])", metric)
    return {part.lower() for part in parts}


def is_expense(metric: str) -> bool:
    """True if a metric's name suggests an amount that is spent, such as "cost", "latency_ms" or "output tokens".

    An example on which a prompt spends more is not broken, so such a metric is not
    compared example by example unless somebody asks for it.
    """
    words = _words(metric)
    is_spent = not words.isdisjoint(_RESOURCES.split())
    return is_spent and words.isdisjoint(_REVERSING | _RATING)


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
        tolerance = _checked_tolerance(self.metric, self.tolerance, self.range)
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
    """An objective to minimize, such as latency or cost. The arguments and errors are those of `maximize`.

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
    """Require that a metric's mean is at most `bound`. The arguments and errors are those of `at_least`.

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
    def margin(self) -> float:
        """How much worse than the mean of the reference `of` a mean may be, in units of `scale`."""
        return abs(self.bound) / self.scale


class Subset(NamedTuple):
    """A column over a subset of the examples: the mean of `column` on one kind of examples.

    The kinds are the segments, by their numbers.
    """

    column: int
    kind: int


class _Share(NamedTuple):
    """A column of 0 and 1: whether a score of `metric` satisfies the bound."""

    metric: int
    bound: float
    at_most: bool

    def of(self, scores: Float[Floats, " rows"]) -> Float[Floats, " rows"]:
        """1 for each score that satisfies the bound, up to rounding, else 0."""
        off = (scores - self.bound) * (1.0 if self.at_most else -1.0)
        return np.asarray(
            off <= max(_ROUNDING, _SINGLE * abs(self.bound)), dtype=np.float64
        )


# The metric that the engine itself fills in: 1 for an evaluation that failed, else 0
FAILURE_RATE = "failure_rate"


Scores: TypeAlias = Mapping[str, float] | Sequence[float] | float

SubjectTo: TypeAlias = (
    Mapping[str | Objective, float | Threshold | Within] | Sequence[Constraint]
)
"""The constraints of a goal: a mapping from metric to bound."""

# Rounding can put a score slightly outside its range. Up to this share of the range's
# width, it counts as the end.
_AT_THE_LIMIT = 1e-9

# Averages of decimal fractions can violate a bound that they equal, by some units in
# the last place. So can scores in single precision, for example from a GPU, whose last
# place is 6e-8 of the score.
_ROUNDING = 1e-12
_SINGLE = 1e-7


class Goal(ABC):
    """The goal of a selection: the best `objectives` among the prompts that satisfy all `constraints`.

    Attributes:
        metrics: the names of the metrics in the order of a score vector: first the
            objectives, then other metrics.
        columns: the c quantities whose means are estimated for every prompt. The
            metrics come first. Then each constraint on a quantile has a column: the
            share of examples whose score satisfies the bound. "failure_rate" comes
            last, if it is constrained.
        bounds: the constraints, each as a bound on the mean of one of the columns.
        by_segment: the columns whose worst segment counts.
        subsets: further columns, the means of `by_segment` in each segment. Empty
            without segments. An array of means has a row for each prompt. Its columns
            are first the c `columns`, then these.
        worst_of: for each objective, then for each constraint, the columns of which the
            worst counts. Without segments it is a single column.
        ranges: the lowest and the highest score of each column with a known range.
        tolerances: for each column with a stated tolerance, the difference that does
            not matter, in the units of the column.
        value_tolerances: the same for each of the q `values`, in their units, shape
            (q,). For an objective, it is a difference of two values, and for a
            constraint the size of a violation. 0 where no tolerance was stated.
        baseline: the position of the baseline among the prompts, from 0. A constraint
            `within(..., of="baseline")` compares with this prompt. None if there is no
            baseline.
        offsets: for each of the B constraints, the number that is added to a reference
            to get the bound, shape (B,). The reference of a `within` constraint is the
            mean of the best prompt or of the baseline. The reference of any other
            constraint is 0, so its number is the bound itself.
    """

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    metrics: tuple[str, ...]
    columns: tuple[str, ...]
    bounds: tuple[Bound, ...]
    by_segment: tuple[int, ...]
    subsets: tuple[Subset, ...]
    worst_of: tuple[tuple[int, ...], ...]
    # For each objective, then for each constraint, its column over all examples
    _overall: tuple[int, ...]
    baseline: int | None
    offsets: Float[Floats, " constraints"]
    ranges: Mapping[str, tuple[float, float]]
    tolerances: Mapping[str, float]
    value_tolerances: Float[Floats, " values"]
    _shares: tuple[_Share, ...]
    _weights: tuple[float, ...]  # of the objectives' columns
    _title: ClassVar[str] = ""

    def _settle(
        self,
        objectives: tuple[Objective, ...],
        weights: tuple[float, ...],
        subject_to: object,
    ) -> None:
        """Set all attributes. `weights` turn the means of the objectives into values, where larger is better."""
        constraints = _constraints(subject_to, objectives)
        parts: tuple[Objective | Constraint, ...] = (*objectives, *constraints)
        metrics, columns = _names(objectives, constraints)
        bounds = tuple(_bound(c, columns) for c in constraints)
        judged = [columns.index(o.metric) for o in objectives]
        judged += [bound.column for bound in bounds]
        by_segment = [
            column
            for column, is_worst in zip(
                judged, _counts_worst_segment(*parts), strict=True
            )
            if is_worst
        ]
        # Two constraints on one quantile of a metric share a column.
        tails = {c.column: c for c in constraints if c.quantile is not None}
        shares = tuple(
            _Share(metrics.index(c.metric), c.bound, c.at_most) for c in tails.values()
        )
        # The columns behind the metrics are shares, from 0 to 1.
        ranges = _ranges(parts) | dict.fromkeys(columns[len(metrics) :], (0.0, 1.0))
        tolerances = _tolerances(parts, ranges)
        # One of each value, in units of its column
        units = [*(1.0 / weight for weight in weights), *(b.scale for b in bounds)]
        vars(self).update(
            objectives=objectives,
            constraints=constraints,
            metrics=metrics,
            columns=columns,
            ranges=ranges,
            tolerances=tolerances,
            value_tolerances=np.array(
                [
                    tolerances.get(columns[column], 0.0) / abs(unit)
                    for column, unit in zip(judged, units, strict=True)
                ],
                dtype=np.float64,
            ),
            bounds=bounds,
            offsets=np.array([bound.bound for bound in bounds], dtype=np.float64),
            by_segment=tuple(dict.fromkeys(by_segment)),
            subsets=(),
            worst_of=tuple((column,) for column in judged),
            baseline=None,
            _overall=tuple(judged),
            _shares=shares,
            _weights=weights,
        )

    def __str__(self) -> str:
        # A tolerance follows the first mention of its column.
        left = dict(self.tolerances)

        def in_words(part: Objective | Constraint, column: str) -> str:
            tolerance = left.pop(column, None)
            return str(part) + (
                "" if tolerance is None else f" (tolerance {exact(tolerance)})"
            )

        objectives = [
            in_words(objective, objective.metric) for objective in self.objectives
        ]
        bounds = [
            in_words(constraint, constraint.column) for constraint in self.constraints
        ]
        subject_to = f" subject to {', '.join(bounds)}" if bounds else ""
        return self._title + ", ".join(objectives) + subject_to

    @property
    def is_constrained(self) -> bool:
        """True if the goal has a constraint."""
        return bool(self.constraints)

    @property
    def counts_failures(self) -> bool:
        """True if the failure rate is constrained. Then it is the last of `goal.columns`."""
        return self.columns[-1] == FAILURE_RATE

    def with_segments(self, n: int) -> Self:
        """The same goal, for a dataset with `n` segments. `Selector` calls this method.

        If the worst segment of a metric counts (`worst_segment`, `in_every_segment`),
        the metric gets `n` more columns: its mean in each segment. In arrays of means,
        these columns follow `goal.columns`. `goal.subsets` has a pair for each of them:
        the position in `goal.columns`, and the position of the segment, both from 0.
        """
        subsets = tuple(Subset(j, g) for j in self.by_segment for g in range(n))
        parts: list[Objective | Constraint] = [*self.objectives, *self.constraints]
        worst_of = []
        for j, is_worst in zip(
            self._overall, _counts_worst_segment(*parts), strict=True
        ):
            places = enumerate(subsets, len(self.columns))
            segments = tuple(place for place, subset in places if subset.column == j)
            worst_of.append(segments if is_worst else (j,))
        goal = copy(self)
        vars(goal).update(subsets=subsets, worst_of=tuple(worst_of))
        return goal

    def with_baseline(self, arm: int | None) -> Self:
        """The same goal, with the position of the baseline. `Selector` calls this method.

        Args:
            arm: the row of the baseline in arrays of means, from 0. None without a
                baseline.

        Raises:
            InvalidArgumentError: a constraint is relative to the baseline, and `arm` is
                None.
        """
        needing = next((str(c) for c in self.constraints if c.of == BASELINE), None)
        if needing is not None and arm is None:
            raise InvalidArgumentError(
                f"The constraint {needing!r} needs a baseline, the prompt in use. State its id as the baseline, or "
                "compare with the best prompt: asktell.within(X), in a file 'within X of best'."
            )
        goal = copy(self)
        vars(goal)["baseline"] = arm
        return goal

    @property
    def is_relative(self) -> bool:
        """True if a constraint is relative to another prompt's mean (`within`)."""
        return any(bound.of is not None for bound in self.bounds)

    def resolved(
        self,
        means: Float[Floats, "... arms columns"],
        among: Int[Ints, " rivals"] | None = None,
    ) -> Float[Floats, "... constraints"]:
        """The bounds of the B constraints, in the units of their metrics.

        A bound of `within(...)` depends on the mean of the best prompt or of the
        baseline. So the bounds are computed separately for each set of means, such as
        each draw of a posterior. The bound of a constraint on a quantile is a share of
        the examples, from 0 to 1.

        Args:
            means: the means of all K prompts in the c columns `goal.columns`, shape
                (..., K, c).
            among: the positions of the prompts that can be the best prompt of `within`.
                None or an empty array: every prompt can.

        Returns:
            The bounds, shape (..., B). A bound is NaN if the prompts that it depends on
            have no mean. Without a constraint of `within`, the bounds are the same for
            all means, and their shape is (B,).
        """
        if not self.is_relative:
            return self.offsets
        bounds = np.empty((*means.shape[:-2], len(self.bounds)))
        for k, bound in enumerate(self.bounds):
            column = means[..., bound.column]
            if bound.of is None:
                reference: Any = 0.0
            elif bound.of == BASELINE:
                reference = column[..., self.baseline]
            else:
                rivals = (
                    column if among is None or not len(among) else column[..., among]
                )
                reference = (
                    np.fmin.reduce(rivals, axis=-1)
                    if bound.at_most
                    else np.fmax.reduce(rivals, axis=-1)
                )
            bounds[..., k] = reference + bound.bound
        return bounds

    def limits(self, column: str) -> tuple[float, float] | None:
        """The lowest and the highest possible value of one of `goal.columns`, in its units. None if they are unknown.

        They are known for an objective with a declared range, and for shares, such as
        the failure rate. They are None for a metric that is only constrained.
        `goal.ranges` also has the ranges of these metrics.
        """
        if column not in self.metrics:
            return self.ranges[column]
        return next((o.range for o in self.objectives if o.metric == column), None)

    @property
    def minimized(self) -> frozenset[str]:
        """The metrics where less is better.

        These are the minimized objectives, and metrics that have an upper bound and are
        no objectives.
        """
        wanted = {o.metric: o.minimize for o in self.objectives}
        bounded = {
            c.metric for c in self.constraints if c.at_most and c.metric not in wanted
        }
        return frozenset(
            {metric for metric, is_less in wanted.items() if is_less} | bounded
        )

    def values(
        self,
        means: Float[Floats, "active columns"],
        bounds: Float[Floats, "... constraints"] | None = None,
    ) -> Float[Floats, "active values"]:
        """Turn means into values where larger is better.

        A prompt gets one value for each objective, then one for each constraint:

        - The value of an objective is its mean. If the objective is minimized, the
          value is minus the mean. For a `ParetoSet`, it is divided by the width of the
          objective's range, if a range is declared.
        - The value of a constraint is its slack: how far the mean is on the allowed
          side of the bound. The slack is 0 or more if the prompt satisfies the
          constraint. It is divided by the `scale` of the constraint in
          `goal.constraints`, which is the width of the metric's range, or 1 without a
          range. For a quantile, mean and bound are shares of the examples, and the
          scale is 1.

        If the worst segment counts, the value is that of the prompt's worst segment.

        Args:
            means: the means of A prompts in the c columns `goal.columns`, shape (A, c).
                With segments, the columns of `goal.subsets` may follow. Without these
                columns, the mean over all examples counts instead of the worst segment.
            bounds: the bounds from `resolved`: shape (B,), or (A, B) with the bounds of
                each row. None: they are computed from `means`, which must then have a
                row for every prompt. If the rows are scores of single evaluations
                instead of means, pass `goal.offsets`. The slack of a `within`
                constraint then lacks its reference, the mean of the best prompt or of
                the baseline. So do not use such a slack itself. Use only the difference
                between the slacks of two prompts, in which the reference cancels out.

        Returns:
            The values, shape (A, q). q is the number of objectives and constraints.
        """
        values = []
        for k, weight in enumerate(self._weights):
            values.append(
                np.min([mean * weight for mean in self._counted(means, k)], 0)
            )
        bounds = self.resolved(means) if bounds is None else bounds
        for k, b in enumerate(self.bounds):
            bound, sign = bounds[..., k], -1.0 if b.at_most else 1.0
            rounding = np.maximum(_ROUNDING, _SINGLE * np.abs(bound))
            slacks = []
            for mean in self._counted(means, len(self._weights) + k):
                slack = (mean - bound) * sign
                # A mean that equals its bound satisfies it, whatever the rounding.
                slacks.append(np.where(np.abs(slack) <= rounding, 0.0, slack))
            values.append(np.min(slacks, axis=0) / b.scale)
        return np.stack(values, axis=1)

    def _counted(
        self, means: Float[Floats, "active columns"], k: int
    ) -> list[Float[Floats, " active"]]:
        """The columns of the means of which the worst counts in the k-th value."""
        has_subsets = means.shape[1] > len(self.columns)
        counted = self.worst_of[k] if has_subsets else self._overall[k : k + 1]
        return [means[:, j] for j in counted]

    def complete(
        self, scores: Float[Floats, "rows metrics"]
    ) -> Float[Floats, "rows columns"]:
        """Add the columns that are no metrics to the scores of successful evaluations.

        There is a column for each constraint on a quantile: 1 if the score satisfies
        the bound, else 0. If the failure rate is constrained, a column of zeros
        follows.

        Args:
            scores: n evaluations, with a column for each of the m metrics in
                `goal.metrics`, shape (n, m).

        Returns:
            The same with the c columns `goal.columns`, shape (n, c).
        """
        more = [share.of(scores[:, share.metric]) for share in self._shares]
        more += [np.zeros(len(scores))] * self.counts_failures
        return np.column_stack((scores, *more)) if more else scores

    def vector(self, scores: object, failed: bool = False) -> tuple[float, ...]:
        """The scores of one evaluation as floats, in the order of `goal.columns`.

        Args:
            scores: a mapping from metric to number, or numbers in the order of
                `goal.metrics`. With one metric, also a number. Other keys of a mapping
                are ignored.
            failed: True if the scores stand for a failed evaluation (see `on_failure`
                of the `Selector`).

        Raises:
            InvalidScoresError: a metric is missing, a score is NaN, infinite, not a
                number or outside the range of its metric, or the number of scores is
                wrong.
        """
        items = _ordered_scores(scores, self.metrics)
        values = tuple(
            [
                _score(name, item, self.ranges.get(name))
                for name, item in zip(self.metrics, items, strict=True)
            ]
        )
        if len(self.columns) == len(self.metrics):
            return values
        whole: list[float] = self.complete(np.array([values]))[0].tolist()
        return (*whole[:-1], float(failed)) if self.counts_failures else tuple(whole)


@final
@dataclass(frozen=True, init=False)
class BestFeasible(Goal):
    """Goal: the prompt with the best mean of one metric among the prompts that satisfy every constraint.

    Without constraints, this is simply the best prompt.

        >>> import asktell
        >>> print(asktell.BestFeasible("rouge"))
        maximize rouge
        >>> print(asktell.BestFeasible("rouge", subject_to={"brevity": 0.5, "latency": asktell.at_most(2.0)}))
        maximize rouge subject to brevity >= 0.5, latency <= 2

    Args:
        objective: the metric to optimize. A name stands for a metric to maximize. For
            other cases, pass `maximize(...)` or `minimize(...)`.
        subject_to: the constraints, as a mapping from metric to bound. A bound is
            `at_least(...)`, `at_most(...)`, `within(...)` or a number. A number is the
            lowest allowed mean. If less is better, the number is the highest allowed
            mean. This is the case for the key `minimize("latency")`, and for the name
            of a minimized objective. To declare the range of the scores, use a key such
            as `maximize("brevity", range=(0, 1))`. The key "failure_rate" constrains
            the share of evaluations that fail, as in `{"failure_rate":
            asktell.at_most(0.02)}`.
        sure: a probability above 0 and below 1. The best prompt is selected among the
            prompts that satisfy every constraint with at least this probability on
            unseen examples. If no prompt does, the prompt with the highest probability
            is selected. None (default): a high mean and a high probability of
            satisfying the constraints are weighed against each other. Only the method
            "auto" supports `sure`. With another method, `Selector` raises an
            IncompatibleMethodError.

    Attributes:
        metrics: the names of the metrics, the objectives first.
        columns: the quantities whose means are estimated for each prompt. These are the
            metrics, then for each constraint on a quantile the share of examples that
            satisfy its bound, then "failure_rate" if it is constrained.
        constraints: an object for each entry of `subject_to`. `metric` is the name of
            its metric, and `range` is the declared range, or None. `bound` is the
            bound, or the margin of `within`. `at_most` is True if the mean must be at
            most the bound, and False if it must be at least the bound. `quantile` and
            `in_every_segment` are the arguments of the bound. `of` is the argument of
            `within`, and None for other bounds. `scale` is described at `values`.
        ranges: the lowest and the highest possible value of each column, as far as they
            are known.
        tolerances: the difference that does not matter for each column, as far as it
            was stated, in the units of the column.

    For some names, a number is refused as a bound, because it could be the lowest or
    the highest allowed mean. These are the names that contain a word such as "cost",
    "latency", "tokens" or "toxicity", except for the name of the objective. For such a
    metric, write `at_most(...)`, or use the key `minimize("cost")`.
    `asktell.problem.goals.LESS_IS_BETTER` lists the words.

    Raises:
        InvalidArgumentError: the objective or a bound is invalid, it is unclear whether
            a number is the lowest or the highest allowed mean, or `sure` is given
            without constraints.
    """

    objective: Objective
    constraints: tuple[Constraint, ...]
    sure: float | None = None

    def __init__(
        self,
        objective: str | Objective,
        subject_to: SubjectTo = (),
        sure: float | None = None,
    ) -> None:
        vars(self)["objective"] = _directed(objective)
        self._settle((self.objective,), (self.objective.sign,), subject_to)
        if sure is not None:
            sure = check_part("`sure`", sure)
            if not self.constraints:
                raise InvalidArgumentError(
                    "sure=... requires constraints: BestFeasible(..., subject_to={...}, sure=0.95)."
                )
        vars(self)["sure"] = sure

    def __str__(self) -> str:
        return super().__str__() + (
            f", kept with probability {self.sure:g}" if self.sure is not None else ""
        )


@final
@dataclass(frozen=True, init=False)
class ParetoSet(Goal):
    """Goal: every prompt that no other prompt dominates.

    A prompt dominates another prompt if it is at least as good in every objective and
    better in at least one. With constraints, the Pareto set of the prompts that satisfy
    every constraint is selected. If no prompt does, the prompt that violates its
    constraints least is selected.

        >>> import asktell
        >>> print(asktell.ParetoSet("rouge", asktell.minimize("cost"), subject_to={"toxicity": asktell.at_most(0.1)}))
        Pareto set: maximize rouge, minimize cost subject to toxicity <= 0.1

    Args:
        objectives: the metrics to optimize. A name stands for a metric to maximize. For
            other cases, pass `maximize(...)` or `minimize(...)`.
        subject_to: the constraints, on the objectives or on other metrics. See
            `BestFeasible`.

    Attributes:
        metrics: the names of the metrics, the objectives first.
        columns: the quantities whose means are estimated for each prompt. These are the
            metrics, then for each constraint on a quantile the share of examples that
            satisfy its bound, then "failure_rate" if it is constrained.
        constraints: an object for each entry of `subject_to`. `metric` is the name of
            its metric, and `range` is the declared range, or None. `bound` is the
            bound, or the margin of `within`. `at_most` is True if the mean must be at
            most the bound, and False if it must be at least the bound. `quantile` and
            `in_every_segment` are the arguments of the bound. `of` is the argument of
            `within`, and None for other bounds. `scale` is described at `values`.
        ranges: the lowest and the highest possible value of each column, as far as they
            are known.
        tolerances: the difference that does not matter for each column, as far as it
            was stated, in the units of the column.

    The Pareto set does not depend on the units of the metrics. But methods with rounds
    eliminate prompts in an order that depends on the units. For these methods, declare
    a range if the metrics have very different scales, such as `minimize("latency",
    range=(0, 10))`.

    Raises:
        InvalidArgumentError: there is no objective, an objective occurs twice, a bound
            is invalid, or it is unclear whether a number is the lowest or the highest
            allowed mean.
    """

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    _title: ClassVar[str] = "Pareto set: "

    def __init__(
        self, *objectives: str | Objective, subject_to: SubjectTo = ()
    ) -> None:
        if not objectives:
            raise InvalidArgumentError(
                'ParetoSet needs at least one metric, got none. Pass names, such as ParetoSet("rouge", "brevity").'
            )
        if isinstance(objectives[-1], Mapping):
            raise InvalidArgumentError(
                f"Pass the constraints of ParetoSet by name: ParetoSet(..., subject_to={objectives[-1]!r})."
            )
        wanted = tuple(_directed(o) for o in objectives)
        names = [o.metric for o in wanted]
        if len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"ParetoSet got a metric twice: {names}. Name each metric once."
            )
        self._settle(wanted, tuple(o.sign / o.scale for o in wanted), subject_to)


def _directed(objective: str | Objective) -> Objective:
    """The objective of an argument. A bare name is refused where the direction would be a guess."""
    if not isinstance(objective, Objective) and less_may_be_better(str(objective)):
        name = str(objective)
        raise InvalidArgumentError(
            f"The objective {name!r} needs a direction, because less {name!r} is often better. Write "
            f"asktell.minimize({name!r}) or asktell.maximize({name!r}) instead of {name!r}."
        )
    return _objective(objective)


def _objective(objective: str | Objective) -> Objective:
    """The objective of an argument. A bare name is a metric to maximize."""
    if isinstance(objective, Objective):
        return objective
    if isinstance(objective, str):
        return Objective(objective)
    raise InvalidArgumentError(
        f'An objective must be a metric\'s name or asktell.minimize("name"), got {short(objective)}. '
        "Pass several objectives as separate arguments."
    )


def _constraints(
    subject_to: object, objectives: tuple[Objective, ...]
) -> tuple[Constraint, ...]:
    """The constraints of `subject_to`. A name of an objective has the direction and the range of the objective."""
    if isinstance(subject_to, Mapping):
        by_metric = {o.metric: o for o in objectives}
        _check_unit_of_tolerance(subject_to, by_metric)
        named = [
            (by_metric.get(m, m) if isinstance(m, str) else m, bound)
            for m, bound in subject_to.items()
        ]
        constraints = tuple(_constraint(metric, bound) for metric, bound in named)
        for constraint in constraints:
            if (
                constraint.of is not None
                and constraint.metric in by_metric
                and by_metric[constraint.metric].minimize != constraint.at_most
            ):
                raise InvalidArgumentError(
                    f"The constraint {str(constraint)!r} and the objective {str(by_metric[constraint.metric])!r} have "
                    "opposite directions. Use the metric's name as key: "
                    f"subject_to={{{constraint.metric!r}: asktell.within({exact(constraint.bound)})}}."
                )
        return constraints
    if isinstance(subject_to, Sequence) and all(
        isinstance(c, Constraint) for c in subject_to
    ):
        return tuple(subject_to)
    raise InvalidArgumentError(
        f'subject_to must be a mapping from metric to bound, such as {{"brevity": 0.5}}, got {short(subject_to)}.'
    )


def _constraint(metric: str | Objective, bound: object) -> Constraint:
    """The constraint of one entry of `subject_to`.

    A number is a bound in the direction of the metric. It is refused where the
    direction would be a guess.
    """
    objective = _objective(metric)
    if isinstance(bound, Within):
        return _relative(metric, objective, bound)
    if not isinstance(bound, Threshold):
        value = finite(f"the bound on {objective.metric!r}", bound)
        if not isinstance(metric, Objective) and less_may_be_better(objective.metric):
            name = objective.metric
            raise InvalidArgumentError(
                f"The constraint on {name!r} needs a direction, because less {name!r} is often better. Got "
                f"subject_to={{{name!r}: {bound!r}}}. Write asktell.at_most({bound!r}) or asktell.at_least({bound!r}) "
                "instead of the number."
            )
        bound = Threshold(value, at_most=objective.minimize)
    if objective.metric == FAILURE_RATE and (
        not bound.at_most or bound.quantile is not None
    ):
        raise InvalidArgumentError(
            f"{FAILURE_RATE!r} needs an upper bound on its mean. Write, for example, "
            "asktell.at_most(0.02)."
        )
    return Constraint(
        objective.metric,
        bound.bound,
        bound.at_most,
        objective.scale,
        objective.range,
        bound.quantile,
        bound.in_every_segment,
        tolerance=_one_tolerance(objective, bound),
    )


def _check_unit_of_tolerance(
    subject_to: Mapping[Any, object], objectives: Mapping[str, Objective]
) -> None:
    """Check that no tolerance in the metric's units is given for a bound on a quantile, where it is a share."""
    for key, bound in subject_to.items():
        if (
            isinstance(bound, Threshold)
            and bound.quantile is not None
            and isinstance(key, Objective)
            and key.tolerance is not None
            and key.metric not in objectives
        ):
            raise InvalidArgumentError(
                f"The tolerance for {key.metric!r} is in the metric's units, but the constraint is on a quantile. "
                "There the tolerance is a share of the examples. Give it with the bound, such as "
                f"at_most({exact(bound.bound)}, quantile={exact(bound.quantile)}, tolerance=0.01)."
            )


def _one_tolerance(objective: Objective, bound: Threshold | Within) -> float | None:
    """The tolerance of a bound, else of its metric. For a bound on a quantile, only its own."""
    of_metric, of_bound = objective.tolerance, bound.tolerance
    if isinstance(bound, Threshold) and bound.quantile is not None:
        return of_bound
    if of_metric is not None and of_bound is not None and of_metric != of_bound:
        raise _two_tolerances(objective.metric, of_metric, of_bound)
    return of_metric if of_bound is None else of_bound


def _relative(
    metric: str | Objective, objective: Objective, bound: Within
) -> Constraint:
    """The constraint of an entry with `within`, in the direction of its key."""
    name = objective.metric
    if (
        not isinstance(metric, Objective)
        and name != FAILURE_RATE
        and less_may_be_better(name)
    ):
        raise InvalidArgumentError(
            f"The constraint on {name!r} needs a direction, because less {name!r} is often better. Got subject_to="
            f"{{{name!r}: within({exact(bound.margin)})}}. Write asktell.minimize({name!r}) or "
            f"asktell.maximize({name!r}) instead of {name!r}."
        )
    return Constraint(
        name,
        bound.margin,
        objective.minimize,
        objective.scale,
        objective.range,
        of=bound.of,
        tolerance=_one_tolerance(objective, bound),
    )


def _bound(c: Constraint, columns: Sequence[str]) -> Bound:
    """The bound of a constraint on a column.

    A bound x on the quantile q is a bound on a share: a share of q of the examples is at
    most x, or a share of 1 - q is at least x.
    """
    at = columns.index(c.column)
    if c.of is not None:
        return Bound(at, c.bound if c.at_most else -c.bound, c.at_most, c.scale, c.of)
    if c.quantile is None:
        return Bound(at, c.bound, c.at_most, c.scale)
    share = c.quantile if c.at_most else 1.0 - c.quantile
    return Bound(at, share, at_most=False, scale=1.0)


def _names(
    objectives: Sequence[Objective], constraints: Sequence[Constraint]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the metrics, and of all columns: metrics, shares of quantiles, failure rate."""
    if any(o.metric == FAILURE_RATE for o in objectives):
        raise InvalidArgumentError(
            f"{FAILURE_RATE!r} cannot be an objective. Constrain it, for example by at_most(0.02)."
        )
    # In the order of their first mention, each once.
    names = dict.fromkeys([o.metric for o in objectives])
    names |= dict.fromkeys([c.metric for c in constraints])
    metrics = tuple(name for name in names if name != FAILURE_RATE)
    tails = dict.fromkeys(c.column for c in constraints if c.quantile is not None)
    columns = (*metrics, *tails)
    if FAILURE_RATE in names:
        columns = (*columns, FAILURE_RATE)
    if len(set(columns)) < len(columns):
        raise InvalidArgumentError(
            f"A metric has the name of a constraint on a quantile. Rename it: {list(columns)}."
        )
    return metrics, columns


def _ranges(parts: Sequence[Objective | Constraint]) -> dict[str, tuple[float, float]]:
    """The range of each metric that has one."""
    ranges: dict[str, tuple[float, float]] = {}
    for part in parts:
        if part.range is None:
            continue
        first = ranges.setdefault(part.metric, part.range)
        if first != part.range:
            raise InvalidArgumentError(
                f"The metric {part.metric!r} has two ranges, {first} and {part.range}. Give one range."
            )
    return ranges


def _tolerances(
    parts: Sequence[Objective | Constraint],
    ranges: Mapping[str, tuple[float, float]],
) -> dict[str, float]:
    """The tolerance of each column that has one, in the units of the column."""
    tolerances: dict[str, float] = {}
    for part in parts:
        if part.tolerance is None:
            continue
        name = part.metric if isinstance(part, Objective) else part.column
        # A range may be declared elsewhere in the goal.
        _checked_tolerance(name, part.tolerance, ranges.get(name))
        first = tolerances.setdefault(name, part.tolerance)
        if first != part.tolerance:
            raise _two_tolerances(name, first, part.tolerance)
    return tolerances


def _two_tolerances(name: str, first: float, second: float) -> InvalidArgumentError:
    """The error for a metric with two tolerances."""
    return InvalidArgumentError(
        f"The metric {name!r} has two tolerances, {exact(first)} and {exact(second)}. Give one tolerance."
    )


def _positive(name: str, tolerance: object) -> float | None:
    """Check that a tolerance is a finite number above 0, or None."""
    if tolerance is None:
        return None
    return check_number(name, tolerance, 0.0, LARGEST, above=True)


def _checked_tolerance(
    metric: str, tolerance: object, span: tuple[float, float] | None
) -> float | None:
    """The tolerance of a metric as a float, after a check. `span`: the metric's range, if it is known."""
    name = f"The tolerance for {metric!r}"
    checked = _positive(name, tolerance)
    if checked is not None and span is not None:
        check_less_than_range(name, checked, span)
    return checked


def _counts_worst_segment(*parts: Objective | Constraint) -> list[bool]:
    """For each part of a goal, whether its worst segment counts."""
    return [
        part.worst_segment if isinstance(part, Objective) else part.in_every_segment
        for part in parts
    ]


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


# Kinds of scores that need no look for names
_PLAIN = frozenset({dict, list, tuple, float, int})
# Where data classes, models of pydantic, structs of msgspec and classes of attrs list
# their fields
_FIELDS = (
    "__dataclass_fields__",
    "model_fields",
    "__struct_fields__",
    "__attrs_attrs__",
)


def by_name(scores: object) -> object:
    """Scores that have names, as a mapping from name to score. Other scores are returned as they are.

    A position would silently give a score to the wrong metric, for example if a row of
    a table has its columns in another order. Rows of data frames and databases, named
    tuples, data classes, models of pydantic, classes of attrs and structured scalars of
    numpy have names.
    """
    kind = type(scores)
    if kind in _PLAIN or isinstance(scores, Mapping | type):
        return scores
    names = getattr(getattr(scores, "dtype", None), "names", None)
    if names is not None and getattr(scores, "ndim", 0) == 0:
        return {name: scores[name] for name in names}  # type: ignore[index]
    if callable(getattr(scores, "_asdict", None)):
        return dict(scores._asdict())  # type: ignore[attr-defined]
    if hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        return _scores_by_key(scores)
    for attribute in _FIELDS:
        if fields := getattr(kind, attribute, None):
            fields = [getattr(field, "name", field) for field in fields]
            return {name: getattr(scores, name) for name in fields}
    return scores


def _scores_by_key(scores: Any) -> object:
    """The scores of an object with keys, such as a row of a database. A series that is only numbered is a list."""
    keys = list(scores.keys())
    by_key = {key: scores[key] for key in keys}
    if len(by_key) < len(keys):
        raise InvalidScoresError(
            f"Two scores have the same name. Got the names {some(keys)}. Give each column its own name."
        )
    return list(by_key.values()) if keys == list(range(len(keys))) else by_key


def _ordered_scores(scores: object, metrics: Sequence[str]) -> list[Any]:
    """The scores in the order of the metrics, not checked one by one yet."""
    if type(scores) is float and len(metrics) == 1:
        return [scores]
    scores = by_name(scores)
    if isinstance(scores, np.ndarray) and scores.ndim:
        # Not `tolist`, which turns durations of some units into whole numbers
        scores = list(scores)
    if isinstance(scores, Mapping):
        if missing := [name for name in metrics if name not in scores]:
            unknown = [name for name in scores if name not in metrics]
            got = ""
            if unknown:
                got = f" Got [{some(unknown)}]{nearest(unknown[0], missing)}."
            raise InvalidScoresError(
                f"Scores must have the metrics {list(metrics)}, but they lack {missing}.{got}"
            )
        return [scores[name] for name in metrics]
    if isinstance(scores, Sequence) and not isinstance(
        scores, str | bytes | bytearray | memoryview
    ):
        if len(scores) != len(metrics):
            raise InvalidScoresError(
                f"Expected {len(metrics)} scores in the order {list(metrics)}, but the number of scores is "
                f"{len(scores)}. Pass one number per metric, or a mapping from metric to number."
            )
        return list(scores)
    if len(metrics) == 1 and real(scores) is not None:
        return [scores]
    bare = ", or a number" if len(metrics) == 1 else ""
    raise InvalidScoresError(
        f"Scores must be a mapping from metric to number, or a sequence in the order {list(metrics)}{bare}. Got "
        f"{short(scores)} ({type(scores).__name__})."
    )


def _score(name: str, item: Any, span: tuple[float, float] | None) -> float:
    """Check one score, and return it as a float."""
    # Nearly all scores are floats already.
    if type(item) is not float:
        value = real(item)
        if value is None:
            raise InvalidScoresError(
                f"The score of {name!r} must be a number, got {short(item)}."
            )
        if math.isnan(value) and not is_nan(item):
            raise InvalidScoresError(
                f"The score of {name!r} must be a single finite number of at most {LARGEST} in size. Got {short(item)}."
            )
        item = value
    if not -LARGEST <= item <= LARGEST:
        raise InvalidScoresError(
            f"The score of {name!r} must be a finite number of at most {LARGEST} in size. Got {short(item)}. "
            "If an evaluation has no score, report it with fail(), or raise an exception in the evaluator."
        )
    if span is not None and not span[0] <= item <= span[1]:
        rounding = _AT_THE_LIMIT * (span[1] - span[0])
        if not span[0] - rounding <= item <= span[1] + rounding:
            raise InvalidScoresError(
                f"The score of {name!r} must be within its range [{exact(span[0])}, {exact(span[1])}]. Got "
                f"{short(item)}. Check the scale of the metric."
            )
        item = min(max(item, span[0]), span[1])
    return item  # type: ignore[no-any-return]


def proxy_score(name: str, item: Any) -> float | None:
    """Check one score of a proxy. None and NaN stand for a missing score.

    Raises:
        InvalidScoresError: the score is not a number, or it is infinite.
    """
    is_missing = item is None or (isinstance(item, float) and math.isnan(item))
    return None if is_missing else _score(name, item, None)


AnyBound: TypeAlias = float | str | Mapping[str, Any]
"""A bound in a file: a number, a text such as "within 0.02 of best", or a mapping with the arguments of `at_least`."""

TYPES = ("best-feasible", "pareto-set")  # of `parse_goal`


def parse_goal(
    kind: str,
    maximize: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    at_least: Mapping[str, AnyBound] | None = None,
    at_most: Mapping[str, AnyBound] | None = None,
    ranges: Mapping[str, Sequence[float]] | None = None,
    sure: float | None = None,
    worst_segment: Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
) -> Goal:
    """Make a goal from names and numbers, as in a configuration file.

    Args:
        kind: "best-feasible" or "pareto-set".
        maximize: the name of the metric to maximize, or a list of names.
        minimize: the name of the metric to minimize, or a list of names.
        at_least: a mapping from metric to its lower bound. A bound is a number, a
            mapping such as {"bound": 2.0, "quantile": 0.95, "in_every_segment": True,
            "tolerance": 0.01}, or a text such as "within 0.02 of best" or "within 0.02 of baseline".
        at_most: a mapping from metric to its upper bound, in the same forms.
        ranges: a mapping from metric to [lowest possible score, highest possible
            score].
        sure: as in `BestFeasible`.
        worst_segment: the names of the objectives of which the worst segment counts.
        tolerances: a mapping from metric to the difference that does not matter, in the
            metric's units.

    Raises:
        InvalidArgumentError: the arguments do not fit together, such as "best-feasible"
            with two objectives, or a range of a metric that the goal does not have.
    """
    at_least, at_most, ranges = at_least or {}, at_most or {}, ranges or {}
    tolerances = tolerances or {}
    worst = {worst_segment} if isinstance(worst_segment, str) else set(worst_segment)

    def objective(metric: str, minimized: bool) -> Objective:
        return Objective(
            metric,
            minimized,
            ranges.get(metric),  # type: ignore[arg-type]  # checks it
            metric in worst,
            tolerances.get(metric),
        )

    wanted = [objective(name, minimized=False) for name in _listed(maximize)]
    wanted += [objective(name, minimized=True) for name in _listed(minimize)]
    named = {"ranges": ranges, "tolerances": tolerances}
    _check_names([o.metric for o in wanted], worst, at_least, at_most, named)
    subject_to: dict[str | Objective, float | Threshold | Within] = {}
    for bounds, minimized in ((at_least, False), (at_most, True)):
        for name, bound in bounds.items():
            key = objective(name, minimized)
            subject_to[key] = _threshold(name, bound, minimized)
    if kind == "pareto-set":
        return _pareto_set(wanted, subject_to, sure)
    if kind == "best-feasible":
        return _best_feasible(wanted, subject_to, sure)
    raise InvalidArgumentError(
        f"A goal's type must be {' or '.join(map(repr, TYPES))}, got {short(kind)}{nearest(kind, TYPES)}."
    )


def _pareto_set(
    wanted: Sequence[Objective], subject_to: SubjectTo, sure: float | None
) -> ParetoSet:
    """The goal of type "pareto-set"."""
    if sure is not None:
        raise InvalidArgumentError(
            "`sure` requires a goal of type 'best-feasible'. Remove it from the goal of type 'pareto-set'."
        )
    if not wanted:
        raise InvalidArgumentError(
            "A goal of type 'pareto-set' needs metrics: maximize = ['rouge', ...], minimize = [...]."
        )
    return ParetoSet(*wanted, subject_to=subject_to)


def _best_feasible(
    wanted: Sequence[Objective], subject_to: SubjectTo, sure: float | None
) -> BestFeasible:
    """The goal of type "best-feasible"."""
    if len(wanted) != 1:
        raise InvalidArgumentError(
            "A goal of type 'best-feasible' needs exactly one metric in maximize or minimize, got "
            f"{', '.join(repr(o.metric) for o in wanted[:20]) or 'none'}. Constrain other metrics with at_least "
            "and at_most, or use type 'pareto-set'."
        )
    return BestFeasible(wanted[0], subject_to, sure)


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    """A name or names as a list of names."""
    return [names] if isinstance(names, str) else names


def _check_names(
    objectives: Sequence[str],
    worst_segment: set[str],
    at_least: Mapping[str, AnyBound],
    at_most: Mapping[str, AnyBound],
    by_metric: Mapping[str, Mapping[str, Any]],
) -> None:
    """Check that the names in the parts of a goal fit together, as the arguments of `parse_goal`.

    `by_metric` has the parts that map a metric to a value, such as `ranges`, by their
    names.
    """
    if unknown := sorted(worst_segment - set(objectives)):
        raise InvalidArgumentError(
            f"worst_segment has {unknown[0]!r}, which is neither in maximize nor in minimize. Add it to one of them."
        )
    if both := set(at_least) & set(at_most):
        raise InvalidArgumentError(
            f"at_least and at_most both bound {min(both)!r}. Remove one bound."
        )
    used = [*objectives, *at_least, *at_most]
    for part, of_metrics in by_metric.items():
        if unused := [name for name in of_metrics if name not in used]:
            raise InvalidArgumentError(
                f"{part} has {short(unused[0])}, which is not a metric of the goal{nearest(unused[0], used)}. "
                f"The metrics of the goal are {used}."
            )


def parse_within(metric: str, text: str) -> Within:
    """The relative bound in a text such as "within 0.02 of best" or "within 0.02 of baseline"."""
    match = re.fullmatch(
        rf"within\s+(\S+)\s+of\s+(?:the\s+)?({BEST}|{BASELINE})", text.strip()
    )
    margin = math.nan
    if match is not None:
        with contextlib.suppress(ValueError):
            margin = float(match[1])
    if match is None or math.isnan(margin):
        raise InvalidArgumentError(
            f"The bound on {metric!r} must be a number, or a text such as 'within 0.02 of {BEST}' or 'within 0.02 of "
            f"{BASELINE}'. Got {short(text)}."
        )
    return Within(margin, match[2])


def _threshold(metric: str, bound: object, at_most: bool) -> float | Threshold | Within:
    """The bound of an entry of a file. The constraint checks its number."""
    if isinstance(bound, str):
        return parse_within(metric, bound)
    if not isinstance(bound, Mapping):
        return bound  # type: ignore[return-value]  # which the constraint checks
    keys = ("bound", "quantile", "in_every_segment", "tolerance")
    if "bound" not in bound or (
        unknown := [name for name in bound if name not in keys]
    ):
        wrong = (
            f"The key {short(unknown[0])} is unknown{nearest(unknown[0], keys)}"
            if "bound" in bound
            else "The key 'bound' is missing"
        )
        raise InvalidArgumentError(
            f"The bound on {metric!r} must be a number, or a table with the key 'bound' and, if needed, 'quantile', "
            f"'in_every_segment' and 'tolerance'. {wrong}."
        )
    return Threshold(
        bound["bound"],
        at_most,
        bound.get("quantile"),
        bound.get("in_every_segment", False),
        bound.get("tolerance"),
    )


def check_over_all_examples(goal: Goal, method: str) -> None:
    """Check that all examples count alike, for a method that bounds means over all examples only."""
    if goal.by_segment:
        raise IncompatibleMethodError(
            f"{method} does not support goals with segments (in_every_segment, worst_segment). Use method='auto'."
        )


def check_not_sure(goal: Goal, method: str) -> None:
    """Check that a goal has no `sure`, for a method that does not estimate probabilities."""
    if isinstance(goal, BestFeasible) and goal.sure is not None:
        raise IncompatibleMethodError(
            f"sure={goal.sure:g} needs a method that estimates probabilities, and {method} does not. Use method='auto'."
        )
