"""A table as columns, from a file of any kind."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import nearest, short, some
from asktell_adapters.finished import column_names
from asktell_adapters.finished.number_column import (
    WORD,
    NumberColumn,
    has_decimal_comma,
)
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.tables.rows import (
    csv_lines,
    excel_sheets,
    parquet_rows,
    plain_value,
)
from asktell_adapters.tables.spreadsheets import original

_DELIMITERS = (",", ";", "\t", "|")
_SEP = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_MOST_TITLES = 50  # rows above the header
_LOOKED_AT = 200  # lines from which the delimiter is detected
_DEEPEST = 4  # levels of objects that are flattened to columns with dots
# A whole number with decimals that are 0. "007" is a text.
_WHOLE = re.compile(r"^(-?(?:0|[1-9]\d*))\.0+$")
_EXCEL = "[Content_Types].xml"

Lines = Sequence[tuple[int, Sequence[Any]]]


@dataclass(frozen=True)
class Frame:
    """The cells of a table of n rows, by column.

    Attributes:
        path: the file.
        columns: name -> (n,) cells. A missing cell is None.
        numbers: the number of each row in the file.
        place: the unit of these numbers, "line" or "row".
        groups: column -> its group and its name in the group, if the header has two rows.
        notes: sentences about rows that were left out.
        decimal_comma: whether numbers of the file have a decimal comma.
    """

    path: Path
    columns: Mapping[str, list[Any]]
    numbers: Sequence[int]
    place: str = "row"
    groups: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False

    @classmethod
    def read(cls, source: Source, wanted: Wanted) -> "Frame":
        """Read a file as a table. The content decides its kind.

        Raises:
            InvalidArgumentError: the file is no table, is damaged, or has no rows.
            UnclearResultsError: several sheets of a spreadsheet have numbers.
        """
        if wanted.sheet is not None and _EXCEL not in source.members:
            raise InvalidArgumentError(
                f"--sheet does not apply to {source.path}, which is no spreadsheet. Remove --sheet."
            )
        try:
            frame = cls._of_kind(source, wanted)
        except UnclearResultsError:
            raise
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{error} Export the results again if you cannot correct the file."
            ) from error
        if not frame.numbers:
            raise InvalidArgumentError(
                f"{source.path} has no rows. Give a table with at least one row of scores."
            )
        return frame

    def where(self, row: int) -> str:
        """The place of a row, for messages."""
        return f"{self.path}, {self.place} {self.numbers[row]}"

    def number_column(self, name: str) -> NumberColumn:
        """The column as numbers."""
        return NumberColumn.of(self.columns[name], self.decimal_comma)

    def without(self, rows: set[int], note: str) -> "Frame":
        """Leave out rows, given by their positions."""
        rows_left = [at for at in range(len(self.numbers)) if at not in rows]
        return Frame(
            self.path,
            {
                name: [cells[at] for at in rows_left]
                for name, cells in self.columns.items()
            },
            [self.numbers[at] for at in rows_left],
            self.place,
            self.groups,
            (*self.notes, note),
            self.decimal_comma,
        )

    def changed(self, wanted: Wanted) -> "Frame":
        """Rename columns, and leave out those that the user ignores.

        Raises:
            InvalidArgumentError: an ignored column is not there, or two columns would have
                the same name.
        """
        for name in wanted.ignore:
            if name not in self.columns and wanted.is_alone:
                raise InvalidArgumentError(
                    f"{self.path} has no column {name!r}{nearest(name, list(self.columns))}, which --ignore names. "
                    f"Its columns are {some(list(self.columns))}."
                )
        names = [name for name in self.columns if name not in wanted.ignore]
        renamed = {name: wanted.rename.get(name, name) for name in names}
        if len(set(renamed.values())) < len(renamed):
            raise InvalidArgumentError(
                f"--rename gives two columns of {self.path} the same name. Give them different names."
            )
        return Frame(
            self.path,
            {renamed[name]: self.columns[name] for name in names},
            self.numbers,
            self.place,
            {renamed[name]: self.groups[name] for name in names if name in self.groups},
            self.notes,
            self.decimal_comma,
        )

    # Kinds of files

    @classmethod
    def _of_kind(cls, source: Source, wanted: Wanted) -> "Frame":
        if source.is_zip:
            if _EXCEL not in source.members:
                raise InvalidArgumentError(
                    f"{source.path} is an archive, but neither an Inspect log nor a spreadsheet, or it is damaged. "
                    "Copy it again."
                )
            return cls._of_excel(source, wanted)
        if source.is_parquet:
            return cls._of_records(source.path, list(parquet_rows(source.path)), "row")
        if source.is_json:
            return cls._of_json(source)
        return cls._of_text(source)

    @classmethod
    def _of_text(cls, source: Source) -> "Frame":
        text = source.text
        if "\0" in text:
            raise InvalidArgumentError(
                f"{source.path} cannot be read as text, because it has null bytes. Pass --encoding utf-16-le if the "
                "file is UTF-16. Otherwise export the results again."
            )
        skipped = 0
        if match := _SEP.match(text):
            # Excel's line for the delimiter
            delimiter, text, skipped = match[1], text[match.end() :], 1
        else:
            delimiter = delimiter_of(text)
        # Texts without the apostrophe that kept a spreadsheet from taking them for formulas
        lines = [
            (number + skipped, list(map(original, cells)))
            for number, cells in csv_lines(text, delimiter, source.path)
        ]
        commas = [cell for _, cells in lines for cell in cells if "," in cell]
        return cls._of_lines(
            source.path, lines, "line", has_decimal_comma(commas), repr(delimiter)
        )

    @classmethod
    def _of_excel(cls, source: Source, wanted: Wanted) -> "Frame":
        sheets = excel_sheets(source.path, wanted.sheet, every=True)
        frames: dict[str, Frame] = {}
        problems: list[InvalidArgumentError] = []
        for name, lines in sheets.items():
            values = [(n, [plain_value(cell) for cell in cells]) for n, cells in lines]
            try:
                frame = cls._of_lines(source.path, values, "row")
            except InvalidArgumentError as error:
                problems.append(error)
                continue
            if any(frame.number_column(column).n_known for column in frame.columns):
                frames[name] = frame
        if len(frames) > 1:
            raise UnclearResultsError(
                f"{source.path} has {len(frames)} sheets with numbers: {some(list(frames))}.",
                [
                    Reading(f"The sheet {name!r} has the results.", ("--sheet", name))
                    for name in frames
                ],
            )
        if not frames:
            if problems:
                raise problems[0]
            raise InvalidArgumentError(
                f"{source.path} has no sheet with a row of numbers. Give a table of scores."
            )
        (name, frame), *_ = frames.items()
        if len(sheets) == 1:
            return frame
        return Frame(
            frame.path,
            frame.columns,
            frame.numbers,
            "row",
            frame.groups,
            (
                f"{source.path.name}: the results are read from the sheet {name!r}.",
                *frame.notes,
            ),
        )

    @classmethod
    def _of_json(cls, source: Source) -> "Frame":
        source.check_json()
        if source.lines:
            rows = _objects(source.path, source.lines, "line")
            return cls._of_records(source.path, rows, "line")
        split = _split(source.json)
        if split is not None:
            names, lines = split
            return cls._of_lines(
                source.path, [(0, names), *enumerate(lines, start=1)], "row"
            )
        records = _records(source.json)
        if records is None:
            raise InvalidArgumentError(
                f"{source.path} has no table: it must be a list of objects, or an object with one such list, got "
                f"{_described(source.json)}. Export the results as rows."
            )
        rows = _objects(source.path, list(enumerate(records, start=1)), "row")
        return cls._of_records(source.path, rows, "row")

    @classmethod
    def _of_records(
        cls, path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]], place: str
    ) -> "Frame":
        flat = [(number, dict(_flattened(row))) for number, row in rows]
        names = dict.fromkeys(name for _, row in flat for name in row)
        columns = {name: [row.get(name) for _, row in flat] for name in names}
        return cls(path, columns, [number for number, _ in flat], place)

    @classmethod
    def _of_lines(
        cls,
        path: Path,
        lines: Lines,
        place: str,
        decimal_comma: bool = False,
        delimiter: str = "",
    ) -> "Frame":
        """Find the header, and check the width of the rows below it."""
        lines, titles = _without_titles(lines)
        notes = (
            (f"{path.name}: the {titles} rows above the header are left out.",)
            if titles > 1
            else (f"{path.name}: the row above the header is left out.",)
            if titles
            else ()
        )
        if not lines:
            return cls(path, {}, [], place)
        (head, header), *rows = lines
        # A name with a line break could not be written in a flag
        names = ["" if cell is None else " ".join(str(cell).split()) for cell in header]
        groups: dict[str, tuple[str, str]] = {}
        if rows and _is_second_header(names, rows[0][1], rows[1:]):
            names, groups = _merged(names, rows[0][1])
            rows = rows[1:]
            if index := _names_of_index(names, groups, rows):
                names = [*index, *names[len(index) :]]
                groups = {name: groups[name] for name in names if name in groups}
                rows = rows[1:]
        else:
            width = max((at + 1 for at, name in enumerate(names) if name), default=0)
            # An unnamed column with values, such as the index of a data frame
            used = {
                at
                for at, name in enumerate(names[:width])
                if not name
                and any(at < len(cells) and _has_value(cells[at]) for _, cells in rows)
            }
            names = [
                name or (f"(unnamed {at + 1})" if at in used else "")
                for at, name in enumerate(names[:width])
            ]
        _check_names(names, f"{path}, {place} {head}", place)
        for number, cells in rows:
            if len(cells) == len(names):
                continue
            n_cells = max(
                (at + 1 for at, cell in enumerate(cells) if _has_value(cell)), default=0
            )
            if n_cells > len(names) or (delimiter and len(cells) < len(names)):
                raise InvalidArgumentError(
                    f"{path}, {place} {number}: Columns are separated by {delimiter or 'cells'}. The header has "
                    f"{len(names)}, but this row has {len(cells)}. "
                    + (
                        f"Put a cell that contains {delimiter} in double quotes, or name every column."
                        if len(cells) > len(names)
                        else "Write the missing cells."
                    )
                )
        columns = {
            name: [cells[at] if at < len(cells) else None for _, cells in rows]
            for at, name in enumerate(names)
            if name
        }
        return cls(
            path,
            columns,
            [number for number, _ in rows],
            place,
            groups,
            notes,
            decimal_comma,
        )


def _has_value(cell: object) -> bool:
    return cell is not None and bool(str(cell).strip())


def delimiter_of(text: str) -> str:
    """The delimiter with which most rows have the same number of cells, and among several the most cells."""
    lines = text.lstrip("\r\n").splitlines(keepends=True)[:_LOOKED_AT]
    sample = "".join(lines)

    def fits(delimiter: str) -> tuple[float, int]:
        try:
            rows = list(
                csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
            )
        except csv.Error:
            return 0.0, 0
        widths = Counter(len(row) for row in rows if row)
        if not widths:
            return 0.0, 0
        # Wider first: a row of titles may be as frequent as a row of a short table
        width, times = max(widths.items(), key=lambda item: (item[1], item[0]))
        return (
            (times / sum(widths.values()), width) if width > 1 else (0.0, len(rows[0]))
        )

    return max(_DELIMITERS, key=fits)


def _without_titles(lines: Lines) -> tuple[Lines, int]:
    """Drop the rows above the header, which have a single cell where the header has several."""
    filled = [sum(map(_has_value, cells)) for _, cells in lines[:_MOST_TITLES]]
    if not filled or max(filled) < 2:
        return lines, 0
    first = next(at for at, n in enumerate(filled) if n > 1)
    return lines[first:], first


def _is_second_header(names: Sequence[str], second: Sequence[Any], rows: Lines) -> bool:
    """Whether the second row continues a header with merged cells.

    It has only names, at least two, and the first row has an empty cell after each merged
    name, or the name again. The rows below have other values than names there.
    """
    filled = [at for at, cell in enumerate(second) if _has_value(cell)]
    has_gap = any(
        at < len(second) and _has_value(second[at]) and not name and at > 0
        for at, name in enumerate([*names, *[""] * (len(second) - len(names))])
    )
    # Programs repeat the name instead of merging cells
    has_gap = has_gap or len(set(names)) < len(names)
    if not has_gap or len(filled) < 2 or not rows:
        return False
    titles = NumberColumn.of([second[at] for at in filled])
    # "solved" is a name here, and a score in other cells
    return (
        bool(titles.wrong)
        and set(titles.notations) <= {WORD}
        and any(
            NumberColumn.of([cells[at] for _, cells in rows if at < len(cells)]).n_known
            for at in filled
        )
    )


def _merged(
    names: Sequence[str], second: Sequence[Any]
) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Join a header of two rows to one: "group.name"."""
    joined, groups, group = list[str](), dict[str, tuple[str, str]](), ""
    for at in range(max(len(names), len(second))):
        group = (names[at] if at < len(names) else "") or group
        part = (
            " ".join(str(second[at]).split())
            if at < len(second) and _has_value(second[at])
            else ""
        )
        name = f"{group}.{part}" if part and group else part or group
        joined.append(name)
        if part and group:
            groups[name] = group, part
    return joined, groups


def _names_of_index(
    names: Sequence[str], groups: Mapping[str, tuple[str, str]], rows: Lines
) -> list[str]:
    """What the first columns are called, if a data frame has a row for it below the header."""
    if len(rows) < 2:
        return []
    cells = rows[0][1]
    filled = [at for at, cell in enumerate(cells) if _has_value(cell)]
    n = len(filled)
    is_above_names = (
        0 < n < len(names)
        and filled == list(range(n))
        and all(name in groups for name in names[n:])
        and all(_has_value(cell) for cell in rows[1][1][:n])
    )
    index = [" ".join(str(cell).split()) for cell in cells[:n]]
    has_words = len(NumberColumn.of(index).wrong) == n
    is_usual = any(map(column_names.is_no_score, index))
    # Without a usual name, the left upper cells must be those of a data frame
    is_named = any(name in groups or not name for name in names[:n])
    return index if is_above_names and has_words and (is_usual or is_named) else []


def _check_names(names: Sequence[str], where: str, place: str) -> None:
    """Refuse a header with a name twice, or with numbers only."""
    present = [name for name in names if name]
    twice = [name for name, times in Counter(present).items() if times > 1]
    if twice:
        raise InvalidArgumentError(
            f"{where}: Two columns have the same name, {some(twice)}. Rename one of them in the file."
        )
    titles = NumberColumn.of(present)
    if titles.is_numeric and WORD not in titles.notations:
        raise InvalidArgumentError(
            f"{where}: The first {place} must have the names of the columns, got numbers: {some(present)}. Write a "
            "header above them."
        )


# JSON


def _objects(
    path: Path, rows: Sequence[tuple[int, Any]], place: str
) -> list[tuple[int, Mapping[str, Any]]]:
    for number, row in rows:
        if not isinstance(row, dict):
            raise InvalidArgumentError(
                f"{path}, {place} {number}: A row must be a JSON object, got {short(row)}. Correct the row."
            )
    return list(rows)


def _split(document: Any) -> tuple[list[str], list[list[Any]]] | None:
    """The header and the rows of pandas' orient="split", or None."""
    if not isinstance(document, dict):
        return None
    names, rows = document.get("columns"), document.get("data")
    is_split = (
        isinstance(names, list)
        and isinstance(rows, list)
        and all(isinstance(row, list) and len(row) == len(names) for row in rows)
    )
    return (list(map(str, names or [])), rows or []) if is_split else None


def _records(document: Any) -> list[Any] | None:
    """The rows in a JSON document: a list, the only list of objects in an object, or a data frame."""
    if isinstance(document, list):
        return document if any(isinstance(row, dict) for row in document) else None
    level = [document]
    for _ in range(_DEEPEST):
        values = [
            value for part in level if isinstance(part, dict) for value in part.values()
        ]
        lists = [
            value
            for value in values
            if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        if lists:
            return lists[0] if len(lists) == 1 else None
        level = values
    return _of_mapping(document) if isinstance(document, dict) else None


def _of_mapping(document: Mapping[str, Any]) -> list[Any] | None:
    """The rows of a data frame: column -> values, column -> row -> value, or row -> column -> value."""
    values = list(document.values())
    if values and all(isinstance(value, list) for value in values):
        if len({len(value) for value in values}) > 1 or not values[0]:
            return None
        return [
            dict(zip(document, cells, strict=True))
            for cells in zip(*values, strict=True)
        ]
    if len(values) < 2 or not all(
        isinstance(value, dict) and value for value in values
    ):
        return None
    inner = dict.fromkeys(name for value in values for name in value)
    if len(inner) > len(values):
        # Fewer columns than rows: the outer keys are columns
        return [
            {"(key)": row, **{name: cells.get(row) for name, cells in document.items()}}
            for row in inner
        ]
    return [{"(key)": row, **cells} for row, cells in document.items()]


def _described(document: Any) -> str:
    if isinstance(document, dict):
        return (
            f"an object with the keys {some(list(document))}"
            if document
            else "an empty object"
        )
    return short(document)


def _flattened(
    row: Mapping[str, Any], prefix: str = "", level: int = 1
) -> Iterator[tuple[str, Any]]:
    """The values of nested objects, with names such as "scores.accuracy"."""
    for name, value in row.items():
        if isinstance(value, dict) and level < _DEEPEST:
            yield from _flattened(value, f"{prefix}{name}.", level + 1)
        else:
            yield f"{prefix}{name}", plain_value(value)


def as_id(cell: object) -> str | None:
    """A cell as an id. Ids are compared as values: 1, 1.0, "1" and " 1 " are the same. None if the cell is empty."""
    if type(cell) is str:
        cell = cell.strip()
        if "." not in cell:
            # Most ids, and a large table has millions of them
            return cell or None
    if cell is None or cell != cell:
        return None
    return _WHOLE.sub(r"\1", str(cell).strip()) or None
