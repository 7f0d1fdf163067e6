"""Links lead somewhere, every page is listed, every public name, command, key and operation is documented."""

import contextlib
import importlib
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import asktell
from asktell import extend
from asktell.errors import MissingExtraError
from asktell_adapters.config.metrics import JudgeTable
from asktell_adapters.config.model import MODELS, NamedModel
from asktell_adapters.config.tables import TABLES, reference
from asktell_adapters.metrics import Judge

pytest.importorskip("fastapi")

import docs_api
import docs_reference
import docs_site
from docs_site import DOCS, ROOT

PAGES = [
    *docs_site.pages(),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / ".github").glob("*.md")),
]
API = DOCS / "reference" / "api"
FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as git hosts and the site make them.

    On a page of the Python API these are the full names, as the site makes them: a git
    host shows the top of the page.
    """
    if page.parent.name == "api":
        # A staged page has only marks, so the headings are those of the page in docs/.
        parts = docs_reference._PART.finditer((API / page.name).read_text())
        return {
            name
            for part in parts
            for heading in re.findall(r"^###+ ([\w.]+)$", part[0], re.MULTILINE)
            for name in (
                part[1],
                f"{part[1]}.{heading}",
                f"{part[1].rpartition('.')[0]}.{heading}",
            )
        }
    seen: Counter[str] = Counter()
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text()))
    for heading in re.findall(
        r"^#{1,6} +(.+?) *$", FENCE.sub("", page.read_text()), re.MULTILINE
    ):
        slug = re.sub(
            r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()
        ).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def dead_links(page: Path, text: str) -> list[str]:
    text = CODE.sub(
        lambda code: "" if "](" in code[0] else code[0], FENCE.sub("", text)
    )
    found = []
    for target, _, anchor in (
        link.partition("#") for link in re.findall(r"\]\(([^()\s]+)\)", text)
    ):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path = page if not target else Path(os.path.normpath(page.parent / target))
        if not path.exists():
            found.append(f"{target} does not exist")
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            found.append(f"{path.name} has no heading #{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text()) == []


def test_every_page_is_listed_once() -> None:
    listed = re.findall(r"'([\w/-]+\.md)'", str(docs_site.navigation()))
    assert len(listed) == len(set(listed)) == len(docs_site.pages())


def test_the_site_has_every_page_and_no_marker(tmp_path: Path) -> None:
    docs_site.stage(tmp_path)
    for page in docs_site.pages():
        text = (tmp_path / "docs" / page.relative_to(DOCS)).read_text()
        assert "<!-- generated" not in text
        assert "<!-- end -->" not in text
        assert dead_links(tmp_path / "docs" / page.relative_to(DOCS), text) == []


def test_a_line_that_links_to_data_becomes_a_table(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1|2,x\n")
    page = tmp_path / "page.md"
    made = docs_reference.renewed(
        page, "See:\n\n[the data](data.csv)\n\nand [it](data.csv) again.\n"
    )
    assert docs_reference.renewed(page, made) == made
    assert made.splitlines()[2:] == [
        "[the data](data.csv)", "", "| a | b |", "| --- | --- |", "| 1&#124;2 | x |", "", "and [it](data.csv) again."
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tag", "n_loaded"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1), ('<script src="//cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="https://fonts.example/css">', 1),
        ('<img src="https://badges.example/x.svg">', 1), ('<link href="https://fonts.example" rel="preconnect">', 1),
        ("<style>@import 'https://f.example/x.css'</style>", 1),
        ('<p style="background: url(https://pictures.example/x.png)">', 1),
        ('<a href="https://arxiv.example">paper</a><img src="x.png">', 0),
        ('<link rel="canonical" href="https://a.example"><img src="data:image/png;base64,AA==">', 0),
    ],
)  # fmt: skip
def test_what_is_loaded_from_elsewhere_is_found(
    tag: str, n_loaded: int, tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text(tag)
    assert len(docs_site.loaded_from_elsewhere(tmp_path)) == n_loaded


def test_a_tutorial_becomes_a_notebook() -> None:
    cells = docs_site.notebook(
        "# T\n\n```python\na = 1\n```\n\n```sh\nls\n```\n\n```python\na\n```\n"
    )["cells"]
    assert [(cell["cell_type"], cell["source"]) for cell in cells] == [
        ("markdown", "# T"), ("code", "a = 1"), ("markdown", "```sh\nls\n```"), ("code", "a")
    ]  # fmt: skip


@pytest.mark.parametrize("page", docs_reference.pages(), ids=lambda page: page.name)
def test_reference_pages_are_of_todays_code(page: Path) -> None:
    assert docs_reference.renewed(page, page.read_text()) == page.read_text(), (
        "run: make reference"
    )


def test_a_class_lists_its_fields_and_no_private_names() -> None:
    text = docs_api.described("asktell.Result")
    assert "- `finished_early`: " in text
    assert "_comparer" not in text
    assert "Result.comparison(" not in text  # a property
    assert "part_at" not in docs_api.described("asktell.Selector")


def test_an_argument_keeps_its_paragraphs() -> None:
    text = docs_api.described("asktell.analyze")
    assert re.search(r"^- `scores`: .+\n\n  An array has", text, re.MULTILINE)


# Nothing is left out


def test_every_public_name_is_on_a_page() -> None:
    named = set(
        re.findall(
            r"^<!-- generated: ([\w.]+) -->$",
            "\n".join(page.read_text() for page in API.glob("*.md")),
            re.MULTILINE,
        )
    )
    for name in named:
        with contextlib.suppress(MissingExtraError):
            module, _, attribute = name.rpartition(".")
            assert (
                module and hasattr(importlib.import_module(module), attribute)
            ) or importlib.import_module(name)
    errors = {name for name in asktell.__all__ if name.endswith("Error")}
    assert [
        name
        for name in asktell.__all__
        if f"asktell.{name}" not in named and name not in errors
    ] == []
    modules = {"events", "reports"}
    assert [
        name
        for name in extend.__all__
        if f"asktell.extend.{name}" not in named and name not in modules
    ] == []


def test_every_command_option_and_operation_has_a_description() -> None:
    for name, parser in docs_reference.commands().items():
        assert parser.description, name
        assert [action.dest for action in parser._actions if not action.help] == [], (
            name
        )
    document = docs_reference.openapi()
    assert [
        name
        for name, operation in docs_reference.operations(document)
        if not operation.get("description")
    ] == []
    schemas = document["components"]["schemas"].items()
    assert [name for name, schema in schemas if not schema.get("description")] == []


def test_every_key_of_a_configuration_is_described() -> None:
    for name, table in TABLES.items():
        assert [
            key
            for key, kind, default, about in reference(table)
            if not (kind and default and about)
        ] == [], name
    options = [
        (kind.made, set(kind.table.model_fields) - {*NamedModel.model_fields, "dtype"})
        for kind in map(MODELS.__getitem__, MODELS.built_in)
    ]
    for made, keys in [*options, (Judge, set(JudgeTable.model_fields))]:
        assert [
            key for key in keys if key not in docs_reference.arguments_of(made)
        ] == [], made
