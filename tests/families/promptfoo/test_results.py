"""The file of results, read by promptfoo's own command."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import InvalidArgumentError
from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator
from tests.words import lacking

Scripted = Callable[..., PromptfooEvaluator]


@pytest.fixture
def command(node: str, node_modules: Path) -> Callable[..., str]:
    package = json.loads((node_modules / "promptfoo" / "package.json").read_text())

    def run(*arguments: str) -> str:
        line = [
            node,
            str(node_modules / "promptfoo" / package["bin"]["promptfoo"]),
            *arguments,
        ]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def overview(
    node: str, node_modules: Path, command: Callable[..., str]
) -> Iterator[Callable[[], Any]]:
    """promptfoo's list of evaluations, from the server behind its page."""
    package = json.loads((node_modules / "promptfoo" / "package.json").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers: list[subprocess.Popen[bytes]] = []

    def ask() -> Any:
        line = [
            node,
            str(node_modules / "promptfoo" / package["bin"]["promptfoo"]),
            "view",
            "--no",
            "-p",
            str(port),
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        servers.append(subprocess.Popen(line, start_new_session=True, **quiet))
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(
                    f"http://localhost:{port}/api/results", timeout=10
                ) as reply:
                    return json.load(reply)["data"]
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.2)

    yield ask
    for server in servers:
        # The command may be a script that starts Node
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_promptfoos_list_of_evaluations_has_the_number_of_tests(
    scripted: Scripted,
    command: Callable[..., str],
    overview: Callable[[], Any],
    tmp_path: Path,
) -> None:
    table = {"a|0": 1.0, "b|0": 1.0, "b|1": 1.0, "b|2": "fails", "b|3": "fails"}
    evaluator = scripted(table, ["a", "b"], rows=tmp_path / "rows.jsonl")
    evaluator.evaluate_batch(
        [asktell.Trial(i, key[0], key[0], int(key[2])) for i, key in enumerate(table)]
    )
    evaluator.write_results(tmp_path / "results.json")
    command("import", str(tmp_path / "results.json"))
    (listed,) = overview()
    assert listed["numTests"] == 4, (
        "of the prompt with one evaluation it would be 1, and the pass rate 150 %"
    )
    assert listed["passRate"] == 100 * 3 / 8
    assert (
        listed["description"] == "Chosen by asktell: 3 of 5 evaluations passed, 4 tests"
    )


def test_a_node_that_is_too_old_is_said(
    node_modules: Path, node: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, mine = node_modules / "promptfoo", tmp_path / "node_modules" / "promptfoo"
    mine.mkdir(parents=True)
    for path in theirs.iterdir():
        (mine / path.name).symlink_to(path)
    config = {"prompts": ["p"], "providers": ["echo"], "tests": [{"vars": {"x": 1}}]}
    for wanted, is_said in (
        ("^18.0.0 || >=99.1.0", True),
        ("^18.0.0 || >=18.1.0", False),
        ("no range", False),
    ):
        (mine / "package.json").unlink()
        package = json.loads((theirs / "package.json").read_text())
        (mine / "package.json").write_text(
            json.dumps({**package, "engines": {"node": wanted}})
        )
        caplog.clear()
        PromptfooEvaluator(config, node_modules=mine.parent, node=node).close()
        words = f"promptfoo {package['version']}", f"Node {wanted}"
        assert not (lacking(caplog.text, *words) if is_said else caplog.text)


def test_promptfoo_imports_and_exports_it(
    scripted: Scripted, command: Callable[..., str], tmp_path: Path
) -> None:
    prompts = {"plain": "a", "other": "b"}
    table = {"a|0": 0.5, "a|1": 0.25, "b|0": "fails", "b|3": 1.0}
    evaluator = scripted(table, rows=tmp_path / "rows.jsonl")
    trials = [
        asktell.Trial(0, "plain", "a", 0),
        asktell.Trial(1, "plain", "a", 1),
        asktell.Trial(2, "other", "b", 0),
    ]
    evaluator.evaluate_batch(trials)
    evaluator.close()  # and on with another process, as after a crash
    evaluator = scripted(table, rows=tmp_path / "rows.jsonl")
    evaluator.evaluate_batch([asktell.Trial(3, "other", "b", 3), trials[0]])
    written = json.loads(evaluator.write_results(tmp_path / "results.json").read_text())
    assert "successfully imported" in command("import", str(tmp_path / "results.json"))
    command("export", "eval", written["evalId"], "-o", str(tmp_path / "again.json"))
    again: dict[str, Any] = json.loads((tmp_path / "again.json").read_text())["results"]
    assert (
        again["stats"]["successes"],
        again["stats"]["failures"],
        again["stats"]["errors"],
    ) == (3, 0, 1)
    columns = {column["label"]: column for column in again["prompts"]}
    assert {label: column["raw"] for label, column in columns.items()} == prompts
    assert columns["plain"]["metrics"]["namedScores"] == {"quality": 0.75}
    assert columns["plain"]["metrics"]["namedScoresCount"] == {"quality": 2}
    assert columns["other"]["metrics"]["testErrorCount"] == 1
    cells = {(row["prompt"]["label"], row["testIdx"]): row for row in again["results"]}
    assert set(cells) == {("plain", 0), ("plain", 1), ("other", 0), ("other", 3)}
    assert cells["other", 3]["namedScores"] == {"quality": 1.0}
    assert cells["other", 3]["vars"] == {"i": 3}
    assert cells["other", 0]["error"] == "the provider failed"


def test_a_row_has_its_prompts_own_index(scripted: Scripted, tmp_path: Path) -> None:
    """Whatever batch, or process, it comes from; prompts that are not the config's come after those."""
    path = tmp_path / "rows.jsonl"
    table = {f"{text}|{test}": 0.5 for text in "abxy" for test in range(4)}

    def evaluate(*pairs: tuple[str, int]) -> PromptfooEvaluator:
        evaluator = scripted(table, ["a", "b"], rows=path)
        evaluator.evaluate_batch(
            [asktell.Trial(i, text, text, test) for i, (text, test) in enumerate(pairs)]
        )
        return evaluator

    evaluate(("b", 3), ("x", 1), ("a", 0)).close()
    evaluator = evaluate(("y", 2), ("x", 0), ("b", 1))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {(row["prompt"]["template"], row["promptIdx"]) for row in rows} == {
        ("a", 0),
        ("b", 1),
        ("x", 2),
        ("y", 3),
    }
    assert len({(row["promptIdx"], row["testIdx"]) for row in rows}) == 6
    written = json.loads(
        evaluator.write_results(tmp_path / "results.json").read_text()
    )["results"]["results"]
    assert {(row["prompt"]["template"], row["testIdx"]) for row in written} == {
        (row["prompt"]["template"], row["testIdx"]) for row in rows
    }
    assert {(row["prompt"]["template"], row["promptIdx"]) for row in written} == {
        ("b", 0),
        ("x", 1),
        ("a", 2),
        ("y", 3),
    }


def test_the_rows_are_needed(scripted: Scripted, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rows\.jsonl"):
        scripted({}).write_results(tmp_path / "results.json")


def test_rows_that_cannot_be_kept_are_a_warning(
    scripted: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = scripted({"a|0": 0.5}, rows=tmp_path)  # a folder
    assert evaluator("a", 0)["quality"] == 0.5
    assert "could not be written to" in caplog.text


def test_a_mapping_that_is_no_data(node_modules: Path, node: str) -> None:
    with pytest.raises(InvalidArgumentError, match="plain data"):
        PromptfooEvaluator(
            {"prompts": [object()]}, node_modules=node_modules, node=node
        )
