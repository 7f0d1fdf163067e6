import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.rounds.allocators import PullsToShare, Uniform

PLENTY = 10**9


def allocate(
    n_pulls: int,
    pulled: list[int],
    capacity: list[int] | None = None,
    priority: list[int] | None = None,
) -> list[int]:
    n = len(pulled)
    pulls = PullsToShare(
        n_pulls,
        np.array(pulled),
        np.array([PLENTY] * n if capacity is None else capacity),
        np.array(range(n) if priority is None else priority),
    )
    return Uniform().allocate(pulls).tolist()


@pytest.mark.parametrize(
    ("n_pulls", "pulled", "capacity", "priority", "counts"),
    [
        (6, [0, 0, 0], None, None, [2, 2, 2]),
        (0, [0, 0, 0], None, None, [0, 0, 0]),
        (7, [5, 4, 5], None, None, [2, 3, 2]),  # the remainder to the arm pulled least
        (8, [5, 4, 5], None, [1, 2, 0], [2, 3, 3]),  # ties in the given order
        (2, [0, 0, 0], None, [2, 1, 0], [0, 1, 1]),  # fewer pulls than arms
        # What one arm cannot take is shared among the others
        (9, [0, 0, 0], [1, 9, 9], None, [1, 4, 4]),
        (9, [0, 0, 0], [1, 0, 2], None, [1, 0, 2]),  # nobody can take more
        (5, [3], None, None, [5]),
    ],
)
def test_shares_evenly(
    n_pulls: int,
    pulled: list[int],
    capacity: list[int] | None,
    priority: list[int] | None,
    counts: list[int],
) -> None:
    assert allocate(n_pulls, pulled, capacity, priority) == counts


@given(data=st.data(), n_pulls=st.integers(0, 200), n_arms=st.integers(1, 12))
def test_spends_all_it_can_and_stays_balanced(
    data: st.DataObject, n_pulls: int, n_arms: int
) -> None:
    pulled = data.draw(st.lists(st.integers(0, 9), min_size=n_arms, max_size=n_arms))
    capacity = data.draw(st.lists(st.integers(0, 30), min_size=n_arms, max_size=n_arms))
    priority = data.draw(st.permutations(range(n_arms)))
    counts = allocate(n_pulls, pulled, capacity, priority)
    assert sum(counts) == min(n_pulls, sum(capacity))
    assert all(0 <= count <= room for count, room in zip(counts, capacity, strict=True))
    # Whoever still has room has at most one pull less than anybody else.
    for count, room in zip(counts, capacity, strict=True):
        if count < room:
            assert max(counts) - count <= 1
    open_ = [i for i in range(n_arms) if counts[i] < capacity[i]]
    for i in open_:
        for j in range(n_arms):
            # J got a pull of the remainder that i did not get
            if counts[j] == counts[i] + 1:
                assert (pulled[j], priority[j]) < (pulled[i], priority[i])


def test_does_not_change_what_it_was_given() -> None:
    pulled, capacity, priority = np.array([1, 0]), np.array([2, 2]), np.array([0, 1])
    Uniform().allocate(PullsToShare(3, pulled, capacity, priority))
    assert (pulled.tolist(), capacity.tolist(), priority.tolist()) == (
        [1, 0],
        [2, 2],
        [0, 1],
    )
