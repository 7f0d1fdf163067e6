"""A run as a TOML file describes it, read and checked."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import asktell
from asktell import ConfigError, InvalidArgumentError
from asktell.extend import Goal
from asktell_adapters.config.candidates import (
    LLMTables,
    read_candidates,
    read_models,
)
from asktell_adapters.config.data import (
    DataSet,
    Selected,
    items,
    read_examples,
    read_prompts,
)
from asktell_adapters.config.harness import (
    TUNING,
    EvaluatorTable,
    Harness,
    read_harness,
)
from asktell_adapters.config.improve import ImproveTable, Improving, read_improve
from asktell_adapters.config.label import (
    Labels,
    LabelTable,
    check_complete,
    prompts_of,
    read_labels,
)
from asktell_adapters.config.metrics import read_metrics, with_llm
from asktell_adapters.config.model import MODELS, NamedModel
from asktell_adapters.config.setup import describe
from asktell_adapters.config.tables import EXAMPLE_OF_A_PRICE
from asktell_adapters.config.top import TopTable, open_cache, output_of
from asktell_adapters.config.tracker import TrackerTable, read_tracker
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Example, Metric
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.llms.models import Models
from asktell_adapters.llms.prompts import check_fields
from asktell_adapters.metrics import Rouge
from asktell_adapters.optimizers.improving import check_method

# The options of methods, and the methods that have them
_OPTIONS = {
    "confidence": ("auto", "race", "referee"),
    "confidence_kind": ("auto",),
    "each": ("referee",),
}
_NOT_WITH_EVALUATOR = (
    "model",
    "models",
    "metrics",
    "cache",
    "improve",
)
_NOT_WITH_HARNESS = ("candidates", "data")


@final
@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        path: the TOML file.
        output: the run's folder.
        selector: the selector, with prompts, goal, budget and method. No evaluations
            have been asked from it yet.
        dataset: the examples, with their ids.
        metrics: name -> metric. Empty if the file has no table `[metrics]`.
        models: the tables of the LLMs. None if the file has no LLM.
        concurrency: number of evaluations at the same time.
        batch_size: number of trials to pass to the evaluator in one call.
        setup: all settings and data that the outcome of the run depends on, as JSON
            data. A configuration with another set-up describes another run.
        cache: the cache of LLM responses. None if the file has no table `[cache]`.
        confirm_above: the run asks for confirmation if it may cost more than this, in
            the currency of the prices. None: it never asks.
        improving: the table `[improve]` if the file was read for `asktell improve`,
            otherwise None. With this table, `selector` has only the budget for the
            prompts of the file, which are the first generation of prompts.
        harness: the program or tool that evaluates instead of an LLM, from
            `[evaluator]`. None if the file has no such table.
        fields: True if names in braces in prompts are columns of the data, False if
            not, None if they are columns in chats only.
        labels: the table `[label]`, if people give the scores. None otherwise.
        tracker: the table `[tracker]`. None if the file has none.
    """

    path: Path
    output: Path
    selector: asktell.Selector
    dataset: DataSet
    metrics: Mapping[str, Metric]
    models: LLMTables | None
    concurrency: int
    batch_size: int
    setup: Mapping[str, Any]
    cache: AnswerCache | None = None
    confirm_above: float | None = None
    improving: Improving | None = None
    harness: Harness | None = None
    fields: bool | None = None
    labels: Labels | None = None
    tracker: TrackerTable | None = None

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples. An evaluator finds the example of a trial at the index `trial.example`."""
        return self.dataset.examples

    @property
    def is_priced(self) -> bool:
        """True if `[model]` has a price, so that the cost of a run is known."""
        first = None if self.models is None else self.models.first
        return isinstance(first, NamedModel) and first.price_table is not None

    def close(self) -> None:
        """Close the processes and files of the harness. Has no effect without a harness."""
        if self.harness is not None and callable(
            close := getattr(self.harness.evaluator, "close", None)
        ):
            close()

    def driven(self) -> Any:
        """The evaluator to pass to `asktell.run`. It calls the LLM, program or harness of the file.

        Raises:
            ConfigError: people give the scores, so there is no evaluator. Or the LLM or
                a candidate cannot be used.
        """
        if self.labels is not None:
            raise ConfigError(
                f"{self.path.name} has a table [label], so people give the scores. Run `asktell label {self.path}` "
                "instead."
            )
        return self.evaluator() if self.harness is None else self.harness.driven

    def evaluator(self) -> LLMEvaluator | AsyncLLMEvaluator:
        """Load the file's LLM, and return the evaluator that calls it.

        The scores that it returns contain the LLM's response, as `details["output"]`.

        Raises:
            ConfigError: the file has no LLM, or the LLM or a candidate cannot be used.
        """
        if self.models is None:
            raise ConfigError(
                f"{self.path.name} has no table [model], so it has no LLM. Use a file that has [model]."
            )
        # Before the model, which takes longer to load: a package that a metric lacks is
        # missed now.
        for metric in self.metrics.values():
            if isinstance(metric, Rouge):
                metric.score("a", "a")
        # What is the same for all
        model = self.models.first
        with model.named():
            llm = self.models.make(self.concurrency)
            computed = {
                name: with_llm(
                    metric, llm, lambda table: table.make(self.concurrency), self.cache
                )
                for name, metric in self.metrics.items()
            }
            llms = llm.made.values() if isinstance(llm, Models) else [llm]
            is_async = all(
                inspect.iscoroutinefunction(getattr(made_llm, "acomplete", None))
                for made_llm in llms
            )
            kind: type[LLMEvaluator | AsyncLLMEvaluator] = (
                AsyncLLMEvaluator if is_async else LLMEvaluator
            )
            evaluator = kind(
                llm,
                self.examples,
                computed,
                system=model.system,
                template=model.template,
                max_new_tokens=model.max_new_tokens,
                with_cost="cost" not in computed and not self.models.unpriced(),
                temperature=model.temperature,
                seed=self.selector.state.problem.seed,
                cache=self.cache,
                fields=self.fields,
                keep_answers=True,
            )
        if (candidates := self.selector.prompts.candidates) is not None:
            try:
                evaluator.check_prompts(
                    dict(zip(candidates.ids, candidates, strict=True))
                )
            except InvalidArgumentError as error:
                raise ConfigError(f"{self.path.name}, [candidates]: {error}") from error
        with model.named():
            if callable(load := getattr(llm, "load", None)):
                load()
        return evaluator


def configured(
    top: TopTable, data: Mapping[str, Any], *, improve: bool, baseline: str | None
) -> Config:
    """The configuration of a file: its prompts and its dataset are read, and all that needs no model is checked.

    Args:
        top: the file.
        data: the file as it was parsed.
        improve: True for `asktell improve`.
        baseline: id of the prompt in use, for a goal that is relative to it.

    Raises:
        ConfigError: a mistake in the file, or in a file that it refers to.
    """
    if improve:
        _check_improvable(top)

    # The files that it refers to
    table = top.evaluator
    if top.label is not None:
        parts = _parts_of_labels(top, top.label)
    else:
        parts = _parts_of_model(top) if table is None else _parts_of_harness(top, table)
    if top.judge is not None:
        parts = replace(parts, metrics=top.judge.demanded_of(parts.metrics or {}))

    # The selection, which checks the goal, the budget and the method against each other
    goal = top.needed("goal", top.goal).goal(*_computed(parts))
    settings = _settings(top)
    if baseline is not None and "baseline" not in settings:
        settings |= _baseline_of(goal, parts.prompts, baseline)
    with top.named():
        whole = _budget(top, parts)
        # Checked for `asktell run`, too: one file is for both commands.
        improve_table = top.improve or ImproveTable.read(top.config_file, "improve", {})
        improving = read_improve(improve_table, whole, top.seed)
        selector = _selector(
            top, parts, goal, improving.first if improve else whole, settings
        )
        if improve:
            check_method(selector)
        if parts.labels is not None:
            parts.labels.check(selector)
    if top.confirm_above is not None and parts.models is not None:
        place = parts.models.unpriced()
        if place:
            raise top.error("confirm_above", _needs_price(place))
    concurrency, batch_size = _concurrency_and_batch_size(top, parts)
    return Config(
        top.config_file,
        output_of(top),
        selector,
        parts.dataset,
        parts.metrics or {},
        parts.models,
        concurrency,
        batch_size,
        _setup(top, data, parts, settings),
        open_cache(top),
        top.confirm_above,
        improving if improve else None,
        parts.harness,
        parts.fields,
        parts.labels,
        None if top.tracker is None else read_tracker(top.config_file, top.tracker),
    )


def _computed(parts: "_Parts") -> tuple[Mapping[str, Any] | None, str]:
    """The metrics that there are, None where a harness decides that, and where they come from."""
    if parts.labels is None:
        return parts.metrics, "[metrics] has"
    metrics = dict.fromkeys([*parts.labels.metrics, *(parts.metrics or {})])
    return metrics, "[label] and its responses have"


def _baseline_of(goal: Goal, prompts: Selected, baseline: str) -> dict[str, Any]:
    """The setting of a baseline, for a goal that is relative to it. Other goals need none."""
    if all(constraint.of != "baseline" for constraint in goal.constraints):
        return {}
    # Ids of prompts without names are numbers
    ids = {str(id_): id_ for id_, _ in items(prompts)}
    return {"baseline": ids.get(baseline, baseline)}


@dataclass(frozen=True)
class _Parts:
    """The prompts, examples and metrics of a file."""

    dataset: DataSet
    prompts: Selected
    # Whether names in braces in prompts stand for columns; None: in chats only
    fields: bool | None = None
    models: LLMTables | None = None  # None with a harness
    # None with a harness, which has metrics of its own
    metrics: dict[str, Metric] | None = None
    harness: Harness | None = None
    labels: Labels | None = None


def _check_improvable(top: TopTable) -> None:
    """Refuse a file that `asktell improve` cannot run."""
    if top.evaluator is not None:
        raise top.error(
            "evaluator",
            "cannot be used by asktell improve, which shows the responses of the LLM in [model] to a writer. Use "
            "asktell run, or call `improve` of asktell_adapters.optimizers in Python, which takes any evaluator",
        )
    if top.label is not None:
        raise top.error("label", "cannot be used by asktell improve. Use asktell label")
    if top.candidates is not None:
        raise top.error(
            "candidates",
            "cannot be used by asktell improve, which writes prompts for one model. Use asktell run",
        )


def _parts_of_model(top: TopTable) -> _Parts:
    """The parts of a file whose prompts are evaluated with an LLM and the metrics in `[metrics]`."""
    dataset = read_examples(top.needed("data", top.data))
    prompts, fields = _prompts(top, dataset)
    model = top.needed("model", top.model)
    models = read_models(top, model, top.models or {}, prompts)
    metrics = read_metrics(top, top.metrics, dataset.examples, models)
    return _Parts(dataset, prompts, fields, models, metrics)


def _parts_of_labels(top: TopTable, table: LabelTable) -> _Parts:
    """The parts of a file whose responses people label."""
    if top.evaluator is not None:
        raise top.error(
            "label", "cannot be combined with [evaluator]. Remove one of the two"
        )
    if table.responses is None:
        if top.cache is None:
            raise top.mistake(
                "[label] without responses = FILE needs a table [cache], so that no response is paid for twice. "
                "Add it."
            )
        parts = _parts_of_model(top)
        return replace(parts, labels=read_labels(table, parts.dataset))
    for name in ("model", "models", "metrics", "cache", "candidates"):
        if top.has(name):
            raise top.error(
                name,
                "cannot be combined with responses = FILE in [label]. Remove one of the two",
            )
    dataset = read_examples(top.needed("data", top.data))
    labels = read_labels(table, dataset)
    if top.prompts is not None:
        prompts, fields = _prompts(top, dataset)
    else:
        prompts, fields = prompts_of(labels.recorded or {}), None
    check_complete(labels, prompts, dataset)
    return _Parts(dataset, prompts, fields, labels=labels)


def _parts_of_harness(top: TopTable, table: EvaluatorTable) -> _Parts:
    """The parts of a file with `[evaluator]`. The prompts are the file's, or else the harness's own."""
    harness = _harness(top, table)
    if harness.prompts is not None and top.prompts is None:
        return _Parts(harness.dataset, harness.prompts, harness=harness)
    prompts, fields = _prompts(top)
    if fields is not None:
        raise top.mistake(
            "'fields' in [prompts] cannot be combined with [evaluator]. Remove 'fields'."
        )
    return _Parts(harness.dataset, prompts, harness=harness)


def _settings(top: TopTable) -> dict[str, Any]:
    """The selector's settings at the top of the file. Those without a default here are left out unless given."""
    always = ("method", "seed", "sampling", "on_failure", "max_failure_rate")
    optional = (*_OPTIONS, "baseline", "repeats", "inputs")
    return {name: getattr(top, name) for name in (*always, *filter(top.has, optional))}


def _selector(
    top: TopTable,
    parts: _Parts,
    goal: Goal,
    budget: int | asktell.Budget,
    settings: Mapping[str, Any],
) -> asktell.Selector:
    """The selector of a file. Nothing was asked from it yet, but scores of proxies may be recorded."""
    options = _with_method(top, settings)
    if top.features:
        options["features"] = top.features
    if top.profile is not None:
        options["profile"] = top.profile.profile()
    dataset, proxies = parts.dataset, top.proxies
    if proxies is not None:
        proxies.check(parts.metrics)
        options["proxies"] = proxies.names
    selector = asktell.Selector(
        parts.prompts,
        goal,
        budget,
        examples=dataset.ids,
        segments=dataset.segments,
        **options,
    )
    if proxies is not None:
        proxies.observe(selector, dataset)
    return selector


def _concurrency_and_batch_size(top: TopTable, parts: _Parts) -> tuple[int, int]:
    """How many evaluations run at once, and how many are passed to the model in one call."""
    tables = [] if parts.models is None else parts.models.tables.values()
    # An LLM made by a function takes one request at a time
    named = [model for model in tables if isinstance(model, NamedModel)]
    kinds = [MODELS[model.type] for model in named]
    batch_size = max([1, *(model.requests_at_once for model in named)])
    concurrency = top.concurrency or (parts.harness and parts.harness.workers)
    if concurrency is None:
        concurrency = max([batch_size, *(kind.concurrency for kind in kinds)])
    if parts.harness is not None or any(kind.batches_itself for kind in kinds):
        return concurrency, concurrency
    return concurrency, min(batch_size, concurrency)


def _setup(
    top: TopTable, data: Mapping[str, Any], parts: _Parts, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that the outcome of the run depends on, as JSON data."""
    described = {"budget": data["budget"], **settings, "features": top.features}
    if parts.fields is not None:
        described["fields"] = parts.fields
    for name in ("profile", "proxies"):
        if name in data:
            described[name] = data[name]
    if "evaluator" in data:
        described["evaluator"] = {
            name: value
            for name, value in data["evaluator"].items()
            if name not in TUNING
        }
    if parts.labels is not None:
        described["label"] = parts.labels.setup(parts.prompts, parts.dataset)
    model: dict[str, Any] = {}
    if parts.models is not None:  # with the defaults that all models share
        first = parts.models.first
        defaults = {
            "max_new_tokens": first.max_new_tokens,
            "system": first.system,
            "template": first.template,
        }
        model = {**data["model"], **defaults}
    return describe(described, data, model, parts.prompts, parts.dataset)


def _harness(top: TopTable, table: EvaluatorTable) -> Harness:
    """The harness of `[evaluator]`. Tables that it has itself are refused."""
    if top.has("concurrency") and table.has("workers"):
        raise top.error(
            "concurrency",
            "and workers in [evaluator] are the same setting. Remove one of the two",
        )
    for name in (
        *_NOT_WITH_EVALUATOR,
        *(_NOT_WITH_HARNESS if table.command is None else ()),
    ):
        if top.has(name):
            has = (
                "models and metrics"
                if table.command is not None
                else "data, models and metrics"
            )
            raise top.error(
                name,
                f"cannot be combined with [evaluator], which has {has} of its own. Remove one of the two",
            )
    if top.has("confirm_above"):
        raise top.error(
            "confirm_above",
            "cannot be combined with [evaluator], because the price of its evaluations is not known before they are "
            "made. To limit what the run spends, use budget = { cost = ... } instead",
        )
    with top.named():
        return read_harness(table, top.data)


def _prompts(
    top: TopTable, dataset: DataSet | None = None
) -> tuple[Selected, bool | None]:
    """The prompts or the candidates, and whether names in braces in them are columns; `dataset`: to be checked by."""
    candidates = top.candidates
    if candidates is not None and top.prompts is None:
        return read_candidates(candidates, None), None
    table = top.needed("prompts", top.prompts)
    has_none = (
        candidates is not None
        and candidates.has("prompt")
        and not (table.has("file") or table.has("texts"))
    )
    prompts = None if has_none else read_prompts(table)
    if candidates is not None:
        return read_candidates(candidates, prompts), table.fields
    assert prompts is not None
    if dataset is not None:
        with table.named():
            check_fields(prompts, dataset.examples, table.fields)
    return prompts, table.fields


def _budget(top: TopTable, parts: _Parts) -> int | asktell.Budget:
    """The budget, in evaluations, money or both.

    Raises:
        ConfigError: the budget is in money and a price is missing.
    """
    assert top.budget is not None, "load_config has checked it"
    if isinstance(top.budget, int):
        return top.budget
    table = top.budget
    with table.named():
        budget = asktell.Budget(**table.model_dump(exclude_unset=True))
    if (
        budget.cost is not None
        and parts.models is not None
        and "cost" not in (parts.metrics or {})
    ):
        place = parts.models.unpriced()
        if place:
            raise table.error("cost", _needs_price(place))
    return budget


def _needs_price(place: str) -> str:
    """The advice to add a price."""
    return f"is a limit on costs, which are not known. Give {place} a price, {EXAMPLE_OF_A_PRICE}"


def _with_method(top: TopTable, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the method and its options, if it has any."""
    options = {key: settings[key] for key in _OPTIONS if key in settings}
    rest = {key: value for key, value in settings.items() if key not in options}
    if not options:
        return rest
    name = settings["method"]
    for key in options:
        if name not in _OPTIONS[key]:
            *others, last = map(repr, _OPTIONS[key])
            methods = f"{', '.join(others)} or {last}" if others else last
            raise top.error(
                key,
                f"works with method = {methods} only, but method is {name!r}. Remove it, or change method",
            )
    kinds: dict[str, Any] = {
        "auto": asktell.Adaptive,
        "race": asktell.Race,
        "referee": asktell.Referee,
    }
    return {**rest, "method": kinds[name](**options)}
