"""Read datasets and prompts from files, and the packaged dataset ACLSum."""

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import short, whole
from asktell_adapters.llms._machine import packaged
from asktell_adapters.llms.base import Example
from asktell_adapters.llms.prompts import text_of
from asktell_adapters.tables.rows import (
    KINDS,
    Table,
    as_text,
    check_column,
    from_json,
    from_toml,
    jsonl,
    read_text,
)

ASPECTS = ("challenge", "approach", "outcome")
_ROLES = "Set `input`, `reference` and `id` to the names of columns."
_SPLITS = {"train": "train", "validation": "val", "val": "val", "test": "test"}


def load_examples(
    path: str | Path,
    *,
    input: str = "input",  # noqa: A002 - the names of the Example's own fields
    reference: str | None = "reference",
    id: str | None = None,  # noqa: A002
    sample: int | None = None,
    seed: int = 0,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    split: str | None = None,
) -> list[Example]:
    """Read the examples of a file, or of a folder that Hugging Face's library `datasets` wrote.

    The file is a table: .csv, .tsv, .json, .jsonl, .parquet or .xlsx. Each row becomes
    an example, in the order of the table. Empty rows are left out. Columns other than
    the input, the reference and the id become the example's `fields`.

    Args:
        path: the file, or a folder written by `Dataset.save_to_disk` or
            `DatasetDict.save_to_disk`.
        input: the column (key) of the input text.
        reference: the column of the reference, or None if the dataset has no
            references. A reference is a text, or a list of texts where the file format
            allows lists. Numbers, such as labels, become texts.
        id: the column of the example's name (default: the number of the line or row).
        sample: read only this many rows, drawn at random (default: all rows). A table
            with fewer rows is read as a whole.
        seed: seed of the draw. The same seed draws the same rows.
        delimiter: the character between the columns of a CSV or TSV file (default: a
            tab in TSV. In CSV it is detected: comma, semicolon, tab or bar, whichever
            splits the header into the columns that you name).
        encoding: encoding of a text file (default: the encoding of its byte order mark,
            else UTF-8).
        sheet: sheet of an Excel file (default: the first sheet).
        split: split of a folder, such as "test". Only needed if the folder has several
            splits.

    Raises:
        InvalidArgumentError: the file does not exist, is of an unknown kind, or has an
            invalid row. The message has the file and the line.
    """
    columns = input, reference, id
    table = Table(
        path,
        [column for column in columns if column is not None],
        delimiter=delimiter,
        encoding=encoding,
        sheet=sheet,
        split=split,
    )
    examples = [
        example_of(row.values, columns, table.where(row), row.number)
        for row in table.rows
    ]
    return examples if sample is None else draw(examples, sample, seed)


def example_of(
    row: Mapping[str, Any],
    columns: tuple[str, str | None, str | None],
    where: str,
    number: int,
) -> Example:
    """Convert a row of a table to an example.

    Args:
        row: column -> value.
        columns: the names of three columns: input, reference and name of the example.
            The last two may be None.
        where: the place of the row, such as "data.csv, line 3". Error messages begin
            with it.
        number: number of the row. It is the name of the example if there is no column
            for names.

    Raises:
        InvalidArgumentError: one of the columns is missing, or the input or the
            reference is not a text.
    """
    for column in columns:
        if column is not None:
            check_column(row, column, where, _ROLES)
    text, reference, name = (
        None if column is None else row[column] for column in columns
    )
    fields = {str(key): value for key, value in row.items() if key not in columns}
    try:
        return Example(
            as_text(text),
            as_text(reference),
            str(number if name is None else name),
            fields,
            columns[0],
        )
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from error


def draw(examples: list[Example], sample: int, seed: int = 0) -> list[Example]:
    """Draw `sample` examples at random, or take all if there are fewer. The drawn examples keep their order.

    Args:
        examples: the examples to draw from. No example is drawn twice.
        sample: the number of examples to draw, at least 1.
        seed: seed of the draw. The same seed draws the same examples.

    Raises:
        InvalidArgumentError: `sample` is not a whole number of at least 1.
    """
    whole("sample", sample, 1)
    rows = random.Random(seed).sample(range(len(examples)), min(sample, len(examples)))
    return [examples[row] for row in sorted(rows)]


def load_prompts(
    path: str | Path, *, encoding: str | None = None
) -> list[str] | dict[str, str]:
    """Read prompts from a file.

    The result is a list of prompts. If the file has ids, it is a dictionary id ->
    prompt. `asktell.Selector` accepts both. In the file, a prompt is a text or a chat.
    A chat is returned as a text: the JSON that `asktell_adapters.llms.prompts.chat` makes.

    - `.txt`: one prompt per line. If the file has blank lines, they separate the
      prompts, which may then have several lines.
    - `.json`: a list of prompts, or an object id -> prompt. A chat is a list of
      messages (`role`, `content`), or an object with `messages` and `tools`.
    - `.jsonl`: one prompt per line, either the prompt itself or an object with `prompt`
      or `messages`. The object may have an `id` or a `name`.
    - `.toml`: id = prompt. A chat is a list of tables, `[[id]]`.
    - `.csv`, `.tsv`, `.parquet`, `.xlsx`: a column `prompt` and, for ids, a column `id`
      or `name`.

    Args:
        path: the file.
        encoding: encoding of a text file (default: the encoding of its byte order mark,
            else UTF-8).

    Raises:
        InvalidArgumentError: the file does not exist, is of an unknown kind, or has an
            invalid prompt. The message has the file and the line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        instead = " It is a folder. Pass a file in it." if path.is_dir() else ""
        raise InvalidArgumentError(f"There is no file {str(path)!r}.{instead}")
    kind = path.suffix.lower()
    prompts: list[str] | dict[str, str]
    if kind == ".txt":
        # Git may give the same file other line ends on Windows, but the prompts are the
        # same.
        text = re.sub(r"\r\n?", "\n", read_text(path, encoding)).strip()
        # Blank lines separate prompts of several lines. Without any, each line is a
        # prompt.
        parts = re.split(r"\n[ \t]*\n", text)  # at blank lines
        if len(parts) == 1:
            parts = text.split("\n")
        prompts = [part.strip() for part in parts if part.strip()]
    elif kind == ".json":
        parsed = from_json(read_text(path, encoding), path, 1)
        if not isinstance(parsed, list | dict):
            what = type(parsed).__name__
            raise InvalidArgumentError(
                f"{path} must have a list of prompts or an object id -> prompt, got {what}."
            )
        prompts = prompts_of(parsed, f"{path}: ")
    elif kind == ".jsonl":
        prompts = _jsonl_prompts(path, encoding)
    elif kind == ".toml":
        prompts = prompts_of(from_toml(read_text(path, encoding), path), f"{path}: ")
    elif kind in KINDS:
        prompts = _table_prompts(path, encoding)
    else:
        kinds = ", ".join((".txt", *sorted({*KINDS, ".toml"})))
        raise InvalidArgumentError(
            f"asktell reads prompts from {kinds} files, got {str(path)!r}."
        )
    if not prompts:
        raise InvalidArgumentError(f"{path} has no prompts. Write at least one.")
    return prompts


def load_aclsum(
    split: str = "test",
    *,
    aspect: str | Sequence[str] | None = None,
    section: str = "abstract",
    max_words: int | None = None,
    detokenize: bool = True,
) -> list[Example]:
    """Load ACLSum (Takeshita et al. 2024): papers of computational linguistics with expert summaries of three aspects.

    Args:
        split: "train" (100 papers), "validation" (50), "test" (100) or "all".
        aspect: "challenge", "approach" or "outcome", or several of them (default: all).
            The reference has the expert's summary of each of these aspects, one per
            line.
        section: the section to be summarized, which becomes the input: "abstract",
            "introduction" or "conclusion".
        max_words: keep at most this many words of the section (default: all). Only
            whole sentences are kept, and always the first sentence, even if it is
            longer.
        detokenize: remove the spaces that the dataset has before punctuation, and inside
            brackets and quotes.

    Raises:
        InvalidArgumentError: `split`, `aspect` or `section` is none of the values above.
        MissingExtraError: the dataset is not installed. The message has the command
            that installs it.
    """
    aspects = (
        ASPECTS
        if aspect is None
        else (aspect,)
        if isinstance(aspect, str)
        else tuple(aspect)
    )
    sections = ("abstract", "introduction", "conclusion")
    wanted = (
        list(dict.fromkeys(_SPLITS.values()))
        if split == "all"
        else [_SPLITS.get(split)]
    )
    if wanted == [None]:
        raise InvalidArgumentError(
            f"split must be one of {[*_SPLITS, 'all']}, got {split!r}."
        )
    if not aspects or not set(aspects) <= set(ASPECTS):
        raise InvalidArgumentError(
            f"aspect must be one or several of {list(ASPECTS)}, got {aspect!r}."
        )
    if section not in sections:
        raise InvalidArgumentError(
            f"section must be one of {list(sections)}, got {section!r}."
        )
    examples = []
    for part in wanted:
        for _, paper in jsonl(
            packaged("aclsum", f"dataset/{part}.jsonl", "the data set")
        ):
            sentences = [
                _detokenized(text) if detokenize else text
                for text in paper["sentences"][section]
            ]
            reference = "\n".join(paper["summary"][name].strip() for name in aspects)
            fields = {"title": paper["title"], "split": part}
            examples.append(
                Example(
                    " ".join(_whole(sentences, max_words)),
                    reference,
                    paper["id"],
                    fields,
                )
            )
    return examples


def _whole(sentences: list[str], max_words: int | None) -> list[str]:
    """The first sentences that have at most so many words together, and at least one sentence."""
    first: list[str] = []
    words = 0
    for sentence in sentences:
        words += len(sentence.split())
        if first and max_words is not None and words > max_words:
            break
        first.append(sentence)
    return first


def _detokenized(text: str) -> str:
    """Remove the spaces before punctuation, after opening brackets and inside quotes."""
    text = re.sub(r" ([,.;:!?)\]%]|'s\b|n't\b)", r"\1", text)
    text = re.sub(r"([(\[]) ", r"\1", text)
    return re.sub(r'" ([^"]*?) "', r'"\1"', text)


def prompts_of(
    found: list[Any] | dict[str, Any], where: str = ""
) -> list[str] | dict[str, str]:
    """Convert the prompts of a file to texts. Texts stay as they are, and a chat becomes JSON.

    Args:
        found: the prompts, as a list or by id. Each is a text, a list of messages, or an
            object with `messages` and possibly `tools`.
        where: the place of the prompts, such as "prompts.json: ". Error messages begin
            with it.

    Raises:
        InvalidArgumentError: a prompt is neither a text nor a chat, or is empty.
    """
    if isinstance(found, list):
        return [
            _prompt_of(prompt, f"{where}prompt {number}")
            for number, prompt in enumerate(found)
        ]
    return {
        name: _prompt_of(prompt, f"{where}prompt {name!r}")
        for name, prompt in found.items()
    }


def _prompt_of(prompt: object, where: str) -> str:
    """Convert a prompt of a file to a text.

    Raises:
        InvalidArgumentError: the prompt is neither a text nor a chat, or is empty.
    """
    try:
        text = text_of(prompt)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from error
    if not text.strip():
        raise InvalidArgumentError(f"{where} is empty. Write its text.")
    return text


def _jsonl_prompts(path: Path, encoding: str | None) -> list[str] | dict[str, str]:
    """Read prompts from a file with one JSON value per line.

    Returns:
        The texts, or id -> text if the rows have ids.

    Raises:
        InvalidArgumentError: a row is no prompt, an id occurs twice, or only some rows have
            an id.
    """
    texts: list[str] = []
    named: dict[str, str] = {}
    for line, text in enumerate(read_text(path, encoding).split("\n"), start=1):
        if not text.strip():
            continue
        where, row = f"{path}, line {line}", from_json(text, path, line)
        id_ = None
        if isinstance(row, dict):
            id_, name = row.pop("id", None), row.pop("name", None)
            id_ = name if id_ is None else id_
            # Without "prompt" the row is a chat. With it, other columns are ignored, as
            # in a table.
            row = row.get("prompt", row)
        texts.append(_prompt_of(row, where))
        if id_ is not None:
            if not isinstance(id_, str | int):
                raise InvalidArgumentError(
                    f"{where}: The id of a prompt must be a text, got {short(id_)}."
                )
            if str(id_) in named:
                raise InvalidArgumentError(
                    f"{where}: The id {id_!r} occurs twice. Give each prompt its own id."
                )
            named[str(id_)] = texts[-1]
    if named and len(named) < len(texts):
        raise InvalidArgumentError(
            f"Only {len(named)} of {len(texts)} prompts in {path} have an 'id'. Give each prompt an id, or remove all "
            "ids."
        )
    return named or texts


def _table_prompts(path: Path, encoding: str | None) -> list[str] | dict[str, str]:
    """Read prompts from a table with the column `prompt`, and `id` or `name` for the ids.

    Raises:
        InvalidArgumentError: a row has no prompt, or an id occurs twice.
    """
    table = Table(path, ("prompt", "id", "name"), encoding=encoding)
    column = "id" if any("id" in row.values for row in table.rows) else "name"
    named: dict[str, str] = {}
    for row in table.rows:
        check_column(row.values, "prompt", table.where(row))
        if not str(row.values["prompt"]).strip():
            raise InvalidArgumentError(
                f"{table.where(row)}: The column 'prompt' is empty. Write a prompt there."
            )
        if column in row.values:
            name = str(as_text(row.values[column]))
            if name in named:
                raise InvalidArgumentError(
                    f"{table.where(row)}: The {column} {name!r} occurs twice. Give each prompt its own {column}."
                )
            named[name] = str(as_text(row.values["prompt"]))
    return named or [str(as_text(row.values["prompt"])) for row in table.rows]
