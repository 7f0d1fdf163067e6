"""The generated parts of pages, between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "benchmarks.md"
TABLES = DOCS / "reference" / "benchmark-tables.md"
IMAGES = DOCS / "images"


def replace(page: str, parts: Mapping[str, str]) -> str:
    """The page with those parts renewed; a part that it has no place for is left out."""
    for name, text in parts.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        page = pattern.sub(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)  # type: ignore[misc]
    return page


def update(path: Path, parts: Mapping[str, str]) -> None:
    """Renew those parts of a file; a file that is not there gets all of them.

    Raises:
        ValueError: the file has no place for any of them.
    """
    if not path.exists():
        places = (f"## {name.capitalize()}\n\n<!-- begin {name} -->\n<!-- end {name} -->\n" for name in parts)
        page = "\n".join(["# Benchmarks\n", *places])
    else:
        page = path.read_text()
        if not any(f"<!-- begin {name} -->\n" in page for name in parts):
            raise ValueError(
                f"{path} has no place for any of {', '.join(parts)}: it needs lines <!-- begin NAME --> and "
                "<!-- end NAME -->, or another name for a new file."
            )
    path.write_text(replace(page, parts))


def part(page: str, name: str) -> str:
    """That part of a page."""
    found = re.search(rf"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", page, re.DOTALL)
    if found is None:
        raise ValueError(f"The page has no part {name!r}.")
    return found[1]


def rows(text: str) -> list[dict[str, str]]:
    """The rows of the first table in Markdown, by its header."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """In Markdown."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
