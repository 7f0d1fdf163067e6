"""The order of the pages: each folder's README.md lists its pages, under headings. That list is the site's navigation.

A page that is not listed there comes last in its folder, under its title: to place it, add its line.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from website.links import links, plain, prose, title
from website.names import ROOT

DOCS = ROOT / "docs"
SECTIONS = ("tutorials", "how-to", "reference", "explanation")
"""The four kinds of page, each with a folder."""

OF_THE_PROJECT = tuple(sorted(page.name for page in ROOT.glob("*.md") if page.name != "README.md"))
"""Pages at the root of the repository, which the site has in its folder project/."""


def pages() -> list[Path]:
    """Every page under docs/."""
    return sorted(DOCS.rglob("*.md"))


def navigation() -> list[Any]:
    """Titles and paths (from docs/, with slashes), nested as the generator takes them."""
    found: list[Any] = [{"Start": "README.md"}]
    for section in SECTIONS:
        index = DOCS / section / "README.md"
        seen = {index}
        listed = list(_listed(index, seen))
        others = [page for page in pages() if page.is_relative_to(index.parent) and page not in seen]
        listed += [{title(page): page.relative_to(DOCS).as_posix()} for page in others]
        found.append({_short(index): listed})
    project = [{plain(title(ROOT / name)): f"project/{name.lower()}"} for name in OF_THE_PROJECT]
    return [*found, {"Project": project}]


def in_navigation(tree: Any) -> Iterator[str]:
    """The paths in it."""
    if isinstance(tree, str):
        yield tree
    else:
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from in_navigation(each)


def orphans() -> list[str]:
    """The pages that are in no section and that none lists, with what to do about it."""
    listed = set(in_navigation(navigation()))
    missing = [page for page in pages() if page.relative_to(DOCS).as_posix() not in listed]
    return [
        f"{page.relative_to(ROOT)} is in no navigation. Move it to one of {', '.join(SECTIONS)}, or link to it from "
        "the README.md of one."
        for page in missing
    ]


def _short(page: Path) -> str:
    return title(page).partition(":")[0]


def _listed(index: Path, seen: set[Path]) -> Iterator[Any]:
    """The index itself, then what it lists, heading by heading; a README.md among that with what it lists."""
    yield index.relative_to(DOCS).as_posix()
    for heading, text in _parts(prose(index.read_text())):
        entries: list[Any] = []
        for link in links(index, text):
            if link.target.suffix != ".md" or not link.target.is_relative_to(DOCS):
                continue
            here = link.target.is_relative_to(index.parent) or link.target.relative_to(DOCS).parts[0] not in SECTIONS
            if not here or link.target in seen or link.target == DOCS / "README.md":
                continue
            seen.add(link.target)
            if link.target.name == "README.md":
                entries.append({plain(link.text): list(_listed(link.target, seen))})
            else:
                entries.append({plain(link.text): link.target.relative_to(DOCS).as_posix()})
        if entries and heading and "](" not in heading:
            yield {plain(heading): entries}
        else:
            yield from entries


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """What is under each heading of the second level; a heading that is a link belongs to its part."""
    for part in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        heading = part[3:].partition("\n")[0] if part.startswith("## ") else ""
        yield heading, part
