"""The JSON shapes that reach a disk. Versioned, plain data: nothing that is loaded is executed.

What is loaded is checked field by field before anything is built from it; malformed, truncated or foreign input is
refused whole.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from immutables import Map

from asktell import allocators, elimination, estimators, schedulers
from asktell.arguments import LARGEST, MOST_EVALUATIONS, MOST_EXAMPLES, SMALLEST_RANGE
from asktell.budget import Costs, Spent
from asktell.errors import AsktellError, InvalidStateError
from asktell.goals import BestFeasible, Constraint, Goal, Objective, ParetoSet
from asktell.methods import Elimination
from asktell.methods.adaptive import Adaptive
from asktell.numerics.arrays import distinct
from asktell.state import (
    ACCEPTED,
    FAILED,
    REJECTED,
    SAMPLINGS,
    Decided,
    Departure,
    Failure,
    Problem,
    State,
    initial,
)
from asktell.state.history import History
from asktell.state.queue import Pull, Queue

_T = TypeVar("_T")

_LIMITS = ("max_cost", "max_cost_per_evaluation")

FORMAT = "asktell.selector"
VERSION = 1

PARTS: dict[str, type] = {
    name: getattr(module, name)
    for module in (schedulers, allocators, estimators, elimination)
    for name in module.__all__
    if is_dataclass(getattr(module, name)) and not name.startswith("Abstract")
}
"""The parts of methods that a saved file may name."""

WHOLE: dict[str, type] = {"Elimination": Elimination, "Adaptive": Adaptive}
"""The methods that a saved file may name."""


def dump_part(part: Any) -> dict[str, Any]:
    """A part of a method, or a whole one, as its class name and its fields."""
    name = type(part).__name__
    known: Any = WHOLE.get(name) or PARTS.get(name)
    if known is not type(part):
        raise InvalidStateError(
            f"{part!r} cannot be saved: {name} is not one of asktell's own parts. Keep the method in your code, and "
            "pass it again: Selector.from_json(text, method=...)."
        )
    data: dict[str, Any] = {"type": name}
    for field in fields(part):
        value = getattr(part, field.name)
        data[field.name] = dump_part(value) if is_dataclass(value) else value
    return data


def load_part(data: object) -> Any:
    """The part that `dump_part` made `data` of."""
    record = _mapping("method", data)
    name = record.get("type")
    kind: Any = (WHOLE.get(name) or PARTS.get(name)) if isinstance(name, str) else None
    if kind is None:
        raise InvalidStateError(f"Unknown part of a method: {name!r}. Was this saved by a newer asktell?")
    names = {field.name for field in fields(kind)}
    if set(record) - {"type"} - names:
        raise InvalidStateError(f"{name} has no fields {sorted(set(record) - {'type'} - names)}.")
    values = {k: load_part(v) if isinstance(v, dict) else v for k, v in record.items() if k != "type"}
    if any(not isinstance(v, (str, int, float, bool, type(None))) and not is_dataclass(v) for v in values.values()):
        raise InvalidStateError(f"The fields of {name} must be plain values, got {values!r}.")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise InvalidStateError(f"The saved {name} is malformed: {error}") from error


def dump_goal(goal: Goal) -> dict[str, Any]:
    """A goal as data."""
    if isinstance(goal, BestFeasible):
        constraints = [
            {"metric": c.metric, "bound": c.bound, "at_most": c.at_most, "scale": c.scale} for c in goal.constraints
        ]
        return {"type": "BestFeasible", "objective": _dump_objective(goal.objective), "subject_to": constraints}
    assert isinstance(goal, ParetoSet)
    return {"type": "ParetoSet", "objectives": [_dump_objective(o) for o in goal.objectives]}


def load_goal(data: object) -> Goal:
    """The goal that `dump_goal` made `data` of."""
    record = _mapping("goal", data)
    if record.get("type") == "BestFeasible":
        constraints = []
        for item in _list("goal.subject_to", record.get("subject_to")):
            c = _mapping("a constraint", item)
            metric, at_most = c.get("metric"), c.get("at_most")
            if not isinstance(metric, str) or not isinstance(at_most, bool):
                raise InvalidStateError(f"A constraint of the saved goal is malformed: {c!r}.")
            scale, bound = _number("a constraint's scale", c.get("scale")), _number("a bound", c.get("bound"))
            if not SMALLEST_RANGE <= scale <= 2 * LARGEST or abs(bound) > LARGEST:
                raise InvalidStateError(f"A constraint's scale or bound is too large or too small: {c!r}.")
            constraints.append(Constraint(metric, bound, at_most, scale))
        return BestFeasible(_load_objective(record.get("objective")), constraints)
    if record.get("type") == "ParetoSet":
        return ParetoSet(*[_load_objective(o) for o in _list("goal.objectives", record.get("objectives"))])
    raise InvalidStateError(f"Unknown goal: {record.get('type')!r}.")


def _dump_objective(objective: Objective) -> dict[str, Any]:
    span = None if objective.range is None else list(objective.range)
    return {"metric": objective.metric, "minimize": objective.minimize, "range": span}


def _load_objective(data: object) -> Objective:
    record = _mapping("an objective", data)
    metric, minimize, span = record.get("metric"), record.get("minimize"), record.get("range")
    if not isinstance(metric, str) or not isinstance(minimize, bool):
        raise InvalidStateError(f"An objective of the saved goal is malformed: {record!r}.")
    if span is not None:
        low, high = (_number("a range", x) for x in _list("a range", span, 2))
        span = (low, high)
    return Objective(metric, minimize, span)


def dump_problem(problem: Problem) -> dict[str, Any]:
    """What was known before the first pull, prompts and method excepted."""
    return {
        "goal": dump_goal(problem.goal),
        "budget": problem.budget,
        "examples": problem.n_examples,
        "features": None if problem.features is None else problem.features.tolist(),
        "seed": problem.seed,
        "sampling": problem.sampling,
        "max_failures": problem.max_failures,
        **{name: value for name in _LIMITS if (value := getattr(problem, name)) is not None},
    }


def load_problem(data: Mapping[str, Any], n_arms: int) -> Problem:
    """The problem that `dump_problem` made `data` of."""
    features = data.get("features")
    if features is not None:
        features = _matrix("features", features, n_arms)
    if data.get("sampling") not in SAMPLINGS:
        raise InvalidStateError(f"sampling must be one of {list(SAMPLINGS)}, got {data.get('sampling')!r}.")
    examples = data.get("examples")
    return Problem(
        n_arms=n_arms,
        goal=load_goal(data.get("goal")),
        budget=_whole("budget", data.get("budget"), 0, MOST_EVALUATIONS),
        n_examples=None if examples is None else _whole("examples", examples, 1, MOST_EXAMPLES),
        features=features,
        seed=_whole("seed", data.get("seed"), 0, 2**64 - 1),
        sampling=data["sampling"],
        max_failures=_whole("max_failures", data.get("max_failures"), 1),
        **{name: _cost(name, data[name]) for name in _LIMITS if data.get(name) is not None},
    )


def dump_decided(decided: Decided) -> dict[str, Any]:
    """A decision as data."""
    plan = {} if decided.plan is None else {"plan": [list(pull) for pull in decided.plan]}
    settled = {"settled": True} if decided.settled else {}
    return {
        "round": decided.round,
        "departures": [[d.arm, d.status, d.reason, list(d.means), list(d.standard_errors)] for d in decided.departures],
        "pulls": decided.pulls if isinstance(decided.pulls, int) else list(decided.pulls),
        "finished": decided.finished,
        "answer": list(decided.answer),
        **plan,
        **settled,
    }


def load_decided(data: object, problem: Problem) -> Decided:
    """The decision that `dump_decided` made `data` of."""
    record = _mapping("a decision", data)
    n_arms, n_metrics = problem.n_arms, len(problem.goal.metrics)
    departures = []
    for item in _list("departures", record.get("departures")):
        arm, status, reason, means, errors = _list("a departure", item, 5)
        if status not in (ACCEPTED, REJECTED, FAILED) or not isinstance(reason, str):
            raise InvalidStateError(f"A departure is malformed: {item!r}.")
        lengths = {len(_list("a departure's estimate", vector)) for vector in (means, errors)}
        if lengths not in ({0}, {n_metrics}):
            raise InvalidStateError(f"A departure's estimate needs {n_metrics} means and errors, got {item!r}.")
        departures.append(
            Departure(
                _whole("arm", arm, 0, n_arms - 1),
                status,
                reason,
                tuple(_number("an estimate", x) for x in means),
                tuple(None if x is None else _number("a standard error", x) for x in errors),
            )
        )
    pulls = record.get("pulls")
    if isinstance(pulls, list):
        pulls = tuple(_whole("pulls", n, 0, problem.budget) for n in pulls)
    else:
        pulls = _whole("pulls", pulls, 0, problem.budget)
    finished = record.get("finished")
    if not isinstance(finished, bool):
        raise InvalidStateError(f"finished must be true or false, got {finished!r}.")
    answer = tuple(_whole("answer", arm, 0, n_arms - 1) for arm in _list("answer", record.get("answer")))
    plan = record.get("plan")
    if plan is not None:
        pairs = [_list("a planned pull", item, 2) for item in _list("a decision's plan", plan)]
        last = (problem.n_examples or 0) - 1
        plan = tuple((_whole("arm", arm, 0, n_arms - 1), _whole("example", x, -1, last)) for arm, x in pairs)
    settled = record.get("settled", False)
    if not isinstance(settled, bool):
        raise InvalidStateError(f"settled must be true or false, got {settled!r}.")
    return Decided(_whole("round", record.get("round"), 0), tuple(departures), pulls, finished, answer, plan, settled)


def dump_decisions(decisions: Sequence[tuple[int, Decided]]) -> list[Any]:
    """Decisions, with the number of rows each was based on, as data."""
    return [[rows, dump_decided(decided)] for rows, decided in decisions]


def dump_state(state: State) -> dict[str, Any]:
    """The state as columns and decisions; what follows from those is not repeated."""
    history, rest = state.history, dump_rest(state)
    return {
        "trials": history.trials().tolist(),
        "arms": history.arms().tolist(),
        "examples": history.examples().tolist(),
        "scores": history.scores().tolist(),
        "decisions": dump_decisions(state.decisions),
        **rest,
        "draws": state.draws.tolist(),
    }


def dump_rest(state: State) -> dict[str, Any]:
    """What changes from state to state, beside rows and decisions, which are only added to, and the `draws`."""
    return {
        "pending": [[p.trial, p.arm, p.example] for _, p in sorted(state.pending.items())],
        "returned": [[p.trial, p.arm, p.example] for p in state.returned],
        "plan": [list(state.plan_arms[state.position :]), list(state.plan_examples[state.position :])],
        "redraws": sorted([arm, extra] for arm, extra in state.redraws.items()),
        "failures": [[arm, [[f.trial, f.example, f.reason] for f in fs]] for arm, fs in sorted(state.failures.items())],
        "failed_out": [
            [arm, round_, d.reason]
            for arm, (round_, d) in sorted(state.left.items())
            if d.status == FAILED and not any(arm == x.arm for _, e in state.decisions for x in e.departures)
        ],
        "asked": state.asked,
        "spent": state.spent,
        "cost": state.cost,
        **_dump_costs(state.costs),
    }


def load_state(data: object, problem: Problem) -> State:
    """The state that `dump_state` made `data` of; equal to it in every bit. Columns may be arrays as well as lists."""
    record = _mapping("state", data)
    n_arms, top = problem.n_arms, 2**62
    n_examples = problem.n_examples or 0
    trials = _column("trials", record.get("trials"), -1, top)
    arms = _column("arms", record.get("arms"), 0, n_arms - 1, len(trials))
    examples = _column("examples", record.get("examples"), -1, n_examples - 1, len(trials))
    scores = _matrix("scores", record.get("scores"), len(trials), len(problem.goal.metrics))
    told = trials[trials >= 0]
    failures = _load_failures(record.get("failures"), n_arms)
    # Whatever was asked was told, is out, has failed, or was handed back and forgotten when its arm left.
    most = (n_arms + 1) * problem.budget + sum(len(entries) for entries in failures.values())
    asked = _whole("asked", record.get("asked"), 0, most)
    if len(distinct(told)) < len(told) or told.max(initial=-1) >= asked:
        raise InvalidStateError("A trial was told twice, or before it was asked.")
    if _whole("spent", record.get("spent"), 0) != len(told):
        raise InvalidStateError(f"spent is {record['spent']}, but {len(told)} trials were told.")
    state = initial(problem)._replace(
        history=History.from_columns(trials, arms, examples, scores),
        asked=asked,
        spent=len(told),
        cost=_number("cost", record.get("cost")),
        costs=_load_costs(record.get("costs"), n_arms),
    )
    state = _load_decisions(record.get("decisions"), state, trials, arms, scores)

    def pulls(name: str, may_be_new: bool) -> list[Pull]:
        loaded = []
        for item in _list(name, record.get(name)):
            trial, arm, example = _list(name, item, 3)
            if trial is not None or not may_be_new:
                trial = _whole("trial", trial, 0, asked - 1)
            example = None if example is None else _whole("example", example, 0, n_examples - 1)
            loaded.append(Pull(trial, _whole("arm", arm, 0, n_arms - 1), example))
        return loaded

    pending, returned = pulls("pending", False), pulls("returned", True)
    ids = [p.trial for p in (*pending, *returned) if p.trial is not None]
    if len(set(ids)) < len(ids) or np.isin(np.array(ids, dtype=np.int64), told).any():
        raise InvalidStateError("A trial is out twice, or out and told.")
    plan_arms, plan_examples = _list("plan", record.get("plan"), 2)
    arms_column = _column("plan", plan_arms, 0, n_arms - 1)
    examples_column = _column("plan", plan_examples, -1, n_examples - 1, len(arms_column))
    if len(told) + len(pending) + len(returned) + len(arms_column) > problem.budget:
        raise InvalidStateError(f"More trials are told, out and planned than the budget of {problem.budget} allows.")
    redraws = [_list("redraws", item, 2) for item in _list("redraws", record.get("redraws"))]
    state = state._replace(
        pending=Map({p.trial: p for p in pending if p.trial is not None}),
        returned=Queue(returned),
        plan_arms=tuple(arms_column.tolist()),
        plan_examples=tuple(examples_column.tolist()),
        draws=_column("draws", record.get("draws"), 0, most + len(trials), n_arms),
        redraws=Map({_whole("arm", arm, 0, n_arms - 1): _whole("redraws", extra, 1, most) for arm, extra in redraws}),
        failures=Map(failures),
    )
    left = state.left
    for item in _list("failed_out", record.get("failed_out")):
        arm, round_, reason = _list("failed_out", item, 3)
        if not isinstance(reason, str):
            raise InvalidStateError(f"A reason must be text, got {reason!r}.")
        left = left.set(_whole("arm", arm, 0, n_arms - 1), (_whole("round", round_, 0), Departure(arm, FAILED, reason)))
    return state._replace(left=left)


def _load_decisions(data: object, state: State, trials: Any, arms: Any, scores: Any) -> State:
    decisions: list[tuple[int, Decided]] = []
    tally, tallied, left = state.tally, 0, state.left
    for number, item in enumerate(_list("decisions", data)):
        rows, decided = _list("a decision", item, 2)
        rows = _whole("rows", rows, tallied, len(trials))
        event = load_decided(decided, state.problem)
        if event.round != number or (decisions and decisions[-1][1].finished):
            raise InvalidStateError("The decisions are not in their order.")
        order = tallied + np.argsort(trials[tallied:rows], kind="stable")
        tally, tallied = tally.plus(arms[order], scores[order]), rows
        left = left.update({d.arm: (event.round, d) for d in event.departures})
        decisions.append((rows, event))
    return state._replace(tally=tally, tallied=tallied, left=left, decisions=tuple(decisions))


def _dump_costs(costs: Costs) -> dict[str, Any]:
    if not costs.pool.n:
        return {}
    return {"costs": {"all": list(costs.pool), "arms": [[arm, *spent] for arm, spent in sorted(costs.by_arm.items())]}}


def _load_costs(data: object, n_arms: int) -> Costs:
    if data is None:
        return Costs()
    record = _mapping("costs", data)

    def spent(items: list[Any]) -> Spent:
        n, total, highest = items
        return Spent(_whole("costs", n, 1), _cost("costs", total), _cost("costs", highest))

    by_arm = {}
    for item in _list("costs", record.get("arms")):
        arm, *rest = _list("costs", item, 4)
        by_arm[_whole("arm", arm, 0, n_arms - 1)] = spent(rest)
    return Costs(Map(by_arm), spent(_list("costs", record.get("all"), 3)))


def _load_failures(data: object, n_arms: int) -> dict[int, tuple[Failure, ...]]:
    failures = {}
    for item in _list("failures", data):
        arm, entries = _list("failures", item, 2)
        loaded = []
        for entry in _list("failures", entries):
            trial, example, reason = _list("a failure", entry, 3)
            if not isinstance(reason, str):
                raise InvalidStateError(f"A reason must be text, got {reason!r}.")
            example = None if example is None else _whole("example", example, 0)
            loaded.append(Failure(_whole("trial", trial, 0), example, reason))
        failures[_whole("arm", arm, 0, n_arms - 1)] = tuple(loaded)
    return failures


def parse(text: object, what: str) -> dict[str, Any]:
    """JSON text to a mapping.

    Raises:
        InvalidStateError: it is not text, not JSON, or not an object.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidStateError(f"{what} must be JSON text, got {type(text).__name__}.")
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidStateError(f"{what} is not whole JSON: {error}. Is the file truncated?") from error
    return dict(_mapping(what, data))


def checked(what: str, load: Callable[[], _T]) -> _T:
    """Run a loader; whatever goes wrong in it is an InvalidStateError."""
    try:
        return load()
    except InvalidStateError:
        raise
    except (AsktellError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        raise InvalidStateError(f"{what} is malformed: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _mapping(what: str, data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise InvalidStateError(f"{what} must be an object, got {type(data).__name__}.")
    return data


def _list(what: str, data: object, length: int | None = None) -> list[Any]:
    if not isinstance(data, list) or (length is not None and len(data) != length):
        size = "" if length is None else f" of {length}"
        raise InvalidStateError(f"{what} must be a list{size}, got {str(data)[:80]}.")
    return data


def _whole(what: str, data: object, low: int, high: int = 2**63 - 1) -> int:
    if type(data) is not int or not low <= data <= high:
        raise InvalidStateError(f"{what} must be a whole number from {low} to {high}, got {str(data)[:80]}.")
    return data


def _number(what: str, data: object) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
        raise InvalidStateError(f"{what} must be a finite number, got {str(data)[:80]}.")
    return float(data)


def _cost(what: str, data: object) -> float:
    value = _number(what, data)
    if value < 0:
        raise InvalidStateError(f"{what} must be at least 0, got {value!r}.")
    return value


def _column(what: str, data: object, low: int, high: int, length: int | None = None) -> Any:
    if isinstance(data, np.ndarray):
        right = data.dtype == np.int64 and data.ndim == 1 and (length is None or len(data) == length)
        if not right or (len(data) and not low <= data.min() <= data.max() <= high):
            raise InvalidStateError(f"{what} must be whole numbers from {low} to {high}.")
        return data
    items = _list(what, data, length)
    if not all(type(x) is int for x in items) or (items and not low <= min(items) <= max(items) <= high):
        raise InvalidStateError(f"{what} must be whole numbers from {low} to {high}.")
    return np.array(items, dtype=np.int64)


def _matrix(what: str, data: object, n_rows: int, n_columns: int | None = None) -> Any:
    if isinstance(data, np.ndarray):
        if data.dtype != np.float64 or data.shape != (n_rows, n_columns) or not (np.abs(data) <= LARGEST).all():
            raise InvalidStateError(f"{what} must be {n_rows} rows of {n_columns} numbers.")
        return data
    rows = _list(what, data, n_rows)
    width = n_columns if n_columns is not None else len(_list(what, rows[0])) if rows else 0
    for row in rows:
        if len(_list(what, row)) != width or not all(type(x) in (float, int) for x in row):
            raise InvalidStateError(f"{what} must be rows of {width} numbers, got {str(row)[:80]}.")
    matrix = np.array(rows, dtype=np.float64).reshape(n_rows, width)
    if not (np.abs(matrix) <= LARGEST).all():
        raise InvalidStateError(f"{what} must be finite, and at most {LARGEST} in size.")
    return matrix
