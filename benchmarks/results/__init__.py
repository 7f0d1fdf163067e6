"""Measured numbers: a CSV file for each table that the docs show or quote. README.md describes each."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path

RESULTS = Path(__file__).parent
DOCS = RESULTS.parents[1] / "docs"
IMAGES = DOCS / "images"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown, to print."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each Markdown table in a text, header first."""
    parsed = []
    for block in re.findall(r"(?:^\|.*(?:\n|\Z))+", text, re.MULTILINE):
        header, _, *rows = block.splitlines()
        parsed.append(
            [
                [cell.replace("`", "").strip() for cell in line.strip("|").split("|")]
                for line in (header, *rows)
            ]
        )
    return parsed


def save(name: str, text: str, folder: Path = RESULTS) -> Path:
    """Write the table of a Markdown text as NAME.csv."""
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(tables(text)[0])
    return path


def load(name: str, folder: Path = RESULTS) -> list[dict[str, str]]:
    """The rows of NAME.csv, by its header."""
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
