"""Goals and problems as data."""

from collections.abc import Mapping, Sequence
from typing import Any

from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.posterior.profile import ExampleProfile
from asktell.problem import goals
from asktell.problem.checks import (
    LARGEST,
    MOST_EVALUATIONS,
    MOST_EXAMPLES,
    MOST_REPEATS,
    SMALLEST_RANGE,
    nearest,
    short,
)
from asktell.problem.examples import Examples
from asktell.problem.goals import BestFeasible, Constraint, Goal, Objective, ParetoSet, Threshold
from asktell.serialization import fields
from asktell.state import SAMPLINGS, SKIP, Problem

TYPES = ("best-feasible", "pareto-set")
"""The types of goals, as they are called in words."""


def parse_goal(
    kind: str,
    maximize: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    at_least: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    ranges: Mapping[str, Sequence[float]] | None = None,
) -> Goal:
    """The goal that the words say; `kind` is one of `TYPES`, `ranges` are metrics' [low, high].

    Raises:
        InvalidArgumentError: the parts do not go together, or one is not what a goal can have.
    """
    at_least, at_most, ranges = at_least or {}, at_most or {}, ranges or {}

    def objective(metric: str, minimized: bool) -> Objective:
        span = ranges.get(metric)
        return Objective(metric, minimized, None if span is None else (span[0], span[1]))

    wanted = [objective(name, False) for name in _listed(maximize)]
    wanted += [objective(name, True) for name in _listed(minimize)]
    if both := set(at_least) & set(at_most):
        raise InvalidArgumentError(f"at_least and at_most both bound {min(both)!r}; give one of them.")
    subject_to: dict[str | Objective, float | Threshold] = {}
    subject_to |= {objective(name, False): goals.at_least(bound) for name, bound in at_least.items()}
    subject_to |= {objective(name, True): goals.at_most(bound) for name, bound in at_most.items()}
    if kind == "pareto-set":
        if not wanted:
            raise InvalidArgumentError(
                "A goal of type 'pareto-set' needs metrics: maximize = ['rouge', ...], minimize = [...]."
            )
        return ParetoSet(*wanted, subject_to=subject_to)
    if kind != "best-feasible":
        raise InvalidArgumentError(
            f"A goal's type must be one of {list(TYPES)}, got {short(kind)}{nearest(kind, TYPES)}."
        )
    if len(wanted) != 1:
        raise InvalidArgumentError(
            "A goal of type 'best-feasible' needs exactly one metric in maximize or minimize, got "
            f"{', '.join(repr(o.metric) for o in wanted[:20]) or 'none'}. Bound others with at_least and at_most, or "
            "take type 'pareto-set'."
        )
    return BestFeasible(wanted[0], subject_to)


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


_LIMITS = ("max_cost", "max_cost_per_evaluation")


def dump_goal(goal: Goal) -> dict[str, Any]:
    """A goal as data."""
    constraints = [
        {
            "metric": c.metric,
            "bound": c.bound,
            "at_most": c.at_most,
            "scale": c.scale,
            **({} if c.range is None else {"range": list(c.range)}),
        }
        for c in goal.constraints
    ]
    if isinstance(goal, BestFeasible):
        return {"type": "BestFeasible", "objective": _dump_objective(goal.objective), "subject_to": constraints}
    assert isinstance(goal, ParetoSet)
    record: dict[str, Any] = {"type": "ParetoSet", "objectives": [_dump_objective(o) for o in goal.objectives]}
    return record | ({"subject_to": constraints} if constraints else {})


def load_goal(data: object) -> Goal:
    """The goal that `dump_goal` made `data` of."""
    record = fields.mapping("goal", data)
    if record.get("type") == "BestFeasible":
        constraints = _load_constraints(record.get("subject_to"))
        return BestFeasible(_load_objective(record.get("objective")), constraints)
    if record.get("type") == "ParetoSet":
        objectives = [_load_objective(o) for o in fields.items("goal.objectives", record.get("objectives"))]
        return ParetoSet(*objectives, subject_to=_load_constraints(record.get("subject_to", [])))
    raise InvalidStateError(f"Unknown goal: {record.get('type')!r}.")


def _load_constraints(data: object) -> list[Constraint]:
    constraints = []
    for item in fields.items("goal.subject_to", data):
        c = fields.mapping("a constraint", item)
        metric, at_most = c.get("metric"), c.get("at_most")
        if not isinstance(metric, str) or not isinstance(at_most, bool):
            raise InvalidStateError(f"A constraint of the saved goal is malformed: {c!r}.")
        scale, bound = fields.number("a constraint's scale", c.get("scale")), fields.number("a bound", c.get("bound"))
        if not SMALLEST_RANGE <= scale <= 2 * LARGEST or abs(bound) > LARGEST:
            raise InvalidStateError(f"A constraint's scale or bound is too large or too small: {c!r}.")
        # Constructed to be checked.
        span = Objective(metric, at_most, _load_span(c.get("range"))).range
        constraints.append(Constraint(metric, bound, at_most, scale, span))
    return constraints


def _dump_objective(objective: Objective) -> dict[str, Any]:
    span = None if objective.range is None else list(objective.range)
    return {"metric": objective.metric, "minimize": objective.minimize, "range": span}


def _load_objective(data: object) -> Objective:
    record = fields.mapping("an objective", data)
    metric, minimize = record.get("metric"), record.get("minimize")
    if not isinstance(metric, str) or not isinstance(minimize, bool):
        raise InvalidStateError(f"An objective of the saved goal is malformed: {record!r}.")
    return Objective(metric, minimize, _load_span(record.get("range")))


def _load_span(data: object) -> tuple[float, float] | None:
    if data is None:
        return None
    low, high = (fields.number("a range", x) for x in fields.items("a range", data, 2))
    return low, high


def _load_failure_scores(data: object, goal: Goal) -> tuple[float, ...] | None:
    if data == SKIP:
        return None
    record = fields.mapping("on_failure", data)
    if set(record) != set(goal.metrics):
        raise InvalidStateError(f"on_failure must have the metrics {list(goal.metrics)}, got {list(record)}.")
    return tuple(fields.bounded("a score of on_failure", record[metric]) for metric in goal.metrics)


def dump_problem(problem: Problem) -> dict[str, Any]:
    """What is known before the first pull, prompts and method excepted."""
    return {
        "goal": dump_goal(problem.goal),
        "budget": problem.budget,
        "examples": problem.n_examples,
        "features": None if problem.features is None else problem.features.tolist(),
        "seed": problem.seed,
        "sampling": problem.sampling,
        "on_failure": problem.on_failure,
        "max_failure_rate": problem.max_failure_rate,
        **{name: value for name in _LIMITS if (value := getattr(problem, name)) is not None},
        **({} if problem.baseline is None else {"baseline": problem.baseline}),
        **({} if problem.examples is None else {"example_ids": list(problem.examples.ids)}),
        **({} if problem.repeats == 1 else {"repeats": problem.repeats}),
        **({} if problem.profile is None else {"profile": problem.profile.to_data()}),
    }


def load_problem(data: Mapping[str, Any], n_arms: int) -> Problem:
    """The problem that `dump_problem` made `data` of."""
    features = data.get("features")
    if features is not None:
        features = fields.matrix("features", features, n_arms)
    if data.get("sampling") not in SAMPLINGS:
        raise InvalidStateError(f"sampling must be one of {list(SAMPLINGS)}, got {short(data.get('sampling'))}.")
    examples, baseline, ids = data.get("examples"), data.get("baseline"), data.get("example_ids")
    if ids is not None and len(fields.items("example_ids", ids)) != examples:
        raise InvalidStateError(f"There are {len(ids)} ids for {examples!r} examples.")
    repeats = fields.whole("repeats", data.get("repeats", 1), 1, MOST_REPEATS)
    if repeats > 1 and examples is None:
        raise InvalidStateError(f"repeats is {repeats}, but there are no examples to repeat.")
    goal, rate = load_goal(data.get("goal")), fields.number("max_failure_rate", data.get("max_failure_rate"))
    if not 0 < rate <= 1:
        raise InvalidStateError(f"max_failure_rate must be above 0 and at most 1, got {rate!r}.")
    limits = {name: fields.cost(name, data[name]) for name in _LIMITS if data.get(name) is not None}
    return Problem(
        n_arms=n_arms,
        goal=goal,
        budget=fields.whole("budget", data.get("budget"), 0, MOST_EVALUATIONS),
        n_examples=None if examples is None else fields.whole("examples", examples, 1, MOST_EXAMPLES),
        features=features,
        seed=fields.whole("seed", data.get("seed"), 0, 2**64 - 1),
        sampling=data["sampling"],
        failure_scores=_load_failure_scores(data.get("on_failure"), goal),
        max_failure_rate=rate,
        max_cost=limits.get("max_cost"),
        max_cost_per_evaluation=limits.get("max_cost_per_evaluation"),
        baseline=None if baseline is None else fields.whole("baseline", baseline, 0, n_arms - 1),
        examples=None if ids is None else Examples(ids),
        repeats=repeats,
        profile=None if data.get("profile") is None else ExampleProfile.from_data(data["profile"]),
    )
