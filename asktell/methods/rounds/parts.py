"""Methods and their parts as data: class names and parameters."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from asktell.errors import (
    InvalidArgumentError,
    InvalidStateError,
    MissingMethodError,
)
from asktell.methods.base import AbstractMethod
from asktell.methods.presets import PARTS, REGISTRY
from asktell.methods.rounds.elimination import PART_KINDS
from asktell.problem.checks import MalformedError
from asktell.problem.formats import typed
from asktell.problem.words import short, some


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
    saved = {_OWN: kind.__name__, "parameters": parameters}
    if isinstance(part, AbstractMethod) and (plug_in := REGISTRY.name_of(kind)):
        saved[_PLUG_IN] = dict(zip(("name", "package"), plug_in, strict=True))
    return saved


# Key of the class name of a user-defined part, whose code is not in the file. Parts of
# asktell have the key "type".
_OWN = "own"
# Key of the name by which a package registers a user-defined method, and of the package
_PLUG_IN = "plug-in"
# The names of packages (PEP 508)
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


def _is_part(value: object) -> bool:
    return dataclasses.is_dataclass(value) or isinstance(value, _PARTS)


_PARTS = (AbstractMethod, *PART_KINDS.values())


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
    """The class names of the user-defined parts of a saved method. Methods of a package are not among them."""
    if isinstance(saved, list):
        return [name for value in saved for name in own_parts(value)]
    if not isinstance(saved, dict):
        return []
    if _OWN in saved and _PLUG_IN not in saved:
        return [str(saved[_OWN])]
    return [name for value in saved.values() for name in own_parts(value)]


def load_method(saved: object, given: AbstractMethod | None) -> AbstractMethod:
    """Load a saved method. If it has user-defined parts, return `given`, which must be the same method.

    A method of a package is loaded by the name under which the package registers it.

    Raises:
        MissingMethodError: the saved method has user-defined parts, or its package is
            not installed, and `given` is None.
        InvalidStateError: `given` is another method, or the saved method is malformed.
    """
    users_parts = own_parts(saved)
    if given is None:
        if users_parts:
            raise MissingMethodError(
                f"This selection was made with {some(users_parts)}. This is your own code, which is not saved. "
                "Pass the method again: asktell.Study.open(location, name, method=...) for a study, "
                "asktell.Selector.from_json(text, method=...) for a saved selector. Code cannot be sent to a service."
            )
        given = (
            _load_plug_in(saved)
            if isinstance(saved, dict) and _PLUG_IN in saved
            else load_part(saved)
        )
    if not isinstance(given, AbstractMethod):
        raise InvalidStateError(
            f"method must be the method of a Selector, such as asktell.Adaptive(), got {short(given)}."
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
        # Not by the package: a class may be moved to one
        return all(saved.get(key) == given[key] for key in (_OWN, "parameters"))
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


def _load_plug_in(saved: Mapping[str, Any]) -> Any:
    """Make the method of a package from its parameters.

    The saved data choose among the installed plug-ins, and never name a module.
    """
    record = typed("plug-in", saved[_PLUG_IN], dict)
    name = typed("name", record.get("name"), str)
    package = typed("package", record.get("package"), str)
    # Another package may have another method of this name
    if REGISTRY.packages().get(name) != package:
        if not _PACKAGE.fullmatch(package):
            raise MalformedError(f"{short(package)} is no name of a package.")
        raise MissingMethodError(
            f"This selection was made with the method {short(name)} of the package {package!r}, which is not "
            f"installed here. If you trust this package, install it: pip install {package}."
        )
    parameters = typed("parameters", saved.get("parameters"), dict)
    values = {key: _loaded(value) for key, value in parameters.items()}
    try:
        kind: Any = REGISTRY[name]
        with REGISTRY.blamed(name, "be made from its saved parameters"):
            return kind(**values)
    except InvalidArgumentError as error:
        raise InvalidStateError(str(error)) from error


def _loaded(value: Any) -> Any:
    """A parameter: a plain value, a part, or a tuple of parameters."""
    if isinstance(value, list):
        return tuple(map(_loaded, value))
    return load_part(value) if isinstance(value, dict) else value


def load_part(data: object) -> Any:
    """Load the data that `dump_part` returned.

    Raises:
        InvalidStateError: the data are malformed, or of an unknown class.
    """
    record = dict(typed("method", data, dict))
    name = record.pop("type", None)
    kind: Any = PARTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise MalformedError(f"The method has the unknown part {short(name)}.")
    values = {
        key: load_part(value) if isinstance(value, dict) else value
        for key, value in record.items()
    }
    if any(
        not isinstance(v, str | int | float | None) and not dataclasses.is_dataclass(v)
        for v in values.values()
    ):
        raise MalformedError(
            f"The fields of {name} must be plain values, got {short(values)}."
        )
    return kind(**values)
