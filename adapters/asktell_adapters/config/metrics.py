"""The table `[metrics]`: what is computed of every answer."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from asktell.extend import nearest, short
from asktell_adapters import metrics
from asktell_adapters.config.candidates import LLMTables
from asktell_adapters.config.judges import JudgeTable, PreferenceTable, read_judge
from asktell_adapters.config.tables import LoaderTable, Table, call_named, import_named, key, listed, options_table
from asktell_adapters.llms.base import Example, Metric


class PlainTable(Table):
    """A metric without options."""


RougeTable = options_table(metrics.Rouge, "rouge_type", "use_stemmer", "split", base=Table)
ExactMatchTable = options_table(metrics.ExactMatch, "normalized", base=Table)


class BrevityTable(Table):
    """Where brevity begins and ends to fall."""

    low: float = key()
    high: float = key()


METRICS: dict[str, tuple[type[Table], str]] = {
    "rouge": (RougeTable, "ROUGE-Lsum F1, unless `rouge_type` says otherwise. Needs references."),
    "brevity": (BrevityTable, "1 up to `low` output tokens, 0 from `high` on, linear between. Both are needed."),
    "exact_match": (
        ExactMatchTable,
        "1 or 0. `normalized` (true): ignores case, punctuation and English articles. Needs references.",
    ),
    "token_f1": (PlainTable, "F1 of the words. Needs references."),
    "output_tokens": (PlainTable, "Number of tokens of the answer."),
    "latency": (PlainTable, "Seconds that the answer took."),
    "cost": (PlainTable, "Money; needs a `price`."),
    "tool_call": (
        PlainTable, "1 if the LLM calls [the tools of the reference](../how-to/write-prompts.md#tools)."
    ),
    "judge": (JudgeTable, "An LLM grades the answer: [use a judge](../how-to/use-a-judge.md)."),
    "preference": (
        PreferenceTable,
        "An LLM says whether the answer is better than [the baseline's]"
        "(../how-to/use-a-judge.md#compare-with-the-baselines-answers).",
    ),
}  # fmt: skip
"""By name: the table of its options, and what it is."""

_NEED_REFERENCES = ("rouge", "exact_match", "token_f1", "tool_call")


def read_metrics(
    top: Table, given: Mapping[str, Any] | None, examples: Sequence[Example], models: LLMTables
) -> dict[str, Metric]:
    if given is None:
        raise top.mistake(f"the table [metrics] is missing. There are {listed(list(METRICS))}.")
    found = {name: _metric(top, name, options, examples, models) for name, options in turned_on(given)}
    if not found:
        raise top.mistake(f"[metrics] is empty. There are {listed(list(METRICS))}.")
    return found


def turned_on(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, given) for name, given in table.items() if given is not False)


def _metric(top: Table, name: str, given: Any, examples: Sequence[Example], models: LLMTables) -> Metric:
    path, title = top.config_file, f"metrics.{name}"
    if not isinstance(given, dict) and given is not True:
        raise top.mistake(f"{name!r} in [metrics] must be true, or a table of options, got {short(given)}.")
    entry = {} if given is True else dict(given)
    if "loader" in entry:
        return _loaded_metric(LoaderTable.read(path, title, entry))
    kind = entry.pop("metric", None) or entry.pop("type", name)
    if not isinstance(kind, str) or kind not in METRICS:
        raise top.mistake(
            f"unknown metric {kind!r} in [metrics]{nearest(kind, list(METRICS))}; there are {listed(list(METRICS))}. "
            f"For one of your own: {name} = {{ loader = 'package.module:function' }}."
        )
    if kind in _NEED_REFERENCES and any(example.reference is None for example in examples):
        raise top.mistake(f"the metric {kind!r} needs references; name their column in [data].")
    if kind == "cost" and (place := models.unpriced(loaded=False)):
        raise top.mistake(
            f"the metric 'cost' needs prices: price = {{ input = 0.15, output = 0.6 }} in {place} (per million tokens; "
            "types 'openai' and 'litellm')."
        )
    table = METRICS[kind][0].read(path, title, entry)
    if isinstance(table, JudgeTable):
        return read_judge(table, examples)
    options = table.model_dump(exclude_unset=True)
    with table.named():
        if isinstance(table, BrevityTable):
            return metrics.Brevity(table.low, table.high)
        found: Any = {"rouge": metrics.Rouge, "exact_match": metrics.ExactMatch}.get(kind)
        return cast(Metric, found(**options) if found else getattr(metrics, kind))


def _loaded_metric(table: LoaderTable) -> Metric:
    """The named object itself; with `arguments`, or if it is a class, what calling it returns."""
    target = import_named(table, table.loader)
    if table.has("arguments") or inspect.isclass(target):
        target = call_named(table, table.loader, table.arguments)
    if not callable(target):
        raise table.error("loader", "must name a metric: a function (completion, example) -> number", target)
    return cast(Metric, target)
