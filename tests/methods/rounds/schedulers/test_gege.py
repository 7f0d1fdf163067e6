"""GEGE's schedule counts dimensions."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import asktell
from asktell.methods.rounds.allocators import Uniform
from asktell.methods.rounds.estimators import SampleMean
from asktell.methods.rounds.rules import ParetoGap
from asktell.methods.rounds.schedulers import GEGEHalving


@pytest.mark.parametrize(
    ("n_arms", "budget", "rank", "rounds"),
    [
        (100, 1000, 8, [(334, 4), (333, 2), (333, 1)]),
        (100, 1000, 10, [(250, 5), (250, 3), (250, 2), (250, 1)]),
        (100, 11, 1, [(11, 1)]),
        (3, 100, 16, [(25, 3), (25, 3), (25, 2), (25, 1)]),
        (1, 100, 4, []),
    ],
)
def test_golden(
    n_arms: int, budget: int, rank: int, rounds: list[tuple[int, int]]
) -> None:
    assert GEGEHalving().rounds(n_arms, budget, rank) == tuple(rounds)


@given(
    n_arms=st.integers(2, 500), budget=st.integers(0, 10**6), rank=st.integers(0, 100)
)
def test_spends_the_budget_and_ends_with_one_arm(
    n_arms: int, budget: int, rank: int
) -> None:
    rounds = GEGEHalving().rounds(n_arms, budget, rank)
    assert sum(r.pulls for r in rounds) == budget
    assert rounds[-1].keep == 1
    assert all(later.keep <= r.keep for r, later in itertools.pairwise(rounds))


def test_needs_features() -> None:
    method = asktell.Elimination(GEGEHalving(), Uniform(), SampleMean(), ParetoGap())
    with pytest.raises(
        asktell.IncompatibleMethodError, match="GEGEHalving needs features"
    ):
        asktell.Selector(["a", "b"], asktell.ParetoSet("x", "y"), 10, method)
