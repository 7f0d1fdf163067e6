"""`asktell improve`, end to end, with an LLM and a writer that are a few lines of Python."""

import json
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.config import load_config
from tests.adapters.cli.test_cli import Project
from tests.command_line import cli

WRITER = """
import json

def less_noise(stop_at=0):
    def write(brief):
        with open("written.jsonl", "a") as file:
            file.write(json.dumps([brief.generation, [p.id for p in brief.parents], len(brief.failures)]) + "\\n")
        if brief.generation == stop_at:
            raise KeyboardInterrupt
        return [f"Answer in generation {brief.generation} with noise {i}" for i in range(brief.n)]
    return write
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    (tmp_path / f"w{project.module}.py").write_text(WRITER)
    write_improve(project)
    return project


def write_improve(
    project: Project,
    table: str = "",
    writer: str | None = None,
    changes: dict[str, str] | None = None,
) -> None:
    own = f'loader = "w{project.module}:less_noise"' if writer is None else writer
    changes = {"budget = 24": "budget = 72", **(changes or {})}
    project.write(changes=changes)
    generations = "" if "generations" in table else "generations = 2"
    head = (
        f"[improve]\n{generations}\ncandidates = 3\n{table}\n[improve.writer]\n{own}\n"
    )
    project.config.write_text(project.config.read_text() + head)


def written(project: Project) -> list[Any]:
    return [
        json.loads(line)
        for line in (project.home / "written.jsonl").read_text().splitlines()
    ]


def test_generations_are_written_into_the_run_and_shown(project: Project) -> None:
    out = cli("improve", project.config).out
    assert "72 of 72 evaluations spent" in out
    assert "Stopped: the budget is spent." in out
    assert [line[0] for line in written(project)] == [1, 2]
    assert all(line[2] for line in written(project))  # it was shown failures
    history = json.loads(project.folder.history_file.read_text())
    assert [each["number"] for each in history["generations"]] == [0, 1, 2]
    assert history["generations"][1]["prompts"] == ["g1-1", "g1-2", "g1-3"]
    assert len(project.paid) == project.spent == 72
    assert len(project.result["prompts"]) == 12
    assert "6 prompts added, 48 evaluations more" in cli("status", project.config).out
    assert (
        json.loads(cli("improve", project.config, "--json").out)["stopped"]
        == "the budget is spent"
    )
    cli("run", project.config)  # which shows it
    assert len(project.paid) == 72


def test_a_run_that_is_killed_goes_on(project: Project) -> None:
    whole = (
        Project(project.home / "whole")
        if (project.home / "whole").mkdir() is None
        else project
    )
    (whole.home / f"w{whole.module}.py").write_text(WRITER)
    write_improve(whole)
    cli("improve", whole.config)
    for stop_at in (5, 20, 30):
        project.write()
        write_improve(project)
        text = project.config.read_text().replace(
            'paid.jsonl"', f'paid.jsonl", stop_by = "ctrl-c", stop_at = {stop_at}'
        )
        project.config.write_text(text)
        resume(project)
        cli("improve", project.config, code=130)
    write_improve(project)
    resume(project)
    cli("improve", project.config)
    mine, theirs = project.result, whole.result
    assert [p["prompt"] for p in mine["prompts"]] == [
        p["prompt"] for p in theirs["prompts"]
    ]
    assert mine["selected"][0]["prompt"] == theirs["selected"][0]["prompt"]
    assert project.spent == 72


def resume(project: Project) -> None:
    """The arguments of the LLM say how it is interrupted; they are no other set-up."""
    saved = project.folder.read_setup()
    if saved is not None:
        saved["model"]["arguments"] = project.arguments
        project.folder.write_setup(saved)


def test_a_larger_budget_goes_on_and_a_url_does_too(project: Project) -> None:
    write_improve(project, "patience = false")
    cli("improve", project.config)
    write_improve(project, "patience = false", changes={"budget = 24": "budget = 96"})
    cli("improve", project.config)
    assert project.spent == 96
    url = project.home / "x.db"
    cli("improve", project.config, "--study", url)
    cli("improve", project.config, "--study", url)


def test_the_model_that_answers_writes_too(project: Project) -> None:
    # It answers requests of two blocks only: what a writer asks it is a failure of its.
    write_improve(project, writer="temperature = 0.5")
    assert (
        "The writer LLMWriter failed to write generation 1"
        in cli("improve", project.config, code=1).err
    )
    write_improve(project)
    cli("improve", project.config)  # nothing was lost


@pytest.mark.parametrize(
    ("table", "writer", "message"),
    [
        ("candidates_ = 3", None, "Did you mean 'candidates'?"),
        (
            "generations = 0",
            None,
            "'generations' in [improve] must be at least 1, got 0",
        ),
        ("parents = 21", None, "must be at most 20"),
        ("patience = 0", None, "or false"),
        ("", 'type = "gepa"', "'llm', got 'gepa'. To use a writer of your own"),
        ("", 'loader = "nobody:there"', "cannot be imported"),
        ("", 'typ = "llm"', "Did you mean 'type'?"),
        ("", "temperature = -1", "must be at least 0, got -1"),
        (
            "",
            'model = { type = "opnai", model = "x" }',
            "[improve.writer.model] must be one of",
        ),
    ],
)
def test_mistakes_in_the_table_are_named(
    table: str, writer: str | None, message: str, project: Project
) -> None:
    write_improve(project, table, writer)
    assert message in cli("improve", project.config, code=2).err


def test_the_first_budget_is_a_share(project: Project) -> None:
    assert load_config(project.config).selector.budget == 72
    assert load_config(project.config, improve=True).selector.budget == 24
