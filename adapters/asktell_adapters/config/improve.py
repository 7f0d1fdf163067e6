"""The table `[improve]`: how prompts are written and selected in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from asktell import Budget
from asktell_adapters.config.loaders import call_named
from asktell_adapters.config.model import load_llm, read_model
from asktell_adapters.config.tables import KEYS, Table
from asktell_adapters.llms.base import Example
from asktell_adapters.optimizers._generations import MOST_PARENTS
from asktell_adapters.optimizers.briefs import Writer
from asktell_adapters.optimizers.writers import LLMWriter

_OF_PROMPTS = {"temperature": 1.0, "max_new_tokens": 256}
"""What a writer's model does otherwise than one that answers."""


@final
@dataclass(frozen=True)
class Improving:
    """A checked table `[improve]`.

    Attributes:
        total: the budget of all generations.
        first: that of the first one.
        parts: how many times the first makes the total.
        settings: for `improve`.
        table: `[improve.writer]`.
        model: the writer's own model; None: the one that answers.
        seed: of the writer.
    """

    total: int | Budget
    first: int | Budget
    parts: int
    settings: Mapping[str, Any]
    table: Table
    model: Mapping[str, Any] | None
    seed: int

    def writer(self, llm: Any, examples: Sequence[Example], concurrency: int) -> Writer:
        """The writer, its model loaded; `llm` is the one that answers.

        Raises:
            AsktellError: the model, or the function that makes the writer, cannot be used.
        """
        if "loader" in self.table:
            found: Writer = call_named(
                self.table, self.table.take("loader", "text"), self.table.take("arguments", "table", {})
            )
            if not callable(found):
                raise self.table.error("loader", "must return a writer: a function of a Brief", found)
            return found
        options = {key: self.table.data.get(key, default) for key, default in _OF_PROMPTS.items()}
        if self.model is not None:
            llm = load_llm(Table(self.table.path, "improve.writer.model", dict(self.model), ()), concurrency)
        with self.table.named():
            return LLMWriter(llm, examples, seed=self.seed, **options)


def read_improve(top: Table, model: Mapping[str, Any], total: int | Budget) -> Improving:
    """The table, checked, with its defaults filled in; without one, the defaults."""
    table = top.table("improve", KEYS["improve"]) if "improve" in top else top.inner("improve", {}, KEYS["improve"])
    generations = _at_least_1(table, "generations", 4)
    patience = table.take("patience", "whole or false", 2)
    if patience is not False and patience < 1:
        raise table.error("patience", "must be at least 1, or false to go on until the budget ends", patience)
    certainty = table.take("certainty", "number", 0.6)
    if not 0 <= certainty <= 1:
        raise table.error("certainty", "must be from 0 to 1", certainty)
    parents = _at_least_1(table, "parents", 4)
    if parents > MOST_PARENTS:
        raise table.error("parents", f"must be at most {MOST_PARENTS}", parents)
    settings = {
        "candidates": _at_least_1(table, "candidates", 8),
        "parents": parents,
        "patience": patience or None,
        "certainty": certainty,
    }
    writer, own = _writer(table)
    parts = generations + 1
    return Improving(total, _share(total, parts), parts, settings, writer, own, top.take("seed", "whole", 0))


def _at_least_1(table: Table, key: str, default: int) -> int:
    number: int = table.take(key, "whole", default)
    if number < 1:
        raise table.error(key, "must be at least 1", number)
    return number


def _share(total: int | Budget, parts: int) -> int | Budget:
    if not isinstance(total, Budget):
        return max(1, total // parts)
    evaluations = None if total.evaluations is None else max(1, total.evaluations // parts)
    cost = None if total.cost is None else total.cost / parts
    return Budget(evaluations, cost, total.max_cost_per_evaluation)


def _writer(table: Table) -> tuple[Table, dict[str, Any] | None]:
    """The table of the writer, and its own model if it has one."""
    given = table.take("writer", "table", {})
    of_llm = ("type", "model", *_OF_PROMPTS)
    writer = table.inner("improve.writer", given, ("loader", "arguments") if "loader" in given else (*of_llm, "loader"))
    if "loader" in writer:
        writer.take("loader", "text")
        writer.take("arguments", "table", {})
        return writer, None
    if writer.take("type", "text", "llm") != "llm":
        raise writer.error("type", "must be 'llm', or give a loader", given["type"])
    if writer.take("temperature", "number", 1.0) < 0:
        raise writer.error("temperature", "must be 0 or more", given["temperature"])
    _at_least_1(writer, "max_new_tokens", 1)
    if "model" not in writer:
        return writer, None
    return writer, read_model(writer, "improve.writer.model")
