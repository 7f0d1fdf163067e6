"""OpenAI's chat completions as data: the body of a request, and the text, tokens and cost of a reply."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.llms.base import Completion, CompletionError, Request


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

    Raises:
        InvalidArgumentError: a price is negative or not finite.
    """

    input: float
    output: float
    cached_input: float | None = None
    currency: str = ""

    def __post_init__(self) -> None:
        if not all(
            price is None or 0 <= price < float("inf")
            for price in (self.input, self.output, self.cached_input)
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
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, prompt_tokens - cached_tokens)
        return (
            fresh * self.input
            + cached_tokens * cached
            + completion_tokens * self.output
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
            usage = _usage(_get(reply, "usage", dict))
        except ValueError as error:
            raise CompletionError(
                f"{source} sent a response that cannot be read as a chat completion, because {error}. Try again, or "
                f"check the server. The response was {short(reply)}",
                attempts=attempts,
            ) from None
        if cost is None:
            cost = self.price.of(*usage) if self.price else 0.0
        cost *= paid
        if calls and not text:
            text = calls_text(calls)
        if not text and not self.allow_empty:
            raise CompletionError(
                f"{source} sent an empty completion (finish_reason {finish_reason!r}, "
                f"{usage[1]} tokens). If finish_reason is 'length', raise max_new_tokens. To accept empty completions, "
                "set allow_empty to true",
                cost=cost,
                attempts=attempts,
            )
        return Completion(
            text, *usage, seconds, cost, finish_reason, attempts, tool_calls=calls
        )


# In one request. A larger number is a server's mistake, and would become a cost.
_MOST_TOKENS = 10**9
# Of nested arguments, so that they can be written as JSON even deep inside a call stack
_MOST_LEVELS = 100


def _get(
    thing: object, key: str, kind: type | tuple[type, ...], *, needed: bool = False
) -> Any:
    """The value of a key in a JSON object, or None if there is no value and none is needed.

    Raises:
        ValueError: the value is of another type, or is needed and missing.
    """
    value = thing.get(key) if isinstance(thing, dict) else None
    if value is None and not needed:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key!r} is {short(value)}")
    return value


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
    return tuple(_call(call) for call in _get(message, "tool_calls", list) or ())


def _call(call: object) -> dict[str, Any]:
    """Read a tool call. Arguments that are not JSON stay a text.

    Raises:
        ValueError: the call is malformed.
    """
    function = _get(call, "function", dict, needed=True)
    text = _get(function, "arguments", (str, dict)) or "{}"
    try:
        arguments = json.loads(text) if isinstance(text, str) else text
        if _levels(arguments) > _MOST_LEVELS:
            raise ValueError("the arguments of a call are nested too deeply")
    except (ValueError, RecursionError):
        if not isinstance(text, str):
            raise
        # An LLM may write invalid JSON, which is still a call, if a bad one
        arguments = text
    return {"name": _get(function, "name", str, needed=True), "arguments": arguments}


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
    choices = _get(reply, "choices", list, needed=True)
    if not choices:
        raise ValueError("'choices' is empty")
    message = _get(choices[0], "message", dict, needed=True)
    text, calls = _get(message, "content", str) or "", calls_of(message)
    reason = _get(choices[0], "finish_reason", str)
    for part in (text, reason or "", calls_text(calls)):
        try:
            part.encode()
        except UnicodeEncodeError as error:
            # Half a surrogate pair, which cannot be written to a file
            raise ValueError(
                f"it has the character {part[error.start]!r}, which is not valid Unicode"
            ) from None
    return text.strip(), calls, reason


def _usage(usage: object) -> tuple[int, int, int]:
    """Tokens read, tokens written, and tokens read from a cache. All are 0 if the reply has no usage."""
    if usage is None:
        return 0, 0, 0
    read = _tokens(usage, "prompt_tokens", needed=True)
    cached = _tokens(_get(usage, "prompt_tokens_details", dict), "cached_tokens")
    if cached > read:
        raise ValueError(
            f"'cached_tokens' is {cached}, more than the {read} 'prompt_tokens'"
        )
    # Some servers count the tokens of the reasoning in the total alone, and charge for
    # them.
    written = max(
        _tokens(usage, "completion_tokens"), _tokens(usage, "total_tokens") - read
    )
    return read, written, cached


def _tokens(usage: object, key: str, *, needed: bool = False) -> int:
    """Read a number of tokens. 0 if it is missing and not needed.

    Raises:
        ValueError: it is not a whole number, or implausibly large.
    """
    count = _get(usage, key, (int, float), needed=needed) or 0
    if not 0 <= count <= _MOST_TOKENS or count != int(count):
        raise ValueError(
            f"{key!r} is {count!r:.40}, not a whole number of at most {_MOST_TOKENS}"
        )
    return int(count)
