"""The tables `[candidates]` and `[models]`: combinations of models, prompts and settings, and the LLMs they need."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

from asktell import Candidates, grid
from asktell.extend import nearest
from asktell_adapters.config.data import Prompts
from asktell_adapters.config.model import (
    MODELS,
    ModelTable,
    NamedModel,
    options_of,
    read_model,
)
from asktell_adapters.config.tables import Table, key, listed
from asktell_adapters.llms.models import Models
from asktell_adapters.tables import datasets

_NAME_OF_A_FILE = re.compile(r"[^\s\0]{1,200}\.\w+")


class CandidatesTable(Table):
    """Factors, whose combinations are the candidates. A factor may have any name."""

    model_config: ClassVar[Any] = {"extra": "allow"}
    model: list[str] | dict[str, str] | None = key(
        None,
        "The models. Each may have a table in [models](#models).",
        said="that of `[model]`",
        expected="a list of models, or a table name = model",
    )
    prompt: list[Any] | dict[str, Any] | None = key(
        None,
        'The prompts, as texts or chats. A table gives them names: `{ short = "Be brief.", long = "..." }`.',
        said="those of `[prompts]`",
        expected="a list of prompts, or a table name = prompt",
    )
    temperature: list[float] | None = key(
        None,
        "Values of this setting. You may also give values of `max_new_tokens`, `system` and `template`, of every "
        "[option of the LLM's type](#model), and of settings of requests, such as `top_p`.",
        said="that of `[model]`",
        expected="a list of numbers",
    )
    files: list[str] | None = key(
        None,
        "Factors whose values are names of files. A name stands for the text of the file when the run starts, and "
        '`""` for an empty text.',
        expected="a list of factors",
    )
    exclude: list[dict[str, Any]] = key(
        [],
        'Combinations to leave out: `[{ model = "a", prompt = ["short", "long"] }]`, by values or their names.',
        expected="a list of tables factor = value, or = a list of values",
    )

    @property
    def factors(self) -> dict[str, Any]:
        """The values of each factor, as a list or by their names. Files are read."""
        factors = self.model_dump(exclude_unset=True, exclude={"exclude", "files"})
        for name in self.files or ():
            if not isinstance(factors.get(name), list | dict):
                raise self.error(
                    "files",
                    f"has {name!r}, which is not a factor with a list of files{nearest(name, list(factors))}",
                )
            factors[name] = self._read(name, factors[name])
        if self.files is None:
            self._check_no_files(factors)
        return factors

    def _read(self, factor: str, values: Any) -> dict[str, str]:
        """The text of each file, by the name of its level. By default the file's name, or "none" without a file."""
        named = (
            values.items()
            if isinstance(values, dict)
            else [(value or "none", value) for value in values]
        )
        texts: dict[str, str] = {}
        for name, value in named:
            if not isinstance(value, str):
                raise self.error(
                    factor,
                    "is in `files`, so its values must be file names",
                    value,
                )
            if name in texts:
                raise self.error(factor, "must have each value only once", value)
            try:
                # "-sig" leaves out the byte order mark of editors on Windows
                texts[name] = (
                    self.beside(value).read_text(encoding="utf-8-sig") if value else ""
                )
            except UnicodeDecodeError as error:
                raise self.error(
                    factor,
                    f"has the file {value!r}, which is not UTF-8 at byte {error.start}. Save the file as UTF-8",
                ) from error
            except (OSError, ValueError) as error:  # the latter of a NUL in the name
                why = getattr(error, "strerror", None) or str(error)
                raise self.error(
                    factor,
                    f"has the file {value!r}, which cannot be read ({why}). Correct the path, or make the file "
                    "readable",
                ) from error
        return texts

    def _check_no_files(self, factors: Mapping[str, Any]) -> None:
        """Refuse the name of a file as a text of its own, which is hardly ever meant: its text could change later."""
        for factor, values in factors.items():
            if factor in ("model", "prompt") or not isinstance(values, list | dict):
                continue
            for text in values.values() if isinstance(values, dict) else values:
                if (
                    isinstance(text, str)
                    and _NAME_OF_A_FILE.fullmatch(text)
                    and self.beside(text).is_file()
                ):
                    raise self.error(
                        factor,
                        f"has {text!r}, which is the name of a file. To use the text of the file, add "
                        f"files = [{json.dumps(factor)}] to [candidates]. To use the name itself, add files = []",
                    )


def read_candidates(table: CandidatesTable, prompts: Prompts | None) -> Candidates:
    """The candidates of `[candidates]`. The prompts of `[prompts]`, if any, are their factor "prompt"."""
    factors = table.factors
    if "where" in factors:
        raise table.error(
            "where",
            "is not a factor. To leave combinations out, use exclude = [{ factor = value }]",
        )
    with table.named():
        if "prompt" in factors:
            if prompts is not None:
                raise table.error(
                    "prompt",
                    "cannot be combined with the prompts of [prompts]. Remove one of the two",
                )
            prompts = datasets.prompts_of(factors["prompt"])
        factors |= {} if prompts is None else {"prompt": prompts}
        combinations = grid(
            **{
                name: factors[name]
                for name in dict.fromkeys(("model", "prompt", *factors))
                if name in factors
            }
        )
    rules = [_rule(table, combinations, exclusion) for exclusion in table.exclude]
    remaining = [
        i
        for i, names in enumerate(combinations.levels)
        if not any(_matches(names, rule) for rule in rules)
    ]
    if not remaining:
        raise table.error(
            "exclude",
            f"excludes all {len(combinations):,} combinations. Exclude fewer of them",
        )
    return combinations.part(remaining)


def _rule(
    table: CandidatesTable, candidates: Candidates, exclusion: Mapping[str, Any]
) -> dict[int, set[str]]:
    """The levels to leave out, by the position of their factor.

    Raises:
        ConfigError: there is no such factor or level.
    """
    rule = {}
    for factor, wanted in exclusion.items():
        if factor not in candidates.factors:
            factors = list(candidates.factors)
            raise table.error(
                "exclude",
                f"has {factor!r}, which is not a factor{nearest(factor, factors)}. Use one of the factors "
                f"{listed(factors)}",
            )
        levels = candidates.factors[factor]
        chosen: set[str] = set()
        for excluded in wanted if isinstance(wanted, list) else [wanted]:
            meant = {
                level for level, value in levels.items() if excluded in (level, value)
            }
            if not meant:
                raise table.error(
                    "exclude",
                    f"must have values of {factor!r}, which are {listed(list(levels))}",
                    excluded,
                )
            chosen |= meant
        rule[list(candidates.factors).index(factor)] = chosen
    return rule


def _matches(names: tuple[str, ...], rule: Mapping[int, set[str]]) -> bool:
    """Whether a combination has a level to leave out in every factor of the rule."""
    return all(names[place] in levels for place, levels in rule.items())


@final
@dataclass(frozen=True)
class LLMTables:
    """The tables of all LLMs of a file."""

    # Of each LLM, by the factors that it is made with, as JSON
    tables: Mapping[str, ModelTable]
    takes: frozenset[str]  # the names of these factors; empty where there is one LLM

    @property
    def first(self) -> ModelTable:
        """The table of the first LLM. Keys that do not depend on the LLM are the same in all tables."""
        return next(iter(self.tables.values()))

    def unpriced(self, loaded: bool = True) -> str:
        """The table that lacks a price, or an empty text if none does.

        Without `loaded`, LLMs made by a function are left out, since they may have a
        price of their own.
        """
        for name, table in self.tables.items():
            if table.has_price or not (loaded or isinstance(table, NamedModel)):
                continue
            model = json.loads(name).get("model")
            return "[model]" if model is None else f"[models.{json.dumps(model)}]"
        return ""

    def make(self, concurrency: int) -> Any:
        """Make the LLM, or one object that sends each request to its LLM."""
        if not self.takes:
            return self._make(concurrency)
        # Which can be pickled
        models = Models(partial(self._make, concurrency), self.takes)
        for client in self.tables:
            models.of(json.loads(client))
        return models

    def _make(self, concurrency: int, **client: Any) -> Any:
        """Make the LLM of these factors."""
        return self.tables[_name_of(client)].make(concurrency)


def _name_of(client: Mapping[str, Any]) -> str:
    """A name for the factors that an LLM is made with: the same for the same factors."""
    return json.dumps(client, sort_keys=True)


def read_models(
    top: Table, given: Mapping[str, Any], own: Mapping[str, Any], candidates: Any
) -> LLMTables:
    """The tables of all LLMs: `[model]`, with what candidates and `[models]` change in it.

    Args:
        top: the top of the file.
        given: the table `[model]`.
        own: the table `[models]`.
        candidates: the candidates, or the prompts of a file that has no candidates.

    Raises:
        ConfigError: `[model]`, `[models]` and the candidates contradict each other, or
            a table is wrong.
    """
    factors = candidates.factors if isinstance(candidates, Candidates) else {}
    _check_names(top, given, own, list(map(str, factors.get("model", {}).values())))
    # Factors that an LLM is made with. All others are settings of its requests.
    kinds = {str(model.get("type")) for model in (given, *own.values())}
    options = {"model"}
    for kind in kinds if factors else ():
        if kind in MODELS:
            with top.named():
                options.update(options_of(MODELS[kind].table))
    takes = frozenset(options & set(factors))
    tables: dict[str, ModelTable] = {}
    for candidate in candidates if takes else [{}]:
        client = {
            name: candidate[name]
            for name in sorted(takes)
            if candidate[name] is not None
        }
        if _name_of(client) in tables:
            continue
        model = client.get("model")
        title = f"models.{model}" if model in own else "model"
        table = _with_factors(given, own.get(str(model), {}), client)
        tables[_name_of(client)] = read_model(top.config_file, title, table)
    _check_currencies(top, tables.values())
    return LLMTables(tables, takes)


def _check_names(
    top: Table, model: Mapping[str, Any], models: Mapping[str, Any], names: list[str]
) -> None:
    """Refuse a `[model]` and `[models]` that do not fit the names of the models in `[candidates]`."""
    if unused := [name for name in models if name not in names]:
        raise top.mistake(
            f"[models] has {unused[0]!r}, which is not a model in [candidates]. The models there are "
            f"{listed(names) or 'missing. Add model = [...]'}."
        )
    if "model" in model and names:
        raise top.mistake(
            "'model' is in [model] and in [candidates]. Remove it from [model]."
        )
    for name, table in models.items():
        if not isinstance(table, dict):
            raise top.mistake(
                f"{name!r} in [models] must be a table of keys of [model]."
            )
        if common := [key for key in table if key in ModelTable.model_fields]:
            raise top.mistake(
                f"{common[0]!r} in [models] must be the same for all models. Move it to [model]."
            )


def _with_factors(
    model: Mapping[str, Any], models: Mapping[str, Any], client: Mapping[str, Any]
) -> dict[str, Any]:
    """The table of one LLM: `[model]`, what `[models]` changes in it, and the factors that the LLM is made with."""
    table = {**model, **models}
    if "loader" in table:
        table.pop("model", None)
        return {**table, "arguments": {**table.get("arguments", {}), **client}}
    if "model" in models:
        # The name that the API knows, where the candidates have a shorter one
        client = {**client, "model": models["model"]}
    return {**table, **client}


def _check_currencies(top: Table, models: Iterable[ModelTable]) -> None:
    """Refuse prices in several currencies, which cannot be added."""
    prices = [model.price_table for model in models if isinstance(model, NamedModel)]
    currencies = {price.currency for price in prices if price is not None}
    if len(currencies) > 1:
        raise top.mistake(
            f"The prices of the models must have the same currency, but they have {listed(sorted(currencies))}. Set "
            "the same `currency` in each price."
        )
