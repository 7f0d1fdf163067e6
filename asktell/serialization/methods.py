"""Methods as data: class names and fields. Only asktell's own parts are named; nothing that is loaded is executed."""

import dataclasses
from dataclasses import is_dataclass
from typing import Any

from asktell import allocators, elimination, estimators, schedulers
from asktell.errors import InvalidStateError
from asktell.methods import Adaptive, Elimination, Race
from asktell.problem.checks import short
from asktell.serialization import fields

PARTS: dict[str, type] = {
    name: getattr(module, name)
    for module in (schedulers, allocators, estimators, elimination)
    for name in module.__all__
    if is_dataclass(getattr(module, name)) and not name.startswith("Abstract")
}

"""The parts of methods that a saved file may name."""


WHOLE: dict[str, type] = {"Elimination": Elimination, "Adaptive": Adaptive, "Race": Race}

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
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        data[field.name] = dump_part(value) if is_dataclass(value) else value
    return data


def load_part(data: object) -> Any:
    """The part that `dump_part` made `data` of."""
    record = fields.mapping("method", data)
    name = record.get("type")
    kind: Any = (WHOLE.get(name) or PARTS.get(name)) if isinstance(name, str) else None
    if kind is None:
        raise InvalidStateError(f"Unknown part of a method: {name!r}. Was this saved by a newer asktell?")
    names = {field.name for field in dataclasses.fields(kind)}
    if set(record) - {"type"} - names:
        raise InvalidStateError(f"{name} has no fields {sorted(set(record) - {'type'} - names)}.")
    values = {k: load_part(v) if isinstance(v, dict) else v for k, v in record.items() if k != "type"}
    if any(not isinstance(v, (str, int, float, bool, type(None))) and not is_dataclass(v) for v in values.values()):
        raise InvalidStateError(f"The fields of {name} must be plain values, got {short(values)}.")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise InvalidStateError(f"The saved {name} is malformed: {error}") from error
