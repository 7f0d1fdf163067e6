"""OpenAI-compatible APIs: async, many at once, retries with backoff, tokens and cost counted over all attempts."""

import asyncio
import email.utils
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, final
from urllib.parse import urlsplit, urlunsplit

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.extras import check_extra, import_extra
from asktell_adapters._loop import LoopThread
from asktell_adapters.llms._answers import async_http_client, parsed
from asktell_adapters.llms._pace import Pace
from asktell_adapters.llms.base import Completion, CompletionError, Request, said
from asktell_adapters.llms.chat_api import ChatAPI, Price

_CHARACTERS_PER_TOKEN = 4  # about, in English
MOST_SAID = 1000
"""Characters of a server's words in a message: the reasons of failures are kept."""


@final
class OpenAIChat:
    """A chat model behind an OpenAI-compatible API: the hosted ones, vLLM, SGLang, llama.cpp's server, proxies.

    429, 408, 409, 5xx, lost connections and timeouts are tried again, after an exponential backoff with jitter or
    after what Retry-After says; an address at which nothing has answered yet is tried again once. Other refusals, empty
    completions and malformed answers (token counts that cannot be, more than 16 MiB) fail the request at once. All
    calls, sync or async and from any thread or event loop, share one pool of connections and one concurrency limit.
    A server that refuses a request's schema is asked without one from then on.

    Args:
        model: the model's name at the server.
        base_url: the API's root, ending in /v1; by default OPENAI_BASE_URL, else OpenAI's own.
        api_key_env: the environment variable that holds the key. The key comes from nowhere else, is read when it is
            needed, and appears in no message, repr or pickle. A server with a `base_url` may have no key.
        price: cost per million tokens, or a table of them by model; None leaves every cost at 0.
        concurrency: the most requests under way at once.
        timeout: seconds for one attempt, from sending to the last byte.
        max_retries: attempts after the first.
        backoff: seconds before the first retry; doubled before each further one, plus up to as much again of jitter.
        max_wait: seconds; no wait after a failure is longer, whatever Retry-After says.
        requests_per_minute: the most requests to send, retries included, evenly spread; None for no limit.
        tokens_per_minute: the most tokens to send and ask for, likewise. Before the answer they are guessed: a token
            for four characters, and the whole `max_new_tokens`; afterwards the guess is corrected. Both limits are
            this object's own: other processes with the same key are not known here, and 429 is retried all the same.
        allow_empty: accept an empty completion as an answer.
        limit_field: the request's name for the answer's limit. By default `max_tokens` where there is a base_url, else
            `max_completion_tokens`, which OpenAI's newer models insist on.
        send_sampling: False leaves out temperature and seed, which some models refuse.
        extra_body: further fields of the request's body.

    Raises:
        InvalidArgumentError: a number is out of range, or the price table lacks the model.
        EvaluatorError: there is neither an API key nor a base_url.
        MissingExtraError: openai or tenacity is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        price: Price | Mapping[str, Price] | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
        max_retries: int = 5,
        backoff: float = 0.5,
        max_wait: float = 60.0,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        allow_empty: bool = False,
        limit_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        send_sampling: bool = True,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        for name, value, least in [("concurrency", concurrency, 1), ("max_retries", max_retries, 0)]:
            if value < least:
                raise InvalidArgumentError(f"{name} must be at least {least}, got {value!r}.")
        for name, seconds in [("timeout", timeout), ("backoff", backoff), ("max_wait", max_wait)]:
            if not 0 < seconds < float("inf"):
                raise InvalidArgumentError(f"{name} must be a positive number of seconds, got {seconds!r}.")
        if isinstance(price, Mapping):
            if model not in price:
                raise InvalidArgumentError(f"The price table has {sorted(price)}, but not the model {model!r}.")
            price = price[model]
        check_extra("openai", "openai", "tenacity")
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self.api = ChatAPI(
            model,
            limit_field or ("max_tokens" if base_url else "max_completion_tokens"),
            price,
            allow_empty,
            send_sampling,
            dict(extra_body or {}),
        )
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.concurrency = concurrency
        self.timeout = timeout
        self.max_retries = max_retries
        self.backoff = backoff
        self.max_wait = max_wait
        self.requests_per_minute = requests_per_minute
        self.tokens_per_minute = tokens_per_minute
        self._requests = Pace("requests_per_minute", requests_per_minute)
        self._tokens = Pace("tokens_per_minute", tokens_per_minute)
        self._loop = LoopThread()
        self._client: Any = None
        self._slots: asyncio.Semaphore | None = None
        self._answered = False  # whether there is a server
        self._schemas = True  # whether it takes schemas, as far as is known
        self.key()

    async def acomplete(self, request: Request, /) -> Completion:
        """The answer to one request.

        Raises:
            CompletionError: no usable answer; its `cost` and `attempts` say what the trying took.
        """
        return await asyncio.wrap_future(self._loop.submit(self._complete(request)))

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Answers in the order of the requests, `concurrency` at a time; failures are returned in their places."""
        future = self._loop.submit(self._complete_all(requests))
        try:
            return future.result()
        finally:
            future.cancel()  # Ctrl-C also ends the requests under way.

    def identity(self) -> dict[str, Any]:
        """What determines its answers, beside the request, as JSON data: no key and no password is in it."""
        return {
            "llm": "openai",
            "server": _without_secrets(self.base_url or "https://api.openai.com/v1"),
            "model": self.api.model,
            "send_sampling": self.api.send_sampling,
            "extra_body": self.api.extra_body,
        }

    def sampled(self, request: Request) -> bool:
        """Whether the same request may be answered otherwise the next time: the server samples."""
        temperature = self.api.extra_body.get("temperature", request.temperature)
        return not self.api.send_sampling or temperature != 0

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._loop.close()
        self._client = self._slots = None

    def __enter__(self) -> "OpenAIChat":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def _complete_all(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        self._connect()
        answers = await asyncio.gather(*map(self._complete, requests), return_exceptions=True)
        return [_ordinary(answer) for answer in answers]

    async def _complete(self, request: Request) -> Completion:
        if request.schema is not None and not self._schemas:
            request = replace(request, schema=None)
        tenacity = import_extra("tenacity", "openai")
        self._connect()
        assert self._slots is not None
        timeouts = 0
        body = self.api.body(request)
        characters = sum(len(said(message)) for message in request.messages)
        guess = request.max_new_tokens + characters / _CHARACTERS_PER_TOKEN

        def note(state: Any) -> None:
            nonlocal timeouts
            timeouts += isinstance(state.outcome.exception(), _timeouts())
            self._answered |= not _is_unconnected(state.outcome.exception())

        def enough(state: Any) -> bool:
            nobody = not self._answered and _is_unconnected(state.outcome.exception())
            return bool(state.attempt_number > (min(1, self.max_retries) if nobody else self.max_retries))

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
                    async with self._slots:  # Given back while waiting, so that others may go on.
                        await asyncio.sleep(max(self._requests.reserve(), self._tokens.reserve(guess)))
                        start = time.perf_counter()
                        async with asyncio.timeout(self.timeout):
                            # Through extra_body, the SDK sends any field.
                            raw = await self._client.chat.completions.with_raw_response.create(
                                model=body["model"], messages=body["messages"], extra_body=body
                            )
                        seconds = time.perf_counter() - start
            self._answered = True
            # Not by the SDK, which makes whatever comes look like a completion.
            reply = parsed(raw.http_response.content)
        except Exception as error:
            if request.schema is not None and _is_about_schemas(error):
                self._schemas = False
                return await self._complete(request)
            # "from None": the SDK's exception holds the server's words, which may repeat the key.
            raise CompletionError(self._explain(error, attempts), attempts=attempts) from None
        try:
            # An attempt that timed out here was most likely served, and billed, there.
            answer = self.api.completion(reply, self.name, seconds=seconds, attempts=attempts, paid=1 + timeouts)
        except CompletionError as error:
            raise CompletionError(self.redact(str(error)), cost=error.cost, attempts=attempts) from None
        if answer.prompt_tokens:
            self._tokens.correct(answer.prompt_tokens + answer.completion_tokens - guess)
        return answer

    def _connect(self) -> None:
        """The client and the slots, made in the loop that uses them."""
        if self._client is None:
            openai = import_extra("openai", "openai")
            # Retries are ours, so that each one is counted.
            self._client = openai.AsyncOpenAI(
                api_key=self.key(),
                base_url=self.base_url,
                timeout=self.timeout,
                max_retries=0,
                http_client=async_http_client(),
            )
            self._slots = asyncio.Semaphore(self.concurrency)
            self._loop.at_close(self._client.close)

    def key(self) -> str:
        """The API key, from the environment.

        Raises:
            EvaluatorError: there is none, and no base_url.
        """
        key = os.environ.get(self.api_key_env)
        if not key and self.base_url is None:
            raise EvaluatorError(f"no API key: set the environment variable {self.api_key_env}")
        return key or "none"  # The SDK insists on a key; a local server ignores it.

    def _wait(self, state: Any) -> float:
        """Seconds before the next attempt."""
        asked = _retry_after(state.outcome.exception())
        if asked is not None:
            return min(asked, self.max_wait)
        # The jitter keeps requests that failed together from coming back together.
        backoff: float = self.backoff * 2.0 ** min(state.attempt_number - 1, 30) * (1 + random.random())
        return min(backoff, self.max_wait)

    def _explain(self, error: Exception, attempts: int) -> str:
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        if isinstance(error, _timeouts()):
            return f"{self.name} did not answer within {self.timeout:g} s ({tries})"
        if isinstance(error, ValueError) and not hasattr(error, "status_code"):
            return self.redact(f"{self.name} sent a malformed answer, not JSON: {error}")[:MOST_SAID]
        if _is_unconnected(error) and not self._answered:
            why = self.redact(str(_root(error)))[:MOST_SAID]
            return f"{self.name} cannot be reached: {why} ({tries}); check the address, and that the server runs"
        status = getattr(error, "status_code", None)
        if status in (404, 405) and not isinstance(getattr(error, "body", None), dict):
            return f"{self.name} answered {status}, and not as an API does; base_url must be its root, ending in /v1"
        cure = f"; check {self.api_key_env}" if status in (401, 403) else ""
        cause = f" ({error.__cause__})" if error.__cause__ is not None and str(error.__cause__) else ""
        said = self.redact(f"{type(error).__name__}: {error}{cause}")
        return f"{self.name} failed after {tries}: {said[:MOST_SAID]}{cure}"

    @property
    def name(self) -> str:
        """Model and server, for messages."""
        return f"model {self.api.model!r} at {self.base_url or 'OpenAI'}"

    def redact(self, text: str) -> str:
        """The text without the API key."""
        key = os.environ.get(self.api_key_env)
        return text.replace(key, "***") if key else text

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loop": None, "_client": None, "_slots": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _loop=LoopThread())

    def __repr__(self) -> str:
        return f"OpenAIChat({self.api.model!r}, base_url={self.base_url!r})"


def _ordinary(answer: Completion | BaseException) -> Completion | Exception:
    """An answer or a failure; what is to stop the program (a cancellation) is raised."""
    if isinstance(answer, Completion | Exception):
        return answer
    raise answer


def _timeouts() -> tuple[type[Exception], ...]:
    return (TimeoutError, import_extra("openai", "openai").APITimeoutError)


def _without_secrets(url: str) -> str:
    """The address without a user's name, a password and a query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def _is_transient(error: BaseException) -> bool:
    openai = import_extra("openai", "openai")
    if isinstance(error, openai.APIStatusError):
        # "insufficient_quota" is a 429 that no waiting cures.
        transient: bool = error.status_code in (408, 409, 429) or error.status_code >= 500
        return transient and bool(error.code != "insufficient_quota")
    return isinstance(error, (openai.APIConnectionError, *_timeouts()))


def _is_about_schemas(error: Exception) -> bool:
    """Whether a server says that it cannot hold answers to a schema."""
    if getattr(error, "status_code", None) not in (400, 404, 422, 501):
        return False
    return any(word in str(error).lower() for word in ("response_format", "json_schema", "structured output"))


def _is_unconnected(error: BaseException | None) -> bool:
    """Whether no connection came about: refused, or no such name. The class is httpx's, or that of httpx2."""
    connection = import_extra("openai", "openai").APIConnectionError
    return isinstance(error, connection) and type(error.__cause__).__name__ == "ConnectError"


def _root(error: BaseException) -> BaseException:
    """What it all comes from."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _retry_after(error: BaseException) -> float | None:
    """Seconds that the server asks to wait, from Retry-After as seconds or as a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
