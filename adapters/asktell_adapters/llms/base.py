"""The interface of LLM adapters, which take requests and return a completion or an exception for each."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import in_words, outside_of_loops, short

Message = Mapping[str, Any]
"""One turn of a chat: a mapping with `role` (system, user, assistant or tool) and `content`, which is a text.

`asktell_adapters.llms.prompts.chat` describes the further keys of turns with tool calls.
"""

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
        cost: money that the failed request cost, in the currency of the price. 0 if it
            is unknown.
        attempts: number of times that the request was sent, retries included.
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
    """One chat that an LLM should continue with a response.

    Attributes:
        messages: the turns so far. The LLM's own chat template is applied to them.
        max_new_tokens: largest number of tokens in the response, at least 1. A longer
            response is cut.
        temperature: sampling temperature, at least 0. At 0, the LLM always writes the
            most likely token (greedy decoding).
        seed: seed of sampling above temperature 0. With the same seed, the LLM should
            give the same response. LLMs that do not support seeds ignore it.
        repeat: number of the repeat, from 0, if the same request is sent several times
            to get several responses. A cache stores one response for each number. None
            counts as 0.
        schema: JSON schema that the response must follow, or None. OpenAI-compatible
            servers and llama.cpp enforce it. Other LLMs ignore it, so the messages
            should ask for the format as well.
        tools: functions that the LLM may call, each in the form of OpenAI's API:
            `{"type": "function", "function": {...}}`. LLMs without tool calls ignore
            them.
        options: further settings of this request, such as `{"top_p": 0.9}`. The LLM's
            attribute `request_options` has the names that the LLM accepts.
        client: for `Models`, the parameters that choose one of its LLMs, such as
            `{"model": "gpt-4o-mini"}`. A single LLM ignores them.

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
        """Make a request with a single user turn.

        Args:
            user: the text of the user turn.
            system: the text of the system turn before it, or None for no system turn.
            settings: other attributes of the request, such as `max_new_tokens`.
        """
        turns = [] if system is None else [{"role": "system", "content": system}]
        return cls((*turns, {"role": "user", "content": user}), **settings)


@dataclass(frozen=True)
class Completion:
    """A response of an LLM, with its tokens, time and cost.

    Attributes:
        text: the text of the response, without special tokens.
        prompt_tokens: number of tokens read, chat template included.
        completion_tokens: number of tokens written. On this machine, the end-of-turn
            token is not counted. A server may count it.
        cached_tokens: number of tokens among `prompt_tokens` that were in the LLM's
            prefix cache.
        latency: seconds of wall time for the successful attempt. If the response was
            generated in a batch on this machine, the batch's seconds divided by its
            number of requests.
        cost: money that all attempts cost, in the currency of the price. 0 if the LLM
            has no price.
        finish_reason: the reason why the response ended. "stop": the LLM ended it.
            "length": it was cut at `max_new_tokens` or at the end of the context.
            Servers may give other reasons. None if it is unknown.
        attempts: number of times that the request was sent, retries included.
        from_cache: True if the response comes from an `AnswerCache`, so that nothing
            was paid for it now.
        tool_calls: the LLM's tool calls, each a mapping with `name` and `arguments`.
            The arguments are JSON data, or a text if the LLM wrote invalid JSON. If the
            response has tool calls and no other text, `text` is the calls as JSON.
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
    outcomes: list[Completion | Exception] = []
    for answer in await asyncio.gather(*answers, return_exceptions=True):
        if not isinstance(answer, Completion | Exception):
            raise answer
        outcomes.append(answer)
    return outcomes


@dataclass(frozen=True)
class Example:
    """One row of a dataset.

    Attributes:
        input: the text that the prompt is applied to.
        reference: the wanted response, or a sequence of wanted responses, of which the
            best match counts. None if there is none. Metrics that need one then fail.
        id: the name of the row in its dataset, or None.
        fields: the other columns of the row: name -> value. Prompts and templates can
            use them as `{name}`, and metrics can read them.
        input_column: the name of the input's column. Prompts and templates can use the
            input by this name as well as by `{input}`.

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
        """The references as a tuple, which has one item if `reference` is a text.

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


def names_of(example: Example | Mapping[str, Any]) -> tuple[Any, ...]:
    """The names that may identify an example in a selection: its id, or None, and its columns "id" and "name"."""
    if isinstance(example, Example):
        return example.id, example.fields.get("id"), example.fields.get("name")
    return None, example.get("id"), example.get("name")


class Metric(Protocol):
    """A function or object that scores a response to an example: `metric(completion, example)` returns a number.

    The goal defines whether larger is better.

    ```python
    def polite(completion, example):
        return float("please" in completion.text.lower())

    polite.range = (0, 1)
    ```

    A metric may have these attributes:

    - `name`: the metric's name in a sequence of metrics (default: `__name__`).
    - `range`: the lowest and highest possible score. See `range_of`.
    - `repeatable`: False if the metric may give the same response another score when it
      is called again.
    """

    def __call__(self, completion: Completion, example: Example, /) -> float:
        """The score. The goal defines whether larger is better."""
        ...


@runtime_checkable
class LLM(Protocol):
    """A synchronous LLM: one call completes a list of requests.

    It may also have these methods:

    - `load()` loads the model now, not at the first request.
    - `count_tokens(requests)` returns a list with the number of prompt tokens of each
      request.
    - `identity()` returns everything that determines a response apart from the request,
      as JSON data. It contains no API keys. A cache needs it.

    These methods and `complete` raise an EvaluatorError if the model cannot be loaded.

    The attribute `request_options`, if the LLM has it, is a set with the names of the
    options that it accepts in `Request.options`.
    """

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Complete the requests.

        Returns:
            For each request, in order, its response, or the exception if it failed.
        """
        ...


@runtime_checkable
class AsyncLLM(Protocol):
    """An async LLM: many tasks can call it at once, each with one request."""

    async def acomplete(self, request: Request, /) -> Completion:
        """Complete one request without blocking the event loop.

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

    return outside_of_loops(ask)
