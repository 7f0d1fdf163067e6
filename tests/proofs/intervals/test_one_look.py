"""Bounds for one look, against tables worked by hand, textbooks and simulated tables."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asktell.proofs.intervals.one_look import OneLook

PAIRED = OneLook((-1.0, 1.0))


def differences(more: int, less: int, n: int) -> np.ndarray:
    """n differences of two 0/1 scores, of which some are 1 and some are -1."""
    return np.repeat([1.0, -1.0, 0.0], [more, less, n - more - less])


@pytest.mark.parametrize(
    ("more", "less", "n", "low", "high"),
    [
        # Tango 1998, tables 2 and 3, and Fagerland et al. 2014, table V (airway
        # hyper-responsiveness: 1 and 7 of 21)
        (7, 1, 21, 0.026, 0.517),
        (0, 0, 20, -(1.96**2) / (20 + 1.96**2), 1.96**2 / (20 + 1.96**2)),
    ],
)
def test_differences_of_binary_scores_have_the_interval_of_tango(
    more: int, less: int, n: int, low: float, high: float
) -> None:
    found = PAIRED.interval(differences(more, less, n), 0.05)
    assert found == pytest.approx((low, high), abs=2e-3)


@pytest.mark.parametrize(("more", "excludes"), [(4, False), (5, True)])
def test_few_differences_exclude_0_only_if_mcnemars_mid_p_does(
    more: int, excludes: bool
) -> None:
    # 4 of 4 in one direction: mid-p 2 (1/16) / 2 = .0625. 5 of 5: .03125
    assert (PAIRED.interval(differences(more, 0, 20), 0.05)[0] > 0) is excludes


def test_graded_scores_have_students_interval() -> None:
    x = np.array([0.11, 0.24, -0.05, 0.32, 0.18, 0.09, 0.27, 0.02])
    expected = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    found = PAIRED.interval(x, 0.05)
    assert found == pytest.approx((expected.low, expected.high))
    assert OneLook().interval(x, 0.05) == pytest.approx(found)


def test_shares_have_the_exact_interval() -> None:
    x = np.repeat([1.0, 0.0], [80, 20])
    expected = stats.binomtest(80, 100).proportion_ci(0.95)
    assert OneLook((0.0, 1.0)).interval(x, 0.05) == pytest.approx(tuple(expected))
    # A share of scores in [-.8, .2], as the slack of "at least .8"
    low, _ = OneLook((-0.8, 0.2)).interval(x - 0.8, 0.05)
    assert low == pytest.approx(expected.low - 0.8)


def test_given_examples_are_known_exactly_when_all_were_seen() -> None:
    x = np.array([0.2, 0.4, 0.1, 0.5])
    assert OneLook((-1.0, 1.0), 4).interval(x, 0.05) == pytest.approx((0.3, 0.3))
    part = OneLook((-1.0, 1.0), 8).interval(x, 0.05)
    whole = PAIRED.interval(x, 0.05)
    assert whole[0] < part[0] < 0.3 < part[1] < whole[1]


def test_equal_prompts_seldom_differ_on_a_part_of_few_given_examples() -> None:
    for population, n, half in ((6, 4, 2), (8, 5, 2), (10, 9, 5), (20, 18, 5)):
        table = differences(half, half, population).tolist()
        bounds = OneLook((-1.0, 1.0), population)
        intervals = [
            bounds.interval(np.array(seen), 0.05)
            for seen in itertools.combinations(table, n)
        ]
        # All parts. Few unseen examples have few values: at most 10%
        assert np.mean([low > 0.0 or high < 0.0 for low, high in intervals]) <= 0.1
    # What the unseen examples cannot change is certain, however few are seen.
    for population, more, less in ((4, 3, 0), (50, 2, 0), (50, 26, 23)):
        x = differences(more, less, population - 1)
        assert OneLook((-1.0, 1.0), population).interval(x, 0.05)[0] > 0.0


def test_equal_observations_bound_nothing_without_a_range() -> None:
    x = np.full(9, 0.3)
    assert OneLook().interval(x, 0.05) == (-math.inf, math.inf)
    low, high = OneLook((-1.0, 1.0)).interval(x, 0.05)
    assert -1.0 < low < 0.3 < high <= 1.0
    assert OneLook().interval(x[:0], 0.05) == (-math.inf, math.inf)


@given(
    x=st.lists(
        st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1.0, 1.0)),
        min_size=1,
        max_size=30,
    ),
    shuffle=st.randoms(use_true_random=False),
    error=st.sampled_from([0.01, 0.05, 0.2]),
)
def test_an_interval_holds_its_mean_and_ignores_the_order(
    x: list[float], shuffle: object, error: float
) -> None:
    low, high = PAIRED.interval(np.array(x), error)
    mean = sum(x) / len(x)
    assert -1.0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1.0
    shuffled = list(x)
    shuffle.shuffle(shuffled)  # type: ignore[attr-defined]
    assert PAIRED.interval(np.array(shuffled), error) == (low, high)
    mirrored = PAIRED.interval(-np.array(x), error)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


def _worlds(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Differences of two equally good prompts on n examples."""
    level = rng.beta(0.6, 0.6, n)
    if kind == "binary":
        return (rng.random(n) < level).astype(float) - (rng.random(n) < level)
    noise = rng.normal(0.0, 0.5, (2, n))
    scores = np.clip(level + noise, 0.0, 1.0)
    return np.subtract(*(np.round(scores * 4) / 4 if kind == "piled" else scores))


@pytest.mark.parametrize("kind", ["binary", "graded", "piled"])
@pytest.mark.parametrize("n", [8, 20, 60])
def test_equal_prompts_differ_in_at_most_5_percent_of_the_tables(
    kind: str, n: int
) -> None:
    rng = np.random.default_rng(7)
    intervals = [PAIRED.interval(_worlds(kind, n, rng), 0.05) for _ in range(600)]
    false = sum(low > 0.0 or high < 0.0 for low, high in intervals)
    # 600 tables at 5%: 30 expected, standard error 5.3
    assert false <= 30 + 3 * 5.3
