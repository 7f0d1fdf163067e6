"""Errors of the posterior: whether they hold the truth after few evaluations, and what supports none."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from asktell import BestFeasible, ParetoSet, PromptResult, Selector, at_least
from asktell.posterior.mixture import student_ratio
from tests.plays import play
from tests.seeds import Seeds


def entries(
    rows: Any, population: int | None = 10, method: str = "uniform", **options: Any
) -> list[PromptResult]:
    """The entries of prompts that have these scores, on the same examples."""
    prompts = [f"p{i}" for i in range(len(rows))]
    selector = Selector(prompts, BestFeasible("a"), 1000, method, population, **options)
    for prompt, row in zip(prompts, rows, strict=True):
        for example, score in enumerate(row):
            selector.observe(
                prompt, [float(score)], example=None if population is None else example
            )
    return selector.result().prompts


def errors(
    rows: Any, population: int | None = 10, method: str = "uniform", **options: Any
) -> list[float | None]:
    return [
        entry.standard_error["a"]
        for entry in entries(rows, population, method, **options)
    ]


@pytest.mark.parametrize("freedom", [2, 3, 5, 10, 100])
def test_few_examples_widen_as_students_distribution_does(freedom: int) -> None:
    assert student_ratio(freedom) == pytest.approx(
        stats.t.ppf(0.975, freedom) / 1.96, rel=0.04
    )


@pytest.mark.parametrize(
    ("n_scores", "method"), [(3, "uniform"), (5, "csr"), (10, "auto")]
)
def test_errors_hold_the_expected_score_on_new_inputs(
    seeds: Seeds, method: str, n_scores: int
) -> None:
    rng, held = np.random.default_rng(0), []
    for _ in seeds(60):
        means = 0.1 * rng.normal(size=(3, 1))
        scores = (
            means
            + 0.2 * rng.normal(size=n_scores)
            + 0.15 * rng.normal(size=(3, n_scores))
        )
        for mean, entry in zip(means[:, 0], entries(scores, 40, method), strict=True):
            held.append(
                abs((entry.estimate["a"] or 0.0) - mean)
                <= 1.96 * (entry.standard_error["a"] or 0.0)
            )
    wide = np.sqrt(180 / len(held))
    assert np.mean(held) > 0.95 - {3: 0.07, 5: 0.05, 10: 0.05}[n_scores] * wide
    assert n_scores < 10 or np.mean(held) < 0.99, (
        "errors are no larger than they need to be"
    )


def test_errors_hold_the_share_of_right_answers_on_new_inputs(seeds: Seeds) -> None:
    rng, held = np.random.default_rng(1), []
    for _ in seeds(60):
        ability, ease = rng.normal(0.5, 0.5, 3), rng.normal(0.0, 1.5, 4000)
        chances = 1.0 / (1.0 + np.exp(-(ability[:, None] + ease)))
        scores = rng.random((3, 8)) < chances[:, :8]
        for truth, entry in zip(chances.mean(axis=1), entries(scores, 40), strict=True):
            held.append(
                abs((entry.estimate["a"] or 0.0) - truth)
                <= 1.96 * (entry.standard_error["a"] or 0.0)
            )
    assert np.mean(held) > 0.95 - 0.07 * np.sqrt(180 / len(held))


def test_errors_hold_the_means_of_the_given_examples() -> None:
    rng, held = np.random.default_rng(2), []
    for _ in range(60):
        scores = (
            0.1 * rng.normal(size=(3, 1))
            + 0.2 * rng.normal(size=40)
            + 0.15 * rng.normal(size=(3, 40))
        )
        found = entries(scores[:, :20], 40, "csr", inputs="given", repeats=1)
        for mean, entry in zip(scores.mean(axis=1), found, strict=True):
            held.append(
                abs((entry.estimate["a"] or 0.0) - mean)
                <= 1.96 * (entry.standard_error["a"] or 0.0)
            )
    assert 0.88 < np.mean(held) < 0.995


@pytest.mark.parametrize("method", ["uniform", "csr", "auto"])
def test_a_single_example_supports_no_error(method: str) -> None:
    assert errors([[0.5], [0.7], [0.1]], method=method) == [None] * 3
    assert errors([[1.0], [0.0], [1.0]], method=method) == [None] * 3
    assert None not in errors([[0.5, 0.3], [0.7, 0.6], [0.1, 0.2]], method=method)
    assert None not in errors([[0.5], [0.7], [0.1]], None, method), (
        "each has an example of its own"
    )


@pytest.mark.parametrize("method", ["uniform", "csr", "auto"])
def test_what_was_seen_in_full_is_exact_only_about_the_given_examples(
    method: str,
) -> None:
    rows = [[0.5, 0.7, 0.3], [0.1, 0.2, 0.6]]
    given = entries(rows, 3, method, inputs="given", repeats=1)
    assert [entry.standard_error["a"] for entry in given] == [0.0, 0.0]
    assert [entry.estimate["a"] for entry in given] == pytest.approx([0.5, 0.3])
    assert [entry.p_best for entry in given] == [1.0, 0.0]
    assert min(errors(rows, 3, method)) > 0.05  # type: ignore[type-var]
    assert errors([[0.5], [0.7]], 1, method, inputs="given", repeats=1) == [0.0, 0.0]
    assert errors([[0.5], [0.7]], 1, method) == [None, None]


def test_a_prompt_that_was_seen_in_full_is_exact_beside_one_that_was_not() -> None:
    rows = [[0.5, 0.7, 0.3, 0.9], [0.1, 0.2]]
    full, part = entries(rows, 4, inputs="given", repeats=1)
    assert (full.estimate["a"], full.standard_error["a"]) == (pytest.approx(0.6), 0.0)
    assert (part.standard_error["a"] or 0.0) > 0.02
    goal = BestFeasible("a", {"a": at_least(0.55)})
    selector = Selector(
        ["full", "part"], goal, 1000, "uniform", 4, inputs="given", repeats=1
    )
    for prompt, row in zip(("full", "part"), rows, strict=True):
        for example, score in enumerate(row):
            selector.observe(prompt, score, example=example)
    chances = [entry.p_feasible for entry in selector.result().prompts]
    assert chances[0] == 1.0, "no draw of the others' level moves an exact mean"
    assert 0.0 < (chances[1] or 0.0) < 0.5


@pytest.mark.parametrize("method", ["uniform", "race", "auto"])
@pytest.mark.parametrize("examples", [1, 2, 4])
def test_scores_of_no_given_example_make_no_prompt_exact(
    method: str, examples: int
) -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 9, method, examples=examples)
    for value in (0.1, 0.4, 0.2, 0.3, 0.2):
        selector.observe("x", [value])
    assert (selector.result().prompts[0].standard_error["a"] or 0.0) > 0.0
    for example in range(examples):
        selector.observe("x", [0.25 + 0.01 * example], example)
    assert (selector.result().prompts[0].standard_error["a"] or 0.0) > 0.0
    selector.observe("y", [0.25], 0)
    assert not selector.result().finished_early


def test_the_correction_for_scores_of_no_given_example_by_hand() -> None:
    # All N seen, and u others: the mean's error is that of the u, times their part u /
    # n of the mean.
    selector = Selector(["x"], BestFeasible("a"), 9, "uniform", examples=3)
    for example, value in enumerate((1.0, 2.0, 6.0)):
        selector.observe("x", [value], example)
    assert selector.state.current_tally().standard_errors(3)[0, 0] == 0
    for value in (2.0, 4.0):
        selector.observe("x", [value])
    tally = selector.state.current_tally()
    variance = np.var([1.0, 2.0, 6.0, 2.0, 4.0], ddof=1)
    assert tally.standard_errors(3)[0, 0] == pytest.approx(
        np.sqrt(variance / 2) * 2 / 5
    )
    assert tally.left(3)[0, 0] == pytest.approx(2 / 5)


def test_scores_of_0_and_1_on_which_all_prompts_agree_have_estimates_between_them() -> (
    None
):
    """The mean of the draws was 6, and shown as 1, for prompts that were wrong in 10 of 11 cases."""
    selector = Selector(
        [f"p{i}" for i in range(8)], BestFeasible("right"), 60, "uniform", examples=7
    )
    for arm in range(8):
        selector.observe(arm, 0.0, example=6)
    for arm, example, score in ((1, 5, 1.0), (1, 4, 0.0), (3, 4, 0.0), (4, 4, 0.0)):
        selector.observe(arm, score, example=example)
    result = selector.result()
    for entry in result.prompts:
        assert 0.1 < (entry.estimate["right"] or 0.0) < 0.6
        assert 0.1 < (entry.standard_error["right"] or 0.0) < 0.3
    now = result.verdict.p_best or 0.0
    assert max(each.p_best or 0.0 for each in result.verdict.outlook[:3]) < now + 0.3, (
        "the next may differ"
    )


def test_an_error_is_no_larger_than_what_all_scores_span() -> None:
    goal = ParetoSet("x", "y", subject_to={"y": at_least(0.5)})
    for n in (3, 6):
        selector = Selector(["a", "b", "c"], goal, 30, examples=20)
        play(selector, lambda _: [0.5, 0.7], n=n)
        selector.observe("a", [0.3, 0.2])
        for entry in selector.result().prompts:
            assert 0.0 < (entry.standard_error["x"] or 0.0) <= 0.2 + 1e-12
            assert 0.0 < (entry.standard_error["y"] or 0.0) <= 0.5 + 1e-12
