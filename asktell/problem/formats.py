"""Readers and writers of JSON that check what they read, and the format of goals.

Loaded data are checked field by field before any object is built. Malformed, truncated
or foreign input is refused. Loading never executes code from a file.
"""

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from asktell.errors import AsktellError, InvalidStateError
from asktell.problem.candidates import Candidates
from asktell.problem.checks import DAMAGED, MalformedError
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.problem.objectives import Constraint, Objective
from asktell.problem.words import short

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
    with checked(what):
        return typed("It", _parsed(text), dict)


def _parsed(text: str | bytes | bytearray) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        # Without Python's advice on its limit of digits
        reason = str(error).partition(";")[0]
        raise MalformedError(f"The text is not JSON ({reason}).") from error


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
        decompressed = stream.decompress(data, most + 1)
        if len(decompressed) <= most and not stream.eof:
            raise zlib.error("it was cut off")
    except zlib.error as error:
        raise MalformedError(f"It cannot be decompressed ({error}).") from error
    if len(decompressed) > most:
        raise InvalidStateError(
            f"{what} has {len(data):,} bytes that decompress to more than {most:,}. asktell never writes such data, so "
            "it stopped reading. Only use files from people you trust."
        )
    return decompressed


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


@contextmanager
def checked(what: str | Callable[[], str]) -> Iterator[None]:
    """Turn any error in a block, or a function, that loads data into an InvalidStateError.

    `what` is the name of the data, or a function that returns it after an error.
    """
    try:
        yield
    except (
        AsktellError,
        TypeError,
        ValueError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        if isinstance(error, InvalidStateError) and not isinstance(
            error, MalformedError
        ):
            raise
        finding = (
            error
            if isinstance(error, AsktellError)
            else f"A value is missing, or does not have the expected form ({error})."
        )
        name = what() if callable(what) else what
        raise InvalidStateError(
            f"{name} cannot be read. {DAMAGED} The check found: {finding}"
        ) from error


def typed(what: str, data: object, kind: type[_T]) -> _T:
    """Check that data are an object (dict), text (str) or a truth value (bool).

    Raises:
        InvalidStateError: the data are of another type.
    """
    if not isinstance(data, kind):
        name = {dict: "a JSON object", str: "text", bool: "true or false"}[kind]
        raise MalformedError(f"{what} must be {name}, got {type(data).__name__}.")
    return data


def items(what: str, data: object, length: int | None = None) -> list[Any]:
    """Check that data are a list, of a length if `length` is given.

    Raises:
        InvalidStateError: the data are not such a list.
    """
    if not isinstance(data, list) or (length is not None and len(data) != length):
        size = "" if length is None else f" of {length}"
        raise MalformedError(f"{what} must be a list{size}, got {short(data)}.")
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
    return _json.encode(msgspec.to_builtins(data, enc_hook=_dump_candidates))


class Decoder(Generic[_T]):
    """A reader of one type of data. The type describes the format."""

    def __init__(self, kind: Any) -> None:
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
            raise _malformed(error) from error
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            # msgspec refuses half of a surrogate pair, which text in Python and JSON
            # may contain. Python's own parser accepts it, and has a clear message for
            # all other errors.
            return self.convert(_parsed(text))

    def convert(self, data: object) -> _T:
        """Read data that a JSON parser has returned.

        Raises:
            InvalidStateError: the data are not of this type.
        """
        try:
            loaded: _T = msgspec.convert(data, self._kind, dec_hook=_load_candidates)
        except msgspec.ValidationError as error:
            raise _malformed(error) from error
        return loaded


def _malformed(error: msgspec.ValidationError) -> MalformedError:
    return MalformedError(f"A value does not have the expected form ({error}).")


_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _dump_candidates(value: object) -> object:
    if isinstance(value, Candidates):
        return value.to_data()
    raise NotImplementedError(f"{type(value).__name__} is not written to files")


def _load_candidates(kind: type, data: object) -> object:
    if kind is Candidates:
        return Candidates.from_data(data)
    raise NotImplementedError(f"{kind.__name__} is not read from files")


# Goals


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
        entries = items(f"goal.{name}", record.get(name))
        return [kind(**_fields_of(kind, f"goal.{name}", item)) for item in entries]

    objectives = load(Objective, "objectives")
    constraints = load(Constraint, "subject_to")
    if record.get("type") == "BestFeasible" and len(objectives) == 1:
        return BestFeasible(objectives[0], constraints, record.get("sure"))
    if record.get("type") == "ParetoSet":
        return ParetoSet(*objectives, subject_to=constraints)
    raise MalformedError(
        f"The goal must be a BestFeasible with one objective, or a ParetoSet, got {short(record)}."
    )


def _fields_of(kind: Any, what: str, data: object) -> dict[str, Any]:
    """Check the fields of a dataclass in `data`. A field with a default may be missing. Unknown fields are refused."""
    record, fields = typed(what, data, dict), dataclasses.fields(kind)
    if unknown := record.keys() - {field.name for field in fields}:
        raise MalformedError(f"{what} has the unknown key {min(unknown)!r}.")
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    if missing := needed - record.keys():
        raise MalformedError(f"{what} lacks the key {min(missing)!r}.")
    return record
