"""The command line works on a service's studies as on those of a storage."""

import re
from pathlib import Path
from typing import Any

import pytest

from asktell import RemoteStudy, Study
from tests.adapters.cli.test_cli import Project
from tests.command_line import cli


def test_a_run_is_a_worker_of_a_services_study(server: Any, tmp_path: Path) -> None:
    project, url = Project(tmp_path), server.url
    name = ("--name", f"cli {tmp_path.name}")
    here = f"sqlite:///{tmp_path / 'x.db'}"
    alone = cli("run", project.config, "--study", here, *name).out
    assert cli("run", project.config, "--study", url, *name).out == alone
    assert cli("run", project.config, "--study", url, *name).out == alone
    assert len(project.paid) == 48
    for command in ("status", "result", "watch"):
        there = cli(command, url, name[1]).out
        assert there == cli(command, here, name[1]).out
    assert "24 of 24" in cli("status", url, name[1]).out
    row = next(
        line
        for line in cli("studies", url).out.splitlines()
        if line.startswith(name[1])
    )
    assert re.split(r"\s{2,}", row)[1:] == [
        "24 of 24 evaluations",
        "0",
        "0",
        "0",
        "finished",
    ]
    a, b = list(project.prompts)[:2]
    there = cli("compare", url, name[1], a, b).out
    assert there == cli("compare", here, name[1], a, b).out
    assert (
        "sqlite:///PATH"
        in cli("export", url, name[1], tmp_path / "a.jsonl", code=2).err
    )


def test_other_rows_are_named_by_a_service_too(server: Any, tmp_path: Path) -> None:
    project = Project(tmp_path)
    name = f"rows {tmp_path.name}"
    command = ("run", project.config, "--study", server.url, "--name", name)
    cli(*command)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(data.read_text().splitlines(keepends=True)[1:]))
    assert "1 missing (row 1)" in cli(*command, code=2).err


def test_money_is_shown_as_money(server: Any, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(changes={"budget = 24": 'sampling = "iid"\nbudget = { cost = 6.2 }'})
    name = f"money {tmp_path.name}"
    out = cli("run", project.config, "--study", server.url, "--name", name).out
    assert "(final, 12 evaluations and a cost of 6 of 6.2 spent)" in out
    status = cli("status", server.url, name).out
    assert "evaluations  12\n" in status
    assert "cost         6 of 6.2 (97%)" in status
    assert "  12 evaluations and a cost of 6 of 6.2  " in cli("studies", server.url).out
    with RemoteStudy.open(server.url, name) as study:
        assert study.spent_cost == 6.0
        assert study.selector.spent_cost == study.result().spent_cost == 6.0
    with Study.create(tmp_path / "copy.db", "copy", study.selector) as copy:
        assert repr(copy) == "<Study 'copy': 12 evaluations and a cost of 6 of 6.2>"
        assert copy.spent_cost == 6.0


@pytest.mark.parametrize("budget", ["24", "{ cost = 6.2 }"])
def test_an_interrupted_run_says_what_it_has_cost(budget: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        changes={"budget = 24": f"budget = {budget}"}, stop_at=5, stop_by="ctrl-c"
    )
    error = project.run(code=130).err
    assert "Stopped after " in error
    assert ("a cost of 2 of 6.2" in error) == (budget != "24")
