"""The probability that a mean difference is positive: closed forms, symmetry, and what the rest can still change."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asktell.intervals.paired_posterior import p_positive


def test_one_difference_says_a_little_whatever_its_size() -> None:
    effects = np.array([0.06, 0.25, 1, 4])
    expected = 0.5 + np.arctan(effects).mean() / math.pi
    assert p_positive([0.3]) == pytest.approx(expected)
    assert p_positive([1e-9]) == pytest.approx(expected)
    assert p_positive([-5.0]) == pytest.approx(1 - expected)


def test_one_of_two_examples_leaves_the_other_to_be_predicted() -> None:
    # Two normal differences of unknown scale, correlated by their common mean: their ratio is Cauchy.
    effects = np.array([0.06, 0.25, 1, 4])
    correlation = effects**2 / (1 + effects**2)
    slope = (1 + correlation) / np.sqrt(1 - correlation**2)
    assert p_positive([0.3], 2) == pytest.approx(0.5 + np.arctan(slope).mean() / math.pi)


def test_signs_are_counted_by_a_mixture_of_beta_priors() -> None:
    more, fewer = 7, 2
    counts = np.array([30.0, 10.0, 1.0])
    weights = np.exp([stats.betabinom(9, a, a).logpmf(more) for a in counts])
    expected = weights @ stats.beta.sf(0.5, counts + more, counts + fewer) / weights.sum()
    x = np.repeat([1.0, -1.0, 0.0], [more, fewer, 30])
    assert p_positive(x, two_valued=True) == pytest.approx(expected, abs=1e-4)
    assert p_positive(np.repeat([1.0, -1.0], [more, fewer]), two_valued=True) == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), max_size=30), st.sampled_from([None, 30, 300]))
def test_the_two_prompts_probabilities_add_up_to_one(x: list[float], population: int | None) -> None:
    for two_valued in (False, True):
        ahead = p_positive(x, population, two_valued=two_valued)
        behind = p_positive([-v for v in x], population, two_valued=two_valued)
        assert ahead + behind == pytest.approx(1)
        assert 0 <= ahead <= 1


def test_nothing_seen_and_nothing_different_is_a_half() -> None:
    for population in (None, 300):
        assert p_positive([], population) == p_positive([0.0] * 9, population) == 0.5
        assert p_positive([0.0] * 9, population, two_valued=True) == 0.5


def test_all_examples_decide() -> None:
    assert p_positive([0.1, -0.2, 0.2], 3) == 1
    assert p_positive([1, -1, -1, 0], 4, two_valued=True) == 0
    assert p_positive([0.1, 0.2, -0.3], 3) == 0.5  # their sum is 5e-17


def test_the_fewer_are_left_the_surer() -> None:
    rng = np.random.default_rng(0)
    for x, two_valued in ((rng.normal(0.2, 1, 40), False), (np.repeat([1.0, -1.0], [23, 17]), True)):
        sure = [p_positive(x, n, two_valued=two_valued) for n in (None, 10**6, 400, 100, 50, 41)]
        assert sure[0] == pytest.approx(sure[1], abs=1e-3)
        assert np.diff(sure[1:]).min() > 0


def test_equal_differences_are_soon_sure_but_not_at_once() -> None:
    sure = [p_positive([2.0] * n) for n in (1, 2, 3, 5, 10)]
    assert sure == pytest.approx([0.69, 0.89, 0.98, 1.0, 1.0], abs=0.01)
    assert max(p_positive([1.0] * n, two_valued=True) for n in range(1, 6)) < 0.95


@pytest.mark.parametrize("two_valued", [False, True])
def test_stated_probabilities_come_true(two_valued: bool) -> None:
    """Two prompts whose difference is drawn as pools of prompts have it; 300 examples."""
    rng = np.random.default_rng(0)
    stated, true = [], []
    for _ in range(3000):
        if two_valued:
            share = rng.beta(*[rng.choice([1.0, 10.0, 30.0])] * 2)
            disagree = rng.beta(1, 4)
            ps = [disagree * share, disagree * (1 - share), 1 - disagree]
            population = rng.choice([1.0, -1.0, 0.0], 300, p=ps)
        else:
            population = rng.normal(rng.choice([0.06, 0.25, 1.0]) * rng.normal(), 1, 300)
        if population.sum() == 0:
            continue
        n = int(rng.choice([1, 2, 3, 5, 10, 30]))
        stated.append(p_positive(population[:n], 300, two_valued=two_valued))
        true.append(population.sum() > 0)
    p, right = np.array(stated), np.array(true)
    confidence, right = np.maximum(p, 1 - p), np.where(p >= 0.5, right, ~right)
    for low, high in ((0.55, 0.7), (0.7, 0.85), (0.85, 0.95), (0.95, 1.0)):
        group = (confidence >= low) & (confidence < high)
        noise = 3 * math.sqrt(0.25 / group.sum())
        assert group.sum() > 30
        assert right[group].mean() == pytest.approx(confidence[group].mean(), abs=0.03 + min(noise, 0.07))
