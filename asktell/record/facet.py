"""Facets: parts of the state for abilities that only some selections use, such as costs, failures and proxies.

A facet is an immutable value in its own file, with everything about it:

- the next value after an event, such as `Costs.plus`,
- `check`, which refuses what a log must not contain,
- a `Saved` struct with its form as JSON, made by `dump` and read by `load`.

A new facet is such a file, a field of `State`, a field of `SavedRows` if it only grows
or else of `SavedState`, and a line in `fold` for each event that changes it.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np

from asktell.problem.checks import LARGEST, MalformedError
from asktell.problem.words import short

Pack: TypeAlias = Callable[[Any], Any]
"""A function that turns a column (numbers of one type, one item per row) into a list or into packed bytes."""


class Saved(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The base of saved data. Columns are `Any` (lists, arrays, or packed bytes), and `column` checks them."""


def column(what: str, data: Any, low: int, high: int, length: int | None = None) -> Any:
    """(n,) whole numbers from a list or an array, checked."""
    values = np.asarray(data) if len(data) else np.zeros(0, dtype=np.int64)
    right = (
        values.dtype == np.int64 and values.ndim == 1 and length in (None, len(values))
    )
    if not right or not ((low <= values) & (values <= high)).all():
        n = "" if length is None else f"{length} "
        raise MalformedError(
            f"{what} must be a list of {n}whole numbers from {low} to {high}, got {short(data)}."
        )
    return values


def matrix(what: str, data: Any, n_rows: int, n_columns: int) -> Any:
    """(n_rows, n_columns) finite numbers from lists or an array, checked."""
    values = np.asarray(data) if len(data) else np.empty((0, n_columns))
    right = values.dtype.kind in "if" and values.shape == (n_rows, n_columns)
    if not right or not (np.abs(values) <= LARGEST).all():
        raise MalformedError(
            f"{what} must be {n_rows} rows of {n_columns} finite numbers, at most {LARGEST} in size, got {short(data)}."
        )
    return values.astype(np.float64, copy=False)
