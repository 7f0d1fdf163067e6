"""The reference pages made from the code: the command line, the configuration file, the HTTP API."""

import argparse
import tomllib
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.config import described, load_config
from asktell_adapters.config.tables import KINDS, Table

pytest.importorskip("fastapi")

from website import command_line, configuration, http_api, pages, tables
from website.names import ROOT


def test_pages_are_what_the_code_says() -> None:
    stale = [str(page.relative_to(ROOT)) for page, text in pages.written().items() if page.read_text() != text]
    assert stale == [], "Run `make pages`."


@pytest.mark.parametrize("source", [command_line, configuration, http_api], ids=lambda module: module.__name__)
def test_nothing_is_undocumented(source: Any) -> None:
    assert source.undocumented() == []


def test_what_is_undocumented_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(described.GOAL, "ranges")
    monkeypatch.setitem(described.CACHE, "colour", described.Key("text", "none", "Of the answers."))
    found = "\n".join(configuration.undocumented())
    assert "[goal]: 'ranges' is not described" in found
    assert "[cache]: 'colour' is described, and is not there" in found


def test_the_command_line_has_every_command_and_option() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for name, parser in command_line.commands().items():
        assert f"## asktell {name}\n" in text
        for action in command_line._actions(parser):
            assert all(f"{option}" in text for option in action.option_strings)


CONFIG = """
budget = {{ evaluations = 6, cost = 1.0, max_cost_per_evaluation = 0.1 }}
confidence = 0.9
tolerance = 0.1
baseline = "a"
repeats = 1
[prompts.texts]
a = "A"
b = "B"
[data]
file = "data.jsonl"
[model]
type = "openai"
model = "m"
price = {{ input = 1, output = 2 }}
[metrics]
exact_match = true
[metrics.judge]
criteria = {{ good = "it is good" }}
[goal]
maximize = "exact_match"
[improve]
{writer}
[cache]
file = "answers.db"
"""
TABLES = {**described.TABLES, "improve.writer": described.WRITER}
IN_WORDS = {
    ("", "output"), ("", "concurrency"), ("data", "limit"), ("data", "sample"), ("model", "system"),
    ("improve.writer", "max_new_tokens"),  # read as at least 1; its default is the writer's
}  # fmt: skip
"""Defaults that depend on something."""

WRITERS = ("[improve.writer]\ntype = 'llm'", "[improve.writer]\nloader = 'math:sqrt'")


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], tuple[str, Any]]:
    """By table and key: the kind and the default with which it is read."""
    found: dict[tuple[str, str], tuple[str, Any]] = {}
    take = Table.take

    def noted(self: Table, key: str, kind: str, *default: Any) -> Any:
        found[self.name, key] = (kind, default[0] if default else described.NEEDED)
        return take(self, key, kind, *default)

    monkeypatch.setattr(Table, "take", noted)
    (tmp_path / "data.jsonl").write_text('{"input": "x", "reference": "y"}\n' * 3)
    for number, writer in enumerate(WRITERS):
        path = tmp_path / f"run-{number}.toml"
        path.write_text(CONFIG.format(writer=writer))
        load_config(path)
    return found


def test_kinds_and_defaults_are_those_with_which_the_file_is_read(
    taken: dict[tuple[str, str], tuple[str, Any]],
) -> None:
    keys = {(name, key): said for name, table in TABLES.items() for key, said in table.items()}
    checked = taken.keys() & keys.keys()
    assert len(checked) > 35
    for where in checked:
        (kind, default), said = taken[where], keys[where]
        assert said.kind == kind or said.kind not in KINDS, where
        if where not in IN_WORDS and default not in (None, described.NEEDED, {}, []):
            assert tomllib.loads(f"it = {said.default}") == {"it": default}, where


def test_arguments_are_named_as_they_are_given() -> None:
    parser = argparse.ArgumentParser()
    made = [
        parser.add_argument("--price", metavar=("IN", "OUT"), nargs=2),
        parser.add_argument("--examples", metavar="ID", nargs="*"),
        parser.add_argument("-n", "--evaluations", type=int),
        parser.add_argument("--estimate", metavar="N", nargs="?"),
        parser.add_argument("--json", action="store_true"),
    ]
    named = [command_line._named(action) for action in made]
    assert named == [
        "--price IN OUT",
        "--examples [ID ...]",
        "-n, --evaluations EVALUATIONS",
        "--estimate [N]",
        "--json",
    ]


def test_the_parts_of_a_page_are_replaced_and_nothing_else() -> None:
    page = "before <!-- begin x -->old<!-- end x --> after"
    assert tables.filled(page, "x", "new") == "before <!-- begin x -->\n\nnew\n\n<!-- end x --> after"
    with pytest.raises(ValueError, match="begin y"):
        tables.filled(page, "y", "new")
    assert tables.table(["a", "b"], [["1 | 2", "x\ny"]]).splitlines()[2] == r"| 1 \| 2 | x y |"
