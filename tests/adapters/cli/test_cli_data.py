"""The data set of `asktell run`: its rows have ids, and a row that is not as it was is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.config import load_config
from asktell_adapters.config.data import distinct
from asktell_adapters.config.setup import changed_digests
from tests.adapters.cli.test_cli import Project
from tests.command_line import Said, cli

Rows = list[dict[str, Any]]


class Data:
    """A run whose data set can be changed."""

    def __init__(self, home: Path) -> None:
        self.project = Project(home)
        self.file = home / "data.jsonl"

    @property
    def rows(self) -> Rows:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    @rows.setter
    def rows(self, rows: Rows) -> None:
        self.file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def named(self, column: str) -> None:
        """Give every row a name."""
        self.rows = [{**row, column: f"r{i}"} for i, row in enumerate(self.rows)]

    def ids(self) -> tuple[str, ...]:
        return load_config(self.project.config).dataset.ids


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


def swapped(rows: Rows) -> Rows:
    return [rows[1], rows[0], *rows[2:]]


def edited(rows: Rows) -> Rows:
    return [*rows[:2], {**rows[2], "reference": "another"}, *rows[3:]]


def mixed(rows: Rows) -> Rows:
    new = {**rows[0], "input": "new", **({"id": "new"} if "id" in rows[0] else {})}
    return [*edited(rows)[1:6], new, rows[7]]


def more(rows: Rows) -> dict[str, Any]:
    return {
        "input": "more",
        "reference": "x",
        **({"id": "more"} if "id" in rows[0] else {}),
    }


CHANGES: list[tuple[Callable[[Rows], Rows], str, str]] = [
    (swapped, "have changed: 1 moved ('r1')", "1 moved (row 2 to row 1)"),
    (edited, "have changed: 1 edited ('r2')", "1 edited (row 3)"),
    (
        lambda rows: rows[:7],
        "have changed: 1 missing ('r7')",
        "1 missing (row 8)",
    ),
    (lambda rows: rows[1:], "1 missing ('r0')", "1 missing (row 1)"),
    (
        lambda rows: swapped([*rows, more(rows)]),
        "have changed: 1 moved ('r1'); 1 added ('more')",
        "1 moved (row 2 to row 1); 1 added (row 9)",
    ),
    (
        lambda rows: [more(rows), *rows],
        "have changed: 1 added ('more')",
        "1 added (row 1)",
    ),
    (
        mixed,
        "have changed: 1 edited ('r2'); 1 added ('new'); 2 missing ('r0', 'r6')",
        "have changed: 2 edited (row 2, row 6); 1 missing (row 1)",
    ),
]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("case", range(len(CHANGES)))
def test_what_became_of_the_rows_is_said(data: Data, named: bool, case: int) -> None:
    change, of_ids, of_digests = CHANGES[case]
    if named:
        data.named("id")
    data.project.run()
    before = data.project.folder.result_file.read_bytes()
    rows = data.rows
    data.rows = change(rows)
    error = data.project.run("--as-it-is", code=2).err
    assert (of_ids if named else of_digests) in error
    assert "--fresh" in error
    assert data.project.folder.result_file.read_bytes() == before
    data.rows = rows
    data.project.run("--as-it-is")


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("where", ["folder", "url"])
def test_a_run_goes_on_with_rows_that_were_appended(
    data: Data, where: str, named: bool
) -> None:
    project, url = data.project, str(data.project.home / "x.db")
    if named:
        data.named("id")

    def run(code: int = 0) -> Said:
        beside = () if where == "folder" else ("--study", url)
        return project.run(*beside, code=code)

    run()
    paid = list(project.paid)
    data.rows = [
        *data.rows,
        more(data.rows),
        {**more(data.rows), "input": "and more", "id": "last"},
    ]
    project.write(changes={"budget = 24": "budget = 60"})
    said = run().err
    assert project.paid[:24] == paid
    assert len(project.paid) == 60
    assert {text for _, text in project.paid} >= {"more", "and more"}
    if where == "folder":
        assert "Continuing with more: 2 examples, 36 evaluations." in said
        assert project.result["example_ids"] == list(data.ids())
    run()
    assert len(project.paid) == 60
    data.rows = data.rows[:8]
    assert "2 missing" in run(code=2).err


def test_rows_are_appended_by_hand(data: Data) -> None:
    project = data.project
    data.named("id")
    project.run()
    extend = ["extend", str(project.config)]
    assert "No rows were appended" in cli(*extend, "--examples", code=2).err
    assert (
        "Give the TOML file instead"
        in cli(*extend[:1], project.folder.path, "--examples", code=2).err
    )
    rows = data.rows
    data.rows = edited([*rows, more(rows)])
    assert "1 edited ('r2'); 1 added ('more')" in cli(*extend, "--examples", code=2).err
    data.rows = [*rows, more(rows)]
    cli(*extend, "--examples", "--evaluations", "30")
    with project.folder.open_study() as study:
        assert study.example_ids == data.ids()
        assert study.budget == 54
    assert "The examples have changed" not in project.run().err
    assert len(project.paid) == 54
    assert "r2" in cli(*extend, "--examples", "r2", code=2).err
    cli(*extend, "--examples", "by hand", "--evaluations", "1")
    assert (
        "[data] differ from the examples of the run: 1 missing ('by hand')"
        in project.run(code=2).err
    )
    data.rows = [*rows, more(rows), {**more(rows), "input": "new", "id": "by hand"}]
    assert "The run already has these additions." in project.run().err


def test_ids_are_those_of_a_column_or_else_digests(data: Data) -> None:
    digests = data.ids()
    # These must be the same in every version: studies hold them.
    assert digests[:2] == ("word 0 (bde306dac780)", "word word 1 (0318b863d7df)")
    data.named("id")
    assert data.ids() == tuple(f"r{i}" for i in range(8))
    data.named("key")
    data.project.write(changes={"[data]": '[data]\nid = "key"'})
    assert data.ids() == tuple(f"r{i}" for i in range(8))
    data.rows = [*data.rows, data.rows[3]]
    said = cli("run", data.project.config, code=2).err
    assert "'id' in [data] must be a column of distinct ids, but rows 4 and 9" in said
    data.rows = [{**row, "key": ""} for row in data.rows]
    assert "but row 1 has none" in cli("run", data.project.config, code=2).err


def test_a_column_called_id_that_repeats_is_no_id(data: Data) -> None:
    data.rows = [{**row, "id": "same"} for row in data.rows]
    assert all(id_.startswith("word ") for id_ in data.ids())


def test_a_row_that_comes_again_has_a_number(data: Data) -> None:
    data.rows = [*data.rows, data.rows[0], data.rows[0]]
    first, *_, second, third = data.ids()
    assert (second, third) == (f"{first}-2", f"{first}-3")
    data.project.run()
    assert {line["example_id"] for line in data.project.lines} <= set(data.ids())


@pytest.mark.parametrize("named", [True, False])
def test_a_study_at_a_url_is_not_joined_with_other_rows(
    data: Data, named: bool
) -> None:
    if named:
        data.named("id")
    url = f"sqlite:///{data.project.home / 'x.db'}"
    command = ["run", str(data.project.config), "--study", url, "--name", "s"]
    cli(*command)
    data.rows = data.rows[:6] + data.rows[7:]
    missing = (
        "1 missing ('r6')"
        if named
        else "changed since the study 's' was created: 1 missing (row 7)"
    )
    assert missing in cli(*command, code=2).err


def test_rows_between_the_same_neighbours_were_edited() -> None:
    assert changed_digests(["a", "b", "c"], ["a", "x", "c"]) == "1 edited (row 2)"
    assert (
        changed_digests(["a", "b", "c", "d"], ["x", "y", "c", "d"])
        == "2 edited (row 1, row 2)"
    )
    assert (
        changed_digests(["a", "b", "c"], ["a", "x", "y", "c"])
        == "1 edited (row 2); 1 added (row 3)"
    )
    assert (
        changed_digests(["a", "b", "c"], ["c", "a", "b"]) == "1 moved (row 3 to row 1)"
    )
    assert changed_digests(["a"], ["a"]) == ""
    assert distinct(["a", "b", "a", "a"]) == ("a", "b", "a-2", "a-3")
