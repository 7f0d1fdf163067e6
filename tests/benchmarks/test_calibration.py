"""Calibration and early stops: what is counted, by hand, and whole runs on a small problem."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.selection import calibration, stopping


def test_statements_are_counted_in_bins() -> None:
    bins = np.array(calibration.binned(np.array([0.0, 0.005, 0.25, 1.0]), np.array([False, True, True, True])))
    assert bins.shape == (len(calibration.EDGES) - 1, 3)
    np.testing.assert_allclose(bins[0], [2, 0.005, 1])
    np.testing.assert_allclose(bins[4], [1, 0.25, 1])
    np.testing.assert_allclose(bins[-1], [1, 1.0, 1])
    assert bins[:, 0].sum() == 4


def test_coverage_leaves_out_what_is_known_exactly_or_without_an_error() -> None:
    truth = np.zeros(5)
    assert calibration.coverage(truth, np.array([0.5, 1.5, 3.0, 0.0, 9.0]), np.array([1, 1, 1, 0, np.nan])) == [3, 1, 2]


@pytest.mark.parametrize("goal", calibration.GOALS)
def test_runs_are_measured_tabled_and_drawn(goal: str, tmp_path: Path) -> None:
    lines = [calibration.measure("synthetic/linear-small@8", goal, 3, seed, None) for seed in range(2)]
    assert lines[0] == calibration.measure("synthetic/linear-small@8", goal, 3, 0, None)
    assert sum(row[0] for row in lines[0]["optimal"]) == 8
    assert f"| synthetic | {goal} | 3 | 2 |" in calibration.table(lines)
    calibration.draw(lines, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("goal", calibration.GOALS)
def test_an_early_stop_is_judged_by_the_truth(goal: str) -> None:
    line = stopping.measure("synthetic/linear-small@8", goal, 60, 0.2, 0, None)
    assert line["right"]
    assert line["stopped"] == (goal == "pareto")  # a level takes longer to prove than a difference
    assert (line["spent"] < 1) == line["stopped"]
    assert f"| synthetic | {goal} | 0.2 | 1 | {int(line['stopped'])} | 0 |" in stopping.table([line])
