"""Details of trials, kept beside their scores: JSON, checked."""

import json
from collections.abc import Mapping
from typing import Any

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import short

_MOST_LEVELS = 100  # what was kept must be readable wherever it is read, also far down a stack


def encode(details: Mapping[str, Any] | None) -> str | None:
    """Details as JSON, in ASCII; None stays None."""
    if details is None:
        return None
    try:
        if not isinstance(details, Mapping):
            raise TypeError("a mapping is expected")
        text = json.dumps(dict(details), separators=(",", ":"), allow_nan=False)
        if text.count("[") + text.count("{") > _MOST_LEVELS and _levels(details) > _MOST_LEVELS:
            raise ValueError(f"they are nested more than {_MOST_LEVELS} levels deep")
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"details must be a mapping of text to what JSON can hold (finite numbers, text, lists, ...), got "
            f"{short(details)}: {error}."
        ) from error


def _levels(value: object) -> int:
    """How deep JSON's lists and objects are nested."""
    deep, here = 0, [value]
    while here := [item for item in here if isinstance(item, Mapping | list | tuple)]:
        deep += 1
        here = [below for item in here for below in (item.values() if isinstance(item, Mapping) else item)]
    return deep
