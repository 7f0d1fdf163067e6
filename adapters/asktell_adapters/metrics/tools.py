"""A metric for tool calls."""

import json
from collections.abc import Mapping
from typing import Any

from asktell_adapters.llms.base import Completion, Example


def tool_call(completion: Completion, example: Example, /) -> float:
    """1 if the LLM calls what a reference says, and nothing else, else 0. Larger is better.

    A reference is the name of a tool, whose arguments do not count then; or JSON: a call,
    `{"name": ..., "arguments": {...}}`, or a list of calls in any order, `[]` for none. Arguments are compared as JSON
    data; a call without any in the reference may have any.
    """
    return float(any(_are(completion.tool_calls, _wanted(reference)) for reference in example.references))


tool_call.range = (0.0, 1.0)  # type: ignore[attr-defined]


def _wanted(reference: str) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(reference)
    except (ValueError, RecursionError):
        found = None
    calls = found if isinstance(found, list) else [found]
    if all(isinstance(call, dict) and "name" in call for call in calls):
        return calls
    return [{"name": reference.strip()}]


def _are(calls: tuple[Mapping[str, Any], ...], wanted: list[Mapping[str, Any]]) -> bool:
    if len(calls) != len(wanted):
        return False
    left = sorted(wanted, key=lambda call: "arguments" not in call)  # what is particular finds its call first
    rest = list(calls)
    for call in left:
        same = next((i for i, made in enumerate(rest) if _is(made, call)), None)
        if same is None:
            return False
        del rest[same]
    return True


def _is(made: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    if made["name"] != wanted["name"]:
        return False
    return "arguments" not in wanted or bool(made["arguments"] == wanted["arguments"])
