"""Numbers that are equal but for rounding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asktell.numerics.arrays import decimal
from asktell.proofs.bounds import mostly_equal
from asktell.results.difference import wins_and_losses


def test_differences_of_decimal_fractions_are_one_number() -> None:
    low = np.array([0.1, 0.3, 0.5, 0.7])
    assert len(np.unique(low + 0.2 - low)) > 1
    assert decimal(low + 0.2 - low, 1.0).tolist() == [0.2] * 4
    assert decimal(np.array([1e-9, -0.0]), 1.0).tolist() == [1e-9, 0.0]
    assert decimal(np.array([1e-300, 3e-300]), 3e-300).tolist() == [1e-300, 3e-300]


@given(st.lists(st.integers(0, 3), max_size=9))
def test_half_of_a_row_or_more_are_one_number(row: list[int]) -> None:
    most = max((row.count(x) for x in row), default=0)
    assert (
        mostly_equal(np.array([row, row], dtype=float)).tolist()
        == [bool(row) and 2 * most >= len(row)] * 2
    )


def test_means_that_are_equal_but_for_rounding_tie() -> None:
    a = np.array([(0.1 + 0.2 + 0.3) / 3, 0.2, 1.0, 0.5])
    b = np.array([(0.3 + 0.2 + 0.1) / 3, 0.2 + 1e-9, 0.0, 0.5])
    assert a[0] != b[0]
    assert wins_and_losses(a, b, minimize=False).tolist() == [0, -1, 1, 0]
    assert wins_and_losses(a, b, minimize=True).tolist() == [0, 1, -1, 0]
    assert wins_and_losses(a[:0], b[:0], minimize=True).tolist() == []
