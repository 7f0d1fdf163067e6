"""A choice among judges, as `asktell judge` makes it: a selection whose candidates are judges.

The examples are responses with labels by people, and the objective is the agreement
with the labels. So the choice is a run like any other, described by a `Config`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import asktell
from asktell import Candidates, Trial, grid
from asktell.extend import Goal, nearest, parse_goal, short
from asktell_adapters._util.scores import Scores, in_groups
from asktell_adapters.config.config import Config
from asktell_adapters.config.data import digest, items, read_examples
from asktell_adapters.config.harness import Harness
from asktell_adapters.config.label import LabelTable
from asktell_adapters.config.labeled import OTHER, LabeledResponses
from asktell_adapters.config.licence import LicenceTable
from asktell_adapters.config.metrics import (
    METRICS,
    OF_THE_JUDGE,
    JudgeTable,
    PlannedLLM,
    read_judge,
    turned_on,
    with_llm,
)
from asktell_adapters.config.model import MODELS, ModelTable, NamedModel, read_model
from asktell_adapters.config.secret_check import refuse_secrets
from asktell_adapters.config.setup import describe
from asktell_adapters.config.tables import listed
from asktell_adapters.config.top import TopTable, open_cache, output_of, parse
from asktell_adapters.llms.base import Completion
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.metrics import Judge, Judgement, Preference
from asktell_adapters.metrics.licence import (
    ACCURACY,
    KAPPA,
    Licence,
    check_labels,
    grade_of,
    passing,
    scale_of,
)
from asktell_adapters.tables.rows import Table as Rows

AGREEMENT, FALSE_PASSES, FALSE_FAILS, COST = "agreement", "false_passes", "false_fails", "cost"  # fmt: skip
"""The metrics of judges."""
GRADE = "grade"
"""Key of the details of an evaluation: the judge's grade."""

_LONGEST_LEVEL = 60  # characters of a value that is its own name


@final
class Judges:
    """The evaluator of judges: each trial is a judge and a labeled response.

    Args:
        planned: the judges by their ids, without their LLMs.
        labeled: the responses and their labels.
        measure: "accuracy" or "weighted kappa".
        pass_at: lowest grade with which a response passes.
        run_llm: makes the LLM of judges without one of their own.
        concurrency: number of requests at the same time.
        cache: the cache of replies. None for none.
    """

    def __init__(
        self,
        planned: Mapping[str, Judge | Preference],
        labeled: LabeledResponses,
        measure: str,
        pass_at: float,
        run_llm: Callable[[], Any],
        concurrency: int,
        cache: AnswerCache | None,
    ) -> None:
        self._planned, self._labeled = planned, labeled
        self._run_llm, self._concurrency, self._cache = run_llm, concurrency, cache
        self.measure, self.pass_at = measure, pass_at
        self.scale = _scale(next(iter(planned.values())))

    @cached_property
    def judges(self) -> dict[str, Judge | Preference]:
        """The judges with their LLMs, by their ids. Equal models are loaded once."""
        loaded: dict[str, Any] = {}

        def make(table: ModelTable) -> Any:
            key = json.dumps(table.model_dump(exclude_unset=True), sort_keys=True, default=str)  # fmt: skip
            if key not in loaded:
                loaded[key] = table.make(self._concurrency)
            return loaded[key]

        needs_llm = any(not _models(judge) for judge in self._planned.values())
        llm = self._run_llm() if needs_llm else None
        judges = {
            name: with_llm(judge, llm, make, self._cache)
            for name, judge in self._planned.items()
        }
        if callable(load := getattr(llm, "load", None)):
            load()
        return judges

    def keep_replies(self, name: str, path: Path) -> None:
        """From now on, store the replies to a judge in a file, unless the cache of the run stores them."""
        if self._cache is None:
            judge = _grader(self.judges[name])
            judge.ask(judge.llms, AnswerCache(path))

    def evaluate_batch(
        self, trials: Sequence[Trial], repeats: Sequence[int] = ()
    ) -> list[Scores | Exception]:
        """The agreement of judges with labels, or an exception where a judge gave no grade."""
        return in_groups(trials, lambda trial: trial.prompt_id, self._evaluate)

    def _evaluate(self, trials: list[Trial]) -> list[Scores | Exception]:
        """The evaluations of one judge."""
        judge = self.judges[str(trials[0].prompt_id)]
        rows = [trial.example or 0 for trial in trials]
        judged = judge.score_all(
            [
                (Completion(self._labeled.responses[i]), self._labeled.dataset.examples[i], 0, None)
                for i in rows
            ]
        )  # fmt: skip
        return [
            score if isinstance(score, Exception) else self._scores(score, i)
            for score, i in zip(judged, rows, strict=True)
        ]

    def _scores(self, judgement: Judgement, row: int) -> Scores:
        """The scores of one judgement."""
        label, scale = self._labeled.labels[row], self.scale
        grade = grade_of(float(judgement), scale)
        passes, right = grade >= self.pass_at, label >= self.pass_at
        price = float(judgement.details.get("price", 0.0))
        agreement = (
            float(passes == right)
            if self.measure == ACCURACY
            else 1.0 - abs(grade - label) / (scale[-1] - scale[0])
        )
        details = {
            GRADE: grade,
            "label": label,
            COST: price,
            "output": "\n".join(judgement.details.get("reasons", ())),
        }
        scores = {
            AGREEMENT: agreement,
            FALSE_PASSES: float(passes and not right),
            FALSE_FAILS: float(right and not passes),
            COST: price,
        }
        return Scores(scores, details, judgement.cost)


@final
@dataclass(frozen=True)
class Judging:
    """A choice among judges, read and checked.

    Attributes:
        config: the choice, as a run.
        table: the table `[judge]`.
        labeled: the responses and their labels.
        judges: the evaluator.
        changes: id of a judge -> the keys of its table that differ from `[metrics]`.
        title: name of the judge's table, such as "metrics.quality".
        is_priced: whether the price of every judge is known.
    """

    config: Config
    table: LicenceTable
    labeled: LabeledResponses
    judges: Judges
    changes: Mapping[str, Mapping[str, Any]]
    title: str
    is_priced: bool

    def licence(
        self, name: str, grades: Mapping[int, float | None], cost: float | None
    ) -> Licence:
        """The licence of a judge.

        Args:
            name: its id.
            grades: position of a labeled response -> grade, None where the judge gave
                none. It has all labeled responses.
            cost: mean cost of a judgment.
        """
        judge = self.judges.judges[name]
        return Licence.measured(
            name,
            " and ".join(map(_name_of, _llms(judge))),
            judge.digests,
            self.labeled.labels,
            [grades[row] for row in range(len(self.labeled.labels))],
            self.judges.scale,
            measure=self.judges.measure,
            pass_at=self.judges.pass_at,
            prompts=self.labeled.prompts,
            candidates=len(self.changes),
            cost=cost,
        )


def load_judging(path: Path, labels: Path) -> Judging:
    """Read a configuration and labels, and check everything that needs no model.

    Args:
        path: the TOML file. It has a judge in `[metrics]`, and perhaps `[judge]`. Its
            other tables are used only if the labels need `[data]`, or the judge needs
            `[model]`.
        labels: the table of labels.

    Raises:
        ConfigError: a mistake in the file, or in a file that it refers to.
        InvalidArgumentError: the labels cannot be used.
    """
    # Secrets are refused first, since later errors repeat values
    data = parse(path)
    refuse_secrets(path.name, data)
    top = TopTable.read(path, "", data)
    table = top.judge or LicenceTable.read(path, "judge", {})
    entries, base = _entries(top, table)
    prompts = _candidates(table, base, entries)
    changed = {
        name: _changed(top, table, base, prompts, name)
        for name in (str(id_) for id_, _ in items(prompts))
    }  # fmt: skip
    title = f"metrics.{base}" if base else "metrics"
    tables = {
        name: _judge_table(top, title if base else f"metrics.{name}", entries[base or name], keys)
        for name, keys in changed.items()
    }  # fmt: skip
    planned = {name: _planned(top, of_judge) for name, of_judge in tables.items()}
    scale = _one_scale(table, planned)
    labeled = _labeled(top, table, planned, scale, labels)
    for name, of_judge in tables.items():
        _check(of_judge, planned[name], labeled)
    measure, pass_at = _measure(table, scale, labeled.labels)
    models = [model for judge in planned.values() for model in _models(judge)]
    if any(not _models(judge) for judge in planned.values()):
        models.append(_run_model(top, title))
    is_priced = all(model.has_price for model in models)
    concurrency = top.concurrency or max(map(_at_once, models))
    judges = Judges(
        planned, labeled, measure, pass_at,
        lambda: _run_model(top, title).make(concurrency), concurrency, open_cache(top),
    )  # fmt: skip
    n_labels, n_judges = len(labeled.labels), len(planned)
    with table.named():
        goal = _goal(table, is_priced)
        budget = _budget(table, n_labels, n_judges)
        selector = asktell.Selector(
            prompts, goal, budget, examples=labeled.dataset.ids, seed=top.seed,
            # A judge that gives no grade does not agree
            on_failure=dict.fromkeys(goal.metrics, 0.0),
        )  # fmt: skip
    output = output_of(top)
    settings = {
        "budget": budget,
        "seed": top.seed,
        "judges": {name: digest([entries[base or name], keys]) for name, keys in changed.items()},
        "pass_at": pass_at,
    }  # fmt: skip
    config = Config(
        path, output.with_name(f"{output.name}-judges"), selector, labeled.dataset, {}, None, concurrency, concurrency,
        describe(settings, {"goal": {"at_most": table.at_most}}, {}, prompts, labeled.dataset),
        harness=Harness(judges, labeled.dataset), confirm_above=top.confirm_above,
    )  # fmt: skip
    changes = {
        name: {
            key: value
            for key, value in keys.items()
            if entries[base or name].get(key) != value
        }
        for name, keys in changed.items()
    }
    return Judging(config, table, labeled, judges, changes, title, is_priced)


def _entries(
    top: TopTable, table: LicenceTable
) -> tuple[dict[str, dict[str, Any]], str]:
    """The tables of all judges in `[metrics]`, and the name of the one whose variants are compared.

    The name is empty if the judges in `[metrics]` are compared with each other.
    """
    written = {
        name: {} if entry is True else entry
        for name, entry in turned_on(top.metrics or {})
    }
    entries = {
        name: {**entry}
        for name, entry in written.items()
        if isinstance(entry, dict) and _kind(name, entry) in ("judge", "preference")
    }
    if len(entries) > 1 and not table.candidates and table.metric is None:
        return entries, ""
    return entries, table.name_of_judge(entries)


def _kind(name: str, entry: Mapping[str, Any]) -> str:
    """The name of a metric, as `[metrics]` gives it."""
    return str(entry.get("metric") or entry.get("type", name))


def _candidates(
    table: LicenceTable, base: str, entries: Mapping[str, Any]
) -> dict[str, str] | Candidates:
    """The judges to choose among: combinations of factors, or else the judges in `[metrics]`."""
    if not table.candidates:
        names = [base] if base else list(entries)
        return {name: name for name in names}
    factors: dict[str, Any] = {
        factor: {level: level for level in _levels(table, factor, values)}
        for factor, values in table.candidates.items()
    }
    with table.named():
        return grid(**factors)


def _levels(table: LicenceTable, factor: str, values: Any) -> dict[str, Any]:
    """The values of a factor by their names.

    Raises:
        ConfigError: there are none, or a value needs a name.
    """
    place = f"has the factor {factor!r}, which"
    if isinstance(values, dict) and values:
        return values
    if not isinstance(values, list) or not values:
        raise table.error(
            "candidates", f"{place} must be a list of values, or a table NAME = value", values
        )  # fmt: skip
    levels: dict[str, Any] = {}
    for value in values:
        is_plain = isinstance(value, str | int | float | bool)
        name = str(value)
        if not is_plain or len(name) > _LONGEST_LEVEL or not name.isprintable():
            raise table.error(
                "candidates",
                f"{place} has a value without a short name. Write {factor} = {{ NAME = value, ... }}",
                value,
            )
        if name in levels:
            raise table.error("candidates", f"{place} has the value {name!r} twice")
        levels[name] = value
    return levels


def _changed(
    top: TopTable,
    table: LicenceTable,
    base: str,
    prompts: Mapping[str, str] | Candidates,
    name: str,
) -> dict[str, Any]:
    """The keys of a judge's table that a combination of factors sets."""
    if not isinstance(prompts, Candidates):
        return {}
    position = list(prompts.ids).index(name)
    keys: dict[str, Any] = {}
    for factor, level in prompts[position].items():
        value = _levels(table, factor, table.candidates[factor])[str(level)]
        if factor == "model":
            keys["model"] = _model(top, table, base, value)
        elif factor in JudgeTable.model_fields:
            keys[factor] = value
        elif isinstance(value, dict):
            keys |= value
        else:
            raise table.error(
                "candidates",
                f"has the factor {factor!r}, which is not a key of a judge"
                f"{nearest(factor, list(JudgeTable.model_fields))}. A factor of your own needs a table NAME = {{ KEY = "
                "value, ... }} with keys of the judge",
            )
    return keys


def _model(top: TopTable, table: LicenceTable, base: str, value: Any) -> Any:
    """The table of a judge's model: a name replaces that in the judge's own table, or else in `[model]`."""
    if isinstance(value, list) or (
        isinstance(value, dict) and ("type" in value or "loader" in value)
    ):
        return value
    entry = (top.metrics or {}).get(base)
    of_judge = entry.get("model") if isinstance(entry, dict) else None
    of_run = {
        name: option
        for name, option in (top.model or {}).items()
        if name not in OF_THE_JUDGE
    }
    shared = of_judge if isinstance(of_judge, dict) else of_run
    if not shared:
        raise table.error(
            "candidates",
            f"has the model {short(value)}, but neither [metrics.{base}.model] nor [model] has its type. Write model = "
            '{ NAME = { type = "openai", model = "..." }, ... }',
        )
    return {**shared, **(value if isinstance(value, dict) else {"model": value})}


def _judge_table(
    top: TopTable, title: str, entry: Mapping[str, Any], keys: Mapping[str, Any]
) -> JudgeTable:
    """The table of one judge, checked."""
    values = {**entry, **keys}
    kind = values.pop("metric", None) or values.pop("type", title.partition(".")[2])
    row: Any = METRICS[str(kind)].table
    read: JudgeTable = row.read(top.config_file, title, values)
    return read


def _planned(top: TopTable, table: JudgeTable) -> Judge | Preference:
    """The judge of a table. A preference compares with a column of the labels."""
    judge = read_judge(table, ())
    if isinstance(judge, Preference):
        return Preference(judge.judge, OTHER, name=judge.name)
    return judge


def _grader(judge: Judge | Preference) -> Judge:
    """The judge that asks the LLMs."""
    return judge.judge if isinstance(judge, Preference) else judge


def _llms(judge: Judge | Preference) -> Sequence[Any]:
    return _grader(judge).llms


def _models(judge: Judge | Preference) -> Sequence[ModelTable]:
    """The tables of a judge's own models. Empty if it uses the model of the run."""
    (llm,) = _llms(judge)
    return llm.models if isinstance(llm, PlannedLLM) else ()


def _name_of(llm: Any) -> str:
    """The name of a model. Neither a path nor an address is a part of it."""
    model = llm.identity().get("model")
    is_name = isinstance(model, str) and not Path(model).is_absolute()
    return str(model) if is_name else type(llm).__name__


def _scale(judge: Judge | Preference) -> tuple[float, ...]:
    """The grades of a judge."""
    return scale_of(*judge.range, _grader(judge).rubric.pairwise)


def _one_scale(
    table: LicenceTable, judges: Mapping[str, Judge | Preference]
) -> tuple[float, ...]:
    """The scale of all judges.

    Raises:
        ConfigError: they have several.
    """
    scales = {name: _scale(judge) for name, judge in judges.items()}
    first, scale = next(iter(scales.items()))
    for name, other in scales.items():
        if other != scale:
            raise table.mistake(
                f"The judges to choose among must have one scale, which is that of the labels. {first!r} has the "
                f"grades {scale[0]:g} to {scale[-1]:g}, but {name!r} has {other[0]:g} to {other[-1]:g}, or "
                "compares. Set the same scale."
            )
    return scale


def _labeled(
    top: TopTable,
    table: LicenceTable,
    judges: Mapping[str, Judge | Preference],
    scale: Sequence[float],
    path: Path,
) -> LabeledResponses:
    """The labeled responses, with the examples of `[data]` and recorded responses if they are there."""
    columns = {judge.against for judge in judges.values()} - {None}
    if len(columns) > 1:
        raise table.mistake(
            f"The judges compare with several columns, {listed(sorted(map(str, columns)))}. Set the same `against`."
        )
    against = next(iter(columns), None)
    file, beside = table.responses, table.beside
    label: LabelTable | None = top.label
    if file is None and label is not None and label.responses is not None:
        file, beside = label.responses, label.beside
    data = top.data
    return LabeledResponses(
        path,
        scale,
        dataset=None if data is None else lambda: read_examples(data),
        recorded=None if file is None else lambda: _recorded(beside(file)),
        against=None if against is None else str(against),
    )


def _recorded(path: Path) -> dict[tuple[str, str], str]:
    """Recorded responses, by prompt and example."""
    columns = ("prompt", "example", "response")
    return {
        (str(row.values["prompt"]), str(row.values["example"])): str(
            row.values["response"]
        )
        for row in Rows(path, columns).rows
        if all(row.values.get(name) is not None for name in columns)
    }


def _check(
    table: JudgeTable, judge: Judge | Preference, labeled: LabeledResponses
) -> None:
    """Refuse a judge that needs references which the labels lack, or that was shown a labeled response.

    Raises:
        ConfigError: so it is.
    """
    if table.reference and any(
        example.reference is None for example in labeled.dataset.examples
    ):
        raise table.error(
            "reference",
            "is true, but some labeled responses have no reference. Add a column 'reference' to the labels",
        )
    pairs = {
        (example.input, response)
        for example, response in zip(
            labeled.dataset.examples, labeled.responses, strict=True
        )
    }
    for shot in table.shots or ():
        if (shot.input, shot.answer) in pairs:
            raise table.error(
                "shots",
                f"has a response that is also labeled ({short(shot.answer)}). A judge agrees with what it was shown. "
                "Leave it out of the shots or of the labels",
            )


def _measure(
    table: LicenceTable, scale: Sequence[float], labels: Sequence[float]
) -> tuple[str, float]:
    """How agreement is measured, and the lowest grade with which a response passes."""
    if table.pass_at is not None and not scale[0] < table.pass_at <= scale[-1]:
        raise table.error(
            "pass_at",
            f"must be above {scale[0]:g}, the worst grade, and at most {scale[-1]:g}, the best",
            table.pass_at,
        )
    pass_at = passing(scale) if table.pass_at is None else table.pass_at
    is_binary = table.pass_at is not None or len(scale) == 2 or len(set(labels)) <= 2
    measure = ACCURACY if is_binary else KAPPA
    with table.named():
        check_labels(labels, measure, pass_at)
    return measure, pass_at


def _run_model(top: TopTable, title: str) -> ModelTable:
    """The model of the run, for judges without one.

    Raises:
        ConfigError: there is none.
    """
    if top.model is None or top.models or (top.candidates and top.candidates.has("model")):  # fmt: skip
        raise top.mistake(
            "The judge needs an LLM of its own, because there is no single one in [model]. Add the table "
            f"[{title}.model]."
        )
    return read_model(top.config_file, "model", top.model)


def _at_once(model: ModelTable) -> int:
    """Number of requests to a model at the same time."""
    if not isinstance(model, NamedModel):
        return 1
    return max(model.requests_at_once, MODELS[model.type].concurrency)


def _goal(table: LicenceTable, is_priced: bool) -> Goal:
    """Maximize the agreement, under the bounds of the table."""
    limited = (COST, FALSE_PASSES, FALSE_FAILS)
    for name in table.at_most:
        if name not in limited:
            raise table.error(
                "at_most",
                f"has {name!r}, which is not a metric of judges{nearest(name, limited)}. Use {listed(list(limited))}",
            )
    if COST in table.at_most and not is_priced:
        raise table.error(
            "at_most",
            "bounds the cost, which is not known. Give each model of a judge a price, such as price = { input = 0.15, "
            "output = 0.6 }",
        )
    ranges = {AGREEMENT: (0.0, 1.0)}
    for name in (FALSE_PASSES, FALSE_FAILS):
        if name in table.at_most:
            ranges[name] = (0.0, 1.0)
    return parse_goal("best-feasible", [AGREEMENT], [], {}, dict(table.at_most), ranges)


def _budget(table: LicenceTable, n_labels: int, n_judges: int) -> int:
    """Number of judgments before the choice. Those that complete the judge to take are kept back."""
    everything = n_labels * n_judges
    if table.budget is None or table.budget >= everything:
        return everything
    if table.budget < n_labels + n_judges:
        raise table.error(
            "budget",
            f"must be at least {n_labels + n_judges:,}: one judgment of each judge, and all {n_labels:,} labels by the "
            "judge to take",
            table.budget,
        )
    return table.budget - n_labels


__all__ = ["AGREEMENT", "COST", "GRADE", "Judges", "Judging", "load_judging"]
