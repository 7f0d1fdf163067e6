"""The table `[metrics]`: the scores of every response, and the judges among them."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import Registry, nearest, short
from asktell_adapters import metrics
from asktell_adapters.config.candidates import LLMTables
from asktell_adapters.config.model import ModelTable, kinds_with, read_model
from asktell_adapters.config.tables import (
    EXAMPLE_OF_A_PRICE,
    BeforeValidator,
    LoaderTable,
    Table,
    arguments_of,
    call_named,
    import_named,
    key,
    listed,
    options_table,
)
from asktell_adapters.llms.base import Completion, Example, Metric, Request
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.llms.models import Models
from asktell_adapters.metrics import Criterion, Judge, Preference, Shot
from asktell_adapters.metrics.preference import BASELINE, BETTER

# Not of its model
OF_THE_JUDGE = ("temperature", "max_new_tokens", "system", "template")


class CriterionTable(Table):
    """A criterion of a judge. `Criterion` describes the keys."""

    text: str
    weight: float = 1.0


class ShotTable(Table):
    """A judged response. `Shot` describes the keys."""

    input: str
    answer: str
    grades: dict[str, Any]
    reason: str = ""
    reference: str | None = None
    other: str | None = None


def _as_table(criterion: Any) -> Any:
    """A criterion may be its text alone."""
    return criterion if isinstance(criterion, dict) else {"text": criterion}


class JudgeTable(Table):
    """The options of `Judge`, whose docstring describes them."""

    criteria: dict[str, Annotated[CriterionTable, BeforeValidator(_as_table)]]
    scale: Any = key(None, expected="a list of two whole numbers")
    reference: bool | None = None
    against: str | None = None
    shots: list[ShotTable] | None = None
    n: int | None = None
    temperature: float | None = None
    seed: int | None = None
    max_new_tokens: int | None = None
    instructions: str | None = None
    # Each is read by the table of its kind
    model: dict[str, Any] | list[dict[str, Any]] | None = None


class PreferenceTable(JudgeTable):
    """The options of `Preference`, and of its judge."""

    criteria: dict[str, Annotated[CriterionTable, BeforeValidator(_as_table)]] = key(
        {"better": CriterionTable(text=BETTER)}
    )
    against: str | None = key(BASELINE)


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


_OPTIONS = ("scale", "reference", "n", "temperature", "seed", "max_new_tokens", "instructions")  # fmt: skip
"""Keys of a judge's table that are passed to `Judge` as they are."""


def read_judge(table: JudgeTable, examples: Sequence[Example]) -> Judge | Preference:
    """The judge of a table, without its LLM, which `with_llm` gives to it.

    Raises:
        ConfigError: the examples lack references or a column that the judge needs, or
            an option is invalid.
    """
    _check_examples(table, examples)
    options = {name: getattr(table, name) for name in _OPTIONS if table.has(name)}
    if table.has("shots"):
        if not table.shots:
            raise table.error("shots", "must have at least one table", table.shots)
        options["shots"] = [Shot(**dict(shot)) for shot in table.shots]
    # The judge of a preference compares with the column that the preference fills in
    if table.has("against") and not isinstance(table, PreferenceTable):
        options["against"] = table.against
    criteria = {
        name: _criterion(criterion) for name, criterion in table.criteria.items()
    }
    llm = PlannedLLM(_models(table))
    name = table.title.rpartition(".")[2]
    with table.named():
        judge = Judge(llm, criteria, name=name, **options)
        if not isinstance(table, PreferenceTable):
            return judge
        return Preference(judge, table.against or BASELINE, name=name)


def _check_examples(table: JudgeTable, examples: Sequence[Example]) -> None:
    """Refuse examples without the references or the column that the judge reads."""
    if table.reference and any(example.reference is None for example in examples):
        raise table.error(
            "reference",
            "is true, but some examples have no reference. Name the column of references by `reference` in [data]",
        )
    column = table.against
    if isinstance(table, PreferenceTable) and column == BASELINE:
        return  # the responses of the baseline are not in the data
    if column and not all(
        isinstance(example.fields.get(column), str) for example in examples
    ):
        raise table.error(
            "against",
            "must be a column of [data] that holds a text in every row",
            column,
        )


def _criterion(table: CriterionTable) -> Criterion:
    """The criterion, checked."""
    with table.named():
        return Criterion(table.text, table.weight)


def _models(table: JudgeTable) -> tuple[ModelTable, ...]:
    """The judge's own models. Without any, the judge has the run's LLM."""
    tables = table.model or []
    models = []
    for model in tables if isinstance(tables, list) else [tables]:
        for name in filter(model.__contains__, OF_THE_JUDGE):
            is_known = name in JudgeTable.model_fields
            wanted = name if is_known else "instructions"
            raise table.mistake(
                f"{name!r} in [{table.title}.model] has no effect on a judge. Set {wanted!r} in [{table.title}] "
                "instead."
            )
        models.append(read_model(table.config_file, f"{table.title}.model", model))
    return tuple(models)


def with_llm(
    metric: Any, llm: Any, make: Callable[[ModelTable], Any], cache: AnswerCache | None
) -> Any:
    """A judge with its own LLM, which `make` makes, loaded, or with the run's; another metric as it is."""
    if isinstance(metric, Preference):
        metric = copy.copy(metric)
        metric.judge = with_llm(metric.judge, llm, make, cache)
        return metric
    if not isinstance(metric, Judge) or not isinstance(
        planned := metric.llms[0], PlannedLLM
    ):
        return metric
    if isinstance(llm, Models) and not planned.models:
        raise InvalidArgumentError(
            f"The judge {metric.name!r} needs an LLM of its own, because the run compares several models. If each "
            "model judged its own responses, the scores could not be compared. Add the table "
            f"[metrics.{metric.name}.model]."
        )
    judge = copy.copy(metric)  # what was configured stays so
    llms = [make(model) for model in planned.models]
    judge.ask(llms or llm, cache)
    for own_llm in llms:
        if callable(load := getattr(own_llm, "load", None)):
            load()
    return judge


class PlainTable(Table):
    """A metric without options."""


RougeTable = options_table(
    metrics.Rouge, "rouge_type", "use_stemmer", "split", base=Table
)
ExactMatchTable = options_table(metrics.ExactMatch, "normalized", base=Table)


class BrevityTable(Table):
    """The lengths between which brevity falls from 1 to 0."""

    low: float = key()
    high: float = key()


@final
@dataclass(frozen=True)
class MetricType:
    """A metric that a file can name.

    Attributes:
        table: the keys of its options.
        about: the metric in words, for the reference.
        made: makes the metric from its options, as keyword arguments. None for judges,
            which also need the examples and an LLM.
        needs_references: whether every example must have a reference.
    """

    table: type[Table]
    about: str
    made: Callable[..., Any] | None = None
    needs_references: bool = False


# fmt: off
_BUILT_IN: dict[str, MetricType] = {
    "rouge": MetricType(
        RougeTable, "ROUGE-Lsum F1, unless `rouge_type` is another type. Needs references.",
        metrics.Rouge, needs_references=True,
    ),
    "brevity": MetricType(
        BrevityTable,
        "1 up to `low` output tokens, 0 from `high` on, and linear between them. `low` and `high` are needed.",
        lambda low, high: metrics.Brevity(low, high),
    ),
    "exact_match": MetricType(
        ExactMatchTable,
        "1 if the response equals the reference, else 0. `normalized` (default: true) ignores case, English "
        "articles, and punctuation outside of numbers. Needs references.",
        metrics.ExactMatch, needs_references=True,
    ),
    "token_f1": MetricType(
        PlainTable, "F1 of the words in the response and in the reference. Needs references.",
        lambda: metrics.token_f1, needs_references=True,
    ),
    "output_tokens": MetricType(PlainTable, "Number of tokens of the response.", lambda: metrics.output_tokens),
    "latency": MetricType(PlainTable, "Seconds that the response took.", lambda: metrics.latency),
    "cost": MetricType(
        PlainTable, "Cost of the response, without judges, in the currency of the `price`. Needs a `price`.",
        lambda: metrics.cost,
    ),
    "tool_call": MetricType(
        PlainTable, "1 if the LLM calls [the tools of the reference](../how-to/write-prompts.md#tools), else 0.",
        lambda: metrics.tool_call, needs_references=True,
    ),
    "judge": MetricType(JudgeTable, "An LLM grades the response: [use a judge](../how-to/use-a-judge.md)."),
    "preference": MetricType(
        PreferenceTable,
        "An LLM judges whether the response is better than [the baseline's]"
        "(../how-to/use-a-judge.md#compare-with-the-baselines-answers).",
    ),
}
# fmt: on


def _package_metric(name: str, loaded: Any) -> MetricType:
    """The metric of another package: a function, or a class whose arguments are the metric's options."""
    if not callable(loaded):
        raise InvalidArgumentError(f"it must be {_A_METRIC}, got {short(loaded)}")
    about = (inspect.getdoc(loaded) or name).partition("\n")[0]
    needs = bool(getattr(loaded, "needs_references", False))
    if not inspect.isclass(loaded):
        return MetricType(PlainTable, about, lambda: loaded, needs)

    def make(**options: Any) -> Metric:
        with METRICS.blamed(name):
            metric = loaded(**options)
            if not callable(metric):
                raise InvalidArgumentError(
                    f"it must make {_A_METRIC}, got {short(metric)}"
                )
            return cast(Metric, metric)

    table = options_table(loaded, *arguments_of(loaded), base=Table)
    return MetricType(table, about, make, needs)


_A_METRIC = "a metric: a function (completion, example) -> number"
METRICS: Registry[MetricType] = Registry("asktell.metrics", _BUILT_IN, _package_metric)
"""The metrics by name: everything about a metric is in its row. Packages add metrics to `asktell.metrics`."""


def read_metrics(
    top: Table,
    given: Mapping[str, Any] | None,
    examples: Sequence[Example],
    models: LLMTables,
) -> dict[str, Metric]:
    """The metrics of `[metrics]` by their names. Judges have no LLM yet (see `with_llm`).

    Raises:
        ConfigError: there is no metric, or a metric is unknown, has a wrong option, or
            lacks references or prices.
    """
    if given is None:
        raise top.mistake(
            f"the table [metrics] is missing. Add it, with one or more of {listed(METRICS.names())}."
        )
    metrics = {
        name: _metric(top, name, options, examples, models)
        for name, options in turned_on(given)
    }
    if not metrics:
        raise top.mistake(
            f"[metrics] is empty. Add one or more of {listed(METRICS.names())}."
        )
    return metrics


def turned_on(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The entries of `[metrics]` that are not `false`."""
    return ((name, entry) for name, entry in table.items() if entry is not False)


def _metric(
    top: Table,
    name: str,
    entry_value: Any,
    examples: Sequence[Example],
    models: LLMTables,
) -> Metric:
    """One entry of `[metrics]`: `true`, options, or a metric of the user's own."""
    title = f"metrics.{name}"
    if not isinstance(entry_value, dict) and entry_value is not True:
        raise top.mistake(
            f"{name!r} in [metrics] must be true, or a table of options, got {short(entry_value)}."
        )
    entry = {} if entry_value is True else dict(entry_value)
    if "loader" in entry:
        return _loaded_metric(LoaderTable.read(top.config_file, title, entry))
    kind = entry.pop("metric", None) or entry.pop("type", name)
    if not isinstance(kind, str) or kind not in METRICS:
        names = METRICS.names()
        raise top.mistake(
            f"unknown metric {kind!r} in [metrics]{nearest(kind, names)}. The metrics are "
            f"{listed(names)}. For your own metric, write {name} = {{ loader = 'package.module:function' }}."
        )
    with top.named():
        row = METRICS[kind]
    if row.needs_references and any(example.reference is None for example in examples):
        raise top.mistake(
            f"the metric {kind!r} needs references. Name the column of references by `reference` in [data]."
        )
    if kind == "cost" and (place := models.unpriced(loaded=False)):
        raise top.mistake(
            f"the metric 'cost' needs prices. Give {place} a price, {EXAMPLE_OF_A_PRICE}. The types "
            f"{listed(kinds_with('price'))} can have a price."
        )
    table = row.table.read(top.config_file, title, entry)
    if isinstance(table, JudgeTable):
        return read_judge(table, examples)
    assert row.made is not None, "only judges have none"
    with table.named():
        return cast(Metric, row.made(**table.given(Table)))


def _loaded_metric(table: LoaderTable) -> Metric:
    """The named object itself; with `arguments`, or if it is a class, what calling it returns."""
    target = import_named(table, table.loader)
    if table.has("arguments") or inspect.isclass(target):
        target = call_named(table, table.loader, table.arguments)
    if not callable(target):
        raise table.error("loader", f"must name {_A_METRIC}", target)
    return cast(Metric, target)
