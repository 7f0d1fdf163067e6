"""Runs that go on, on the command line: `add`, `retire`, `extend`, and a configuration that names more."""

from pathlib import Path

import pytest

from asktell import BestFeasible, Selector, Study, StudyExistsError
from tests.adapters.cli.test_cli import Project
from tests.command_line import cli


def test_a_run_gets_prompts_and_budget_and_goes_on_with_the_same_command(
    project: Project,
) -> None:
    project.run()
    paid = list(project.paid)
    said = cli(
        "add", project.config, "short=Answer with noise 6", "long = Answer = noise 7"
    ).out
    assert "Added: short, long. a: 8 prompts, 24 of 24" in said
    cli("retire", project.config, "p1", "--reason", "too noisy")
    said = cli("extend", project.folder.path, "--evaluations", 10).out
    assert "24 of 34 evaluations. The command that started it" in said
    project.run()
    assert project.paid[:24] == paid
    assert len(project.paid) == 34
    assert {entry["id"] for entry in project.result["prompts"]} >= {"short", "long"}
    status = cli("status", project.config).out
    assert "34 of 34" in status
    assert "2 prompts added, 1 retired, 10 evaluations more" in status
    assert '"p1" was retired: too noisy' in cli("result", project.config).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "RUN", "no id"], "ID=TEXT"),
        (
            ["add", "RUN", "y=z", "--encoding", "cp1252"],
            "--encoding is the encoding of the file in --file",
        ),
        (["add", "RUN", "p1=another"], "p1"),
        (["add", "RUN", "y= "], "'y' is empty"),
        (["add", "RUN", "new=Answer with noise 2"], "'p2'"),
        (["add", "RUN"], "either"),
        (["retire", "RUN", "nobody", "--reason", "x"], "nobody"),
        (["extend", "RUN"], "needs evaluations"),
        (["extend", "RUN", "--evaluations", "-5"], "evaluations"),
        (["extend", "RUN", "--examples", "a", "a"], "distinct"),
        (["extend", "RUN", "--cost", "5"], "whatever they cost"),
    ],
)
def test_mistakes_are_named_and_change_nothing(
    words: list[str], message: str, project: Project
) -> None:
    project.run()
    before = project.folder.open_study().selector.to_json()
    assert (
        message
        in cli(
            *(project.config if word == "RUN" else word for word in words), code=2
        ).err
    )
    assert project.folder.open_study().selector.to_json() == before


def test_a_study_at_a_url_is_named(project: Project) -> None:
    url = project.home / "x.db"
    cli("run", project.config, "--study", url)
    cli("add", url, "a", "short=Answer with noise 6")
    cli("retire", url, "a", "p1", "p2", "--reason", "x")
    cli("extend", url, "a", "--evaluations", 4)
    cli("run", project.config, "--study", url)
    with Study.open(url, "a") as study:
        assert (study.spent, study.done, study.n_active) == (28, True, 0)
    assert (
        "The study's name is missing"
        in cli("extend", url, "--evaluations", 4, code=2).err
    )


@pytest.mark.parametrize("where", ["folder", "url"])
def test_a_configuration_that_names_more_goes_on(where: str, project: Project) -> None:
    beside = [] if where == "folder" else ["--study", str(project.home / "x.db")]
    project.run(*beside)
    project.prompts["short"] = "Answer with noise 6"
    project.write(changes={"budget = 24": "budget = 32"})
    for _ in range(2):
        assert "32 of 32" in project.run(*beside).out
        assert len(project.paid) == 32
    project.write(changes={"budget = 24": "budget = 23"})
    project.run(*beside, code=2)


def test_a_budget_of_money_grows_in_the_configuration(project: Project) -> None:
    project.write(changes={"budget = 24": "budget = { cost = 4.0 }"})
    project.run()
    first = len(project.paid)
    project.write(changes={"budget = 24": "budget = { cost = 8.0 }"})
    project.run()
    assert len(project.paid) > first
    assert project.result["max_cost"] == 8.0


@pytest.mark.parametrize(
    "change", ["dropped", "moved", "less", "another limit", "rounds"]
)
def test_a_configuration_with_less_or_others_is_refused(
    change: str, project: Project
) -> None:
    budget = "budget = 24"
    method = 'budget = 24\nmethod = "csr"' if change == "rounds" else budget
    project.write(changes={budget: method})
    project.run()
    new = {
        "less": "budget = 20",
        "another limit": "budget = { cost = 50.0 }",
        "rounds": 'budget = 30\nmethod = "csr"',
    }
    if change == "dropped":
        del project.prompts["p3"]
        project.prompts["new"] = "Answer anew"
    if change == "moved":
        project.prompts |= {
            "p2": project.prompts["p3"],
            "p3": project.prompts["p2"],
            "new": "Answer anew",
        }
    project.write(changes={budget: new.get(change, budget)})
    assert "other settings" in project.run("--as-it-is", code=2).err


def test_a_file_that_names_more_goes_on_beside_prompts_that_it_never_named(
    project: Project,
) -> None:
    project.run()
    assert (
        "The budget is spent: asktell extend."
        in cli("add", project.config, "hand=Answer with noise 8").out
    )
    project.prompts["file"] = "Answer with noise 9"
    project.write(changes={"budget = 24": "budget = 32"})
    project.run()
    assert [entry["id"] for entry in project.result["prompts"]][-2:] == ["hand", "file"]
    del project.prompts["p1"]  # of the start
    project.prompts["another"] = "Answer with noise 7"
    project.write(changes={"budget = 24": "budget = 40"})
    assert (
        "were changed, added or dropped: 'p1', 'another'. " in project.run(code=2).err
    )
    del project.prompts["file"]  # which a configuration has brought
    project.prompts["p1"] = "Answer with noise 1"
    project.write(changes={"budget = 24": "budget = 40"})
    project.run(code=2)


def test_prompts_without_ids_join_from_a_file_beside_those_that_it_never_named(
    tmp_path: Path,
) -> None:
    goal = BestFeasible("q")
    study = Study.create(
        tmp_path / "a.db", "a", Selector(["one", "two"], goal, 2, examples=3)
    )
    study.add(["three"])
    assert study.grow(Selector(["one", "two", "four"], goal, 2, examples=3)) == [
        "1 prompt"
    ]
    assert list(study.selector.prompts.texts) == ["one", "two", "three", "four"]
    assert study.grow(
        Selector(["one", "two", "three", "four", "five"], goal, 2, examples=3)
    )
    assert list(study.selector.prompts.texts)[4:] == ["five"]
    with pytest.raises(StudyExistsError, match="prompt 0: 'one' then, 'two' now"):
        study.grow(Selector(["two", "one", "four", "five"], goal, 2, examples=3))


def test_a_run_is_paused_and_goes_on(project: Project) -> None:
    project.run()
    cli("extend", project.config, "--evaluations", 10)
    assert "is paused. 0 pending trials" in cli("pause", project.config).out
    assert "paused (asktell resume ends the pause)" in " ".join(
        cli("status", project.config).out.split()
    )
    assert "paused" in cli("studies", project.config).out
    with project.folder.open_study() as study:
        assert study.ask() is None
    assert (
        "Resumed. a: 6 prompts, 24 of 34 evaluations."
        in cli("resume", project.folder.path).out
    )
    project.run()
    assert len(project.paid) == 34
