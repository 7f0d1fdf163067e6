"""OpenAI's chat completions as data: the body of a request, and the text, tokens and cost of a reply."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.llms.base import Completion, CompletionError, Request
from asktell_adapters.llms.usage import NOTHING, Usage, field_of, read_usage


@final
@dataclass(frozen=True)
class Price:
    """The prices of a model, in any currency. Each price is for a million tokens.

    ```python
    OpenAIChat("gpt-4o-mini", price=Price(0.15, 0.60, cached_input=0.075, currency="USD"))
    ```

    Attributes:
        input: price of the tokens that the model reads.
        output: price of the tokens that the model writes.
        cached_input: price of the tokens that the model reads and that the server finds
            in its prefix cache (default: the price `input`).
        currency: name of the currency, such as "USD", which is shown after amounts.
            Empty if unknown.
        cache_write: price of the tokens that the model reads and that the server writes
            to its prefix cache, which Anthropic charges more for (default: the price
            `input`).

    Raises:
        InvalidArgumentError: a price is negative or not finite.
    """

    input: float
    output: float
    cached_input: float | None = None
    currency: str = ""
    cache_write: float | None = None

    def __post_init__(self) -> None:
        if not all(
            price is None or 0 <= price < float("inf")
            for price in (
                self.input,
                self.output,
                self.cached_input,
                self.cache_write,
            )
        ):
            raise InvalidArgumentError(
                f"prices must be finite and not negative, got {self}."
            )

    def of(
        self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0
    ) -> float:
        """The cost of one response, in the currency of the price.

        Args:
            prompt_tokens: number of tokens read, including those in the prefix cache.
            completion_tokens: number of tokens written.
            cached_tokens: number of tokens read that were in the prefix cache.
        """
        return self.of_usage(Usage(prompt_tokens, completion_tokens, cached_tokens))

    def of_usage(self, usage: Usage) -> float:
        """The cost of one response, or of several together, in the currency of the price.

        Args:
            usage: the tokens. If it is unknown how many were in the prefix cache, none
                were.
        """
        cached = self.input if self.cached_input is None else self.cached_input
        cache_write = self.input if self.cache_write is None else self.cache_write
        n_cached = usage.cached or 0
        fresh = max(0, usage.read - n_cached - usage.cache_written)
        return (
            fresh * self.input
            + n_cached * cached
            + usage.cache_written * cache_write
            + usage.written * self.output
        ) / 1e6


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The value of the field `response_format`, which asks for JSON that follows a schema."""
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)},
    }


@final
@dataclass(frozen=True)
class ChatAPI:
    """Converts requests to one model, and reads its replies. See `OpenAIChat` for the attributes.

    A reply comes from another machine, so nothing in it is trusted before it is checked.
    """

    model: str
    limit_field: str
    price: Price | None = None
    allow_empty: bool = False
    send_sampling: bool = True
    extra_body: Mapping[str, object] = field(default_factory=dict)

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON body of a request. Options of the request take precedence over `extra_body`."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in request.messages],
            self.limit_field: request.max_new_tokens,
        }
        if self.send_sampling:
            body["temperature"] = request.temperature
            if request.temperature > 0:
                body["seed"] = request.seed
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        if request.schema is not None:
            body["response_format"] = response_format(request.schema)
        return {**body, **self.extra_body, **request.options}

    def completion(
        self,
        reply: object,
        source: str,
        *,
        seconds: float = 0.0,
        attempts: int = 1,
        paid: float = 1.0,
        cost: float | None = None,
    ) -> Completion:
        """The completion in a reply. Every part of the reply is checked.

        Args:
            reply: JSON data.
            source: the model and server, for messages.
            seconds: latency of the reply.
            attempts: number of requests sent.
            paid: factor of the cost. It is 0.5 in a batch, and above 1 if lost
                responses were charged, too.
            cost: cost of the reply (default: from the price and the tokens).

        Raises:
            CompletionError: the reply is malformed or empty.
        """
        try:
            text, calls, finish_reason = _choice(reply)
            usage = read_usage(field_of(reply, "usage", dict)) or NOTHING
        except ValueError as error:
            raise CompletionError(
                f"{source} sent a response that cannot be read as a chat completion, because {error}. Try again, or "
                f"check the server. The response was {short(reply)}",
                attempts=attempts,
            ) from None
        if cost is None:
            cost = self.price.of_usage(usage) if self.price else 0.0
        cost *= paid
        if calls and not text:
            text = calls_text(calls)
        if not text and not self.allow_empty:
            raise CompletionError(
                f"{source} sent an empty completion (finish_reason {finish_reason!r}, {usage.written} tokens). If "
                "finish_reason is 'length', raise max_new_tokens. To accept empty completions, set allow_empty to true",
                cost=cost,
                attempts=attempts,
            )
        return Completion(
            text,
            usage.read,
            usage.written,
            usage.cached or 0,
            seconds,
            cost,
            finish_reason,
            attempts,
            tool_calls=calls,
        )


# Of nested arguments, so that they can be written as JSON even deep inside a call stack
_MOST_LEVELS = 100


Calls = tuple[dict[str, Any], ...]
"""Tool calls, each with `name` and `arguments`."""


def calls_text(calls: Iterable[Mapping[str, Any]]) -> str:
    """Tool calls as JSON. Keys are sorted, so that equal calls give the same text."""
    return json.dumps(list(calls), sort_keys=True, ensure_ascii=False)


def calls_of(message: object) -> Calls:
    """The tool calls in the message of a reply.

    Raises:
        ValueError: a call is malformed.
    """
    return tuple(_call(call) for call in field_of(message, "tool_calls", list) or ())


def _call(call: object) -> dict[str, Any]:
    """Read a tool call. Arguments that are not JSON stay a text.

    Raises:
        ValueError: the call is malformed.
    """
    function = field_of(call, "function", dict, needed=True)
    text = field_of(function, "arguments", (str, dict)) or "{}"
    try:
        arguments = json.loads(text) if isinstance(text, str) else text
        if _levels(arguments) > _MOST_LEVELS:
            raise ValueError("the arguments of a call are nested too deeply")
    except (ValueError, RecursionError):
        if not isinstance(text, str):
            raise
        # An LLM may write invalid JSON, which is still a call, if a bad one
        arguments = text
    return {
        "name": field_of(function, "name", str, needed=True),
        "arguments": arguments,
    }


def _levels(value: object) -> int:
    """The depth of nested lists and objects."""
    deep, here = 0, [value]
    while here := [item for item in here if isinstance(item, dict | list)]:
        deep += 1
        here = [
            below
            for item in here
            for below in (item.values() if isinstance(item, dict) else item)
        ]
    return deep


def _choice(reply: object) -> tuple[str, Calls, str | None]:
    """The text (empty if there is none), the tool calls, and the finish reason of a reply."""
    choices = field_of(reply, "choices", list, needed=True)
    if not choices:
        raise ValueError("'choices' is empty")
    message = field_of(choices[0], "message", dict, needed=True)
    text, calls = field_of(message, "content", str) or "", calls_of(message)
    reason = field_of(choices[0], "finish_reason", str)
    for part in (text, reason or "", calls_text(calls)):
        try:
            part.encode()
        except UnicodeEncodeError as error:
            # Half a surrogate pair, which cannot be written to a file
            raise ValueError(
                f"it has the character {part[error.start]!r}, which is not valid Unicode"
            ) from None
    return text.strip(), calls, reason
