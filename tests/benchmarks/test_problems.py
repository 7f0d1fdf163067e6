import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import problems
from benchmarks.problems import BenchmarkProblem, grown, replay, synthetic
from tests.benchmarks.pools import problem


@pytest.mark.parametrize("name", synthetic.NAMES)
def test_synthetic_tables_have_the_shares_of_variance_that_they_claim(
    name: str,
) -> None:
    shares = np.mean(
        [
            synthetic.synthetic_table(name, instance=i).variance_shares()
            for i in range(4)
        ],
        axis=0,
    )
    wanted = synthetic.SHARES[name.rsplit("-", 1)[1]]
    np.testing.assert_allclose(shares, [wanted, wanted], atol=0.06)


def test_a_grown_table_has_the_recorded_means_and_shares_of_variance() -> None:
    tables = [
        grown.grown_table("synthetic/preference", 400, instance=i) for i in range(8)
    ]
    np.testing.assert_allclose(
        np.mean([table.scores.mean(axis=(0, 1)) for table in tables], axis=0),
        grown.MEANS,
        atol=0.03,
    )
    np.testing.assert_allclose(
        np.mean([table.variance_shares() for table in tables], axis=0),
        grown.SHARES,
        atol=0.03,
    )
    assert set(np.unique(tables[0].scores[..., 0])) == {0.0, 1.0}
    assert problems.half("synthetic/preference@1000") == "development"
    assert (
        len(problems.load("synthetic/preference@30", "pareto", None, 3).table.prompts)
        == 30
    )


def test_features_explain_the_structured_tables_only() -> None:
    def unexplained(kind: str) -> float:
        table = synthetic.synthetic_table(f"synthetic/{kind}-small")
        assert table.features is not None
        x = np.column_stack((table.features, np.ones(len(table.prompts))))
        _, residual, _, _ = np.linalg.lstsq(x, table.means[:, 0])
        return float(
            residual[0] / ((table.means[:, 0] - table.means[:, 0].mean()) ** 2).sum()
        )

    assert unexplained("linear") < 0.1
    assert unexplained("unstructured") > 0.8


def test_the_threshold_is_a_quantile_of_the_second_metric() -> None:
    assert [int(problem(goal).truth.feasible.sum()) for goal in problems.BEST] == [
        9,
        6,
        3,
    ]
    assert problem("pareto").truth.front.any()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny table of each format."""
    rng = np.random.default_rng(0)
    for family in ("capo", "alpaca_eval", "summarization", "own", "mine"):
        (tmp_path / family).mkdir()
    correct = rng.integers(0, 2, (5, 6)).astype(np.int8)
    correct[4, 3:] = -1
    np.savez(
        tmp_path / "capo" / "task_llm.npz",
        scores=correct,
        n_obs=np.array([6, 6, 6, 6, 3]),
        prompt_words=np.array([10, 20, 30, 40, 50]),
        example_words=np.full(6, 5),
    )
    with gzip.open(tmp_path / "capo" / "task_llm.prompts.json.gz", "wt") as file:
        json.dump(
            [{"p": text} for text in ("one", "two", "two", "three", "four")], file
        )
    preference = rng.choice([0.0, 1.0], (3, 4))
    preference[1, 2] = np.nan
    words = np.array([[60.0, 320, 190, 400]] * 3)
    np.savez(
        tmp_path / "alpaca_eval" / "judge.npz",
        names=np.array(["a", "b", "c"]),
        preference=preference,
        output_words=words,
    )
    np.savez(
        tmp_path / "summarization" / "eval.npz",
        arms=np.array(["M0", "M1"]),
        metrics=np.array(["coherence", "rougeL_f_ours", "summary_words"]),
        values=np.tile([5.0, 0.3, 80.0], (2, 3, 1)),
    )
    np.savez(
        tmp_path / "own" / "llm_debian.npz",
        rouge=rng.random((3, 4)),
        tokens=np.array([[8, 24, 40, 48]] * 3),
        embeddings=rng.normal(size=(3, 20)),
    )
    (tmp_path / "own" / "debian_prompts.json").write_text('["x", "y", "z"]')
    problems.write_table(
        tmp_path / "mine" / "made.npz",
        metrics=np.array(["a", "b"]),
        scores=rng.normal(size=(3, 4, 2)),
        prompts=np.array(["x", "y", "z"]),
    )
    return tmp_path


def test_every_format_is_read(folder: Path) -> None:
    capo, alpaca, summaries, own, mine = (
        replay.replay_table(name, folder)
        for name in (
            "capo/task_llm",
            "alpaca_eval/judge",
            "summarization/eval",
            "own/llm_debian",
            "mine/made",
        )
    )
    # The prompt that was not evaluated on all examples is left out
    assert capo.scores.shape == (4, 6, 2)
    assert capo.prompts == ("one", "two", "two [2]", "three")
    assert capo.means[0, 1] == 1.0  # the shortest
    # The instruction with a missing cell is left out
    assert alpaca.scores.shape == (3, 3, 2)
    np.testing.assert_allclose(alpaca.scores[0, :, 1], [1.0, 0.0, 0.0])
    np.testing.assert_allclose(summaries.scores[0, 0], [0.3, 0.5, 1.0])
    np.testing.assert_allclose(own.scores[0, :, 1], [1.0, 0.5, 0.0, 0.0])
    assert mine.features is not None
    assert {"capo/task_llm", "mine/made"} <= set(problems.names(folder))


def test_a_missing_table_is_an_error_that_names_it(folder: Path) -> None:
    for where in (folder, None):
        with pytest.raises(FileNotFoundError, match="capo/nothing"):
            replay.replay_table("capo/nothing", where)


@pytest.mark.skipif(
    not os.environ.get("ASKTELL_TABLES"),
    reason="needs the recorded tables: ASKTELL_TABLES",
)
def test_every_recorded_table_is_read() -> None:
    folder = replay.default_folder()
    for name in replay.replay_names(folder):
        table = replay.replay_table(name, folder)
        assert np.isfinite(table.scores).all()
        assert (
            0
            < BenchmarkProblem(table, "best@.5").truth.feasible.sum()
            < len(table.prompts)
        )
