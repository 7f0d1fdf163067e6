"""The JSON shapes that reach a disk: versioned, plain data, of which nothing is executed when it is loaded.

What is loaded is checked field by field before anything is built from it; malformed, truncated or foreign input is
refused whole.
"""

import dataclasses
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from asktell._util.extras import own_version
from asktell.errors import AsktellError, InvalidStateError
from asktell.methods import PARTS, Elimination, Method, check_method
from asktell.numerics.intmap import IntMap
from asktell.problem import checks
from asktell.problem.budget import Budget, Costs, Spent
from asktell.problem.candidates import ById, Candidates, Prompts
from asktell.problem.checks import short, whole
from asktell.problem.goals import BestFeasible, Constraint, Goal, Objective, ParetoSet
from asktell.state import Failures, Grown, History, Problem, State, events, grown, initial
from asktell.state.growth import check_key, extension, prompts_after, told_departures
from asktell.state.problem import checked_problem
from asktell.state.queue import Queue

FORMAT = "asktell.selector"
VERSION = 1
_MOST_TRIALS = 2**62
# Of what is compressed: texts and scores of real studies become 3 to 20 times as many bytes.
_FREE_BYTES, _MOST_PER_BYTE = 2**14, 32
_T = TypeVar("_T")


# Checks of single values, each with the name by which its error calls it; for numbers see `asktell.problem.checks`.


def parse(text: object, what: str) -> dict[str, Any]:
    """JSON text to a mapping."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidStateError(f"{what} must be JSON text, got {type(text).__name__}.")
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidStateError(f"{what} is not whole JSON: {error}. Is the file truncated?") from error
    return typed(what, data, dict)


def most_bytes(size: int) -> int:
    """How many bytes so many compressed ones may become; zlib alone would allow a thousand times as many."""
    return _FREE_BYTES + _MOST_PER_BYTE * size


def compress(text: bytes, level: int) -> bytes:
    """Compressed as far as `decompress` accepts it, by a level of zlib."""
    data = zlib.compress(text, level)
    return data if len(text) <= most_bytes(len(data)) else zlib.compress(text, 0)


def decompress(data: bytes, what: str, most: int | None = None) -> bytes:
    """What `compress` compressed; refused, and not unpacked, beyond a number of bytes, by default `most_bytes`."""
    most = most_bytes(len(data)) if most is None else most
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, most + 1)
        if len(found) <= most and not stream.eof:
            raise zlib.error("it was cut off")
    except zlib.error as error:
        raise InvalidStateError(f"{what} cannot be decompressed: {error}.") from error
    if len(found) > most:
        raise InvalidStateError(
            f"{what} has {len(data)} bytes that would become more than {most}, which asktell never writes. It was not "
            "read any further. Only use files of people you trust."
        )
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


@contextmanager
def checked(what: str) -> Iterator[None]:
    """A block, or a function, that loads something: whatever goes wrong in it is an InvalidStateError."""
    try:
        yield
    except InvalidStateError:
        raise
    except (AsktellError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        raise InvalidStateError(f"{what} is malformed: {error}") from error


def typed(what: str, data: object, kind: type[_T]) -> _T:
    """An object (dict), a text (str) or a truth value (bool)."""
    if not isinstance(data, kind):
        name = {dict: "an object", str: "text", bool: "true or false"}[kind]
        raise InvalidStateError(f"{what} must be {name}, got {type(data).__name__}.")
    return data


def items(what: str, data: object, length: int | None = None) -> list[Any]:
    """A list, of a length if one is given."""
    if not isinstance(data, list) or (length is not None and len(data) != length):
        size = "" if length is None else f" of {length}"
        raise InvalidStateError(f"{what} must be a list{size}, got {short(data)}.")
    return data


number = partial(checks.check_number, low=-checks.LARGEST, high=checks.LARGEST)
"""A number of any size that asktell takes."""
_estimate = partial(checks.check_number, low=-sys.float_info.max, high=sys.float_info.max)
_sum = partial(checks.check_number, low=0.0, high=sys.float_info.max)


def _column(what: str, data: Any, low: int, high: int, length: int | None = None) -> Any:
    """(n,) whole numbers, of a list or of an array."""
    values = np.array(data) if len(data) else np.zeros(0, dtype=np.int64)
    right = values.dtype == np.int64 and values.ndim == 1 and length in (None, len(values))
    if not right or not ((low <= values) & (values <= high)).all():
        n = "" if length is None else f"{length} "
        raise InvalidStateError(f"{what} must be a list of {n}whole numbers from {low} to {high}.")
    return values


def _matrix(what: str, data: Any, n_rows: int, n_columns: int) -> Any:
    """(n_rows, n_columns) numbers of any size that asktell takes, of lists or of an array."""
    values = np.array(data) if len(data) else np.empty((0, n_columns))
    right = values.dtype.kind in "if" and values.shape == (n_rows, n_columns)
    if not right or not (np.abs(values) <= checks.LARGEST).all():
        raise InvalidStateError(
            f"{what} must be {n_rows} rows of {n_columns} finite numbers, at most {checks.LARGEST} in size."
        )
    return values.astype(np.float64)


# Methods, as class names and fields


def dump_part(part: Any) -> dict[str, Any]:
    """A part of a method, or a whole one, as its class name and its fields."""
    name = type(part).__name__
    kind: Any = PARTS.get(name)
    if kind is not type(part):
        raise InvalidStateError(
            f"{part!r} cannot be saved: {name} is not one of asktell's own parts. Keep the method in your code, and "
            "pass it again: Selector.from_json(text, method=...)."
        )
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(kind)}
    return {"type": name, **{k: dump_part(v) if dataclasses.is_dataclass(v) else v for k, v in values.items()}}


def load_part(data: object) -> Any:
    """The part that `dump_part` made `data` of."""
    record = dict(typed("method", data, dict))
    name = record.pop("type", None)
    kind: Any = PARTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidStateError(f"Unknown part of a method: {name!r}. Was this saved by a newer asktell?")
    values = {key: load_part(value) if isinstance(value, dict) else value for key, value in record.items()}
    if any(not isinstance(v, str | int | float | None) and not dataclasses.is_dataclass(v) for v in values.values()):
        raise InvalidStateError(f"The fields of {name} must be plain values, got {short(values)}.")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise InvalidStateError(f"The saved {name} is malformed: {error}") from error


# Goals and problems


def dump_goal(goal: Goal) -> dict[str, Any]:
    """A goal as data."""

    def dump(parts: Sequence[Objective | Constraint]) -> list[dict[str, Any]]:
        return [vars(part) | {"range": None if part.range is None else list(part.range)} for part in parts]

    sure = {"sure": goal.sure} if isinstance(goal, BestFeasible) and goal.sure is not None else {}
    parts = {"objectives": dump(goal.objectives), "subject_to": dump(goal.constraints)}
    return {"type": type(goal).__name__, **parts, **sure}


def load_goal(data: object) -> Goal:
    """The goal that `dump_goal` made `data` of."""
    record = typed("goal", data, dict)

    def load(kind: Any, name: str) -> list[Any]:
        found = items(f"goal.{name}", record.get(name))
        return [kind(**_fields_of(kind, f"goal.{name}", item)) for item in found]

    objectives, constraints = load(Objective, "objectives"), load(Constraint, "subject_to")
    if record.get("type") == "BestFeasible" and len(objectives) == 1:
        return BestFeasible(objectives[0], constraints, record.get("sure"))
    if record.get("type") == "ParetoSet":
        return ParetoSet(*objectives, subject_to=constraints)
    raise InvalidStateError(f"Unknown goal: {short(record)}.")


def _fields_of(kind: Any, what: str, data: object) -> dict[str, Any]:
    """The fields of a dataclass in `data`; one with a default may be missing, and an unknown one is refused."""
    record, fields = typed(what, data, dict), dataclasses.fields(kind)
    if unknown := record.keys() - {field.name for field in fields}:
        raise InvalidStateError(f"{what} has the unknown key {min(unknown)!r}. Was this saved by a newer asktell?")
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    if missing := needed - record.keys():
        raise InvalidStateError(f"{what} is malformed: {min(missing)!r} is missing.")
    return record


_DEFAULTS: dict[str, Any] = {
    "examples": None, "features": None, "seed": 0, "sampling": "shared", "on_failure": "skip", "max_failure_rate": 0.5,
    "max_cost": None, "max_cost_per_evaluation": None, "baseline": None, "example_ids": None, "repeats": None,
    "inputs": "new", "profile": None, "segments": None,
}  # fmt: skip
"""What a problem's key stands for if it is missing: a key that is added later makes no older file unreadable."""


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
        "max_cost": problem.max_cost,
        "max_cost_per_evaluation": problem.max_cost_per_evaluation,
        "baseline": problem.baseline,
        "example_ids": None if problem.examples is None else problem.examples.ids,
        "repeats": None if problem.repeats == 1 and not problem.exact else problem.repeats,
        "inputs": problem.inputs,
        "profile": None if problem.profile is None else problem.profile.to_data(),
        "segments": None if problem.labels is None else list(problem.labels),
    }


def load_problem(data: Mapping[str, Any], prompts: Prompts) -> Problem:
    """The problem that `dump_problem` made `data` of; a key with a default may be missing."""
    data = {**_DEFAULTS, **data}
    n_examples, ids, baseline, features = (
        data.get(name) for name in ("examples", "example_ids", "baseline", "features")
    )
    if ids is not None and len(items("example_ids", ids)) != n_examples:
        raise InvalidStateError(f"There are {len(ids)} ids for {short(n_examples)} examples.")
    return checked_problem(
        prompts,
        load_goal(data["goal"]),
        Budget(data["budget"], data["max_cost"], data["max_cost_per_evaluation"]),
        n_examples if ids is None else ids,
        None if features is None else items("features", features),
        data["seed"],
        data["sampling"],
        data["on_failure"],
        data["max_failure_rate"],
        None if baseline is None else ById(prompts.ids[whole("baseline", baseline, 0, len(prompts) - 1)]),
        data["repeats"],
        data["profile"],
        data["segments"],
        data["inputs"],
    )


# Decisions and growth


def load_decided(data: object, problem: Problem) -> events.Decided:
    """The decision whose fields `data` has, by their names."""
    record = typed("a decision", data, dict)
    pulls, plan = record.get("pulls"), record.get("plan")
    n_pulls = partial(whole, "pulls", low=0, high=problem.budget)
    arm = partial(whole, "arm", low=0, high=problem.n_arms - 1)
    example = partial(whole, "example", low=-1, high=(problem.n_examples or 0) - 1)
    pairs = None if plan is None else [items("a planned pull", pull, 2) for pull in items("a decision's plan", plan)]
    return events.Decided(
        round=whole("round", record.get("round"), 0),
        departures=tuple(_load_departure(item, problem) for item in items("departures", record.get("departures"))),
        pulls=tuple(map(n_pulls, pulls)) if isinstance(pulls, list) else n_pulls(pulls),
        finished=typed("finished", record.get("finished"), bool),
        answer=tuple(map(arm, items("answer", record.get("answer")))),
        plan=None if pairs is None else tuple((arm(a), example(x)) for a, x in pairs),
        settled=typed("settled", record.get("settled"), bool),
    )


def _load_departure(data: object, problem: Problem) -> events.Departure:
    arm, status, reason, means, errors = items("a departure", data, 5)
    if status not in (events.ACCEPTED, events.REJECTED, events.FAILED):
        raise InvalidStateError(f"A departure is malformed: {short(data)}.")
    n_metrics = len(problem.goal.columns)
    if {len(items("a departure's estimate", vector)) for vector in (means, errors)} not in ({0}, {n_metrics}):
        raise InvalidStateError(f"A departure's estimate needs {n_metrics} means and errors, got {short(data)}.")
    return events.Departure(
        whole("arm", arm, 0, problem.n_arms - 1),
        status,
        typed("a reason", reason, str),
        tuple(_estimate("an estimate", x) for x in means),
        tuple(None if x is None else _estimate("a standard error", x) for x in errors),
    )


def load_remark(data: object) -> events.Remarked:
    """The remark that these data are."""
    topic, text, doubtful = items("a remark", data, 3)
    return events.Remarked(
        typed("a topic", topic, str), typed("a remark", text, str), typed("doubtful", doubtful, bool)
    )


LETTERS: dict[str, type[events.Growth]] = {"n": events.Added, "q": events.Retired, "e": events.Extended}
"""Of the events by which a selection grows or shrinks."""


def dump_growth(event: events.Growth) -> list[Any]:
    """An event as its letter and its fields."""
    fields: list[Any] = list(event)
    if isinstance(event, events.Added):  # candidates stand where the texts of prompts do
        *fields, candidates = event
        fields[:2] = [event.ids, event.texts] if candidates is None else [None, candidates.to_data()]
    return [next(letter for letter, kind in LETTERS.items() if isinstance(event, kind)), *fields]


def load_growth(data: list[Any], problem: Problem) -> events.Growth:
    """The event that `dump_growth` made `data` of; `problem` as it was before."""
    kind = LETTERS[data[0]]
    event: events.Growth = kind(*items("growth", data, 1 + len(kind._fields) - (kind is events.Added))[1:])
    check_key(event.key)
    if isinstance(event, events.Retired):
        arm = whole("an arm", event.arm, 0, problem.n_arms - 1)
        return event._replace(arm=arm, reason=typed("a reason", event.reason, str))
    if isinstance(event, events.Extended):
        if event.ids is not None and len(event.ids) != event.examples:
            raise InvalidStateError(f"There are {len(event.ids)} ids for {event.examples!r} examples that join.")
        if any(type(each) not in (int, float) for each in event[:3]):
            raise InvalidStateError(f"A selection is extended by numbers, got {short(event[:3])}.")
        more = event.evaluations, event.cost, event.examples if event.ids is None else event.ids
        evaluations, cost, examples = (None if each == 0 else each for each in more)
        return extension(evaluations, cost, examples, event.key)
    if (event.features is None) != (problem.features is None):
        raise InvalidStateError("Prompts that join have features where the others have some, and only there.")
    prompts, features = _load_prompts(event.ids, event.texts), None
    if event.features is not None:
        features = tuple(map(tuple, checks.check_features(items("features", event.features), len(prompts)).tolist()))
    ids = None if isinstance(prompts.ids, range) else tuple(map(str, prompts.ids))
    return events.Added(ids, tuple(prompts.texts), features, event.key, prompts.candidates)


def _load_prompts(ids: Any, texts: Any) -> Prompts:
    if isinstance(texts, dict):
        return Prompts.of(Candidates.from_data(texts))
    items("prompts", texts, None if ids is None else len(ids))
    return Prompts.of(texts if ids is None else dict(zip(ids, texts, strict=True)))


def _load_grown(data: object, problem: Problem, n_decisions: int) -> tuple[Problem, tuple[Grown, ...]]:
    growth, before = [], 0
    for decisions, spent, cost, entry in items("growth", data):
        event = load_growth(items("growth", entry), problem)
        before = whole("decisions", decisions, before, n_decisions)
        growth.append(Grown(before, whole("spent", spent, 0), _sum("cost", cost), event))
        problem = grown(problem, event)
    return problem, tuple(growth)


# The state, as columns and decisions; what follows from those is not repeated


def dump_state(state: State) -> dict[str, Any]:
    """A state as data."""
    return {**dump_rows(state), **dump_rest(state), "draws": state.draws.tolist()}


def dump_rows(
    state: State, rows: int = 0, decisions: int = 0, failures: int = 0, pack: Callable[[Any], Any] = np.ndarray.tolist
) -> dict[str, Any]:
    """What is only added to: rows, decisions and failures, each from a number on; columns as `pack` has them."""
    history, failed = state.history, state.failures
    return {
        "trials": pack(history.trials(rows)),
        "arms": pack(history.arms(rows)),
        "examples": pack(history.examples(rows)),
        "scores": pack(history.scores(rows)),
        "decisions": [[n_rows, decided._asdict()] for n_rows, decided in state.decisions[decisions:]],
        "failures": {
            "trials": pack(failed.pulls.trials(failures)),
            "arms": pack(failed.pulls.arms(failures)),
            "examples": pack(failed.pulls.examples(failures)),
            "reasons": failed.reasons(failures),
        },
    }


def dump_rest(state: State) -> dict[str, Any]:
    """What changes from state to state, but for the `draws`, which are long."""
    told, _ = told_departures(state.decisions, state.growth)
    return {
        "pending": [pull for _, pull in sorted(state.pending.items())],
        "returned": tuple(state.returned),
        "plan": [state.plan_arms[state.position :], state.plan_examples[state.position :]],
        "redraws": sorted(state.redraws.items()),
        "failed_out": [
            [arm, round_, d.reason]
            for arm, (round_, d) in sorted(state.left.items())
            if d.status == events.FAILED and (round_, d) != told.get(arm)
        ],
        "asked": state.asked,
        "spent": state.spent,
        "cost": state.cost,
        "costs": {"all": state.costs.pool, "arms": [[arm, *each] for arm, each in sorted(state.costs.by_arm.items())]},
        "growth": [[*each[:-1], dump_growth(each.event)] for each in state.growth],
        **({"remarks": sorted(state.remarks.values())} if state.remarks else {}),
    }


def load_state(data: object, origin: Problem) -> State:
    """The state that `dump_state` made `data` of; equal to it in every bit. Columns may be arrays as well as lists.

    `origin`: the problem as known before the first pull.
    """
    record = typed("state", data, dict)
    problem, growth = _load_grown(record["growth"], origin, len(record["decisions"]))
    n_arms, n_examples = problem.n_arms, problem.n_examples or 0
    trials = _column("trials", record["trials"], -1, _MOST_TRIALS)
    arms = _column("arms", record["arms"], 0, n_arms - 1, len(trials))
    examples = _column("examples", record["examples"], -1, n_examples - 1, len(trials))
    scores = _matrix("scores", record["scores"], len(trials), len(problem.goal.columns))
    told = trials[trials >= 0]
    failures = _load_failures(record["failures"], n_arms, n_examples)
    # Whatever was asked was told, is out, has failed, or was handed back and forgotten when its arm left.
    most = (n_arms + 1) * problem.budget + len(failures)
    asked = whole("asked", record["asked"], 0, most)
    for what, ids in (("told", told), ("failed", failures.pulls.trials())):
        if (np.diff(np.sort(ids)) == 0).any() or ids.max(initial=-1) >= asked:
            raise InvalidStateError(f"A trial {what} twice, or before it was asked.")
    scored = np.isin(failures.pulls.trials(), told)
    if scored.any() if problem.failure_scores is None else not scored.all():
        raise InvalidStateError("Failed trials have scores where on_failure says so, and only there.")
    if record["spent"] != len(told):
        raise InvalidStateError(f"spent is {short(record['spent'])}, but {len(told)} trials were told.")
    state = initial(problem)._replace(
        origin=origin,
        growth=growth,
        history=History.from_columns(trials, arms, examples, scores),
        failures=failures,
        asked=asked,
        spent=len(told),
        cost=_estimate("cost", record["cost"]),
        costs=_load_costs(record["costs"], n_arms),
        remarks={each.topic: each for each in map(load_remark, items("remarks", record.get("remarks", [])))},
    )
    state = _load_decisions(record["decisions"], state, trials, arms, scores)

    def arm(number: object) -> int:
        return whole("arm", number, 0, n_arms - 1)

    def pulls(name: str) -> list[events.Pull]:
        return [
            events.Pull(
                None if trial is None else whole("trial", trial, 0, asked - 1),
                arm(number),
                None if example is None else whole("example", example, 0, n_examples - 1),
            )
            for trial, number, example in items(name, record[name])
        ]

    pending, returned = pulls("pending"), pulls("returned")
    if any(pull.trial is None for pull in pending):
        raise InvalidStateError("A trial is pending without its id.")
    over = np.concatenate((told, failures.pulls.trials()))
    out = [pull.trial for pull in (*pending, *returned) if pull.trial is not None]
    if len(set(out)) < len(out) or np.isin(np.array(out, dtype=np.int64), over).any():
        raise InvalidStateError("A trial is out twice, or out and told or failed.")
    plan_arms, plan_examples = record["plan"]
    plan_arms = _column("plan", plan_arms, 0, n_arms - 1)
    plan_examples = _column("plan", plan_examples, -1, n_examples - 1, len(plan_arms))
    if len(told) + len(pending) + len(returned) + len(plan_arms) > problem.budget:
        raise InvalidStateError(f"More trials are told, out and planned than the budget of {problem.budget} allows.")
    for number, round_, reason in items("failed_out", record["failed_out"]):
        departure = events.Departure(arm(number), events.FAILED, typed("a reason", reason, str))
        state = state._replace(left=state.left.set(departure.arm, (whole("round", round_, 0), departure)))
    redraws = {arm(number): whole("redraws", extra, 1, most) for number, extra in items("redraws", record["redraws"])}
    return state._replace(
        pending=IntMap({pull.trial: pull for pull in pending if pull.trial is not None}),
        returned=Queue(returned),
        plan_arms=tuple(plan_arms.tolist()),
        plan_examples=tuple(plan_examples.tolist()),
        draws=_column("draws", record["draws"], 0, most + len(trials), n_arms),
        redraws=redraws,
    )


def _load_decisions(data: object, state: State, trials: Any, arms: Any, scores: Any) -> State:
    decisions: list[tuple[int, events.Decided]] = []
    tally, tallied = state.tally, 0
    reopening = {each.decisions for each in state.growth}
    for number, (rows, decided) in enumerate(items("decisions", data)):
        rows = whole("rows", rows, tallied, len(trials))
        event = load_decided(decided, state.problem)
        if event.round != number or (decisions and decisions[-1][1].finished and number not in reopening):
            raise InvalidStateError("The decisions are not in their order.")
        order = tallied + np.argsort(trials[tallied:rows], kind="stable")
        tally, tallied = tally.plus(arms[order], scores[order]), rows
        decisions.append((rows, event))
    left, reopened = told_departures(decisions, state.growth)
    return state._replace(tally=tally, tallied=tallied, left=left, reopened=reopened, decisions=tuple(decisions))


def _load_costs(data: object, n_arms: int) -> Costs:
    record = typed("costs", data, dict)

    def spent(n: object, total: object, highest: object) -> Spent:
        found = Spent(whole("costs", n, 0), _sum("costs", total), _sum("costs", highest))
        if not found.n and found.total:
            raise InvalidStateError(f"The costs of no evaluation cannot be {found.total:g}.")
        return found

    by_arm = {whole("arm", arm, 0, n_arms - 1): spent(*rest) for arm, *rest in items("costs", record["arms"])}
    return Costs(IntMap(by_arm), spent(*record["all"]))


def _load_failures(data: object, n_arms: int, n_examples: int) -> Failures:
    record = typed("failures", data, dict)
    reasons = [typed("a reason", reason, str) for reason in items("the reasons of failures", record.get("reasons"))]
    limits = (("trials", 0, _MOST_TRIALS), ("arms", 0, n_arms - 1), ("examples", -1, n_examples - 1))
    trials, arms, examples = (
        _column("failures", record.get(name), low, high, len(reasons)) for name, low, high in limits
    )
    return Failures(History.from_columns(trials, arms, examples, np.empty((len(reasons), 0))), reasons)


# A whole selector


def dump_selector(prompts: Prompts, method: Method, state: State) -> dict[str, Any]:
    """A selector as data; `prompts` and everything beside the state as they were before the first pull."""
    ids = None if isinstance(prompts.ids, range) else list(prompts.ids)
    saved = {"ids": ids, "texts": list(prompts.texts)} if prompts.candidates is None else prompts.candidates.to_data()
    return {
        "format": FORMAT,
        "version": VERSION,
        "asktell": own_version(),
        "prompts": saved,
        "method": dump_part(method),
        **dump_problem(state.origin),
        "state": dump_state(state),
    }


@checked("The saved selector")
def load_selector(data: Mapping[str, Any], method: Method | None = None) -> tuple[Prompts, Method, State]:
    """What `dump_selector` made `data` of; `method` stands in for one that a file cannot hold."""
    if data.get("format") != FORMAT:
        raise InvalidStateError(f"This is not a saved asktell selector: its format is {short(data.get('format'))}.")
    if data.get("version") != VERSION:
        raise InvalidStateError(
            f"The saved selector has version {short(data.get('version'))}, this asktell reads {VERSION}. "
            f"It was written by asktell {short(data.get('asktell'))}: use that version or a newer one."
        )
    saved = typed("prompts", data.get("prompts"), dict)
    prompts = _load_prompts(None, saved) if "factors" in saved else _load_prompts(saved["ids"], saved["texts"])
    problem = load_problem(data, prompts)
    method = load_part(data.get("method")) if method is None else method
    if not isinstance(method, Method):
        raise InvalidStateError(f"The saved method must be an Elimination, Adaptive or Race, got {short(method)}.")
    method.check(problem)
    state = load_state(data.get("state"), problem)
    rounds = method.rounds(problem) if isinstance(method, Elimination) else None
    if rounds is not None and not (state.finished or state.reopened) and len(state.decisions) > len(rounds):
        raise InvalidStateError(f"{len(state.decisions)} rounds were decided, but the method has {len(rounds)}.")
    later = prompts
    for each in state.growth:
        check_method(method, each.event)
        later = prompts_after(later, each.event)  # which refuses ids and texts that are there already
    return prompts, method, state
