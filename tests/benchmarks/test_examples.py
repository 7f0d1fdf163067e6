"""The benchmark of wrong labels."""

import numpy as np
import pytest

import asktell
from benchmarks.selection import examples

WORLD = examples.World("small", 60, 100, (1.5, 1.0))


def test_what_it_measures_is_what_users_get() -> None:
    scores = examples.World("repeated", 12, 20, (1.0, 1.0), repeats=3).scores(0)
    goal = asktell.BestFeasible("accuracy")
    assert examples.results_of(scores) == asktell.analyze(scores, goal).examples()


def test_most_planted_labels_are_found_where_models_differ() -> None:
    found = examples.plant(WORLD.scores(0), 0)
    assert found.called >= 0.6
    assert found.false <= 0.2
    assert found.at_best >= found.called - 1e-9


def test_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "WORLDS", [WORLD])
    monkeypatch.setattr(
        examples, "recorded", lambda folder, most: [("t", np.ones((6, 5, 1, 1)))]
    )
    examples.main(["--seeds", "2"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| small", "| t"]
    assert rows[1] == "| t | 6 x 5 | 0% | 0% | 0% | 0% | 0.0 |"
