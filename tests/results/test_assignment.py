"""One prompt for each segment: only where another is shown to be better."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import Assignment, BestFeasible, at_least, at_most, maximize, minimize
from tests.plays import play

GOAL = BestFeasible(maximize("right", range=(0, 1)))
LABELS = ["de", "en", "fr"] * 60


def table(shares: list[list[float]], size: int = 60, seed: int = 0) -> np.ndarray:
    """(K, 3 * size) scores of 0 and 1 with these shares of 1 in the segments of LABELS."""
    rng = np.random.default_rng(seed)
    scores = np.zeros((len(shares), 3 * size))
    for arm, row in enumerate(shares):
        for g, share in enumerate(row):
            ones = rng.permutation(size) < round(share * size)
            scores[arm, g::3] = ones
    return scores


# The first is best over all, the second in "fr"
UNEVEN = table([[0.9, 0.9, 0.3], [0.5, 0.5, 0.9], [0.4, 0.4, 0.4]])


def analyzed(scores: Any, goal: Any = GOAL, **options: Any) -> asktell.Result:
    options = {"segments": LABELS[: np.shape(scores)[1]], **options}
    prompts = [f"p{arm}" for arm in range(len(scores))]
    return asktell.analyze(scores, goal, prompts=prompts, **options)


def test_a_segment_gets_another_prompt_where_it_is_shown_to_be_better() -> None:
    assignment = analyzed(UNEVEN).assignment()
    assert assignment.single == "p0"
    assert assignment.candidates == {"de": "p0", "en": "p0", "fr": "p1"}
    (row,) = assignment.changed
    # Shrunken: less than the observed gain
    assert 0.4 < row.gain < 0.6
    assert row.p_worse < 0.01
    assert assignment.gain == pytest.approx(row.gain / 3)
    assert assignment.p_not_worse > 0.99
    before, after = assignment.estimates["right"]
    assert after - before == pytest.approx(assignment.gain)
    assert before == pytest.approx(analyzed(UNEVEN).best.estimate["right"])  # type: ignore[union-attr]
    assert assignment.sentence.startswith(
        'Use "p0", but "p1" in "fr". This is expected to raise the mean right by '
    )
    assert "p1" in str(assignment).splitlines()[3]
    assert "<table>" in assignment._repr_html_()


def test_nothing_to_gain_is_said() -> None:
    equal = table([[0.7, 0.7, 0.7], [0.7, 0.7, 0.7], [0.69, 0.7, 0.72]])
    assignment = analyzed(equal).assignment()
    assert assignment.changed == ()
    assert (assignment.gain, assignment.p_not_worse) == (0.0, 1.0)
    assert "No other prompt is shown to be better in a segment" in str(assignment)
    assert "segment  " not in str(assignment)


def test_less_may_be_better() -> None:
    goal = BestFeasible(minimize("errors", range=(0, 1)))
    of_more = analyzed(UNEVEN).assignment()
    of_less = analyzed(1.0 - UNEVEN, goal).assignment()
    assert of_less.candidates == of_more.candidates
    assert of_less.gain == pytest.approx(of_more.gain, rel=0.02)
    assert "expected to lower the mean errors by" in of_less.sentence


def test_a_constraint_holds_for_the_assignment_as_a_whole() -> None:
    # Costs of 1, 4 and 1 for each response
    costs = np.broadcast_to([[1.0], [4.0], [1.0]], UNEVEN.shape)
    noise = np.random.default_rng(0).normal(0.0, 0.01, UNEVEN.shape)
    both = np.stack((UNEVEN, costs + noise), axis=2)
    wide = BestFeasible(GOAL.objective, {"cost": at_most(2.5)})
    assignment = analyzed(both, wide).assignment()
    # p1 costs more than the bound, but the mean cost over all segments is 2
    assert assignment.candidates["fr"] == "p1"
    assert assignment.estimates["cost"] == pytest.approx((1.0, 2.0), abs=0.05)
    assert "mean cost changes from 1 to 2" in assignment.sentence
    narrow = BestFeasible(GOAL.objective, {"cost": at_most(1.5)})
    refused = analyzed(both, narrow).assignment()
    assert refused.changed == ()
    assert refused.left_out == (("fr", "p1"),)
    assert '"p1" is better in "fr", but the constraints' in refused.sentence
    every = BestFeasible(GOAL.objective, {"cost": at_most(2.5, in_every_segment=True)})
    assert analyzed(both, every).assignment().left_out == (("fr", "p1"),)
    sure = BestFeasible(GOAL.objective, {"cost": at_most(2.5)}, sure=0.95)
    assert analyzed(both, sure).assignment().left_out == (("fr", "p1"),)
    relative = BestFeasible(minimize("cost"), {"right": asktell.within(0.3)})
    assert set(analyzed(both[:, :, ::-1], relative).assignment().estimates) == {
        "cost",
        "right",
    }


def test_a_constraint_that_no_prompt_satisfies_must_not_get_worse() -> None:
    length = np.where(np.arange(180) % 3 == 2, 3.0, 2.0) + np.array([[0.0], [0.5], [0]])
    noise = np.random.default_rng(0).normal(0.0, 0.01, UNEVEN.shape)
    both = np.stack((UNEVEN, length + noise), axis=2)
    goal = BestFeasible(GOAL.objective, {"length": at_most(1.0)})
    assert analyzed(both, goal).assignment().candidates["fr"] != "p1"


def test_the_tolerance_must_be_exceeded() -> None:
    goal = BestFeasible(maximize("right", range=(0, 1), tolerance=0.8))
    assignment = analyzed(UNEVEN, goal).assignment()
    assert assignment.changed == ()
    assert "by more than 0.8" in assignment.sentence


def test_exact_ties_and_one_segment() -> None:
    tied = np.repeat(UNEVEN[:1], 3, axis=0)
    assert analyzed(tied).assignment().changed == ()
    constant = np.ones((3, 180))
    assert analyzed(constant).assignment().changed == ()
    assignment = analyzed(UNEVEN, segments=["all"] * 180).assignment()
    assert assignment.candidates == {"all": assignment.single}
    assert "in the only segment" in assignment.sentence


def test_few_examples_and_missing_scores_establish_nothing() -> None:
    labels = ["few"] * 3 + ["many"] * 177
    scores = np.ones((2, 180))
    scores[1, 3:60] = 0.0
    scores[0, :3] = 0.0
    assignment = analyzed(scores, segments=labels).assignment()
    assert assignment.candidates == {"few": "p0", "many": "p0"}
    holes = UNEVEN.copy()
    holes[1, np.arange(180) % 3 == 2] = np.nan
    holes[2] = np.nan
    assert analyzed(holes).assignment().changed == ()
    holes = UNEVEN.copy()
    holes[1, np.arange(180) % 3 != 2] = np.nan
    assert analyzed(holes).assignment().candidates["fr"] == "p1"


def test_given_examples_are_known_exactly() -> None:
    scores = table([[0.9, 0.9, 0.5], [0.5, 0.5, 0.52]])
    assignment = analyzed(scores, inputs="given").assignment()
    assert assignment.candidates["fr"] == "p1"
    assert assignment.p_not_worse == 1.0
    assert assignment.changed[0].gain == pytest.approx(1 / 60)


def test_leads_that_all_agree_on_a_few_examples_are_not_exact() -> None:
    scores = np.tile([[1.0, 0.0], [0.0, 1.0]], 5)
    assignment = analyzed(scores, segments=["x", "y"] * 5).assignment()
    (row,) = assignment.changed
    assert row.standard_error == pytest.approx(1 / 30**0.5)
    assert assignment.standard_error == pytest.approx(0.5 / 30**0.5, rel=0.01)
    many = np.tile(scores, 20)
    sure = analyzed(many, segments=["x", "y"] * 100).assignment()
    assert sure.standard_error < 0.01
    given = analyzed(scores, segments=["x", "y"] * 5, inputs="given").assignment()
    assert [row.standard_error for row in given.segments] == [0.0, 0.0]


def test_a_baseline_that_the_verdict_keeps_is_replaced_only_in_segments() -> None:
    scores = UNEVEN.copy()
    scores[1] = scores[0]
    # One more right response in all: not shown to be better
    scores[1, np.flatnonzero(scores[0] == 0)[0]] = 1.0
    scores[2, 2::3] = 1.0
    result = analyzed(scores, baseline="p0")
    assert result.verdict.answer == "p1"
    assert result.verdict.headline.startswith('Keep "p0"')
    assignment = result.assignment()
    assert assignment.single == "p0"
    assert assignment.sentence.startswith('Use "p0", but "p2" in "fr".')


def test_a_long_name_of_a_segment_does_not_widen_the_table() -> None:
    labels = ["a" * 200, "<img src=x onerror=alert(1)>", "f\nr"] * 60
    assignment = analyzed(UNEVEN, segments=labels).assignment()
    assert max(map(len, str(assignment).splitlines())) < 111
    assert len(str(assignment).splitlines()) == len(labels[:3]) + 3
    assert "<img" not in assignment._repr_html_()


def test_the_frame_and_json() -> None:
    result = analyzed(UNEVEN)
    frame = result.to_dataframe()
    assert frame["assigned"].tolist() == ["de, en", "fr", ""]
    assert result.assigned == {"p0": ["de", "en"], "p1": ["fr"]}
    assignment = result.assignment()
    of_segments = assignment.to_dataframe()
    assert of_segments["candidate"].tolist() == ["p0", "p0", "p1"]
    data = json.loads(json.dumps(assignment.to_dict()))
    assert data["candidates"] == assignment.candidates
    assert pickle.loads(pickle.dumps(result)).assignment() == assignment
    assert "assigned" not in analyzed(UNEVEN, segments=None).to_columns()
    assert analyzed(UNEVEN).assignment(0.9999999999).confidence == 0.9999999999


def test_bad_inputs() -> None:
    both = np.stack((UNEVEN, UNEVEN), axis=2)
    with pytest.raises(asktell.IncompatibleMethodError, match="ParetoSet"):
        analyzed(both, asktell.ParetoSet("right", "brief")).assignment()
    assert analyzed(both, asktell.ParetoSet("right", "brief")).assigned is None
    with pytest.raises(asktell.InvalidArgumentError, match="--segment-column"):
        analyzed(UNEVEN, segments=None).assignment()
    for confidence in (0.0, 1.0, math.nan, "high", None, [0.9]):
        with pytest.raises(asktell.InvalidArgumentError, match="confidence"):
            analyzed(UNEVEN).assignment(confidence)  # type: ignore[arg-type]
    selector = asktell.Selector(["a", "b"], GOAL, 20, examples=180, segments=LABELS)
    with pytest.raises(asktell.InvalidArgumentError, match="Record scores"):
        selector.result().assignment()
    drawn = asktell.Selector(
        ["a", "b"], GOAL, 20, "uniform", 180, segments=LABELS, sampling="iid"
    )
    play(drawn, lambda trial: {"right": float(trial.prompt_id == 0)})
    with pytest.raises(asktell.IncompatibleMethodError, match="iid"):
        drawn.result().assignment()
    assert drawn.result().assigned is None


@pytest.mark.parametrize("method", ["auto", "uniform", "race"])
def test_a_selection_assigns_at_every_look(method: str) -> None:
    selector = asktell.Selector(
        ["p0", "p1", "p2"], GOAL, 540, method, 180, seed=1, segments=LABELS
    )
    looks = []
    while trial := selector.ask():
        selector.tell(trial, {"right": UNEVEN[trial.prompt_id, trial.example]})
        if selector.state.spent in (1, 4, 60):
            looks.append(selector.result().assignment())
    last = selector.result().assignment()
    assert all(isinstance(look, Assignment) for look in looks)
    assert looks[0].changed == looks[1].changed == ()
    if method == "uniform":
        assert last.candidates["fr"] == 1
    assert set(last.candidates) == {"de", "en", "fr"}


def test_costs_and_prompts_that_cannot_be_selected() -> None:
    selector = asktell.Selector(
        ["p0", "p1", "p2"], GOAL, 540, "uniform", 180, segments=LABELS
    )
    while trial := selector.ask():
        scores = {"right": UNEVEN[trial.prompt_id, trial.example]}
        selector.tell(trial, scores, cost=0.001 * (1 + int(trial.prompt_id)))
    assignment = selector.result().assignment()
    assert assignment.candidates["fr"] == 1
    assert assignment.cost == pytest.approx((0.001, 0.001 * 4 / 3), rel=0.02)
    assert "mean cost per 1,000 evaluations changes from 1" in assignment.sentence
    early = asktell.Selector(
        ["p0", "p1", "p2"], GOAL, 540, "uniform", 180, segments=LABELS
    )
    for _ in range(500):
        trial = early.ask()
        assert trial is not None
        early.tell(trial, {"right": UNEVEN[trial.prompt_id, trial.example]})
    early.retire("p1", "too expensive")
    assert 1 not in early.result().assignment().candidates.values()


def test_an_established_floor_in_another_metric() -> None:
    safe = np.ones(UNEVEN.shape)
    safe[1, ::2] = 0.0
    both = np.stack((UNEVEN, safe), axis=2)
    goal = BestFeasible(GOAL.objective, {"safe": at_least(0.9)})
    assert analyzed(both, goal).assignment().left_out == (("fr", "p1"),)
