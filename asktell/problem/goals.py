"""Goals: the best feasible prompt, or the Pareto set.

Scores, estimates and saved files keep each metric in its own units and direction.
Directions, bounds and scales are used only here: a goal turns means into `values`,
where larger is better.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, final

import numpy as np

from asktell.errors import (
    IncompatibleMethodError,
    InvalidArgumentError,
)
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.problem.checks import (
    check_part,
    finite,
)
from asktell.problem.metric_names import less_may_be_better
from asktell.problem.objectives import (
    BASELINE,
    FAILURE_RATE,
    ROUNDING,
    SINGLE_PRECISION,
    Bound,
    Constraint,
    Objective,
    Share,
    Subset,
    Threshold,
    Within,
    checked_tolerance,
)
from asktell.problem.scores import checked_score, ordered_scores
from asktell.problem.words import exact, short

SubjectTo: TypeAlias = (
    Mapping[str | Objective, float | Threshold | Within] | Sequence[Constraint]
)
"""The constraints of a goal: a mapping from metric to bound."""


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
    _shares: tuple[Share, ...]
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
            Share(metrics.index(c.metric), c.bound, c.at_most) for c in tails.values()
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

    def check_over_all_examples(self, method: str) -> None:
        """Check that all examples count alike, for a method that bounds means over all examples only.

        Args:
            method: the method in the error, such as "Race".

        Raises:
            IncompatibleMethodError: the worst segment counts for a metric.
        """
        if self.by_segment:
            raise IncompatibleMethodError(
                f"{method} does not support goals with segments (in_every_segment, worst_segment). Use method='auto'."
            )

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
            elif bound.is_of_baseline:
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
            rounding = np.maximum(ROUNDING, SINGLE_PRECISION * np.abs(bound))
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
        items = ordered_scores(scores, self.metrics)
        values = tuple(
            [
                checked_score(name, item, self.ranges.get(name))
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
    `asktell.problem.metric_names.LESS_IS_BETTER` lists the words.

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
        checked_tolerance(name, part.tolerance, ranges.get(name))
        first = tolerances.setdefault(name, part.tolerance)
        if first != part.tolerance:
            raise _two_tolerances(name, first, part.tolerance)
    return tolerances


def _two_tolerances(name: str, first: float, second: float) -> InvalidArgumentError:
    """The error for a metric with two tolerances."""
    return InvalidArgumentError(
        f"The metric {name!r} has two tolerances, {exact(first)} and {exact(second)}. Give one tolerance."
    )


def _counts_worst_segment(*parts: Objective | Constraint) -> list[bool]:
    """For each part of a goal, whether its worst segment counts."""
    return [
        part.worst_segment if isinstance(part, Objective) else part.in_every_segment
        for part in parts
    ]
