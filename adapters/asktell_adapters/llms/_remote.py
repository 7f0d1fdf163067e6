"""The base of clients of chat APIs: many requests at once, rate limits, retries, and counts of tokens and cost."""

import asyncio
import email.utils
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, final
from urllib.parse import urlsplit, urlunsplit

from asktell.extend import import_extra, whole
from asktell_adapters._util.loop import LoopThread
from asktell_adapters._util.scores import positive
from asktell_adapters.llms.base import (
    SAMPLING,
    Completion,
    CompletionError,
    Request,
    all_of,
    said,
)
from asktell_adapters.llms.chat_api import ChatAPI, Price

_CHARACTERS_PER_TOKEN = 4  # about, in English
MOST_SAID = 1000
"""Characters of a server's message in ours. Messages are stored with failures, so they must stay short."""


class RemoteChat(ABC):
    """Base class of clients of chat APIs. See `OpenAIChat` for the arguments.

    A client sends requests in OpenAI's format, and raises the exceptions of OpenAI's SDK.
    LiteLLM uses the same exceptions for every provider. All requests run in one event loop
    in a thread of its own, so that all callers share connections and limits.
    """

    name: str
    """The LLM's name in error messages: the model, and the server or library that is used."""

    where_keys_are: str
    """The place of the API key, in words for the error message about a refused key."""

    request_options = SAMPLING | {"repetition_penalty", "reasoning_effort", "verbosity"}

    def __init__(
        self,
        api: ChatAPI,
        concurrency: int,
        timeout: float,
        max_retries: int,
        backoff: float,
        max_wait: float,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
    ) -> None:
        self.api = api
        self.concurrency = whole("concurrency", concurrency, 1)
        self.timeout = positive("timeout", timeout, " of seconds")
        self.max_retries = whole("max_retries", max_retries, 0)
        self.backoff = positive("backoff", backoff, " of seconds")
        self.max_wait = positive("max_wait", max_wait, " of seconds")
        self.requests_per_minute = requests_per_minute
        self.tokens_per_minute = tokens_per_minute
        self._requests = Pace("requests_per_minute", requests_per_minute)
        self._tokens = Pace("tokens_per_minute", tokens_per_minute)
        self._loop = LoopThread()
        self._client: Any = None
        self._slots: asyncio.Semaphore | None = None
        # Whether the server has responded at least once
        self._answered = False
        # Number of responses so far, and of tokens in them
        self._lengths = (0, 0)
        # False once the server has refused a schema
        self._schemas = True

    @property
    def price(self) -> Price | None:
        """The price, or None. Without a price, every cost is 0."""
        return self.api.price

    @abstractmethod
    def redact(self, text: str) -> str:
        """The text without API keys."""

    @abstractmethod
    def _connect(self) -> Any:
        """Make a client, in the loop that uses it."""

    @abstractmethod
    async def _send(self, body: Mapping[str, Any]) -> tuple[object, float | None]:
        """Send a request. Return the reply's JSON, and its cost if that is known from elsewhere than the price."""

    def _misplaced(self, error: BaseException) -> str:
        """A message about a wrong address if the error was caused by one, or an empty text."""
        return ""

    async def acomplete(self, request: Request, /) -> Completion:
        """Send one request, and wait for its response without blocking the caller's event loop.

        Raises:
            CompletionError: no attempt got a usable response.
        """
        return await asyncio.wrap_future(self._loop.submit(self._complete(request)))

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Send the requests, up to `concurrency` at the same time, and wait for all responses.

        Returns:
            For each request, in order, its response, or the exception if it failed.
        """
        future = self._loop.submit(self._complete_all(requests))
        try:
            return future.result()
        finally:
            # After Ctrl-C, also ends the requests in progress.
            future.cancel()

    def sampled(self, request: Request) -> bool:
        """True if the server samples, so that the same request may get another response.

        That is so above temperature 0, and with `send_sampling=False`, because the
        temperature is then the server's choice.

        Args:
            request: the request. A temperature in `extra_body` replaces its temperature.
        """
        temperature = self.api.extra_body.get("temperature", request.temperature)
        return not self.api.send_sampling or temperature != 0

    def close(self) -> None:
        """Close the connections, and cancel the requests that are in progress. A later request connects again."""
        self._loop.close()
        self._client = self._slots = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> asyncio.Semaphore:
        """Connect if that has not been done, and return the semaphore of the concurrency limit."""
        if self._slots is None:
            self._client = self._connect()
            self._slots = asyncio.Semaphore(self.concurrency)
        return self._slots

    async def _complete_all(
        self, requests: Sequence[Request]
    ) -> list[Completion | Exception]:
        """Send the requests in the event loop, and return each response or failure."""
        self._open()
        return await all_of(map(self._complete, requests))

    async def _complete(self, request: Request) -> Completion:
        """Send one request, with retries, within the limits of concurrency and rate.

        Raises:
            CompletionError: no attempt gave a usable response.
        """
        if request.schema is not None and not self._schemas:
            request = replace(request, schema=None)
        tenacity = import_extra("tenacity", "openai")
        slots = self._open()
        # A server most likely charges for an attempt that timed out here, so timeouts
        # are counted.
        timeouts = 0
        # The tokens of a request are known only afterwards. Reserve a guess now, and
        # correct it later.
        body = self.api.body(request)
        characters = sum(len(said(message)) for message in request.messages)
        guess = request.max_new_tokens + characters / _CHARACTERS_PER_TOKEN

        def note(state: Any) -> None:
            nonlocal timeouts
            timeouts += isinstance(state.outcome.exception(), _timeouts())
            self._answered |= not _is_unconnected(state.outcome.exception())

        def enough(state: Any) -> bool:
            nobody = not self._answered and _is_unconnected(state.outcome.exception())
            return bool(
                state.attempt_number
                > (min(1, self.max_retries) if nobody else self.max_retries)
            )

        # The SDK could retry, too, but it does not report the attempts, which cost
        # money.
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_transient),
            stop=enough,
            wait=self._wait,
            after=note,
            reraise=True,
        )
        attempts = 0
        try:
            async for attempt in retrying:
                with attempt:
                    attempts += 1
                    # The slot is free during the waits between attempts.
                    async with slots:
                        await asyncio.sleep(
                            max(self._requests.reserve(), self._tokens.reserve(guess))
                        )
                        start = time.perf_counter()
                        # The timeout of the SDK is per read. A server that sends a byte
                        # now and then would never time out.
                        async with asyncio.timeout(self.timeout):
                            reply, cost = await self._send(body)
                        seconds = time.perf_counter() - start
            self._answered = True
        except Exception as error:
            if request.schema is not None and _is_about_schemas(error):
                self._schemas = False
                return await self._complete(request)
            # "from None", because the SDK's exception has the server's message, which
            # may contain the key.
            lost = (
                timeouts * self._likely_cost(request, characters) if timeouts else 0.0
            )
            raise CompletionError(
                self._explain(error, attempts), cost=lost, attempts=attempts
            ) from None
        try:
            # The server has most likely processed and charged the attempts that timed
            # out here.
            answer = self.api.completion(
                reply,
                self.name,
                seconds=seconds,
                attempts=attempts,
                paid=1 + timeouts,
                cost=cost,
            )
        except CompletionError as error:
            raise CompletionError(
                self.redact(str(error)), cost=error.cost, attempts=attempts
            ) from None
        self._lengths = (
            self._lengths[0] + 1,
            self._lengths[1] + answer.completion_tokens,
        )
        # Servers without usage report 0 tokens. Then the guess stays.
        if answer.prompt_tokens:
            self._tokens.correct(
                answer.prompt_tokens + answer.completion_tokens - guess
            )
        return answer

    def _likely_cost(self, request: Request, characters: int) -> float:
        """The likely cost of an attempt without a response.

        The response is assumed to be as long as the mean of all responses so far, or as
        long as possible if there are none.
        """
        answers, written = self._lengths
        length = written / answers if answers else request.max_new_tokens
        return (
            self.price.of(characters // _CHARACTERS_PER_TOKEN, round(length), 0)
            if self.price
            else 0.0
        )

    def _wait(self, state: Any) -> float:
        """Seconds to wait before the next attempt."""
        asked = _retry_after(state.outcome.exception())
        if asked is not None:
            return min(asked, self.max_wait)
        # Jitter, so that requests that failed together are not sent again together.
        backoff: float = (
            self.backoff
            * 2.0 ** min(state.attempt_number - 1, 30)
            * (1 + random.random())
        )
        return min(backoff, self.max_wait)

    def _explain(self, error: Exception, attempts: int) -> str:
        """The message about a failed request, without keys and of limited length.

        Args:
            error: the error of the last attempt.
            attempts: number of attempts.
        """
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        if isinstance(error, _timeouts()):
            late = f"did not answer within {self.timeout:g} s ({tries})"
            return f"{self.name} {late}. Raise timeout, or lower concurrency"
        if isinstance(error, ValueError) and not hasattr(error, "status_code"):
            return self.redact(
                f"{self.name} sent a response that cannot be read as JSON ({error}). Try again, or check the server"
            )[:MOST_SAID]
        if _is_unconnected(error) and not self._answered:
            # The first cause is the system's message, such as "Connection refused".
            root: BaseException = error
            while deeper := root.__cause__ or root.__context__:
                root = deeper
            why = self.redact(str(root))[:MOST_SAID]
            return f"{self.name} cannot be reached ({tries}): {why}. Check the address, and that the server is running"
        if misplaced := self._misplaced(error):
            return misplaced
        cure = (
            f". Check {self.where_keys_are}"
            if getattr(error, "status_code", None) in (401, 403)
            else ""
        )
        cause = (
            f" ({error.__cause__})"
            if error.__cause__ is not None and str(error.__cause__)
            else ""
        )
        words = self.redact(f"{type(error).__name__}: {error}{cause}")
        return f"{self.name} failed after {tries} with {words[:MOST_SAID]}{cure}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_slots": None}


@final
class Pace:
    """A rate limit: the time to wait so that at most `per_minute` units begin in any minute, evenly spread.

    The units are spread because servers also count a limit per minute in shorter
    slices, and refuse bursts. A pace belongs to one process and is not thread-safe. If
    several processes share a server's limit, give each a part of it.

    Args:
        name: name of the argument, for messages.
        per_minute: units per minute, or None for no limit.
        clock: returns seconds.
    """

    def __init__(
        self,
        name: str,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if per_minute is not None:
            positive(name, per_minute, ", or None for no limit")
        self._seconds_per_unit = 0.0 if per_minute is None else 60 / per_minute
        self._clock = clock
        self._free = float("-inf")

    def reserve(self, units: float = 1.0) -> float:
        """Reserve the next free time.

        Args:
            units: number of requests or tokens.

        Returns:
            Seconds until this time.
        """
        now = self._clock()
        start = max(now, self._free)
        self._free = start + units * self._seconds_per_unit
        return start - now

    def correct(self, units: float) -> None:
        """Add so many units (or remove them, if negative) to the reserved units, after a wrong estimate."""
        self._free += units * self._seconds_per_unit

    def __getstate__(self) -> dict[str, Any]:
        # Another process has another clock
        return {**self.__dict__, "_free": float("-inf")}


def without_secrets(url: str) -> str:
    """The address without user name, password and query."""
    parts = urlsplit(url)
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
    )


def _timeouts() -> tuple[type[Exception], ...]:
    """Exceptions of a timeout. The SDK has its own."""
    return (TimeoutError, import_extra("openai", "openai").APITimeoutError)


def _is_transient(error: BaseException) -> bool:
    """Whether another attempt may succeed."""
    openai = import_extra("openai", "openai")
    if isinstance(error, openai.APIStatusError):
        # "insufficient_quota" has the status 429, but waiting does not help.
        transient: bool = (
            error.status_code in (408, 409, 429) or error.status_code >= 500
        )
        return transient and bool(error.code != "insufficient_quota")
    return isinstance(error, (openai.APIConnectionError, *_timeouts()))


def _is_about_schemas(error: Exception) -> bool:
    """Whether the server refused the schema of a request. Servers differ in the status and in the words."""
    if getattr(error, "status_code", None) not in (400, 404, 422, 501):
        return False
    return any(
        word in str(error).lower()
        for word in ("response_format", "json_schema", "structured output")
    )


def _is_unconnected(error: BaseException | None) -> bool:
    """True if no connection was made, because it was refused or the host is unknown.

    The class of the cause is compared by name, because it may be httpx's or httpx2's.
    """
    connection = import_extra("openai", "openai").APIConnectionError
    return (
        isinstance(error, connection)
        and type(error.__cause__).__name__ == "ConnectError"
    )


def _retry_after(error: BaseException) -> float | None:
    """Seconds to wait according to the server's header Retry-After, which has seconds or a date. None without it."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(
            0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        )
    except (ValueError, OverflowError, OSError):
        return None
