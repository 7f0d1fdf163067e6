"""Bounds by betting: exact where they can be, right at every look, and no wider than they must be."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.proofs.intervals.betting import Betting

Floats = npt.NDArray[np.float64]


def shuffled(population: Floats, runs: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).permuted(np.tile(population, (runs, 1)), axis=1)


def values(n: int, **counts: int) -> Floats:
    """As `values(10, plus=3, minus=1)`: 1, 1, 1, -1, and 0 for the rest."""
    rest = n - sum(counts.values())
    return np.repeat(
        [1.0, -1.0, 0.0], [counts.get("plus", 0), counts.get("minus", 0), rest]
    )


def test_the_first_bet_is_sized_by_the_prior_spread_for_each_horizon() -> None:
    # 16, 64 and 256 observations, a variance of .05, and at most .95 lost if the
    # observation is 0.
    stakes = [
        min(math.sqrt(8 / (0.05 * horizon)), 0.95 / 0.5) for horizon in (16, 64, 256)
    ]
    expected = math.log(np.mean([1 + stake * (1 - 0.5) for stake in stakes]))
    assert Betting(0, 1, 200).log_capital(np.array([1.0]), 0.5)[0] == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    "population", [[0, 0, 1, 1, 1, 0], [0.2, 0.9, 0.9, 0.3, 1, 0], [-1, 0, 0, 1, 1, 0]]
)
def test_bets_against_the_truth_are_fair_over_all_orders(
    population: list[float],
) -> None:
    orders = np.array(list(itertools.permutations(population)))
    betting = Betting(-1, 1, len(population))
    capital = np.exp(betting.log_capital(orders, np.mean(population)))
    assert capital.mean(axis=0) == pytest.approx(np.ones(len(population)))
    assert (
        np.exp(betting.log_capital(orders, np.mean(population) + 0.1)).mean(axis=0) < 1
    ).all()


def test_independent_bets_against_the_truth_are_fair() -> None:
    draws = np.array(list(itertools.product([0.0, 0.5, 1.0], repeat=6)))
    assert np.exp(Betting(0, 1).log_capital(draws, 0.5)).mean(axis=0) == pytest.approx(
        np.ones(6)
    )


@given(st.lists(st.integers(-10, 10), min_size=1, max_size=30), st.integers(0, 30))
def test_bounds_never_widen_hold_what_is_certain_and_are_exact_in_the_end(
    scores: list[int], n: int
) -> None:
    x = np.array(scores) / 10
    betting, n = Betting(-1, 1, len(x)), min(n, len(x))
    earlier, later = (
        betting.interval(x[: max(0, n - 1)], 0.05),
        betting.interval(x[:n], 0.05),
    )
    certain, end = betting.certain(x[:n]), betting.interval(x, 0.05)
    assert end.low == end.high == pytest.approx(x.mean())
    assert -1 <= certain.low <= later.low <= later.high <= certain.high <= 1
    assert later.low >= earlier.low - 1e-6 or later.low == certain.low
    assert later.high <= earlier.high + 1e-6 or later.high == certain.high


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([None, 40, 300]), st.integers(0, 40))
def test_many_sequences_at_once_are_as_each_by_itself(
    seed: int, population: int | None, n: int
) -> None:
    x = np.random.default_rng(seed).choice([0.0, 0.3, 1.0], (2, 3, n))
    betting = Betting(0, 1, population)
    together = betting.interval(x, 0.1)
    for place in np.ndindex(2, 3):
        alone = betting.interval(x[place], 0.1)
        assert (alone.low, alone.high) == (together.low[place], together.high[place])


def test_the_two_sides_mirror_each_other() -> None:
    x = shuffled(values(100, plus=30, minus=10), 20)[:, :60]
    betting = Betting(-1, 1, 100)
    low, high = betting.interval(x, 0.05)
    mirrored_low, mirrored_high = betting.interval(-x, 0.05)
    assert (low == -mirrored_high).all()
    assert (high == -mirrored_low).all()


POPULATIONS = {
    "all equal": (-1, 1, values(50)),
    "rare": (0, 1, values(300, plus=1)),
    "rare, the other way": (0, 1, 1 - values(300, plus=1)),
    "rare difference": (-1, 1, values(1000, plus=3)),
    "0 and 1, few": (0, 1, values(20, plus=3)),
    "0 and 1, half": (0, 1, values(200, plus=100)),
    "equal prompts": (-1, 1, values(300, plus=30, minus=30)),
    "different prompts": (-1, 1, values(300, plus=45, minus=15)),
    "skewed": (0, 1, np.random.default_rng(1).beta(0.05, 1.0, 300)),
    "clipped": (-1, 1, np.clip(np.random.default_rng(2).normal(0.02, 0.4, 300), -1, 1)),
    "narrow": (-1, 1, np.random.default_rng(3).normal(0.02, 0.001, 100)),
    "at both ends": (0, 1, np.random.default_rng(4).beta(0.02, 0.02, 1000)),
}


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("replaced", [False, True])
def test_the_truth_is_excluded_at_no_look_more_often_than_stated(
    name: str, replaced: bool
) -> None:
    low, high, population = POPULATIONS[name]
    runs = 250
    x = shuffled(population, runs)
    if replaced:
        x = np.random.default_rng(5).choice(population, x.shape)
    n = None if replaced else len(population)
    truth = population.mean()
    above = Betting(low, high, n).log_capital(x, truth).max(axis=1) >= math.log(2 / 0.1)
    below = Betting(-high, -low, n).log_capital(-x, -truth).max(axis=1) >= math.log(
        2 / 0.1
    )
    assert (above | below).mean() <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / runs)
    if n is not None:
        right = np.zeros(50, dtype=bool)
        for seen in (1, len(population) // 3, len(population) - 1):
            interval = Betting(low, high, n).interval(x[:50, :seen], 0.1)
            right = (interval.low <= truth + 1e-9) & (truth <= interval.high + 1e-9)
            assert (right | (above | below)[:50]).all()


def test_two_prompts_with_a_difference_of_a_tenth_need_well_under_half_of_300_examples() -> (
    None
):
    betting = Betting(-1, 1, 300)
    rng = np.random.default_rng(0)
    smooth = rng.normal(0, 0.2, 300)
    kinds = {
        "0/1, 20 % disagree": (values(300, plus=45, minus=15), 115),
        "0/1, 30 % disagree": (values(300, plus=60, minus=30), 145),
        "smooth": (np.clip(smooth - smooth.mean() + 0.1, -1, 1), 60),
    }
    for name, (population, most) in kinds.items():
        better = betting.log_capital(shuffled(population, 300), 0.0) >= math.log(40)
        assert (
            np.where(better.any(axis=1), better.argmax(axis=1) + 1, 300).mean() < most
        ), name


def test_what_never_occurred_is_rarer_than_by_the_rule_of_three_at_that_level() -> None:
    # An independent event of probability p is missing n times with probability (1 -
    # p)**n.
    exact = 1 - 0.025 ** (1 / 100)
    assert exact < Betting(0, 1).upper(np.zeros(100), 0.025) < 1.2 * exact


def test_bounds_of_which_one_must_be_wrong_fall_back_on_what_is_certain() -> None:
    # 20 ones and then zeros are in no random order: every mean is refuted on the way.
    x = np.repeat([1.0, 0.0], [20, 1980])
    betting = Betting(0, 1, 4000)
    assert betting.lower(x, 0.025) > betting.upper(x, 0.025)
    assert betting.interval(x, 0.05) == betting.certain(x) == (0.005, 0.505)
