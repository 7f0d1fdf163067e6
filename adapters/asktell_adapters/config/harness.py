"""The table `[evaluator]`: a harness, or an evaluator of one's own, with data, models and metrics that are its own."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from asktell_adapters.config.data import DataSet, Prompts
from asktell_adapters.config.loaders import call_named
from asktell_adapters.config.tables import KEYS, Table, listed
from asktell_adapters.llms.base import Example

_INSTEAD = ("data", "model", "metrics", "cache", "improve", "confirm_above")


@final
@dataclass(frozen=True)
class Harness:
    """What scores prompts by itself.

    Attributes:
        evaluator: with `evaluate_batch(trials)`.
        dataset: its examples; their inputs are texts to know them by.
        prompts: its own; None where it has none.
        repeatable: whether an evaluation gives the same scores when it is repeated; False: unknown.
    """

    evaluator: Any
    dataset: DataSet
    prompts: Prompts | None = None
    repeatable: bool = False

    def evaluate_batch(self, trials: Sequence[Any], repeats: Sequence[int] = ()) -> Sequence[Any]:
        """Scores or an exception for each trial. Repeats are evaluated like the first."""
        found: Sequence[Any] = self.evaluator.evaluate_batch(trials)
        return found


def read_harness(top: Table) -> Harness | None:
    """What `[evaluator]` names, made; None without that table.

    Raises:
        ConfigError: there is a mistake in the table, or another table stands beside it that it replaces.
        InvalidArgumentError: the harness refuses what it was given.
        MissingExtraError: the harness is not installed.
    """
    if "evaluator" not in top:
        return None
    for name in _INSTEAD:
        if name in top:
            raise top.error(name, "does not go with [evaluator], which has data, models and metrics of its own")
    table = top.table("evaluator", KEYS["evaluator"])
    if ("type" in table) == ("loader" in table):
        raise table.error("type", f"or a loader is needed; a type is one of {listed(list(_TYPES))}")
    kind = table.take("type", "text", None)
    if kind is not None and kind not in _TYPES:
        raise table.error("type", f"must be one of {listed(list(_TYPES))}", kind)
    with table.named():
        made = _loaded(table) if kind is None else _TYPES[kind](table)
    if not callable(getattr(made.evaluator, "evaluate_batch", None)):
        raise table.error("loader", "must return an object with evaluate_batch(trials)", made.evaluator)
    said = bool(getattr(made.evaluator, "repeatable", False))
    return replace(made, repeatable=table.take("repeatable", "flag", said))


def _promptfoo(table: Table) -> Harness:
    from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

    rows = table.take("rows", "text", None)
    evaluator = PromptfooEvaluator(
        table.beside(table.take("config", "text", "promptfooconfig.yaml")),
        provider=table.take("provider", "text", None),
        rows=None if rows is None else table.beside(rows),
    )
    return Harness(evaluator, _dataset(table, evaluator.tests), dict(evaluator.prompts))


def _inspect(table: Table) -> Harness:
    from asktell_adapters.harnesses.inspect_task import InspectTask

    task = call_named(table, table.take("task", "text"), table.take("arguments", "table", {}))
    logs = table.take("log_dir", "text", None)
    evaluator = InspectTask(
        task, table.take("model", "text", None), log_dir=None if logs is None else table.beside(logs), max_retries=2
    )
    return Harness(evaluator, _dataset(table, evaluator.examples))


def _loaded(table: Table) -> Harness:
    evaluator = call_named(table, table.take("loader", "text"), table.take("arguments", "table", {}))
    examples = next((found for name in ("examples", "tests") if (found := getattr(evaluator, name, None))), None)
    prompts = getattr(evaluator, "prompts", None)
    return Harness(evaluator, _dataset(table, examples), prompts if isinstance(prompts, list | dict) else None)


_TYPES: Mapping[str, Callable[[Table], Harness]] = {"promptfoo": _promptfoo, "inspect": _inspect}


def _dataset(table: Table, examples: Any) -> DataSet:
    rows = [] if examples is None else list(examples)
    if not rows:
        raise table.error("type" if "type" in table else "loader", "must name what has examples; there are none")
    found = tuple(each if isinstance(each, Example) else _example(number, each) for number, each in enumerate(rows))
    ids = [getattr(each, "id", None) for each in rows]
    named = all(name not in (None, "") for name in ids) and len(set(map(str, ids))) == len(ids)
    return DataSet(found, tuple(map(str, ids)) if named else None)


def _example(number: int, row: Any) -> Example:
    """A harness's example as a text to know it by."""
    if isinstance(row, Mapping):
        return Example(json.dumps(row, default=str, sort_keys=True), id=str(number))
    return Example(str(getattr(row, "input", row)), id=str(number))
