"""The verdict: what to do, how sure that is, what more evaluations would bring."""

import itertools
import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import asktell
from asktell import BestFeasible, IncompatibleMethodError, InvalidArgumentError, Outlook, ParetoSet, Selector, Verdict
from asktell.problem.goals import Goal
from asktell.results.verdict import _allotted, _moved

Array = npt.NDArray[np.float64]


def played(scores: Array, goal: Goal, budget: int, method: Any = "uniform", **options: Any) -> Selector:
    n_prompts, n_examples = scores.shape[:2]
    selector = Selector([f"p{i}" for i in range(n_prompts)], goal, budget, method, n_examples, **options)
    while trial := selector.ask():
        selector.tell(trial, scores[int(trial.prompt_id), trial.example or 0].tolist(), cost=0.5)
    return selector


def wins(n_wins: int, n_losses: int, n_ties: int) -> Array:
    """0/1 scores of two prompts: so often only the second is right, only the first, both (and neither, as often)."""
    first = [0.0] * n_wins + [1.0] * n_losses + [1.0, 0.0] * (n_ties // 2)
    second = [1.0] * n_wins + [0.0] * n_losses + [1.0, 0.0] * (n_ties // 2)
    return np.array([first, second])[:, :, None]


def test_all_questions_seen_is_no_certainty_about_new_ones() -> None:
    """10 wins against 9 on all 60 questions: the best of those given for certain, and of new ones hardly known."""
    verdict = played(wins(10, 9, 41), BestFeasible("right"), 120).result().verdict
    assert (verdict.answer, verdict.given_p_best) == (1, 1.0)
    assert 0.5 < (verdict.p_best or 0) < 0.75
    assert verdict.outlook == ()
    assert verdict.action in ("take", "either")
    assert "cannot decide this" in verdict.sentence or verdict.action == "either"


def test_a_clear_winner_is_to_be_taken() -> None:
    verdict = played(wins(40, 2, 18), BestFeasible("right"), 120).result().verdict
    assert (verdict.action, verdict.answer) == ("take", 1)
    assert (verdict.p_best or 0) > 0.99
    assert verdict.sentence.startswith(
        "Take prompt 1: on new examples like these it is the best with probability over 99"
    )
    assert verdict.contenders == ((1, verdict.p_best),)


@pytest.mark.parametrize("seed", [10, 17, 32])
def test_what_a_front_misses_is_lowered_to_an_amount_that_reads_as_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    means, of_examples = rng.normal(size=(8, 1, 2)), 0.5 * rng.normal(size=(60, 2))
    scores = means + of_examples + 0.3 * rng.normal(size=(8, 60, 2))
    sentence = played(scores, ParetoSet("a", "b"), 110, "auto", seed=seed).result().verdict.sentence
    now, then = re.findall(r"expected to miss ((?:under )?[\d.]+ %).* lower that to ((?:under )?[\d.]+ %)", sentence)[0]
    assert now != then


def test_prompts_that_score_the_same_are_equals() -> None:
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.random((1, 50, 1)), 3, axis=0)
    verdict = played(scores, BestFeasible(asktell.maximize("a", range=(0, 1))), 150).result().verdict
    assert verdict.action == "either"
    assert sum(p for _, p in verdict.contenders) == pytest.approx(1.0)
    assert verdict.loss_95 is not None
    assert verdict.loss_95 <= 0.01


def test_few_evaluations_ask_for_more_and_say_what_they_bring_and_cost() -> None:
    rng = np.random.default_rng(1)
    scores = (rng.random((8, 200, 1)) < np.linspace(0.4, 0.7, 8)[:, None, None]).astype(float)
    verdict = played(scores, BestFeasible("right"), 24).result().verdict
    assert verdict.action == "go on"
    assert [each.evaluations for each in verdict.outlook] == [12, 24, 48, 8 * 200 - 24]
    assert [each.cost for each in verdict.outlook] == [pytest.approx(0.5 * n) for n in (12, 24, 48, 1576)]
    for fewer, more in itertools.pairwise(verdict.outlook):
        assert more.loss <= fewer.loss + 0.01
        assert (more.p_best or 0) >= (fewer.p_best or 0) - 0.03
    assert "more evaluations (cost about" in verdict.sentence


def test_nothing_feasible_is_nothing_to_take() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((4, 40, 2)) * [1.0, 0.3]
    verdict = played(scores, BestFeasible("a", {"b": 0.9}), 80).result().verdict
    assert (verdict.answer, verdict.action) == (None, "none")
    assert verdict.sentence.startswith("Loosen a limit")
    assert verdict.p_feasible == verdict.p_best == 0.0
    assert verdict.contenders  # who comes closest


def test_contenders_are_the_smallest_set_that_holds_the_best_with_95_percent() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random((12, 60, 1)) + np.linspace(0, 0.5, 12)[:, None, None]
    result = played(scores, BestFeasible("a"), 120).result()
    p = {entry.id: entry.p_best or 0.0 for entry in result.prompts}
    shown = dict(result.verdict.contenders)
    assert sum(p.values()) == pytest.approx(1.0)
    assert sum(shown.values()) >= 0.95
    assert sum(shown.values()) - min(shown.values()) < 0.95
    assert next(iter(shown)) == result.selected[0].id
    assert [entry.id for entry in result.unresolved] == list(shown)[1:]
    assert min(shown.values()) >= max((x for id_, x in p.items() if id_ not in shown), default=0.0)


def test_a_front_says_what_it_misses() -> None:
    rng = np.random.default_rng(3)
    means = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.2, 0.2]])
    scores = np.clip(means[:, None] + 0.05 * rng.normal(size=(4, 60, 2)), 0, 1)
    verdict = played(scores, ParetoSet("a", "b"), 200).result().verdict
    assert (verdict.answer, verdict.p_best, verdict.p_feasible) == (None, None, None)
    assert (verdict.loss or 0) < 0.02
    assert [id_ for id_, _ in verdict.contenders[:3]] == [0, 1, 2] or {id_ for id_, _ in verdict.contenders} == {
        0,
        1,
        2,
    }


@pytest.mark.parametrize("method", ["auto", "csr"])
def test_before_anything_is_known_everybody_may_be_the_best(method: str) -> None:
    selector = Selector(["a", "b", "c"], BestFeasible("x"), 9, method, examples=9)
    result = selector.result()
    assert (result.verdict.action, result.verdict.answer, result.verdict.p_best) == ("none", None, None)
    assert [id_ for id_, _ in result.verdict.contenders] == [entry.id for entry in result.unresolved] == [0, 1, 2]
    selector.observe(1, [0.5], example=0)
    result = selector.result()
    assert (result.verdict.action, result.verdict.answer) == ("go on", 1)
    assert [entry.id for entry in result.unresolved] == [0, 2]
    for trial in selector.ask(3):
        selector.tell(trial, [float(trial.id)])
    result = selector.result()  # a single pull each says nothing of the noise
    assert len(result.selected) + len(result.unresolved) == 3


@pytest.mark.parametrize("goal", [BestFeasible("a", {"b": 0.5}), ParetoSet("a", "b")])
def test_as_data_and_back(goal: Goal) -> None:
    verdict = played(np.random.default_rng(0).random((5, 30, 2)), goal, 40).result().verdict
    data = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert Verdict.from_dict(data) == verdict
    assert all(isinstance(each, Outlook) for each in Verdict.from_dict(data).outlook)


def test_the_baseline_is_kept_and_not_taken() -> None:
    verdict = played(wins(2, 40, 18), BestFeasible("right"), 120, baseline=0).result().verdict
    assert verdict.sentence.startswith("Keep prompt 0: ")


def test_a_mean_moves_to_the_truth_by_the_part_that_its_variance_shrinks() -> None:
    """A deviation of variance 4, after 3 scores of variance 6: by 3 * 4 / (3 * 4 + 6) = 2 / 3 of the way."""
    off = np.random.default_rng(0).normal(0, 2, (40_000, 1))
    moved = _moved(off, np.array([3.0]), 6.0, np.random.default_rng(1))
    assert (moved * off).mean() / (off**2).mean() == pytest.approx(2 / 3, abs=0.02)
    assert moved.var() == pytest.approx(4 * 2 / 3, abs=0.06)


def test_evaluations_are_allotted_by_interest_and_none_beyond_what_is_left() -> None:
    found = _allotted(20, np.array([3.0, 1.0, 0.0]), np.array([5.0, 100.0, 100.0]))
    assert found[0] == 5.0
    assert found.sum() == pytest.approx(20.0)
    assert found[2] < 1e-3
    assert _allotted(50, np.ones(2), np.array([3.0, 4.0])).tolist() == [3.0, 4.0]


def test_sure_takes_the_best_of_those_that_keep_their_limits_for_sure() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[0.9, 0.49], [0.8, 0.52], [0.6, 0.9], [0.5, 0.95]])
    scores = np.clip(means[:, None] + 0.15 * rng.normal(size=(4, 80, 2)), 0, 1)
    bound = {"b": 0.5}
    bold = played(scores, BestFeasible("a", bound), 40, "auto").result()
    safe = played(scores, BestFeasible("a", bound, sure=0.95), 40, "auto").result()
    assert bold.selected[0].id in (0, 1)
    assert safe.selected[0].id == 2
    assert (safe.verdict.p_feasible or 0) >= 0.95
    assert str(safe.goal) == "maximize a subject to b >= 0.5, kept with probability 0.95"
    again = Selector.from_json(played(scores, BestFeasible("a", bound, sure=0.9), 40, "auto").to_json())
    assert again.goal == BestFeasible("a", bound, sure=0.9)


def test_sure_where_it_cannot_be_used() -> None:
    for sure in (0, 1, 1.5, True, "very"):
        with pytest.raises(InvalidArgumentError, match="sure must be a number above 0"):
            BestFeasible("a", {"b": 0.5}, sure=sure)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="sure goes with constraints"):
        BestFeasible("a", sure=0.95)
    for method in ("csr", "uniform", "race"):
        with pytest.raises(IncompatibleMethodError, match="take the method 'auto'"):
            Selector(["x", "y"], BestFeasible("a", {"b": 0.5}, sure=0.95), 10, method, examples=9)
