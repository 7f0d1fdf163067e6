"""CSV that is safe to open in a spreadsheet: no text of a user becomes a formula.

A spreadsheet takes a cell that begins with "=", "+", "-" or "@" for a formula, which may
read other cells and send them away. The id of an example may be a text that strangers
wrote. So such a text gets an apostrophe in front, as spreadsheets do themselves, and
`original` removes it again.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

# Also the characters that some programs skip or replace before they look
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV, in which no cell is a formula.

    Args:
        columns: the names of the columns.
        rows: the cells of each row. Texts are changed where they would be formulas,
            and other values are not.
    """
    return "".join(map(_line, [columns, *rows]))


def harmless(cell: Any) -> Any:
    """A cell as it is, or with an apostrophe in front if it would be a formula."""
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}" if _FORMULA.match(cell) else cell


def original(cell: str) -> str:
    """The text for which `harmless` returned `cell`. Other texts stay as they are."""
    is_changed = cell.startswith("'") and _FORMULA.match(cell)
    return cell[1:] if is_changed else cell


def _line(cells: Iterable[Any]) -> str:
    """One row as CSV."""
    # Before Python 3.13, a cell with "\r" is quoted only if "\r" is in the end of the
    # line. Without quotes, what follows would be the first cell of a new row.
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(map(harmless, cells))
    return text.getvalue().removesuffix("\r\n") + "\n"
