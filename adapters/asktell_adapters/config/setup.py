"""The set-up: everything that a run's outcome depends on. Another set-up is another run."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asktell.arguments import short
from asktell_adapters.config.data import Prompts, items
from asktell_adapters.config.metrics import turned_on
from asktell_adapters.config.model import TUNING
from asktell_adapters.llms.base import Example

_MISSING = object()


def describe(
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    prompts: Prompts,
    examples: Sequence[Example],
) -> dict[str, Any]:
    """The set-up as JSON data: `settings` of the selector, the file's `data`, and what it names."""
    setup = {
        **settings,
        "goal": {"type": "best-feasible", **data["goal"]},
        "metrics": {name: {} if given is True else given for name, given in turned_on(data["metrics"])},
        "model": {name: value for name, value in model.items() if name not in TUNING},
        "prompts": {"count": len(prompts), "sha256": _digest(list(items(prompts)))},
        "data": {"count": len(examples), "sha256": _digest([[e.input, e.reference, e.fields] for e in examples])},
    }
    as_read_again: dict[str, Any] = json.loads(json.dumps(setup, default=str))  # TOML has dates
    return as_read_again


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same in two set-ups, in words."""
    before, after = dict(_flat(saved)), dict(_flat(now))
    found = []
    for name in dict.fromkeys((*before, *after)):
        if before.get(name, _MISSING) == after.get(name, _MISSING):
            continue
        section, _, key = name.partition(".")
        if section in ("prompts", "data") and key in ("count", "sha256"):
            old, new = before.get(f"{section}.count"), after.get(f"{section}.count")
            what = "prompts" if section == "prompts" else "examples"
            found.append(f"{section} (others than the {old} {what} then, {new} now)")
        else:
            found.append(f"{name} ({_shown(before, name)} then, {_shown(after, name)} now)")
    return list(dict.fromkeys(found))


def _shown(flat: Mapping[str, Any], name: str) -> str:
    return short(flat[name]) if name in flat else "not given"


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _digest(data: Any) -> str:
    # What is no JSON stands by its type: its repr may hold an address, which changes with every process.
    text = json.dumps(data, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
