import json
from pathlib import Path

import numpy as np
import pytest

import asktell
from asktell_adapters.cli.simulate import goal_of
from asktell_adapters.tables.recorded import RecordedScores
from tests.command_line import cli

GOAL = asktell.BestFeasible("accuracy", {"cost": asktell.at_most(2.0)})
SCORES = np.array([[[a, cost]] * 3 for a, cost in ((0.1, 1.0), (0.7, 1.0), (0.9, 3.0))])


@pytest.fixture
def study(tmp_path: Path) -> asktell.Study:
    """Everything is evaluated, one evaluation failed."""
    selector = asktell.Selector({"a": "A", "b": "B", "c": "C"}, GOAL, 9, "uniform", 3)
    study = asktell.Study.create(tmp_path / "studies.db", "s", selector)
    while trial := study.ask():
        row = SCORES["abc".index(str(trial.prompt_id)), trial.example or 0]
        if (trial.prompt_id, trial.example) == ("b", 1):
            study.fail(trial, "timeout")
        else:
            study.tell(trial, row.tolist(), cost=5.0)
    return study


def check(found: RecordedScores) -> None:
    scores = found.scores[np.argsort(found.prompts)]
    assert sorted(found.prompts) == ["a", "b", "c"]
    assert np.isnan(scores).sum() == 2
    assert np.isnan(scores[1]).all(axis=1).sum() == 1
    np.testing.assert_allclose(np.nanmean(scores, axis=1), SCORES.mean(axis=1))


def test_a_study_and_what_its_data_frame_writes(
    study: asktell.Study, tmp_path: Path
) -> None:
    """The metric `cost` is another column than what trials cost."""
    check(RecordedScores.of(study))
    frame = study.evaluations().to_dataframe()
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet")
    for name in ("table.csv", "table.parquet"):
        check(RecordedScores.read(tmp_path / name, GOAL))


def test_arrays_come_in_the_goals_order(tmp_path: Path) -> None:
    more = {
        "prompts": ["x", "y", "z"],
        "segments": ["s", "t", "s"],
        "embeddings": np.eye(3),
    }
    np.savez(
        tmp_path / "t.npz",
        scores=SCORES[:, :, ::-1],
        metrics=["cost", "accuracy"],
        **more,
    )
    found = RecordedScores.read(tmp_path / "t.npz", GOAL)
    np.testing.assert_array_equal(found.scores, SCORES)
    assert (found.prompts, found.segments) == (("x", "y", "z"), ("s", "t", "s"))
    np.testing.assert_array_equal(found.features, np.eye(3))


def test_rows_with_segments_and_repeats(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "prompt;example;segment;accuracy\na;1;x;0.2\na;2;y;\nb;1;x;1\na;1;x;0.4\nb;2;y;0\n"
    )
    found = RecordedScores.read(path, asktell.BestFeasible("accuracy"))
    np.testing.assert_allclose(found.scores[:, :, 0], [[0.3, np.nan], [1, 0]])
    assert found.segments == ("x", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "prompt,example,accuracy,cost\na,1,1,1\na,2,1,1\nb,1,1,1\n",
            r"lacks 1 of 4 evaluations.*\(1 of 2\)",
        ),
        (
            "prompt,example,segment,accuracy,note\na,1,2,1,good\n",
            r"no metric 'cost'\. Its metrics are 'accuracy'",
        ),
        ("prompt,example,note\na,1,good\n", "It has no column of numbers"),
        ("prompt,accuracy,cost\na,1,1\n", "no column 'example'"),
        (
            "prompt,example,accuracy,cost\na,1,good,1\n",
            "line 2: The column 'accuracy' has 'good'",
        ),
        (
            "prompt,example,accuracy,cost,segment\na,1,1,1,\na,2,1,1,x\n",
            "has examples without a segment, got '1'",
        ),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(asktell.InvalidArgumentError, match=message):
        RecordedScores.read(path, GOAL)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"scores": SCORES}, "no array 'metrics'"),
        (
            {"scores": SCORES, "metrics": ["accuracy"]},
            r"number of metrics is 1",
        ),
        (
            {"scores": SCORES, "metrics": ["accuracy", "costs"]},
            "no metric 'cost' .did you mean",
        ),
        (
            {"scores": np.array([[[{}]]]), "metrics": ["accuracy"]},
            "is not a .npz file of plain arrays",
        ),
    ],
)
def test_arrays_that_do_not_fit(
    tmp_path: Path, arrays: dict[str, object], message: str
) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(asktell.InvalidArgumentError, match=message):
        RecordedScores.read(tmp_path / "t.npz", GOAL)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("accuracy", asktell.BestFeasible("accuracy")),
        ("f1: macro", asktell.BestFeasible("f1: macro")),
        ("minimize cost", asktell.BestFeasible(asktell.minimize("cost"))),
        ("accuracy subject to cost <= 2", GOAL),
        ("pareto set: accuracy", asktell.ParetoSet("accuracy")),
        (
            "accuracy, minimize cost subject to cost<=3, rouge l >= -.5",
            asktell.ParetoSet(
                "accuracy",
                asktell.minimize("cost"),
                subject_to={
                    "cost": asktell.at_most(3),
                    "rouge l": asktell.at_least(-0.5),
                },
            ),
        ),
        (
            "f1 in its worst segment subject to latency <= 2 on 95% of the examples in every segment, brevity >= .5 on "
            "99 % of the examples, failure_rate <= .02, kept with probability .9",
            asktell.BestFeasible(
                asktell.maximize("f1", worst_segment=True),
                {
                    "latency": asktell.at_most(2, quantile=0.95, in_every_segment=True),
                    "brevity": asktell.at_least(0.5, quantile=0.01),
                    "failure_rate": asktell.at_most(0.02),
                },
                sure=0.9,
            ),
        ),
        (
            "rouge from 0 to 1, minimize cost from 0 to 5 in its worst segment subject to cost <= 3",
            asktell.ParetoSet(
                asktell.maximize("rouge", range=(0, 1)),
                asktell.minimize("cost", range=(0, 5), worst_segment=True),
                subject_to={"cost": asktell.at_most(3)},
            ),
        ),
        (
            "rouge from 0 to 1 (tolerance 0.01), minimize cost subject to rouge >= .5, latency <= 2 on 95% of the "
            "examples (tolerance .02), brevity >= 3 (tolerance 0.1)",
            asktell.ParetoSet(
                asktell.maximize("rouge", range=(0, 1), tolerance=0.01),
                asktell.minimize("cost"),
                subject_to={
                    "rouge": asktell.at_least(0.5),
                    "latency": asktell.at_most(2, quantile=0.95, tolerance=0.02),
                    "brevity": asktell.at_least(3, tolerance=0.1),
                },
            ),
        ),
    ],
)
def test_goals_in_words(text: str, goal: asktell.BestFeasible) -> None:
    assert goal_of(text).objectives == goal.objectives
    assert set(goal_of(text).constraints) == set(goal.constraints)
    assert getattr(goal_of(text), "sure", None) == getattr(goal, "sure", None)
    assert type(goal_of(text)) is type(goal)
    assert str(goal_of(str(goal))) == str(goal_of(text))


@pytest.mark.parametrize(
    "text",
    [
        *("", "a subject to b", "a subject to b <= much", "a,,b", "a from 0 to x"),
        *(
            "a subject to b <= 2 on most of the examples",
            "a subject to b <= 2 in every",
            "a subject to b <= 2, b <= 3",
            "a (tolerance much)",
        ),
    ],
)
def test_what_is_no_goal(text: str) -> None:
    with pytest.raises(asktell.InvalidArgumentError, match="--goal"):
        goal_of(text)


def test_the_command(study: asktell.Study, tmp_path: Path) -> None:
    study.evaluations().to_dataframe().to_csv(tmp_path / "table.csv", index=False)
    goal = ("--goal", "maximize accuracy subject to cost <= 2")
    options = (
        "--methods",
        "auto",
        "uniform",
        "--budgets",
        1,
        3,
        "--seeds",
        2,
        "--jobs",
        1,
        "--no-progress",
    )
    files = (
        "--plot",
        tmp_path / "p.png",
        "-o",
        tmp_path / "runs.csv",
        "--lines",
        tmp_path / "l.jsonl",
    )
    said = cli("simulate", tmp_path / "table.csv", *goal, *options, *files).out
    assert said.startswith(
        "3 prompts, 3 examples; maximize accuracy subject to cost <= 2\n"
    )
    assert "minus auto" in said
    assert (tmp_path / "p.png").stat().st_size > 5000
    rows = (tmp_path / "runs.csv").read_text().splitlines()
    assert (
        rows[0]
        == "method,budget,seed,quality,regret,feasible,size,hypervolume,f1,evaluations"
    )
    assert len(rows) == 9
    assert len((tmp_path / "l.jsonl").read_text().splitlines()) == 8
    found = json.loads(
        cli("simulate", tmp_path / "studies.db", "s", *options, "--json").out
    )
    assert [run["answer"] for run in found["runs"] if run["budget"] == 3] == [
        found["runs"][-1]["answer"]
    ] * 4


def test_mistakes_of_the_command(study: asktell.Study, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("prompt,example,a\np,1,1\n")
    assert (
        "A table has no goal. Add --goal"
        in cli("simulate", tmp_path / "t.csv", code=2).err
    )
    assert (
        "is a run, which has a goal already"
        in cli(
            "simulate", tmp_path / "studies.db", "s", "--goal", "accuracy", code=2
        ).err
    )
    assert (
        "Add a column `segment`"
        in cli(
            "simulate", tmp_path / "t.csv", "--goal", "a in its worst segment", code=2
        ).err
    )
    assert (
        "There is no file"
        in cli("simulate", tmp_path / "none.csv", "--goal", "a", code=2).err
    )
    assert (
        "--plot needs a file"
        in cli(
            "simulate", tmp_path / "t.csv", "--goal", "a", "--plot", "p.txt", code=2
        ).err
    )
