"""A module `litellm` with the manners of the real one that matter here.

The real one cannot be in one environment with openai 3. This one's calls go to servers
by OpenAI's SDK, whose errors the real one's derive from. `make test-adapters
FAMILIES=litellm` runs the same tests against the real package.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

PRICES = {
    "gpt-4o-mini": {
        "input_cost_per_token": 1.5e-07,
        "output_cost_per_token": 6e-07,
        "cache_read_input_token_cost": 7.5e-08,
    }
}
_SENT = (
    "max_tokens",
    "temperature",
    "seed",
    "tools",
    "response_format",
    "reasoning_effort",
)
_OURS = (
    "timeout",
    "drop_params",
    "num_retries",
    "max_retries",
    "base_url",
    "api_base",
    "api_key",
)


def fake_litellm() -> ModuleType:
    """The module."""
    openai = pytest.importorskip("openai")
    module = ModuleType("litellm")

    def get_model_info(model: str) -> dict[str, Any]:
        known = PRICES.get(model.removeprefix("openai/"))
        if known is None:
            raise Exception(f"This model isn't mapped yet. model={model}")
        return known

    async def acompletion(
        model: str, messages: list[dict[str, Any]], **settings: Any
    ) -> Any:
        if unknown := set(settings) - {*_SENT, *_OURS}:
            raise TypeError(f"unexpected keyword arguments {unknown}")
        provider, slash, name = model.partition("/")
        if not slash or provider != "openai":
            raise openai.BadRequestError(
                f"LLM Provider NOT provided: {model}",
                response=_response(openai),
                body=None,
            )
        key = settings.get("api_key") or os.environ["OPENAI_API_KEY"]
        if key.startswith("os.environ/"):
            key = os.environ[key.removeprefix("os.environ/")]
        url = settings.get("base_url") or settings.get("api_base")
        async with openai.AsyncOpenAI(
            api_key=key, base_url=url, max_retries=0
        ) as client:
            sent = {field: value for field, value in settings.items() if field in _SENT}
            return await client.chat.completions.create(
                model=name, messages=messages, extra_body=sent
            )

    def completion_cost(completion_response: Any) -> float:
        prices, used = (
            get_model_info(completion_response.model),
            completion_response.usage,
        )
        cost: float = used.prompt_tokens * prices["input_cost_per_token"]
        return cost + used.completion_tokens * prices["output_cost_per_token"]

    class Router:
        """Takes turns."""

        def __init__(
            self, model_list: list[dict[str, Any]], num_retries: int | None = None
        ) -> None:
            self.model_list = model_list
            self.num_retries = num_retries
            self._turn = 0

        async def acompletion(
            self, model: str, messages: list[dict[str, Any]], **settings: Any
        ) -> Any:
            group = [
                each["litellm_params"]
                for each in self.model_list
                if each["model_name"] == model
            ]
            self._turn += 1
            return await acompletion(
                messages=messages, **{**settings, **group[self._turn % len(group)]}
            )

    module.__dict__.update(
        acompletion=acompletion,
        completion_cost=completion_cost,
        get_model_info=get_model_info,
        Router=Router,
    )
    return module


def _response(openai: Any) -> Any:
    import importlib

    library = importlib.import_module(
        openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
    )
    return library.Response(400, request=library.Request("POST", "http://here"))
