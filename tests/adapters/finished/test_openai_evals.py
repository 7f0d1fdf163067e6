"""Logs of OpenAI Evals, and output items of its API."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import read_results

Write = Callable[[str, Any], Path]


def log(model: str, *events: tuple[str, str, Any]) -> list[dict[str, Any]]:
    """The report is the second line, as `oaieval` writes it in a short run."""
    spec = {"completion_fns": [model], "eval_name": "match.s1.v0", "run_id": model * 3}
    return [
        {"spec": spec},
        {"final_report": {"accuracy": 0.25}},
        *(
            {
                "run_id": model * 3,
                "event_id": at,
                "sample_id": sample,
                "type": kind,
                "data": data,
                "created_by": "",
                "created_at": "2024-01-01",
            }
            for at, (sample, kind, data) in enumerate(events)
        ),
    ]


def match(sample: str, correct: bool) -> tuple[str, str, Any]:
    return sample, "match", {"correct": correct, "expected": "15", "picked": None}


def test_matches_are_scores_and_the_report_is_none(write: Write) -> None:
    asked = ("m.0", "sampling", {"prompt": "?", "sampled": ["15"]})
    write("one.jsonl", log("gpt", asked, match("m.0", True), match("m.1", False)))
    write("two.jsonl", log("o1", match("m.1", True), match("m.0", True)))
    scores = read_results(["one.jsonl", "two.jsonl"])
    assert scores.overview() == (
        "Read 2 candidates (logs gpt, o1) x 2 examples (samples), correct from 0 to 1; left out: final_report."
    )
    assert scores.by_name["gpt"].scores["correct"].tolist() == [1, 0]


def test_metrics_of_a_sample_are_one_evaluation_and_attempts_are_repeats(
    write: Write,
) -> None:
    graded = ("m.0", "metrics", {"choice": "B", "score": 0.5})
    path = write(
        "r.jsonl",
        log("gpt", match("m.0", True), graded, match("m.0", False), graded),
    )
    scores = read_results([path]).by_name["r"]
    assert scores.scores["correct"].tolist() == [1, 0]
    assert scores.scores["score"].tolist() == [0.5, 0.5]
    assert "choice" not in scores.scores


def test_a_sample_with_an_error_failed_and_one_without_a_score_is_missing(
    write: Write,
) -> None:
    path = write(
        "r.jsonl",
        log(
            "gpt",
            match("m.0", True),
            ("m.1", "error", {"type": "RateLimitError", "message": "slow down"}),
            ("m.2", "sampling", {"prompt": "?", "sampled": "x"}),
            ("m.3", "error", {"type": "Timeout", "message": ""}),
            match("m.3", True),
        ),
    )
    scores = read_results([path]).by_name["r"]
    assert list(scores.errors.values()) == ["RateLimitError: slow down"]
    assert scores.complete(["correct"]) == {"m.0", "m.1", "m.3"}
    assert scores.examples == ["m.0", "m.1", "m.2", "m.3"]


def test_logs_of_the_first_versions_name_models(write: Write) -> None:
    for model in ("gpt-3.5-turbo", "gpt-4"):
        _, *rows = log(model, match("m.0", True))
        spec = {"model_names": {"completions": [model]}, "eval_name": "match.s1.v0"}
        write(f"{model[-1]}.jsonl", [{"spec": spec}, *rows])
    assert list(read_results(["o.jsonl", "4.jsonl"]).by_name) == [
        "gpt-3.5-turbo",
        "gpt-4",
    ]


def test_a_report_without_samples_is_refused(write: Write) -> None:
    with pytest.raises(InvalidArgumentError, match=r"No evaluation in 'r\.jsonl'"):
        read_results([write("r.jsonl", log("gpt"))])


def test_a_damaged_event_is_named(write: Write) -> None:
    path = write("r.jsonl", log("gpt", match("m.0", True), ("m.1", "match", "yes")))
    with pytest.raises(InvalidArgumentError, match=r"The event 1 of the sample 'm\.1'"):
        read_results([path])


def item(at: int, score: float | None, **more: Any) -> dict[str, Any]:
    return {
        "object": "eval.run.output_item",
        "id": f"outputitem_{at}",
        "run_id": "evalrun_1",
        "eval_id": "eval_1",
        "status": "pass" if score else "fail",
        "datasource_item_id": at,
        "datasource_item": {"question": "?"},
        "results": [{"name": "match-1", "sample": None, "passed": bool(score), "score": score}],
        "sample": {
            "model": "gpt-4o-mini",
            "error": None,
            "usage": {"total_tokens": 7, "prompt_tokens": 5, "completion_tokens": 2},
        },
        **more,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["page.json", "list.json", "lines.jsonl"])
def test_output_items_in_a_page_a_list_or_lines(write: Write, name: str) -> None:
    items = [item(0, 1.0), item(1, 0.25), item(2, None)]
    is_page = name == "page.json"
    content = {"object": "list", "data": items, "has_more": True} if is_page else items
    scores = read_results([write(name, content)])
    assert scores.examples == ["0", "1", "2"]
    (evaluations,) = scores.by_name.values()
    # A grader without a score has whether the item passed
    assert evaluations.scores["match-1"].tolist() == [1, 0.25, 0]
    assert scores.metrics == ["match-1", "input_tokens", "output_tokens"]
    assert len(scores.notes) == is_page


def test_graders_are_metrics_and_an_error_of_the_model_is_a_failure(
    write: Write,
) -> None:
    graders = [{"name": "a", "score": 0.5}, {"name": "b", "passed": False}]
    failed = item(1, 0.0)
    failed["sample"]["error"] = {"code": "content_filter", "message": "filtered"}
    path = write("r.jsonl", [item(0, 1.0, results=graders), failed])
    scores = read_results([path])
    (evaluations,) = scores.by_name.values()
    assert {"a", "b", "passed"} <= evaluations.scores.keys()
    assert evaluations.errors == {1: "filtered"}


def test_runs_in_a_file_are_candidates(write: Write) -> None:
    other = item(0, 0.0, run_id="evalrun_2")
    other["sample"]["model"] = "gpt-4.1"
    scores = read_results([write("r.jsonl", [item(0, 1.0), other])])
    assert list(scores.by_name) == ["gpt-4o-mini", "gpt-4.1"]
    other["sample"]["model"] = "gpt-4o-mini"
    scores = read_results([write("r.jsonl", [item(0, 1.0), other])])
    assert list(scores.by_name) == ["evalrun_1", "evalrun_2"]


def test_a_damaged_item_is_named(write: Write) -> None:
    path = write("r.jsonl", [item(0, 1.0), {"object": "eval.run.output_item"}])
    with pytest.raises(InvalidArgumentError, match=r"item 2: .*not an output item"):
        read_results([path])
