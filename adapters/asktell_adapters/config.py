"""A run described in a TOML file: prompts, data set, model, metrics, goal. Each mistake in it is named in one line."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import json
import math
import random
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from asktell.errors import AsktellError, InvalidArgumentError, MissingExtraError
from asktell.goals import BestFeasible, Goal, Objective, ParetoSet, at_least, at_most
from asktell.selector import Selector
from asktell_adapters import datasets, metrics
from asktell_adapters.evaluators.base import SYSTEM_INSTRUCTION, Completion, Example, Metric
from asktell_adapters.evaluators.huggingface import HuggingFace
from asktell_adapters.evaluators.llama_cpp import LlamaCpp
from asktell_adapters.evaluators.llm import TEMPLATE, AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.evaluators.openai import OpenAIChat, Price
from asktell_adapters.gguf import requantize, smollm2

PACKAGED = "smollm2"
_REQUIRED: Any = object()

_TABLES = ("prompts", "data", "model", "metrics", "goal")
_TOP = ("output", "budget", "method", "features", "seed", "sampling", "max_failures", "concurrency", *_TABLES)
_PROMPTS = ("file", "texts")
_DATA = ("file", "loader", "arguments", "input", "reference", "id", "limit", "shuffle")
_GOAL = ("type", "maximize", "minimize", "at_least", "at_most", "ranges")

# Options that reach a model's constructor as they are. What cannot change an answer is not part of a run's identity.
_OPTIONS = {
    "llama-cpp": {"n_ctx": "whole", "n_threads": "whole", "n_gpu_layers": "whole", "reuse_prefix": "flag"},
    "huggingface": {"device": "text", "dtype": "text", "batch_size": "whole", "template_options": "table"},
    "openai": {
        "base_url": "text", "api_key_env": "text", "timeout": "number", "max_retries": "whole", "backoff": "number",
        "max_wait": "number", "allow_empty": "flag", "limit_field": "text", "send_sampling": "flag",
        "extra_body": "table",
    },
}  # fmt: skip
_MODEL = ("type", "model", "loader", "arguments", "max_new_tokens", "system", "template")
_TUNING = {
    "n_threads", "n_gpu_layers", "device", "batch_size", "api_key_env", "timeout", "max_retries", "backoff", "max_wait",
}  # fmt: skip

# Name -> its options, each with the constructor's name and its kind.
_METRICS: dict[str, dict[str, tuple[str, str]]] = {
    "rouge": {
        "rouge_type": ("rouge_type", "text"),
        "use_stemmer": ("use_stemmer", "flag"),
        "split": ("split", "flag"),
    },
    "brevity": {"low": ("tau_low", "number"), "high": ("tau_high", "number")},
    "exact_match": {"normalized": ("normalized", "flag")},
    "token_f1": {},
    "output_tokens": {},
    "latency": {},
    "cost": {},
}
_NEED_REFERENCES = ("rouge", "exact_match", "token_f1")

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a text", lambda value: isinstance(value, str)),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "whole": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "number": (
        "a finite number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    ),
    "table": ("a table", lambda value: isinstance(value, dict)),
    "text or false": ("a text, or false for none", lambda value: isinstance(value, str) or value is False),
    "whole or false": (
        "a whole number, or false for none",
        lambda value: isinstance(value, int) and value is not True,
    ),
    "metrics": (
        "a metric's name, or a list of them",
        lambda value: (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
        ),
    ),
    "texts": (
        "a list of texts, or a table id = text",
        lambda value: (
            isinstance(value, list | dict)
            and all(isinstance(text, str) for text in (value.values() if isinstance(value, dict) else value))
        ),
    ),
}
_SECRET = re.compile(r"(.*api[_-]?key|key|secret|password|authorization|((access|auth|bearer)_)?token)", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"^(Bearer |sk-[A-Za-z0-9_-]{12})")


class ConfigError(InvalidArgumentError):
    """A configuration file cannot be used; the message names the file and the place in it."""


class OutputScores(dict[str, float]):
    """Scores, with the LLM's `output` that they are of."""

    output: str = ""


class _KeepsOutput(LLMEvaluator):
    def scores(self, completion: Completion, example: int | Example | None) -> dict[str, float]:
        scores = OutputScores(super().scores(completion, example))
        scores.output = completion.text
        return scores


class _AsyncKeepsOutput(AsyncLLMEvaluator):
    def scores(self, completion: Completion, example: int | Example | None) -> dict[str, float]:
        scores = OutputScores(super().scores(completion, example))
        scores.output = completion.text
        return scores


@final
@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        path: the file.
        output: the run's folder.
        selector: with prompts, goal, budget and method; nothing asked yet.
        examples: the data set.
        metrics: name -> metric.
        model: the table `[model]`.
        concurrency: evaluations at once.
        batch_size: evaluations that the model wants in one call.
        setup: everything that a run's outcome depends on, as JSON data: another set-up is another run.
    """

    path: Path
    output: Path
    selector: Selector
    examples: tuple[Example, ...]
    metrics: Mapping[str, Metric]
    model: Mapping[str, Any]
    concurrency: int
    batch_size: int
    setup: Mapping[str, Any]

    @property
    def names(self) -> list[str | None]:
        """The examples' names."""
        return [example.id for example in self.examples]

    def evaluator(self) -> LLMEvaluator | AsyncLLMEvaluator:
        """The evaluator, its model loaded. Scores carry the LLM's answer as `output`.

        Raises:
            AsktellError: the model or a metric cannot be used.
            MissingExtraError: a package is missing.
        """
        # Before the model, which takes longer to load: a package that a metric lacks is missed now.
        for metric in self.metrics.values():
            if isinstance(metric, metrics.Rouge):
                metric.score("a", "a")
        model = _Table(self.path.name, "model", dict(self.model), ())
        with _named(self.path, "model"):
            llm = _llm(model, self.path, self.concurrency)
            settings: dict[str, Any] = {
                "system": self.model["system"] or None,
                "template": self.model["template"],
                "max_new_tokens": self.model["max_new_tokens"],
                "with_cost": "cost" not in self.metrics and "price" in self.model,
            }
            evaluator: LLMEvaluator | AsyncLLMEvaluator
            if inspect.iscoroutinefunction(getattr(llm, "acomplete", None)):
                evaluator = _AsyncKeepsOutput(llm, self.examples, self.metrics, **settings)
            else:
                evaluator = _KeepsOutput(llm, self.examples, self.metrics, **settings)
            if callable(load := getattr(llm, "load", None)):
                load()
        return evaluator


def output_folder(path: Path) -> Path:
    """The run's folder that a configuration names; by default its own name without `.toml`, beside it.

    Raises:
        ConfigError: the file cannot be read, or `output` is not a usable folder.
    """
    return _output(_Table(path.name, "", _parse(path), _TOP), path)


def load_config(path: Path) -> Config:
    """Read a configuration, its prompts and its data set, and check everything that needs no model.

    A function that the file names as `loader` is imported and called; modules beside the file are found.

    Raises:
        ConfigError: there is a mistake in the file, or in a file that it names.
        MissingExtraError: a package that the data set needs is missing.
    """
    data = _parse(path)
    _refuse_secrets(path.name, data, ())
    top = _Table(path.name, "", data, _TOP)
    output = _output(top, path)
    examples = _examples(top.table("data", _DATA), path)
    model = _model(top)
    computed = _metrics(top, path, examples, model)
    goal = _goal(top.table("goal", _GOAL), computed)
    budget = top.take("budget", "whole")
    features = top.take("features", "text", None)
    settings: dict[str, Any] = {
        "method": top.take("method", "text", "auto"),
        "seed": top.take("seed", "whole", 0),
        "sampling": top.take("sampling", "text", "shared"),
        "max_failures": top.take("max_failures", "whole", 3),
    }
    prompts = _prompts(top.table("prompts", _PROMPTS), path)
    with _named(path):
        selector = Selector(
            prompts, goal, budget, examples=len(examples), **settings, **({"features": features} if features else {})
        )
    batch_size = model.get("batch_size", 16) if model.get("type") == "huggingface" else 1
    concurrency = top.take("concurrency", "whole", 8 if model.get("type") == "openai" else batch_size)
    if concurrency < 1:
        raise top.error("concurrency", "must be at least 1", concurrency)
    setup = {
        "budget": budget,
        **settings,
        "features": features,
        "goal": {"type": "best-feasible", **data["goal"]},
        "metrics": {name: {} if given is True else given for name, given in _given(data["metrics"])},
        "model": {name: value for name, value in model.items() if name not in _TUNING},
        "prompts": {"count": len(prompts), "sha256": _digest(list(_items(prompts)))},
        "data": {"count": len(examples), "sha256": _digest(_rows(examples))},
    }
    batch_size = min(batch_size, concurrency)
    setup = json.loads(json.dumps(setup, default=str))  # as it will be read again; TOML has dates
    return Config(path, output, selector, examples, computed, model, concurrency, batch_size, setup)


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same in two set-ups, in words."""
    before, after = dict(_flat(saved)), dict(_flat(now))
    found = []
    for name in dict.fromkeys((*before, *after)):
        if before.get(name, _REQUIRED) == after.get(name, _REQUIRED):
            continue
        section, _, key = name.partition(".")
        if section in ("prompts", "data") and key in ("count", "sha256"):
            old, new = before.get(f"{section}.count"), after.get(f"{section}.count")
            what = "prompts" if section == "prompts" else "examples"
            found.append(f"{section} (others than the {old} {what} then, {new} now)")
        else:
            found.append(f"{name} ({_shown(before, name)} then, {_shown(after, name)} now)")
    return list(dict.fromkeys(found))


class _Table:
    """A table of the file: takes values by key and kind, and names what is wrong with them."""

    def __init__(self, file: str, name: str, data: dict[str, Any], known: Sequence[str]) -> None:
        self.file = file
        self.name = name
        self.data = data
        for key in data if known else ():
            if key not in known:
                raise ConfigError(f"{file}: unknown key {key!r} {self._where}. {_advice(key, name, known)}")

    @property
    def _where(self) -> str:
        return f"in [{self.name}]" if self.name else "at the top"

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def error(self, key: str, problem: str, value: Any = _REQUIRED) -> ConfigError:
        """The error about one key."""
        got = "" if value is _REQUIRED else f", got {_short(value)}"
        return ConfigError(f"{self.file}: {key!r} {self._where} {problem}{got}.")

    def take(self, key: str, kind: str, default: Any = _REQUIRED) -> Any:
        """The value of a key, checked."""
        if key not in self.data:
            if default is _REQUIRED:
                raise ConfigError(f"{self.file}: {key!r} is missing {self._where}; it is {_KINDS[kind][0]}.")
            return default
        expected, fits = _KINDS[kind]
        if not fits(self.data[key]):
            raise self.error(key, f"must be {expected}", self.data[key])
        return self.data[key]

    def table(self, key: str, known: Sequence[str]) -> _Table:
        """A table inside, which must be there."""
        if key not in self.data:
            raise ConfigError(f"{self.file}: the table [{key}] is missing. It has {_listed(known)}.")
        return _Table(self.file, key, self.take(key, "table"), known)


@contextmanager
def _named(path: Path, table: str = "") -> Iterator[None]:
    """Put the file's name, and the table's, before an error's message."""
    try:
        yield
    except (MissingExtraError, ConfigError):
        raise
    except AsktellError as error:
        where = f"{path.name}: " + (f"[{table}]: " if table else "")
        raise ConfigError(f"{where}{error}") from error


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"There is no file {str(path)!r}.") from None
    except IsADirectoryError:
        raise ConfigError(f"{str(path)!r} is a folder; give the path of a TOML file.") from None
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name}: not UTF-8: {error.reason} at byte {error.start}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path.name}: not TOML: {error}.") from error


def _output(top: _Table, path: Path) -> Path:
    given = top.take("output", "text", path.stem if path.suffix else f"{path.name}-run")
    home = path.resolve().parent
    folder = Path(home, Path(given).expanduser()).resolve() if given else home
    if folder == home or folder in home.parents:
        raise top.error("output", "must be a folder of the run's own, as in output = 'runs/first'", given)
    if folder.exists() and not folder.is_dir():
        raise top.error("output", "must be a folder, and there is a file of that name", given)
    return folder


def _prompts(table: _Table, path: Path) -> list[str] | dict[str, str]:
    if ("file" in table) == ("texts" in table):
        raise ConfigError(f"{table.file}: [prompts] needs either file = '...' or texts = [...].")
    if "texts" in table:
        prompts: list[str] | dict[str, str] = table.take("texts", "texts")
    else:
        with _named(path, "prompts"):
            prompts = datasets.load_prompts(_beside(path, table.take("file", "text")))
    for name, text in _items(prompts):
        if not text.strip():
            raise ConfigError(f"{table.file}: [prompts]: prompt {name!r} is empty.")
        if not str(name).isprintable() or not str(name).strip():
            raise ConfigError(f"{table.file}: [prompts]: the id {name!r} cannot be shown; use printable characters.")
    return prompts


def _items(prompts: list[str] | dict[str, str]) -> Iterator[tuple[str | int, str]]:
    yield from prompts.items() if isinstance(prompts, dict) else enumerate(prompts)


def _examples(table: _Table, path: Path) -> tuple[Example, ...]:
    if ("file" in table) == ("loader" in table):
        raise ConfigError(f"{table.file}: [data] needs either file = '...' or loader = 'package.module:function'.")
    columns = {
        "input": table.take("input", "text", "input"),
        "reference": table.take("reference", "text or false", "reference") or None,
        "id": table.take("id", "text", None),
    }
    if "file" in table:
        if "arguments" in table:
            raise table.error("arguments", "goes with loader, not with file")
        with _named(path, "data"):
            examples = datasets.load_examples(_beside(path, table.take("file", "text")), **columns)
    else:
        loader = table.take("loader", "text")
        found = _call(table, loader, table.take("arguments", "table", {}), path)
        examples = _as_examples(table, loader, found, columns)
    shuffle = table.take("shuffle", "whole or false", False)
    if shuffle is not False:
        random.Random(shuffle).shuffle(examples)
    limit = table.take("limit", "whole", len(examples))
    if limit < 1:
        raise table.error("limit", "must be at least 1", limit)
    return tuple(examples[:limit])


def _as_examples(table: _Table, loader: str, found: Any, columns: Mapping[str, Any]) -> list[Example]:
    if isinstance(found, str | bytes | Mapping) or not hasattr(found, "__iter__"):
        raise table.error("loader", f"{loader!r} must return a list of rows (mappings) or Examples", type(found))
    examples = []
    for number, row in enumerate(found):
        if isinstance(row, Example):
            examples.append(row)
            continue
        if not isinstance(row, Mapping):
            raise table.error("loader", f"{loader!r} must return mappings or Examples; row {number} is", type(row))
        for column in columns.values():
            if column is not None and row.get(column) is None:
                raise ConfigError(
                    f"{table.file}: [data]: row {number} of {loader!r} has no {column!r}; it has "
                    f"{_listed([str(name) for name in row])}. Name the columns with input, reference (false for "
                    "none) and id."
                )
        reference = None if columns["reference"] is None else row[columns["reference"]]
        others = {str(name): value for name, value in row.items() if name not in columns.values()}
        name = str(number) if columns["id"] is None else str(row[columns["id"]])
        try:
            examples.append(Example(row[columns["input"]], reference, name, others))
        except InvalidArgumentError as error:
            raise ConfigError(f"{table.file}: [data]: row {number} of {loader!r}: {error}") from error
    if not examples:
        raise ConfigError(f"{table.file}: [data]: {loader!r} returned no rows.")
    return examples


def _model(top: _Table) -> dict[str, Any]:
    """The table, checked, with its defaults filled in."""
    given = top.take("model", "table", _REQUIRED) if "model" in top else top.table("model", ("type", "loader")).data
    model = _Table(top.file, "model", given, ())
    if "loader" in model:
        options: dict[str, str] = {}
        kind = None
        model = _Table(top.file, "model", given, ("loader", "arguments", "max_new_tokens", "system", "template"))
        model.take("loader", "text")
        model.take("arguments", "table", {})
    else:
        kind = model.take("type", "text", None)
        if kind is None:
            raise model.error("type", f"is missing; it is one of {_listed(list(_OPTIONS))}, or give a loader")
        if kind not in _OPTIONS:
            close = _close(kind, list(_OPTIONS))
            raise model.error("type", f"must be one of {_listed(list(_OPTIONS))}{close}", kind)
        options = _OPTIONS[kind]
        extra = {"openai": ("price",), "llama-cpp": ("dtype",)}.get(kind, ())
        known = [key for key in _MODEL if key not in ("loader", "arguments")]
        model = _Table(top.file, "model", given, (*known, *options, *extra))
        model.take("model", "text")
    for key, what in options.items():
        model.take(key, what, None)
    if "api_key_env" in model and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given["api_key_env"]):
        # The value is not repeated: it may be the key itself.
        raise model.error("api_key_env", "must be the name of an environment variable, such as OPENAI_API_KEY")
    if kind == "llama-cpp":
        model.take("dtype", "text", None)
    if "price" in model:
        price = _Table(top.file, "model.price", model.take("price", "table"), ("input", "output", "cached_input"))
        price.take("input", "number")
        price.take("output", "number")
        price.take("cached_input", "number", None)
    max_new_tokens = model.take("max_new_tokens", "whole", 512)
    if max_new_tokens < 1:
        raise model.error("max_new_tokens", "must be at least 1", max_new_tokens)
    return {
        **given,
        "max_new_tokens": max_new_tokens,
        "system": model.take("system", "text or false", SYSTEM_INSTRUCTION),
        "template": model.take("template", "text", TEMPLATE),
    }


def _llm(model: _Table, path: Path, concurrency: int) -> Any:
    if "loader" in model:
        llm = _call(model, model.take("loader", "text"), model.take("arguments", "table", {}), path)
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
            file = smollm2(dtype or "bf16")
        else:
            file = _beside(path, name)
            file = requantize(file, dtype) if dtype else file
        return LlamaCpp(file, **options)
    if kind == "huggingface":
        local = _beside(path, name)
        source = smollm2(None) if name == PACKAGED else local if local.exists() else name
        if source == name and name.endswith(".gguf"):
            raise InvalidArgumentError(f"there is no GGUF file {str(local)!r}")
        return HuggingFace(source, **options)
    price = Price(**model.data["price"]) if "price" in model else None
    return OpenAIChat(name, price=price, concurrency=concurrency, **options)


def _metrics(
    top: _Table, path: Path, examples: Sequence[Example], model: Mapping[str, Any]
) -> dict[str, Callable[[Completion, Example], float]]:
    if "metrics" not in top:
        raise ConfigError(f"{top.file}: the table [metrics] is missing. There are {_listed(list(_METRICS))}.")
    found: dict[str, Any] = {}
    for name, given in _given(top.take("metrics", "table")):
        if not isinstance(given, dict) and given is not True:
            raise ConfigError(
                f"{top.file}: {name!r} in [metrics] must be true, or a table of options, got {_short(given)}."
            )
        entry = {} if given is True else dict(given)
        if "loader" in entry:
            found[name] = _loaded_metric(_Table(top.file, f"metrics.{name}", entry, ("loader", "arguments")), path)
            continue
        kind = entry.pop("metric", name)
        if not isinstance(kind, str) or kind not in _METRICS:
            raise ConfigError(
                f"{top.file}: unknown metric {kind!r} in [metrics]{_close(kind, list(_METRICS))}; there are "
                f"{_listed(list(_METRICS))}. For one of your own: {name} = {{ loader = 'package.module:function' }}."
            )
        if kind in _NEED_REFERENCES and any(example.reference is None for example in examples):
            raise ConfigError(f"{top.file}: the metric {kind!r} needs references; name their column in [data].")
        if kind == "cost" and "price" not in model and "loader" not in model:
            raise ConfigError(
                f"{top.file}: the metric 'cost' needs prices: price = {{ input = 0.15, output = 0.6 }} in [model] "
                "(per million tokens; type 'openai')."
            )
        options = _METRICS[kind]
        table = _Table(top.file, f"metrics.{name}", entry, tuple(options) or ("metric",))
        arguments = {options[key][0]: table.take(key, options[key][1]) for key in entry if key in options}
        if kind == "brevity":
            table.take("low", "number")
            table.take("high", "number")
        with _named(path, f"metrics.{name}"):
            found[name] = _metric(kind, arguments)
    if not found:
        raise ConfigError(f"{top.file}: [metrics] is empty. There are {_listed(list(_METRICS))}.")
    return found


def _given(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The metrics that are on."""
    return ((name, given) for name, given in table.items() if given is not False)


def _metric(kind: str, arguments: dict[str, Any]) -> Metric:
    makers: dict[str, Any] = {"rouge": metrics.Rouge, "brevity": metrics.Brevity, "exact_match": metrics.ExactMatch}
    metric: Metric = makers[kind](**arguments) if kind in makers else getattr(metrics, kind)
    return metric


def _loaded_metric(table: _Table, path: Path) -> Any:
    """The named object itself; with `arguments`, or if it is a class, what calling it returns."""
    dotted = table.take("loader", "text")
    target = _import(table, dotted, path)
    if "arguments" in table or inspect.isclass(target):
        target = _call(table, dotted, table.take("arguments", "table", {}), path)
    if not callable(target):
        raise table.error("loader", "must name a metric: a function (completion, example) -> number", target)
    return target


def _goal(table: _Table, computed: Mapping[str, Any]) -> Goal:
    kind = table.take("type", "text", "best-feasible")
    if kind not in ("best-feasible", "pareto-set"):
        close = _close(kind, ["best-feasible", "pareto-set"])
        raise table.error("type", f"must be 'best-feasible' or 'pareto-set'{close}", kind)
    ranges = table.take("ranges", "table", {})
    wanted: list[tuple[str, bool]] = []
    for key, minimized in (("maximize", False), ("minimize", True)):
        names = table.take(key, "metrics", [])
        wanted += [(name, minimized) for name in ([names] if isinstance(names, str) else names)]
    bounds = {key: table.take(key, "table", {}) for key in ("at_least", "at_most")}
    for name in (*(name for name, _ in wanted), *bounds["at_least"], *bounds["at_most"], *ranges):
        if name not in computed:
            raise ConfigError(
                f"{table.file}: [goal] names the metric {name!r}, which is not computed{_close(name, list(computed))}; "
                f"[metrics] has {_listed(list(computed))}."
            )
    used = {name for name, _ in wanted} | set(bounds["at_least"]) | set(bounds["at_most"])
    for name in ranges:
        if name not in used:
            raise table.error("ranges", f"names {name!r}, which the goal does not use")

    def objective(name: str, minimized: bool) -> Objective:
        span = ranges.get(name)
        if span is not None and not (isinstance(span, list) and len(span) == 2 and all(map(_KINDS["number"][1], span))):
            raise table.error("ranges", f"must give {name!r} as [low, high]", span)
        return Objective(name, minimized, None if span is None else (span[0], span[1]))

    with _named(Path(table.file), "goal"):
        if kind == "pareto-set":
            if bounds["at_least"] or bounds["at_most"]:
                raise table.error("at_least" if bounds["at_least"] else "at_most", "goes with type 'best-feasible'")
            if not wanted:
                raise ConfigError(f"{table.file}: [goal] needs metrics: maximize = ['rouge', ...], minimize = [...].")
            return ParetoSet(*(objective(name, minimized) for name, minimized in wanted))
        if len(wanted) != 1:
            raise ConfigError(
                f"{table.file}: [goal] of type 'best-feasible' needs exactly one metric in maximize or minimize, got "
                f"{_listed([name for name, _ in wanted]) or 'none'}. Bound others with at_least and at_most, or take "
                "type = 'pareto-set'."
            )
        both = set(bounds["at_least"]) & set(bounds["at_most"])
        if both:
            raise table.error("at_most", f"bounds {min(both)!r}, as at_least does; give one of them")
        subject_to: dict[str | Objective, Any] = {}
        for key, bound in (("at_least", at_least), ("at_most", at_most)):
            for name, value in bounds[key].items():
                if not _KINDS["number"][1](value):
                    raise table.error(key, f"must bound {name!r} by a finite number", value)
                subject_to[objective(name, key == "at_most")] = bound(value)
        return BestFeasible(objective(*wanted[0]), subject_to)


def _import(table: _Table, dotted: str, path: Path) -> Any:
    """What `package.module:name` names; modules beside the file are found."""
    module, colon, name = dotted.partition(":")
    if not colon or not module or not name:
        raise table.error("loader", "must look like 'package.module:function'", dotted)
    home = str(path.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    try:
        target = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except Exception as error:  # a module of the user's own may raise anything
        raise table.error("loader", f"cannot be imported: {type(error).__name__}: {error}", dotted) from error
    return target


def _call(table: _Table, dotted: str, arguments: Mapping[str, Any], path: Path) -> Any:
    target = _import(table, dotted, path)
    if not callable(target):
        raise table.error("loader", "must name a function", dotted)
    try:
        return target(**arguments)
    except MissingExtraError:
        raise
    except Exception as error:  # a function of the user's own may raise anything
        raise table.error("loader", f"failed: {dotted} raised {type(error).__name__}: {error}") from error


def _refuse_secrets(file: str, data: Any, place: tuple[str, ...]) -> None:
    """No key may stand in the file; `place` is the table. The value is never repeated."""
    where = f"in [{'.'.join(place)}]" if place else "at the top"
    if isinstance(data, dict):
        for name, value in data.items():
            if isinstance(value, str) and place and place[0] == "model" and _SECRET.fullmatch(name):
                raise ConfigError(
                    f"{file}: {name!r} {where}: a secret has no place in a file. Put it into the environment variable "
                    "OPENAI_API_KEY, or into the one that api_key_env names."
                )
            _refuse_secrets(file, value, (*place, name))
    elif isinstance(data, list):
        for value in data:
            _refuse_secrets(file, value, place)
    elif isinstance(data, str) and place and place[0] == "model" and _SECRET_VALUE.match(data):
        raise ConfigError(
            f"{file}: {place[-1]!r} in [model] looks like an API key, which has no place in a file. Put it into the "
            "environment variable OPENAI_API_KEY, or into the one that api_key_env names."
        )


def _beside(path: Path, name: str) -> Path:
    """A path relative to the file."""
    return Path(path.resolve().parent, Path(name).expanduser())


def _advice(key: str, table: str, known: Sequence[str]) -> str:
    homes = {"": _TOP, "prompts": _PROMPTS, "data": _DATA, "goal": _GOAL, "model": (*_MODEL, "price")}
    if close := difflib.get_close_matches(key, known, 1):
        return f"Did you mean {close[0]!r}?"
    for home, keys in homes.items():
        if key in keys and home != table:
            if not home:
                return f"{key!r} belongs at the top of the file, before the first [table]."
            return f"{key!r} belongs in [{home}]."
    return f"Known are {_listed(known)}."


def _close(name: Any, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (", ..." if len(names) > 20 else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _shown(flat: Mapping[str, Any], name: str) -> str:
    return _short(flat[name]) if name in flat else "not given"


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _rows(examples: Sequence[Example]) -> list[Any]:
    return [[e.input, e.reference, e.fields] for e in examples]


def _digest(data: Any) -> str:
    # What is no JSON stands by its type: its repr may hold an address, which changes with every process.
    text = json.dumps(data, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
