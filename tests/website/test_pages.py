"""The pages of docs/: no dead link on a plain git host, no orphan, and nothing of the code that is left out."""

import ast
from pathlib import Path

import pytest

from website import api, links, names, navigation, notebooks
from website.names import ROOT

DOCS = ROOT / "docs"
PAGES = [*navigation.pages(), *sorted(ROOT.glob("*.md"))]


def known(page: Path) -> frozenset[str]:
    """The anchors of a page; those of names exist in the site only, where each name of the page has one."""
    if page.parent != api.FOLDER:
        return links.anchors(page)
    found = next((each for each in api.PAGES if each.stem == page.stem), None)
    made = {f"{module}.{name}" for module, offered in (api.sections(found) if found else ()) for name in offered}
    return links.anchors(page) | made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert links.dead(page, known) == []


def test_every_page_is_in_the_navigation() -> None:
    assert navigation.orphans() == []


def test_the_four_kinds_of_page_stay_apart() -> None:
    assert {page.parent.name for page in navigation.pages() if page.parent.parent == DOCS} == {
        *navigation.SECTIONS,
        "examples",
    }
    tree = navigation.navigation()
    for section, entry in zip(navigation.SECTIONS, tree[1:], strict=False):
        paths = set(navigation.in_navigation(entry))
        assert f"{section}/README.md" in paths
        assert not {path for path in paths if path.split("/")[0] in {*navigation.SECTIONS} - {section}}
        assert {f"{section}/{page.name}" for page in (DOCS / section).glob("*.md")} <= paths


def test_the_first_page_says_what_a_trial_is_and_shows_a_picture() -> None:
    text = (DOCS / "README.md").read_text()
    assert "A *trial* here is one prompt on one example" in text
    assert "Optuna" in text
    assert "](images/report.png)" in text
    assert len(text.splitlines()) < 40


# The Python API


def offered() -> list[tuple[str, str]]:
    return [(module, name) for module in names.modules() if api.is_public(module) for name in names.public(module)]


def test_every_public_name_stands_on_a_page_of_the_api() -> None:
    there = {
        (names.origin(module, name), name) for page in api.PAGES for module, made in api.sections(page) for name in made
    }
    missing = sorted(
        {f"{module}.{name}" for module, name in offered() if (names.origin(module, name), name) not in there}
    )
    assert missing == [], "Name them in website/api.py, and run `make pages`."


def test_every_public_name_is_documented() -> None:
    bare = set()
    for page in api.PAGES:
        for module, made in api.sections(page):
            for name in made:
                where = names.origin(module, name)
                file = names.file_of(str(where))
                assert file is not None
                body = ast.parse(file.read_text()).body
                found = next(
                    each for each in body if getattr(each, "name", None) == name or name in names._assigned(each)
                )
                if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    documented = ast.get_docstring(found)
                else:  # a text below it, or at the latest by its value
                    documented = ast.unparse(found)
                if not documented:
                    bare.add(f"{module}.{name}")
    assert bare == set()


def test_every_public_name_is_two_clicks_away() -> None:
    index = api.FOLDER / "README.md"
    assert index in {link.target for link in links.links(DOCS / "README.md")}
    second = {(link.target.stem, link.anchor) for link in links.links(index)}
    for page in api.PAGES:
        for module, made in api.sections(page):
            for name in made:
                assert (page.stem, f"{module}.{name}") in second


def test_a_name_in_git_becomes_a_directive() -> None:
    text = "# T\n\n## `asktell`\n\n- [`Selector`](x.py)\n- [`Trial`](y.py)\n- [else](z.md)\n"
    made = api.directives(text)
    assert "\n::: asktell.Selector\n    options:\n      members: [" in made
    assert "\n::: asktell.Trial\n" in made
    assert "- [else](z.md)" in made


# What finds mistakes


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("[a](there.md)", ""),
        ("[a](there.md#a-part-of-it)", ""),
        ("[a](there.md#twice-1)", ""),
        ("[a](there.md#own)", ""),
        ("`[a](nowhere.md)`", ""),
        ("```\n[a](nowhere.md)\n```", ""),
        ("[a](https://nowhere.example/x.md)", ""),
        ("[a](nowhere.md)", "not there"),
        ("![a](nowhere.png)", "not there"),
        ("[`a` [b]](nowhere.md)", "not there"),
        ("[a](there.md#elsewhere)", "does not have"),
        ("[a](#elsewhere)", "does not have"),
    ],
)
def test_dead_links_are_found(line: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text('# There\n\n## A `part`, of *it*\n\n## Twice\n\n## Twice\n\n<a id="own"></a>\n')
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{line}\n")
    found = links.dead(page)
    assert len(found) == bool(wrong)
    assert wrong in "".join(found)


def test_orphans_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for section in navigation.SECTIONS:
        (tmp_path / "docs" / section).mkdir(parents=True)
        (tmp_path / "docs" / section / "README.md").write_text(f"# {section}\n")
    (tmp_path / "docs" / "README.md").write_text("# Start\n")
    for name in navigation.OF_THE_PROJECT:
        (tmp_path / name).write_text("# Of the project\n")
    (tmp_path / "docs" / "how-to" / "README.md").write_text("# How-to\n\n## Group\n\n- [Known](known.md)\n")
    (tmp_path / "docs" / "how-to" / "known.md").write_text("# A known page\n")
    (tmp_path / "docs" / "how-to" / "new.md").write_text("# A new page\n")
    (tmp_path / "docs" / "lost.md").write_text("# A lost page\n")
    monkeypatch.setattr(navigation, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(navigation, "ROOT", tmp_path)
    (orphan,) = navigation.orphans()
    assert "docs/lost.md is in no navigation. Move it to one of" in orphan
    assert navigation.navigation()[2]["How-to"] == [
        "how-to/README.md",
        {"Group": [{"Known": "how-to/known.md"}]},
        {"A new page": "how-to/new.md"},
    ]


# Tutorials as notebooks


def test_a_page_becomes_a_notebook() -> None:
    made = notebooks.notebook("# T\n\nFirst.\n\n```python\na = 1\nb = 2\n```\n\n```sh\nls\n```\n\n```python\nb\n```\n")
    kinds = [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]]
    assert kinds == [
        ("markdown", "# T\n\nFirst."), ("code", "a = 1\nb = 2"), ("markdown", "```sh\nls\n```"), ("code", "b"),
    ]  # fmt: skip
    assert made["nbformat"] == 4


def test_the_notebook_of_a_set_of_prompts_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "tutorials" / "a-set-of-prompts.md"
    scope: dict[str, object] = {}
    for cell in notebooks.notebook(page.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(page), "exec"), scope)
    output = capsys.readouterr().out
    assert "final, 70 of 70 evaluations spent" in output
    assert "Not told apart from the answer: 1 of 7 (60 words)." in output
    assert output.count("undecided") == 4
    assert output.endswith("85 True\n")
    assert "</html>" in (tmp_path / "report.html").read_text()
