"""Prompts that are chats, which are texts with the JSON of a chat.

Such a text is a list of messages as in chat APIs, or an object with `messages` and
`tools`. The engine treats prompts as texts, and only displays chats in a readable form.
Evaluators split them into messages.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Parts = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Messages and tools."""


def parts_of(text: str) -> Parts | None:
    """The messages and the tools of a prompt that is a chat, as two lists. None for any other text.

    A chat is a text with JSON: a list of messages, or an object with `messages` and
    possibly `tools`. Each message is an object with a `role`.
    """
    if text[:1] not in ("[", "{"):
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    data: Any = parsed if isinstance(parsed, dict) else {"messages": parsed}
    messages, tools = data.get("messages"), data.get("tools", [])
    if (
        not set(data) <= {"messages", "tools"}
        or not _are_objects(messages)
        or not isinstance(tools, list)
    ):
        return None
    if (
        not messages
        or not all("role" in message for message in messages)
        or not _are_objects(tools)
    ):
        return None
    return messages, tools


def readable(text: str) -> str:
    """A chat as its turns, each below its role in brackets. Any other text is unchanged."""
    parts = parts_of(text)
    return text if parts is None else "\n\n".join(_turns(*parts))


def _are_objects(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)


def _turns(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> Iterator[str]:
    for message in messages:
        content = message.get("content")
        calls = message.get("tool_calls")
        shown = (
            [content if isinstance(content, str) else _json(content)] if content else []
        )
        shown += [_json(call) for call in calls] if isinstance(calls, list) else []
        yield "\n".join([f"[{message['role']}]", *shown])
    for tool in tools:
        function = tool.get("function")
        yield f"[tool offered]\n{_json(function if isinstance(function, Mapping) else tool)}"


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False)
