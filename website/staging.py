"""docs/ as the generator takes it: with directives for mkdocstrings, the project's own pages, and notebooks."""

import json
import os
import re
import shutil
from pathlib import Path

from website import api
from website.links import Link, plain, prose, relinked, title
from website.names import ROOT
from website.navigation import DOCS, OF_THE_PROJECT, SECTIONS, navigation
from website.notebooks import dumps

HERE = Path(__file__).parent


def stage(folder: Path) -> Path:
    """Fill an empty folder with all that the generator needs; its configuration file."""
    staged = folder / "docs"
    shutil.copytree(DOCS, staged, ignore=shutil.ignore_patterns("__pycache__"))
    for page in sorted(DOCS.rglob("*.md")):
        (staged / page.relative_to(DOCS)).write_text(_staged(page, page.relative_to(DOCS)))
    for name in OF_THE_PROJECT:
        target = staged / "project" / name.lower()
        target.parent.mkdir(exist_ok=True)
        target.write_text(_staged(ROOT / name, target.relative_to(staged)))
    shutil.copytree(HERE / "assets", staged / "assets")
    configuration = folder / "mkdocs.yml"
    # JSON is YAML: the navigation needs no package to write it.
    configuration.write_text((HERE / "mkdocs.yml").read_text() + f"\nnav: {json.dumps(navigation())}\n")
    return configuration


def _staged(page: Path, where: Path) -> str:
    """A page's text in the site, at a path from the site's root."""

    def change(link: Link) -> str:
        target = link.target
        if target.parent == ROOT and target.name in OF_THE_PROJECT:
            target = DOCS / "project" / target.name.lower()
        elif target == ROOT / "README.md":
            target = DOCS / "README.md"
        elif not target.is_relative_to(DOCS):  # the site has no such file: it is named
            return f"{link.text} (`{target.relative_to(ROOT).as_posix()}`)"
        path = Path(os.path.relpath(target, (DOCS / where).parent)).as_posix()
        return f"[{link.text}]({path}{'#' if link.anchor else ''}{link.anchor})"

    text = page.read_text()
    if page.parent == api.FOLDER and page.name != "README.md":
        text = api.directives(text)
    text = relinked(page, text, change)
    if where.parts[0] == "tutorials" and where.name != "README.md":
        notebook = where.with_suffix(".ipynb").name
        text = re.sub(
            r"^(# .*)$", rf"\1\n\n[As a notebook]({notebook}){{: download }}", text, count=1, flags=re.MULTILINE
        )
    if where == Path("README.md"):
        text = f"---\nhide: [navigation, toc]\n---\n\n{text}"
    return text


def write_notebooks(site: Path) -> None:
    """A notebook beside every tutorial."""
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        if page.name != "README.md":
            (site / "tutorials" / page.with_suffix(".ipynb").name).write_text(dumps(page.read_text()))


def llms_txt(site: Path) -> None:
    """`llms.txt`: every page as a link to its Markdown, which stands beside the HTML; `llms-full.txt`: all in one.

    Source: llmstxt.org.
    """
    start = DOCS / "README.md"
    lines = [f"# {title(start)}", "", f"> {first_sentence(start)}"]
    full = []
    for section in (*SECTIONS, ""):
        folder = DOCS / section if section else DOCS
        lines += ["", f"## {section.capitalize() or 'More'}", ""]
        for page in sorted(folder.rglob("*.md") if section else folder.glob("*.md")):
            path = page.relative_to(DOCS).as_posix()
            about = first_sentence(page)
            lines.append(f"- [{title(page)}]({path})" + (f": {about}" if about else ""))
            full.append(f"<!-- {path} -->\n\n{page.read_text()}")
            (site / path).write_text(page.read_text())
    (site / "llms.txt").write_text("\n".join(lines) + "\n")
    (site / "llms-full.txt").write_text("\n\n".join(full))


def first_sentence(page: Path) -> str:
    """What a page says first, in one line without marks."""
    text = prose(page.read_text()).partition("\n# ")[2] or prose(page.read_text()).partition("\n")[2]
    paragraph = next((part for part in text.split("\n\n") if re.match(r"\s*[\w`*\[]", part)), "")
    flat = plain(" ".join(paragraph.split()))
    return re.split(r"(?<=[.:?!]) (?=[A-Z`])", flat, maxsplit=1)[0].rstrip(":")
