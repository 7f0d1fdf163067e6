"""Goals as text: in configurations, on the command line and in requests."""

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from asktell.errors import (
    InvalidArgumentError,
)
from asktell.problem.goals import BestFeasible, Goal, ParetoSet, SubjectTo
from asktell.problem.objectives import (
    BASELINE,
    BEST,
    Objective,
    Threshold,
    Within,
)
from asktell.problem.words import nearest, short

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
