from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.rounds.schedulers import SequentialHalving

PUBLISHED, ADAPTIVE = SequentialHalving(adaptive=False), SequentialHalving()


def keep(scheduler: SequentialHalving, n_arms: int, budget: int) -> list[int]:
    return [round_.keep for round_ in scheduler.rounds(n_arms, budget)]


@pytest.mark.parametrize(
    ("n_arms", "budget", "kept"),
    [
        (2, 10, [1]),
        (3, 10, [2, 1]),
        (5, 50, [3, 2, 1]),
        (8, 80, [4, 2, 1]),
        (30, 90, [15, 8, 4, 2, 1]),
        (100, 300, [50, 25, 13, 7, 4, 2, 1]),
    ],
)
def test_published_keeps_the_better_half(
    n_arms: int, budget: int, kept: list[int]
) -> None:
    assert keep(PUBLISHED, n_arms, budget) == kept


@pytest.mark.parametrize(
    ("n_arms", "per_arm", "first_round"),
    [(100, 3, 42), (100, 5, 71), (50, 3, 25), (50, 5, 41), (30, 3, 18)],
)
def test_published_rounds_can_be_too_small_for_all_arms(
    n_arms: int, per_arm: int, first_round: int
) -> None:
    pulls = [round_.pulls for round_ in PUBLISHED.rounds(n_arms, n_arms * per_arm)]
    assert pulls[1:] == [first_round] * (len(pulls) - 1)
    assert first_round < n_arms


@pytest.mark.parametrize(
    ("n_arms", "budget", "kept"),
    [
        (100, 300, [22, 5, 1]),
        (100, 500, [40, 16, 7, 3, 1]),
        # 1000 ** (2 / 3) is a little over 100 in floating point
        (1000, 3000, [100, 10, 1]),
        (100, 100, [1]),
        (100, 50, [1]),
        (100, 200, [10, 1]),
    ],
)
def test_adaptive_sees_every_arm_first(
    n_arms: int, budget: int, kept: list[int]
) -> None:
    assert keep(ADAPTIVE, n_arms, budget) == kept


def test_adaptive_is_the_published_schedule_where_that_sees_every_arm() -> None:
    differ = 0
    for n_arms in range(2, 40):
        for budget in range(n_arms, 12 * n_arms + 1):
            if budget // ceil(log2(n_arms)) >= n_arms:
                assert ADAPTIVE.rounds(n_arms, budget) == PUBLISHED.rounds(
                    n_arms, budget
                )
            else:
                differ += keep(ADAPTIVE, n_arms, budget) != keep(
                    PUBLISHED, n_arms, budget
                )
    assert differ > 0


@pytest.mark.parametrize("scheduler", [PUBLISHED, ADAPTIVE])
def test_a_single_arm_needs_no_round(scheduler: SequentialHalving) -> None:
    assert scheduler.rounds(1, 10) == ()


@given(
    n_arms=st.integers(2, 5000), budget=st.integers(0, 10**6), adaptive=st.booleans()
)
def test_spends_the_whole_budget_evenly_with_the_rest_in_round_1(
    n_arms: int, budget: int, adaptive: bool
) -> None:
    first, *others = (
        round_.pulls for round_ in SequentialHalving(adaptive).rounds(n_arms, budget)
    )
    assert first + sum(others) == budget
    assert len(set(others)) <= 1
    assert all(0 <= first - pulls <= len(others) for pulls in others)


@given(n_arms=st.integers(2, 5000), budget=st.integers(0, 10**6))
def test_published_halves_what_is_left(n_arms: int, budget: int) -> None:
    kept = keep(PUBLISHED, n_arms, budget)
    assert kept == [ceil(n / 2) for n in [n_arms, *kept[:-1]]]
    assert kept[-1] == 1


@given(n_arms=st.integers(2, 5000), per_arm=st.floats(1, 30))
def test_adaptive_sees_every_active_arm_in_every_round_and_ends_with_one(
    n_arms: int, per_arm: float
) -> None:
    active = n_arms
    for pulls, kept in ADAPTIVE.rounds(n_arms, ceil(n_arms * per_arm)):
        assert pulls >= active
        assert kept < active
        active = kept
    assert active == 1
