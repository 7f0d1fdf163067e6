"""The table `[evaluator]`: a program, a harness, or an evaluator of one's own, with models and metrics of its own."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from asktell import Trial
from asktell.extend import outside_of_loops
from asktell_adapters.config.data import DataSet, DataTable, Prompts, read_examples
from asktell_adapters.config.model import PriceTable
from asktell_adapters.config.tables import Table, call_named, key, listed
from asktell_adapters.evaluators.command import CommandEvaluator
from asktell_adapters.llms.base import Example
from asktell_adapters.llms.meter import Meter


@final
@dataclass(frozen=True)
class Harness:
    """A program or harness that scores prompts by itself."""

    evaluator: Any  # with `evaluate_batch(trials)`, or a CommandEvaluator
    dataset: DataSet  # its examples; their inputs are texts to know them by
    prompts: Prompts | None = None  # its own; None where it has none
    # Whether an evaluation gives the same scores when it is repeated; False: unknown
    repeatable: bool = False
    cost: float | None = None  # of an evaluation, about; None: unknown
    # Evaluations at once. None: one, unless the file has another number
    workers: int | None = None

    @property
    def in_batches(self) -> bool:
        """Whether it takes several trials at once. Otherwise each trial is awaited."""
        return callable(getattr(self.evaluator, "evaluate_batch", None))

    @property
    def driven(self) -> Any:
        """The evaluator, as `asktell.run` takes it."""
        return self if self.in_batches else self.evaluator

    def evaluate_batch(
        self, trials: Sequence[Trial], repeats: Sequence[int] = ()
    ) -> Sequence[Any]:
        """Scores or an exception for each trial."""
        if self.in_batches:
            outcomes: Sequence[Any] = self.evaluator.evaluate_batch(trials)
            return outcomes

        async def each() -> Sequence[Any]:
            return await asyncio.gather(
                *map(self.evaluator, trials), return_exceptions=True
            )

        return outside_of_loops(each)


class MeterTable(Table):
    """The meter of a program's calls of LLMs."""

    prices: dict[str, PriceTable] = key(
        {},
        'Prices of the models that the program calls: `prices = { "gpt-4o-mini" = { input = 0.15, output = 0.6, '
        'cached_input = 0.075, currency = "USD" } }`, for a million tokens. `cache_write` is the price of tokens that '
        "are written to a cache. Without a model's price, `cost` is unknown.",
        expected="a table MODEL = { input = ..., output = ... }",
    )
    addresses: dict[str, str] = key(
        {},
        "Further environment variables from which the program reads the address of an API, with the real address: "
        '`{ OPENROUTER_BASE_URL = "https://openrouter.ai/api/v1" }`.',
        expected="a table VARIABLE = address",
    )

    def meter(self) -> Meter:
        """The meter, whose addresses are checked."""
        prices = {name: table.price() for name, table in self.prices.items()}
        with self.named():
            return Meter(prices, self.addresses)


class EvaluatorTable(Table):
    """A program, or a harness with data, LLM and metrics of its own."""

    command: list[str] | None = key(
        None,
        'A program that is started for every evaluation, as `["python", "agent.py"]`: [its input and '
        "output](#a-program). It is started in the folder of this file, and not by a shell.",
        said="this, `type` or `loader`",
    )
    timeout: float = key(
        600.0, "command: seconds that an evaluation may take.", gt=0, le=1e7
    )
    workers: int | None = key(
        None,
        "command: number of evaluations at the same time, another name for `concurrency`.",
        said="`4`",
        ge=1,
    )
    cost: float | None = key(
        None,
        "command: rough cost of an evaluation, for `--estimate`.",
        said="unknown",
        ge=0,
    )
    meter: bool | MeterTable = key(
        False,
        "command: counts the program's calls of LLMs, their tokens and their cost as metrics: "
        "[meter an agent](../how-to/meter-an-agent.md). A table has prices: see [evaluator.meter](#evaluatormeter).",
        expected="true or false, or a table with prices, addresses or both",
    )
    type: str | None = key(
        None,
        'Kind of tool: `"promptfoo"` or `"inspect"`.',
        said="this, `command` or `loader`",
    )
    config: str = key(
        "promptfooconfig.yaml", "promptfoo: its configuration, with prompts and tests."
    )
    provider: str | None = key(
        None,
        "promptfoo: label or id of the provider to evaluate. Needed if the configuration has several.",
        said="the only one",
    )
    rows: str | None = key(
        None,
        "promptfoo: file to which each result of promptfoo is appended, one JSON line each.",
    )
    prompts_are_code: bool = key(
        False,
        "promptfoo: whether prompts may use its whole template language, which can run commands. Only for prompts of "
        "your own.",
    )
    task: str | None = key(
        None,
        'inspect: `"module:function"`, which returns an Inspect task.',
        said="needed with `inspect`",
    )
    model: str | None = key(
        None, "inspect: the LLM, as Inspect names it.", said="Inspect's own"
    )
    log_dir: str | None = key(
        None, "inspect: folder of its logs.", said="Inspect's own"
    )
    loader: str | None = key(
        None,
        '`"package.module:function"`, which returns an object with `evaluate_batch(trials)` and `examples`.',
        said="this, `command` or `type`",
    )
    arguments: dict[str, Any] = key({}, "Arguments of the task, or of the loader.")
    repeatable: bool = key(
        False,
        "Whether a repeated evaluation always gives the same scores. If false, asktell may repeat evaluations to check "
        "whether scores differ. If true, it does not.",
    )


_KINDS = ("command", "type", "loader")
TUNING = ("timeout", "workers", "cost")
"""Keys of a command that change no score, and so are no part of a set-up."""
_OF_COMMANDS = (*TUNING, "meter")
_WORKERS = 4


def read_harness(table: EvaluatorTable, data: DataTable | None = None) -> Harness:
    """The program, harness or evaluator of `[evaluator]`.

    Args:
        table: the table `[evaluator]`.
        data: the table `[data]`, whose rows a command is given. A harness has data of
            its own.

    Raises:
        ConfigError: keys are missing or contradict each other, or a function of the
            user's own failed.
    """
    kinds = [name for name in _KINDS if getattr(table, name) is not None]
    if len(kinds) != 1:
        raise table.mistake(
            f"[evaluator] needs exactly one of command = [...], type = '...' and loader = '...', got "
            f"{' and '.join(kinds) or 'none'}. A type is one of {listed(list(_TYPES))}."
        )
    if table.type is not None and table.type not in _TYPES:
        raise table.error("type", f"must be one of {listed(list(_TYPES))}", table.type)
    for name in _OF_COMMANDS:
        if table.has(name) and table.command is None:
            raise table.error(
                name,
                f"can be used only with `command`, and not with `{kinds[0]}`. Remove it",
            )
    if table.command is not None:
        return _command(table, data)
    with table.named():
        harness = _loaded(table) if table.type is None else _TYPES[table.type](table)
    if not callable(getattr(harness.evaluator, "evaluate_batch", None)):
        raise table.error(
            "loader",
            "must return an object with evaluate_batch(trials)",
            harness.evaluator,
        )
    repeatable = bool(getattr(harness.evaluator, "repeatable", False))
    return replace(
        harness, repeatable=table.repeatable if table.has("repeatable") else repeatable
    )


def _command(table: EvaluatorTable, data: DataTable | None) -> Harness:
    """A program that is started for every evaluation, on the rows of `[data]`."""
    if data is None:
        raise table.error(
            "command", "needs the table [data], whose rows the program gets. Add it"
        )
    dataset = read_examples(data)
    rows = [_row(data, example) for example in dataset.examples]
    home = table.config_file.resolve().parent
    metering = table.meter
    if metering is True:
        metering = MeterTable.read(table.config_file, "evaluator.meter", {})
    meter = metering.meter() if isinstance(metering, MeterTable) else None
    with table.named():
        evaluator = CommandEvaluator(
            table.command or [],
            rows,
            timeout=table.timeout,
            folder=home,
            repeatable=table.repeatable,
            meter=meter,
        )
    workers = _WORKERS if table.workers is None else table.workers
    return Harness(
        evaluator,
        dataset,
        repeatable=table.repeatable,
        cost=table.cost,
        workers=workers,
    )


def _row(table: DataTable, example: Example) -> dict[str, Any]:
    """The row that an example was made of, its columns by their own names."""
    named = {} if table.id is None else {table.id: example.id}
    reference = (
        {table.reference: example.reference}
        if table.reference and example.reference is not None
        else {}
    )
    return {**named, example.input_column: example.input, **reference, **example.fields}


def _promptfoo(table: EvaluatorTable) -> Harness:
    """promptfoo, with its own prompts and tests."""
    from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

    rows = None if table.rows is None else table.beside(table.rows)
    evaluator = PromptfooEvaluator(
        table.beside(table.config),
        provider=table.provider,
        rows=rows,
        prompts_are_code=table.prompts_are_code,
    )
    return Harness(evaluator, _dataset(table, evaluator.tests), dict(evaluator.prompts))


def _inspect(table: EvaluatorTable) -> Harness:
    """An Inspect task, with its own samples."""
    from asktell_adapters.harnesses.inspect.task import InspectTask

    if table.task is None:
        raise table.error(
            "task", "is missing. Add it, as in task = 'package.module:function'"
        )
    task = call_named(table, table.task, table.arguments, "task")
    logs = None if table.log_dir is None else table.beside(table.log_dir)
    evaluator = InspectTask(task, table.model, log_dir=logs, max_retries=2)
    return Harness(evaluator, _dataset(table, evaluator.examples))


def _loaded(table: EvaluatorTable) -> Harness:
    """An evaluator made by a function of the user's own."""
    evaluator = call_named(table, table.loader or "", table.arguments)
    examples = next(
        (
            attribute
            for name in ("examples", "tests")
            if (attribute := getattr(evaluator, name, None))
        ),
        None,
    )
    prompts = getattr(evaluator, "prompts", None)
    return Harness(
        evaluator,
        _dataset(table, examples),
        prompts if isinstance(prompts, list | dict) else None,
    )


_TYPES: Mapping[str, Callable[[EvaluatorTable], Harness]] = {
    "promptfoo": _promptfoo,
    "inspect": _inspect,
}


def _dataset(table: EvaluatorTable, examples: Any) -> DataSet:
    """The examples of a harness. Their ids are used if they are distinct."""
    rows = [] if examples is None else list(examples)
    if not rows:
        raise table.error(
            "loader" if table.type is None else "type",
            "gives an evaluator without examples. Add examples to its data",
        )
    data = tuple(
        row if isinstance(row, Example) else _example(number, row)
        for number, row in enumerate(rows)
    )
    ids = [getattr(row, "id", None) for row in rows]
    named = all(name not in (None, "") for name in ids) and len(
        set(map(str, ids))
    ) == len(ids)
    return DataSet(data, tuple(map(str, ids)) if named else None)


def _example(number: int, row: Any) -> Example:
    """A harness's example, as a text by which a person recognizes it."""
    if isinstance(row, Mapping):
        return Example(json.dumps(row, default=str, sort_keys=True), id=str(number))
    return Example(str(getattr(row, "input", row)), _target(row), id=str(number))


def _target(row: object) -> str | list[str] | None:
    """The reference of an Inspect sample. None if its target is empty."""
    target = getattr(row, "target", None)
    if isinstance(target, str):
        return target or None
    return (
        list(map(str, target)) if isinstance(target, list | tuple) and target else None
    )
