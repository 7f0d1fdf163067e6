"""The parts of the promptfoo adapter that need no promptfoo: scores of rows, files of results, the process."""

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.harnesses.promptfoo.evaluator import (
    append_row,
    read_rows,
    scores_of,
    write_results,
)
from asktell_adapters.harnesses.promptfoo.node import (
    NodeWorker,
    RefusedError,
    WorkerLostError,
)

PASSED = {
    "pass": True,
    "reason": "Assertion passed",
    "assertion": {"type": "equals", "metric": "right"},
}
ROW: dict[str, Any] = {
    "success": True,
    "score": 1,
    "failureReason": 0,
    "latencyMs": 1500,
    "cost": 0.25,
    "namedScores": {"right": 1},
    "gradingResult": {
        "pass": True,
        "reason": "All assertions passed",
        "componentResults": [PASSED],
    },
    "response": {"output": "four", "cost": 0.25},
    "tokenUsage": {"total": 5, "prompt": 3, "completion": 2},
    "prompt": {"raw": "Count abc", "label": "count", "template": "Count {{w}}"},
    "testIdx": 1,
}


def test_scores_of_a_row() -> None:
    expected = {"latency": 1.5, "cost": 0.25, "score": 1, "success": 1, "right": 1}
    assert scores_of(ROW) == {
        **expected,
        "tokens": 5,
        "input_tokens": 3,
        "output_tokens": 2,
    }
    assert (
        scores_of({**ROW, "success": False, "failureReason": 1, "score": 0})["success"]
        == 0
    )  # type: ignore[index]


def test_a_metric_of_the_config_goes_before_usage() -> None:
    assert scores_of({**ROW, "namedScores": {"latency": 7}})["latency"] == 7  # type: ignore[index]


def test_what_promptfoo_does_not_know_is_missing_and_not_zero() -> None:
    row = {
        **ROW,
        "response": {},
        "cost": 0,
        "tokenUsage": {"total": 0},
        "gradingResult": None,
        "namedScores": {},
    }
    assert scores_of(row) == {"latency": 1.5}


@pytest.mark.parametrize(
    ("value", "has_score"),
    [(0, True), (0.5, True), (1, True), (212, False), (-0.5, False)],
)
def test_a_mean_that_one_assertion_would_decide_alone_is_no_score(
    value: float, has_score: bool
) -> None:
    length = {
        "pass": True,
        "score": value,
        "assertion": {"type": "javascript", "metric": "length"},
    }
    grading = {"componentResults": [{**PASSED, "score": 1}, length]}
    row = {
        **ROW,
        "score": (1 + value) / 2,
        "gradingResult": grading,
        "namedScores": {"right": 1, "length": value},
    }
    scores = scores_of(row)
    assert isinstance(scores, dict)
    assert ("score" in scores, scores["length"], scores["success"]) == (
        has_score,
        value,
        1,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"failureReason": 2, "error": "the key is wrong\nat ..."},
            "promptfoo reported this error: the key is wrong",
        ),
        ({"failureReason": 2}, "promptfoo reported this error: no reason given"),
        (
            {
                "gradingResult": {
                    "componentResults": [
                        PASSED,
                        {"reason": "Python code execution failed: x"},
                    ]
                }
            },
            "promptfoo reported that the assertion 'of the test' failed: Python code execution failed: x",
        ),
        (
            {
                "gradingResult": {
                    "componentResults": [
                        {**PASSED, "reason": "Custom function threw error: x\nStack"}
                    ]
                }
            },
            "promptfoo reported that the assertion 'right' failed: Custom function threw error: x",
        ),
        (
            {
                "gradingResult": {
                    "componentResults": [
                        {**PASSED, "reason": "API", "metadata": {"graderError": True}}
                    ]
                }
            },
            "promptfoo reported that the assertion 'right' failed: API",
        ),
    ],
)
def test_errors_of_a_row(change: dict[str, Any], message: str) -> None:
    outcome = scores_of({**ROW, **change})
    assert isinstance(outcome, Exception)
    assert str(outcome) == message
    assert outcome.cost == 0.25  # type: ignore[attr-defined]


SUITE = {
    "version": "0.121.20",
    "provider": {"id": "echo", "label": "echo"},
    "prompts": [
        {"raw": "Say {{w}}", "label": "say"},
        {"raw": "Count {{w}}", "label": "count"},
    ],
    "tests": [
        {"vars": {"w": "x"}, "metadata": {}},
        {"vars": {"w": "abc"}, "metadata": {}},
    ],
}


def test_rows_become_a_table_in_which_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_rows(path) == []
    other = {"raw": "New x", "label": "generated", "template": "New {{w}}"}
    for row in (
        {**ROW, "score": 0.5},
        {**ROW, "failureReason": 2, "testIdx": 0},
        {**ROW, "prompt": other},
        ROW,
    ):
        append_row(path, row)
    with path.open("a") as file:
        file.write('{"prompt": {"te')  # cut off by a crash
    document = json.loads(
        write_results(tmp_path / "results.json", read_rows(path), SUITE).read_text()
    )
    assert os.name == "nt" or {
        file.stat().st_mode & 0o777 for file in tmp_path.iterdir()
    } == {0o600}
    results = document["results"]
    assert results["version"] == 3
    assert [prompt["label"] for prompt in results["prompts"]] == [
        "count",
        "generated",
        "say",
    ], "most evaluations first"
    assert [
        (row["promptIdx"], row["testIdx"], row["score"]) for row in results["results"]
    ] == [
        (0, 0, 1),
        (0, 1, 1),
        (1, 1, 1),
    ]
    metrics = results["prompts"][0]["metrics"]
    assert (
        metrics["testPassCount"],
        metrics["testFailCount"],
        metrics["testErrorCount"],
    ) == (1, 0, 1)
    assert metrics["score"] == 2
    assert metrics["namedScores"] == {"right": 2}
    assert results["stats"]["successes"] == 2
    assert results["stats"]["tokenUsage"]["total"] == 15


STAND_IN = f"""#!{sys.executable}
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    print("noise", end="", flush=True)
    match request.get("do"):
        case "die":
            print("TypeError: no more", file=sys.stderr)
            sys.exit(3)
        case "hang":
            time.sleep(60)
        case "refuse":
            reply = {{"error": "not this"}}
        case "late":
            print('\\n' + json.dumps({{"id": request["id"] - 1, "ok": "of another"}}), flush=True)
            reply = {{"ok": "late"}}
        case _:
            reply = {{"ok": [os.getpid(), os.getcwd()]}}
    print("\\n" + json.dumps({{"id": request["id"], **reply}}), flush=True)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Callable[[], NodeWorker]:
    """With a program in the place of Node."""
    node = tmp_path / "node"
    node.write_text(STAND_IN)
    node.chmod(node.stat().st_mode | stat.S_IXUSR)
    return lambda: NodeWorker(str(node), tmp_path / "promptfoo", tmp_path)


def test_a_process_answers_again_and_again(
    worker: Callable[[], NodeWorker], tmp_path: Path
) -> None:
    process = worker()
    assert not process.running
    first = process.ask({}, 20)
    assert first[1] == str(tmp_path)
    assert process.ask({}, 20) == first
    assert process.ask({"do": "late"}, 20) == "late"
    with pytest.raises(RefusedError, match="not this"):
        process.ask({"do": "refuse"}, 20)
    assert process.ask({}, 20) == first
    process.close()
    assert not process.running


@pytest.mark.parametrize(
    ("what", "seconds", "message"),
    [
        ("die", 20.0, "ended with code 3: TypeError: no more"),
        ("hang", 0.5, "did not respond within 0.5 seconds"),
    ],
)
def test_a_process_that_is_lost_is_replaced(
    what: str, seconds: float, message: str, worker: Callable[[], NodeWorker]
) -> None:
    process = worker()
    first = process.ask({}, 20)
    with pytest.raises(WorkerLostError, match=message):
        process.ask({"do": what}, seconds)
    assert process.ask({}, 20)[0] != first[0]
    process.close()
