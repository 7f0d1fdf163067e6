"""LiteLLM: chat models of every provider, or a router over several deployments, with prices from LiteLLM's data."""

import copy
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import check_extra, import_extra, short
from asktell_adapters.llms._remote import RemoteChat, without_secrets
from asktell_adapters.llms.chat_api import ChatAPI, Price

_FROM_ENVIRONMENT = "os.environ/"
_KEY = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)
# characters. A shorter value is not a key, and redacting it would spoil messages.
_SHORTEST_KEY = 8


@final
class LiteLLM(RemoteChat):
    """A chat model of any provider that the library LiteLLM supports.

    ```python
    llm = LiteLLM("anthropic/claude-haiku-4-5")
    ```

    **Keys.** LiteLLM reads the API keys from environment variables, such as
    ANTHROPIC_API_KEY or GEMINI_API_KEY. LiteLLM's page of a provider has the name of its
    variable.

    **Retries.** Failed requests are retried as by `OpenAIChat`. LiteLLM's own retries
    are switched off, so that every attempt is counted.

    **Routers.** A model may have several *deployments*, which are servers or accounts
    that offer it. With `router`, a router of LiteLLM chooses one of them for each
    attempt. It may choose the deployment at which the last attempt failed.

    **Parameters.** Parameters that a provider does not support, such as a seed, are left
    out.

    **Costs.** Without `price`, costs come from the price data in the installed LiteLLM
    package. To let LiteLLM fetch newer data, set the environment variable
    LITELLM_LOCAL_MODEL_COST_MAP to False. If the data have no price of the model, every
    response costs 0.

    The arguments that are not listed here are those of `OpenAIChat`.

    Args:
        model: the name of the provider and of the model, such as `gemini/NAME`,
            `bedrock/NAME`, `azure/NAME` or `ollama_chat/NAME`. With a router, the
            `model_name` of its deployments.
        router: a list of deployments, from which a `litellm.Router` is made. Each has a
            `model_name` and `litellm_params`. Do not write an API key into
            `litellm_params`. Write "os.environ/NAME", and LiteLLM reads the key from the
            environment variable NAME. `router` may also be a ready `litellm.Router` (not
            in a configuration file). A ready router may retry requests on its own, and
            these retries are not counted.
        router_options: further arguments of the `litellm.Router` that is made from the
            deployments, such as `routing_strategy`.
        base_url: the API's root, for providers such as `openai/NAME` and
            `ollama_chat/NAME`.
        price: price per million tokens (default: from LiteLLM's data).
        extra_body: further arguments of `litellm.acompletion`, such as
            `reasoning_effort`.

    Raises:
        InvalidArgumentError: the router has no such model, or an argument is invalid.
    """

    where_keys_are = "the environment variables that LiteLLM reads for this provider"

    def __init__(
        self,
        model: str,
        *,
        router: Any = None,
        router_options: Mapping[str, object] | None = None,
        base_url: str | None = None,
        price: Price | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
        max_retries: int = 5,
        backoff: float = 0.5,
        max_wait: float = 60.0,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        allow_empty: bool = False,
        send_sampling: bool = True,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        check_extra("litellm", "litellm", "tenacity")
        api = ChatAPI(
            model,
            "max_tokens",
            price,
            allow_empty,
            send_sampling,
            dict(extra_body or {}),
        )
        limits = (requests_per_minute, tokens_per_minute)
        super().__init__(
            api, concurrency, timeout, max_retries, backoff, max_wait, *limits
        )
        self.name = f"model {model!r} by LiteLLM"
        self.base_url = base_url
        self.deployments = None if router is None else _deployments(router)
        self._router = None if isinstance(router, Sequence) else router
        self._router_options = dict(router_options or {})
        if self.deployments is not None and model not in (
            names := [deployment["model_name"] for deployment in self.deployments]
        ):
            raise InvalidArgumentError(
                f"The router has no model {model!r}, only {sorted(set(names))}."
            )
        if self._router_options and (
            self.deployments is None or self._router is not None
        ):
            raise InvalidArgumentError(
                "router_options apply only to a router that is made from a list of deployments. Pass the list as "
                "router=[...]."
            )

    @property
    def price(self) -> Price | None:
        """The price that was passed. Without one, the price in LiteLLM's data, or None if they have none.

        With a router, it is the price of the first deployment of the model.
        """
        return self.api.price or known_price(self._models()[0])

    @property
    def is_priced(self) -> bool:
        """True if every deployment of the model has a price, or a price was passed."""
        return self.api.price is not None or all(
            known_price(name) is not None for name in self._models()
        )

    def identity(self) -> dict[str, Any]:
        """Everything that determines a response apart from the request, for a cache: model, deployments and settings.

        API keys are not included.
        """
        return {
            "llm": "litellm",
            "model": self.api.model,
            "base_url": None
            if self.base_url is None
            else without_secrets(self.base_url),
            "deployments": _without_keys(self.deployments),
            "send_sampling": self.api.send_sampling,
            "extra_body": _without_keys(self.api.extra_body),
        }

    def redact(self, text: str) -> str:
        """The text with `***` in the place of each API key that is in an environment variable or an argument.

        A value is taken for a key if its name contains "key", "token", "secret",
        "password" or "credential".
        """
        for name, value in (
            *os.environ.items(),
            *_texts_in(self.deployments),
            *_texts_in(self.api.extra_body),
        ):
            if len(value) >= _SHORTEST_KEY and _is_key(name, value):
                text = text.replace(value, "***")
        return text

    def _models(self) -> list[str]:
        """LiteLLM's names of the model, one per deployment."""
        ours = [
            deployment
            for deployment in self.deployments or ()
            if deployment["model_name"] == self.api.model
        ]
        return [str(deployment["litellm_params"]["model"]) for deployment in ours] or [
            self.api.model
        ]

    def _connect(self) -> Any:
        """Return the router, or LiteLLM itself."""
        litellm = _litellm()
        if self.deployments is None:
            return litellm
        if self._router is not None:
            return self._router
        options = {"num_retries": 0, **self._router_options}
        return litellm.Router(model_list=copy.deepcopy(self.deployments), **options)

    async def _send(self, body: Mapping[str, Any]) -> tuple[object, float | None]:
        """Send a request without LiteLLM's own retries. The cost comes from LiteLLM's data if no price was passed."""
        settings: dict[str, Any] = {
            "timeout": self.timeout,
            "drop_params": True,
            **body,
        }
        if self.deployments is None:
            # Both, because LiteLLM and the SDK below it retry.
            settings |= {"num_retries": 0, "max_retries": 0}
            settings |= {} if self.base_url is None else {"base_url": self.base_url}
        reply = await self._client.acompletion(**settings)
        return reply.model_dump(), _cost(reply) if self.api.price is None else None

    def __getstate__(self) -> dict[str, Any]:
        if self._router is not None:
            raise TypeError(
                "a LiteLLM made from a ready router cannot be pickled. Make it from the list of deployments"
            )
        return super().__getstate__()

    def __repr__(self) -> str:
        routed = (
            "" if self.deployments is None else f", {len(self.deployments)} deployments"
        )
        return f"LiteLLM({self.api.model!r}{routed})"


def known_price(model: str) -> Price | None:
    """The price of a model in LiteLLM's data, or None if the model is not in them."""
    litellm = _litellm()
    try:
        info = litellm.get_model_info(model)
    except Exception:
        # LiteLLM raises exceptions of several kinds for unknown names.
        return None
    read = info.get("input_cost_per_token")
    written = info.get("output_cost_per_token")
    cached = info.get("cache_read_input_token_cost")
    if read is None or written is None:
        return None
    return Price(
        read * 1e6, written * 1e6, None if cached is None else cached * 1e6, "USD"
    )


def _litellm() -> Any:
    """Import LiteLLM, without its printed advice and without fetching prices at its import."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = import_extra("litellm", "litellm")
    litellm.suppress_debug_info = True
    return litellm


def _cost(reply: Any) -> float | None:
    """The cost of a reply according to LiteLLM, or None if it is unknown."""
    try:
        cost = float(_litellm().completion_cost(completion_response=reply))
    except Exception:
        # LiteLLM raises exceptions of several kinds for unknown models.
        return None
    return cost if 0 <= cost < float("inf") else None


def _deployments(router: Any) -> list[dict[str, Any]]:
    """The deployments of a router, or of a list.

    Raises:
        InvalidArgumentError: it is neither, or a deployment lacks its names.
    """
    deployments = (
        list(router)
        if isinstance(router, Sequence)
        else getattr(router, "model_list", None)
    )
    if not isinstance(deployments, list) or not deployments:
        raise InvalidArgumentError(
            f"router must be a litellm.Router or a list of at least one deployment, got {short(router)}."
        )
    for deployment in deployments:
        params = (
            deployment.get("litellm_params")
            if isinstance(deployment, Mapping)
            else None
        )
        if (
            not isinstance(params, Mapping)
            or not params.get("model")
            or not deployment.get("model_name")
        ):
            got = (
                f"a mapping with the keys {sorted(deployment)}"
                if isinstance(deployment, Mapping)
                else short(deployment)
            )
            raise InvalidArgumentError(
                "A deployment must be {'model_name': ..., 'litellm_params': {'model': 'PROVIDER/NAME', ...}}, but one "
                f"is {got}."
            )
    return [dict(deployment) for deployment in deployments]


def _without_keys(data: Any) -> Any:
    """The data without the values of keys, and with addresses without passwords. The names of variables stay."""
    if isinstance(data, str) and "://" in data:
        return without_secrets(data)
    if isinstance(data, Mapping):
        return {
            name: _without_keys(value)
            for name, value in data.items()
            if not _is_key(name, value)
        }
    return (
        [_without_keys(value) for value in data]
        if isinstance(data, list | tuple)
        else data
    )


def _texts_in(data: Any) -> Iterator[tuple[str, str]]:
    """The texts in nested data, each with its name."""
    if isinstance(data, Mapping):
        yield from (
            (str(name), value) for name, value in data.items() if isinstance(value, str)
        )
    if isinstance(data, Mapping | list | tuple):
        for value in data.values() if isinstance(data, Mapping) else data:
            yield from _texts_in(value)


def _is_key(name: object, value: object) -> bool:
    """Whether a value is a key, judged by its name. A place such as "os.environ/NAME" is none."""
    is_place = isinstance(value, str) and value.startswith(_FROM_ENVIRONMENT)
    return bool(isinstance(value, str) and not is_place and _KEY.search(str(name)))
