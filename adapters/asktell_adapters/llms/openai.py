"""OpenAI-compatible APIs: async, many at once, retries with backoff, tokens and cost counted over all attempts."""

import json
import os
from collections.abc import Mapping
from typing import Any, Literal, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra, import_extra
from asktell_adapters.llms._remote import RemoteChat, without_secrets
from asktell_adapters.llms.chat_api import ChatAPI, Price

MOST_BYTES = 16 * 2**20
"""The longest answer that is read: JSON takes several times its size in memory."""


@final
class OpenAIChat(RemoteChat):
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
        EvaluatorError: there is neither an API key nor a base_url.
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
        if isinstance(price, Mapping):
            if model not in price:
                raise InvalidArgumentError(f"The price table has {sorted(price)}, but not the model {model!r}.")
            price = price[model]
        check_extra("openai", "openai", "tenacity")
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        api = ChatAPI(
            model,
            limit_field or ("max_tokens" if base_url else "max_completion_tokens"),
            price,
            allow_empty,
            send_sampling,
            dict(extra_body or {}),
        )
        limits = (requests_per_minute, tokens_per_minute)
        super().__init__(api, concurrency, timeout, max_retries, backoff, max_wait, *limits)
        self.base_url = base_url
        self.api_key_env = self.where_keys_are = api_key_env
        self.name = f"model {model!r} at {base_url or 'OpenAI'}"
        self.key()

    def identity(self) -> dict[str, Any]:
        return {
            "llm": "openai",
            "server": without_secrets(self.base_url or "https://api.openai.com/v1"),
            "model": self.api.model,
            "send_sampling": self.api.send_sampling,
            "extra_body": self.api.extra_body,
        }

    async def _send(self, body: Mapping[str, Any]) -> tuple[object, float | None]:
        create = self._client.chat.completions.with_streaming_response.create
        # Through extra_body, the SDK sends any field.
        async with create(model=body["model"], messages=body["messages"], extra_body=body) as raw:
            data = bytearray()
            try:
                async for part in raw.iter_bytes():
                    data += part
                    if len(data) > MOST_BYTES:
                        break
            except Exception as error:  # the connection broke: httpx's exception, which the SDK does not see here
                raise import_extra("openai", "openai").APIConnectionError(request=raw.http_request) from error
        # Not by the SDK, which makes whatever comes look like a completion.
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        try:
            return json.loads(data), None
        except RecursionError:
            raise ValueError("brackets are nested too deeply") from None

    def _connect(self) -> Any:
        openai = import_extra("openai", "openai")
        # Retries are ours, so that each one is counted.
        client = openai.AsyncOpenAI(
            api_key=self.key(),
            base_url=self.base_url,
            timeout=self.timeout,
            max_retries=0,
        )
        self._loop.at_close(client.close)
        return client

    def _misplaced(self, error: BaseException) -> str:
        status = getattr(error, "status_code", None)
        if status not in (404, 405) or isinstance(getattr(error, "body", None), dict):
            return ""
        return f"{self.name} answered {status}, and not as an API does; base_url must be its root, ending in /v1"

    def key(self) -> str:
        """The API key, from the environment; only with a base_url there may be none."""
        key = os.environ.get(self.api_key_env)
        if not key and self.base_url is None:
            raise EvaluatorError(f"no API key: set the environment variable {self.api_key_env}")
        return key or "none"  # The SDK insists on a key; a local server ignores it.

    def redact(self, text: str) -> str:
        key = os.environ.get(self.api_key_env)
        return text.replace(key, "***") if key else text

    def __repr__(self) -> str:
        return f"OpenAIChat({self.api.model!r}, base_url={self.base_url!r})"
