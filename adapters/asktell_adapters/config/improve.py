"""The table `[improve]`: how prompts are written and selected in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from asktell import Budget
from asktell_adapters.config.model import ModelTable, read_model
from asktell_adapters.config.tables import Table, call_named, key
from asktell_adapters.llms.base import Example
from asktell_adapters.optimizers.briefs import Writer
from asktell_adapters.optimizers.improving import MOST_PARENTS
from asktell_adapters.optimizers.writers import LLMWriter


class WriterTable(Table):
    """The writer of prompts."""

    type: str = key(
        "llm", "The only type. For a writer of your own, set `loader` instead."
    )
    model: dict[str, Any] | None = key(
        None,
        "The LLM that writes.",
        said="the LLM of `[model]`",
        expected="a table as `[model]`",
    )
    temperature: float = key(1.0, "Temperature of the writer.", ge=0)
    max_new_tokens: int = key(
        256, "Largest number of tokens in a written prompt.", ge=1
    )
    loader: str | None = key(
        None,
        '`"package.module:function"`, which returns a writer: a function that takes a '
        "[`Brief`](api/harnesses.md).",
    )
    arguments: dict[str, Any] = key({}, "Arguments of the loader.")


class ImproveTable(Table):
    """How `asktell improve` writes prompts."""

    generations: int = key(
        4,
        "Number of generations that the budget is divided among. The prompts of the file, and each generation, may "
        "spend `budget / (generations + 1)`. If some spend less, more generations may follow.",
        ge=1,
    )
    candidates: int = key(8, "Largest number of new prompts in each generation.", ge=1)
    parents: int = key(
        4,
        "Number of the best prompts that the writer is shown, at most 20.",
        ge=1,
        le=MOST_PARENTS,
    )
    patience: int | Literal[False] = key(
        2,
        "`asktell improve` ends after this many generations in a row without a better prompt. With false, "
        "it never ends early.",
        expected="a whole number, or false for none",
    )
    writer: WriterTable = key(
        WriterTable(),
        "Writes the prompts: see [improve.writer](#improvewriter).",
        said="the LLM of `[model]`",
    )


@final
@dataclass(frozen=True)
class Improving:
    """A checked table `[improve]`."""

    total: int | Budget  # the budget of all generations
    first: int | Budget  # the budget of the first generation
    parts: int  # the total budget divided by the first
    settings: Mapping[str, Any]  # for `improve`
    table: WriterTable  # `[improve.writer]`
    model: ModelTable | None  # the writer's own model; None: the model that responds
    seed: int  # of the writer

    def writer(self, llm: Any, examples: Sequence[Example], concurrency: int) -> Writer:
        """The writer of prompts: a function of the user's own, or an LLM."""
        table = self.table
        if table.loader is not None:
            writer: Writer = call_named(table, table.loader, table.arguments)
            if not callable(writer):
                raise table.error(
                    "loader", "must return a writer: a function of a Brief", writer
                )
            return writer
        if self.model is not None:
            llm = self.model.make(concurrency)
        with table.named():
            return LLMWriter(
                llm,
                examples,
                seed=self.seed,
                temperature=table.temperature,
                max_new_tokens=table.max_new_tokens,
            )


def read_improve(table: ImproveTable, total: int | Budget, seed: int = 0) -> Improving:
    """Check the table, and share the budget out among the generations.

    Args:
        table: `[improve]`, with its defaults if the file has none.
        total: the budget of the whole run.
        seed: the seed of the writer.

    Raises:
        ConfigError: a value is out of range, or keys contradict each other.
    """
    if table.patience is not False and table.patience < 1:
        raise table.error(
            "patience",
            "must be at least 1, or false to continue until the budget ends",
            table.patience,
        )
    settings = {
        "candidates": table.candidates,
        "parents": table.parents,
        "patience": table.patience or None,
    }
    writer = table.writer
    if writer.loader is not None:
        for name in ("type", "model", "temperature", "max_new_tokens"):
            if writer.has(name):
                raise writer.error(
                    name, "cannot be combined with `loader`. Remove one of the two"
                )
    elif writer.has("arguments"):
        raise writer.error(
            "arguments",
            "is for `loader`, which is missing. Add it, or remove arguments",
        )
    if writer.type != "llm":
        raise writer.error(
            "type",
            "must be 'llm'. To use a writer of your own, set `loader` instead",
            writer.type,
        )
    model = None
    if writer.model is not None:
        model = read_model(table.config_file, f"{writer.title}.model", writer.model)
    parts = table.generations + 1
    return Improving(total, _share(total, parts), parts, settings, writer, model, seed)


def _share(total: int | Budget, parts: int) -> int | Budget:
    """The budget of one of `parts` equal generations."""
    if not isinstance(total, Budget):
        return max(1, total // parts)
    evaluations = (
        None if total.evaluations is None else max(1, total.evaluations // parts)
    )
    cost = None if total.cost is None else total.cost / parts
    return Budget(evaluations, cost, total.max_cost_per_evaluation)
