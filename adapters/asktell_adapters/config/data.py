"""The tables `[prompts]` and `[data]`: the texts that a run works on."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, final

from asktell import Candidates
from asktell.extend import one_line
from asktell_adapters.config.tables import Table, call_named, key
from asktell_adapters.llms.base import Example
from asktell_adapters.tables import datasets

Prompts: TypeAlias = list[str] | dict[str, str]
Selected: TypeAlias = Prompts | Candidates

_OF_FILES = ("delimiter", "encoding", "sheet", "split")
_WORDS = 40  # characters of a row's input, enough for a person to recognize it
# Of a row's digest: among 100,000 rows two agree by chance once in 50,000 data sets
_DIGITS = 12


class PromptsTable(Table):
    """The candidates."""

    file: str | None = key(
        None,
        "`.txt`: one prompt per line. If the file has blank lines, they separate the prompts, which may then have "
        "several lines. Other files: `.json`: a list, or an object id: prompt; "
        '`.jsonl`: one prompt per line; `.toml`: `id = "text"`; a table (`.csv`, `.tsv`, `.parquet`, `.xlsx`): a '
        "column `prompt` and "
        "perhaps `id`. Prompts of `.json`, `.jsonl` and `.toml` may be [chats](../how-to/write-prompts.md).",
        said="this or `texts`",
    )
    encoding: str | None = key(
        None, "Encoding of a text file.", said="UTF-8, or what a byte order mark says"
    )
    texts: (
        list[str | list[Any] | dict[str, Any]]
        | dict[str, str | list[Any] | dict[str, Any]]
        | None
    ) = key(
        None,
        "The prompts themselves, texts or chats.",
        said="this or `file`",
        expected="a list of prompts, or a table id = prompt; a prompt is a text, or a chat: a list of messages",
    )
    fields: bool | None = key(
        None,
        "Whether `{question}` in a prompt is replaced by the value in the column `question`. A missing column is an "
        "error.",
        said="true in chats, false in texts",
    )


def read_prompts(table: PromptsTable) -> Prompts:
    """The prompts of `[prompts]`.

    Raises:
        ConfigError: there are none, or a prompt or its id cannot be used.
    """
    if (table.file is None) == (table.texts is None):
        raise table.mistake("[prompts] needs either file = '...' or texts = [...].")
    with table.named():
        if table.file is not None:
            prompts: Prompts = datasets.load_prompts(
                table.beside(table.file), encoding=table.encoding
            )
        elif table.encoding is not None:
            raise table.error(
                "encoding",
                "can be used only with `file`, and not with `texts`. Remove it",
            )
        else:
            prompts = datasets.prompts_of(table.texts or [])
    for name, _ in items(prompts):
        if not str(name).isprintable() or not str(name).strip():
            raise table.mistake(
                f"the id {name!r} in [prompts] cannot be shown. Use printable characters."
            )
    return prompts


def items(prompts: Selected) -> Iterator[tuple[str | int, Any]]:
    """The prompts or candidates with their ids."""
    if isinstance(prompts, Candidates):
        yield from zip(prompts.ids, prompts, strict=True)
    else:
        yield from prompts.items() if isinstance(prompts, dict) else enumerate(prompts)


@final
@dataclass(frozen=True)
class DataSet:
    """The examples in the order of their positions."""

    examples: tuple[Example, ...]  # input, reference and fields
    # Distinct ids that the data give; None if they give none
    names: tuple[str, ...] | None = None
    # The label of each one's segment; None if there are none
    segments: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """A digest of each row's content, the same in every process and every version."""
        return tuple(
            digest([e.input, e.reference, e.fields])[:_DIGITS] for e in self.examples
        )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The names, or else the first words and the digest of each row. Repeated rows get a number."""
        rows = zip(self.examples, self.digests, strict=True)
        return self.names or distinct(
            [f"{one_line(str(e.input), _WORDS)} ({row})" for e, row in rows]
        )


DIGEST = 16
"""Characters of a digest."""
RESPONSES = "responses"
"""Key of the digests of recorded responses in the set-up of `[label]`, by prompt."""


def digest(data: Any) -> str:
    """A short text that differs if the data do."""
    # A value that is not JSON counts by its type. Its repr may have an address, which changes
    # with every process.
    text = json.dumps(data, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]


def distinct(digests: Sequence[str]) -> tuple[str, ...]:
    """The digests. Repeated digests get a number."""
    seen = Counter[str]()
    numbered = []
    for text in digests:
        seen[text] += 1
        numbered.append(text if seen[text] == 1 else f"{text}-{seen[text]}")
    return tuple(numbered)


class DataTable(Table):
    """The examples."""

    file: str | None = key(
        None,
        "`.csv`, `.tsv`, `.json`, `.jsonl`, `.parquet`, `.xlsx`, or a folder that "
        "`Dataset.save_to_disk` wrote: [read your data](../how-to/read-your-data.md).",
        said="this or `loader`",
    )
    delimiter: str | None = key(
        None,
        "Separates the columns of `.csv` and `.tsv`.",
        said="found in the header, or a tab in `.tsv`",
    )
    encoding: str | None = key(
        None, "Encoding of text files.", said="UTF-8, or what a byte order mark says"
    )
    sheet: str | None = key(None, "Sheet of an Excel file.", said="the first")
    split: str | None = key(
        None,
        "Which data set to use, if `file` is a folder with several data sets.",
        said="the only one",
    )
    loader: str | None = key(
        None,
        '`"package.module:function"`, which returns rows, as mappings or `asktell_adapters.evaluators.Example`.',
        said="this or `file`",
    )
    arguments: dict[str, Any] | None = key(None, "Arguments of the loader.")
    input: str = key("input", "Column of the input, to which the LLM responds.")
    reference: str | Literal[False] = key(
        "reference",
        "Column of the reference, with which some metrics compare the response.",
        expected="a text, or false for none",
    )
    id: str | None = key(
        None,
        "Column of distinct ids. Without such a column, a row's id consists of its first words and a digest.",
        said="`id` or `name`, if its values are distinct",
    )
    segment: str | None = key(
        None,
        "Column of each row's segment, such as its language. The result has estimates for each segment.",
    )
    sample: int | None = key(
        None,
        "Number of rows to draw at random. They keep their order.",
        said="all",
        ge=1,
    )
    seed: int | None = key(None, "Seed of `sample`.", said="`0`")
    shuffle: int | Literal[False] = key(
        False,
        "Puts the rows in a random order. The number is the seed.",
        expected="a whole number, or false for none",
    )
    limit: int | None = key(
        None,
        "Uses only this many rows, the first ones after the shuffle.",
        said="all",
        ge=1,
    )


def read_examples(table: DataTable) -> DataSet:
    """The examples of `[data]`.

    Raises:
        ConfigError: there are none, a column is missing, or keys contradict each other.
    """
    if (table.file is None) == (table.loader is None):
        raise table.mistake(
            "[data] needs either file = '...' or loader = 'package.module:function'."
        )
    columns = table.input, table.reference or None, table.id
    if table.file is not None:
        if table.arguments is not None:
            raise table.error(
                "arguments",
                "can be used only with `loader`, and not with `file`. Remove it",
            )
        options = {name: getattr(table, name) for name in _OF_FILES if table.has(name)}
        with table.named():
            file = table.beside(table.file)
            examples = datasets.load_examples(
                file, input=columns[0], reference=columns[1], id=table.id, **options
            )
        named = table.id is not None
    else:
        for name in filter(table.has, _OF_FILES):
            raise table.error(
                name, "can be used only with `file`, and not with `loader`. Remove it"
            )
        loader = table.loader or ""
        returned = call_named(table, loader, table.arguments or {})
        examples, named = _as_examples(table, loader, returned, columns)
    examples = _taken(table, examples)
    return DataSet(
        tuple(examples),
        _names(table, examples, named, table.id),
        _segments(table, examples),
    )


def _segments(table: DataTable, examples: Sequence[Example]) -> tuple[str, ...] | None:
    """The label of each example's segment. None if there are no segments."""
    if table.segment is None:
        return None
    labels = [example.fields.get(table.segment) for example in examples]
    for row, label in enumerate(labels, start=1):
        if label is None or label == "":
            raise table.error(
                "segment",
                f"must be a column with a label in every row, but row {row:,} has none",
                table.segment,
            )
    return tuple(map(str, labels))


def _taken(table: DataTable, examples: list[Example]) -> list[Example]:
    """The examples that are used: a sample, or the first ones after a shuffle."""
    if table.sample is not None:
        for name in ("limit", "shuffle"):
            if getattr(table, name) not in (None, False):
                raise table.error(
                    name,
                    "cannot be combined with sample, which draws rows at random. Remove one of the two",
                )
        return datasets.draw(examples, table.sample, table.seed or 0)
    if table.seed is not None:
        raise table.error(
            "seed",
            "needs sample, such as sample = 100. For shuffle, write the seed as its value, such as shuffle = 1",
        )
    if table.shuffle is not False:
        random.Random(table.shuffle).shuffle(examples)
    return examples[: table.limit]


def _names(
    table: Table, examples: Sequence[Example], named: bool, column: str | None
) -> tuple[str, ...] | None:
    """The ids in the data: in the wanted column, of Examples, or in a column called "id" or "name"."""
    names: list[str | None] = []
    for usual in ("id",) if named else ("id", "name"):
        cells = [e.id if named else e.fields.get(usual) for e in examples]
        names = [
            None if name is None or isinstance(name, bool | float) else str(name)
            for name in cells
        ]
        if all(names) and len(set(names)) == len(names):
            return tuple(map(str, names))
    if column is None:
        return None
    where: dict[str | None, int] = {}
    for row, name in enumerate(names, start=1):
        if not name:
            raise table.error(
                "id",
                f"must be a column with an id (a text or a whole number) in every row, but row {row:,} has none",
            )
        if where.setdefault(name, row) != row:
            raise table.error(
                "id",
                f"must be a column of distinct ids, but rows {where[name]:,} and {row:,} both have {name!r}",
            )
    raise AssertionError("one is empty, or comes again")


def _as_examples(
    table: Table,
    loader: str,
    returned: Any,
    columns: tuple[str, str | None, str | None],
) -> tuple[list[Example], bool]:
    """The examples of a loader's rows, and whether their ids are the data's own rather than numbers."""
    if isinstance(returned, str | bytes | Mapping) or not hasattr(returned, "__iter__"):
        raise table.error(
            "loader",
            f"refers to {loader!r}, which must return a list of rows (mappings) or Examples",
            type(returned),
        )
    examples = []
    named = True
    for number, row in enumerate(returned):
        if isinstance(row, Example):
            examples.append(row)
            continue
        named = columns[2] is not None
        if not isinstance(row, Mapping):
            raise table.error(
                "loader",
                f"refers to {loader!r}, which must return mappings or Examples, but row {number} is neither",
                type(row),
            )
        with table.named():
            examples.append(
                datasets.example_of(row, columns, f"row {number} of {loader!r}", number)
            )
    if not examples:
        raise table.error(
            "loader",
            f"refers to {loader!r}, which returned no rows. Return at least one row",
        )
    return examples, named
