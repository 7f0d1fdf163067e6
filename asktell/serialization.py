"""The JSON formats of saved selectors: versioned, plain data. Loading never executes code from a file.

Loaded data are checked field by field before any object is built. Malformed, truncated
or foreign input is refused.
"""

import dataclasses
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, structs

from asktell._util.extras import check_format, own_version
from asktell.allocators import AbstractAllocator
from asktell.elimination import AbstractEliminationRule
from asktell.errors import AsktellError, InvalidStateError, MissingMethodError
from asktell.estimators import AbstractEstimator
from asktell.methods import PARTS, AbstractMethod, Elimination, Method
from asktell.numerics.arrays import Indices, Matrix
from asktell.numerics.intmap import IntMap
from asktell.problem import checks
from asktell.problem.budget import Budget, Costs, Spent
from asktell.problem.candidates import ById, Candidates, Prompts
from asktell.problem.checks import short, whole
from asktell.problem.goals import BestFeasible, Constraint, Goal, Objective, ParetoSet
from asktell.schedulers import AbstractScheduler
from asktell.state import (
    Failures,
    Grown,
    History,
    Problem,
    State,
    check_decision,
    events,
    grown,
    initial,
)
from asktell.state.events import Index
from asktell.state.growth import check_growth, prompts_after, told_departures
from asktell.state.problem import checked_problem
from asktell.state.proxies import ProxyScores
from asktell.state.queue import Queue

FORMAT = "asktell.selector"
VERSION = 1
# Most bytes after decompression: so many for free, and so many per compressed byte. The
# texts and scores of real studies become 3 to 20 times as many bytes.
_FREE_BYTES, _MOST_PER_BYTE = 2**14, 32
_T = TypeVar("_T")


# Checks of single values. `what` is the name of the value in errors. For numbers see
# `asktell.problem.checks`.


def parse(text: object, what: str) -> dict[str, Any]:
    """Parse JSON text to a mapping.

    Raises:
        InvalidStateError: the text is not JSON of an object.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidStateError(f"{what} must be JSON text, got {type(text).__name__}.")
    return typed(what, _parsed(text, what), dict)


def _parsed(text: str | bytes | bytearray, what: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidStateError(
            f"{what} is not complete JSON: {error}. Is the file truncated?"
        ) from error


def most_bytes(size: int) -> int:
    """The most bytes that `size` compressed bytes may become. zlib alone would allow a thousand times as many."""
    return _FREE_BYTES + _MOST_PER_BYTE * size


def compress(text: bytes, level: int) -> bytes:
    """Compress bytes with a level of zlib, but never more than `decompress` accepts."""
    data = zlib.compress(text, level)
    return data if len(text) <= most_bytes(len(data)) else zlib.compress(text, 0)


def decompress(data: bytes, what: str, most: int | None = None) -> bytes:
    """Decompress the bytes that `compress` returned.

    `most` is the most bytes to unpack. None: `most_bytes`.

    Raises:
        InvalidStateError: the data are malformed, or would become more than `most`
            bytes. These are not unpacked.
    """
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
            f"{what} has {len(data)} bytes that would become more than {most}. asktell never writes such data, and "
            "stopped reading. Only use files from people you trust."
        )
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Turn any error in a block, or a function, that loads data into an InvalidStateError."""
    try:
        yield
    except InvalidStateError:
        raise
    except (
        AsktellError,
        TypeError,
        ValueError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        raise InvalidStateError(f"{what} is malformed: {error}") from error


def typed(what: str, data: object, kind: type[_T]) -> _T:
    """Check that data are an object (dict), text (str) or a truth value (bool).

    Raises:
        InvalidStateError: the data are of another type.
    """
    if not isinstance(data, kind):
        name = {dict: "an object", str: "text", bool: "true or false"}[kind]
        raise InvalidStateError(f"{what} must be {name}, got {type(data).__name__}.")
    return data


def items(what: str, data: object, length: int | None = None) -> list[Any]:
    """Check that data are a list, of a length if `length` is given.

    Raises:
        InvalidStateError: the data are not such a list.
    """
    if not isinstance(data, list) or (length is not None and len(data) != length):
        size = "" if length is None else f" of {length}"
        raise InvalidStateError(f"{what} must be a list{size}, got {short(data)}.")
    return data


# Typed data: the definitions of events and of the saved state describe their format, so
# they need no code here.


def builtins(data: object) -> Any:
    """Typed data as the lists, mappings and plain values of JSON."""
    return msgspec.to_builtins(data, enc_hook=_dump_candidates)


def encode(data: object) -> str:
    """Typed data as compact JSON in plain ASCII.

    Raises:
        ValueError: a number is infinite or NaN, which JSON cannot hold.
    """
    return _json.encode(builtins(data))


class Decoder(Generic[_T]):
    """A reader of one type of data. The type describes the format, and `what` is the name of the data in errors."""

    def __init__(self, what: str, kind: Any) -> None:
        self._what = what
        self._kind = kind
        self._decoder: msgspec.json.Decoder[_T] = msgspec.json.Decoder(
            kind, dec_hook=_load_candidates
        )

    def decode(self, text: str | bytes) -> _T:
        """Read JSON text.

        Raises:
            InvalidStateError: the text is not complete JSON, or not of this type.
        """
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise self._malformed(error, text) from error
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            # msgspec refuses half of a surrogate pair, which text in Python and JSON
            # may contain. Python's own parser accepts it, and has a clear message for
            # all other errors.
            return self.convert(_parsed(text, self._what))

    def convert(self, data: object) -> _T:
        """Read data that a JSON parser has returned.

        Raises:
            InvalidStateError: the data are not of this type.
        """
        try:
            found: _T = msgspec.convert(data, self._kind, dec_hook=_load_candidates)
        except msgspec.ValidationError as error:
            raise self._malformed(error, data) from error
        return found

    def _malformed(
        self, error: msgspec.ValidationError, came: object
    ) -> InvalidStateError:
        said = str(error)
        newer = (
            " Was it written by a newer asktell? Upgrade this one."
            if said.startswith(_OF_NEWER)
            else ""
        )
        return InvalidStateError(
            f"{self._what} is malformed: {said}. It is {short(came)}.{newer}"
        )


# Errors that msgspec raises for data of a newer version, with new tags or fields.
_OF_NEWER = (
    "Invalid value",
    "Object contains unknown field",
    "Expected `array` of at most length",
)
_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _dump_candidates(value: object) -> object:
    if isinstance(value, Candidates):
        return value.to_data()
    raise NotImplementedError(f"{type(value).__name__} is not written to files")


def _load_candidates(kind: type, data: object) -> object:
    if kind is Candidates:
        return Candidates.from_data(data)
    raise NotImplementedError(f"{kind.__name__} is not read from files")


def _column(
    what: str, data: Any, low: int, high: int, length: int | None = None
) -> Any:
    """(n,) whole numbers from a list or an array, checked."""
    values = np.asarray(data) if len(data) else np.zeros(0, dtype=np.int64)
    right = (
        values.dtype == np.int64 and values.ndim == 1 and length in (None, len(values))
    )
    if not right or not ((low <= values) & (values <= high)).all():
        n = "" if length is None else f"{length} "
        raise InvalidStateError(
            f"{what} must be a list of {n}whole numbers from {low} to {high}."
        )
    return values


def _matrix(what: str, data: Any, n_rows: int, n_columns: int) -> Any:
    """(n_rows, n_columns) finite numbers from lists or an array, checked."""
    values = np.asarray(data) if len(data) else np.empty((0, n_columns))
    right = values.dtype.kind in "if" and values.shape == (n_rows, n_columns)
    if not right or not (np.abs(values) <= checks.LARGEST).all():
        raise InvalidStateError(
            f"{what} must be {n_rows} rows of {n_columns} finite numbers, at most {checks.LARGEST} in size."
        )
    return values.astype(np.float64, copy=False)


# Methods, as class names and fields


def dump_part(part: Any) -> dict[str, Any]:
    """A method, or a part of one, as its class name and its parameters. See `AbstractMethod` for user-defined methods.

    Raises:
        InvalidStateError: a user-defined part has a parameter that is not a plain
            value.
    """
    kind = type(part)
    if dataclasses.is_dataclass(part):
        values = {
            field.name: getattr(part, field.name) for field in dataclasses.fields(part)
        }
    else:
        values = {
            name: value
            for name, value in getattr(part, "__dict__", {}).items()
            if name[0] != "_"
        }
    if PARTS.get(kind.__name__) is kind:
        return {
            "type": kind.__name__,
            **{k: dump_part(v) if _is_part(v) else v for k, v in values.items()},
        }
    parameters = {
        name: _plain(value, f"{kind.__name__}.{name}") for name, value in values.items()
    }
    return {_OWN: kind.__name__, "parameters": parameters}


# Key of the class name of a user-defined part, whose code is not in the file. Parts of
# asktell have the key "type".
_OWN = "own"


def _is_part(value: object) -> bool:
    return dataclasses.is_dataclass(value) or isinstance(value, _PARTS)


_PARTS = (
    AbstractMethod,
    AbstractScheduler,
    AbstractAllocator,
    AbstractEstimator,
    AbstractEliminationRule,
)


def _plain(value: Any, what: str) -> Any:
    if _is_part(value):
        return dump_part(value)
    if isinstance(value, list | tuple):
        return [_plain(item, what) for item in value]
    if isinstance(value, str | bool | int | None) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        return value
    raise InvalidStateError(
        f"{what} is {short(value)}, which cannot be saved. A parameter of your own class must be text, a finite "
        "number, true or false, None, or a list of such values. Store other values in attributes whose names begin "
        "with an underscore."
    )


def own_parts(saved: object) -> list[str]:
    """The class names of the user-defined parts of a saved method."""
    if not isinstance(saved, dict):
        return []
    if _OWN in saved:
        return [str(saved[_OWN])]
    return [name for value in saved.values() for name in own_parts(value)]


def load_method(saved: object, given: Method | None) -> Method:
    """Load a saved method. If it has user-defined parts, return `given`, which must be the same method.

    Raises:
        MissingMethodError: the saved method has user-defined parts, and `given` is
            None.
        InvalidStateError: `given` is another method, or the saved method is malformed.
    """
    own = own_parts(saved)
    if given is None:
        if own:
            raise MissingMethodError(
                f"This selection was made with {checks.some(own)}, which is code of your own and not in the file. "
                "Pass the method again: asktell.Study.open(location, name, method=...) for a study, "
                "asktell.Selector.from_json(text, method=...) for a saved selector. Code cannot be sent to a service."
            )
        given = load_part(saved)
    if not isinstance(given, Method):
        raise InvalidStateError(
            f"The method must be a method of a Selector, got {short(given)}."
        )
    if not _same(saved, dump_part(given)):
        raise InvalidStateError(
            f"This selection was made with another method. It was {_described(saved)}, but method is "
            f"{_described(dump_part(given))}. Pass the same classes with the same parameters."
        )
    return given


def _same(saved: Any, given: Any) -> bool:
    """True if a part equals the saved part. A parameter with a default may be missing in the file."""
    if not isinstance(saved, dict) or not isinstance(given, dict):
        return bool(saved == given)
    if _OWN in given:
        return bool(saved == given)
    if saved.get("type") != given["type"] or saved.keys() - given.keys():
        return False
    defaults = {
        field.name: field.default for field in dataclasses.fields(PARTS[given["type"]])
    }
    return all(
        _same(saved.get(name, defaults.get(name)), value)
        for name, value in given.items()
    )


def _described(saved: Any) -> str:
    """A saved part as a call in Python, for errors."""
    if not isinstance(saved, dict):
        return short(saved)
    parameters = saved.get(
        "parameters", {name: value for name, value in saved.items() if name != "type"}
    )
    named = ", ".join(
        f"{name}={_described(value)}" for name, value in dict(parameters).items()
    )
    return f"{saved.get(_OWN, saved.get('type'))}({named})"


def load_part(data: object) -> Any:
    """Load the data that `dump_part` returned.

    Raises:
        InvalidStateError: the data are malformed, or of an unknown class.
    """
    record = dict(typed("method", data, dict))
    name = record.pop("type", None)
    kind: Any = PARTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidStateError(
            f"Unknown part of a method: {name!r}. Was this saved by a newer asktell?"
        )
    values = {
        key: load_part(value) if isinstance(value, dict) else value
        for key, value in record.items()
    }
    if any(
        not isinstance(v, str | int | float | None) and not dataclasses.is_dataclass(v)
        for v in values.values()
    ):
        raise InvalidStateError(
            f"The fields of {name} must be plain values, got {short(values)}."
        )
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise InvalidStateError(f"The saved {name} is malformed: {error}") from error


# Goals and problems


def dump_goal(goal: Goal) -> dict[str, Any]:
    """The data of a goal."""

    def dump(parts: Sequence[Objective | Constraint]) -> list[dict[str, Any]]:
        return [
            vars(part) | {"range": None if part.range is None else list(part.range)}
            for part in parts
        ]

    sure = (
        {"sure": goal.sure}
        if isinstance(goal, BestFeasible) and goal.sure is not None
        else {}
    )
    parts = {"objectives": dump(goal.objectives), "subject_to": dump(goal.constraints)}
    return {"type": type(goal).__name__, **parts, **sure}


def load_goal(data: object) -> Goal:
    """Load the data that `dump_goal` returned.

    Raises:
        InvalidStateError: the data are malformed, or of an unknown goal.
    """
    record = typed("goal", data, dict)

    def load(kind: Any, name: str) -> list[Any]:
        found = items(f"goal.{name}", record.get(name))
        return [kind(**_fields_of(kind, f"goal.{name}", item)) for item in found]

    objectives, constraints = (
        load(Objective, "objectives"),
        load(Constraint, "subject_to"),
    )
    if record.get("type") == "BestFeasible" and len(objectives) == 1:
        return BestFeasible(objectives[0], constraints, record.get("sure"))
    if record.get("type") == "ParetoSet":
        return ParetoSet(*objectives, subject_to=constraints)
    raise InvalidStateError(f"Unknown goal: {short(record)}.")


def _fields_of(kind: Any, what: str, data: object) -> dict[str, Any]:
    """Check the fields of a dataclass in `data`. A field with a default may be missing. Unknown fields are refused."""
    record, fields = typed(what, data, dict), dataclasses.fields(kind)
    if unknown := record.keys() - {field.name for field in fields}:
        raise InvalidStateError(
            f"{what} has the unknown key {min(unknown)!r}. Was this saved by a newer asktell?"
        )
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    if missing := needed - record.keys():
        raise InvalidStateError(f"{what} is malformed: {min(missing)!r} is missing.")
    return record


_DEFAULTS: dict[str, Any] = {
    "examples": None, "features": None, "seed": 0, "sampling": "shared", "on_failure": "skip", "max_failure_rate": 0.5,
    "max_cost": None, "max_cost_per_evaluation": None, "baseline": None, "example_ids": None, "repeats": None,
    "inputs": "new", "profile": None, "segments": None, "proxies": (),
}  # fmt: skip
"""The values of missing keys of a problem. A file stays readable when a later version adds a key."""
_KEYS = {
    "format",
    "version",
    "asktell",
    "prompts",
    "method",
    "goal",
    "budget",
    "state",
    *_DEFAULTS,
}


def dump_problem(problem: Problem) -> dict[str, Any]:
    """The data of a problem, without prompts and method."""
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
        "repeats": None
        if problem.repeats == 1 and not problem.exact
        else problem.repeats,
        "inputs": problem.inputs,
        "profile": None if problem.profile is None else problem.profile.to_data(),
        "segments": None if problem.labels is None else list(problem.labels),
        "proxies": list(problem.proxies),
    }


def _load_prompts(ids: Any, texts: Any) -> Prompts:
    items("prompts", texts, None if ids is None else len(ids))
    return Prompts.of(texts if ids is None else dict(zip(ids, texts, strict=True)))


def load_problem(data: Mapping[str, Any], prompts: Prompts) -> Problem:
    """Load the data that `dump_problem` returned. A key with a default may be missing.

    Raises:
        InvalidStateError: the data are malformed.
        InvalidArgumentError: the data describe an invalid problem.
    """
    data = {**_DEFAULTS, **data}
    n_examples, ids, baseline, features = (
        data.get(name) for name in ("examples", "example_ids", "baseline", "features")
    )
    if ids is not None and len(items("example_ids", ids)) != n_examples:
        raise InvalidStateError(
            f"Got {len(ids)} example_ids for {short(n_examples)} examples. Was the file changed?"
        )
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
        None
        if baseline is None
        else ById(prompts.ids[whole("baseline", baseline, 0, len(prompts) - 1)]),
        data["repeats"],
        data["profile"],
        data["segments"],
        data["inputs"],
        data["proxies"],
    )


# The state, as columns and decisions. Values that follow from these are not saved.

Total: TypeAlias = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
"""A sum of costs."""
Pack: TypeAlias = Callable[[Any], Any]
"""A function that turns a column (numbers of one type, one item per row) into a list or into packed bytes."""


class Saved(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The base of saved data. Columns are `Any` (lists, arrays, or packed bytes), and `_column` checks them."""


class SavedFailures(Saved, frozen=True, kw_only=True):
    """The failed evaluations, oldest first."""

    trials: Any = ()
    arms: Any = ()
    examples: Any = ()
    reasons: tuple[str, ...] = ()


class SavedProxies(Saved, frozen=True, kw_only=True):
    """The scores of proxies, oldest first. See `ProxyScores`."""

    arms: Any = ()
    examples: Any = ()
    proxies: Any = ()
    scores: Any = ()


class SavedCosts(Saved, frozen=True, kw_only=True):
    """The number of costs, their sum and the highest cost: of all arms, and of each arm with costs."""

    all: tuple[Index, Total, Total] = (0, 0.0, 0.0)
    arms: tuple[tuple[Index, Index, Total, Total], ...] = ()


class SavedRows(Saved, frozen=True, kw_only=True):
    """The part of a state that only grows. Each decision has the number of rows before it."""

    trials: Any = ()
    arms: Any = ()
    examples: Any = ()
    scores: Any = ()
    decisions: tuple[tuple[Index, events.Decided], ...] = ()
    failures: SavedFailures = SavedFailures()
    proxies: SavedProxies = SavedProxies()


class SavedState(SavedRows, frozen=True, kw_only=True):
    """A complete state, or a state without rows in the head of a snapshot. See the fields of `State`."""

    plan: tuple[Any, Any] = ((), ())  # arms and examples of the rest of the plan
    draws: Any
    asked: Index
    spent: Index
    cost: Total = 0.0
    costs: SavedCosts = SavedCosts()
    pending: tuple[events.Pull, ...] = ()
    returned: tuple[events.Pull, ...] = ()
    redraws: tuple[tuple[Index, Index], ...] = ()
    # Arm, round and reason of each arm that failed too often
    failed_out: tuple[tuple[Index, Index, str], ...] = ()
    growth: tuple[Grown, ...] = ()
    remarks: tuple[events.Remarked, ...] = ()


_STATE = Decoder[SavedState]("The saved state", SavedState)
# Most trial ids without a trial. A trial that is returned after its arm has departed is
# forgotten, and its id is never used again.
_MOST_FORGOTTEN = 10**7


def dump_state(state: State) -> dict[str, Any]:
    """The data of a state."""
    found: dict[str, Any] = builtins(with_rows(dump_rest(state), dump_rows(state)))
    return found


def with_rows(rest: SavedState, rows: SavedRows) -> SavedState:
    """A saved state with these rows, decisions, failures and scores of proxies."""
    return structs.replace(rest, **structs.asdict(rows))


def dump_rows(
    state: State,
    rows: int = 0,
    decisions: int = 0,
    failures: int = 0,
    proxies: int = 0,
    pack: Pack = np.ndarray.tolist,
) -> SavedRows:
    """The rows, decisions, failures and scores of proxies of a state, each from an index on."""
    history, failed = state.history, state.failures
    saved = SavedProxies()
    if len(state.proxies) > proxies:
        saved = SavedProxies(
            arms=pack(state.proxies.arms(proxies)),
            examples=pack(state.proxies.examples(proxies)),
            proxies=pack(state.proxies.proxies(proxies)),
            scores=pack(state.proxies.scores(proxies)),
        )
    return SavedRows(
        trials=pack(history.trials(rows)),
        arms=pack(history.arms(rows)),
        examples=pack(history.examples(rows)),
        scores=pack(history.scores(rows)),
        decisions=state.decisions[decisions:],
        failures=SavedFailures(
            trials=pack(failed.pulls.trials(failures)),
            arms=pack(failed.pulls.arms(failures)),
            examples=pack(failed.pulls.examples(failures)),
            reasons=tuple(failed.reasons(failures)),
        ),
        proxies=saved,
    )


def dump_rest(state: State, pack: Pack = np.ndarray.tolist) -> SavedState:
    """The saved state without rows, decisions and failures."""
    told, _ = told_departures(state.decisions, state.growth)
    plan_arms, plan_examples = (
        state.plan_arms[state.position :],
        state.plan_examples[state.position :],
    )
    return SavedState(
        plan=(
            pack(np.array(plan_arms, dtype=np.int64)),
            pack(np.array(plan_examples, dtype=np.int64)),
        ),
        draws=pack(state.draws),
        asked=state.asked,
        spent=state.spent,
        cost=state.cost,
        costs=SavedCosts(
            all=_spent(state.costs.pool),
            arms=tuple(
                (arm, *_spent(each)) for arm, each in sorted(state.costs.by_arm.items())
            ),
        ),
        pending=tuple(pull for _, pull in sorted(state.pending.items())),
        returned=tuple(state.returned),
        redraws=tuple(sorted(state.redraws.items())),
        failed_out=tuple(
            (arm, round_, departure.reason)
            for arm, (round_, departure) in sorted(state.left.items())
            if departure.status == events.FAILED
            and (round_, departure) != told.get(arm)
        ),
        growth=state.growth,
        remarks=tuple(remark for _, remark in sorted(state.remarks.items())),
    )


def _spent(costs: Spent) -> tuple[int, float, float]:
    return costs.n, costs.total, costs.highest


def load_state(saved: SavedState, origin: Problem) -> State:
    """Load a saved state, equal to the original state in every bit.

    `origin` is the problem before the first evaluation.

    Raises:
        InvalidStateError: the saved state is malformed, or contradicts itself.
        InvalidArgumentError: a number is out of range.
    """
    problem = _grown(saved.growth, origin, len(saved.decisions))
    _check_asked(saved, problem)
    n_arms, last_example = problem.n_arms, (problem.n_examples or 0) - 1
    trials = _column("trials", saved.trials, -1, saved.asked - 1)
    arms = _column("arms", saved.arms, 0, n_arms - 1, len(trials))
    examples = _column("examples", saved.examples, -1, last_example, len(trials))
    scores = _matrix("scores", saved.scores, len(trials), len(problem.goal.columns))
    failures = _load_failures(saved, n_arms, last_example)
    plan_arms = _column("plan", saved.plan[0], 0, n_arms - 1)
    plan_examples = _column("plan", saved.plan[1], -1, last_example, len(plan_arms))
    _check_trials(saved, trials[trials >= 0], failures, len(plan_arms), problem)
    for pull in (*saved.pending, *saved.returned):
        whole("arm", pull.arm, 0, n_arms - 1)
        if pull.example is not None:
            whole("example", pull.example, 0, last_example)
    for arm, *_ in (*saved.redraws, *saved.failed_out, *saved.costs.arms):
        whole("arm", arm, 0, n_arms - 1)
    for n, total, _ in (saved.costs.all, *(each[1:] for each in saved.costs.arms)):
        if not n and total:
            raise InvalidStateError(f"The sum of no costs must be 0, got {total:g}.")
    state = _with_decisions(
        saved.decisions,
        saved.growth,
        initial(problem)._replace(origin=origin),
        trials,
        arms,
        scores,
    )
    left = state.left
    for arm, round_, reason in saved.failed_out:
        left = left.set(arm, (round_, events.Departure(arm, events.FAILED, reason)))
    return state._replace(
        left=left,
        growth=saved.growth,
        history=History.from_columns(trials, arms, examples, scores),
        failures=failures,
        proxies=_load_proxies(saved.proxies, problem),
        asked=saved.asked,
        spent=saved.spent,
        cost=saved.cost,
        costs=Costs(
            IntMap(
                {
                    arm: Spent(n, total, highest)
                    for arm, n, total, highest in saved.costs.arms
                }
            ),
            Spent(*saved.costs.all),
        ),
        remarks={each.topic: each for each in saved.remarks},
        pending=IntMap(
            {pull.trial: pull for pull in saved.pending if pull.trial is not None}
        ),
        returned=Queue(saved.returned),
        plan_arms=tuple(plan_arms.tolist()),
        plan_examples=tuple(plan_examples.tolist()),
        draws=_column(
            "draws",
            saved.draws,
            0,
            _most_asked(problem, len(failures)) + len(trials),
            n_arms,
        ),
        redraws=dict(saved.redraws),
    )


def _grown(growth: tuple[Grown, ...], problem: Problem, n_decisions: int) -> Problem:
    """The problem after growth. Each event must be valid at its position."""
    before = 0
    for each in growth:
        before = whole("decisions", each.decisions, before, n_decisions)
        check_growth(initial(problem), each.event)
        problem = grown(problem, each.event)
    return problem


def _most_asked(problem: Problem, n_failures: int) -> int:
    """The largest possible number of assigned trials.

    Each trial has scores, is in progress, has failed, or was returned and forgotten
    because its arm had departed.
    """
    return (problem.n_arms + 1) * problem.budget + n_failures


def _check_asked(saved: SavedState, problem: Problem) -> None:
    """Check the number of assigned trials against the saved trials, before memory is allocated for them."""
    n_failures = len(saved.failures.reasons)
    n_known = len(saved.trials) + n_failures + len(saved.pending) + len(saved.returned)
    whole("asked", saved.asked, 0, _most_asked(problem, n_failures))
    if saved.asked > n_known + _MOST_FORGOTTEN:
        raise InvalidStateError(
            f"asked is {saved.asked}, but only {n_known} trials have scores, have failed or are pending. At most "
            f"{_MOST_FORGOTTEN} may be missing, since each takes memory. Was the file changed?"
        )


def _check_trials(
    saved: SavedState,
    told: Indices,
    failures: Failures,
    n_planned: int,
    problem: Problem,
) -> None:
    """Check that each trial has one state, and that the trials fit the budget.

    `told` (n,) are the ids of the trials with scores, and `n_planned` is the number of
    evaluations left in the plan.
    """
    failed = failures.pulls.trials()
    out = [
        pull.trial
        for pull in (*saved.pending, *saved.returned)
        if pull.trial is not None
    ]
    n_out = len(saved.pending) + len(saved.returned)
    for what, ids in (("told", told), ("failed", failed)):
        if (np.diff(np.sort(ids)) == 0).any():
            raise InvalidStateError(f"A trial {what} twice.")
    scored = _isin(failed, told)
    if scored.any() if problem.failure_scores is None else not scored.all():
        raise InvalidStateError(
            "Failed trials have scores where on_failure says so, and only there."
        )
    if saved.spent != len(told):
        raise InvalidStateError(
            f"spent is {short(saved.spent)}, but {len(told)} trials have scores."
        )
    if any(pull.trial is None for pull in saved.pending):
        raise InvalidStateError("A trial is pending without its id.")
    over = np.concatenate((told, failed))
    if (
        max(out, default=-1) >= saved.asked
        or len(set(out)) < len(out)
        or _isin(np.array(out, dtype=np.int64), over).any()
    ):
        raise InvalidStateError(
            "A trial is out twice, before it was asked, or out and told or failed."
        )
    if len(told) + n_out + n_planned > problem.budget:
        raise InvalidStateError(
            f"More trials are told, out and planned than the budget of {problem.budget} allows."
        )
    for _, extra in saved.redraws:
        whole("redraws", extra, 1, _most_asked(problem, len(failed)))


def _isin(ids: Indices, others: Indices) -> Any:
    """(n,) whether each id is among the others. Unlike NumPy, does not sort a million others for no ids."""
    return np.isin(ids, others) if len(ids) else np.zeros(0, dtype=bool)


def _with_decisions(
    decisions: tuple[tuple[int, events.Decided], ...],
    growth: tuple[Grown, ...],
    state: State,
    trials: Indices,
    arms: Indices,
    scores: Matrix,
) -> State:
    """The state with its decisions, and with the tally of the rows before the last decision."""
    tally, tallied = state.tally, 0
    reopening = {each.decisions for each in growth}
    was_finished = False
    for number, (rows, decided) in enumerate(decisions):
        whole("rows", rows, tallied, len(trials))
        check_decision(state.problem, decided)
        if decided.round != number or (was_finished and number not in reopening):
            raise InvalidStateError("The decisions are not in order.")
        order = tallied + np.argsort(trials[tallied:rows], kind="stable")
        tally, tallied, was_finished = (
            tally.plus(arms[order], scores[order]),
            rows,
            decided.finished,
        )
    left, reopened = told_departures(decisions, growth)
    return state._replace(
        tally=tally, tallied=tallied, left=left, reopened=reopened, decisions=decisions
    )


def _load_failures(saved: SavedState, n_arms: int, last_example: int) -> Failures:
    failed, reasons = saved.failures, list(saved.failures.reasons)
    trials = _column("failures", failed.trials, 0, saved.asked - 1, len(reasons))
    arms = _column("failures", failed.arms, 0, n_arms - 1, len(reasons))
    examples = _column("failures", failed.examples, -1, last_example, len(reasons))
    return Failures(
        History.from_columns(trials, arms, examples, np.empty((len(reasons), 0))),
        reasons,
    )


def _load_proxies(saved: SavedProxies, problem: Problem) -> ProxyScores:
    n, last_example = len(saved.arms), (problem.n_examples or 0) - 1
    return ProxyScores.from_columns(
        _column("proxies", saved.arms, 0, problem.n_arms - 1, n),
        _column("proxies", saved.examples, 0, last_example, n),
        _column("proxies", saved.proxies, 0, len(problem.proxies) - 1, n),
        _matrix("proxies", np.reshape(saved.scores, (-1, 1)), n, 1)[:, 0],
    )


# A whole selector


def dump_selector(prompts: Prompts, method: Method, state: State) -> dict[str, Any]:
    """The data of a selector. `prompts` are the prompts before the first evaluation."""
    ids = None if isinstance(prompts.ids, range) else list(prompts.ids)
    saved = (
        {"ids": ids, "texts": list(prompts.texts)}
        if prompts.candidates is None
        else prompts.candidates.to_data()
    )
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
def load_selector(
    data: Mapping[str, Any], method: Method | None = None
) -> tuple[Prompts, Method, State]:
    """Load the data that `dump_selector` returned. `method` replaces a user-defined method.

    Raises:
        InvalidStateError: the data are malformed, foreign, or of an unknown version.
    """
    check_format("The saved selector", data, FORMAT, VERSION)
    if unknown := data.keys() - _KEYS:
        raise InvalidStateError(
            f"The saved selector has the unknown key {checks.some(sorted(map(str, unknown)))}. It was written by "
            f"asktell {short(data.get('asktell'))}, and this is asktell {own_version()}. Upgrade asktell if the file "
            "was written by a newer version."
        )
    saved = typed("prompts", data.get("prompts"), dict)
    if "factors" in saved:
        prompts = Prompts.of(Candidates.from_data(saved))
    else:
        prompts = _load_prompts(saved.get("ids"), saved["texts"])
    problem = load_problem(data, prompts)
    method = load_method(data.get("method"), method)
    method.check(problem)
    state = load_state(_STATE.convert(data.get("state")), problem)
    rounds = method.rounds(problem) if isinstance(method, Elimination) else None
    if (
        rounds is not None
        and not (state.finished or state.reopened)
        and len(state.decisions) > len(rounds)
    ):
        raise InvalidStateError(
            f"{len(state.decisions)} rounds were decided, but the method has {len(rounds)}."
        )
    later = prompts
    for each in state.growth:
        method.check_growth(each.event)
        # Refuses ids and texts that exist already.
        later = prompts_after(later, each.event)
    return prompts, method, state
