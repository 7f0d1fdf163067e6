"""Copies, notes, cells observed twice, and runs in which everything fails."""

import copy
import importlib.metadata
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector
from tests.plays import play

PARETO = ParetoSet("a", "b")


@pytest.mark.parametrize(
    "prompts", [["x", "yy", "zzz"], {"p": "x", "q": "yy", "r": "zzz"}]
)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_goes_its_own_way(prompts: Any, duplicate: Any) -> None:
    rng = np.random.default_rng(0)
    s = Selector(prompts, PARETO, 12, examples=6)
    for trial in s.ask(3)[:2]:
        s.tell(trial, rng.random(2).tolist())
    other, saved = duplicate(s), s.to_json()
    assert other.to_json() == saved
    play(s, lambda _: rng.random(2).tolist())
    assert other.to_json() == saved
    assert len(other.pending) == 1
    assert other.ask() is not None


def test_a_selector_is_not_pickled() -> None:
    with pytest.raises(asktell.NotPicklableError, match=r"selector.to_json\(\)"):
        pickle.dumps(Selector(["x"], PARETO, 3))


def test_features_that_a_method_does_not_use_are_said_to_be_unused() -> None:
    def result(method: str, features: list[list[float]] | None) -> asktell.Result:
        return Selector(
            ["x", "yy"], PARETO, 4, method, examples=3, features=features
        ).result()

    unused = result("ege-sr", [[1.0], [2.0]])
    assert "The features were not used" in unused.notes[0]
    assert unused.to_dict()["notes"] == list(unused.notes)
    assert result("ege-sr", None).notes == ()
    for method in ("auto", "race"):
        assert "The features were not used" in result(method, [[1.0], [2.0]]).notes[0]
        assert result(method, None).notes == ()
    assert result("mlp-ege", [[1.0], [2.0]]).notes == ()


@pytest.mark.parametrize(
    ("apart", "pulled", "said"),
    [
        (1.0, 6, None),
        (0.0, 6, None),  # a column that is exactly another loses nothing
        (1e-11, 6, "1 direction of the features was left out of the estimates"),
        (1.0, 2, "do not cover all directions of the features"),
    ],
)
def test_a_result_says_what_least_squares_leaves_out(
    apart: float, pulled: int, said: str | None
) -> None:
    pytest.importorskip("jax")
    features = np.random.default_rng(0).normal(size=(6, 3))
    features[:, 2] = features[:, 0] + apart * features[:, 2]
    selector = Selector(list("abcdef"), PARETO, 24, "gege", features=features)
    for arm in range(pulled):
        selector.observe(arm, [0.1 * arm, 0.5])
    notes = [note for note in selector.result().notes if "direction" in note]
    assert len(notes) == (said is not None)
    assert said is None or said in notes[0]


def test_a_selected_prompt_whose_estimate_is_dominated_is_noted() -> None:
    found = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        s = Selector([f"p{i}" for i in range(12)], PARETO, 24, examples=40, seed=seed)
        play(s, lambda _: rng.random(2).tolist())  # noqa: B023
        result = s.result()
        means = np.array(
            [list(entry.estimate.values()) for entry in result.selected], dtype=float
        )
        dominated = int((~asktell.numerics.pareto.pareto_mask(means)).sum())
        found += dominated > 0
        said = f"Based on the estimates, {dominated} of the selected"
        assert any(said in note for note in result.notes) == (dominated > 0)
        assert len(result.dominated) == dominated
        estimates = {
            entry.id: np.array(list(entry.estimate.values()), dtype=float)
            for entry in result.selected
        }
        for one, other in result.dominated.items():
            assert (estimates[other] >= estimates[one]).all()
            shown = [
                line for line in str(result).splitlines() if line.startswith(f"{one} ")
            ]
            assert all(f"  {other}  " in line for line in shown)
    assert found


@pytest.mark.parametrize("method", ["uniform", "auto"])
def test_a_cell_observed_twice_counts_once_by_its_mean(method: str) -> None:
    s = Selector(
        ["x", "yy"], BestFeasible("a"), 8, method, examples=4, inputs="given", repeats=1
    )
    for example, score in [(0, 0.2), (0, 0.2), (1, 0.6), (2, 0.4), (2, 0.4), (2, 0.4)]:
        s.observe("x", [score], example=example)
    entry = s.result().prompts[0]
    assert entry.standard_error["a"] != 0.0  # three of four examples, though six scores
    s.observe("x", [1.0], example=3)
    s = Selector.from_json(s.to_json())
    entry = s.result().prompts[0]
    assert entry.estimate["a"] == pytest.approx((0.2 + 0.6 + 0.4 + 1.0) / 4)
    assert (entry.standard_error["a"], entry.evaluations) == (0.0, 4)
    while trial := s.ask():
        assert trial.prompt_id == 1
        s.tell(trial, [0.0])
    assert s.result().prompts[0].estimate["a"] == pytest.approx(0.55)


def test_different_scores_of_a_cell_tell_that_no_score_is_certain() -> None:
    s = Selector(
        ["x", "yy"],
        BestFeasible("a"),
        8,
        "uniform",
        examples=4,
        inputs="given",
        repeats=1,
    )
    for example, score in [(0, 0.1), (0, 0.3), (1, 0.6), (2, 0.4), (3, 1.0)]:
        s.observe("x", [score], example=example)
    entry = s.result().prompts[0]
    assert entry.estimate["a"] == pytest.approx((0.2 + 0.6 + 0.4 + 1.0) / 4, abs=0.05)
    assert (entry.standard_error["a"] or 0.0) > 0.0
    assert (
        next(check for check in s.result().checks if check.name == "noise").ok is False
    )


def test_failures_between_successes_do_not_stop_a_run() -> None:
    calls = iter(range(1000))

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        if next(calls) % 3:
            raise ConnectionError("down")
        return {"a": 0.5, "b": 0.5}

    s = Selector(["x", "yy"], PARETO, 9, examples=50, max_failure_rate=1)
    assert asktell.run(s, evaluate, progress=False, max_failures_in_a_row=3).spent == 9


def test_keys_that_are_no_metrics_are_ignored() -> None:
    s = Selector(["x", "y"], BestFeasible("q"), 4, examples=2)
    trial = s.ask()
    s.tell(trial, {"reason": "short and right", "q": 1.0, "tokens": 17})
    s.observe("y", {"q": 0.5, "why": None}, example=1)
    assert [entry.estimate["q"] is not None for entry in s.result().prompts] == [
        True,
        True,
    ]
    assert s.result().spent == 1


def test_a_checkout_that_is_not_installed_saves_and_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    s = Selector(["x", "y"], BestFeasible("q"), 4, examples=2)
    assert asktell.__version__ == "unknown"
    assert Selector.from_json(s.to_json()).result().spent == 0
    s.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 0
