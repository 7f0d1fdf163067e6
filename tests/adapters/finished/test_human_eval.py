"""Results of HumanEval, EvalPlus and BigCodeBench."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import read_results

Write = Callable[[str, Any], Path]


def line(task: int, passed: bool | None, **more: Any) -> dict[str, Any]:
    result = "passed" if passed else "failed: timed out"
    return {
        "task_id": f"HumanEval/{task}",
        "completion": "    return 1\n",
        "result": result,
        "passed": passed,
        **more,
    }


def test_a_timeout_has_not_passed_and_is_no_failure(write: Write) -> None:
    path = write("a.jsonl", [line(0, False), line(1, True), line(2, True)])
    scores = read_results([path])
    assert scores.overview() == (
        "Read 1 candidate (file a) x 3 examples (tasks), passed from 0 to 1."
    )
    assert scores.by_name["a"].scores["passed"].tolist() == [0, 1, 1]
    assert scores.by_name["a"].errors == {}


def test_samples_of_a_task_are_repeats_even_if_their_numbers_differ(
    write: Write,
) -> None:
    write("a.jsonl", [line(0, False), line(0, True), line(1, True)])
    write("b.jsonl", [line(0, True), line(1, None)])
    scores = read_results(["a.jsonl", "b.jsonl"])
    assert scores.by_name["a"].examples == ["HumanEval/0", "HumanEval/0", "HumanEval/1"]
    assert scores.remarks() == [
        "1 of 4 cells were evaluated several times (samples of a task), up to 2. Repeated evaluations of a cell are "
        "averaged."
    ]
    assert scores.by_name["b"].complete(["passed"]) == {"HumanEval/0"}


def test_a_table_of_several_models_is_no_result_of_one(write: Write) -> None:
    rows = [line(0, True, model="a"), line(1, False, model="a")]
    rows += [line(0, True, model="b"), line(1, True, model="b")]
    scores = read_results([write("both.jsonl", rows)])
    assert scores.kind == "a table"
    assert list(scores.by_name) == ["a", "b"]


def test_the_name_of_one_model_in_each_line_does_not_matter(write: Write) -> None:
    rows = [
        line(0, True, model="a"),
        line(0, False, model="a"),
        line(1, True, model="a"),
    ]
    scores = read_results([write("a.jsonl", rows)])
    assert scores.repeats == "samples of a task"


def test_a_damaged_sample_is_named(write: Write) -> None:
    path = write("a.jsonl", [line(0, True), {**line(1, True), "passed": "maybe"}])
    with pytest.raises(InvalidArgumentError, match=r"a\.jsonl, sample 2: .*'passed'"):
        read_results([path])


def sample(task: str, base: str, plus: str | None) -> dict[str, Any]:
    return {
        "task_id": task,
        "solution": "def f(): ...",
        "base_status": base,
        "plus_status": plus,
        "base_fail_tests": [],
        "plus_fail_tests": [],
    }


def test_evalplus_counts_the_additional_tests_only_with_the_first_ones(
    write: Write,
) -> None:
    tasks = {
        "HumanEval/0": [sample("HumanEval/0", "pass", "pass")],
        "HumanEval/1": [sample("HumanEval/1", "fail", "pass")],
        "HumanEval/2": [sample("HumanEval/2", "timeout", "fail")],
    }
    document = {"date": "2025-01-01 10:00", "hash": "fe585eb4", "eval": tasks}
    write("gpt/eval_results.json", document)
    write("llama/eval_results.json", document)
    scores = read_results(["gpt/eval_results.json", "llama/eval_results.json"])
    assert list(scores.by_name) == ["gpt", "llama"]
    assert scores.by_name["gpt"].scores["base"].tolist() == [1, 0, 0]
    assert scores.by_name["gpt"].scores["plus"].tolist() == [1, 0, 0]


def test_evalplus_without_additional_tests_has_no_score_of_them(write: Write) -> None:
    tasks = {"Mbpp/2": [sample("Mbpp/2", "pass", None)]}
    assert read_results([write("r.json", {"eval": tasks})]).metrics == ["base"]


def test_evalplus_of_2023_and_bigcodebench(write: Write) -> None:
    old = {"nfiles": 2, "base": [["success", []], ["failed", []]], "plus": []}
    scores = read_results([write("old.json", {"hash": "x", "eval": {"T/0": old}})])
    assert scores.by_name["old"].scores["base"].tolist() == [1, 0]
    tasks = {"BigCodeBench/0": [{"task_id": "BigCodeBench/0", "status": "pass"}]}
    scores = read_results([write("big.json", {"eval": tasks})])
    assert scores.by_name["big"].scores["passed"].tolist() == [1]


def test_a_damaged_task_is_named(write: Write) -> None:
    tasks = {"T/0": [sample("T/0", "pass", "pass")], "T/1": "?"}
    with pytest.raises(InvalidArgumentError, match="The task 'T/1' has '\\?'"):
        read_results([write("r.json", {"eval": tasks})])
