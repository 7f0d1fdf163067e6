"""Checkers of what is read from a disk: what is malformed is refused whole, with what was expected."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from asktell.errors import AsktellError, InvalidStateError
from asktell.problem.checks import LARGEST, short

_T = TypeVar("_T")


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
    return dict(mapping(what, data))


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


def mapping(what: str, data: object) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(data, dict):
        raise InvalidStateError(f"{what} must be an object, got {type(data).__name__}.")
    return data


def items(what: str, data: object, length: int | None = None) -> list[Any]:
    """A list, of a length if one is given."""
    if not isinstance(data, list) or (length is not None and len(data) != length):
        size = "" if length is None else f" of {length}"
        raise InvalidStateError(f"{what} must be a list{size}, got {short(data)}.")
    return data


def whole(what: str, data: object, low: int, high: int = 2**63 - 1) -> int:
    """A whole number from `low` to `high`."""
    if type(data) is not int or not low <= data <= high:
        raise InvalidStateError(f"{what} must be a whole number from {low} to {high}, got {short(data)}.")
    return data


def number(what: str, data: object) -> float:
    """A finite number."""
    if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
        raise InvalidStateError(f"{what} must be a finite number, got {short(data)}.")
    return float(data)


def bounded(what: str, data: object, low: float = -LARGEST) -> float:
    """A number from `low` to the largest that asktell takes."""
    if type(data) not in (float, int) or not low <= data <= LARGEST:  # type: ignore[operator]
        raise InvalidStateError(f"{what} must be a finite number of at least {low:g}, got {short(data)}.")
    return float(data)  # type: ignore[arg-type]


def cost(what: str, data: object) -> float:
    """A finite number of at least 0."""
    value = number(what, data)
    if value < 0:
        raise InvalidStateError(f"{what} must be at least 0, got {short(value)}.")
    return value


def column(what: str, data: object, low: int, high: int, length: int | None = None) -> Any:
    """(n,) whole numbers, of a list or of an array."""
    if isinstance(data, np.ndarray):
        right = data.dtype == np.int64 and data.ndim == 1 and (length is None or len(data) == length)
        if not right or (len(data) and not low <= data.min() <= data.max() <= high):
            raise InvalidStateError(f"{what} must be whole numbers from {low} to {high}.")
        return data
    values = items(what, data, length)
    if not all(type(x) is int for x in values) or (values and not low <= min(values) <= max(values) <= high):
        raise InvalidStateError(f"{what} must be whole numbers from {low} to {high}.")
    return np.array(values, dtype=np.int64)


def matrix(what: str, data: object, n_rows: int, n_columns: int | None = None) -> Any:
    """(n_rows, n_columns) bounded numbers, of lists or of an array."""
    if isinstance(data, np.ndarray):
        if data.dtype != np.float64 or data.shape != (n_rows, n_columns) or not (np.abs(data) <= LARGEST).all():
            raise InvalidStateError(f"{what} must be {n_rows} rows of {n_columns} numbers.")
        return data
    rows = items(what, data, n_rows)
    width = n_columns if n_columns is not None else len(items(what, rows[0])) if rows else 0
    for row in rows:
        if len(items(what, row)) != width or not all(type(x) in (float, int) for x in row):
            raise InvalidStateError(f"{what} must be rows of {width} numbers, got {short(row)}.")
    matrix = np.array(rows, dtype=np.float64).reshape(n_rows, width)
    if not (np.abs(matrix) <= LARGEST).all():
        raise InvalidStateError(f"{what} must be finite, and at most {LARGEST} in size.")
    return matrix
