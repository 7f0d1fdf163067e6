"""Prompts as texts, templates with named fields, or chats, and how they become the messages of a request.

A selector takes every prompt as a text. A **chat** is a prompt whose text is JSON: a
list of messages, or an object with `messages` and `tools`. `chat` makes this text from
messages and tools.

A **field** is a name in braces, such as `{question}`. When a request is made, it is
replaced by the example's value in the column `question`. In chats, names in braces are
fields unless you pass `fields=False`. In other texts, they are fields only if you pass
`fields=True`, because braces in texts are usually just braces.

In a prompt whose names in braces are fields, `{{question}}` stands for the text
`{question}`. Any other brace stands for itself, as in `{"answer": 1}`.
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
"""The default template of the user turn: the prompt first and the example's input last.

In this order, the prefix cache of an LLM can reuse the prompt's part for every example.
"""

Template = str | Callable[[str, Example], str]
Tool: TypeAlias = Mapping[str, Any]

ROLES = ("system", "user", "assistant", "tool")
_PROMPT = "{prompt}"
_NAME = r"[^\W\d]\w*"
# It starts at the first brace and gives nothing back, so that its time is linear in a
# text of braces.
_FIELD = re.compile(rf"(?<!\{{)(\{{++)({_NAME}+)(\}}+)")
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")


@final
@dataclass(frozen=True)
class Chat:
    """The messages of a prompt, and the tools that the LLM may call.

    Attributes:
        messages: the turns of the chat, in the form that `chat` describes.
        tools: the functions that the LLM may call, in the form that `chat` describes.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()


def chat(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
    """Convert a chat to the text that a selector takes as a prompt.

    Args:
        messages: the turns of the chat. Each has a `role` (system, user, assistant or
            tool) and a `content`, which may have fields. An assistant's message may
            have `tool_calls` instead of `content`. A tool's message needs a
            `tool_call_id`.
        tools: the functions that the LLM may call, each in the form of OpenAI's API:
            `{"type": "function", "function": {...}}`. Braces in tools are never fields.

    Raises:
        InvalidArgumentError: there are no messages, or a message or tool is invalid or
            is not JSON data.
    """
    turns = [dict(message) for message in _objects("messages", messages)]
    offered = list(_objects("tools", tools))
    _checked(turns, offered)
    try:
        return json.dumps(
            {"messages": turns, "tools": offered} if offered else turns,
            ensure_ascii=False,
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"A chat must be JSON data ({error}).") from error


def text_of(prompt: object) -> str:
    """Convert a prompt of a file to a text. A text stays as it is, and a chat becomes JSON.

    Args:
        prompt: a text, a list of messages, or an object with `messages` and possibly
            `tools`.

    Raises:
        InvalidArgumentError: the prompt is none of these, or is an invalid chat.
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list):
        return chat(prompt)
    if (
        isinstance(prompt, Mapping)
        and "messages" in prompt
        and set(prompt) <= {"messages", "tools"}
    ):
        return chat(prompt["messages"], prompt.get("tools", ()))
    raise InvalidArgumentError(
        "A prompt must be a text, a list of messages ({'role': ..., 'content': ...}), or an object with 'messages' and "
        f"possibly 'tools', got {short(prompt)}."
    )


@lru_cache(maxsize=4096)
def chat_of(prompt: str) -> Chat | None:
    """Parse a prompt that is a chat. Return None for any other text.

    Raises:
        InvalidArgumentError: the prompt is JSON with messages that have roles, but it is
            not a valid chat.
    """
    parts = parts_of(prompt)
    return None if parts is None else _checked(*parts)


def fields_of(prompt: str, fields: bool | None = None) -> tuple[str, ...]:
    """The names of a prompt's fields, each once. They are the columns whose values the prompt needs.

    Args:
        prompt: a text or a chat.
        fields: True if names in braces are fields, False if not, None if they are
            fields in chats only.

    Raises:
        InvalidArgumentError: the prompt is an invalid chat.
    """
    chat = chat_of(prompt)
    if fields is False or (chat is None and not fields):
        return ()
    texts = [prompt] if chat is None else [said(message) for message in chat.messages]
    return tuple(dict.fromkeys(name for text in texts for name in _names(text)))


def check_fields(
    prompts: Sequence[str] | Mapping[str, str],
    examples: Sequence[Example],
    fields: bool | None = None,
) -> None:
    """Check that every example has a value for every field of every prompt.

    Args:
        prompts: texts, or id -> text, as a selector takes them.
        examples: the dataset.
        fields: True if names in braces are fields, False if not, None if they are
            fields in chats only.

    Raises:
        InvalidArgumentError: an example has no value for a field, or a prompt is an
            invalid chat. The message has the prompt, the field and the columns. It is
            also raised if names in braces are fields, but a prompt has no field, only a
            column in double braces, such as `{{question}}`. Other template languages
            write fields like this, so this is probably a mistake.
    """
    # The columns of the dataset are found only if a prompt has fields, because a
    # dataset can be large.
    common: set[str] | None = None
    for name, text in (
        prompts.items() if isinstance(prompts, Mapping) else enumerate(prompts)
    ):
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
                raise InvalidArgumentError(
                    f"Prompt {name!r} {_missing(field, examples, chat_of(text) is None)}"
                )


def unread_fields(
    prompts: Sequence[str], examples: Sequence[Example]
) -> dict[int, tuple[str, ...]]:
    """Find prompts with names in braces that look like fields, but are fields only with `fields=True`.

    Such a prompt is a text, not a chat, and a name in its braces is a column of the
    data. Without `fields=True`, an evaluator sends the prompt with its braces.

    Args:
        prompts: the prompts.
        examples: the dataset. The columns are those of the first example.

    Returns:
        A mapping from the position of a prompt (the first is 0) to its columns in
        braces. Prompts without such columns are left out.

    Raises:
        InvalidArgumentError: a prompt is an invalid chat.
    """
    columns = _common(examples[:1])
    unread_of = {}
    for position, prompt in enumerate(prompts):
        if chat_of(prompt) is None:
            unread = tuple(
                field for field in fields_of(prompt, True) if field in columns
            )
            if unread:
                unread_of[position] = unread
    return unread_of


def values_of(example: Example) -> dict[str, Any]:
    """The values of all possible fields for an example, as column -> value.

    These are the example's columns without the reference, which the LLM must not see.
    The input has two names: its own column, and `input`.
    """
    return {
        **example.fields,
        example.input_column: example.input,
        "input": example.input,
    }


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Replace the fields of a text by their values.

    Texts are inserted as they are, lists and objects as JSON, and other values as
    Python prints them. Braces in an inserted value are just braces.

    Args:
        text: the text with fields.
        values: column -> value, for example from `values_of`.

    Raises:
        InvalidArgumentError: a field has no value.
    """

    def fill(match: re.Match[str]) -> str:
        left, name, right = match.groups()
        # Two braces stand for one. An odd number of them leaves a field inside.
        n = min(len(left), len(right))
        inner = name
        if n % 2:
            if values.get(name) is None:
                offered = some(
                    sorted(
                        column for column, value in values.items() if value is not None
                    )
                )
                raise InvalidArgumentError(
                    f"The prompt has the field {{{name}}}, but this example has only {offered}."
                )
            inner = _shown(values[name])
        return left[n:] + "{" * (n // 2) + inner + "}" * (n // 2) + right[n:]

    return _FIELD.sub(fill, text)


@final
@dataclass(frozen=True)
class Framing:
    """Turns a prompt and an example into the messages of a request.

    If the prompt is a chat:

    - Its messages are sent with their fields filled in.
    - If it has no fields, the example's input is added to the last message if that is a
      user turn. Otherwise the input becomes a new user turn.
    - If it has a system turn of its own, `system` is not used.

    If the prompt is a text, `system` is the system turn, and the user turn is one of
    these:

    - A text with fields is filled in, and is itself the user turn.
    - Any other text is inserted into `template` at `{prompt}`. The result is the user
      turn.

    If `system` contains `{prompt}`, a prompt that is a text goes there instead, with
    its fields filled in. The user turn is then one of these:

    - With the default `template`, the user turn is just the example's input.
    - With your own `template`, the user turn is this template, filled in. If it
      contains `{prompt}`, the prompt is sent in both turns.

    For a chat, a `system` with `{prompt}` is not used.

    Attributes:
        system: the system turn, or None for no system turn.
        template: the user turn of a text without fields, and of every text if `system`
            contains `{prompt}`. It is a text with `{prompt}`, `{input}` and columns in
            braces, or a function of (prompt, example).
        fields: True if names in braces are fields, False if not, None if they are
            fields in chats only.
    """

    system: str | None = None
    template: Template = TEMPLATE
    fields: bool | None = None

    def chat(self, prompt: str, example: Example) -> Chat:
        """The messages to send, and the tools that the LLM may call.

        Args:
            prompt: a text or a chat.
            example: the example.

        Raises:
            InvalidArgumentError: the prompt is an invalid chat, or a field has no
                value.
        """
        chat = chat_of(prompt)
        return (
            self._chat_of_text(prompt, example)
            if chat is None
            else self._filled_chat(chat, example)
        )

    def _chat_of_text(self, prompt: str, example: Example) -> Chat:
        """Turn a plain prompt into a chat, with or without fields."""
        wanted = fields_of(prompt, self.fields)
        text = filled(prompt, values_of(example)) if self.fields else prompt
        system = self.system
        if system is not None and _PROMPT in system:
            system = system.replace(_PROMPT, text)
            user = render(
                "{input}" if self.template == TEMPLATE else self.template, text, example
            )
        else:
            user = text if wanted else render(self.template, text, example)
        return Chat((*_system(system), {"role": "user", "content": user}))

    def _filled_chat(self, chat: Chat, example: Example) -> Chat:
        """Fill in the fields of a chat. Without fields, add the input to its last user turn."""
        messages = [dict(message) for message in chat.messages]
        values = values_of(example)
        wanted = self.fields is not False and any(
            _names(said(message)) for message in messages
        )
        for message in messages if self.fields is not False else ():
            if said(message):
                message["content"] = filled(said(message), values)
        if not wanted and messages[-1]["role"] == "user":
            messages[-1]["content"] += f"\n\n{example.input}"
        elif not wanted:
            messages.append({"role": "user", "content": example.input})
        has_own = any(message["role"] == "system" for message in messages)
        system = None if has_own or _PROMPT in (self.system or "") else self.system
        return Chat((*_system(system), *messages), chat.tools)


def render(template: Template, prompt: str, example: Example) -> str:
    """Insert the prompt and the example into a template. The result is the user turn.

    In the template, `{prompt}` is replaced by the prompt, `{input}` by the example's
    input, and the name of a column in braces, such as `{question}`, by its value.
    Braces inside the prompt or the example stay as they are.

    Args:
        template: the template, or a function of (prompt, example) that returns the user
            turn.
        prompt: the prompt.
        example: the example.

    Raises:
        InvalidArgumentError: the template has another name in braces.
    """
    if callable(template):
        return template(prompt, example)
    values = {
        **{name: str(value) for name, value in values_of(example).items()},
        "prompt": prompt,
    }

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise InvalidArgumentError(
                f"The template has {{{name}}}, but an example has only {sorted(values)}."
            )
        return values[name]

    return re.sub(r"\{(\w+)\}", fill, template)


def _system(text: str | None) -> tuple[Message, ...]:
    return () if text is None else ({"role": "system", "content": text},)


def _names(text: str, escaped: bool = False) -> list[str]:
    """The names of fields in a text or, if `escaped`, the names in double braces, which are no fields."""
    return [
        name
        for left, name, right in _FIELD.findall(text)
        if min(len(left), len(right)) % 2 != escaped
    ]


def _shown(value: object) -> str:
    """Convert the value of a field to text. Lists and objects become JSON."""
    if isinstance(value, str):
        return value
    return (
        json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, list | tuple | dict)
        else str(value)
    )


def _common(examples: Iterable[Example]) -> set[str]:
    """The columns in which every example has a value."""
    columns: set[str] | None = None
    for example in examples:
        here = {name for name, value in values_of(example).items() if value is not None}
        columns = here if columns is None else columns & here
    return columns or set()


def _missing(field: str, examples: Sequence[Example], is_text: bool) -> str:
    """The end of a message about a field that an example lacks.

    Args:
        field: name of the field.
        examples: the dataset.
        is_text: whether the prompt is a plain text, so that its braces may be just braces.
    """
    # Name a row, because a column with a few empty cells is the usual mistake.
    without = next(e for e in examples if values_of(e).get(field) is None)
    columns = _common(examples)
    if any(values_of(e).get(field) is not None for e in examples):
        where = f"row {examples.index(without) + 1}" + (
            f" ({without.id!r})" if without.id else ""
        )
        empty = 'If it should be empty, write "" there.'
        return f"has the field {{{field}}}, but {where} of the data has no value in that column. {empty}"
    cure = f"For the text {{{field}}} itself, write {{{{{field}}}}}"
    cure += (
        ", or set fields to false if braces are just braces in all prompts"
        if is_text
        else ""
    )
    return (
        f"has the field {{{field}}}, but the data has no such column{nearest(field, columns)}. Its columns are "
        f"{some(sorted(columns))}. The reference is never among them, because prompts may not see it. {cure}."
    )


def _check_escaped(text: str, examples: Sequence[Example], fields: bool | None) -> None:
    """Refuse `{{column}}` in a prompt without fields, because other template languages write their fields like this."""
    chat = chat_of(text)
    if chat is None and not fields:
        return
    texts = [text] if chat is None else [said(message) for message in chat.messages]
    for template in texts:
        for name in _names(template, escaped=True):
            if name in values_of(examples[0]):
                raise InvalidArgumentError(
                    f"Double braces, as in {{{{{name}}}}}, are not a field. They stand for the text {{{name}}} itself. "
                    f"For the value of the column, write {{{name}}} with single braces."
                )


def _objects(what: str, items: object) -> Iterator[Mapping[str, Any]]:
    """Check that items are a list of objects, and yield them.

    Raises:
        InvalidArgumentError: they are something else.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise InvalidArgumentError(
            f"{what} must be a list of objects, got {short(items)}."
        )
    for item in items:
        if not isinstance(item, Mapping):
            raise InvalidArgumentError(
                f"{what} must be a list of objects, but it contains {short(item)}."
            )
        yield item


def _checked(messages: Sequence[Message], tools: Sequence[Tool]) -> Chat:
    """Check messages and tools, and return them as a chat.

    Raises:
        InvalidArgumentError: a message or a tool is invalid. The message has its number.
    """
    if not messages:
        raise InvalidArgumentError("A chat needs at least one message, got none.")
    for number, message in enumerate(messages, start=1):
        if problem := _problem(message):
            raise InvalidArgumentError(f"message {number} of a chat {problem}")
    for number, tool in enumerate(tools, start=1):
        function = tool.get("function")
        if (
            tool.get("type") != "function"
            or not isinstance(function, Mapping)
            or not function.get("name")
        ):
            raise InvalidArgumentError(
                f"tool {number} of a chat must be {{'type': 'function', 'function': {{'name': ...}}}}, got "
                f"{short(dict(tool))}."
            )
    return Chat(tuple(messages), tuple(tools))


def _problem(message: Message) -> str:
    """The mistake in a message, in words that continue "message 1 of a chat", or an empty text."""
    role = message.get("role")
    content = message.get("content")
    calls = message.get("tool_calls")
    if role not in ROLES:
        return f"must have one of the roles {', '.join(map(repr, ROLES))}, got {short(role)}."
    if unknown := [key for key in message if key not in _KEYS]:
        return f"has the unknown key {short(unknown[0])}. The keys are {', '.join(map(repr, _KEYS))}."
    if calls is not None and (
        role != "assistant" or not isinstance(calls, list) or not calls
    ):
        return "has 'tool_calls'. Only an assistant's message may have them, as a list that is not empty."
    if not isinstance(content, str) and not (content is None and calls):
        return f"must have a text as 'content', got {short(content)}. Images and other parts are not supported."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "has the role 'tool', so it needs the 'tool_call_id' of the call that it answers."
    return ""
