"""Methods by name: "auto", "race", "referee", and the published methods as compositions of parts."""

from collections.abc import Callable
from inspect import isabstract
from typing import Any, NamedTuple

from asktell._util.extras import check_extra
from asktell._util.plugins import Registry
from asktell.errors import IncompatibleMethodError, InvalidArgumentError
from asktell.methods.auto.adaptive import Adaptive
from asktell.methods.base import AbstractMethod
from asktell.methods.race import Race
from asktell.methods.referee import Referee
from asktell.methods.rounds import allocators, estimators, rules, schedulers
from asktell.methods.rounds.allocators import AbstractAllocator, GOptimalDesign, Uniform
from asktell.methods.rounds.elimination import PART_KINDS, Elimination, rule_of
from asktell.methods.rounds.estimators import (
    MLP,
    AbstractEstimator,
    LeastSquares,
    SampleMean,
)
from asktell.methods.rounds.schedulers import (
    AbstractScheduler,
    GEGEHalving,
    SequentialHalving,
    Single,
    SuccessiveRejects,
)
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.problem.words import nearest, short

SCHEDULES = ("default", "published")


class _Preset(NamedTuple):
    """The composition of a named method.

    `goal` is the kind of goal, None for both kinds. The scheduler takes True for the
    tuned schedule, and False for the published schedule.
    """

    goal: type[Goal] | None
    scheduler: Callable[[bool], AbstractScheduler]
    allocator: type[AbstractAllocator] = Uniform
    estimator: type[AbstractEstimator] = SampleMean


# The rule follows from the goal, see `rule_of`.
_PRESETS = {
    "uniform": _Preset(None, lambda tuned: Single()),
    "csr": _Preset(BestFeasible, SuccessiveRejects),
    "csr-sh": _Preset(BestFeasible, SequentialHalving),
    "mlp-csr": _Preset(BestFeasible, SequentialHalving, estimator=MLP),
    "lcsh": _Preset(BestFeasible, SequentialHalving, GOptimalDesign, LeastSquares),
    "ege-sr": _Preset(ParetoSet, SuccessiveRejects),
    "ege-sh": _Preset(ParetoSet, SequentialHalving),
    "mlp-ege": _Preset(ParetoSet, SequentialHalving, estimator=MLP),
    "gege": _Preset(
        ParetoSet, lambda tuned: GEGEHalving(), GOptimalDesign, LeastSquares
    ),
}


# Methods that are not composed of parts.
_WHOLE: dict[str, type[AbstractMethod]] = {
    "auto": Adaptive,
    "race": Race,
    "referee": Referee,
}

METHODS = (*_WHOLE, *_PRESETS)
"""The names that `preset` and `Selector(..., method=...)` accept.

- "auto": `Adaptive` with its default arguments.
- "race": `Race` with its default arguments.
- "referee": `Referee` with its default arguments.
- "uniform": evaluates every prompt equally often, for any goal.
- "csr", "csr-sh", "lcsh" and "mlp-csr": methods with rounds for `BestFeasible`.
- "ege-sr", "ege-sh", "gege" and "mlp-ege": methods with rounds for `ParetoSet`.

Other packages can add names: docs/how-to/write-a-plug-in.md.
"""


def _whole(name: str, kind: Any) -> type[AbstractMethod]:
    """The class of a method that another package adds."""
    if not isinstance(kind, type) or not issubclass(kind, AbstractMethod):
        raise InvalidArgumentError(
            f"it must be a class derived from asktell.extend.AbstractMethod, got {short(kind)}"
        )
    return kind


REGISTRY: Registry[type[AbstractMethod] | _Preset] = Registry(
    "asktell.methods", {**_WHOLE, **_PRESETS}, _whole
)
"""The methods by name, with those of other packages."""


# The methods and their parts that a saved selector may contain, by class name.
PARTS: dict[str, type] = {
    kind.__name__: kind for kind in (Adaptive, Race, Referee, Elimination)
} | {
    name: part
    for package in (schedulers, allocators, estimators, rules)
    for name in package.__all__
    if isinstance(part := getattr(package, name), type)
    and issubclass(part, tuple(PART_KINDS.values()))
    and not isabstract(part)
}


def preset(
    name: str, goal: Goal, *, schedule: str = "default", data: str = "pooled"
) -> AbstractMethod:
    """Return the method that a name stands for, made for a goal.

    Args:
        name: one of `METHODS`, or a name that another package adds.
        goal: the goal of the selection. It decides the elimination rule.
        schedule: for a method with rounds, how the rounds divide the budget.
            "published" follows the papers that `SuccessiveRejects` and
            `SequentialHalving` name. "default" is asktell's variant of it, which makes
            better use of a small budget. "uniform" and "gege" have only one schedule.
            "auto" and "race" ignore this argument.
        data: for a method with rounds, the scores that count: "pooled" or "round" (see
            `Elimination`). "auto" and "race" ignore this argument.

    Raises:
        InvalidArgumentError: the name, the schedule or the kind of data is unknown, or
            the package that adds the name is broken.
        IncompatibleMethodError: the method does not support the goal.
        MissingExtraError: a package that the method needs is not installed.
    """
    if schedule not in SCHEDULES:
        raise InvalidArgumentError(
            f"schedule must be {' or '.join(map(repr, SCHEDULES))}, got {short(schedule)}. Leave `schedule` "
            "out for the default."
        )
    if not isinstance(name, str) or name not in REGISTRY:
        names = REGISTRY.names()
        raise InvalidArgumentError(
            f"method must be one of the names {names}, or a method such as asktell.Adaptive(). "
            f"Got {short(name)}{nearest(name, names)}."
        )
    chosen = REGISTRY[name]
    if not isinstance(chosen, _Preset):
        with REGISTRY.blamed(name):
            return chosen()
    if chosen.goal is not None and not isinstance(goal, chosen.goal):
        fitting = [
            method
            for method, p in _PRESETS.items()
            if p.goal is None or isinstance(goal, p.goal)
        ]
        raise IncompatibleMethodError(
            f"The method {name!r} is for {chosen.goal.__name__}, but the goal is a {type(goal).__name__}. "
            f"Use one of the methods {[*_WHOLE, *fitting]}."
        )
    check_extra("structured", *chosen.allocator.packages, *chosen.estimator.packages)
    parts = (
        chosen.scheduler(schedule == "default"),
        chosen.allocator(),
        chosen.estimator(),
        rule_of(goal),
    )
    return Elimination(*parts, data)
