"""The output folder of `asktell run`: what joins it, and what reads it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell_adapters.cli import main as cli
from asktell_adapters.cli.places import location
from tests.adapters.cli.test_cli import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# Joining


def test_a_second_terminal_joins(tmp_path: Path, capsys: Any) -> None:
    project = Project(tmp_path, "Async")
    project.write(stop_at=6, stop_by="ctrl-c")
    assert project.run() == 130
    project.write()
    setup = project.folder.read_setup()
    assert setup is not None
    setup["model"]["arguments"] = project.arguments
    project.folder.write_setup(setup)
    with project.folder.locked():  # the one that was started lives, and has nothing out
        assert cli.main(["run", str(project.config)]) == 1
        assert "To work beside it: asktell run --join" in capsys.readouterr().err
        assert cli.main(["run", str(project.config), "--join", "--worker", "second"]) == 0
        assert "Worker second, after 5 of 24" in capsys.readouterr().err
        assert len(project.lines) == 5  # the files are the other's to write
    assert project.run() == 0
    assert len(project.lines) == 24
    assert max(Counter(project.paid).values()) == 1


def test_there_must_be_a_run_to_join(project: Project, capsys: Any) -> None:
    assert cli.main(["run", str(project.config), "--join"]) == 2
    assert "to join" in capsys.readouterr().err
    assert project.run() == 0
    project.write(changes={"budget = 24": "budget = 23"})
    assert cli.main(["run", str(project.config), "--join"]) == 2
    assert "budget (24 then, 23 now)" in capsys.readouterr().err
    assert cli.main(["run", str(project.config), "--join", "--study", str(project.home / "x.db")]) == 2


# Reading


@pytest.mark.parametrize("what", ["config", "folder"])
def test_a_folder_or_a_configuration_stands_for_its_study(project: Project, what: str, capsys: Any) -> None:
    where = str(project.config if what == "config" else project.folder.path)
    file = project.home / "a.jsonl"
    for argv in (["watch", where], ["export", where, str(file)], ["studies", where]):
        assert cli.main(argv) == 2
        assert "There is no" in capsys.readouterr().err
    assert project.run() == 0
    capsys.readouterr()
    assert cli.main(["watch", where]) == 0
    assert "out: finished" in " ".join(capsys.readouterr().out.split())  # a long path has a line of its own
    assert cli.main(["studies", where]) == 0
    assert "24 of 24" in capsys.readouterr().out
    assert cli.main(["export", where, str(file)]) == 0
    assert cli.main(["import", str(project.home / "copy.db"), str(file)]) == 0
    with asktell.Study.open(project.home / "copy.db", "a") as copy, project.folder.open_study() as study:
        assert list(copy.evaluations()) == list(study.evaluations())
    assert asktell.Study.names(location(where)) == ["a"]  # what `serve` serves
    assert location("postgresql://me@nowhere/x") == "postgresql://me@nowhere/x"


def test_a_run_at_a_url_keeps_the_answers_too(project: Project) -> None:
    place = project.home / "x.db"
    assert cli.main(["run", str(project.config), "--study", str(place)]) == 0
    with asktell.Study.open(place, "a") as study:
        kept = list(study.evaluations())
    assert len(kept) == 24
    assert all(e.details and e.details["output"] and set(e.details["scores"]) > set(e.scores or ()) for e in kept)
