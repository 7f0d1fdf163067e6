"""Goals and problems as data."""

from collections.abc import Mapping
from typing import Any

from asktell.arguments import LARGEST, MOST_EVALUATIONS, MOST_EXAMPLES, MOST_REPEATS, SMALLEST_RANGE, short
from asktell.errors import InvalidStateError
from asktell.examples import Examples
from asktell.goals import BestFeasible, Constraint, Goal, Objective, ParetoSet
from asktell.profiles.profile import ExampleProfile
from asktell.records import checks
from asktell.state import SAMPLINGS, SKIP, Problem

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
    record = checks.mapping("goal", data)
    if record.get("type") == "BestFeasible":
        constraints = _load_constraints(record.get("subject_to"))
        return BestFeasible(_load_objective(record.get("objective")), constraints)
    if record.get("type") == "ParetoSet":
        objectives = [_load_objective(o) for o in checks.items("goal.objectives", record.get("objectives"))]
        return ParetoSet(*objectives, subject_to=_load_constraints(record.get("subject_to", [])))
    raise InvalidStateError(f"Unknown goal: {record.get('type')!r}.")


def _load_constraints(data: object) -> list[Constraint]:
    constraints = []
    for item in checks.items("goal.subject_to", data):
        c = checks.mapping("a constraint", item)
        metric, at_most = c.get("metric"), c.get("at_most")
        if not isinstance(metric, str) or not isinstance(at_most, bool):
            raise InvalidStateError(f"A constraint of the saved goal is malformed: {c!r}.")
        scale, bound = checks.number("a constraint's scale", c.get("scale")), checks.number("a bound", c.get("bound"))
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
    record = checks.mapping("an objective", data)
    metric, minimize = record.get("metric"), record.get("minimize")
    if not isinstance(metric, str) or not isinstance(minimize, bool):
        raise InvalidStateError(f"An objective of the saved goal is malformed: {record!r}.")
    return Objective(metric, minimize, _load_span(record.get("range")))


def _load_span(data: object) -> tuple[float, float] | None:
    if data is None:
        return None
    low, high = (checks.number("a range", x) for x in checks.items("a range", data, 2))
    return low, high


def _load_failure_scores(data: object, goal: Goal) -> tuple[float, ...] | None:
    if data == SKIP:
        return None
    record = checks.mapping("on_failure", data)
    if set(record) != set(goal.metrics):
        raise InvalidStateError(f"on_failure must have the metrics {list(goal.metrics)}, got {list(record)}.")
    return tuple(checks.bounded("a score of on_failure", record[metric]) for metric in goal.metrics)


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
        features = checks.matrix("features", features, n_arms)
    if data.get("sampling") not in SAMPLINGS:
        raise InvalidStateError(f"sampling must be one of {list(SAMPLINGS)}, got {short(data.get('sampling'))}.")
    examples, baseline, ids = data.get("examples"), data.get("baseline"), data.get("example_ids")
    if ids is not None and len(checks.items("example_ids", ids)) != examples:
        raise InvalidStateError(f"There are {len(ids)} ids for {examples!r} examples.")
    repeats = checks.whole("repeats", data.get("repeats", 1), 1, MOST_REPEATS)
    if repeats > 1 and examples is None:
        raise InvalidStateError(f"repeats is {repeats}, but there are no examples to repeat.")
    goal, rate = load_goal(data.get("goal")), checks.number("max_failure_rate", data.get("max_failure_rate"))
    if not 0 < rate <= 1:
        raise InvalidStateError(f"max_failure_rate must be above 0 and at most 1, got {rate!r}.")
    limits = {name: checks.cost(name, data[name]) for name in _LIMITS if data.get(name) is not None}
    return Problem(
        n_arms=n_arms,
        goal=goal,
        budget=checks.whole("budget", data.get("budget"), 0, MOST_EVALUATIONS),
        n_examples=None if examples is None else checks.whole("examples", examples, 1, MOST_EXAMPLES),
        features=features,
        seed=checks.whole("seed", data.get("seed"), 0, 2**64 - 1),
        sampling=data["sampling"],
        failure_scores=_load_failure_scores(data.get("on_failure"), goal),
        max_failure_rate=rate,
        max_cost=limits.get("max_cost"),
        max_cost_per_evaluation=limits.get("max_cost_per_evaluation"),
        baseline=None if baseline is None else checks.whole("baseline", baseline, 0, n_arms - 1),
        examples=None if ids is None else Examples(ids),
        repeats=repeats,
        profile=None if data.get("profile") is None else ExampleProfile.from_data(data["profile"]),
    )
