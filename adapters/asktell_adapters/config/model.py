"""The table `[model]`: which LLM, with which options."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import nearest
from asktell_adapters.config.loaders import call_named
from asktell_adapters.config.tables import KEYS, Table, listed
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.gguf import requantize, smollm2
from asktell_adapters.llms.huggingface import HuggingFace
from asktell_adapters.llms.litellm import LiteLLM
from asktell_adapters.llms.llama_cpp import LlamaCpp
from asktell_adapters.llms.openai import OpenAIChat
from asktell_adapters.llms.vllm import VLLM
from asktell_adapters.prompts import TEMPLATE

PACKAGED = "smollm2"
_HOTTEST = 10

# By type; they reach the model's constructor as they are.
_OPTIONS = {
    "llama-cpp": {
        "n_ctx": "whole", "n_slots": "whole", "n_threads": "whole", "n_gpu_layers": "whole", "reuse_prefix": "flag",
        "timeout": "number",
    },
    "huggingface": {
        "device": "text", "device_map": "text", "dtype": "text", "attn_implementation": "text", "batch_size": "whole",
        "template_options": "table",
    },
    "vllm": {"engine_options": "table", "chat_template": "text", "template_options": "table"},
    "openai": {
        "base_url": "text", "api_key_env": "text", "timeout": "number", "max_retries": "whole", "backoff": "number",
        "max_wait": "number", "requests_per_minute": "number", "tokens_per_minute": "number", "allow_empty": "flag",
        "limit_field": "text", "send_sampling": "flag", "extra_body": "table",
    },
    "litellm": {
        "router": "tables", "router_options": "table", "base_url": "text", "timeout": "number", "max_retries": "whole",
        "backoff": "number", "max_wait": "number", "requests_per_minute": "number", "tokens_per_minute": "number",
        "allow_empty": "flag", "send_sampling": "flag", "extra_body": "table",
    },
}  # fmt: skip
TUNING = {
    "n_slots", "n_threads", "n_gpu_layers", "device", "device_map", "batch_size", "api_key_env", "timeout",
    "max_retries", "backoff", "max_wait", "requests_per_minute", "tokens_per_minute",
}  # fmt: skip
"""What cannot change an answer, and so is no part of a set-up."""


def read_model(top: Table, name: str = "model") -> dict[str, Any]:
    """The table `[model]`, or one like it inside another, checked, with its defaults filled in."""
    given = top.take("model", "table") if "model" in top else top.table("model", ("type", "loader")).data
    model = top.inner(name, given, ())
    if "loader" in model:
        options: dict[str, str] = {}
        kind = None
        model = top.inner(name, given, [key for key in KEYS["model"] if key not in ("type", "model", "price")])
        model.take("loader", "text")
        model.take("arguments", "table", {})
    else:
        kind = model.take("type", "text", None)
        if kind is None:
            raise model.error("type", f"is missing; it is one of {listed(list(_OPTIONS))}, or give a loader")
        if kind not in _OPTIONS:
            close = nearest(kind, list(_OPTIONS))
            raise model.error("type", f"must be one of {listed(list(_OPTIONS))}{close}", kind)
        options = _OPTIONS[kind]
        extra = {"openai": ("price",), "litellm": ("price",), "llama-cpp": ("dtype",)}.get(kind, ())
        known = [key for key in KEYS["model"] if key not in ("loader", "arguments", "price")]
        model = top.inner(name, given, (*known, *options, *extra))
        model.take("model", "text")
    for key, what in options.items():
        model.take(key, what, None)
    if "api_key_env" in model and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given["api_key_env"]):
        # The value is not repeated: it may be the key itself.
        raise model.error("api_key_env", "must be the name of an environment variable, such as OPENAI_API_KEY")
    if kind == "llama-cpp":
        model.take("dtype", "text", None)
    if "price" in model:
        price = top.inner(f"{name}.price", model.take("price", "table"), ("input", "output", "cached_input"))
        price.take("input", "number")
        price.take("output", "number")
        price.take("cached_input", "number", None)
    max_new_tokens = model.take("max_new_tokens", "whole", 512)
    if max_new_tokens < 1:
        raise model.error("max_new_tokens", "must be at least 1", max_new_tokens)
    if not 0 <= model.take("temperature", "number", 0.0) <= _HOTTEST:
        raise model.error("temperature", f"must be from 0 (greedy) to {_HOTTEST}", given["temperature"])
    return {
        **given,
        "max_new_tokens": max_new_tokens,
        "system": model.take("system", "text", None),
        "template": model.take("template", "text", TEMPLATE),
    }


def has_price(model: Mapping[str, Any]) -> bool:
    """Whether it is known what this model's answers will cost: from the file, or by LiteLLM.

    Raises:
        MissingExtraError: LiteLLM is missing.
    """
    if "price" in model or model.get("type") != "litellm":
        return "price" in model
    return LiteLLM(model["model"], router=model.get("router")).is_priced


def load_llm(model: Table, concurrency: int) -> Any:
    """The LLM of a table that was checked."""
    if "loader" in model:
        llm = call_named(model, model.take("loader", "text"), model.take("arguments", "table", {}))
        if not callable(getattr(llm, "complete", None)) and not inspect.iscoroutinefunction(
            getattr(llm, "acomplete", None)
        ):
            raise model.error("loader", "must return an object with complete(requests) or acomplete(request)", llm)
        return llm
    kind, name = model.take("type", "text"), model.take("model", "text")
    options = {key: model.data[key] for key in _OPTIONS[kind] if key in model}
    if kind == "llama-cpp":
        dtype = model.take("dtype", "text", None)
        if name == PACKAGED:
            file = smollm2(dtype or "q8_0")
        else:
            file = model.beside(name)
            file = requantize(file, dtype) if dtype else file
        return LlamaCpp(file, **options)
    if kind == "huggingface":
        local = model.beside(name)
        source = smollm2(None) if name == PACKAGED else local if local.exists() else name
        if source == name and name.endswith(".gguf"):
            raise InvalidArgumentError(f"There is no GGUF file {str(local)!r}.")
        return HuggingFace(source, **options)
    if kind == "vllm":
        local = model.beside(name)
        return VLLM(str(local) if local.exists() else name, **options)
    price = Price(**model.data["price"]) if "price" in model else None
    if kind == "litellm":
        return LiteLLM(name, price=price, concurrency=concurrency, **options)
    return OpenAIChat(name, price=price, concurrency=concurrency, **options)
