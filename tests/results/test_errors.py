"""What a result states of few prompts, of equal ones, of metrics with a range, and of new examples."""

from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector
from tests.plays import played
from tests.seeds import Seeds


def told(
    scores: Any,
    goal: Any,
    n: int,
    method: Any = "auto",
    budget: int = 1000,
    **options: Any,
) -> Selector:
    """A selector that was told the first n scores it asked for."""
    return played(scores, goal, method, budget, batch=6, n=n, **options)


@pytest.mark.parametrize("method", ["auto", "uniform"])
def test_prompts_that_score_the_same_are_called_equal(method: str) -> None:
    result = told(np.ones((2, 30, 1)), BestFeasible("right"), 10, method).result()
    assert "All scores are the same so far." in str(result)
    assert all(
        entry.p_best is None or 0.2 < entry.p_best < 0.8 for entry in result.prompts
    )


@pytest.mark.parametrize("given", [False, True])
def test_prompts_that_scored_the_same_on_every_example_share_the_probability(
    given: bool,
) -> None:
    options: dict[str, Any] = {"inputs": "given", "repeats": 1} if given else {}
    result = told(np.ones((2, 6, 1)), BestFeasible("right"), 12, **options).result()
    assert [entry.p_best for entry in result.prompts] == pytest.approx(
        [0.5, 0.5], abs=0.0 if given else 0.05
    )


@pytest.mark.parametrize("method", ["auto", "uniform", "csr"])
def test_estimates_stay_in_a_range_that_is_known(method: str) -> None:
    rng = np.random.default_rng(0)
    scores = (rng.random((3, 20, 1)) < [[[0.97]], [[0.5]], [[0.03]]]).astype(float)
    for n in range(2, 30, 3):
        for entry in (
            told(scores, BestFeasible("right"), n, method, 30).result().prompts
        ):
            mean, error = entry.estimate["right"], entry.standard_error["right"]
            assert mean is None or 0.0 <= mean <= 1.0
            assert error is None or error <= 0.5


def test_a_fixed_cost_is_known_after_a_few_evaluations_and_agreeing_answers_are_not() -> (
    None
):
    rng = np.random.default_rng(0)
    scores = np.stack((rng.random((3, 60)), np.full((3, 60), 8e-5)), axis=2)
    goal = BestFeasible("quality", subject_to={"cost": asktell.at_most(1e-4)})
    fixed = told(scores, goal, 12).result().prompts
    assert all((entry.p_feasible or 0) > 0.99 for entry in fixed)
    assert all((entry.standard_error["cost"] or 1) < 1e-5 for entry in fixed)
    agreed = (
        told(np.ones((3, 60, 2)), BestFeasible("quality", subject_to={"safe": 0.95}), 4)
        .result()
        .prompts
    )
    assert all((entry.p_feasible or 0) < 0.9 for entry in agreed)


@pytest.mark.parametrize("method", ["auto", "uniform"])
@pytest.mark.parametrize("ones", [False, True])
def test_all_examples_seen_is_no_certainty_about_new_ones(
    method: str, ones: bool
) -> None:
    scores = (
        np.random.default_rng(0).normal(size=(3, 60, 2))
        if not ones
        else np.ones((3, 60, 2))
    )
    for entry in told(scores, ParetoSet("a", "b"), 180, method, 180).result().prompts:
        expected = scores[int(entry.id), :, 0].std(ddof=1) / np.sqrt(60)
        found = entry.standard_error["a"] or 0.0
        assert (
            found == pytest.approx(expected, rel=0.1)
            if not ones
            else 0.0 < found < 0.05
        )


@pytest.mark.parametrize("method", ["auto", "uniform"])
def test_all_given_examples_seen_is_certainty_about_them(method: str) -> None:
    scores = np.random.default_rng(0).normal(size=(3, 60, 2))
    result = told(
        scores, ParetoSet("a", "b"), 180, method, 180, inputs="given", repeats=1
    ).result()
    for entry in result.prompts:
        assert list(entry.estimate.values()) == pytest.approx(
            scores[int(entry.id)].mean(axis=0).tolist()
        )
        assert entry.standard_error == {"a": 0.0, "b": 0.0}
        assert entry.p_best in (0.0, 1.0)


@pytest.mark.parametrize("method", ["csr", "uniform", "auto"])
def test_errors_of_answers_that_are_nearly_all_right(seeds: Seeds, method: str) -> None:
    """Ten of ten right had an error of 0 by the methods with rounds: the truth was within it in 4 of 10 cases."""
    inside = []
    for seed in seeds(30):
        scores = (np.random.default_rng(seed).random((2, 100, 1)) < 0.93).astype(float)
        for entry in (
            told(scores, BestFeasible("right"), 20, method, 20).result().prompts
        ):
            off = abs((entry.estimate["right"] or 0) - scores[int(entry.id)].mean())
            inside.append(off <= 1.96 * (entry.standard_error["right"] or 0))
    assert np.mean(inside) > 0.95 - 0.1 * np.sqrt(60 / len(inside))
