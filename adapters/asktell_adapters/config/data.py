"""The tables `[prompts]` and `[data]`: the texts that a run works on."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, final

from asktell import ConfigError, InvalidArgumentError
from asktell.extend import nearest, one_line
from asktell_adapters import datasets
from asktell_adapters.config.loaders import call_named
from asktell_adapters.config.tables import Table, listed
from asktell_adapters.llms.base import Example
from asktell_adapters.prompts import check_fields
from asktell_adapters.rows import as_text

Prompts: TypeAlias = list[str] | dict[str, str]

_OF_FILES = ("delimiter", "encoding", "sheet", "split")
_WORDS = 40  # characters of a row's input, by which a person knows it
_DIGITS = 12  # of a row's digest: among 100,000 rows two agree by chance once in 50,000 data sets


def read_prompts(table: Table) -> Prompts:
    """The prompts of `[prompts]`."""
    if ("file" in table) == ("texts" in table):
        raise ConfigError(f"{table.file}: [prompts] needs either file = '...' or texts = [...].")
    encoding = table.take("encoding", "text", None)
    if "texts" in table:
        if encoding is not None:
            raise table.error("encoding", "goes with file, not with texts")
        with table.named():
            prompts: Prompts = datasets.prompts_of(table.take("texts", "texts"))
    else:
        with table.named():
            prompts = datasets.load_prompts(table.beside(table.take("file", "text")), encoding=encoding)
    for name, text in items(prompts):
        if not text.strip():
            raise ConfigError(f"{table.file}: [prompts]: prompt {name!r} is empty.")
        if not str(name).isprintable() or not str(name).strip():
            raise ConfigError(f"{table.file}: [prompts]: the id {name!r} cannot be shown; use printable characters.")
    return prompts


def read_fields(table: Table, prompts: Prompts, examples: Sequence[Example]) -> bool | None:
    """Whether names in braces in prompts are fields, as `[prompts]` says; every one is a column then."""
    fields: bool | None = table.take("fields", "flag", None)
    with table.named():
        check_fields(prompts, examples, fields)
    return fields


def items(prompts: Prompts) -> Iterator[tuple[str | int, str]]:
    """Ids and texts."""
    yield from prompts.items() if isinstance(prompts, dict) else enumerate(prompts)


@final
@dataclass(frozen=True)
class DataSet:
    """The examples in the order of their positions.

    Attributes:
        examples: input, reference and fields.
        names: distinct ids that the data give; None if they give none.
    """

    examples: tuple[Example, ...]
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Of each row, what is in it: the same in every process and every version."""
        return tuple(digest([e.input, e.reference, e.fields])[:_DIGITS] for e in self.examples)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The names, or else of each row its first words and its digest; a row that comes again is numbered."""
        rows = zip(self.examples, self.digests, strict=True)
        return self.names or distinct([f"{one_line(str(e.input), _WORDS)} ({row})" for e, row in rows])


def digest(data: Any) -> str:
    """A short text that differs if the data do."""
    # What is no JSON stands by its type: its repr may hold an address, which changes with every process.
    text = json.dumps(data, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def distinct(digests: Sequence[str]) -> tuple[str, ...]:
    """The digests, those that come again with a number."""
    seen = Counter[str]()
    found = []
    for text in digests:
        seen[text] += 1
        found.append(text if seen[text] == 1 else f"{text}-{seen[text]}")
    return tuple(found)


def read_examples(table: Table) -> DataSet:
    """The data set of `[data]`."""
    if ("file" in table) == ("loader" in table):
        raise ConfigError(f"{table.file}: [data] needs either file = '...' or loader = 'package.module:function'.")
    columns = {
        "input": table.take("input", "text", "input"),
        "reference": table.take("reference", "text or false", "reference") or None,
        "id": table.take("id", "text", None),
    }
    options = {name: table.take(name, "text") for name in _OF_FILES if name in table}
    if "file" in table:
        if "arguments" in table:
            raise table.error("arguments", "goes with loader, not with file")
        with table.named():
            examples = datasets.load_examples(table.beside(table.take("file", "text")), **columns, **options)
        named = columns["id"] is not None
    else:
        for name in options:
            raise table.error(name, "goes with file, not with loader")
        loader = table.take("loader", "text")
        found = call_named(table, loader, table.take("arguments", "table", {}))
        examples, named = _as_examples(table, loader, found, columns)
    examples = _taken(table, examples)
    return DataSet(tuple(examples), _names(table, examples, named, columns["id"]))


def _taken(table: Table, examples: list[Example]) -> list[Example]:
    """Those that are to be worked on, in their order."""
    for name in ("sample", "limit"):
        if table.take(name, "whole", 1) < 1:
            raise table.error(name, "must be at least 1", table.data[name])
    if "sample" in table:
        for name in ("limit", "shuffle"):
            if table.data.get(name, False) is not False:
                raise table.error(name, "does not go with sample, which draws rows at random; give one of them")
        return datasets.draw(examples, table.take("sample", "whole"), table.take("seed", "whole", 0))
    if "seed" in table:
        raise table.error("seed", "is that of sample, which is missing here; shuffle has a seed of its own")
    shuffle = table.take("shuffle", "whole or false", False)
    if shuffle is not False:
        random.Random(shuffle).shuffle(examples)
    return examples[: table.take("limit", "whole", len(examples))]


def _names(table: Table, examples: Sequence[Example], named: bool, column: str | None) -> tuple[str, ...] | None:
    """The ids that the data give: in the column that is asked for, or of Examples, or in one called "id" or "name"."""
    names: list[str | None] = []
    for key in ("id",) if named else ("id", "name"):
        given = [e.id if named else e.fields.get(key) for e in examples]
        names = [None if name is None or isinstance(name, bool | float) else str(name) for name in given]
        if all(names) and len(set(names)) == len(names):
            return tuple(map(str, names))
    if column is None:
        return None
    where: dict[str | None, int] = {}
    for row, name in enumerate(names, start=1):
        if not name:
            raise table.error("id", f"names a column that is empty in row {row}")
        if where.setdefault(name, row) != row:
            raise table.error(
                "id", f"must name a column of distinct ids, but rows {where[name]} and {row} have the same", name
            )
    raise AssertionError("one is empty, or comes again")


def _as_examples(table: Table, loader: str, found: Any, columns: Mapping[str, Any]) -> tuple[list[Example], bool]:
    """The examples that a loader's rows are, and whether their ids are the data's own and no mere numbers."""
    if isinstance(found, str | bytes | Mapping) or not hasattr(found, "__iter__"):
        raise table.error("loader", f"{loader!r} must return a list of rows (mappings) or Examples", type(found))
    examples = []
    named = True
    for number, row in enumerate(found):
        if isinstance(row, Example):
            examples.append(row)
            continue
        named = columns["id"] is not None
        if not isinstance(row, Mapping):
            raise table.error("loader", f"{loader!r} must return mappings or Examples; row {number} is", type(row))
        for column in columns.values():
            if column is not None and row.get(column) is None:
                raise ConfigError(
                    f"{table.file}: [data]: row {number} of {loader!r} has no {column!r}"
                    f"{nearest(column, [str(name) for name in row])}; it has "
                    f"{listed([str(name) for name in row])}. Name the columns with input, reference (false for "
                    "none) and id."
                )
        reference = None if columns["reference"] is None else row[columns["reference"]]
        others = {str(name): value for name, value in row.items() if name not in columns.values()}
        name = str(number) if columns["id"] is None else str(row[columns["id"]])
        try:
            examples.append(Example(as_text(row[columns["input"]]), as_text(reference), name, others, columns["input"]))
        except InvalidArgumentError as error:
            raise ConfigError(f"{table.file}: [data]: row {number} of {loader!r}: {error}") from error
    if not examples:
        raise ConfigError(f"{table.file}: [data]: {loader!r} returned no rows.")
    return examples, named
