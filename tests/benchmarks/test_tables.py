"""Tables of others, made from tiny repositories that are laid out as theirs."""

import json
import pickle
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell_adapters.tables.recorded import RecordedScores
from benchmarks.problems import InvalidTableError, read_table, replay, write_table
from benchmarks.problems.replay import replay_table
from benchmarks.tables import sources
from benchmarks.tables.__main__ import main
from benchmarks.tables.pickles import Inert, read_pickle
from benchmarks.tables.sources import SOURCES

Make = Callable[[str, dict[str, bytes]], Path]


class Named:
    """An object of a class that the reader does not have."""

    def __init__(self, **state: Any) -> None:
        self.__dict__.update(state)


class DillArray:
    """Pickled as dill pickles an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        data = (
            self.values.tolist()
            if self.values.dtype == object
            else self.values.tobytes()
        )
        return DillArray, (
            None,
            (),
            (1, self.values.shape, self.values.dtype, False, data),
            None,
        )


class Runs:
    """What a reader of pickles must not run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle's function was called",)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make the table `name` by the command line, from a repository with these files; where it is."""

    def made(name: str, files: dict[str, bytes]) -> Path:
        repository = tmp_path / "repository"
        for path, content in files.items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_bytes(content)

        def git(*arguments: str) -> str:
            who = (
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.com",
                "-c",
                "commit.gpgsign=false",
            )
            done = subprocess.run(
                ["git", *who, *arguments],
                cwd=repository,
                check=True,
                capture_output=True,
                text=True,
            )
            return done.stdout.strip()

        git("init", "--quiet")
        git("add", ".")
        git("commit", "--quiet", "-m", "files")
        monkeypatch.setitem(
            SOURCES, name, replace(SOURCES[name], commit=git("rev-parse", "HEAD"))
        )
        command = [
            "tables",
            name,
            "--output",
            str(tmp_path / "out"),
            "--source",
            str(repository),
        ]
        monkeypatch.setattr("sys.argv", command)
        main()
        (path,) = (tmp_path / "out").glob("*/*.npz")
        return path

    return made


@pytest.mark.parametrize("name", SOURCES)
def test_every_table_has_its_card(name: str) -> None:
    cards = Path(sources.__file__).with_name("README.md").read_text(encoding="utf-8")
    card = cards.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    source = SOURCES[name]
    for part in (
        f"]({source.url})",
        f"`{source.commit[:7]}`",
        source.licence.partition(";")[0],
        "| arms |",
        "| cite |",
    ):
        assert part in card


def test_nothing_in_a_pickle_runs(tmp_path: Path) -> None:
    path = tmp_path / "p.pkl"
    path.write_bytes(
        pickle.dumps(
            {
                "number": 1,
                "day": date(2025, 1, 1),
                "runs": Runs(),
                "named": Named(score=0.5),
            }
        )
    )
    found = read_pickle(path)
    assert found["number"] == 1
    assert [isinstance(found[name], Inert) for name in ("day", "runs", "named")] == [
        True
    ] * 3
    assert found["runs"].args == ("a pickle's function was called",)
    assert found["named"].state == {"score": 0.5}


def test_capo_is_joined_from_the_optimizers_states(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = np.array(["one two", "three", "four"], dtype=object)

    def state(
        blocks: list[tuple[int, list[int]]], cache: dict[tuple[str, int], list[float]]
    ) -> bytes:
        scores = {key: DillArray(np.array(values)) for key, values in cache.items()}
        task = Named(
            xs=DillArray(inputs),
            blocks=blocks,
            prompt_score_cache=scores,
            metric=Runs(),
        )
        return pickle.dumps(Named(task=task))

    first = state(
        [(0, [2, 0]), (1, [1])],
        {("b c", 0): [1, 0], ("b c", 1): [1], ("seen in part", 0): [1, 1]},
    )
    second = state([(0, [0, 1, 2])], {("a", 0): [0, 1, 0], ("b c", 0): [1, 1, 1]})
    where = "results/{}/copa/qwen/{}/seed{}/run_{}/abc/optimizer.pickle".format
    path = make(
        "capo",
        {
            where("ablation_results", "CAPO_zero_shot", 42, 1): first,
            where("main_results", "CAPO", 42, 2): second,
            where("main_results", "CAPO", 43, 3): b"another seed",
            where("main_results", "OPRO", 42, 4): b"another optimizer",
        },
    )
    table = read_table(path)
    assert (path.parent.name, table.name, table.metrics) == (
        "capo",
        "copa_qwen_seed42",
        ("accuracy", "brevity"),
    )
    assert table.prompts == ("a", "b c")
    # "b c" was evaluated twice; the first run counts.
    np.testing.assert_array_equal(table.scores[:, :, 0], [[0, 1, 0], [0, 1, 1]])
    # 3 2 2 / 4 3 3 words: 1 at 2, 0 at the 95 % quantile, 3.75.
    np.testing.assert_allclose(
        table.scores[:, :, 1], np.array([[0.75, 1.75, 1.75], [0, 0.75, 0.75]]) / 1.75
    )
    assert table.provenance == {
        "source": SOURCES["capo"].url,
        "commit": SOURCES["capo"].commit,
        "licence": "Apache-2.0",
    }
    assert (
        "2 arms, 3 examples; means over the table: accuracy 0.5000"
        in capsys.readouterr().out
    )
    replayed = replay_table("capo/copa_qwen_seed42", path.parents[1])
    np.testing.assert_array_equal(replayed.scores, table.scores)


def test_mmlu_pro_draws_questions_of_every_category_from_the_whole_models(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(n: int, key: str, pred: str) -> bytes:
        row = {"answer": "A", "pred": pred, key: "x" * 99}
        rows = [
            {"question_id": i, "category": "law" if i % 2 else "art", **row}
            for i in range(n)
        ]
        with zipfile.ZipFile(tmp_path / "m.zip", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("m.json", json.dumps([*rows, "total"]))
        return (tmp_path / "m.zip").read_bytes()

    where = "eval_results/model_outputs_{}_5shots.zip".format
    files = {
        where("good"): model(12_010, "model_outputs", "A"),
        where("bad"): model(12_000, "generated_text", "B"),
    }
    path = make(
        "mmlu_pro",
        {
            **files,
            where("short"): model(500, "model_outputs", "A"),
            where("gpt-4o"): b"left out",
        },
    )
    table = read_table(path)
    assert table.prompts == ("bad_5shots", "good_5shots")
    np.testing.assert_allclose(table.means, [[0, -2], [1, -2]])
    with np.load(path) as file:
        assert file["segments"].tolist() == ["art"] * 100 + ["law"] * 100
        examples = list(map(int, file["examples"]))
    assert examples[:100] == sorted(examples[:100])
    assert max(examples) < 12_000
    assert all(at % 2 == 0 for at in examples[:100])


def test_a_source_that_cannot_be_fetched_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sys.argv",
        ["tables", "capo", "--output", str(tmp_path), "--source", str(tmp_path)],
    )
    with pytest.raises(SystemExit, match="capo: git fetch of 2b09caa from"):
        main()
    assert list(tmp_path.iterdir()) == []


def test_mcpmark_has_four_runs_of_every_agent_on_every_task(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    def cell(n_runs: int, tokens: int | None, success: bool) -> bytes:
        used = {} if tokens is None else {"input_tokens": 1, "total_tokens": tokens}
        runs = {
            f"run-{number}": {
                "success": success and number % 2 == 0,
                "execution_time": 10.0 * number,
                "token_usage": used,
            }
            for number in range(n_runs, 0, -1)
        }
        return json.dumps({"model": "m", "runs": runs}).encode()

    where = "model_results/{}/{}.json".format
    dear = {where("dear", "a"): cell(1, 5, True), where("dear", "b"): cell(1, 5, True)}
    halves = {
        where("halves", "a"): cell(4, 300, True),
        where("halves", "b"): cell(4, 100, False),
    }
    cheap = {
        where("cheap", "a"): cell(4, 10, False),
        where("cheap", "b"): cell(4, None, True),
    }
    costs = {
        name: {"per_run_cost": cost}
        for name, cost in (("dear", 9.0), ("halves", 4.0), ("cheap", 0.5))
    }
    files = {
        "summary.json": json.dumps({"overall": costs}).encode(),
        "tasks/a.json": b"not needed",
    }
    path = make("mcpmark", {**dear, **halves, **cheap, **files})
    table = read_table(path)
    assert (path.parent.name, table.name) == ("agents", "mcpmark")
    assert table.metrics == ("success", "seconds", "tokens", "dollars")
    assert table.prompts == ("cheap", "halves")
    assert table.scores.shape == (2, 2, 4, 4)
    np.testing.assert_array_equal(table.scores[1, 0, 0], [0, 1, 0, 1])
    np.testing.assert_array_equal(table.scores[1, 0, 1], [10, 20, 30, 40])
    # A run through both tasks costs 4 dollars and takes 400 tokens.
    np.testing.assert_allclose(table.scores[1, :, 3], [[3] * 4, [1] * 4])
    np.testing.assert_allclose(table.scores[0, :, 3], [[0.5] * 4, [0] * 4])
    np.testing.assert_allclose(table.means, [[0.25, 25, 5, 0.25], [0.25, 25, 200, 2]])
    assert (
        "2 arms, 2 examples, 4 repeats; means over the table: success 0.2500, seconds 25.0000"
        in capsys.readouterr().out
    )
    # It is no problem of the suite
    assert replay.replay_names(path.parents[1]) == replay.replay_names(None)
    found = RecordedScores.read(
        path, asktell.BestFeasible("success", {"dollars": asktell.at_most(1.0)})
    )
    np.testing.assert_array_equal(found.scores, table.scores[:, :, [0, 3]])


def test_a_table_with_repeats_is_validated(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 5, 1, 2))
    write_table(
        tmp_path / "t.npz", metrics=["a"], scores=scores, prompts=["x", "y", "z"]
    )
    table = read_table(tmp_path / "t.npz")
    np.testing.assert_allclose(table.means, scores.mean(axis=(1, 3)))
    np.testing.assert_allclose(table.variance_shares().sum(), 1.0)
    with pytest.raises(InvalidTableError, match="the scores have shape"):
        write_table(
            tmp_path / "e.npz",
            metrics=["a"],
            scores=scores[..., :0],
            prompts=["x", "y", "z"],
        )
