"""The table `[metrics]`: what is computed of every answer."""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import nearest, short
from asktell_adapters import metrics
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.candidates import EXAMPLE_OF_A_PRICE, LLMTables
from asktell_adapters.config.model import ModelTable, kinds_with, read_model
from asktell_adapters.config.tables import (
    LoaderTable,
    Table,
    call_named,
    import_named,
    key,
    listed,
    options_table,
    table_of,
)
from asktell_adapters.llms.base import Completion, Example, Metric, Request
from asktell_adapters.llms.models import Models
from asktell_adapters.metrics import Criterion, Judge, Preference, Shot
from asktell_adapters.metrics.preference import BASELINE, BETTER

# Not of its model
_OF_THE_JUDGE = ("temperature", "max_new_tokens", "system", "template")


class JudgeTable(Table):
    """The options of `Judge`, whose docstring describes them."""

    criteria: dict[str, Any]
    scale: Any = None
    reference: bool | None = None
    against: str | None = None
    shots: list[dict[str, Any]] | None = None
    n: int | None = None
    temperature: float | None = None
    seed: int | None = None
    max_new_tokens: int | None = None
    instructions: str | None = None
    model: dict[str, Any] | list[dict[str, Any]] | None = None


class PreferenceTable(JudgeTable):
    """The options of `Preference`, and of its judge."""

    criteria: dict[str, Any] = key({"better": BETTER})
    against: str | None = key(BASELINE)
    labels: list[dict[str, Any]] | None = key(None)


class LabelTable(Table):
    """What people prefer."""

    prompt: str = key()
    example: str | int = key()
    label: float = key(ge=0, le=1)


CriterionTable, ShotTable = table_of(Criterion), table_of(Shot)


@final
@dataclass(frozen=True)
class PlannedLLM:
    """Stands for a judge's LLM until it is loaded; without models, for the run's own."""

    models: tuple[ModelTable, ...]

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        return [
            EvaluatorError("the judge's model is loaded with the evaluator")
            for _ in requests
        ]


def read_judge(table: JudgeTable, examples: Sequence[Example]) -> Judge | Preference:
    """The judge of a table, which `with_llm` gives its LLM."""
    path, name = table.config_file, table.title
    if table.reference and any(example.reference is None for example in examples):
        raise table.error(
            "reference",
            "is true, but not every example has one; name their column in [data]",
        )
    is_preference = isinstance(table, PreferenceTable)
    column = None if is_preference and table.against == BASELINE else table.against
    if column and not all(
        isinstance(example.fields.get(column), str) for example in examples
    ):
        raise table.error(
            "against",
            "must be a column of [data] that holds a text in every row",
            column,
        )
    criteria = {}
    for which, given in table.criteria.items():
        entry = given if isinstance(given, dict) else {"text": given}
        criterion = CriterionTable.read(path, f"{name}.criteria.{which}", entry)
        with criterion.named():
            criteria[which] = Criterion(**criterion.model_dump())
    shots = [ShotTable.read(path, f"{name}.shots", each) for each in table.shots or ()]
    if table.has("shots") and not shots:
        raise table.error("shots", "must be a list of tables", table.shots)
    given_models = table.model or []
    models = [
        _model(table, each)
        for each in ([given_models] if isinstance(given_models, dict) else given_models)
    ]
    apart = ("criteria", "shots", "model", *(("against",) if is_preference else ()))
    options = {
        each: getattr(table, each)
        for each in JudgeTable.model_fields
        if each not in apart and table.has(each)
    }
    if shots:
        options["shots"] = [Shot(**dict(shot)) for shot in shots]
    with table.named():
        name = name.rpartition(".")[2]
        judge = Judge(PlannedLLM(tuple(models)), criteria, name=name, **options)
        if not isinstance(table, PreferenceTable):
            return judge
        given = [
            LabelTable.read(path, f"{table.title}.labels", each)
            for each in table.labels or ()
        ]
        labels = {(each.prompt, each.example): each.label for each in given}
        return Preference(judge, table.against or BASELINE, labels=labels, name=name)


def _model(table: JudgeTable, given: dict[str, Any]) -> ModelTable:
    for each in _OF_THE_JUDGE:
        if each in given:
            where = (
                f"belongs in [{table.title}]"
                if each in JudgeTable.model_fields
                else "is not for judges"
            )
            raise table.error(each, f"of its model {where}; see instructions")
    return read_model(table.config_file, f"{table.title}.model", given)


def with_llm(metric: Any, llm: Any, concurrency: int, cache: AnswerCache | None) -> Any:
    """A judge with its own LLM, loaded, or with the run's; another metric as it is."""
    if isinstance(metric, Preference):
        metric = copy.copy(metric)
        metric.judge = with_llm(metric.judge, llm, concurrency, cache)
        return metric
    if not isinstance(metric, Judge) or not isinstance(
        planned := metric.llms[0], PlannedLLM
    ):
        return metric
    if isinstance(llm, Models) and not planned.models:
        raise InvalidArgumentError(
            f"the judge {metric.name!r} needs an LLM of its own, [metrics.{metric.name}.model], where several models "
            "answer: judging themselves, they would not compare."
        )
    judge = copy.copy(metric)  # what was configured stays so
    own = [model.make(concurrency) for model in planned.models]
    judge.ask(own or llm, cache)
    for each in own:
        if callable(load := getattr(each, "load", None)):
            load()
    return judge


class PlainTable(Table):
    """A metric without options."""


RougeTable = options_table(
    metrics.Rouge, "rouge_type", "use_stemmer", "split", base=Table
)
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
    top: Table,
    given: Mapping[str, Any] | None,
    examples: Sequence[Example],
    models: LLMTables,
) -> dict[str, Metric]:
    if given is None:
        raise top.mistake(
            f"the table [metrics] is missing. There are {listed(list(METRICS))}."
        )
    found = {
        name: _metric(top, name, options, examples, models)
        for name, options in turned_on(given)
    }
    if not found:
        raise top.mistake(f"[metrics] is empty. There are {listed(list(METRICS))}.")
    return found


def turned_on(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, given) for name, given in table.items() if given is not False)


def _metric(
    top: Table, name: str, given: Any, examples: Sequence[Example], models: LLMTables
) -> Metric:
    path, title = top.config_file, f"metrics.{name}"
    if not isinstance(given, dict) and given is not True:
        raise top.mistake(
            f"{name!r} in [metrics] must be true, or a table of options, got {short(given)}."
        )
    entry = {} if given is True else dict(given)
    if "loader" in entry:
        return _loaded_metric(LoaderTable.read(path, title, entry))
    kind = entry.pop("metric", None) or entry.pop("type", name)
    if not isinstance(kind, str) or kind not in METRICS:
        raise top.mistake(
            f"unknown metric {kind!r} in [metrics]{nearest(kind, list(METRICS))}; there are {listed(list(METRICS))}. "
            f"For one of your own: {name} = {{ loader = 'package.module:function' }}."
        )
    if kind in _NEED_REFERENCES and any(
        example.reference is None for example in examples
    ):
        raise top.mistake(
            f"the metric {kind!r} needs references; name their column in [data]."
        )
    if kind == "cost" and (place := models.unpriced(loaded=False)):
        raise top.mistake(
            f"the metric 'cost' needs prices. Give {place} a price, {EXAMPLE_OF_A_PRICE}. It is an option of the types "
            f"{listed(kinds_with('price'))}."
        )
    table = METRICS[kind][0].read(path, title, entry)
    if isinstance(table, JudgeTable):
        return read_judge(table, examples)
    options = table.model_dump(exclude_unset=True)
    with table.named():
        if isinstance(table, BrevityTable):
            return metrics.Brevity(table.low, table.high)
        found: Any = {"rouge": metrics.Rouge, "exact_match": metrics.ExactMatch}.get(
            kind
        )
        return cast(Metric, found(**options) if found else getattr(metrics, kind))


def _loaded_metric(table: LoaderTable) -> Metric:
    """The named object itself; with `arguments`, or if it is a class, what calling it returns."""
    target = import_named(table, table.loader)
    if table.has("arguments") or inspect.isclass(target):
        target = call_named(table, table.loader, table.arguments)
    if not callable(target):
        raise table.error(
            "loader",
            "must name a metric: a function (completion, example) -> number",
            target,
        )
    return cast(Metric, target)
