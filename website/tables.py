"""Markdown tables, and parts of a page that are written by a program."""

import re
from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in row) + " |" for row in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def filled(text: str, name: str, content: str) -> str:
    """A page with what is between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    marks = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, found, rest = text.partition(marks[0])
    _, ended, after = rest.partition(marks[1])
    if not found or not ended:
        raise ValueError(f"The page needs the lines {marks[0]!r} and {marks[1]!r}, between which it is written.")
    return f"{before}{marks[0]}\n\n{content.strip()}\n\n{marks[1]}{after}"
