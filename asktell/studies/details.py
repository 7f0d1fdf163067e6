"""Details of trials, which are stored with the scores: checked, and converted to JSON."""

import json
from collections.abc import Mapping
from typing import Any

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import short

# Readers parse JSON by recursion, possibly far down a call stack. Deeper nesting could
# exceed Python's recursion limit.
_MOST_LEVELS = 100


def encode(details: Mapping[str, Any] | None) -> str | None:
    """Convert details to JSON text in ASCII. None stays None.

    Raises:
        InvalidArgumentError: the details are not a mapping, or contain a value that
            JSON cannot represent.
    """
    if details is None:
        return None
    try:
        if not isinstance(details, Mapping):
            raise TypeError("a mapping is expected")
        text = json.dumps(dict(details), separators=(",", ":"), allow_nan=False)
        if (
            text.count("[") + text.count("{") > _MOST_LEVELS
            and _levels(details) > _MOST_LEVELS
        ):
            raise ValueError(f"they are nested more than {_MOST_LEVELS} levels deep")
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"details must be a mapping from text to JSON values (finite numbers, text, lists, ...), got "
            f"{short(details)}. The check found: {error}."
        ) from error


def _levels(value: object) -> int:
    """Count the levels of nested lists and mappings, one level after the other: recursion could go too deep."""
    depth = 0
    level = [value]
    while level:
        inner: list[object] = []
        found = False
        for item in level:
            if isinstance(item, Mapping):
                inner.extend(item.values())
                found = True
            elif isinstance(item, list | tuple):
                inner.extend(item)
                found = True
        depth += found
        level = inner
    return depth
