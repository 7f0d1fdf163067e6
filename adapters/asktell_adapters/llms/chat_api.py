"""The chat completions of OpenAI's API as data: a request's body, an answer's text, tokens and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from asktell.errors import InvalidArgumentError
from asktell_adapters.llms.base import Completion, CompletionError, Request


@final
@dataclass(frozen=True)
class Price:
    """What a model costs, per million tokens, in any currency.

    Attributes:
        input: tokens read.
        output: tokens written.
        cached_input: tokens read that the server found in its prefix cache; by default the price of `input`.
    """

    input: float
    output: float
    cached_input: float | None = None

    def __post_init__(self) -> None:
        if not all(
            price is None or 0 <= price < float("inf") for price in (self.input, self.output, self.cached_input)
        ):
            raise InvalidArgumentError(f"prices must be finite and not negative, got {self}")

    def of(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        """The cost of one answer; `cached_tokens` are a part of `prompt_tokens`."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, prompt_tokens - cached_tokens)
        return (fresh * self.input + cached_tokens * cached + completion_tokens * self.output) / 1e6


@final
@dataclass(frozen=True)
class ChatAPI:
    """How requests are put to one model, and its answers read. See `OpenAIChat` for the attributes."""

    model: str
    limit_field: str
    price: Price | None = None
    allow_empty: bool = False
    send_sampling: bool = True
    extra_body: Mapping[str, object] = field(default_factory=dict)

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON that asks for a completion."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in request.messages],
            self.limit_field: request.max_new_tokens,
        }
        if self.send_sampling:
            body["temperature"] = request.temperature
            if request.temperature > 0:
                body["seed"] = request.seed
        return {**body, **self.extra_body}

    def completion(
        self, reply: Any, source: str, *, seconds: float = 0.0, attempts: int = 1, paid: float = 1.0
    ) -> Completion:
        """The completion in a reply of the SDK, which need not be well-formed.

        Args:
            reply: an `openai.types.chat.ChatCompletion`.
            source: whose reply it is, for messages.
            seconds: the call took.
            attempts: requests sent.
            paid: times the price: a half in a batch, more where lost answers were charged too.

        Raises:
            CompletionError: it is malformed, or the text is empty and may not be.
        """
        try:
            choice = reply.choices[0]
            text = choice.message.content
            usage = reply.usage
            prompt_tokens = int(usage.prompt_tokens) if usage else 0
            completion_tokens = int(usage.completion_tokens or 0) if usage else 0
            details = getattr(usage, "prompt_tokens_details", None)
            cached_tokens = int(getattr(details, "cached_tokens", None) or 0)
            if not isinstance(text, str | None):
                raise TypeError(f"content is {type(text).__name__}")
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise CompletionError(
                f"{source} sent a malformed answer, not a chat completion ({error}): {str(reply)[:200]}",
                attempts=attempts,
            ) from None
        cost = paid * (self.price.of(prompt_tokens, completion_tokens, cached_tokens) if self.price else 0.0)
        text = (text or "").strip()
        if not text and not self.allow_empty:
            raise CompletionError(
                f"{source} sent an empty completion (finish_reason {choice.finish_reason!r}, "
                f"{completion_tokens} tokens); allow_empty=True accepts it as an answer",
                cost=cost,
                attempts=attempts,
            )
        return Completion(
            text=text,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cached_tokens=cached_tokens,
            latency=seconds,
            cost=cost,
            finish_reason=choice.finish_reason,
            attempts=attempts,
        )
