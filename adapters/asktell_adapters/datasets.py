"""Data sets and prompts from files, and the packaged ACLSum."""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import whole
from asktell_adapters.llms._machine import packaged
from asktell_adapters.llms.base import Example
from asktell_adapters.prompts import text_of
from asktell_adapters.rows import KINDS, Table, as_text, check_column, from_json, jsonl, read_text

ASPECTS = ("challenge", "approach", "outcome")
_ROLES = "Name the columns with input, reference and id."
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
    """Examples of a table, in its order: .csv, .tsv, .json, .jsonl, .parquet, .xlsx, or a folder of `datasets`.

    Args:
        path: the file, or a folder that `Dataset.save_to_disk` wrote.
        input: the column (key) of the input text.
        reference: the column of the reference: a text, or where the file can hold one a list of texts; None for a data
            set without. Numbers, as labels are, become texts.
        id: the column of the row's name; by default the line's number.
        sample: take at most so many rows, drawn at random; by default all.
        seed: of that draw: the same rows each time.
        delimiter: of a CSV or TSV file; by default a tab in TSV, else the first of , ; tab | by which the header has
            the columns.
        encoding: of a file of text; by default UTF-8, or what its byte order mark says.
        sheet: of an Excel file; by default the first.
        split: of a folder that holds several.

    The other columns become the example's `fields`. Rows without anything in them are left out.

    Raises:
        InvalidArgumentError: no such file, another kind of file, or a row that does not fit; file and line are named.
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
    examples = [example_of(row.values, columns, table.where(row), row.number) for row in table.rows]
    return examples if sample is None else draw(examples, sample, seed)


def example_of(row: Mapping[str, Any], columns: tuple[str, str | None, str | None], where: str, number: int) -> Example:
    """The example that a row holds in the columns of its input, its reference and its name, which may be its number.

    Raises:
        InvalidArgumentError: it does not fit; the message begins with `where` it is.
    """
    for column in columns:
        if column is not None:
            check_column(row, column, where, _ROLES)
    text, reference, name = (None if column is None else row[column] for column in columns)
    others = {str(key): value for key, value in row.items() if key not in columns}
    try:
        return Example(as_text(text), as_text(reference), str(number if name is None else name), others, columns[0])
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from error


def draw(examples: list[Example], sample: int, seed: int = 0) -> list[Example]:
    """At most so many examples, drawn at random without replacement, in their order."""
    whole("sample", sample, 1)
    rows = random.Random(seed).sample(range(len(examples)), min(sample, len(examples)))
    return [examples[row] for row in sorted(rows)]


def load_prompts(path: str | Path, *, encoding: str | None = None) -> list[str] | dict[str, str]:
    """Prompts of a file, as `asktell.Selector` takes them: a list, or id -> prompt where the file has ids.

    - `.txt`: one prompt a line; if blank lines separate blocks, one prompt a block (and every block may span lines).
    - `.json`: a list of prompts, or an object id -> prompt. A prompt is a text, or a chat: a list of messages (`role`,
      `content`), or an object with `messages` and `tools`.
    - `.jsonl`: a prompt a line, as such, or in an object as `prompt` or `messages`, perhaps with an `id` or a `name`.
    - `.toml`: id = prompt; a chat is a list of tables, `[[id]]`.
    - `.csv`, `.tsv`, `.parquet`, `.xlsx`: a column `prompt` and, if there are ids, a column `id` or `name`.

    A chat becomes the text that `asktell_adapters.prompts.chat` makes of it.

    Args:
        path: the file.
        encoding: of a file of text; by default UTF-8, or what its byte order mark says.

    Raises:
        InvalidArgumentError: no such file, another kind of file, or not prompts; file and line are named.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        instead = " That is a folder: name a file in it." if path.is_dir() else ""
        raise InvalidArgumentError(f"There is no file {str(path)!r}.{instead}")
    kind = path.suffix.lower()
    prompts: list[str] | dict[str, str]
    if kind == ".txt":
        text = read_text(path, encoding).strip()
        parts = re.split(r"\n[ \t\r]*\n", text)
        prompts = [part.strip() for part in (parts if len(parts) > 1 else text.split("\n")) if part.strip()]
    elif kind == ".json":
        found = from_json(read_text(path, encoding), path, 1)
        if not isinstance(found, list | dict):
            what = type(found).__name__
            raise InvalidArgumentError(f"{path}: expected a list of prompts or an object id -> prompt, got {what}.")
        prompts = prompts_of(found, f"{path}: ")
    elif kind == ".jsonl":
        prompts = _jsonl_prompts(path, encoding)
    elif kind == ".toml":
        prompts = prompts_of(_toml(path, encoding), f"{path}: ")
    elif kind in KINDS:
        prompts = _table_prompts(path, encoding)
    else:
        known = ", ".join((".txt", *sorted({*KINDS, ".toml"})))
        raise InvalidArgumentError(f"{path}: prompts come from {known} files, not {path.suffix!r}.")
    if not prompts:
        raise InvalidArgumentError(f"{path}: the file has no prompts.")
    return prompts


def load_aclsum(
    split: str = "test",
    *,
    aspect: str | Sequence[str] | None = None,
    section: str = "abstract",
    max_words: int | None = None,
    detokenize: bool = True,
) -> list[Example]:
    """ACLSum (Takeshita et al. 2024): papers of computational linguistics with expert summaries of three aspects.

    Args:
        split: train (100 papers), validation (50), test (100) or all.
        aspect: challenge, approach or outcome, or several; by default all three. The reference is their sentences, one
            a line.
        section: what is to be summarized: abstract, introduction or conclusion.
        max_words: keep only so many words of it, in whole sentences, though at least one sentence.
        detokenize: undo the blanks that the data set has before punctuation and inside brackets.
    """
    aspects = ASPECTS if aspect is None else (aspect,) if isinstance(aspect, str) else tuple(aspect)
    sections = ("abstract", "introduction", "conclusion")
    wanted = list(dict.fromkeys(_SPLITS.values())) if split == "all" else [_SPLITS.get(split)]
    if wanted == [None]:
        raise InvalidArgumentError(f"split must be one of {[*_SPLITS, 'all']}, got {split!r}.")
    if not aspects or not set(aspects) <= set(ASPECTS):
        raise InvalidArgumentError(f"aspect must be of {list(ASPECTS)}, got {aspect!r}.")
    if section not in sections:
        raise InvalidArgumentError(f"section must be one of {list(sections)}, got {section!r}.")
    examples = []
    for part in wanted:
        for _, paper in jsonl(packaged("aclsum", f"dataset/{part}.jsonl", "the data set")):
            sentences = [_detokenized(text) if detokenize else text for text in paper["sentences"][section]]
            reference = "\n".join(paper["summary"][name].strip() for name in aspects)
            fields = {"title": paper["title"], "split": part}
            examples.append(Example(" ".join(_whole(sentences, max_words)), reference, paper["id"], fields))
    return examples


def _whole(sentences: list[str], max_words: int | None) -> list[str]:
    kept: list[str] = []
    words = 0
    for sentence in sentences:
        words += len(sentence.split())
        if kept and max_words is not None and words > max_words:
            break
        kept.append(sentence)
    return kept


def _detokenized(text: str) -> str:
    text = re.sub(r" ([,.;:!?)\]%]|'s\b|n't\b)", r"\1", text)
    text = re.sub(r"([(\[]) ", r"\1", text)
    return re.sub(r'" ([^"]*?) "', r'"\1"', text)


def prompts_of(found: list[Any] | dict[str, Any], where: str = "") -> list[str] | dict[str, str]:
    """Prompts as a file has them, texts and chats, as texts.

    Raises:
        InvalidArgumentError: one is neither; the message begins with `where`.
    """
    if isinstance(found, list):
        return [_prompt_of(prompt, f"{where}prompt {number}") for number, prompt in enumerate(found)]
    return {name: _prompt_of(prompt, f"{where}prompt {name!r}") for name, prompt in found.items()}


def _prompt_of(prompt: object, where: str) -> str:
    try:
        text = text_of(prompt)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from error
    if not text.strip():
        raise InvalidArgumentError(f"{where} is empty.")
    return text


def _toml(path: Path, encoding: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path, encoding))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, or a number with too many digits
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"{path}: not TOML: {error}.") from error


def _jsonl_prompts(path: Path, encoding: str | None) -> list[str] | dict[str, str]:
    texts: list[str] = []
    named: dict[str, str] = {}
    for line, text in enumerate(read_text(path, encoding).split("\n"), start=1):
        if not text.strip():
            continue
        where, row = f"{path}, line {line}", from_json(text, path, line)
        given = [row.pop(key, None) for key in ("id", "name")] if isinstance(row, dict) else []
        id_ = next((id_ for id_ in given if id_ is not None), None)
        # As in a table, other columns are nobody's business.
        texts.append(_prompt_of(row["prompt"] if isinstance(row, dict) and "prompt" in row else row, where))
        if id_ is not None:
            if not isinstance(id_, str | int) or str(id_) in named:
                raise InvalidArgumentError(f"{where}: ids are distinct texts, got {id_!r}, perhaps again.")
            named[str(id_)] = texts[-1]
    if named and len(named) < len(texts):
        raise InvalidArgumentError(f"{path}: {len(named)} of {len(texts)} prompts have an 'id'; give all of them one.")
    return named or texts


def _table_prompts(path: Path, encoding: str | None) -> list[str] | dict[str, str]:
    table = Table(path, ("prompt", "id", "name"), encoding=encoding)
    column = "id" if any("id" in row.values for row in table.rows) else "name"
    named: dict[str, str] = {}
    for row in table.rows:
        check_column(row.values, "prompt", table.where(row))
        if not str(row.values["prompt"]).strip():
            raise InvalidArgumentError(f"{table.where(row)}: 'prompt' is empty.")
        if column in row.values:
            name = str(as_text(row.values[column]))
            if name in named:
                raise InvalidArgumentError(f"{table.where(row)}: the {column} {name!r} occurs twice.")
            named[name] = str(as_text(row.values["prompt"]))
    return named or [str(as_text(row.values["prompt"])) for row in table.rows]
