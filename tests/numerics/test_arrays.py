"""Helpers of arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asktell.numerics.arrays import distinct


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_distinct_is_the_sorted_set(values: list[int]) -> None:
    assert distinct(np.array(values, dtype=np.int64)).tolist() == sorted(set(values))
