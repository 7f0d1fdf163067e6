import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.numerics import counters

MASK = 2**64 - 1


def splitmix(seed: int, purpose: str, *numbers: int) -> int:
    """The same bits in Python's own whole numbers."""

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    state = mix(
        (mix((seed + golden) & MASK) + zlib.crc32(purpose.encode()) * golden) & MASK
    )
    for number in numbers:
        state = mix((state + (number + 1) * golden) & MASK)
    return state


def test_these_bits_never_change() -> None:
    assert counters.bits(0, "a", 0).tolist() == [13818608530767865065]
    assert counters.bits(1, "example order", [0, 1, 2]).tolist() == [
        4977823434687944333, 2853319010410871815, 16483620047791051277,
    ]  # fmt: skip
    assert counters.bits(2**64 - 1, "ties", 3, [4, 5]).tolist() == [
        6290604298465843468,
        10244994928895746966,
    ]
    assert counters.integers(7, "example", 1000, [0, 1, 2, 3], 5).tolist() == [
        88,
        679,
        278,
        595,
    ]
    assert counters.permutation(0, "example order", 8).tolist() == [
        7,
        1,
        6,
        3,
        4,
        0,
        5,
        2,
    ]
    assert counters.permutation(3, "ties", 5, 2).tolist() == [0, 1, 2, 4, 3]
    assert counters.permutation(123456789, "example order", 12).tolist() == [
        8,
        7,
        1,
        10,
        11,
        6,
        0,
        9,
        4,
        3,
        2,
        5,
    ]


def test_this_order_among_equals_never_changes() -> None:
    assert [counters.chance_order(seed, range(6)).tolist() for seed in range(4)] == [
        [3, 2, 4, 1, 0, 5], [0, 5, 1, 3, 2, 4], [4, 0, 1, 5, 3, 2], [4, 1, 2, 5, 3, 0],
    ]  # fmt: skip


@given(st.integers(0, MASK), st.sets(st.integers(0, 100)), st.sets(st.integers(0, 100)))
def test_two_keep_their_order_among_equals_whoever_else_is_there(
    seed: int, some: set[int], more: set[int]
) -> None:
    few, all_ = (
        np.array(sorted(some), dtype=int),
        np.array(sorted(some | more), dtype=int),
    )
    order = all_[counters.chance_order(seed, all_)]
    assert (
        few[counters.chance_order(seed, few)].tolist()
        == order[np.isin(order, few)].tolist()
    )


@given(
    st.integers(0, MASK),
    st.text(max_size=8),
    st.lists(st.integers(0, 2**63 - 1), max_size=3),
)
def test_bits_are_those_of_whole_number_arithmetic(
    seed: int, purpose: str, numbers: list[int]
) -> None:
    assert counters.bits(seed, purpose, *numbers).tolist() == [
        splitmix(seed, purpose, *numbers)
    ]


@given(st.integers(0, MASK), st.lists(st.integers(0, 10**6), min_size=1, max_size=9))
def test_many_counters_at_once_are_the_same_as_one_by_one(
    seed: int, numbers: list[int]
) -> None:
    at_once = counters.bits(seed, "x", 3, numbers).tolist()
    assert at_once == [counters.bits(seed, "x", 3, n)[0] for n in numbers]


@given(st.integers(0, MASK), st.integers(1, 2**31 - 1), st.integers(0, 10**6))
def test_integers_are_in_range(seed: int, high: int, counter: int) -> None:
    assert 0 <= counters.integers(seed, "x", high, counter)[0] < high


@given(st.integers(0, MASK), st.integers(0, 60))
def test_a_permutation_has_every_number_once(seed: int, n: int) -> None:
    assert sorted(counters.permutation(seed, "x", n).tolist()) == list(range(n))


@pytest.mark.parametrize("high", [2, 7, 100])
def test_integers_are_uniform_and_neighbouring_counters_independent(high: int) -> None:
    n = 100_000
    drawn = counters.integers(42, "x", high, np.arange(n))
    expected = n / high
    chi2 = ((np.bincount(drawn, minlength=high) - expected) ** 2 / expected).sum()
    assert chi2 < high + 5 * np.sqrt(2 * high)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(n)


def test_every_permutation_of_four_is_as_frequent() -> None:
    orders = [
        tuple(counters.permutation(seed, "x", 4).tolist()) for seed in range(12_000)
    ]
    seen = {order: orders.count(order) for order in set(orders)}
    assert len(seen) == 24
    assert all(abs(count - 500) < 5 * np.sqrt(500) for count in seen.values())


def test_seeds_and_purposes_are_independent() -> None:
    numbers = np.arange(10_000)
    streams = [
        counters.integers(s, p, 1000, numbers)
        for s, p in [(0, "a"), (1, "a"), (0, "b"), (2**63, "a")]
    ]
    for i, left in enumerate(streams):
        for right in streams[:i]:
            assert abs(np.corrcoef(left, right)[0, 1]) < 0.05
