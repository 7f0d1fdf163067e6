"""OpenAI-compatible APIs, with many requests at once, retries, and tokens and cost counted over all attempts."""

import json
import os
from collections.abc import Mapping
from typing import Any, Literal, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra, import_extra
from asktell_adapters.llms._bodies import ENCODINGS, MOST_BYTES, limit_error
from asktell_adapters.llms._remote import RemoteChat, without_secrets
from asktell_adapters.llms.chat_api import ChatAPI, Price


@final
class OpenAIChat(RemoteChat):
    """A chat model behind an OpenAI-compatible API, such as a hosted API, vLLM, SGLang, llama.cpp's server or a proxy.

    ```python
    llm = OpenAIChat("gpt-4o-mini", price=Price(0.15, 0.60, currency="USD"))
    local = OpenAIChat("my-model", base_url="http://localhost:8000/v1", concurrency=64)
    ```

    **Retries.** A request is retried after a lost connection, after a timeout, and after
    the HTTP statuses 408, 409, 429 and 5xx. The wait before a retry is as long as the
    server asks for (by the header Retry-After), but at most `max_wait`. If the server
    does not ask, the wait grows with each retry: see `backoff`. A request fails without
    a retry in these cases:

    - The server refuses it with another status.
    - The account has no money left (`insufficient_quota`).
    - The response is empty: see `allow_empty`.
    - The reply is malformed. For example, it is larger than 16 MiB, or has impossible
      numbers of tokens.

    **Concurrency.** All threads and event loops that use the object share its
    connections and its limit of simultaneous requests.

    **Schemas.** If the server refuses the JSON schema of a request, the object sends
    this and all later requests without schemas.

    Args:
        model: the model's name at the server.
        base_url: the API's root, ending in /v1 (default: the environment variable
            OPENAI_BASE_URL, else OpenAI's own API).
        api_key_env: name of the environment variable with the API key. The key is never
            shown or stored. A server with a `base_url` may need no key.
        price: price per million tokens. Without a price, every cost is 0. It may also be
            a mapping model -> price (not in a configuration file).
        concurrency: largest number of simultaneous requests.
        timeout: largest number of seconds for one attempt, from sending the request to
            the last byte of the reply.
        max_retries: largest number of retries of a request. Until this LLM has connected
            to the server for the first time, a request that cannot connect is retried at
            most once, because the address may be wrong.
        backoff: seconds before the first retry. The wait doubles before each further
            retry. A random time of up to the same length is added.
        max_wait: largest number of seconds to wait before a retry, even if the server
            asks for more (by the header Retry-After).
        requests_per_minute: largest number of requests per minute, retries included,
            evenly spread (default: no limit).
        tokens_per_minute: largest number of tokens per minute, read and written, evenly
            spread (default: no limit). Before a request, its tokens are estimated as
            one per four characters plus `max_new_tokens`. The number is corrected after
            the response. This limit and `requests_per_minute` apply to this LLM in this
            process only. If other processes use up the account's limits, the HTTP error
            429 is still retried.
        allow_empty: whether an empty text counts as a response. If not, it is a failed
            evaluation.
        limit_field: the request's field for the limit of tokens (default: `max_tokens`
            with a `base_url`, else `max_completion_tokens`). OpenAI's newer models
            require `max_completion_tokens`.
        send_sampling: whether requests have a temperature and a seed. Some LLMs refuse
            such requests.
        extra_body: further fields of the body of each request.

    Raises:
        EvaluatorError: there is neither an API key nor a `base_url`.
        InvalidArgumentError: a number is out of range, or the model is not in the
            mapping of prices.
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
                raise InvalidArgumentError(
                    f"The price table has {sorted(price)}, but not the model {model!r}. Add its price."
                )
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
        super().__init__(
            api, concurrency, timeout, max_retries, backoff, max_wait, *limits
        )
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.where_keys_are = f"the environment variable {api_key_env}"
        self.name = f"model {model!r} at {base_url or 'OpenAI'}"
        self.key()

    def identity(self) -> dict[str, Any]:
        """Everything that determines a response apart from the request, for a cache: server, model and settings.

        The API key is not included.
        """
        return {
            "llm": "openai",
            "server": without_secrets(self.base_url or "https://api.openai.com/v1"),
            "model": self.api.model,
            "send_sampling": self.api.send_sampling,
            "extra_body": self.api.extra_body,
        }

    async def _send(self, body: Mapping[str, Any]) -> tuple[object, float | None]:
        """Send a request, and read at most 16 MiB of the reply.

        Raises:
            ValueError: the reply is too long, or is not JSON.
            openai.APIConnectionError: the connection broke.
        """
        create = self._client.chat.completions.with_streaming_response.create
        # Through extra_body, the SDK sends any field.
        async with create(
            model=body["model"], messages=body["messages"], extra_body=body
        ) as raw:
            data = bytearray()
            try:
                async for part in raw.iter_bytes():
                    data += part
                    if len(data) > MOST_BYTES:
                        break
            except Exception as error:
                # The connection broke, and httpx's exception does not pass through the
                # SDK
                raise import_extra("openai", "openai").APIConnectionError(
                    request=raw.http_request
                ) from error
        # Not parsed by the SDK, which turns any JSON into something like a completion.
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        try:
            return json.loads(data), None
        except RecursionError:
            raise ValueError("brackets are nested too deeply") from None

    def _connect(self) -> Any:
        """Make a client of the SDK, which is closed with the event loop."""
        openai = import_extra("openai", "openai")
        # No retries by the SDK, so that every attempt is counted.
        client = openai.AsyncOpenAI(
            api_key=self.key(),
            base_url=self.base_url,
            timeout=self.timeout,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=self.timeout,
                headers={"Accept-Encoding": ENCODINGS},
                event_hooks={"response": [limit_error]},
            ),
        )
        self._loop.at_close(client.close)
        return client

    def _misplaced(self, error: BaseException) -> str:
        """A web page instead of JSON shows that base_url is not the root of an API."""
        status = getattr(error, "status_code", None)
        if status not in (404, 405) or isinstance(getattr(error, "body", None), dict):
            return ""
        problem = f"{self.name} responded with the status {status} and no JSON"
        return f"{problem}. base_url must be the root of the API, which usually ends in /v1"

    def key(self) -> str:
        """The API key from the environment variable `api_key_env`.

        If the variable is not set and there is a `base_url`, it is the text "none".

        Raises:
            EvaluatorError: the variable is not set, and there is no `base_url`.
        """
        key = os.environ.get(self.api_key_env)
        if not key and self.base_url is None:
            raise EvaluatorError(
                f"There is no API key. Set the environment variable {self.api_key_env}. If your server needs no key, "
                "pass its base_url."
            )
        # The SDK requires a key, and a local server ignores it.
        return key or "none"

    def redact(self, text: str) -> str:
        """The text with `***` in the place of the API key, which some servers repeat in their messages."""
        key = os.environ.get(self.api_key_env)
        return text.replace(key, "***") if key else text

    def __repr__(self) -> str:
        return f"OpenAIChat({self.api.model!r}, base_url={self.base_url!r})"
