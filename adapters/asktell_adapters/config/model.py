"""The table `[model]`: which LLM, with which options."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from asktell import InvalidArgumentError
from asktell.extend import nearest
from asktell_adapters.config.tables import LoaderTable, Table, call_named, key, listed, options_table, table_of
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.gguf import requantize, smollm2
from asktell_adapters.llms.huggingface import HuggingFace
from asktell_adapters.llms.litellm import LiteLLM
from asktell_adapters.llms.llama_cpp import LlamaCpp
from asktell_adapters.llms.openai import OpenAIChat
from asktell_adapters.llms.vllm import VLLM
from asktell_adapters.prompts import TEMPLATE

PriceTable = table_of(Price)
PACKAGED = "smollm2"
TUNING = {
    "n_slots", "n_threads", "n_gpu_layers", "device", "device_map", "batch_size", "api_key_env", "timeout",
    "max_retries", "backoff", "max_wait", "requests_per_minute", "tokens_per_minute",
}  # fmt: skip
"""What cannot change an answer, and so is no part of a set-up."""


class ModelTable(Table):
    """What every model has; there is a further table for each type, and for those that a function makes."""

    max_new_tokens: int = key(512, "Longer answers are cut.", ge=1)
    temperature: float = key(0.0, "0 always takes the likeliest token.", ge=0, le=10)
    system: str | None = key(None, "The system message. Without it, only what the model's own chat template adds.")
    template: str = key(TEMPLATE, "The user message. Other columns of the data are inserted by their names.")

    def make(self, concurrency: int) -> Any:
        raise NotImplementedError


class LoadedModel(ModelTable, LoaderTable):
    """An LLM that a function of the user's own makes."""

    def make(self, concurrency: int) -> Any:
        llm = call_named(self, self.loader, self.arguments)
        if not callable(getattr(llm, "complete", None)) and not inspect.iscoroutinefunction(
            getattr(llm, "acomplete", None)
        ):
            raise self.error("loader", "must return an object with complete(requests) or acomplete(request)", llm)
        return llm


class NamedModel(ModelTable):
    """An LLM of a type that there is; further keys are options of its class."""

    type: str = key(about="See below.", said="this or `loader`")
    model: str = key(about="See below.", said="needed with `type`")

    def make(self, concurrency: int) -> Any:
        options = {name: getattr(self, name) for name in options_of(type(self)) if self.has(name)}
        name, local = self.model, self.beside(self.model)
        if self.type == "llama-cpp":
            dtype = options.pop("dtype", None)
            if name == PACKAGED:
                return LlamaCpp(smollm2(dtype or "q8_0"), **options)
            return LlamaCpp(requantize(local, dtype) if dtype else local, **options)
        if self.type == "huggingface":
            source = smollm2(None) if name == PACKAGED else local if local.exists() else name
            if source == name and name.endswith(".gguf"):
                raise InvalidArgumentError(f"There is no GGUF file {str(local)!r}.")
            return HuggingFace(source, **options)
        if self.type == "vllm":
            return VLLM(str(local) if local.exists() else name, **options)
        if "price" in options:
            options["price"] = self.price_of(options["price"])
        return MODELS[self.type].made(name, concurrency=concurrency, **options)

    def price_of(self, given: Mapping[str, Any]) -> Price:
        return Price(**PriceTable.read(self.config_file, f"{self.title}.price", given).model_dump())


class ModelType(NamedTuple):
    """A type of model: its class, whose docstring describes the options; its table; what `model` names."""

    made: Callable[..., Any]
    table: type[NamedModel]
    about: str


def _model_type(made: Callable[..., Any], about: str, *options: str, **others: Any) -> ModelType:
    return ModelType(made, options_table(made, *options, base=NamedModel, **others), about)


_PRICE: Any = (
    dict[str, Any] | None,
    key(
        None,
        'Per million tokens, as `{ input = 0.15, output = 0.6, currency = "USD" }`. `openai` and `litellm`.',
        expected="a table with input, output and perhaps cached_input and currency",
    ),
)
_OF_APIS = (
    "base_url", "timeout", "max_retries", "backoff", "max_wait", "requests_per_minute", "tokens_per_minute",
    "allow_empty", "send_sampling",
)  # fmt: skip
_BODY: Any = (dict[str, Any] | None, None)
MODELS = {
    "llama-cpp": _model_type(
        LlamaCpp,
        "the path of a GGUF file, or `smollm2`. Also takes `dtype`, a text: requantizes the file",
        *("n_ctx", "n_slots", "n_threads", "n_gpu_layers", "reuse_prefix", "timeout"),
        dtype=(str | None, None),
    ),
    "huggingface": _model_type(
        HuggingFace,
        "a hub id, a folder, the path of a GGUF file, or `smollm2`",
        *("device", "device_map", "attn_implementation", "batch_size", "template_options"),
        dtype=(str | None, None),
    ),
    "vllm": _model_type(
        VLLM, "a hub id, or a folder", "chat_template", "template_options", engine_options=(dict[str, Any] | None, None)
    ),
    "openai": _model_type(
        OpenAIChat,
        "the model's name at an OpenAI-compatible API. Its key is in the environment",
        *(*_OF_APIS, "api_key_env"),
        limit_field=(str | None, None),
        extra_body=_BODY,
        price=_PRICE,
    ),
    "litellm": _model_type(
        LiteLLM,
        "`PROVIDER/NAME`, or the name of a group of `[[model.router]]`",
        *_OF_APIS,
        router=(list[dict[str, Any]] | None, None),
        router_options=_BODY,
        extra_body=_BODY,
        price=_PRICE,
    ),
}


class AnyModelTable(NamedModel, LoadedModel, table="model"):
    """All keys that do not depend on the type; the file's table is one of the others."""

    price: dict[str, Any] | None = _PRICE[1]


def options_of(table: type[NamedModel]) -> list[str]:
    """The keys that depend on the type."""
    return [name for name in table.model_fields if name not in NamedModel.model_fields]


def read_model(path: Any, name: str, given: Mapping[str, Any]) -> ModelTable:
    if "loader" in given:
        return LoadedModel.read(path, name, given)
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in MODELS:
        at = NamedModel.model_construct()
        at._path, at._name = path, name
        if kind is None:
            raise at.error("type", f"is missing; it is one of {listed(list(MODELS))}, or give a loader")
        raise at.error("type", f"must be one of {listed(list(MODELS))}{nearest(kind, list(MODELS))}", kind)
    model = MODELS[kind].table.read(path, name, given)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given.get("api_key_env", "KEY")):
        # The value is not repeated: it may be the key itself.
        raise model.error("api_key_env", "must be the name of an environment variable, such as OPENAI_API_KEY")
    if "price" in given:
        with model.named():
            model.price_of(given["price"])
    return model


def has_price(model: Mapping[str, Any]) -> bool:
    """Whether it is known what this model's answers will cost: from the file, or by LiteLLM."""
    if "price" in model or model.get("type") != "litellm":
        return "price" in model
    return LiteLLM(model["model"], router=model.get("router")).is_priced
