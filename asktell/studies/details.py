"""Details of trials, which are stored with the scores: converted to JSON, wherever that is exact.

A response was paid for, so a value beside it that JSON cannot hold must not lose it.
Such a value alone is left out, and the stored details name it.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Set
from datetime import date, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

from asktell._util.log import log
from asktell.errors import InvalidArgumentError
from asktell.problem.checks import plain
from asktell.problem.words import short

NOT_STORED = "not stored"
"""The key of stored details that names the values that JSON cannot hold."""

# Readers parse JSON by recursion, possibly far down a call stack. Deeper nesting could
# exceed Python's recursion limit.
_MOST_LEVELS = 100
# Values that are named, so that a long list of them is no second response
_MOST_NAMED = 20
_LONGEST_PLACE = 100  # characters
# About 640 digits. Python may refuse to write or read more digits of a whole number.
_MOST_BITS = 2126
# Their text is exact, and the usual form in JSON
_WITH_TEXT = (PurePath, UUID, Fraction, np.datetime64)

# Most values, which need no conversion
_PLAIN = frozenset((str, int, float, bool, type(None), dict, list))


def encode(details: Mapping[str, Any] | None) -> str | None:
    """Convert details to JSON text in ASCII. None stays None.

    Scalars and arrays of numpy, tensors, paths, dates, decimals, sets, data classes and
    models of pydantic become numbers, texts, lists and mappings. Any other value that
    JSON cannot hold is left out, in a list replaced by None. The key "not stored" then
    maps the place of each such value to its type and text, and a warning is logged.

    Raises:
        InvalidArgumentError: the details are not a mapping.
    """
    if details is None:
        return None
    if not isinstance(details, Mapping):
        raise InvalidArgumentError(
            f"details must be a mapping from text to JSON values (finite numbers, text, lists, ...), got "
            f"{short(details)}."
        )
    conversion = _Conversion()
    try:
        converted = conversion.of(dict(details), "", ())
    except RecursionError:  # far down a call stack
        conversion = _Conversion()
        converted = conversion.of(dict.fromkeys(details), "", ())
        conversion.left_out["details"] = "values that are nested too deeply to be read"
    if conversion.left_out:
        log.warning(
            "Details that JSON cannot hold were not stored: %s. Convert them to numbers, text, lists or mappings.",
            ", ".join(conversion.left_out),
        )
        converted = {**converted, NOT_STORED: conversion.left_out}
    return json.dumps(converted, separators=(",", ":"), allow_nan=False)


class _Conversion:
    """Converts a value, and collects what JSON cannot hold.

    Attributes:
        left_out: the place of each value that was left out -> its type and text.
        n_left_out: the number of values that were left out.
    """

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}
        self.n_left_out = 0

    def of(self, value: Any, place: str, above: tuple[int, ...]) -> Any:
        """The value as JSON, or None after adding it to `left_out`. `above` are the values that contain it."""
        if type(value) not in _PLAIN:
            try:
                value = _simpler(value)
            except Exception as error:
                # Of the value's own class. The rest of the response was paid for.
                return self._leave_out(place, f"{type(value).__name__}: {error!r:.60}")
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            return self._leave_out(place, "a whole number with more than 640 digits")
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        is_mapping = isinstance(value, Mapping)
        if not is_mapping and not isinstance(value, list | tuple):
            return self._leave_out(place, f"{type(value).__name__} {short(value)}")
        if id(value) in above:
            return self._leave_out(place, "a value that contains itself")
        if len(above) >= _MOST_LEVELS:
            return self._leave_out(
                place, f"a value nested more than {_MOST_LEVELS} levels deep"
            )
        above = (*above, id(value))
        if is_mapping:
            return self._mapping(value, place, above)
        return [self.of(item, f"{place}[{i}]", above) for i, item in enumerate(value)]

    def _mapping(
        self, mapping: Mapping[Any, Any], place: str, above: tuple[int, ...]
    ) -> dict[str, Any]:
        """A mapping as an object of JSON, whose keys are texts."""
        converted: dict[str, Any] = {}
        for key, value in mapping.items():
            name, path = _name_of(key), _path(place, key)
            if name is None or name in converted:
                what = "a key that is no text" if name is None else "a second such key"
                self._leave_out(path, what)
                continue
            n_left_out = self.n_left_out
            item = self.of(value, path, above)
            # A key is left out with its value, unless parts of the value remain
            if item is not None or self.n_left_out == n_left_out or value is None:
                converted[name] = item
        return converted

    def _leave_out(self, place: str, what: str) -> None:
        """Note that a value is left out."""
        self.n_left_out += 1
        if len(self.left_out) < _MOST_NAMED:
            self.left_out[place[:_LONGEST_PLACE]] = what
        else:
            self.left_out["..."] = "further values"


def _path(place: str, key: object) -> str:
    """The place of a value in a mapping, such as "usage.cost"."""
    name = str(key) if isinstance(key, str) else short(key)
    return f"{place}.{name}" if place else name


def _name_of(key: object) -> str | None:
    """A key as text, as in JSON. None if it has no exact text."""
    key = plain(key)
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int) and key.bit_length() > _MOST_BITS:
        return None
    if key is None or isinstance(key, bool | int):
        return json.dumps(key)
    return repr(key) if isinstance(key, float) and math.isfinite(key) else None


def _simpler(value: Any) -> Any:
    """A value as JSON or as a container of values, if that is exact. Any other value as it is."""
    value = plain(value)
    if isinstance(value, Enum):
        return _simpler(value.value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            return value
        number = float(value)
        return number if Decimal(number) == value else str(value)
    if isinstance(value, _WITH_TEXT):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if _is_array(value):
        return value.tolist()
    if isinstance(value, Set):
        # Sorted, so that the same set has the same text in every process
        return sorted(value, key=lambda item: (type(item).__name__, short(item)))
    if isinstance(value, type):
        return value
    if callable(getattr(value, "model_dump", None)):  # a model of pydantic
        return value.model_dump()
    if callable(getattr(value, "_asdict", None)):  # a named tuple
        return value._asdict()
    if dataclasses.is_dataclass(value):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
        }
    return value


def _is_array(value: object) -> bool:
    """True for an array or a tensor of numbers or texts, which its lists hold exactly."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufUO" and value.dtype != np.longdouble
    # Tensors of torch and JAX. A column of a data frame has labels beside its values.
    return (
        hasattr(value, "tolist")
        and hasattr(value, "dtype")
        and not isinstance(value, np.generic)
        and not hasattr(value, "iloc")
    )
