"""The interface of LLM adapters: requests in, a completion or an exception for each out."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import in_words, outside_of_loops

Message = Mapping[str, Any]
"""One turn of a chat: `role` (system, user, assistant or tool) and `content`; see `asktell_adapters.prompts.chat`."""

Asked: TypeAlias = str | Mapping[str, Any]
"""What is evaluated: a prompt's text, or a candidate, factor -> value."""

SAMPLING = frozenset({"top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"})
"""Options of requests that most LLMs take."""


def said(message: Message) -> str:
    """The text of a message; empty where there are only calls of tools."""
    return message.get("content") or ""


def without_system(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The same chat with the system turn at the head of the first user turn: for templates that know no system role."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return [dict(message) for message in messages]
    system, first, *rest = messages
    return [{**first, "content": f"{said(system)}\n\n{said(first)}"}, *map(dict, rest)]


class CompletionError(EvaluatorError):
    """An LLM gave no usable answer to one request.

    Attributes:
        cost: what the failed request is known to have cost, in the price table's currency.
        attempts: requests sent, retries included.
    """

    def __init__(self, message: str, *, cost: float = 0.0, attempts: int = 1) -> None:
        super().__init__(message)
        self.cost = cost
        self.attempts = attempts


def failure_of(library: str, error: Exception) -> CompletionError:
    """What a library raised, as the failure of one request."""
    if isinstance(error, CompletionError):
        return error
    failure = CompletionError(f"{library} failed: {in_words(error)}")
    failure.__cause__ = error
    return failure


@dataclass(frozen=True)
class Request:
    """One chat to complete.

    Attributes:
        messages: the turns so far; the LLM's own chat template is applied to them.
        max_new_tokens: the answer is cut after so many tokens.
        temperature: 0 is greedy decoding.
        seed: makes sampling (temperature > 0) repeatable where the LLM allows it.
        repeat: which of several answers to the same request it asks for, from 0; None where they are not numbered.
        schema: a JSON schema that the answer is to follow. OpenAI-compatible servers and llama.cpp hold the LLM to it;
            others take no notice, so that the messages should ask for it too.
        tools: functions that the LLM is offered, `{"type": "function", "function": {...}}`, where it knows of such.
        options: further settings, of those that the LLM names in its attribute `request_options`, as `top_p`.
        client: which of several LLMs is asked: the factors that it is made with, as `{"model": ...}`; see `Models`.
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
            raise InvalidArgumentError("A request needs at least one message, got none.")
        if self.max_new_tokens < 1:
            raise InvalidArgumentError(f"max_new_tokens must be at least 1, got {self.max_new_tokens!r}.")
        if not self.temperature >= 0:
            raise InvalidArgumentError(f"temperature must be 0 (greedy) or larger, got {self.temperature!r}.")

    @classmethod
    def chat(cls, user: str, system: str | None = None, **settings: Any) -> "Request":
        """One user turn, after a system turn unless `system` is None; `settings` are the other attributes."""
        turns = [] if system is None else [{"role": "system", "content": system}]
        return cls((*turns, {"role": "user", "content": user}), **settings)


@dataclass(frozen=True)
class Completion:
    """An LLM's answer and what it took.

    Attributes:
        text: the answer, without special tokens.
        prompt_tokens: tokens read, template included.
        completion_tokens: tokens written, without the end-of-turn token.
        cached_tokens: those of `prompt_tokens` that a prefix cache spared.
        latency: wall seconds of the call that answered; in a local batch, the batch's seconds over its size.
        cost: in the currency of the price table, over all attempts; 0 without a price table.
        finish_reason: "stop", or "length" when `max_new_tokens` cut the answer, or the server's own word.
        attempts: requests sent, retries included.
        from_cache: it was answered before, and what it took was paid then.
        tool_calls: the tools that the LLM calls, each with `name` and `arguments`. Where it says nothing else, `text`
            is them as JSON.
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


async def all_of(answers: Iterable[Awaitable[Completion]]) -> list[Completion | Exception]:
    """Each answer or failure; what is to stop the program (a cancellation) is raised."""
    return [_ordinary(answer) for answer in await asyncio.gather(*answers, return_exceptions=True)]


def _ordinary(answer: Completion | BaseException) -> Completion | Exception:
    if isinstance(answer, Completion | Exception):
        return answer
    raise answer


@dataclass(frozen=True)
class Example:
    """One row of a data set.

    Attributes:
        input: the text that the prompt is applied to.
        reference: the wanted output, or several of which the best match counts; None where no metric needs one.
        id: the row's name in its data set.
        fields: the row's other columns, for templates (`{column}`) and metrics.
        input_column: what the data set calls the input; templates may, too.
    """

    input: str
    reference: str | Sequence[str] | None = None
    id: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    input_column: str = field(default="input", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.input, str):
            raise InvalidArgumentError(f"An example's input must be a str, got {type(self.input).__name__}.")
        reference: object = self.reference
        if isinstance(reference, list | tuple):
            object.__setattr__(self, "reference", tuple(reference))
            if not reference or not all(isinstance(text, str) for text in reference):
                raise InvalidArgumentError(f"Several references must be a non-empty list of str, got {reference!r}.")
        elif not isinstance(reference, str | None):
            raise InvalidArgumentError(
                f"A reference must be a str, a list of str or None, got {type(reference).__name__}."
            )

    @property
    def references(self) -> tuple[str, ...]:
        """The references as a tuple; a metric that wants one of an example that has none fails."""
        if self.reference is None:
            raise EvaluatorError(f"example {self.id or self.input[:40]!r} has no reference, but a metric needs one")
        return (self.reference,) if isinstance(self.reference, str) else tuple(self.reference)


class Metric(Protocol):
    """Scores one completion on one example."""

    def __call__(self, completion: Completion, example: Example, /) -> float:
        """The score. Whether larger is better is the goal's to say."""
        ...


@runtime_checkable
class LLM(Protocol):
    """A synchronous, batched LLM.

    It may also have `load()`, which loads the model now and not at the first request; `count_tokens(requests)`, the
    tokens that each of them has to read; and `identity()`, all that determines its answers beside the request, as JSON
    data without keys: a cache needs that. Each of these, and `complete`, raises an EvaluatorError if the model cannot
    be loaded.
    """

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Answers in the order of the requests. A request that fails yields its exception in its place."""
        ...


@runtime_checkable
class AsyncLLM(Protocol):
    """An LLM that many tasks call at once."""

    async def acomplete(self, request: Request, /) -> Completion:
        """The answer; raises CompletionError when there is none."""
        ...


def gathered(llm: AsyncLLM, requests: Sequence[Request], concurrency: int) -> list[Completion | Exception]:
    """What an async LLM answers, so many at once, or why not: for callers that are not async."""

    async def ask() -> list[Completion | Exception]:
        slots = asyncio.Semaphore(concurrency)

        async def one(request: Request) -> Completion:
            async with slots:
                return await llm.acomplete(request)

        return await all_of(map(one, requests))

    return outside_of_loops(lambda: asyncio.run(ask()))
