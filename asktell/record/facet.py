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

Pack: TypeAlias = Callable[[Any], Any]
"""A function that turns a column (numbers of one type, one item per row) into a list or into packed bytes."""


class Saved(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The base of saved data. Columns are `Any` (lists, arrays, or packed bytes), and `column` checks them."""
