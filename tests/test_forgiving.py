"""What comes in by a detour is understood where it has one meaning, and asked about where it has two."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    ConflictingTellError,
    InvalidArgumentError,
    InvalidScoresError,
    ParetoSet,
    Selector,
    Study,
    Trial,
    UnknownTrialError,
    at_most,
    minimize,
)
from asktell.problem.metric_names import is_expense, less_may_be_better
from asktell.studies.storages.memory import MemoryStorage


def new(goal: Any = None) -> Selector:
    return Selector(
        {"a": "text", "b": "other"}, goal or BestFeasible("q"), 8, "uniform", 4
    )


# A bare number


@pytest.mark.parametrize(
    "score", [0.5, 1, True, np.float64(0.25), np.array(0.5), np.int64(3)]
)
def test_a_bare_number_is_the_score_of_one_metric(score: Any) -> None:
    for goal in (BestFeasible("q"), BestFeasible("q", {"q": 0.1}), ParetoSet("q")):
        selector = new(goal)
        trial = selector.ask()
        selector.tell(trial, score)
        selector.observe("b", score)
        assert selector.state.history.scores().tolist() == [[float(score)]] * 2
    assert asktell.run(new(), lambda prompt, example: score, progress=False).spent == 8


def test_a_bare_number_that_is_no_score_is_refused() -> None:
    selector = new()
    trial = selector.ask()
    for wrong in (float("nan"), None, "0.5", b"1", np.array(float("inf")), 1j):
        with pytest.raises(InvalidScoresError):
            selector.tell(trial, wrong)
    two = new(ParetoSet("q", "r"))
    with pytest.raises(
        InvalidScoresError,
        match=r"Scores must be .* in the order \['q', 'r'\]\. Got 0.5 \(float\)",
    ):
        two.tell(two.ask(1)[0], 0.5)
    assert [t.id for t in selector.pending] == [trial.id]


# A trial that came back from JSON


@pytest.mark.parametrize("kind", ["list", "object", "tuple", "few"])
@pytest.mark.parametrize("where", ["selector", "study"])
def test_a_trial_may_come_back_from_json(kind: str, where: str, tmp_path: Path) -> None:
    selector: Any = new()
    if where == "study":
        selector = Study.create(tmp_path / "s.db", "s", selector)
    trials = selector.ask(4)

    def back(trial: Trial) -> Any:
        if kind in ("list", "tuple"):
            return json.loads(json.dumps(trial)) if kind == "list" else tuple(trial)
        made = json.loads(json.dumps(trial._asdict()))
        return {"id": made["id"], "my own": 1} if kind == "few" else made

    selector.tell(back(trials[0]), 0.5)
    selector.tell(back(trials[0]), 0.5)  # again does no harm
    with pytest.raises(ConflictingTellError):
        selector.tell(back(trials[0]), 0.6)
    selector.release(back(trials[1]))
    selector.fail(back(trials[2]), "no")
    assert selector.spent == 1
    assert len(selector.pending) == 1


@pytest.mark.parametrize(
    ("trial", "error", "said"),
    [
        (
            [0, "a", "text"],
            InvalidArgumentError,
            "the items id, prompt_id, prompt, example, candidate. Only the last may be missing. Got [0",
        ),
        (
            {"prompt": "text"},
            InvalidArgumentError,
            "'prompt_id' if it has any of 'prompt', 'example' and 'candidate'. Got the keys ['prompt']",
        ),
        ({"id": "0"}, InvalidArgumentError, "whole number, got '0'"),
        (
            [0, "b", "text", 0],
            UnknownTrialError,
            "Trial 0 is prompt 'a' ('text') on example",
        ),
        ([0, "a", "changed", None], UnknownTrialError, "not prompt 'a' ('changed')"),
        (
            {"id": 0, "prompt_id": "a", "example": 99},
            UnknownTrialError,
            "on example 99",
        ),
        ({"id": 77}, UnknownTrialError, "Trial 77 is not pending"),
    ],
)
def test_a_trial_that_is_not_what_is_out_is_refused(
    trial: Any, error: type[Exception], said: str
) -> None:
    selector = new()
    first = selector.ask()
    assert first is not None
    if trial == [0, "a", "changed", None]:
        trial = [0, "a", "changed", first.example]
    before = selector.to_json()
    with pytest.raises(error) as raised:
        selector.tell(trial, 0.5)
    assert said in str(raised.value)
    assert selector.to_json() == before


# A bound that may be meant either way


@pytest.mark.parametrize(
    "metric",
    [
        "cost",
        "latency",
        "output_tokens",
        "latency_ms",
        "inputTokens",
        "USD per call",
        "toxicity",
        "error-rate",
        "WER",
    ],
)
def test_a_bare_bound_of_what_may_be_better_smaller_is_asked_about(metric: str) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"needs a direction.*asktell.at_most\(0.5\) or asktell.at_least\(0.5\)",
    ):
        BestFeasible("q", {metric: 0.5})
    assert (
        BestFeasible("q", {metric: at_most(0.5)}).constraints
        == BestFeasible("q", {minimize(metric): 0.5}).constraints
    )
    assert not BestFeasible("q", {asktell.maximize(metric): 0.5}).constraints[0].at_most


@pytest.mark.parametrize(
    "metric",
    ["brevity", "rouge", "token_f1", "costly", "accuracy", "timeliness", "lossless"],
)
def test_other_bare_bounds_are_least_values(metric: str) -> None:
    assert not less_may_be_better(metric)
    assert not BestFeasible("q", {metric: 0.5}).constraints[0].at_most


def test_amounts_that_are_spent() -> None:
    spent = ["cost", "cost_usd", "latency", "outputTokens", "seconds", "mean_cost"]
    scored = ["accuracy", "error", "toxicity", "cost_efficiency", "latency_score", "f1"]
    assert [name for name in spent + scored if is_expense(name)] == spent


def test_a_misspelt_metric_is_answered_with_the_nearest() -> None:
    selector = new(ParetoSet("rouge", "brevity"))
    with pytest.raises(
        InvalidScoresError, match=r"Got \['bervity'\] \(did you mean 'brevity'\?\)"
    ):
        selector.tell(selector.ask(1)[0], {"rouge": 1, "bervity": 1})


@pytest.mark.parametrize("kind", ["selector", "study"])
def test_a_trial_of_another_selector_is_refused(kind: str) -> None:
    """Ids count from 0 in each selector, so that an id alone does not say whose trial it is."""
    selector = new()
    mine: Any = (
        selector if kind == "selector" else Study.create(MemoryStorage(), "a", selector)
    )
    trial = mine.ask()
    texts = Selector(
        {"a": "another text", "b": "other"}, BestFeasible("q"), 8, "uniform", 4
    )
    names = Selector({"c": "text", "d": "other"}, BestFeasible("q"), 8, "uniform", 4)
    examples = Selector(
        {"a": "text", "b": "other"}, BestFeasible("q"), 8, "uniform", 4, seed=2
    )
    for stranger in (texts.ask(), names.ask(), examples.ask()):
        assert stranger is not None
        assert stranger.id == trial.id
        assert stranger != trial
        for call in (
            lambda stranger=stranger: mine.tell(stranger, 1.0),
            lambda stranger=stranger: mine.fail(stranger, "no answer"),
            lambda stranger=stranger: mine.release(stranger),
        ):
            with pytest.raises(
                UnknownTrialError, match=r"another study or selector.*with observe\(\)"
            ):
                call()
    assert mine.pending == [trial]
    resumed = Selector.from_json(
        mine.to_json() if kind == "selector" else mine.selector.to_json()
    )
    for judged in (mine, resumed):
        assert judged.tell(trial, 1.0)
        with pytest.raises(UnknownTrialError, match="another study or selector"):
            judged.tell(Trial(0, "a", "another text", trial.example), 1.0)


@pytest.mark.parametrize("kind", ["selector", "study"])
def test_a_trial_that_was_told_is_no_other_one_with_the_same_scores(kind: str) -> None:
    selector = new(BestFeasible("q"))
    judged: Any = (
        selector if kind == "selector" else Study.create(MemoryStorage(), "a", selector)
    )
    trial = judged.ask()
    judged.tell(trial, 1.0)
    judged.tell(list(trial), 1.0)  # sent again
    other = trial._replace(example=trial.example + 1)
    with pytest.raises(UnknownTrialError, match="another study"):
        judged.tell(list(other), 1.0)
