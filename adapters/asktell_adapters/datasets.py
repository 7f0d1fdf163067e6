"""Data sets and prompts from files: JSONL, CSV, JSON and text, and the packaged ACLSum."""

import csv
import importlib.util
import io
import json
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asktell.errors import InvalidArgumentError, MissingExtraError
from asktell_adapters.llms.base import Example
from asktell_adapters.prompts import text_of

ASPECTS = ("challenge", "approach", "outcome")
_SPLITS = {"train": "train", "validation": "val", "val": "val", "test": "test"}


def load_examples(
    path: str | Path,
    *,
    input: str = "input",  # noqa: A002 - the names of the Example's own fields
    reference: str | None = "reference",
    id: str | None = None,  # noqa: A002
) -> list[Example]:
    """Examples of a `.jsonl` (one object a line) or `.csv` (with a header) file, in the file's order.

    Args:
        path: the file, in UTF-8.
        input: the column (key) of the input text.
        reference: the column of the reference: a text, or in JSONL a list of texts; None for a data set without.
        id: the column of the row's name; by default the line's number.

    The other columns become the example's `fields`.

    Raises:
        InvalidArgumentError: no such file, another kind of file, or a row that does not fit; file and line are named.
    """
    path = _existing(path)
    rows = {".jsonl": _jsonl_rows, ".csv": _csv_rows}.get(path.suffix.lower())
    if rows is None:
        raise InvalidArgumentError(f"{path}: examples come from .jsonl or .csv files, not {path.suffix!r}.")
    examples = []
    for line, row in rows(path):
        for column in (input, reference, id):
            if column is not None and row.get(column) is None:
                raise InvalidArgumentError(f"{path}, line {line}: no {column!r}; the row has {sorted(map(str, row))}.")
        others = {name: value for name, value in row.items() if name not in (input, reference, id)}
        name = str(line) if id is None else str(row[id])
        try:
            examples.append(Example(row[input], None if reference is None else row[reference], name, others, input))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}, line {line}: {error}") from error
    if not examples:
        raise InvalidArgumentError(f"{path}: the file has no rows.")
    return examples


def load_prompts(path: str | Path) -> list[str] | dict[str, str]:
    """Prompts of a file, as `asktell.Selector` takes them: a list, or id -> prompt where the file has ids.

    - `.txt`: one prompt a line; if blank lines separate blocks, one prompt a block (and every block may span lines).
    - `.json`: a list of prompts, or an object id -> prompt. A prompt is a text, or a chat: a list of messages (`role`,
      `content`), or an object with `messages` and `tools`.
    - `.jsonl`: a prompt a line, as such, or in an object as `prompt` or `messages`, perhaps with an `id`.
    - `.toml`: id = prompt; a chat is a list of tables, `[[id]]`.
    - `.csv`: a column `prompt` and, if there are ids, a column `id`.

    A chat becomes the text that `asktell_adapters.prompts.chat` makes of it.

    Raises:
        InvalidArgumentError: no such file, another kind of file, or not prompts; file and line are named.
    """
    path = _existing(path)
    kind = path.suffix.lower()
    prompts: list[str] | dict[str, str]
    if kind == ".txt":
        prompts = _text_prompts(_read(path))
    elif kind == ".json":
        prompts = _json_prompts(path)
    elif kind == ".jsonl":
        prompts = _jsonl_prompts(path)
    elif kind == ".toml":
        prompts = prompts_of(_toml(path), f"{path}: ")
    elif kind == ".csv":
        prompts = _csv_prompts(path)
    else:
        kinds = ".txt, .json, .jsonl, .toml or .csv files"
        raise InvalidArgumentError(f"{path}: prompts come from {kinds}, not {path.suffix!r}.")
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

    Raises:
        InvalidArgumentError: no such split, aspect or section.
        MissingExtraError: the package `aclsum` is not installed.
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
        for _, paper in _jsonl_rows(_aclsum_folder() / f"{part}.jsonl"):
            sentences = [_detokenized(text) if detokenize else text for text in paper["sentences"][section]]
            reference = "\n".join(paper["summary"][name].strip() for name in aspects)
            fields = {"title": paper["title"], "split": part}
            examples.append(Example(" ".join(_whole(sentences, max_words)), reference, paper["id"], fields))
    return examples


def _aclsum_folder() -> Path:
    # The package's own __init__ imports `sienna`, which is not needed to find the files.
    spec = importlib.util.find_spec("aclsum")
    for folder in spec.submodule_search_locations or [] if spec else []:
        if (Path(folder) / "dataset" / "test.jsonl").is_file():
            return Path(folder) / "dataset"
    raise MissingExtraError(
        "No module named 'aclsum', which holds the data set. Run: pip install --no-deps aclsum", name="aclsum"
    )


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


def _existing(path: str | Path) -> Path:
    path = Path(path).expanduser()
    if not path.is_file():
        raise InvalidArgumentError(f"There is no file {str(path)!r}.")
    return path


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # Line ends inside CSV fields stay as they are.
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise InvalidArgumentError(f"{path}, line {line}: not UTF-8 ({error.reason}).") from error


def _json(text: str, path: Path, line: int) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
            raise InvalidArgumentError(f"{path}, line {line}: the key {twice!r} occurs twice.")
        return result

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        raise InvalidArgumentError(f"{path}, {where}: not JSON: {error.msg}.") from error


def _jsonl_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    # Not splitlines(): JSON may hold line separators of Unicode as they are.
    for line, text in enumerate(_read(path).split("\n"), start=1):
        if text.strip():
            row = _json(text, path, line)
            if not isinstance(row, dict):
                raise InvalidArgumentError(f"{path}, line {line}: a row must be an object, got {type(row).__name__}.")
            yield line, row


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = _read(path)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    with _fields_of(len(text)):
        try:
            header = list(reader.fieldnames or [])
            rows = [(reader.line_num, row) for row in reader]
        except csv.Error as error:
            raise InvalidArgumentError(f"{path}, line {reader.reader.line_num}: not CSV: {error}") from error
    if len(set(header)) < len(header):
        raise InvalidArgumentError(f"{path}, line 1: a column occurs twice in {header}.")
    for line, row in rows:
        if None in row or None in row.values():
            raise InvalidArgumentError(f"{path}, line {line}: not {len(header)} columns, as the header has.")
        yield line, row


_one_limit_at_a_time = threading.Lock()


@contextmanager
def _fields_of(characters: int) -> Iterator[None]:
    """Let CSV fields be so long; by default 131,072 characters, for everybody in the process."""
    with _one_limit_at_a_time:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, characters))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _text_prompts(text: str) -> list[str]:
    text = text.strip()
    parts = re.split(r"\n[ \t\r]*\n", text)
    return [part.strip() for part in (parts if len(parts) > 1 else text.split("\n")) if part.strip()]


def _json_prompts(path: Path) -> list[str] | dict[str, str]:
    found = _json(_read(path), path, 1)
    if not isinstance(found, list | dict):
        raise InvalidArgumentError(
            f"{path}: expected a list of prompts or an object id -> prompt, got {type(found).__name__}."
        )
    return prompts_of(found, f"{path}: ")


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


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError(f"{path}: not TOML: {error}.") from error


def _jsonl_prompts(path: Path) -> list[str] | dict[str, str]:
    texts: list[str] = []
    named: dict[str, str] = {}
    for line, text in enumerate(_read(path).split("\n"), start=1):
        if not text.strip():
            continue
        where, row = f"{path}, line {line}", _json(text, path, line)
        id_ = row.pop("id", None) if isinstance(row, dict) else None
        # As in a table, other columns are nobody's business.
        texts.append(_prompt_of(row["prompt"] if isinstance(row, dict) and "prompt" in row else row, where))
        if id_ is not None:
            if not isinstance(id_, str | int) or str(id_) in named:
                raise InvalidArgumentError(f"{where}: ids are distinct texts, got {id_!r}, perhaps again.")
            named[str(id_)] = texts[-1]
    if named and len(named) < len(texts):
        raise InvalidArgumentError(f"{path}: {len(named)} of {len(texts)} prompts have an 'id'; give all of them one.")
    return named or texts


def _csv_prompts(path: Path) -> list[str] | dict[str, str]:
    rows = list(_csv_rows(path))
    named: dict[str, str] = {}
    for line, row in rows:
        if not (row.get("prompt") or "").strip():
            raise InvalidArgumentError(f"{path}, line {line}: no 'prompt'; the columns are {sorted(row)}.")
        if "id" in row:
            if row["id"] in named:
                raise InvalidArgumentError(f"{path}, line {line}: the id {row['id']!r} occurs twice.")
            named[row["id"]] = row["prompt"]
    return named or [row["prompt"] for _, row in rows]
