"""Test runs of DeepEval."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import read_results

Write = Callable[[str, Any], Path]


def metric(name: str, score: float | None, error: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "threshold": 0.5,
        "success": bool(score and score >= 0.5),
        "score": score,
        "reason": "because",
        "strictMode": False,
        "evaluationModel": "gpt-4.1",
        "error": error,
        "evaluationCost": 0.001,
    }


def case(at: int, *metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": f"test_case_{at}",
        "input": f"Question {at}?",
        "actualOutput": "An answer.",
        "expectedOutput": None,
        "success": all(each["success"] for each in metrics),
        "metricsData": list(metrics),
        "runDuration": 3.5,
        "evaluationCost": 0.002,
        "order": at,
        **more,
    }


def run(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    scores = [{"metric": "Faithfulness", "scores": [], "passes": 0, "fails": 0}]
    return {"testCases": list(cases), "metricsScores": scores, "testPassed": 1, **more}


def test_metrics_of_test_cases_and_not_the_cost_of_the_judge(write: Write) -> None:
    cases = [
        case(0, metric("Faithfulness", 0.9), metric("Answer Relevancy", 1.0)),
        case(1, metric("Faithfulness", 0.2), metric("Answer Relevancy", 0.5)),
    ]
    old = write("old.json", run(*cases, hyperparameters={"model": "gpt-4o"}))
    # In another order, and with another number in the name
    new = write(
        "new.json",
        {
            "testRunData": run(
                {**cases[1], "name": "test_case_0"},
                {**cases[0], "name": "test_case_1"},
                hyperparameters={"model": "o3"},
            )
        },
    )
    scores = read_results([old, new])
    assert scores.overview() == (
        "Read 2 candidates (test runs gpt-4o, o3) x 2 examples (test cases by their input), Faithfulness from 0.2 to "
        "0.9, Answer Relevancy from 0.5 to 1, success from 0 to 1; left out: evaluationCost."
    )
    assert scores.by_name["o3"].examples == ["Question 1?", "Question 0?"]


def test_a_metric_that_broke_is_unknown(write: Write) -> None:
    path = write(
        "r.json",
        run(
            case(0, metric("A", 0.9), metric("B", None, "timed out")),
            case(1, metric("A", None, "no JSON"), metric("B", None, "timed out")),
            case(2, metric("A", 0.5), metric("B", 0.5), completionTime=1.5),
        ),
    )
    evaluations = read_results([path]).by_name["r"]
    assert evaluations.errors == {1: "no JSON"}
    assert evaluations.complete(["A"]) == {"Question 0?", "Question 1?", "Question 2?"}
    # DeepEval says that the test did not pass, but nobody knows
    assert evaluations.complete(["success"]) == {"Question 1?", "Question 2?"}
    assert evaluations.scores["seconds"][2] == 1.5


def test_a_result_of_evaluate_and_conversations(write: Write) -> None:
    row = {
        "name": "test_case_0",
        "success": True,
        "input": "Question?",
        "metrics_data": [metric("A", 1.0)],
        "conversational": False,
    }
    path = write("r.json", {"test_results": [row], "confident_link": None})
    assert read_results([path]).by_name["r"].scores["A"].tolist() == [1]
    talk = {
        "name": "conversational_test_case_0",
        "scenario": "A refund",
        "success": True,
        "turns": [{"role": "user", "content": "Hello", "order": 0}],
        "metricsData": [metric("A", 0.5)],
    }
    path = write("t.json", {"testCases": [], "conversationalTestCases": [talk]})
    assert read_results([path]).examples == ["A refund"]


def test_equal_inputs_are_distinguished_by_what_is_expected(write: Write) -> None:
    cases = [
        case(0, metric("A", 1.0), input="Translate.", expectedOutput="Hello"),
        case(1, metric("A", 0.0), input="Translate.", expectedOutput="World"),
    ]
    scores = read_results([write("r.json", run(*cases))])
    assert scores.examples == ["Translate. Hello", "Translate. World"]


def test_a_damaged_test_case_is_named(write: Write) -> None:
    path = write("r.json", run(case(0, metric("A", 1.0)), {"metricsData": ["?"]}))
    with pytest.raises(InvalidArgumentError, match=r"test case 2: .*DeepEval"):
        read_results([path])
