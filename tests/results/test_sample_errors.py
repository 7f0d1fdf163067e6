"""Errors of sample means: by hand, and whether they hold the truth after few evaluations."""

import math

import numpy as np
import pytest
from scipy import stats

from asktell import BestFeasible, ParetoSet, Selector, at_least, maximize
from asktell.results.summary import student


def errors(
    rows: list[list[float]], population: int | None = 10, goal: BestFeasible | None = None, method: str = "uniform"
) -> list[float | None]:
    """The errors stated of prompts that have these scores, on the same examples."""
    prompts = [f"p{i}" for i in range(len(rows))]
    features = None if method in ("uniform", "auto") else np.arange(len(rows), dtype=float)[:, None]
    selector = Selector(prompts, goal or BestFeasible("a"), 1000, method, population, features)
    for prompt, row in zip(prompts, rows, strict=True):
        for example, score in enumerate(row):
            selector.observe(prompt, [score], example=None if population is None else example)
    return [entry.standard_error["a"] for entry in selector.result().prompts]


@pytest.mark.parametrize("freedom", [2, 3, 5, 10, 100])
def test_few_examples_widen_as_students_distribution_does(freedom: int) -> None:
    assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom) / 1.96, rel=0.04)


def test_a_prompts_variance_is_shrunk_to_that_of_all() -> None:
    # Sums of squares 2 and 8 with 2 degrees of freedom each: 2.5 pooled.
    found = errors([[0.5, 1.5, 2.5], [0.5, 2.5, 4.5]])
    wanted = [math.sqrt((squares + 4 * 2.5) / 6 * (1 - 3 / 10) / 3) * student(2) for squares in (2, 8)]
    assert found == pytest.approx(wanted)


def test_zeros_and_ones_have_the_variance_of_their_share() -> None:
    of_all = (4 * 5 / 8 + 1) / (4 + 2)
    wanted = [math.sqrt(s * (1 - s) * 0.6 / 4) for s in ((4 + 4 * of_all) / 8, (1 + 4 * of_all) / 8)]
    assert errors([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]) == pytest.approx(wanted)


def test_scores_that_agree_so_far_may_differ_yet() -> None:
    (error, _), unseen = errors([[0.5, 0.5], [0.5, 0.5]]), math.sqrt(0.8)
    assert error == pytest.approx(0.5 / math.sqrt(3 * 3) * unseen)
    ranged = BestFeasible(maximize("a", range=(0, 1)))
    assert errors([[0.5, 0.5], [0.5, 0.5]], goal=ranged)[0] == pytest.approx(1 / math.sqrt(3 * 3) * unseen)
    # A fixed cost: nobody scores 0.00008 by chance.
    assert errors([[8e-5] * 3, [8e-5] * 3])[0] == pytest.approx(8e-5 / (4 * 4) * math.sqrt(0.7))


def test_what_was_seen_in_full_is_known_and_a_single_score_supports_nothing() -> None:
    assert errors([[0.5, 0.7], [0.1, 0.2]], population=2) == [0.0, 0.0]
    assert errors([[0.5], [0.7]]) == errors([[1.0], [1.0]]) == [None, None]


@pytest.mark.parametrize("n_scores", [2, 3, 10])
def test_intervals_hold_the_truth_after_few_evaluations(n_scores: int) -> None:
    rng, held = np.random.default_rng(0), []
    for _ in range(150):
        scores = 0.1 * rng.normal(size=(3, 1)) + 0.2 * rng.normal(size=40) + 0.15 * rng.normal(size=(3, 40))
        found = errors(scores[:, :n_scores].tolist(), population=40)
        distance = np.abs(scores[:, :n_scores].mean(axis=1) - scores.mean(axis=1))
        held += (distance <= 1.96 * np.array(found, dtype=float)).tolist()
    assert np.mean(held) > {2: 0.75, 3: 0.88, 10: 0.9}[n_scores]


@pytest.mark.parametrize("method", ["blup-csr", "mlp-csr", "lcsh"])
def test_a_model_is_no_surer_than_what_its_prompts_scored(method: str) -> None:
    rng = np.random.default_rng(3)
    scores = (0.3 * rng.normal(size=8) + 0.05 * rng.normal(size=(6, 8))).tolist()  # the examples matter most
    by_sample, by_model = errors(scores, 40), errors(scores, 40, method=method)
    assert all(x >= y for x, y in zip(by_model, by_sample, strict=True))  # type: ignore[operator]
    assert errors([[0.5], [0.7], [0.1], [0.2]], method=method) == [None] * 4


def test_a_line_that_misses_what_prompts_scored_says_by_how_much() -> None:
    found = errors([[s] * 8 for s in (0.11, 0.97, 0.13, 0.92)], method="lcsh")  # no line in their positions
    assert min(found) > 0.02  # type: ignore[type-var]


def test_a_single_example_supports_no_error_of_a_mean_over_many() -> None:
    assert errors([[0.5], [0.7], [0.1]], method="auto") == [None] * 3
    assert None not in errors([[0.5, 0.3], [0.7, 0.6], [0.1, 0.2]], method="auto")
    assert None not in errors([[0.5], [0.7], [0.1]], population=None, method="auto")
    assert errors([[0.5], [0.7]], population=1, method="auto") == [0.0, 0.0]


@pytest.mark.parametrize("method", ["uniform", "race", "auto"])
@pytest.mark.parametrize("examples", [1, 2, 4])
def test_scores_of_no_given_example_make_no_prompt_known_exactly(method: str, examples: int) -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 9, method, examples=examples)
    for value in (0.1, 0.4, 0.2, 0.3, 0.2):
        selector.observe("x", [value])
    assert selector.result().prompts[0].standard_error["a"] != 0
    for example in range(examples):
        selector.observe("x", [0.25 + 0.01 * example], example)
    if method != "auto":  # a model of the examples knows what it has seen all of
        assert selector.result().prompts[0].standard_error["a"] != 0
    selector.observe("y", [0.25], 0)
    assert not selector.result().finished_early


def test_the_correction_for_scores_of_no_given_example_by_hand() -> None:
    # All N seen, and u others: the mean's error is that of the u, times their part u / n of the mean.
    selector = Selector(["x"], BestFeasible("a"), 9, "uniform", examples=3)
    for example, value in enumerate((1.0, 2.0, 6.0)):
        selector.observe("x", [value], example)
    assert selector.state.current_tally().standard_errors(3)[0, 0] == 0
    for value in (2.0, 4.0):
        selector.observe("x", [value])
    tally = selector.state.current_tally()
    variance = np.var([1.0, 2.0, 6.0, 2.0, 4.0], ddof=1)
    assert tally.standard_errors(3)[0, 0] == pytest.approx(np.sqrt(variance / 2) * 2 / 5)
    assert tally.left(3)[0, 0] == pytest.approx(2 / 5)


def test_scores_that_were_equal_for_each_prompt_may_differ_on_the_next_example() -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 9, "uniform")
    for prompt, value in (("x", 1.0), ("x", 1.0), ("y", 0.3)):
        selector.observe(prompt, [value])
    first, second = (entry.standard_error["a"] for entry in selector.result().prompts)
    assert first == pytest.approx(0.7 / np.sqrt(3 * 3))  # of a spread of 0.7, 2 equal ones, 2 of them of this prompt
    assert second == pytest.approx(0.7 / np.sqrt(3 * 2))


def test_an_error_is_no_larger_than_what_all_scores_span() -> None:
    goal = ParetoSet("x", "y", subject_to={"y": at_least(0.5)})
    for n in (3, 6):
        selector = Selector(["a", "b", "c"], goal, 30, examples=20)
        for _ in range(n):
            trial = selector.ask()
            selector.tell(trial, [0.5, 0.7])
        selector.observe("a", [0.3, 0.2])
        for entry in selector.result().prompts:
            assert 0.0 < (entry.standard_error["x"] or 0.0) <= 0.2 + 1e-12
            assert 0.0 < (entry.standard_error["y"] or 0.0) <= 0.5 + 1e-12
