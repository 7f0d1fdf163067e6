"""A judge in the table `[metrics]`: a rubric, and which LLM judges by it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.model import ModelTable, read_model
from asktell_adapters.config.tables import Table, key
from asktell_adapters.llms.base import Completion, Example, Request
from asktell_adapters.llms.models import Models
from asktell_adapters.metrics import Criterion, Judge, Preference, Shot
from asktell_adapters.metrics.preference import BASELINE, BETTER

_OF_THE_JUDGE = ("temperature", "max_new_tokens", "system", "template")  # not of its model


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


class CriterionTable(Table):
    """One criterion of a rubric."""

    text: str = key()
    weight: float = key(1.0)


class ShotTable(Table):
    """An answer with its grades."""

    input: str = key()
    answer: str = key()
    grades: dict[str, Any] = key()
    reason: str = key("")
    reference: str | None = key(None)
    other: str | None = key(None)


@final
@dataclass(frozen=True)
class PlannedLLM:
    """Stands for a judge's LLM until it is loaded; without models, for the run's own."""

    models: tuple[ModelTable, ...]

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        return [EvaluatorError("the judge's model is loaded with the evaluator") for _ in requests]


def read_judge(table: JudgeTable, examples: Sequence[Example]) -> Judge | Preference:
    """The judge of a table, which `with_llm` gives its LLM."""
    path, name = table.config_file, table.title
    if table.reference and any(example.reference is None for example in examples):
        raise table.error("reference", "is true, but not every example has one; name their column in [data]")
    is_preference = isinstance(table, PreferenceTable)
    column = None if is_preference and table.against == BASELINE else table.against
    if column and not all(isinstance(example.fields.get(column), str) for example in examples):
        raise table.error("against", "must be a column of [data] that holds a text in every row", column)
    criteria = {}
    for which, given in table.criteria.items():
        entry = given if isinstance(given, dict) else {"text": given}
        criterion = CriterionTable.read(path, f"{name}.criteria.{which}", entry)
        with criterion.named():
            criteria[which] = Criterion(criterion.text, criterion.weight)
    shots = [ShotTable.read(path, f"{name}.shots", each) for each in table.shots or ()]
    if table.has("shots") and not shots:
        raise table.error("shots", "must be a list of tables", table.shots)
    given_models = table.model or []
    models = [_model(table, each) for each in ([given_models] if isinstance(given_models, dict) else given_models)]
    apart = ("criteria", "shots", "model", *(("against",) if is_preference else ()))
    options = {each: getattr(table, each) for each in JudgeTable.model_fields if each not in apart and table.has(each)}
    if shots:
        options["shots"] = [Shot(**dict(shot)) for shot in shots]
    with table.named():
        name = name.rpartition(".")[2]
        judge = Judge(PlannedLLM(tuple(models)), criteria, name=name, **options)
        if not isinstance(table, PreferenceTable):
            return judge
        given = [LabelTable.read(path, f"{table.title}.labels", each) for each in table.labels or ()]
        labels = {(each.prompt, each.example): each.label for each in given}
        return Preference(judge, table.against or BASELINE, labels=labels, name=name)


def _model(table: JudgeTable, given: dict[str, Any]) -> ModelTable:
    for each in _OF_THE_JUDGE:
        if each in given:
            where = f"belongs in [{table.title}]" if each in JudgeTable.model_fields else "is not for judges"
            raise table.error(each, f"of its model {where}; see instructions")
    return read_model(table.config_file, f"{table.title}.model", given)


def with_llm(metric: Any, llm: Any, concurrency: int, cache: AnswerCache | None) -> Any:
    """A judge with its own LLM, loaded, or with the run's; another metric as it is."""
    if isinstance(metric, Preference):
        metric = copy.copy(metric)
        metric.judge = with_llm(metric.judge, llm, concurrency, cache)
        return metric
    if not isinstance(metric, Judge) or not isinstance(planned := metric.llms[0], PlannedLLM):
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
