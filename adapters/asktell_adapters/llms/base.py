"""The interface of LLM adapters, which take requests and return a completion or an exception for each."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import in_words, outside_of_loops, short

Message = Mapping[str, Any]
"""One turn of a chat: `role` (system, user, assistant or tool) and `content`. See `asktell_adapters.prompts.chat`."""

Asked: TypeAlias = str | Mapping[str, Any]
"""The text of a prompt, or a candidate (factor -> value)."""

SAMPLING = frozenset(
    {"top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"}
)
"""Options of requests that most LLMs accept."""


def said(message: Message) -> str:
    """The text of a message. It is empty if the message has only tool calls."""
    return message.get("content") or ""


def without_system(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Move the system turn to the beginning of the first user turn, for templates without a system role."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return [dict(message) for message in messages]
    system, first, *rest = messages
    return [{**first, "content": f"{said(system)}\n\n{said(first)}"}, *map(dict, rest)]


class CompletionError(EvaluatorError):
    """An LLM gave no usable response to one request.

    Attributes:
        cost: known cost of the failed request, in the currency of the price.
        attempts: number of requests sent, retries included.
    """

    def __init__(self, message: str, *, cost: float = 0.0, attempts: int = 1) -> None:
        super().__init__(message)
        self.cost = cost
        self.attempts = attempts


def failure_of(library: str, error: Exception) -> CompletionError:
    """Convert an exception of a library to the failure of one request."""
    if isinstance(error, CompletionError):
        return error
    failure = CompletionError(f"{library} failed: {in_words(error)}")
    failure.__cause__ = error
    return failure


@dataclass(frozen=True)
class Request:
    """One chat to complete.

    Attributes:
        messages: the turns so far. The LLM's own chat template is applied to them.
        max_new_tokens: the response is cut after this number of tokens. At least 1.
        temperature: 0 is greedy decoding. At least 0.
        seed: makes sampling (temperature > 0) repeatable if the LLM supports seeds.
        repeat: number of the repeat, from 0, if several responses to the same request
            are wanted. None otherwise.
        schema: JSON schema that the response must follow. OpenAI-compatible servers and
            llama.cpp enforce it. Other LLMs ignore it, so the messages should ask for
            the format as well.
        tools: functions that the LLM may call, `{"type": "function", "function":
            {...}}`. LLMs without tool calls ignore them.
        options: further settings, such as `top_p`. The LLM's attribute
            `request_options` has their names.
        client: parameters that choose one of several LLMs, such as `{"model": ...}`.
            See `Models`.

    Raises:
        InvalidArgumentError: there are no messages, or a number is out of range.
    """

    messages: tuple[Message, ...]
    max_new_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    repeat: int | None = None
    schema: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.messages:
            raise InvalidArgumentError(
                "A request needs at least one message, got none."
            )
        if self.max_new_tokens < 1:
            raise InvalidArgumentError(
                f"max_new_tokens must be at least 1, got {self.max_new_tokens!r}."
            )
        if not self.temperature >= 0:
            raise InvalidArgumentError(
                f"temperature must be 0 (greedy) or larger, got {self.temperature!r}."
            )

    @classmethod
    def chat(cls, user: str, system: str | None = None, **settings: Any) -> "Request":
        """A request with one user turn, after a system turn if there is one. `settings` are other attributes."""
        turns = [] if system is None else [{"role": "system", "content": system}]
        return cls((*turns, {"role": "user", "content": user}), **settings)


@dataclass(frozen=True)
class Completion:
    """A response of an LLM, with its tokens, time and cost.

    Attributes:
        text: the response, without special tokens.
        prompt_tokens: tokens read, template included.
        completion_tokens: tokens written, without the end-of-turn token.
        cached_tokens: the part of `prompt_tokens` that came from a prefix cache.
        latency: seconds of wall time of the successful call. In a local batch, the
            batch's seconds divided by its size.
        cost: cost of all attempts, in the currency of the price. 0 without a price.
        finish_reason: "stop", "length" if `max_new_tokens` cut the response, or another
            reason of the server.
        attempts: number of requests sent, retries included.
        from_cache: True if the response was paid for before.
        tool_calls: the LLM's tool calls, each with `name` and `arguments`. If the
            response has no other text, `text` is these calls as JSON.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    latency: float = 0.0
    cost: float = 0.0
    finish_reason: str | None = None
    attempts: int = 1
    from_cache: bool = False
    tool_calls: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))


async def all_of(
    answers: Iterable[Awaitable[Completion]],
) -> list[Completion | Exception]:
    """Await all responses. Return each response or its failure, but raise a cancellation or Ctrl-C."""
    found: list[Completion | Exception] = []
    for answer in await asyncio.gather(*answers, return_exceptions=True):
        if not isinstance(answer, Completion | Exception):
            raise answer
        found.append(answer)
    return found


@dataclass(frozen=True)
class Example:
    """One row of a dataset.

    Attributes:
        input: the text that the prompt is applied to.
        reference: the wanted output, or several, and the best match counts. None if no metric needs one.
        id: the name of the row in its dataset.
        fields: the other columns of the row, for templates (`{column}`) and metrics.
        input_column: the name of the input's column, which templates may use, too.

    Raises:
        InvalidArgumentError: the input or a reference is not a text.
    """

    input: str
    reference: str | Sequence[str] | None = None
    id: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    input_column: str = field(default="input", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.input, str):
            raise InvalidArgumentError(
                f"An example's input must be a text, got {short(self.input)}."
            )
        reference: object = self.reference
        if isinstance(reference, list | tuple):
            object.__setattr__(self, "reference", tuple(reference))
            if not reference or not all(isinstance(text, str) for text in reference):
                raise InvalidArgumentError(
                    f"Several references must be a list of texts that is not empty, got {short(reference)}."
                )
        elif not isinstance(reference, str | None):
            raise InvalidArgumentError(
                f"A reference must be a text, a list of texts or None, got {short(reference)}."
            )

    @property
    def references(self) -> tuple[str, ...]:
        """The references as a tuple.

        Raises:
            EvaluatorError: the example has no reference.
        """
        if self.reference is None:
            raise EvaluatorError(
                f"example {self.id or self.input[:40]!r} has no reference, but a metric needs one. Give the example a "
                "reference, or leave the metric out"
            )
        return (
            (self.reference,)
            if isinstance(self.reference, str)
            else tuple(self.reference)
        )


class Metric(Protocol):
    """Scores one response to one example."""

    def __call__(self, completion: Completion, example: Example, /) -> float:
        """The score. The goal defines whether larger is better."""
        ...


@runtime_checkable
class LLM(Protocol):
    """A synchronous, batched LLM.

    It may also have these methods:

    - `load()` loads the model now, not at the first request.
    - `count_tokens(requests)` returns the number of prompt tokens of each request.
    - `identity()` returns JSON data without keys: everything except the request that
      determines a response. A cache needs it.

    These methods and `complete` raise an EvaluatorError if the model cannot be loaded.
    """

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """The responses in the order of the requests. A request that fails has its exception in its place."""
        ...


@runtime_checkable
class AsyncLLM(Protocol):
    """An LLM that many tasks call at once."""

    async def acomplete(self, request: Request, /) -> Completion:
        """The response to a request.

        Raises:
            CompletionError: the request failed.
        """
        ...


def gathered(
    llm: AsyncLLM, requests: Sequence[Request], concurrency: int
) -> list[Completion | Exception]:
    """Call an async LLM from synchronous code, with at most `concurrency` requests at once.

    Returns:
        One response or exception per request, in order.
    """

    async def ask() -> list[Completion | Exception]:
        slots = asyncio.Semaphore(concurrency)

        async def one(request: Request) -> Completion:
            async with slots:
                return await llm.acomplete(request)

        return await all_of(map(one, requests))

    return outside_of_loops(lambda: asyncio.run(ask()))
