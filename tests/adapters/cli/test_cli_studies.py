"""Studies on the command line."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from asktell import Study
from asktell_adapters.cli import studies as cli_studies
from asktell_adapters.cli.main import main
from tests.adapters.cli.test_cli import Project
from tests.command_line import Said, cli


@pytest.fixture(params=["Sync", "Async"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    return Project(tmp_path, request.param)


def run(project: Project, *flags: str, code: int = 0) -> Said:
    return cli(
        "run", project.config, "--study", project.home / "x.db", *flags, code=code
    )


def test_a_configuration_is_run_as_a_worker_of_a_study(project: Project) -> None:
    alone = project.run().out.split("Files:")[0].strip()
    captured = run(project, "--worker", "w1")
    assert captured.out.strip() == alone
    assert "Worker w1, after 0 of 24" in captured.err
    assert run(project).out.strip() == alone  # it is done: nothing is evaluated
    assert len(project.paid) == 48


def test_another_set_up_is_no_worker_of_the_study(project: Project) -> None:
    run(project)
    project.write(changes={"budget = 24": "budget = 20"})
    assert "other values of budget" in run(project, code=2).err
    assert "another --name" in run(project, "--fresh", code=2).err


def test_studies_and_watch_show_who_does_what(project: Project) -> None:
    run(project)
    run(project, "--name", "again")
    path = str(project.home / "x.db")
    lines = cli("studies", path).out.splitlines()
    assert [line.split()[0] for line in lines] == ["study", "a", "again"]
    assert "24 of 24" in lines[1]
    assert lines[1].endswith("finished")
    assert "a: finished" in cli("watch", path, "a").out
    assert "'b'" in cli("watch", path, "b", code=2).err
    cli("studies", project.home / "none.db", code=2)


def test_status_and_result_of_a_study(project: Project, tmp_path: Path) -> None:
    printed = run(project).out
    url = f"sqlite:///{project.home / 'x.db'}"
    assert "a: finished" in cli("status", url, "a").out
    shown = json.loads(cli("result", url, "a", "--json").out)
    assert shown["spent"] == 24
    assert all(entry["id"] in printed for entry in shown["selected"])
    assert "Plot:" in cli("result", url, "a", "--plot", tmp_path / "p.svg").out
    assert (tmp_path / "p.svg").read_text().count("<svg") == 1
    assert (
        "The study's name is missing"
        in cli("status", project.home / "x.db", code=2).err
    )
    cli("status", project.config, code=2)  # that run was never made: it is in the study


def test_a_url_needs_the_name_of_a_study() -> None:
    error = cli("result postgresql://me:secret@nowhere/studies", code=2).err
    assert "The study's name is missing" in error
    assert "secret" not in error


def test_watching_goes_on_until_the_study_is_done(
    project: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(project)
    with Study.open(project.home / "x.db", "a") as done:
        selector = done.selector
    from asktell import Selector

    new = Selector(
        {f"p{i}": f"x{i}\x1b[31m" for i in range(30)}, selector.goal, 60, "uniform"
    )
    study = Study.create(project.home / "x.db", "live", new)
    study.worker("w-x", lease=100).ask(22)
    study.ask()

    def finish(seconds: float) -> None:
        while not study.done:
            for trial in [*study.pending, *study.ask(60)]:
                study.tell(trial, [0.5, 0.5])

    monkeypatch.setattr(cli_studies.time, "sleep", finish)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["watch", str(project.home / "x.db"), "live"]) == 0
    first, second = capsys.readouterr().out.split("\x1b[H\x1b[J")[1:]
    assert "live: 23 pending trials" in first
    assert re.search(r"w-x +0 +p\d+ +- +1 +\d+ s", first)
    assert "... and 3 more" in first
    assert "live: finished" in second
    assert "\x1b" not in first + second


def test_export_and_import(project: Project) -> None:
    run(project)
    path, file = str(project.home / "x.db"), str(project.home / "a.jsonl")
    cli("export", path, "a", file)
    assert json.loads(Path(file).read_text().splitlines()[0])["name"] == "a"
    assert "'a'" in cli("import", path, file, code=2).err
    assert cli("import", path, file, "--name", "b").out == "b: 24 of 24 evaluations\n"
    cli("import", path, project.home / "missing", code=1)


def test_a_report_of_a_run_and_of_a_study(project: Project, tmp_path: Path) -> None:
    project.run()
    page = tmp_path / "page.html"
    assert f"Report: {page}" in cli("report", project.config, "-o", page).out
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert data["spent"] == 24
    assert data["inputs"]
    assert all(name.startswith("row ") for name in data["example_names"])
    assert data["made"]["about"]["data"]["sha256"]
    run(project)
    cli("report", project.home / "x.db", "a", "-o", page)
    cli("report", project.home / "x.db", "-o", page, code=2)
    cli("report", project.config, "-o", tmp_path / "no" / "page.html", code=1)
