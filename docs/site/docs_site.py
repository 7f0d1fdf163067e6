"""Build the documentation as a site: `make docs`, then open build/docs/site/index.html.

Needs the packages in requirements.txt and asktell with its extra `service`. Offline;
any warning is an error.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import docs_reference as reference

HERE = Path(__file__).parent
DOCS = HERE.parent
ROOT = DOCS.parent
WORK = ROOT / "build" / "docs"
REPOSITORY = "https://github.com/asktell/asktell/blob/main"

_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def pages() -> list[Path]:
    """The Markdown pages under docs/; in the folders of examples Markdown is part of the example."""
    found = [(page.relative_to(DOCS).parts, page) for page in DOCS.rglob("*.md")]
    return sorted(
        page
        for parts, page in found
        if parts[0] not in ("site", "changes")
        and (parts[0] != "examples" or len(parts) == 2)
    )


def navigation() -> list[Any]:
    """The navigation: the links of docs/README.md, under its headings.

    Raises:
        ValueError: a page is missing from that list.
    """
    tree: list[Any] = [{"Start": "README.md"}]
    listed = {"README.md"}
    group: list[Any] = []
    for line in (DOCS / "README.md").read_text().splitlines():
        if line.startswith("## "):
            group = section = []
            tree.append({line[3:].partition(":")[0]: section})
        elif line.startswith("### "):
            group = []
            section.append({line[4:]: group})
        elif found := re.match(r"- \[(.+?)\]\((.+?\.md)\)", line):
            group.append({found[1].replace("`", ""): found[2]})
            listed.add(found[2])
    missing = {page.relative_to(DOCS).as_posix() for page in pages()} - listed
    if missing:
        raise ValueError(
            f"docs/README.md does not list {', '.join(sorted(missing))}. Add a line for each."
        )
    return tree


def stage(folder: Path) -> Path:
    """Write what the generator reads, and return its configuration file."""
    staged = folder / "docs"
    shutil.copytree(
        DOCS, staged, ignore=shutil.ignore_patterns("site", "changes", "__pycache__")
    )
    shutil.copytree(HERE / "assets", staged / "assets")
    for page in pages():
        text = reference.for_site(page, page.read_text())
        text = _LINK.sub(lambda link, page=page: _in_site(page, link), text)
        if page.parent.name == "tutorials":
            (staged / "tutorials" / f"{page.stem}.ipynb").write_text(
                json.dumps(notebook(text), indent=1)
            )
            text = text.replace(
                "\n\n",
                f"\n\n[Download as a notebook]({page.stem}.ipynb){{: download }}\n\n",
                1,
            )
        (staged / page.relative_to(DOCS)).write_text(text)
    start = staged / "README.md"
    start.write_text(f"---\nhide: [navigation, toc]\n---\n\n{start.read_text()}")
    configuration = folder / "mkdocs.yml"
    # JSON is YAML.
    configuration.write_text(
        (HERE / "mkdocs.yml").read_text() + f"\nnav: {json.dumps(navigation())}\n"
    )
    return configuration


def _in_site(page: Path, link: re.Match[str]) -> str:
    """A link as the site needs it: what is outside docs/ is on the git host."""
    target = Path(os.path.normpath(page.parent / link[1]))
    if target == ROOT / "README.md":
        return f"]({os.path.relpath(DOCS / 'README.md', page.parent)})"
    return (
        link[0]
        if target.is_relative_to(DOCS)
        else f"]({REPOSITORY}/{target.relative_to(ROOT).as_posix()})"
    )


def notebook(text: str) -> dict[str, Any]:
    """A page as a Jupyter notebook: its blocks of Python are the code cells."""
    cells: list[dict[str, Any]] = []
    for n, part in enumerate(
        re.split(r"^```python\n(.*?)^```\n", text, flags=re.MULTILINE | re.DOTALL)
    ):
        kind = (
            {"cell_type": "code", "execution_count": None, "outputs": []}
            if n % 2
            else {"cell_type": "markdown"}
        )
        if part.strip():
            cells.append(
                {**kind, "id": f"cell-{n}", "metadata": {}, "source": part.strip()}
            )
    return {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def write_llms_txt(site: Path) -> None:
    """Write llms.txt, the list of all pages as Markdown, and llms-full.txt, their text. Format: llmstxt.org."""
    staged = {
        page: (WORK / "docs" / page.relative_to(DOCS)).read_text() for page in pages()
    }
    lines = ["# asktell", ""]
    for page, text in staged.items():
        path = page.relative_to(DOCS).as_posix()
        (site / path).write_text(text)
        lines.append(
            f"- [{(re.search(r'^# (.+)$', text, re.MULTILINE) or ['', path])[1]}]({path})"
        )
    (site / "llms.txt").write_text("\n".join(lines) + "\n")
    (site / "llms-full.txt").write_text("\n\n".join(staged.values()))


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Whatever pages and style sheets would load from another host: the site has to work offline."""
    tag = r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?\b(?:src|srcset|data|poster)=["']?"""
    link = r"""<link\b(?=[^>]*rel=["']?(?:stylesheet|icon|pre|module|dns|manifest))[^>]*?href=["']?"""
    style = r"""(?:url\(\s*|@import\s+)["']?"""
    loads = re.compile(rf"""(?:{tag}|{link}|{style})((?:https?:)?//[^"'\s>)]+)""")
    files = [
        path for path in sorted(site.rglob("*")) if path.suffix in (".html", ".css")
    ]
    return [
        f"{path.relative_to(site)} loads {url}"
        for path in files
        for url in loads.findall(path.read_text())
    ]


def main() -> int:
    """Stage, build and check."""
    shutil.rmtree(WORK, ignore_errors=True)
    configuration = stage(WORK)
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--clean",
        "--config-file",
        str(configuration),
    ]
    if subprocess.run(command, cwd=WORK, check=False).returncode:
        return 1
    site = WORK / "site"
    write_llms_txt(site)
    if found := loaded_from_elsewhere(site):
        print(*found, sep="\n", file=sys.stderr)
        return 1
    print(
        f"Built {len(list(site.rglob('*.html')))} pages: {(site / 'index.html').relative_to(ROOT)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
