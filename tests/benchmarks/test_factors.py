"""The benchmark of factors: its grids, and a run from begin to end."""

import pytest

from benchmarks.results import tables
from benchmarks.selection import factors


def test_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASKTELL_TABLES", raising=False)
    factors.main(["--seeds", "2", "--levels", "4x4x8", "--budgets", "0.5"])
    ((header, *rows),) = tables(capsys.readouterr().out)
    assert header == [
        "problem",
        "b",
        "seeds",
        "with factors",
        "without",
        "difference (se)",
    ]
    assert [row[0] for row in rows] == [
        "4 x 4 x 8: factors 80 %, pairs 0 %",
        "4 x 4 x 8: factors 60 %, pairs 30 %",
        "4 x 4 x 8: factors 0 %, pairs 0 %",
    ]
    assert all(0.0 < float(row[3]) <= 1.0 for row in rows)
