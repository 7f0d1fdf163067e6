"""Text for a terminal, without control characters from prompts, ids or errors."""

import math
import re
from collections.abc import Sequence

from asktell._util.chats import readable

# Smaller numbers are printed with an exponent.
_SMALLEST_PLAIN = 1e-9


def safe(text: str) -> str:
    r"""The text with an escape, such as `\n`, for each character that is not printable, so that it is a single line."""
    return "".join(
        c
        if c.isprintable()
        else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )


def one_line(text: str, width: int) -> str:
    """The text in one line of at most `width` characters. A longer text is cut, and ends in "...".

    Line breaks and other white space become single spaces. Other characters that are
    not printable are escaped. If the text is a chat, its turns are shown instead of its
    JSON.
    """
    flat = safe(" ".join(readable(text)[: 4 * width].split()))
    return flat if len(flat) <= width else flat[: width - 3] + "..."


_MARKUP = re.compile(r"[\\|<>`*\[\]&]")


def in_markdown(text: str) -> str:
    """The text in Markdown: one line without markup, in which GitHub finds no user to notify and no issue to link."""
    escaped = _MARKUP.sub(r"\\\g<0>", safe(text))
    return escaped.replace("@", "@\u200b").replace("#", "#\u200b")


# An estimate below this part of its error is printed as 0. Otherwise it would read
# 0.0000004247 ± 0.12.
_NEGLIGIBLE = 1e-3


def with_error(mean: float | None, error: float | None) -> str:
    """An estimate and its standard error as text, such as "0.865 ± 0.16".

    Without a standard error, the text is just the estimate. Without an estimate, it is
    "-".
    """
    if mean is None:
        return "-"
    if error is None:
        return in_digits(mean, 4)
    shown = 0.0 if abs(mean) < _NEGLIGIBLE * error else mean
    return f"{in_digits(shown, 4)} ± {in_digits(error, 2)}"


def in_digits(number: float, digits: int) -> str:
    """A number with so many significant digits, as with `:g`, but without an exponent for small numbers: 0.000096."""
    size = abs(number)
    if not _SMALLEST_PLAIN <= size < 1e-4:
        return f"{number:.{digits}g}"
    return f"{number:.{digits - 1 - math.floor(math.log10(size))}f}".rstrip("0")


def in_percent(probability: float) -> str:
    """A probability from 0 to 1 as text for a sentence, such as "93%".

    asktell computes probabilities from a few hundred random draws. So the most extreme
    texts are "under 1%" and "over 99%".
    """
    if probability >= 0.995:
        return "over 99%"
    return "under 1%" if probability <= 0.005 else f"{100 * probability:.0f}%"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line of text for each row of a table, with aligned columns.

    All lines have the same width. Characters that are not printable are escaped.

    Args:
        rows: the cells of each row. All rows have the same number of cells.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]
