from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.rounds.schedulers import SuccessiveRejects

PUBLISHED, TIGHT = SuccessiveRejects(tight=False), SuccessiveRejects()
GRID = [(k, b) for k in range(2, 40) for b in range(k, 12 * k + 1)]


def total(n: list[int]) -> int:
    """The pulls of all phases: the last two arms both have n_{K-1}."""
    return sum(n) + n[-1]


@pytest.mark.parametrize(
    ("n_arms", "budget", "n", "spent"),
    [
        (5, 50, [6, 7, 9, 13], 48),
        (10, 100, [4, 5, 5, 6, 7, 8, 10, 13, 19], 96),
        (2, 10, [4], 8),
        (10, 11, [1] * 9, 10),
        (10, 10, [0] * 9, 0),
    ],
)
def test_published_pulls_per_arm(
    n_arms: int, budget: int, n: list[int], spent: int
) -> None:
    assert PUBLISHED.pulls_per_arm(n_arms, budget) == n
    assert sum(round_.pulls for round_ in PUBLISHED.rounds(n_arms, budget)) == spent


def test_published_leaves_18_percent_of_300_pulls_on_100_arms_unspent() -> None:
    n = PUBLISHED.pulls_per_arm(100, 300)
    assert n[:3] == [1, 1, 1]
    assert n[98] == 22
    assert total(n) == 247


def test_published_is_the_exact_ceiling_on_the_grid() -> None:
    logbars = {
        k: Fraction(1, 2) + sum(Fraction(1, i) for i in range(2, k + 1))
        for k in range(2, 40)
    }
    for n_arms, budget in GRID:
        logbar = logbars[n_arms]
        exact = [
            ceil((budget - n_arms) / (logbar * (n_arms + 1 - k)))
            for k in range(1, n_arms)
        ]
        assert PUBLISHED.pulls_per_arm(n_arms, budget) == exact, (n_arms, budget)


@pytest.mark.parametrize("budget", [300, 1000])
def test_tight_spends_everything_on_100_arms(budget: int) -> None:
    assert sum(round_.pulls for round_ in TIGHT.rounds(100, budget)) == budget


@pytest.mark.parametrize("n_arms", range(2, 40))
def test_tight_pulls_every_arm_once_when_there_is_one_pull_per_arm(n_arms: int) -> None:
    assert TIGHT.pulls_per_arm(n_arms, n_arms) == [1] * (n_arms - 1)


def test_tight_takes_the_largest_c_that_fits() -> None:
    for n_arms, budget in [
        (2, 2),
        (2, 9),
        (3, 7),
        (5, 50),
        (10, 100),
        (17, 40),
        (30, 90),
    ]:
        sizes = range(n_arms, 1, -1)
        fitting = [
            n
            for c in range(budget + 1)
            if total(n := [ceil(c / size) for size in sizes]) <= budget
        ]
        assert TIGHT.pulls_per_arm(n_arms, budget) == fitting[-1]


def test_neither_overspends_and_tight_pulls_at_least_the_published_on_the_grid() -> (
    None
):
    for n_arms, budget in GRID:
        tight, published = (
            TIGHT.pulls_per_arm(n_arms, budget),
            PUBLISHED.pulls_per_arm(n_arms, budget),
        )
        assert total(published) <= budget
        assert total(tight) <= budget
        assert all(t >= p for t, p in zip(tight, published, strict=True)), (
            n_arms,
            budget,
        )
        assert min(tight) >= 1


def test_tight_leaves_a_few_pulls_at_most_on_the_grid() -> None:
    left = {(k, b): b - total(TIGHT.pulls_per_arm(k, b)) for k, b in GRID}
    assert max(left.values()) <= 10
    assert max(v for (k, b), v in left.items() if b == k) == 0


@given(n_arms=st.integers(1, 300), budget=st.integers(0, 10**6), tight=st.booleans())
def test_rounds_are_the_phases(n_arms: int, budget: int, tight: bool) -> None:
    scheduler = SuccessiveRejects(tight)
    n = scheduler.pulls_per_arm(n_arms, budget)
    rounds = scheduler.rounds(n_arms, budget)
    assert len(rounds) == n_arms - 1
    assert [round_.keep for round_ in rounds] == list(range(n_arms - 1, 0, -1))
    assert n == sorted(n)
    per_arm = 0
    for size, round_, n_k in zip(range(n_arms, 1, -1), rounds, n, strict=True):
        new, rest = divmod(round_.pulls, size)
        per_arm += new
        assert (rest, per_arm) == (0, n_k)
    if tight or budget >= n_arms:
        assert sum(round_.pulls for round_ in rounds) <= budget


@given(n_arms=st.integers(2, 300), budget=st.integers(0, 10**6))
def test_tight_is_monotone_in_the_budget(n_arms: int, budget: int) -> None:
    less, more = (
        TIGHT.pulls_per_arm(n_arms, budget),
        TIGHT.pulls_per_arm(n_arms, budget + 1),
    )
    assert all(a <= b for a, b in zip(less, more, strict=True))
