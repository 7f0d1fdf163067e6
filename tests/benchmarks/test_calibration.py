"""The benchmark of what results state."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.selection import calibration


@pytest.mark.parametrize("inputs", ["new", "given"])
@pytest.mark.parametrize(
    ("goal", "stated"),
    [("constrained", ["optimal", "feasible"]), ("front", ["optimal"])],
)
def test_each_prompt_counts_once(goal: str, stated: list[str], inputs: str) -> None:
    line = calibration.measure(
        calibration.simulated_table("gaussian", goal, 6, 0, 20), "auto", 4, 0, inputs
    )
    assert [name for name in calibration.PROBABILITIES if name in line] == [
        *stated,
        "better",
    ]
    assert all(sum(n for n, _, _ in line[name]) == 6 for name in stated)
    assert line["estimates"][0] == 6 * 2
    assert line["compare"][0] == 6 * 2  # six pairs


def test_statements_are_held_against_the_means_that_they_are_about() -> None:
    """Once all given examples are seen, their means are certain, and those of new examples are not."""
    table = calibration.simulated_table("gaussian", "constrained", 4, 0, 20)
    given = calibration.measure(table, "uniform", 20, 0, "given")
    assert given["estimates"] == [8, 8]
    for name in ("optimal", "feasible"):
        certain = [(stated, true) for n, stated, true in given[name] if n]
        assert all(stated == true for stated, true in certain), name
    far = calibration.measure(
        table._replace(beyond=table.beyond + 100.0), "uniform", 20, 0, "new"
    )
    assert far["estimates"] == [8, 0]
    assert (
        calibration.measure(
            table._replace(beyond=table.beyond + 100.0), "uniform", 20, 0, "given"
        )
        == given
    )


def test_of_a_recorded_table_one_half_of_the_examples_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = np.random.default_rng(0).random((5, 40, 2))
    recorded = SimpleNamespace(
        table=SimpleNamespace(
            prompts=list("abcde"), scores=scores, features=None, metrics="ab"
        )
    )
    monkeypatch.setattr(calibration.problems, "load", lambda *_: recorded)
    table = calibration.recorded_table("any", "front", 5, 0, None)
    assert table.cells.shape == (5, 20, 2)
    np.testing.assert_allclose(
        (table.cells.mean(axis=1) + table.beyond) / 2, scores.mean(axis=1)
    )
    assert (table.cells.mean(axis=1) != table.beyond).all()
