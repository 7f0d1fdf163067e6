"""Selections as Optuna studies."""

from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import IncompatibleMethodError, InvalidArgumentError

optuna = pytest.importorskip("optuna")

from asktell_adapters.optimizers.optuna import AsktellSampler, to_optuna  # noqa: E402

PROMPTS = {"short": "Be brief.", "long": "Explain at length.", "odd": "Say nothing."}
GOAL = asktell.BestFeasible("accuracy", {"brevity": 0.5, asktell.minimize("words"): 20})


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def scores(prompt: str, example: int) -> dict[str, float]:
    if prompt == "Say nothing.":
        raise ValueError("empty answer")
    short = prompt == "Be brief."
    return {
        "accuracy": 0.5 + 0.01 * example - 0.1 * short,
        "brevity": 0.9 if short else 0.2,
        "words": 10.0,
        "cost": 0.25,
    }


def selector(goal: Any = GOAL, budget: int = 12) -> asktell.Selector:
    return asktell.Selector(PROMPTS, goal, budget, examples=6)


def steps(selector: Any, n: int) -> None:
    for _ in range(n):
        trial = selector.ask()
        try:
            told = scores(trial.prompt, trial.example)
        except ValueError as error:
            selector.fail(trial, error, 0.125)
        else:
            selector.tell(trial, {m: told[m] for m in selector.metrics}, told["cost"])


def test_every_evaluation_is_a_trial() -> None:
    source = selector()
    source.observe("long", {"accuracy": 1.0, "brevity": 0.25, "words": 30}, example=5)
    steps(source, 9)
    study = to_optuna(source)
    history, failures = source.state.history, source.state.failures
    assert [direction.name for direction in study.directions] == ["MAXIMIZE"]
    assert study.metric_names == ["accuracy"]
    observed, *trials = study.trials
    assert observed.params == {"prompt": "long", "example": 5}
    assert observed.values == [1.0]
    assert observed.user_attrs == {
        "asktell:evaluation": "observed 0",
        "text": "Explain at length.",
        "brevity": 0.25,
        "words": 30,
    }
    assert [t.user_attrs["asktell:evaluation"] for t in trials] == [f"trial {i}" for i in range(9)]
    told = {int(id_): row.tolist() for id_, row in zip(history.trials(), history.scores(), strict=True) if id_ >= 0}
    for i, trial in enumerate(trials):
        if i in told:
            assert trial.state == optuna.trial.TrialState.COMPLETE
            assert [*trial.values, trial.user_attrs["brevity"], trial.user_attrs["words"]] == told[i]
        else:
            assert trial.state == optuna.trial.TrialState.FAIL
            assert trial.user_attrs["error"] == "ValueError: empty answer"
            assert trial.params["prompt"] == "odd"
    assert len(told) + failures.count(2) == 9


def test_constraints_are_optunas() -> None:
    source = selector()
    steps(source, 12)
    study = to_optuna(source)
    for trial in study.trials:
        if trial.values is None:
            continue
        kept = {"short": [-0.4, -10.0], "long": [0.3, -10.0]}[trial.params["prompt"]]
        assert trial.system_attrs["constraints"] == pytest.approx(kept)
    assert study.best_trial.params["prompt"] == "short", "Optuna's own idea of feasible"


def test_what_is_known_of_the_prompts() -> None:
    source = selector()
    steps(source, 15)
    attributes = to_optuna(source).user_attrs
    assert attributes["asktell:selected"] == ["short"]
    assert attributes["asktell:goal"] == str(GOAL)
    entry = {entry.id: entry for entry in source.result().prompts}["long"]
    known = attributes["asktell:prompts"]["long"]
    assert (known["estimate"], known["pulls"], known["status"]) == (entry.estimate, entry.pulls, entry.status)
    assert attributes["asktell:prompts"]["odd"]["status"] == "failed"


def test_several_values() -> None:
    source = selector(asktell.ParetoSet("accuracy", asktell.minimize("words")))
    steps(source, 6)
    study = to_optuna(source)
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert all(len(trial.values) == 2 for trial in study.trials if trial.values is not None)
    goal = asktell.ParetoSet("accuracy", asktell.minimize("words"), subject_to={"brevity": 0.5})
    source = selector(goal)
    steps(source, 6)
    trials = [trial for trial in to_optuna(source).trials if trial.values is not None]
    for trial in trials:
        assert len(trial.values) == 2
        assert trial.system_attrs["constraints"] == [0.5 - trial.user_attrs["brevity"]]


def test_a_second_export_adds_what_is_new(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/optuna.db"
    with asktell.Study.create(tmp_path / "asktell.db", "prompts", selector()) as source:
        steps(source, 4)
        first = to_optuna(source, url)
        assert first.study_name == "prompts"
        before = [trial.user_attrs for trial in first.trials]
        source.observe("short", {"accuracy": 0.5, "brevity": 1, "words": 1})
        steps(source, 4)
        second = to_optuna(source, url)
    assert [trial.user_attrs for trial in second.trials][:4] == before
    assert [t.user_attrs["asktell:evaluation"] for t in second.trials[4:]] == [
        "observed 0",
        *(f"trial {i}" for i in range(4, 8)),
    ]
    costs = [t.user_attrs.get("cost") for t in second.trials if t.user_attrs["asktell:evaluation"] != "observed 0"]
    assert costs == [0.125 if t.values is None else 0.25 for t in second.trials if "cost" in t.user_attrs]
    assert len(costs) == 8


def test_an_exported_selection_warms_up_a_sampler() -> None:
    """And comes back: what was exported is observed."""
    source = selector()
    steps(source, 12)
    study = to_optuna(source)
    study.sampler = AsktellSampler(selector())
    result = study.sampler.result(study)
    assert result.spent == 0
    assert {e.id: e.pulls for e in result.prompts} == {e.id: e.pulls for e in source.result().prompts}


def test_what_a_sampler_knows_is_exported(caplog: pytest.LogCaptureFixture) -> None:
    ours = selector()
    study = optuna.create_study(direction="maximize", sampler=AsktellSampler(ours))

    def objective(trial: Any) -> float:
        told = scores(PROMPTS[trial.suggest_categorical("prompt", list(PROMPTS))], trial.suggest_int("example", 0, 5))
        for metric in ("brevity", "words"):
            trial.set_user_attr(metric, told[metric])
        return told["accuracy"]

    study.optimize(objective, catch=(ValueError,))
    knows = study.sampler.selector(study)
    assert knows.result().to_dict() == study.sampler.result(study).to_dict()
    assert asktell.Selector.from_json(knows.to_json()).result().to_dict() == knows.result().to_dict()
    exported = to_optuna(knows)
    assert not caplog.messages or "failed" in caplog.messages[-1]
    assert [(t.params, t.values, t.state) for t in exported.trials] == [
        (t.params, t.values, t.state) for t in study.trials
    ]
    assert exported.user_attrs["asktell:selected"] == ["short"]
    assert not to_optuna(ours, study_name="its own").trials
    assert "export sampler.selector(study)" in caplog.messages[-1]


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="needs a Selector or a Study, got list"):
        to_optuna([])  # type: ignore[arg-type]
    url = f"sqlite:///{tmp_path}/optuna.db"
    other = optuna.create_study(storage=url, study_name="asktell", direction="maximize")
    other.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    with pytest.raises(IncompatibleMethodError, match="'asktell' already, which was not exported from here"):
        to_optuna(selector(), url)
    minimized = asktell.Selector(PROMPTS, asktell.BestFeasible(asktell.minimize("words")), 9)
    to_optuna(minimized, url, "w")
    with pytest.raises(IncompatibleMethodError):
        to_optuna(asktell.Selector(PROMPTS, asktell.BestFeasible("words"), 9), url, "w")
