"""The table `[metrics]`: what is computed of every answer."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asktell import ConfigError
from asktell.extend import nearest, short
from asktell_adapters import metrics
from asktell_adapters.config.judges import OPTIONS, read_judge
from asktell_adapters.config.loaders import call_named, import_named
from asktell_adapters.config.model import has_price
from asktell_adapters.config.tables import Table, listed
from asktell_adapters.llms.base import Example, Metric

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
    "tool_call": {},
    "output_tokens": {},
    "latency": {},
    "cost": {},
    "judge": {},
}
_NEED_REFERENCES = ("rouge", "exact_match", "token_f1", "tool_call")


def read_metrics(top: Table, examples: Sequence[Example], model: Mapping[str, Any]) -> dict[str, Metric]:
    """The metrics of `[metrics]`, by name."""
    if "metrics" not in top:
        raise ConfigError(f"{top.file}: the table [metrics] is missing. There are {listed(list(_METRICS))}.")
    found: dict[str, Any] = {}
    for name, given in turned_on(top.take("metrics", "table")):
        if not isinstance(given, dict) and given is not True:
            raise ConfigError(
                f"{top.file}: {name!r} in [metrics] must be true, or a table of options, got {short(given)}."
            )
        entry = {} if given is True else dict(given)
        if "loader" in entry:
            found[name] = _loaded_metric(top.inner(f"metrics.{name}", entry, ("loader", "arguments")))
            continue
        kind = entry.pop("metric", None) or entry.pop("type", name)
        if not isinstance(kind, str) or kind not in _METRICS:
            raise ConfigError(
                f"{top.file}: unknown metric {kind!r} in [metrics]{nearest(kind, list(_METRICS))}; there are "
                f"{listed(list(_METRICS))}. For one of your own: {name} = {{ loader = 'package.module:function' }}."
            )
        if kind in _NEED_REFERENCES and any(example.reference is None for example in examples):
            raise ConfigError(f"{top.file}: the metric {kind!r} needs references; name their column in [data].")
        if kind == "cost" and "loader" not in model and not has_price(model):
            raise ConfigError(
                f"{top.file}: the metric 'cost' needs prices: price = {{ input = 0.15, output = 0.6 }} in [model] "
                "(per million tokens; types 'openai' and 'litellm')."
            )
        if kind == "judge":
            found[name] = read_judge(top.inner(f"metrics.{name}", entry, OPTIONS), examples)
            continue
        options = _METRICS[kind]
        table = top.inner(f"metrics.{name}", entry, tuple(options) or ("metric",))
        arguments = {options[key][0]: table.take(key, options[key][1]) for key in entry if key in options}
        if kind == "brevity":
            table.take("low", "number")
            table.take("high", "number")
        with table.named():
            found[name] = _metric(kind, arguments)
    if not found:
        raise ConfigError(f"{top.file}: [metrics] is empty. There are {listed(list(_METRICS))}.")
    return found


def turned_on(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The metrics that are on."""
    return ((name, given) for name, given in table.items() if given is not False)


def _metric(kind: str, arguments: dict[str, Any]) -> Metric:
    makers: dict[str, Any] = {"rouge": metrics.Rouge, "brevity": metrics.Brevity, "exact_match": metrics.ExactMatch}
    metric: Metric = makers[kind](**arguments) if kind in makers else getattr(metrics, kind)
    return metric


def _loaded_metric(table: Table) -> Any:
    """The named object itself; with `arguments`, or if it is a class, what calling it returns."""
    dotted = table.take("loader", "text")
    target = import_named(table, dotted)
    if "arguments" in table or inspect.isclass(target):
        target = call_named(table, dotted, table.take("arguments", "table", {}))
    if not callable(target):
        raise table.error("loader", "must name a metric: a function (completion, example) -> number", target)
    return target
