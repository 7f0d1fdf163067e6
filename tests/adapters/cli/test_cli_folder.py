"""The output folder of `asktell run`: what joins it, and what reads it."""

from collections import Counter
from pathlib import Path

import pytest

import asktell
from asktell_adapters.cli.places import location
from tests.adapters.cli.test_cli import Project
from tests.command_line import cli

# Joining


def test_a_second_terminal_joins(tmp_path: Path) -> None:
    project = Project(tmp_path, "Async")
    project.write(stop_at=6, stop_by="ctrl-c")
    project.run(code=130)
    project.write()
    setup = project.folder.read_setup()
    setup["model"]["arguments"] = project.arguments
    project.folder.write_setup(setup)
    with project.folder.locked():  # the one that was started lives, and has nothing out
        assert (
            "To add a worker to it, use `asktell run --join`"
            in cli("run", project.config, code=1).err
        )
        assert (
            "Worker second, after 5 of 24"
            in cli("run", project.config, "--join", "--worker", "second").err
        )
        assert len(project.lines) == 5  # the files are the other's to write
    project.run()
    assert len(project.lines) == 24
    assert max(Counter(project.paid).values()) == 1


def test_there_must_be_a_run_to_join(project: Project) -> None:
    assert (
        "so no worker can be added" in cli("run", project.config, "--join", code=2).err
    )
    project.run()
    project.write(changes={"budget = 24": "budget = 23"})
    assert (
        "'budget' was 24, and is 23 now"
        in cli("run", project.config, "--join", code=2).err
    )
    cli("run", project.config, "--join", "--study", project.home / "x.db", code=2)


# Reading


@pytest.mark.parametrize("what", ["config", "folder"])
def test_a_folder_or_a_configuration_stands_for_its_study(
    project: Project, what: str
) -> None:
    where = str(project.config if what == "config" else project.folder.path)
    file = project.home / "a.jsonl"
    for argv in (["watch", where], ["export", where, str(file)], ["studies", where]):
        assert "There is no" in cli(*argv, code=2).err
    project.run()
    # A long path has a line of its own
    assert "out: finished" in " ".join(cli("watch", where).out.split())
    assert "24 of 24" in cli("studies", where).out
    cli("export", where, file)
    cli("import", project.home / "copy.db", file)
    with (
        asktell.Study.open(project.home / "copy.db", "a") as copy,
        project.folder.open_study() as study,
    ):
        assert list(copy.evaluations()) == list(study.evaluations())
    assert asktell.Study.names(location(where)) == ["a"]  # what `serve` serves
    assert location("postgresql://me@nowhere/x") == "postgresql://me@nowhere/x"


def test_a_run_at_a_url_keeps_the_answers_too(project: Project) -> None:
    place = project.home / "x.db"
    cli("run", project.config, "--study", place)
    with asktell.Study.open(place, "a") as study:
        kept = list(study.evaluations())
    assert len(kept) == 24
    assert all(
        e.details
        and e.details["output"]
        and set(e.details["scores"]) > set(e.scores or ())
        for e in kept
    )
