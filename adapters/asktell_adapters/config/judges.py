"""A judge in the table `[metrics]`: a rubric, and which LLM judges by it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from asktell import EvaluatorError
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.model import load_llm, read_model
from asktell_adapters.config.tables import Table
from asktell_adapters.llms.base import Completion, Example, Metric, Request
from asktell_adapters.metrics import Criterion, Judge, Shot

OPTIONS = (
    *("criteria", "scale", "reference", "against", "shots", "n", "temperature", "seed", "max_new_tokens"),
    *("instructions", "model"),
)
_OF_THE_JUDGE = ("temperature", "max_new_tokens", "system", "template")  # not of its model
_SIMPLE = {
    "reference": "flag",
    "against": "text",
    "n": "whole",
    "temperature": "number",
    "seed": "whole",
    "max_new_tokens": "whole",
    "instructions": "text",
}


@final
@dataclass(frozen=True)
class PlannedLLM:
    """Stands for a judge's LLM until it is loaded; without models, for the run's own."""

    models: tuple[Table, ...]

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Nothing but failures."""
        return [EvaluatorError("the judge's model is loaded with the evaluator") for _ in requests]


def read_judge(table: Table, examples: Sequence[Example]) -> Judge:
    """The judge of a table, which `with_llm` gives its LLM."""
    options = {key: table.take(key, kind) for key, kind in _SIMPLE.items() if key in table}
    criteria = {name: _criterion(table, name, given) for name, given in table.take("criteria", "table").items()}
    if "scale" in table:
        options["scale"] = table.data["scale"]
    if options.get("reference") and any(example.reference is None for example in examples):
        raise table.error("reference", "is true, but not every example has one; name their column in [data]")
    column = options.get("against")
    if column and not all(isinstance(example.fields.get(column), str) for example in examples):
        raise table.error("against", "must be a column of [data] that holds a text in every row", column)
    if "shots" in table:
        options["shots"] = [_shot(table, each) for each in _tables(table, "shots")]
    models = tuple(_model(table, each) for each in _models(table))
    with table.named():
        return Judge(PlannedLLM(models), criteria, name=table.name.rpartition(".")[2], **options)


def with_llm(metric: Metric, llm: Any, concurrency: int, cache: AnswerCache | None) -> Metric:
    """A judge with its own LLM, loaded, or with the run's; another metric as it is."""
    if not isinstance(metric, Judge) or not isinstance(planned := metric.llms[0], PlannedLLM):
        return metric
    judge = copy.copy(metric)  # what was configured stays so
    own = [load_llm(model, concurrency) for model in planned.models]
    judge.ask(own or llm, cache)
    for each in own:
        if callable(load := getattr(each, "load", None)):
            load()
    return judge


def _criterion(table: Table, name: str, given: Any) -> Criterion:
    entry = given if isinstance(given, dict) else {"text": given}
    inner = table.inner(f"{table.name}.criteria.{name}", entry, ("text", "weight"))
    with inner.named():
        return Criterion(inner.take("text", "text"), inner.take("weight", "number", 1.0))


def _shot(table: Table, given: dict[str, Any]) -> Shot:
    inner = table.inner(f"{table.name}.shots", given, ("input", "answer", "grades", "reason", "reference", "other"))
    return Shot(
        inner.take("input", "text"),
        inner.take("answer", "text"),
        inner.take("grades", "table"),
        inner.take("reason", "text", ""),
        inner.take("reference", "text", None),
        inner.take("other", "text", None),
    )


def _models(table: Table) -> list[dict[str, Any]]:
    if "model" not in table:
        return []
    return [table.data["model"]] if isinstance(table.data["model"], dict) else _tables(table, "model")


def _model(table: Table, given: dict[str, Any]) -> Table:
    name = f"{table.name}.model"
    for key in _OF_THE_JUDGE:
        if key in given:
            where = f"belongs in [{table.name}]" if key in OPTIONS else "is not for judges; see instructions"
            raise table.inner(name, given, ()).error(key, where)
    read = read_model(table.inner(table.name, {"model": given}, ()), name)
    return table.inner(name, read, ())


def _tables(table: Table, key: str) -> list[dict[str, Any]]:
    given = table.data[key]
    if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
        raise table.error(key, "must be a list of tables", given)
    return given
