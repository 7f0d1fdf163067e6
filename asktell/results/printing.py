"""Results as text for a terminal."""

import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from textwrap import wrap
from typing import TypeAlias

from asktell._util.terminal import aligned, one_line, safe

Columns: TypeAlias = Sequence[Sequence[str]]
# Smallest width of the last column of a table, in characters. Ids tell rows apart, so
# the text is cut before a row takes two lines.
_LEAST_TEXT = 12


def printable(text: str) -> str:
    """The text as far as stdout can print it, so that `print(result)` never fails.

    Only an old terminal or `LC_ALL=C` cannot print every text. There, "±" becomes "+-",
    and other characters are escaped.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+-")
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:  # a codec of another program
        pass
    return text


def with_doubt(probability: float | None) -> str:
    """A probability with the precision of a few hundred draws."""
    if probability is None:
        return "-"
    if probability < 0.005:
        return "<0.01"
    return ">0.99" if probability > 0.995 else f"{probability:.2f}"


def in_blocks(
    keys: Columns, columns: Columns, texts: Sequence[str], width: int
) -> Iterator[str]:
    """The lines of a table. A table wider than `width` is split into blocks, and each block begins with the keys.

    Args:
        keys: columns that identify the rows, each with its head first.
        columns: the other columns. A block has as many as fit, at least one.
        texts: the last column of the last block, with its head first, cut to the
            available width.
        width: the width of a line in characters.
    """
    room = width - sum(map(_wide, keys))
    least = min(_LEAST_TEXT, max(len(one_line(text, _LEAST_TEXT)) for text in texts))
    while columns and sum(map(_wide, columns)) + least > room:
        n = sum(end <= room for end in accumulate(map(_wide, columns)))
        here, columns = columns[: max(n, 1)], columns[max(n, 1) :]
        yield from (
            line.rstrip() for line in aligned(list(zip(*keys, *here, strict=True)))
        )
    for line, text in zip(
        aligned(list(zip(*keys, *columns, strict=True))), texts, strict=True
    ):
        yield f"{line}  {one_line(text, max(_LEAST_TEXT, width - len(line) - 2))}".rstrip()


def _wide(column: Sequence[str]) -> int:
    return max(len(safe(cell)) for cell in column) + 2


def filled(text: str, width: int) -> list[str]:
    """A sentence in lines of at most `width` characters. Later lines are indented."""
    return wrap(
        text,
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
