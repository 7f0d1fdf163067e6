"""Runs that learn from earlier ones: `asktell profile`, and [profile] in a configuration."""

import json
from pathlib import Path

import pytest

from asktell import ExampleProfile, Study
from tests.adapters.cli.test_cli import Project
from tests.command_line import cli


def later(project: Project, profile: str) -> Path:
    """A configuration of another run on the same data."""
    config = project.home / "later.toml"
    text = project.config.read_text().replace('output = "out"', 'output = "later"')
    config.write_text(f"{text}\n[profile]\n{profile}\n")
    return config


def test_a_run_learns_from_an_earlier_one(project: Project) -> None:
    project.run()
    config = later(project, 'from = ["out"]')
    cli("run", config)
    with (
        project.folder.open_study() as earlier,
        Study.open(project.home / "later" / "study.db", "later") as study,
    ):
        profile = study.selector.state.problem.examples.profile
        assert profile == ExampleProfile.of(earlier)
        assert set(profile.metrics) == {"token_f1", "brevity"}
    # The same command goes on, and so it does if the earlier run is gone on with.
    cli("extend", project.config, "--evaluations", 5)
    project.run()
    cli("run", config)


@pytest.mark.parametrize("source", ["out", "a.toml", "out/study.db", "kept.json"])
def test_earlier_runs_are_named_in_several_ways(project: Project, source: str) -> None:
    project.run()
    said = cli("profile", project.config, "-o", project.home / "kept.json").out
    assert "8 examples, of 1 study" in said
    assert "token_f1: the most informative examples" in said
    assert "Profile: " in said
    cli("run", later(project, f'from = ["{source}"]\nhalf_life = 2'))


def test_profiles_are_made_of_runs_files_and_studies_at_urls(project: Project) -> None:
    project.run()
    url, kept = project.home / "x.db", project.home / "kept.json"
    cli("run", project.config, "--study", url, "--name", "s")
    cli("profile", project.config, "-o", kept)
    cli(
        "profile",
        kept,
        url,
        "s",
        project.folder.path,
        "--half-life",
        1,
        "-o",
        project.home / "all.json",
    )
    profile = ExampleProfile.from_json((project.home / "all.json").read_text())
    assert profile.studies == 3
    cells = sum(one.cells for one in profile.examples("brevity"))
    assert cells == pytest.approx(24 * (1 + 1 / 2 + 1 / 4), rel=0.2)
    assert "Answer with" not in json.dumps(profile.to_data())


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ('from = ["nowhere"]', "'nowhere', which cannot be used. There is no run"),
        ("from = []", "at least one"),
        ('from = "out"', "a list of texts"),
        ('from = ["data.json"]', "data.json"),
        ('from = ["out"]\nhalf_life = 0', "half_life"),
        ('of = ["out"]', "The keys are 'from', 'half_life'"),
    ],
)
def test_mistakes_are_named(project: Project, profile: str, message: str) -> None:
    project.run()
    error = cli("run", later(project, profile), code=2).err
    assert message in error
    assert "later.toml" in error


def test_a_run_of_other_examples_tells_nothing(project: Project) -> None:
    project.run()
    config = later(project, 'from = ["out"]')
    rows = [{"input": f"other {i}", "reference": "x"} for i in range(5)]
    (project.home / "data.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    assert "has none of the examples" in cli("run", config, code=2).err
