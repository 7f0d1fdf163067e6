"""The benchmark of what a decision takes runs, for every goal."""

import sys

import pytest

from benchmarks.speed import decisions


def test_every_goal_is_timed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["decisions", "--arms", "12", "--repetitions", "1"])
    decisions.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        ["12", goal, spent] for goal in ("BestFeasible", "ParetoSet") for spent in ("12", "24")
    ]
