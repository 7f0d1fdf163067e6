"""Studies on the command line."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from asktell import Study
from asktell_adapters.cli import main as cli
from asktell_adapters.cli import studies as cli_studies
from tests.adapters.cli.test_cli import Project


@pytest.fixture(params=["Sync", "Async"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    return Project(tmp_path, request.param)


def run(project: Project, *flags: str) -> int:
    return cli.main(["run", str(project.config), "--study", str(project.home / "x.db"), *flags])


def test_a_configuration_is_run_as_a_worker_of_a_study(project: Project, capsys: Any) -> None:
    assert project.run() == 0
    alone = capsys.readouterr().out.split("Files:")[0].strip()
    assert run(project, "--worker", "w1") == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == alone
    assert "Worker w1, after 0 of 24" in captured.err
    assert run(project) == 0  # it is done: nothing is evaluated
    assert capsys.readouterr().out.strip() == alone
    assert len(project.paid) == 48


def test_another_set_up_is_no_worker_of_the_study(project: Project, capsys: Any) -> None:
    assert run(project) == 0
    project.write(changes={"budget = 24": "budget = 20"})
    assert run(project) == 2
    assert "other values of budget" in capsys.readouterr().err
    assert run(project, "--fresh") == 2
    assert "another --name" in capsys.readouterr().err


def test_studies_and_watch_show_who_does_what(project: Project, capsys: Any) -> None:
    assert run(project) == 0
    assert run(project, "--name", "again") == 0
    capsys.readouterr()
    path = str(project.home / "x.db")
    assert cli.main(["studies", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["study", "a", "again"]
    assert "24 of 24" in lines[1]
    assert lines[1].endswith("finished")
    assert cli.main(["watch", path, "a"]) == 0
    assert "a: finished" in capsys.readouterr().out
    assert cli.main(["watch", path, "b"]) == 2
    assert "'b'" in capsys.readouterr().err
    assert cli.main(["studies", str(project.home / "none.db")]) == 2


def test_status_and_result_of_a_study(project: Project, capsys: Any, tmp_path: Path) -> None:
    assert run(project) == 0
    printed = capsys.readouterr().out
    url = f"sqlite:///{project.home / 'x.db'}"
    assert cli.main(["status", url, "a"]) == 0
    assert "a: finished" in capsys.readouterr().out
    assert cli.main(["result", url, "a", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["spent"] == 24
    assert all(entry["id"] in printed for entry in shown["selected"])
    assert cli.main(["result", url, "a", "--plot", str(tmp_path / "p.svg")]) == 0
    assert "Plot:" in capsys.readouterr().out
    assert (tmp_path / "p.svg").read_text().count("<svg") == 1
    assert cli.main(["status", str(project.home / "x.db")]) == 2
    assert "Which study?" in capsys.readouterr().err
    assert cli.main(["status", str(project.config)]) == 2  # that run was never made: it is in the study


def test_a_url_needs_the_name_of_a_study(capsys: Any) -> None:
    assert cli.main(["result", "postgresql://me:secret@nowhere/studies"]) == 2
    error = capsys.readouterr().err
    assert "Which study?" in error
    assert "secret" not in error


def test_watching_goes_on_until_the_study_is_done(
    project: Project, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(project) == 0
    with Study.open(project.home / "x.db", "a") as done:
        selector = done.selector
    capsys.readouterr()
    from asktell import Selector

    new = Selector({f"p{i}": f"x{i}\x1b[31m" for i in range(30)}, selector.goal, 60, "uniform")
    study = Study.create(project.home / "x.db", "live", new)
    study.ask(22, worker="w-x", lease=100)
    study.ask()

    def finish(seconds: float) -> None:
        while not study.done:
            for trial in [*study.pending, *study.ask(60)]:
                study.tell(trial, [0.5, 0.5])

    monkeypatch.setattr(cli_studies.time, "sleep", finish)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["watch", str(project.home / "x.db"), "live"]) == 0
    first, second = capsys.readouterr().out.split("\x1b[H\x1b[J")[1:]
    assert "live: 23 pending trials" in first
    assert re.search(r"w-x +0 +p\d+ +- +1 +\d+ s", first)
    assert "... and 3 more" in first
    assert "live: finished" in second
    assert "\x1b" not in first + second


def test_export_and_import(project: Project, capsys: Any) -> None:
    assert run(project) == 0
    capsys.readouterr()
    path, file = str(project.home / "x.db"), str(project.home / "a.jsonl")
    assert cli.main(["export", path, "a", file]) == 0
    assert json.loads(Path(file).read_text().splitlines()[0])["name"] == "a"
    assert cli.main(["import", path, file]) == 2
    assert "'a'" in capsys.readouterr().err
    assert cli.main(["import", path, file, "--name", "b"]) == 0
    assert capsys.readouterr().out == "b: 24 of 24 evaluations\n"
    assert cli.main(["import", path, str(project.home / "missing")]) == 1


def test_a_report_of_a_run_and_of_a_study(project: Project, capsys: Any, tmp_path: Path) -> None:
    assert project.run() == 0
    page = tmp_path / "page.html"
    assert cli.main(["report", str(project.config), "-o", str(page)]) == 0
    assert f"Report: {page}" in capsys.readouterr().out
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert data["spent"] == 24
    assert data["made"]["about"]["data"]["sha256"]
    assert run(project) == 0
    assert cli.main(["report", str(project.home / "x.db"), "a", "-o", str(page)]) == 0
    assert cli.main(["report", str(project.home / "x.db"), "-o", str(page)]) == 2
    assert cli.main(["report", str(project.config), "-o", str(tmp_path / "no" / "page.html")]) == 1
