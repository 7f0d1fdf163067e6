"""Tables as people have them, row by row: CSV, TSV, JSON, JSONL, Parquet, Excel, and a folder of `datasets`."""

import codecs
import csv
import datetime
import decimal
import io
import json
import math
import numbers
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell.extend import nearest, needs_extra, short, some

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = (",", ";", "\t", "|")
_SHOWN = 20  # columns in a message


class Row(NamedTuple):
    """A row: its number (of the line, in files of lines and in Excel; else from 1), and its values by column."""

    number: int
    values: Mapping[str, Any]


@final
class Table:
    """The rows of a file or folder, in its order; empty ones are left out. See `load_examples` for the options.

    The kind of table follows from the path's name. `wanted` are the columns that matter, by which a CSV file's
    delimiter is known.
    """

    def __init__(
        self,
        path: str | Path,
        wanted: Sequence[str] = (),
        *,
        delimiter: str | None = None,
        encoding: str | None = None,
        sheet: str | None = None,
        split: str | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        if not self.path.exists():
            raise InvalidArgumentError(f"There is no file {str(path)!r}.")
        suffix = "" if self.path.is_dir() else self.path.suffix.lower()
        kind = _KINDS.get(suffix)
        if kind is None:
            known = ", ".join(sorted(filter(None, _KINDS)))
            raise InvalidArgumentError(
                f"{path}: rows come from {known}, or from a folder of `datasets`, not from {suffix!r} files."
                + (" Save it as .xlsx." if suffix == ".xls" else "")
            )
        options = {"delimiter": delimiter, "encoding": encoding, "sheet": sheet, "split": split}
        for name, value in options.items():
            if value is not None and name not in kind.options:
                goes = ", ".join(end or "folders" for end, other in _KINDS.items() if name in other.options)
                raise InvalidArgumentError(f"{path}: {name} goes with {goes}; got {name}={value!r}.")
        given: dict[str, Any] = {name: options[name] for name in kind.options}
        if "delimiter" in kind.options:
            given["delimiter"] = delimiter or ("\t" if suffix == ".tsv" else None)
            given["wanted"] = wanted
        self.place = kind.place
        found = kind.read(self.path, **given)
        # Most cells are texts, and a large table has millions of them.
        self.rows = [
            Row(n, {name: value if type(value) is str else _plain_value(value) for name, value in row.items()})
            for n, row in found
        ]
        if not self.rows:
            raise InvalidArgumentError(f"{path}: the file has no rows.")

    def where(self, row: Row) -> str:
        return f"{self.path}, {self.place} {row.number}"


def check_column(row: Mapping[str, Any], column: str, where: str, roles: str = "") -> None:
    """Check that a row has a value in a column."""
    if row.get(column) is not None:
        return
    names = list(map(str, row))
    if column in row:
        raise InvalidArgumentError(f"{where}: {column!r} is empty.")
    shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    raise InvalidArgumentError(
        f"{where}: there is no column {column!r}{nearest(column, names)}; there are {shown}."
        + (f" {roles}" if roles else "")
    )


def as_text(value: Any) -> Any:
    """A text as it is, and a number as it is written; a list of these as a list; what else there is as it is."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return str(int(value)) if isinstance(value, numbers.Integral) else repr(float(value))
    return [as_text(each) for each in value] if isinstance(value, list | tuple) else value


def _plain_value(value: Any) -> Any:
    """What JSON can hold: dates and decimals as texts, what is not a number as nothing."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time() and value.tzinfo is None:
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else value


# Text


def read_text(path: Path, encoding: str | None = None) -> str:
    """The text of a file; line ends inside it stay as they are."""
    data = path.read_bytes()
    found = encoding or next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    try:
        return data.decode(found).removeprefix("\ufeff")
    except LookupError:
        raise InvalidArgumentError(f"{path}: there is no encoding {encoding!r}; utf-8, cp1252 are some.") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        near = data[max(0, error.start - 15) : error.start + 15].decode("cp1252", "replace").split("\n")
        seen = next((part for part in near if not part.isascii()), near[0]).strip()
        cure = f"Name its encoding: in cp1252, which Excel on Windows writes, it reads {seen!r} there."
        what = "UTF-8" if encoding is None else encoding
        raise InvalidArgumentError(f"{path}, line {line}: not {what} ({error.reason}). {cure}") from error


def from_json(text: str, path: Path, line: int) -> Any:
    """The data of a JSON text, in which no key occurs twice in an object."""

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
    except (ValueError, RecursionError) as error:  # a number with too many digits, or too many brackets
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"{path}, line {line}: not JSON that can be read: {error}.") from error


def jsonl(path: Path, encoding: str | None = None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """An object a line."""
    # Not splitlines(): JSON may hold line separators of Unicode as they are.
    for line, text in enumerate(read_text(path, encoding).split("\n"), start=1):
        if text.strip():
            row = from_json(text, path, line)
            if not isinstance(row, dict):
                raise InvalidArgumentError(f"{path}, line {line}: a row must be an object, got {type(row).__name__}.")
            yield line, row


def _json(path: Path, encoding: str | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    found = from_json(read_text(path, encoding), path, 1)
    lists = [value for value in found.values() if isinstance(value, list)] if isinstance(found, dict) else [found]
    if len(lists) != 1 or not isinstance(lists[0], list):
        what = f"{len(lists)} lists in it" if isinstance(found, dict) else type(found).__name__
        raise InvalidArgumentError(f"{path}: needs a list of objects, or an object with one such list; got {what}.")
    for number, row in enumerate(lists[0], start=1):
        if not isinstance(row, dict):
            raise InvalidArgumentError(f"{path}, row {number}: a row must be an object, got {short(row)}.")
        yield number, row


def _csv(
    path: Path, delimiter: str | None, encoding: str | None, wanted: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = read_text(path, encoding)
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidArgumentError(f"{path}: delimiter must be one character, got {delimiter!r}.")
    delimiter = delimiter or _delimiter(text, wanted)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    with _fields_of(len(text)):
        try:
            lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
        except csv.Error as error:
            raise InvalidArgumentError(f"{path}, line {reader.line_num}: not CSV: {error}") from error
    if not lines:
        return
    (head, header), *rows = lines
    width = len(header)
    while width and not header[width - 1].strip():  # as spreadsheets leave them
        width -= 1
    header = header[:width]
    if len(set(header)) < width:
        raise InvalidArgumentError(f"{path}, line {head}: a column occurs twice in {header}. Rename one of them.")
    for line, cells in rows:
        if len(cells) < width or any(map(str.strip, cells[width:])):
            raise InvalidArgumentError(
                f"{path}, line {line}: not {width} columns, as the header has, but {len(cells)} (by {delimiter!r})."
                + (" A cell with that sign in it stands in double quotes." if len(cells) > width else "")
            )
        yield line, dict(zip(header, cells, strict=False))


def _delimiter(text: str, wanted: Sequence[str]) -> str:
    """The one by which the header has most of the columns wanted, or else most columns."""

    def fits(delimiter: str) -> tuple[int, int]:
        try:
            header = next(csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter), [])
        except csv.Error:
            return 0, 0
        return sum(name in header for name in wanted), len(header)

    with _fields_of(len(text)):
        return max(_DELIMITERS, key=fits)


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


# Typed


def _parquet(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with needs_extra("tables"):
        import pyarrow
        import pyarrow.parquet
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidArgumentError(f"{path}: not Parquet: {error}") from error
    yield from enumerate(rows, start=1)


def _excel(path: Path, sheet: str | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """A sheet whose first row that is not empty holds the columns' names; cells without a value are empty texts."""
    with needs_extra("tables"):
        import openpyxl
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # of a zip file, of XML, of openpyxl
        raise InvalidArgumentError(f"{path}: not an Excel file: {error}") from error
    try:
        names = [each.title for each in book.worksheets]
        if sheet is not None and sheet not in names:
            raise InvalidArgumentError(
                f"{path}: there is no sheet {sheet!r}{nearest(sheet, names)}; there are {names}."
            )
        sheet = sheet or names[0]
        rows, no_values = [], set()
        for n, cells in enumerate(book[sheet].iter_rows(), start=1):
            row = [cell.value for cell in cells]
            if any(str(value or "").strip() or value == 0 for value in row):
                rows.append((n, row))
            # A formula's value that is an empty text has the type "str".
            no_values |= {c.coordinate for c in cells if c.value is None and c.data_type == "n" and hasattr(c, "row")}
        if no_values:
            book.close()
            book = openpyxl.load_workbook(path, read_only=True)
            formulas = [c.coordinate for row in book[sheet].iter_rows() for c in row if c.data_type == "f"]
            if lost := [place for place in formulas if place in no_values]:
                raise InvalidArgumentError(
                    f"{path}, sheet {sheet!r}: the file has formulas without their values, in {some(lost)}. Open it "
                    "in Excel or LibreOffice and save it, or replace the formulas by values."
                )
    finally:
        book.close()
    if not rows:
        return
    (head, titles), *rest = rows
    columns = [(i, str(title).strip()) for i, title in enumerate(titles) if str(title or "").strip()]
    header = [name for _, name in columns]
    if len(set(header)) < len(header):
        raise InvalidArgumentError(f"{path}, row {head}: a column occurs twice in {header}.")
    for number, row in rest:
        yield number, {name: "" if i >= len(row) or row[i] is None else row[i] for i, name in columns}


def _saved(path: Path, split: str | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with needs_extra("tables"):
        import datasets
    try:
        found: Any = datasets.load_from_disk(str(path))
    except (FileNotFoundError, ValueError, OSError) as error:
        raise InvalidArgumentError(
            f"{path} is a folder, but not one that Dataset.save_to_disk wrote: {error}. Name a file in it."
        ) from error
    if isinstance(found, Mapping):
        names = list(found)
        if split is None and len(names) == 1:
            split = names[0]
        if split not in names:
            what = "needs a split" if split is None else f"there is no split {split!r}{nearest(split, names)}"
            raise InvalidArgumentError(f"{path}: {what}; there are {names}. Name one, as split = {names[0]!r}.")
        found = found[split]
    elif split is not None:
        raise InvalidArgumentError(f"{path}: it holds one data set and no splits; got split={split!r}.")
    labels = {name: feature for name, feature in found.features.items() if isinstance(feature, datasets.ClassLabel)}
    for number, row in enumerate(found, start=1):
        # A class is its name, not its number: what people, and LLMs, write.
        named = {name: feature.int2str(row[name]) for name, feature in labels.items() if (row[name] or 0) >= 0}
        yield number, {**row, **{name: text for name, text in named.items() if row[name] is not None}}


class _Kind(NamedTuple):
    read: Callable[..., Iterator[tuple[int, Mapping[str, Any]]]]
    place: str  # what a row's number counts
    options: tuple[str, ...] = ()


_KINDS = {
    ".csv": _Kind(_csv, "line", ("delimiter", "encoding")),
    ".tsv": _Kind(_csv, "line", ("delimiter", "encoding")),
    ".json": _Kind(_json, "row", ("encoding",)),
    ".jsonl": _Kind(jsonl, "line", ("encoding",)),
    ".parquet": _Kind(_parquet, "row"),
    ".xlsx": _Kind(_excel, "row", ("sheet",)),
    ".xlsm": _Kind(_excel, "row", ("sheet",)),
    "": _Kind(_saved, "row", ("split",)),
}
KINDS = tuple(filter(None, _KINDS))
"""The ends of the names of files with rows."""
