"""The tables of intervals."""

import numpy as np
import pytest

from benchmarks.selection import intervals


def test_every_table_is_made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(intervals, "SIZES", (60,))
    monkeypatch.setattr(intervals, "DIFFERENCES", (0.2,))
    monkeypatch.setattr("sys.argv", ["intervals", "--runs", "4", "--pairs", "4"])
    intervals.main()
    printed = capsys.readouterr().out
    assert printed.count("\n|---|") == 4
    assert "| 60 | 0.2 | 0/1, 20 % disagree |" in printed


def test_populations_have_the_difference_they_are_named_for() -> None:
    assert intervals.signs(300, 0.2, 0.1).mean() == pytest.approx(0.1)
    assert np.count_nonzero(intervals.signs(300, 0.2, 0.1)) == 60
    assert intervals.smooth(300, 0.15, 0.05).mean() == pytest.approx(0.05, abs=1e-3)
