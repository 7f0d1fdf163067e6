"""The tables `[prompts]` and `[data]`: the texts that a run works on."""

import random
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from asktell.errors import ConfigError, InvalidArgumentError
from asktell_adapters import datasets
from asktell_adapters.config.loaders import call_named
from asktell_adapters.config.tables import Table, listed
from asktell_adapters.llms.base import Example

Prompts: TypeAlias = list[str] | dict[str, str]


def read_prompts(table: Table) -> Prompts:
    """The prompts of `[prompts]`."""
    if ("file" in table) == ("texts" in table):
        raise ConfigError(f"{table.file}: [prompts] needs either file = '...' or texts = [...].")
    if "texts" in table:
        prompts: Prompts = table.take("texts", "texts")
    else:
        with table.named():
            prompts = datasets.load_prompts(table.beside(table.take("file", "text")))
    for name, text in items(prompts):
        if not text.strip():
            raise ConfigError(f"{table.file}: [prompts]: prompt {name!r} is empty.")
        if not str(name).isprintable() or not str(name).strip():
            raise ConfigError(f"{table.file}: [prompts]: the id {name!r} cannot be shown; use printable characters.")
    return prompts


def items(prompts: Prompts) -> Iterator[tuple[str | int, str]]:
    """Ids and texts."""
    yield from prompts.items() if isinstance(prompts, dict) else enumerate(prompts)


def read_examples(table: Table) -> tuple[Example, ...]:
    """The data set of `[data]`."""
    if ("file" in table) == ("loader" in table):
        raise ConfigError(f"{table.file}: [data] needs either file = '...' or loader = 'package.module:function'.")
    columns = {
        "input": table.take("input", "text", "input"),
        "reference": table.take("reference", "text or false", "reference") or None,
        "id": table.take("id", "text", None),
    }
    if "file" in table:
        if "arguments" in table:
            raise table.error("arguments", "goes with loader, not with file")
        with table.named():
            examples = datasets.load_examples(table.beside(table.take("file", "text")), **columns)
    else:
        loader = table.take("loader", "text")
        found = call_named(table, loader, table.take("arguments", "table", {}))
        examples = _as_examples(table, loader, found, columns)
    shuffle = table.take("shuffle", "whole or false", False)
    if shuffle is not False:
        random.Random(shuffle).shuffle(examples)
    limit = table.take("limit", "whole", len(examples))
    if limit < 1:
        raise table.error("limit", "must be at least 1", limit)
    return tuple(examples[:limit])


def _as_examples(table: Table, loader: str, found: Any, columns: Mapping[str, Any]) -> list[Example]:
    if isinstance(found, str | bytes | Mapping) or not hasattr(found, "__iter__"):
        raise table.error("loader", f"{loader!r} must return a list of rows (mappings) or Examples", type(found))
    examples = []
    for number, row in enumerate(found):
        if isinstance(row, Example):
            examples.append(row)
            continue
        if not isinstance(row, Mapping):
            raise table.error("loader", f"{loader!r} must return mappings or Examples; row {number} is", type(row))
        for column in columns.values():
            if column is not None and row.get(column) is None:
                raise ConfigError(
                    f"{table.file}: [data]: row {number} of {loader!r} has no {column!r}; it has "
                    f"{listed([str(name) for name in row])}. Name the columns with input, reference (false for "
                    "none) and id."
                )
        reference = None if columns["reference"] is None else row[columns["reference"]]
        others = {str(name): value for name, value in row.items() if name not in columns.values()}
        name = str(number) if columns["id"] is None else str(row[columns["id"]])
        try:
            examples.append(Example(row[columns["input"]], reference, name, others))
        except InvalidArgumentError as error:
            raise ConfigError(f"{table.file}: [data]: row {number} of {loader!r}: {error}") from error
    if not examples:
        raise ConfigError(f"{table.file}: [data]: {loader!r} returned no rows.")
    return examples
