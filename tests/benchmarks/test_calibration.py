"""The benchmark of what results state."""

import pytest

from benchmarks.selection import calibration


@pytest.mark.parametrize(("goal", "stated"), [("constrained", ["optimal", "feasible"]), ("front", ["optimal"])])
def test_each_prompt_counts_once(goal: str, stated: list[str]) -> None:
    line = calibration.measure(calibration.simulated_table("gaussian", goal, 6, 0, 20), "auto", 4, 0)
    assert [name for name in calibration.PROBABILITIES if name in line] == [*stated, "better"]
    assert all(sum(n for n, _, _ in line[name]) == 6 for name in stated)
