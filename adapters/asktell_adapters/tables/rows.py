"""Read the rows of a table: CSV, TSV, JSON, JSONL, Parquet, Excel, or a folder of Hugging Face datasets."""

import codecs
import contextlib
import csv
import datetime
import decimal
import io
import json
import math
import numbers
import threading
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell.extend import nearest, needs_extra, short, some
from asktell_adapters.tables.spreadsheets import original

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DELIMITERS = (",", ";", "\t", "|")
_IDS = frozenset(("id", "prompt", "example"))
_SHOWN = 20  # columns in an error message
# Of a table. A sheet of Excel has no more.
_MOST_COLUMNS = 16_384
# Cells of a table, counting each row with all columns, unless a tenth of them are filled.
# Readers of a table look into each.
_MOST_CELLS = 10_000_000
_FILLED = 10
# Bytes of a table that is unpacked from a compressed file, about, in memory. A file of
# some kilobytes may hold the same row a billion times.
_MOST_UNPACKED = 2**30
# In memory, of a row, and of each of its cells besides the value
_BYTES_OF_ROW, _BYTES_OF_CELL = 300, 100
_BYTES_OF_XML = 4  # in memory, for each byte of a sheet
_ROWS_AT_ONCE = 1000  # of a Parquet file
_TOO_LONG = "a number with too many digits, or too many nested brackets"


class Row(NamedTuple):
    """A row of a table, with its values by column.

    `number` is the number of the line in text files, and of the row in Excel. In other
    files, rows count from 1.
    """

    number: int
    values: Mapping[str, Any]


@final
class Table:
    """The rows of a file or folder, in order. Empty rows are left out.

    The ending of the path determines the kind of table.

    ```python
    table = Table("results.csv", wanted=["prompt", "example"])
    table.rows[0].values["prompt"]
    ```

    Args:
        path: the file, or a folder that `Dataset.save_to_disk` wrote.
        wanted: columns that the caller looks for. The delimiter of a CSV file is detected
            from them.
        delimiter: delimiter of a CSV or TSV file (default: a tab in TSV, else detected).
        encoding: encoding of a text file (default: that of its byte order mark, else
            UTF-8).
        sheet: sheet of an Excel file (default: the first).
        split: split of a folder with several splits.

    Attributes:
        path: the file or folder.
        rows: the rows.
        place: the unit of a row's number, "line" or "row".

    Raises:
        InvalidArgumentError: the file does not exist, cannot be read, is of an unknown kind
            or has no rows, or an option does not apply to its kind.
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
        suffix = "" if self.path.is_dir() else self.path.suffix.lower() or "no ending"
        kind = _KINDS.get(suffix)
        if kind is None:
            cure = " Save the file as .xlsx." if suffix == ".xls" else ""
            raise InvalidArgumentError(
                f"asktell cannot read rows from {str(path)!r}. It reads files that end with "
                f"{', '.join(sorted(KINDS))}, and folders that `Dataset.save_to_disk` of Hugging Face wrote.{cure}"
            )
        settings: dict[str, Any] = {
            "delimiter": delimiter,
            "encoding": encoding,
            "sheet": sheet,
            "split": split,
        }
        _check_options(path, kind, settings)
        options = {name: settings[name] for name in kind.options}
        if "delimiter" in options:
            if suffix == ".tsv" and not delimiter:
                options["delimiter"] = "\t"
            options["wanted"] = wanted

        self.place = kind.place
        self.rows = []
        header: Sequence[str] = ()
        columns, n_filled = set[str](), 0
        for number, values in kind.read(self.path, **options):
            # Most cells are texts, which are plain already. A large table has millions
            # of them, so each saved call counts.
            plain = {
                name: value if type(value) is str else plain_value(value)
                for name, value in values.items()
            }
            self.rows.append(Row(number, plain))
            n_filled += len(plain)
            if (names := tuple(plain)) != header:
                header = names
                columns.update(names)
                _check_size(path, len(self.rows), len(columns), n_filled)
        _check_size(path, len(self.rows), len(columns), n_filled)
        if not self.rows:
            raise InvalidArgumentError(f"{path} has no rows. Write at least one row.")

    @property
    def names(self) -> list[str]:
        """The names of all columns, in order. The rows of JSON may have different ones."""
        # Most tables have the same header in each row, so compare headers first.
        headers = dict.fromkeys(tuple(row.values) for row in self.rows)
        return list(dict.fromkeys(str(name) for header in headers for name in header))

    def where(self, row: Row) -> str:
        """The place of a row, for messages."""
        return f"{self.path}, {self.place} {row.number}"


def _check_size(
    path: object, n_rows: int, n_columns: int, n_filled: int | None = None
) -> None:
    """Refuse a table that would take time or memory out of proportion to its size.

    Args:
        path: the file, for the message.
        n_rows: number of rows.
        n_columns: number of different columns.
        n_filled: number of cells that the rows have (default: all).
    """
    if n_columns > _MOST_COLUMNS:
        raise InvalidArgumentError(
            f"{path} has more than {_MOST_COLUMNS:,} columns, the limit for a table. Leave out columns, or write a row "
            "for each evaluation, with its prompt, its example and its scores."
        )
    n_cells = n_rows * n_columns
    if n_filled is not None and n_cells > max(_MOST_CELLS, _FILLED * n_filled):
        raise InvalidArgumentError(
            f"{path} has {n_columns:,} columns in {n_rows:,} rows, but most rows lack most of them. The limit for such "
            f"a table is {_MOST_CELLS:,} cells. Give each row the same keys."
        )


def _check_unpacked(path: Path, n_bytes: int) -> None:
    """Refuse a table whose file is small, but whose rows would take too much memory."""
    if n_bytes > _MOST_UNPACKED:
        raise InvalidArgumentError(
            f"{path} is too large when unpacked: it would take over {_MOST_UNPACKED >> 30} GiB of memory, the limit "
            "for a compressed file. Leave out rows or columns, or save it as .csv."
        )


def _check_options(
    path: str | Path, kind: "_Kind", settings: Mapping[str, Any]
) -> None:
    """Refuse options that do not apply to this kind of table."""
    for name, value in settings.items():
        if value is None or name in kind.options:
            continue
        endings = [end or "folders" for end, of in _KINDS.items() if name in of.options]
        raise InvalidArgumentError(
            f"{name}={value!r} does not apply to {path}, only to {' and '.join(endings)}. Remove {name}."
        )


def check_column(
    row: Mapping[str, Any], column: str, where: str, roles: str = ""
) -> None:
    """Check that a row has a value in a column.

    Args:
        row: column -> value.
        column: the column.
        where: the place of the row, which begins the message.
        roles: the end of the message, such as how columns are named.

    Raises:
        InvalidArgumentError: the row does not have the column, or its value is None.
    """
    if row.get(column) is not None:
        return
    names = list(map(str, row))
    if column in row:
        raise InvalidArgumentError(
            f"{where}: The column {column!r} is empty. Write a value there."
        )
    shown = ", ".join(map(repr, names[:_SHOWN])) + (
        ", ..." if len(names) > _SHOWN else ""
    )
    raise InvalidArgumentError(
        f"{where}: The row has no column {column!r}{nearest(column, names)}. The columns are {shown}."
        + (f" {roles}" if roles else "")
    )


def number_in(value: Any) -> float | None:
    """The finite number in a cell of a table. None if it has none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def as_text(value: Any) -> Any:
    """Convert numbers, also inside lists, to text. Return any other value as it is."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return (
            str(int(value))
            if isinstance(value, numbers.Integral)
            else repr(float(value))
        )
    return (
        [as_text(item) for item in value] if isinstance(value, list | tuple) else value
    )


def plain_value(value: Any) -> Any:
    """Convert a value to JSON data: dates and decimals to text, NaN to None."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if (
        isinstance(value, datetime.datetime)
        and value.time() == datetime.time()
        and value.tzinfo is None
    ):
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else value


# Text


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file. Line ends stay as they are.

    Args:
        path: the file.
        encoding: its encoding (default: the encoding of its byte order mark, else
            UTF-8).

    Raises:
        InvalidArgumentError: the encoding is unknown, or is not the encoding of the
            file.
    """
    data = path.read_bytes()
    codec = encoding or next(
        (name for bom, name in _BOMS if data.startswith(bom)), "utf-8"
    )
    try:
        return data.decode(codec).removeprefix("\ufeff")
    except LookupError:
        raise InvalidArgumentError(
            f"{path} cannot be read with the encoding {encoding!r}, which is unknown. Give another encoding, such as "
            "'utf-8' or 'cp1252'."
        ) from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        # Show the words around the first bad byte as the likeliest other encoding reads
        # them.
        near = (
            data[max(0, error.start - 15) : error.start + 15]
            .decode("cp1252", "replace")
            .split("\n")
        )
        seen = next((part for part in near if not part.isascii()), near[0]).strip()
        cure = (
            "Save the file as UTF-8, or give its encoding. In cp1252, the encoding of Excel on Windows, the line would "
            f"contain {seen!r}."
        )
        what = "UTF-8" if encoding is None else encoding
        raise InvalidArgumentError(
            f"{path}, line {line}: The text is not {what} ({error.reason}). {cure}"
        ) from error


def from_json(text: str, path: Path, line: int) -> Any:
    """Parse a JSON text.

    Args:
        text: the text.
        path: the file that it is from, for messages.
        line: the line of the file that it starts on, for messages.

    Raises:
        InvalidArgumentError: the text is not JSON, or a key occurs twice in an object.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name, count in counts.items() if count > 1)
            raise InvalidArgumentError(
                f"{path}, line {line}: The key {twice!r} occurs twice. Keep one of the two."
            )
        return result

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        raise InvalidArgumentError(
            f"{path}, {where}: The text is not JSON ({error.msg}). Correct the file."
        ) from error
    except (ValueError, RecursionError) as error:
        # A number with too many digits, or too many brackets
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"{path}, line {line}: The JSON has {_TOO_LONG}. Correct the file."
        ) from error


def from_toml(text: str, path: object) -> dict[str, Any]:
    """Parse a TOML text. `path`: the file that it is from, for messages.

    Raises:
        InvalidArgumentError: the text is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError(
            f"{path}: The file is not TOML ({error}). Correct the file."
        ) from error
    except (ValueError, RecursionError) as error:
        # Python's own message would be about its limits
        raise InvalidArgumentError(
            f"{path}: The TOML has {_TOO_LONG}. Correct the file."
        ) from error


def jsonl(
    path: Path, encoding: str | None = None
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read a JSONL file, which has one object per line. Yields the number and the object of each line."""
    # Not splitlines(), because a JSON text may contain Unicode line separators.
    for line, text in enumerate(read_text(path, encoding).split("\n"), start=1):
        if text.strip():
            row = from_json(text, path, line)
            if not isinstance(row, dict):
                raise InvalidArgumentError(
                    f"{path}, line {line}: A row must be a JSON object, got {short(row)}. Correct the row."
                )
            yield line, row


def _json(path: Path, encoding: str | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read a list of objects, or the only list in an object."""
    parsed = from_json(read_text(path, encoding), path, 1)
    lists = (
        [value for value in parsed.values() if isinstance(value, list)]
        if isinstance(parsed, dict)
        else [parsed]
    )
    if len(lists) != 1 or not isinstance(lists[0], list):
        what = (
            f"an object with {len(lists)} lists"
            if isinstance(parsed, dict)
            else short(parsed)
        )
        raise InvalidArgumentError(
            f"{path} must have a list of JSON objects, or an object with one such list, got {what}."
        )
    for number, row in enumerate(lists[0], start=1):
        if not isinstance(row, dict):
            raise InvalidArgumentError(
                f"{path}, row {number}: A row must be a JSON object, got {short(row)}. Correct the row."
            )
        yield number, row


def _csv(
    path: Path, delimiter: str | None, encoding: str | None, wanted: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read CSV or TSV. The line of a row is the line on which it ends.

    Args:
        path: the file.
        delimiter: one character, or None to detect it.
        encoding: its encoding, or None to detect it.
        wanted: columns from which the delimiter is detected.

    Raises:
        InvalidArgumentError: the file is not CSV, a column occurs twice, or a row has
            another number of columns than the header.
    """
    text = read_text(path, encoding)
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidArgumentError(
            f"The delimiter of {path} must be one character, got {delimiter!r}."
        )
    delimiter = delimiter or _delimiter(text, wanted)
    lines = csv_lines(text, delimiter, path)
    if not lines:
        return
    (head, header), *rows = lines
    # The header determines the width. Cells beyond it must be empty.
    width = len(header)
    # Spreadsheets write empty columns at the end
    while width and not header[width - 1].strip():
        width -= 1
    _check_size(path, 1, width)
    header = list(map(original, header[:width]))
    _check_header(header, f"{path}, line {head}")
    for line, cells in rows:
        if len(cells) < width or any(map(str.strip, cells[width:])):
            raise InvalidArgumentError(
                f"{path}, line {line}: Columns are separated by {delimiter!r}. The header has {width}, but this row "
                f"has {len(cells)}."
                + (
                    f" Put a cell that contains {delimiter!r} in double quotes."
                    if len(cells) > width
                    else " Add the missing cells."
                )
            )
        row = dict(zip(header, cells, strict=False))
        # What `csv_text` wrote for an id or a prompt. Other texts may be anybody's.
        yield line, row | {name: original(row[name]) for name in _IDS & row.keys()}


def csv_lines(text: str, delimiter: str, path: Path) -> list[tuple[int, list[str]]]:
    """Split CSV into the cells of each row that is not empty, with the line on which the row ends.

    Args:
        text: the content.
        delimiter: one character.
        path: the file that the text is from, for messages.

    Raises:
        InvalidArgumentError: the quotation marks are wrong.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    with _fields_of(len(text)):
        try:
            # Read all lines at once, because the size limit of the csv module is
            # restored when this block ends.
            return [
                (reader.line_num, cells)
                for cells in reader
                if any(map(str.strip, cells))
            ]
        except csv.Error as error:
            raise InvalidArgumentError(
                f"{path}, line {reader.line_num}: The line is not CSV ({error}). Correct the quotation marks."
            ) from error


def _delimiter(text: str, wanted: Sequence[str]) -> str:
    """The delimiter that gives the header most of the wanted columns, and among several most columns in total.

    Args:
        text: the file.
        wanted: names of columns.
    """

    def fits(delimiter: str) -> tuple[int, int]:
        try:
            header = next(
                csv.reader(
                    io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter
                ),
                [],
            )
        except csv.Error:
            return 0, 0
        return sum(name in header for name in wanted), len(header)

    with _fields_of(len(text)):
        # The header alone decides, because cells of data often contain commas.
        return max(_DELIMITERS, key=fits)


# The csv module has one limit for the whole process
_one_limit_at_a_time = threading.Lock()


@contextlib.contextmanager
def _fields_of(characters: int) -> Iterator[None]:
    """Allow CSV fields of this length inside the `with` block. The csv module's default is 131,072 characters."""
    with _one_limit_at_a_time:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, characters))
        try:
            yield
        finally:
            csv.field_size_limit(before)


# Typed


def parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read a Parquet file. Rows count from 1."""
    with needs_extra("tables"):
        import pyarrow
        import pyarrow.parquet
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            about = file.metadata
            _check_size(path, about.num_rows, about.num_columns)
            groups = [about.row_group(at) for at in range(about.num_row_groups)]
            chunks = [
                group.column(at) for group in groups for at in range(group.num_columns)
            ]
            n_bytes = about.num_rows * _BYTES_OF_ROW + _BYTES_OF_CELL * sum(
                chunk.num_values for chunk in chunks
            )
            _check_unpacked(path, n_bytes)
            # A row cannot be larger than its row group, but the group's text may be in
            # every row.
            largest = max((group.total_byte_size for group in groups), default=1)
            at_once = min(_ROWS_AT_ONCE, max(1, _MOST_UNPACKED // max(1, largest)))
            texts: dict[str, str] = {}
            number = 0
            for batch in file.iter_batches(at_once):
                for row in batch.to_pylist():
                    for name, value in row.items():
                        if isinstance(value, str):
                            row[name] = texts.setdefault(value, value)
                            n_bytes += len(value) if row[name] is value else 0
                    _check_unpacked(path, n_bytes)
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidArgumentError(
            f"{path} is not a Parquet file ({error}). Save the file again."
        ) from error


def _excel(path: Path, sheet: str | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read a sheet. Its first row that is not empty has the column names. An empty cell becomes an empty text."""
    sheets = excel_sheets(path, sheet)
    rows = next(iter(sheets.values()))
    if not rows:
        return
    (head, titles), *rest = rows
    columns = {}
    for i, title in enumerate(titles):
        if str(title or "").strip():
            columns[i] = str(title).strip()
    _check_header(list(columns.values()), f"{path}, row {head}")
    for number, row in rest:
        # Excel leaves out the empty cells at the end of a row.
        values = dict.fromkeys(columns.values(), "")
        for i, value in enumerate(row):
            if i in columns and value is not None:
                values[columns[i]] = value
        yield number, values


def excel_sheets(
    path: Path, sheet: str | None = None, every: bool = False
) -> dict[str, list[tuple[int, list[Any]]]]:
    """Read the rows of sheets that are not empty, each with its number, by the sheet's name.

    Args:
        path: the file.
        sheet: the sheet to read.
        every: read every sheet if none is named (default: the first).

    Raises:
        InvalidArgumentError: the file is not an Excel file, has no such sheet, or has
            formulas without values.
    """
    with needs_extra("tables"):
        import openpyxl
    try:
        # data_only reads the values that Excel saved for formulas. From a file object,
        # openpyxl does not look at the ending.
        with path.open("rb") as file:
            data = io.BytesIO(file.read())
        with zipfile.ZipFile(data) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
            _check_unpacked(path, _BYTES_OF_XML * n_bytes)
        book = openpyxl.load_workbook(data, read_only=True, data_only=True)
    except InvalidArgumentError:
        raise
    except Exception as error:
        # The exception is from zipfile, an XML parser or openpyxl.
        raise InvalidArgumentError(
            f"{path} is not an Excel file ({error}). Save the file again."
        ) from error
    with contextlib.closing(book):
        names = [worksheet.title for worksheet in book.worksheets]
        if sheet is not None and sheet not in names:
            raise InvalidArgumentError(
                f"{path} has no sheet {sheet!r}{nearest(sheet, names)}. Choose one of {some(names)}."
            )
        chosen = [sheet] if sheet else names if every else names[:1]
        cells = {name: _cells(book[name], path) for name in chosen}
    for name, (_, without_value) in cells.items():
        if without_value:
            _check_formulas(path, name, without_value)
    return {name: rows for name, (rows, _) in cells.items()}


def _check_header(header: Sequence[str], where: str) -> None:
    """Refuse a header in which a column's name occurs twice."""
    if len(set(header)) < len(header):
        raise InvalidArgumentError(
            f"{where}: Two columns have the same name, got {some(header)}. Rename one of them."
        )


def _cells(sheet: Any, path: Path) -> tuple[list[tuple[int, list[Any]]], set[str]]:
    """The number and values of each row that is not empty, and the coordinates of numeric cells without a value.

    Raises:
        InvalidArgumentError: the sheet has too many cells.
    """
    rows, without_value = [], set()
    # Otherwise each row has as many cells as the sheet claims to have, which may be
    # 16,384 in a million rows.
    sheet.reset_dimensions()
    n_cells = 0
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        n_cells += len(cells)
        if n_cells > _MOST_CELLS:
            raise InvalidArgumentError(
                f"{path} has more than {_MOST_CELLS:,} cells, the limit for Excel files. Delete rows and columns that "
                "are empty or not needed, or save the sheet as .csv."
            )
        values = [cell.value for cell in cells]
        if any(str(value or "").strip() or value == 0 for value in values):
            rows.append((number, values))
        for cell in cells:
            # A formula whose value is an empty text has the type "str". Placeholders of
            # openpyxl have no row.
            if cell.value is None and cell.data_type == "n" and hasattr(cell, "row"):
                without_value.add(cell.coordinate)
    return rows, without_value


def _check_formulas(path: Path, sheet: str, without_value: set[str]) -> None:
    """Check that no cell without a value has a formula. Excel saves values, but programs may write formulas alone."""
    import openpyxl

    data = io.BytesIO(path.read_bytes())
    with contextlib.closing(openpyxl.load_workbook(data, read_only=True)) as book:
        lost: list[str] = []
        book[sheet].reset_dimensions()
        for row in book[sheet].iter_rows():
            lost.extend(
                cell.coordinate
                for cell in row
                if cell.data_type == "f" and cell.coordinate in without_value
            )
    if lost:
        raise InvalidArgumentError(
            f"{path}, sheet {sheet!r}: The cells {some(lost)} have formulas without values. Open the file in "
            "Excel or LibreOffice and save it there, or replace the formulas by values."
        )


def _saved(path: Path, split: str | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read a folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote."""
    with needs_extra("tables"):
        import datasets
    try:
        dataset: Any = datasets.load_from_disk(str(path))
    except (FileNotFoundError, ValueError, OSError) as error:
        raise InvalidArgumentError(
            f"{path} is a folder that `Dataset.save_to_disk` did not write ({error}). Give the path of a file in the "
            "folder."
        ) from error
    if isinstance(dataset, Mapping):
        names = list(dataset)
        if split is None and len(names) == 1:
            split = names[0]
        if split not in names:
            what = (
                "needs a split"
                if split is None
                else f"has no split {split!r}{nearest(split, names)}"
            )
            raise InvalidArgumentError(
                f"{path} {what}. Choose one of the splits {some(names)}, for example split = {names[0]!r}."
            )
        dataset = dataset[split]
    elif split is not None:
        raise InvalidArgumentError(
            f"Got split={split!r} for {path}, but the folder has one dataset without splits. Remove split."
        )
    # A class label is stored as a number, with the names in the features.
    labels = {
        name: feature
        for name, feature in dataset.features.items()
        if isinstance(feature, datasets.ClassLabel)
    }
    for number, row in enumerate(dataset, start=1):
        # Replace the number of a class by its name, because people and LLMs write
        # names. -1 stands for no label.
        named = {}
        for name, feature in labels.items():
            if row[name] is not None and row[name] >= 0:
                named[name] = feature.int2str(row[name])
        yield number, {**row, **named}


class _Kind(NamedTuple):
    """A kind of table.

    Attributes:
        read: yields the number and the values of each row.
        place: the unit of a row's number.
        options: names of the options that apply.
    """

    read: Callable[..., Iterator[tuple[int, Mapping[str, Any]]]]
    place: str
    options: tuple[str, ...] = ()


_KINDS = {
    ".csv": _Kind(_csv, "line", ("delimiter", "encoding")),
    ".tsv": _Kind(_csv, "line", ("delimiter", "encoding")),
    ".json": _Kind(_json, "row", ("encoding",)),
    ".jsonl": _Kind(jsonl, "line", ("encoding",)),
    ".parquet": _Kind(parquet_rows, "row"),
    ".xlsx": _Kind(_excel, "row", ("sheet",)),
    ".xlsm": _Kind(_excel, "row", ("sheet",)),
    "": _Kind(_saved, "row", ("split",)),
}
KINDS = tuple(filter(None, _KINDS))
"""Endings of files that have rows."""
