"""The links of Markdown pages as a plain git host shows them, and those that lead nowhere. Needs no generator."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

_FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2[`~]* *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<text>\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)")
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


class Link(NamedTuple):
    """A link of a page: what it shows, the file that it leads to, and the anchor there ("" for none)."""

    text: str
    target: Path
    anchor: str


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", text)


def title(page: Path) -> str:
    """A page's first heading, without marks."""
    for line in prose(page.read_text()).splitlines():
        if line.startswith("# "):
            return plain(line[2:])
    raise ValueError(f"{page} has no heading. Begin it with a line '# ...'.")


def plain(text: str) -> str:
    """Text without Markdown's marks."""
    return re.sub(r"[*`]", "", _LINK.sub(lambda found: found["text"][1:-1], text)).strip()


def links(page: Path, text: str | None = None) -> Iterator[Link]:
    """The links that lead to files, by their absolute paths; those to other sites are left out."""
    read = page.read_text() if text is None else text
    for found in _LINK.finditer(_CODE.sub(lambda code: code[0] if "](" not in code[0] else "", prose(read))):
        path, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", path):
            continue
        target = page if not path else Path(os.path.normpath(page.parent / unquote(path)))
        yield Link(found["text"][1:-1], target, anchor)


def relinked(page: Path, text: str, change: Callable[[Link], str]) -> str:
    """The page's text with what `change` puts in the place of each link to a file."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    def one(found: re.Match[str]) -> str:
        path, _, anchor = found["target"].partition("#")
        if not path or re.match(r"[a-z][a-z0-9+.-]*:", path):
            return found[0]
        return change(Link(found["text"][1:-1], Path(os.path.normpath(page.parent / unquote(path))), anchor))

    hidden = _CODE.sub(lambda code: keep(code) if "](" in code[0] else code[0], _FENCE.sub(keep, text))
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], _LINK.sub(one, hidden))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: those of its headings, as git hosts make them, and its own."""
    text = page.read_text()
    seen: Counter[str] = Counter()
    found = set(_ANCHOR.findall(text))
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(text), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return frozenset(found)


def dead(page: Path, known: Callable[[Path], frozenset[str]] = anchors) -> list[str]:
    """What is wrong with the links of a page, in words; `known` are the anchors of a page."""
    found = []
    for link in links(page):
        if not link.target.exists():
            found.append(f"{page}: the link [{link.text}] leads to {link.target}, which is not there.")
        elif link.anchor and link.target.suffix == ".md" and link.anchor not in known(link.target):
            found.append(f"{page}: the link [{link.text}] leads to #{link.anchor}, which {link.target} does not have.")
    return found
