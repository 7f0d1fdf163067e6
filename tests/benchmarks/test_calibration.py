"""Calibration: the counts, by hand."""

import numpy as np

from benchmarks.selection import calibration


def test_statements_are_counted_in_bins() -> None:
    bins = np.array(calibration.binned(np.array([0.0, 0.005, 0.25, 1.0]), np.array([False, True, True, True])))
    assert bins.shape == (len(calibration.EDGES) - 1, 3)
    np.testing.assert_allclose(bins[0], [2, 0.005, 1])
    np.testing.assert_allclose(bins[4], [1, 0.25, 1])
    np.testing.assert_allclose(bins[-1], [1, 1.0, 1])
    assert bins[:, 0].sum() == 4


def test_what_is_off_by_more_than_chance_is_marked() -> None:
    assert calibration._within([[10, 10]] * 4) == "100*"
    assert calibration._within([[20, 19]] * 4) == "95"
    sure = calibration.binned(np.full(50, 0.85), np.ones(50, dtype=bool))
    assert calibration._off([sure] * 9) == "15*"
    fair = [calibration.binned(np.full(2, 0.85), np.array([True, is_true])) for is_true in (True, True, False)]
    assert calibration._off(fair) == "2"
