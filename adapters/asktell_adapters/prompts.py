"""Prompts as texts, templates with named fields, or chats, and how they become the messages of a request.

A prompt is a text everywhere, in a selector as in a file. A **chat** is one that is JSON: a list of messages, or an
object with `messages` and `tools` (see `chat`). A **field** is a name in braces, as `{question}`, for which the value
of the example's column stands. In chats there are fields; in other texts, whose braces mostly are just braces, there
are if you say so. `{{question}}` is the text `{question}`, and any other brace is itself, as in `{"answer": 1}`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, final

from asktell import InvalidArgumentError
from asktell.extend import nearest, parts_of, short, some
from asktell_adapters.llms.base import Example, Message, said

TEMPLATE = "{prompt}\n\n{input}"
"""The prompt comes first and the example last, so that prefix caches can reuse the prompt's part."""

Template = str | Callable[[str, Example], str]
Tool: TypeAlias = Mapping[str, Any]

ROLES = ("system", "user", "assistant", "tool")
_PROMPT = "{prompt}"
_NAME = r"[^\W\d]\w*"
_FIELD = re.compile(rf"(\{{+)({_NAME})(\}}+)")
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")


@final
@dataclass(frozen=True)
class Chat:
    """The messages of a prompt, and the tools that the LLM is offered with them."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()


def chat(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
    """A prompt that is a chat, as the text that a selector takes.

    Args:
        messages: each with `role` (system, user, assistant or tool) and `content`, in which there may be fields; that
            of an assistant may have `tool_calls` instead, and that of a tool needs a `tool_call_id`.
        tools: functions that the LLM is offered, as in OpenAI's API, `{"type": "function", "function": {...}}`. Braces
            in them are just braces.
    """
    turns, offered = [dict(message) for message in _objects("messages", messages)], list(_objects("tools", tools))
    _checked(turns, offered)
    try:
        return json.dumps({"messages": turns, "tools": offered} if offered else turns, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"A chat must be JSON data, but {error}.") from error


def text_of(prompt: object) -> str:
    """A prompt as files have it: a text, a list of messages, or an object with `messages` and perhaps `tools`."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list):
        return chat(prompt)
    if isinstance(prompt, Mapping) and "messages" in prompt and set(prompt) <= {"messages", "tools"}:
        return chat(prompt["messages"], prompt.get("tools", ()))
    raise InvalidArgumentError(
        "a prompt is a text, a list of messages ({'role': ..., 'content': ...}), or an object with 'messages' and "
        f"perhaps 'tools'; got {short(prompt)}"
    )


@lru_cache(maxsize=4096)
def chat_of(prompt: str) -> Chat | None:
    """Parse a prompt that is a chat; None for a text.

    Raises:
        InvalidArgumentError: it is meant as one, JSON of messages with roles, and is wrong.
    """
    parts = parts_of(prompt)
    return None if parts is None else _checked(*parts)


def fields_of(prompt: str, fields: bool | None = None) -> tuple[str, ...]:
    """The names of the columns that a prompt asks for, each once.

    Args:
        prompt: a text, or a chat.
        fields: whether names in braces are fields: True, False, or None for in chats only.
    """
    made = chat_of(prompt)
    if fields is False or (made is None and not fields):
        return ()
    texts = [prompt] if made is None else [said(message) for message in made.messages]
    return tuple(dict.fromkeys(name for text in texts for name in _names(text)))


def check_fields(
    prompts: Sequence[str] | Mapping[str, str], examples: Sequence[Example], fields: bool | None = None
) -> None:
    """Check that every field of every prompt is a column of every example.

    Args:
        prompts: as a selector takes them.
        examples: the data set.
        fields: whether names in braces are fields: True, False, or None for in chats only.

    Raises:
        InvalidArgumentError: one is not; the message has the prompt, the field and the columns that there are. Or a
            prompt is meant as a chat and is wrong.
    """
    common: set[str] | None = None
    for name, text in prompts.items() if isinstance(prompts, Mapping) else enumerate(prompts):
        try:
            wanted = fields_of(text, fields)
            if not wanted and fields is not False:
                _check_escaped(text, examples, fields)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"Prompt {name!r}: {error}") from error
        if wanted and common is None:
            common = _common(examples)
        for field in wanted:
            if field not in (common or ()):
                raise InvalidArgumentError(f"Prompt {name!r} {_missing(field, examples, chat_of(text) is None)}")


def unread_fields(prompts: Sequence[str], examples: Sequence[Example]) -> dict[int, tuple[str, ...]]:
    """The texts with columns of the data in braces, by position, and which: sent as they are unless `fields` is True.

    Raises:
        InvalidArgumentError: a prompt is meant as a chat and is wrong.
    """
    columns = _common(examples[:1])
    texts = {at: text for at, text in enumerate(prompts) if chat_of(text) is None}
    found = {at: tuple(field for field in fields_of(text, True) if field in columns) for at, text in texts.items()}
    return {at: fields for at, fields in found.items() if fields}


def values_of(example: Example) -> dict[str, Any]:
    """The values of fields: the example's columns, except the reference, which the LLM must not see."""
    return {**example.fields, example.input_column: example.input, "input": example.input}


def filled(text: str, values: Mapping[str, Any]) -> str:
    """The text with its fields' values: texts as they are, lists and objects as JSON, others as Python prints them.

    A value is put in once, and whatever it holds is kept: a field's name in it is no field.
    """

    def fill(match: re.Match[str]) -> str:
        left, name, right = match.groups()
        n = min(len(left), len(right))
        inner = name
        if n % 2:
            if values.get(name) is None:
                offered = some(sorted(known for known, value in values.items() if value is not None))
                raise InvalidArgumentError(f"The prompt names {{{name}}}, but this example offers {offered}.")
            inner = _shown(values[name])
        return left[n:] + "{" * (n // 2) + inner + "}" * (n // 2) + right[n:]

    return _FIELD.sub(fill, text)


@final
@dataclass(frozen=True)
class Framing:
    """How a prompt and an example become a chat.

    - A chat's messages are sent with their fields filled in. If it names none, the input comes after them: in the last
      turn, if that is the user's, else in one of its own. A system turn of its own takes the place of `system`.
    - A text with fields is the user turn.
    - Any other text is put into `template` by its place `{prompt}`, and that is the user turn.
    - If `system` has `{prompt}`, a text is put there instead, and the user turn is by default the input alone.

    Attributes:
        system: the system turn; None for none.
        template: the user turn of a plain text: one with `{prompt}`, `{input}` and columns in braces, or a function of
            (prompt, example).
        fields: whether names in braces are fields: True, False, or None for in chats only.
    """

    system: str | None = None
    template: Template = TEMPLATE
    fields: bool | None = None

    def chat(self, prompt: str, example: Example) -> Chat:
        """The messages to send."""
        made = chat_of(prompt)
        return self._of_text(prompt, example) if made is None else self._of_chat(made, example)

    def _of_text(self, prompt: str, example: Example) -> Chat:
        wanted = fields_of(prompt, self.fields)
        text = filled(prompt, values_of(example)) if self.fields else prompt
        system = self.system
        if system is not None and _PROMPT in system:
            system = system.replace(_PROMPT, text)
            user = render("{input}" if self.template == TEMPLATE else self.template, text, example)
        else:
            user = text if wanted else render(self.template, text, example)
        return Chat((*_system(system), {"role": "user", "content": user}))

    def _of_chat(self, made: Chat, example: Example) -> Chat:
        messages, values = [dict(message) for message in made.messages], values_of(example)
        wanted = self.fields is not False and any(_names(said(message)) for message in messages)
        for message in messages if self.fields is not False else ():
            if said(message):
                message["content"] = filled(said(message), values)
        if not wanted and messages[-1]["role"] == "user":
            messages[-1]["content"] += f"\n\n{example.input}"
        elif not wanted:
            messages.append({"role": "user", "content": example.input})
        has_own = any(message["role"] == "system" for message in messages)
        system = None if has_own or _PROMPT in (self.system or "") else self.system
        return Chat((*_system(system), *messages), made.tools)


def render(template: Template, prompt: str, example: Example) -> str:
    """The user turn: `{prompt}`, `{input}` and `{column}` (of `example.fields`) of the template, filled in.

    Braces inside the prompt or the example are kept as they are.
    """
    if callable(template):
        return template(prompt, example)
    values = {**{name: str(value) for name, value in values_of(example).items()}, "prompt": prompt}

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise InvalidArgumentError(f"The template names {{{name}}}, but an example offers {sorted(values)}.")
        return values[name]

    return re.sub(r"\{(\w+)\}", fill, template)


def _system(text: str | None) -> tuple[Message, ...]:
    return () if text is None else ({"role": "system", "content": text},)


def _names(text: str, escaped: bool = False) -> list[str]:
    return [name for left, name, right in _FIELD.findall(text) if min(len(left), len(right)) % 2 != escaped]


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | tuple | dict) else str(value)


def _common(examples: Iterable[Example]) -> set[str]:
    """The columns that every example has a value in."""
    found: set[str] | None = None
    for example in examples:
        here = {name for name, value in values_of(example).items() if value is not None}
        found = here if found is None else found & here
    return found or set()


def _missing(field: str, examples: Sequence[Example], is_text: bool) -> str:
    without = next(e for e in examples if values_of(e).get(field) is None)
    columns = _common(examples)
    if any(values_of(e).get(field) is not None for e in examples):
        where = f"row {examples.index(without) + 1}" + (f" ({without.id!r})" if without.id else "")
        return f"names the field {{{field}}}, but {where} of the data has nothing in that column; write '' for nothing."
    cure = f"for the text {{{field}}} itself write {{{{{field}}}}}"
    cure += ", or say fields = false if braces are just braces in all prompts" if is_text else ""
    return (
        f"names the field {{{field}}}, but the data has no such column{nearest(field, columns)}; it has "
        f"{some(sorted(columns))}. The reference is not among them; {cure}."
    )


def _check_escaped(text: str, examples: Sequence[Example], fields: bool | None) -> None:
    """Refuse `{{column}}` where nothing is a field: other languages of templates write their fields so."""
    made = chat_of(text)
    if made is None and not fields:
        return
    texts = [text] if made is None else [said(message) for message in made.messages]
    for name in (name for each in texts for name in _names(each, escaped=True)):
        if name in values_of(examples[0]):
            raise InvalidArgumentError(
                f"it has no field, but {{{{{name}}}}}, which stands for the text {{{name}}}. For the column's value "
                f"write {{{name}}}."
            )


def _objects(what: str, items: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise InvalidArgumentError(f"{what} must be a list of objects, got {short(items)}.")
    for item in items:
        if not isinstance(item, Mapping):
            raise InvalidArgumentError(f"{what} must be a list of objects, and one of them is {short(item)}.")
        yield item


def _checked(messages: Sequence[Message], tools: Sequence[Tool]) -> Chat:
    if not messages:
        raise InvalidArgumentError("A chat needs at least one message, got none.")
    for number, message in enumerate(messages, start=1):
        if problem := _problem(message):
            raise InvalidArgumentError(f"message {number} of a chat {problem}")
    for number, tool in enumerate(tools, start=1):
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, Mapping) or not function.get("name"):
            raise InvalidArgumentError(
                f"tool {number} of a chat must be {{'type': 'function', 'function': {{'name': ...}}}}, got "
                f"{short(dict(tool))}."
            )
    return Chat(tuple(messages), tuple(tools))


def _problem(message: Message) -> str:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ROLES:
        return f"must have one of the roles {', '.join(map(repr, ROLES))}, got {short(role)}."
    if others := [key for key in message if key not in _KEYS]:
        return f"has {short(others[0])}; known are {', '.join(map(repr, _KEYS))}."
    if calls is not None and (role != "assistant" or not isinstance(calls, list) or not calls):
        return "has 'tool_calls', which only an assistant's may have, as a list that is not empty."
    if not isinstance(content, str) and not (content is None and calls):
        return f"must have a text as 'content', got {short(content)}; parts that are no text are not supported."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "is a tool's, and needs the 'tool_call_id' that it answers."
    return ""
