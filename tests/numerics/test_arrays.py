"""Helpers of arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asktell.numerics.arrays import distinct, numbered, without


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_distinct_is_the_sorted_set(values: list[int]) -> None:
    assert distinct(np.array(values, dtype=np.int64)).tolist() == sorted(set(values))


# Small numbers are counted, large ones sorted.
@given(st.lists(st.integers(0, 5) | st.integers(0, 2**62), max_size=30))
def test_numbered_values_are_those_of_unique(values: list[int]) -> None:
    given = np.array(values, dtype=np.int64)
    seen, places = numbered(given)
    assert seen.tolist() == sorted(set(values))
    assert seen[places].tolist() == values


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_without_keeps_the_order_of_the_others(
    values: list[int], excluded: list[int]
) -> None:
    given, gone = (np.array(each, dtype=np.int64) for each in (values, excluded))
    assert without(given, gone).tolist() == [v for v in values if v not in excluded]
