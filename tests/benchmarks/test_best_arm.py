"""How few evaluations find the best model: confidence budgets by hand, and a run on a table of our own."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.results import tables
from benchmarks.selection.best_arm import (
    Task,
    by_budget,
    confidence_budget,
    confidence_budgets,
    differences,
    drawn,
    keep,
    kept,
    main,
    run,
)


@pytest.mark.parametrize(
    ("level", "part"), [(0.7, 0.1), (0.9, 0.5), (0.95, 0.5), (0.99, None)]
)
def test_a_confidence_budget_is_where_the_level_is_kept(
    level: float, part: float | None
) -> None:
    # .72 at .02 does not count: the share is lower at .05
    shares = {0.01: 0.3, 0.02: 0.72, 0.05: 0.65, 0.1: 0.8, 0.2: 0.85, 0.5: 0.96}
    assert confidence_budget(shares, level) == part


def test_the_tables_of_two_methods() -> None:
    # Regret, best, near, loss_95 holds: (tables, seeds, 4)
    low = np.array([[[0.5, 0.0, 1.0, np.nan], [0.5, 0.0, 0.0, np.nan]]])
    high = np.array([[[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]])
    outcomes = {("a", 0.1): low, ("a", 0.5): high, ("b", 0.1): low, ("b", 0.5): low}
    (rows,) = tables(by_budget(outcomes))
    assert rows[1] == ["0.1", "a", "0.500", "0.000", "0.000", "0.000", "0.500", "0.980"]
    assert [row[:2] for row in rows[1:]] == [
        [x, y] for x in ("0.1", "0.5") for y in "ab"
    ]
    (rows,) = tables(confidence_budgets(outcomes))
    assert rows[1] == ["best", "a", "50%", "50%", "50%", "50%", "50%"]
    assert rows[4] == ["near", "b", "50%", "never", "never", "never", "never"]


def test_a_model_far_ahead_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = np.append(np.full(9, 0.3), 0.9)
    scores = (rng.random((10, 200)) < means[:, None]).astype(np.int8)
    (tmp_path / "sysrs").mkdir()
    np.savez(tmp_path / "sysrs" / "own.npz", scores=scores)
    for method in ("auto", "sysrs"):
        measured = run(Task("sysrs/own", method, 400, 0), tmp_path)
        assert measured[:3] == (0.0, 1.0, 1.0)
        assert measured[3] == 1.0 or method == "sysrs"


def test_a_prompt_far_ahead_in_a_world_is_found() -> None:
    """The world of a seed is the same for each method."""
    assert np.array_equal(drawn("far ahead", 8, 1)[1], drawn("far ahead", 8, 1)[1])
    name = "far ahead, gaussian:8"
    assert run(Task(name, "auto", 160, 3), None) == (0.0, 1.0, 1.0, 1.0)
    assert run(Task(name, "sysrs", 160, 3), None)[:3] == (0.0, 1.0, 1.0)
    means = drawn("far ahead", 8, 3)[1]
    assert means.max() - np.sort(means)[-2] > 0.1


def test_differences_to_runs_that_were_kept_are_paired(tmp_path: Path) -> None:
    before = {("auto", 2.0): np.array([[[0.5, 0.0, 0.0, 1.0], [1.5, 0.0, 0.0, 0.0]]])}
    after = {("auto", 2.0): before["auto", 2.0] - 0.25}
    keep(before, ["w:3"], tmp_path / "runs.json")
    earlier = kept(["w:3"], 2, tmp_path / "runs.json")
    (rows,) = tables(differences(after, earlier, ["w:3"]))
    assert rows[1] == ["w:3", "2", "auto", *["-0.250 ± 0.000"] * 4]
    with pytest.raises(SystemExit, match="has runs on"):
        kept(["w:4"], 2, tmp_path / "runs.json")
    with pytest.raises(SystemExit, match=r"of \{2\} seeds"):
        kept(["w:3"], 5, tmp_path / "runs.json")
    with pytest.raises(SystemExit, match="cannot read"):
        kept(["w:3"], 2, tmp_path / "none.json")


@pytest.mark.parametrize(
    "name", ["far ahead", "far ahead:", "far ahead:1", "far ahed:9", "rare errors:9"]
)
def test_a_world_that_is_none_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["best_arm", "--worlds", name])
    with pytest.raises(SystemExit):
        main()
    assert name.rpartition(":")[0] in capsys.readouterr().err
