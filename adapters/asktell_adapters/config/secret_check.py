"""No API key may stand in a configuration file."""

from __future__ import annotations

import re
from typing import Any

from asktell.errors import ConfigError

_SECRET = re.compile(r"(.*api[_-]?key|key|secret|password|authorization|((access|auth|bearer)_)?token)", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"^(Bearer |sk-[A-Za-z0-9_-]{12})")
_CURE = "Put it into the environment variable OPENAI_API_KEY, or into the one that api_key_env names."


def refuse_secrets(file: str, data: Any, place: tuple[str, ...]) -> None:
    """No key may stand in the file; `place` is the table. The value is never repeated."""
    where = f"in [{'.'.join(place)}]" if place else "at the top"
    if isinstance(data, dict):
        for name, value in data.items():
            if isinstance(value, str) and place and place[0] == "model" and _SECRET.fullmatch(name):
                raise ConfigError(f"{file}: {name!r} {where}: a secret has no place in a file. {_CURE}")
            refuse_secrets(file, value, (*place, name))
    elif isinstance(data, list):
        for value in data:
            refuse_secrets(file, value, place)
    elif isinstance(data, str) and place and place[0] == "model" and _SECRET_VALUE.match(data):
        raise ConfigError(
            f"{file}: {place[-1]!r} in [model] looks like an API key, which has no place in a file. {_CURE}"
        )
