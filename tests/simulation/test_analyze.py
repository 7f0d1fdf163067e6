"""A finished table: the verdict is that of a selection which was told as much; every shape, frame and mistake."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    InvalidArgumentError,
    InvalidScoresError,
    ParetoSet,
    Selector,
    analyze,
    at_most,
)
from asktell.simulation.replay import play

GOAL = BestFeasible("accuracy")
RNG = np.random.default_rng(5)
EASE = RNG.normal(0.5, 1.0, 40)
SKILL = np.array([0.0, 0.4, 1.6])
SCORES = (RNG.random((3, 40)) < 1 / (1 + np.exp(-(SKILL[:, None] + EASE)))).astype(
    float
)


@pytest.fixture
def long() -> Any:
    """The same as a data frame, with a row for each score."""
    import pandas as pd

    return pd.DataFrame(
        [(f"p{k}", f"q{n}", SCORES[k, n]) for k in range(3) for n in range(40)],
        columns=["prompt", "example", "accuracy"],
    )


def told(scores: np.ndarray, goal: asktell.BestFeasible | ParetoSet) -> asktell.Result:
    k, n, _ = scores.shape
    return play(
        Selector([f"prompt {i}" for i in range(k)], goal, k * n, "auto", n), scores
    )


@pytest.mark.parametrize(
    "goal",
    [
        GOAL,
        BestFeasible("accuracy", subject_to={"cost": at_most(0.5)}),
        ParetoSet("accuracy", asktell.minimize("cost")),
    ],
)
def test_the_result_is_that_of_a_selection_that_was_told_everything(
    goal: BestFeasible | ParetoSet,
) -> None:
    scores = np.stack((SCORES, RNG.random(SCORES.shape)), axis=2)[
        :, :, : len(goal.metrics)
    ]
    found, selected = analyze(scores, goal), told(scores, goal)
    assert found.done
    assert found.verdict.action == selected.verdict.action
    assert [entry.id for entry in found.selected] == [
        entry.id for entry in selected.selected
    ]
    assert [entry.status for entry in found.prompts] == [
        entry.status for entry in selected.prompts
    ]
    for one, other in zip(found.prompts, selected.prompts, strict=True):
        assert one.estimate == pytest.approx(other.estimate)
        assert one.standard_error == pytest.approx(other.standard_error)
        assert one.p_best == pytest.approx(other.p_best, abs=0.02)
    one, other = (
        result.compare(2, 0).differences["accuracy"] for result in (found, selected)
    )
    # Both are for one look: the budget of the selection was fixed beforehand.
    assert (one.low, one.high) == pytest.approx((other.low, other.high))
    assert one.low <= one.estimate <= one.high
    assert (one.pairs, one.verdict) == (
        other.pairs,
        other.verdict,
    )


def test_everything_is_known_so_only_new_examples_could_help() -> None:
    result = analyze(SCORES[:2], GOAL)
    assert not result.verdict.outlook
    assert "more evaluations" not in result.verdict.sentence
    assert "new examples, this gap could shrink" in result.verdict.sentence
    assert result.spent == result.budget == 80


def test_names_stand_for_prompts_and_the_baseline_is_compared() -> None:
    result = analyze(
        SCORES,
        GOAL,
        prompts=["a", "b", "c"],
        baseline="a",
        examples=[f"q{i}" for i in range(40)],
    )
    assert result.best is not None
    assert (result.best.id, result.baseline) == ("c", "a")
    assert result.comparison is not None
    assert (result.comparison.a, result.comparison.b) == ("c", "a")
    assert result.example_ids is not None
    assert result.example_ids[0] == "q0"
    assert (
        analyze(SCORES, GOAL, prompts={"a": "Be brief.", "b": "Be long.", "c": "Be."})
        .prompts[0]
        .prompt
        == "Be brief."
    )


def test_less_is_better_where_the_goal_says_so() -> None:
    assert analyze(SCORES, BestFeasible(asktell.minimize("errors"))).best.id == 0  # type: ignore[union-attr]


def test_repeats_are_averaged_and_are_one_observation_of_an_example() -> None:
    runs = (
        RNG.random((2, 30, 1, 4)) < np.array([0.4, 0.8])[:, None, None, None]
    ).astype(float)
    result = analyze(runs, GOAL)
    assert result.prompts[0].evaluations == 120
    assert result.compare(1, 0).differences["accuracy"].pairs == 30
    assert next(
        check for check in result.checks if check.name == "noise"
    ).sentence.startswith("Repeated evaluations differ")
    # Repeats have no time
    assert all(
        check.ok is not False for check in result.checks if check.name == "drift"
    )
    mean = analyze(runs.mean(axis=3), GOAL)
    for entry, other in zip(result.prompts, mean.prompts, strict=True):
        assert entry.estimate["accuracy"] == pytest.approx(
            other.estimate["accuracy"], abs=0.01
        )


def test_repeats_of_some_cells_do_not_ask_for_more_of_the_others(long: Any) -> None:
    import pandas as pd

    again = pd.concat([long, long.iloc[:1].assign(accuracy=1.0 - long["accuracy"][0])])
    result = analyze(again, GOAL)
    assert result.verdict.outlook == ()
    assert result.repeats == 1


def test_missing_cells_are_said_and_the_others_are_compared() -> None:
    scores = SCORES.copy()
    scores[0, :10] = np.nan
    result = analyze(scores, GOAL)
    note = next(note for note in result.notes if "no score" in note)
    assert note.startswith("prompt 0 has no score on 10 of 40 examples.")
    assert next(check for check in result.checks if check.name == "order").ok is None
    compared = result.compare(2, 0).differences["accuracy"]
    assert compared.pairs == 30  # and not those before the first missing one
    assert not compared.guaranteed
    assert result.compare(2, 1).differences["accuracy"].pairs == 40
    assert analyze(SCORES, GOAL).compare(2, 0).examples == 40


def test_a_cell_without_one_of_the_metrics_is_unknown() -> None:
    scores = np.stack((SCORES, SCORES), axis=2)
    scores[1, 3, 1] = np.nan
    assert analyze(scores, ParetoSet("accuracy", "safety")).prompts[1].evaluations == 39


def test_a_prompt_without_scores_is_no_rival() -> None:
    scores = SCORES.copy()
    scores[1] = np.nan
    result = analyze(scores, GOAL)
    assert (result.prompts[1].status, result.prompts[1].p_best) == ("failed", 0.0)


def test_one_prompt_and_one_example() -> None:
    assert analyze(SCORES[:1], GOAL).verdict.sentence.endswith("It is the only prompt.")
    assert analyze(SCORES[:, :1], GOAL).verdict.action != "take"


def test_given_examples_have_no_more_error_than_noise() -> None:
    new, given = (analyze(SCORES, GOAL, inputs=inputs) for inputs in ("new", "given"))  # type: ignore[arg-type]
    assert given.inputs == "given"
    assert (
        given.prompts[0].standard_error["accuracy"]
        < new.prompts[0].standard_error["accuracy"]
    )  # type: ignore[operator]


def test_segments_have_estimates(long: Any) -> None:
    labels = ["en" if i % 2 else "de" for i in range(40)]
    assert set(analyze(SCORES, GOAL, segments=labels).prompts[0].segments) == {
        "en",
        "de",
    }
    frame = long.assign(
        segment=["en" if int(e[1:]) % 2 else "de" for e in long["example"]]
    )
    assert set(analyze(frame, GOAL).prompts[0].segments) == {"en", "de"}


# Data frames


def same(one: asktell.Result, other: asktell.Result) -> bool:
    return [e.estimate["accuracy"] for e in one.prompts] == pytest.approx(
        [e.estimate["accuracy"] for e in other.prompts]
    )


def test_long_and_wide_frames_are_the_same_table(long: Any) -> None:
    wide = long.pivot(
        index="example", columns="prompt", values="accuracy"
    ).reset_index()
    array = analyze(SCORES, GOAL)
    assert same(analyze(long, GOAL), array)
    assert [entry.id for entry in analyze(wide, GOAL).prompts] == ["p0", "p1", "p2"]
    assert analyze(wide, GOAL).prompts[2].estimate["accuracy"] == pytest.approx(
        array.prompts[2].estimate["accuracy"], abs=0.02
    )
    assert [
        entry.id
        for entry in analyze(
            long.sample(frac=1, random_state=1), GOAL, prompts=["p2", "p0"]
        ).prompts
    ] == [
        "p2",
        "p0",
    ]


def test_the_table_of_a_selection_goes_back_in() -> None:
    selector = Selector(
        {"a": "A", "b": "B"}, GOAL, 40, examples=[f"q{i}" for i in range(20)]
    )
    while trial := selector.ask():
        if selector.spent == 10:
            selector.fail(trial, "no answer")
        else:
            selector.tell(trial, float(RNG.random() < 0.7))
    result = analyze(selector.evaluations().to_dataframe(), GOAL)
    assert (
        sum(entry.failures for entry in result.prompts)
        == sum(e.failures for e in selector.result().prompts)
        > 0
    )
    assert result.example_ids is not None
    assert set(result.example_ids) <= {f"q{i}" for i in range(20)}


def test_an_error_is_a_failed_evaluation(long: Any) -> None:
    frame = long.assign(error=[None] * 120)
    frame.loc[frame["prompt"] == "p1", "error"] = ["timeout"] * 30 + [None] * 10
    result = analyze(frame, GOAL)
    assert (result.prompts[1].status, result.prompts[1].failures) == ("failed", 30)
    assert result.prompts[1].reason == "30 of 40 evaluations failed, last: timeout"
    assert result.failures[0].reason == "timeout"


def test_a_wide_frame_with_gaps_and_booleans() -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {"a": [True, False, True, None], "b": [True, True, True, True]}
    )
    result = analyze(frame, GOAL)
    assert [entry.evaluations for entry in result.prompts] == [3, 4]


# Mistakes


@pytest.mark.parametrize(
    ("scores", "options", "said"),
    [
        ([1.0, 0.0], {}, r"must have the shape \(K prompts, N examples\).*Got \(2,\)"),
        (
            np.zeros((2, 3, 2)),
            {},
            r"The goal has m = 1, in the order \['accuracy'\]. Got \(2, 3, 2\)",
        ),
        (np.zeros((0, 3)), {}, "must have the shape"),
        ([["a", "b"]], {}, "scores must be numbers"),
        (np.full((2, 3), np.nan), {}, "There are no scores"),
        (
            SCORES,
            {"prompts": ["a", "b"]},
            "number of prompts is 2, but `scores` has 3 rows",
        ),
        (SCORES, {"prompts": ["a", "b", "a"]}, "the name 'a' more than once"),
        (SCORES, {"prompts": "abc"}, "prompts must be names"),
        (
            SCORES,
            {"examples": ["q"]},
            "number of ids of examples is 1, but `scores` has 40 columns",
        ),
        (SCORES, {"baseline": "x"}, "baseline: .*'x'"),
        (SCORES, {"inputs": "old"}, "inputs must be 'new' or 'given'"),
    ],
)
def test_mistakes_say_what_came_and_what_to_do(
    scores: object, options: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"(?s){said}"):
        analyze(scores, GOAL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frame", "options", "said"),
    [
        (lambda long: long, {"examples": ["q"]}, "Leave out examples="),
        (
            lambda long: long.drop(columns="example"),
            {},
            "needs a column 'example' in addition",
        ),
        (
            lambda long: long.rename(columns={"accuracy": "acuracy"}),
            {},
            "no column for the goal's metric 'accuracy'.*did you mean 'acuracy'",
        ),
        (
            lambda long: long.assign(accuracy="good"),
            {},
            "The column 'accuracy' must hold numbers",
        ),
        (lambda long: long, {"prompts": ["p9"]}, "has no prompt 'p9'"),
        (lambda long: long.iloc[:0], {}, "has no rows"),
        (lambda long: long.assign(segment=range(120)), {}, "has two segments"),
        (
            lambda long: type(long)({"question": ["why"], "a": [1]}),
            {},
            "'question' must hold numbers.*with prompts=",
        ),
        (lambda long: type(long)({"example": ["q"]}), {}, "no column of scores"),
        (
            lambda long: type(long)([[1, 2]], columns=["a", "a"]),
            {},
            "'a' more than once",
        ),
    ],
)
def test_mistakes_in_frames_say_what_came_and_what_to_do(
    long: Any, frame: Callable[[Any], Any], options: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"(?s){said}"):
        analyze(frame(long), GOAL, **options)  # type: ignore[arg-type]


def test_a_wide_frame_has_one_metric() -> None:
    import pandas as pd

    with pytest.raises(InvalidArgumentError, match="a single metric"):
        analyze(
            pd.DataFrame({"a": [1.0]}), ParetoSet("accuracy", asktell.maximize("cost"))
        )


@pytest.mark.parametrize("score", [np.inf, -np.inf, 1e300])
def test_a_score_that_is_no_measurement_is_refused_with_its_place(score: float) -> None:
    scores = SCORES.copy()
    scores[1, 2] = score
    with pytest.raises(
        InvalidScoresError, match=r"Prompt 'b' has .* on example 'q2'.*must be a finite"
    ):
        analyze(
            scores, GOAL, prompts=["a", "b", "c"], examples=[f"q{i}" for i in range(40)]
        )
    with pytest.raises(InvalidScoresError, match=r"within its range \[0, 1\]"):
        analyze(3 * SCORES, BestFeasible(asktell.maximize("accuracy", range=(0, 1))))


def test_a_goal_is_needed() -> None:
    with pytest.raises(InvalidArgumentError, match="goal must be"):
        analyze(SCORES, "accuracy")  # type: ignore[arg-type]
