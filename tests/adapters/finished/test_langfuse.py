"""Exports of Langfuse."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import UnclearResultsError, Wanted, read_results

Write = Callable[[str, Any], Path]


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Langfuse writes lists and objects in cells as JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({
            name: json.dumps(cell) if isinstance(cell, list | dict) else cell
            for name, cell in row.items()
        })  # fmt: skip
    return text.getvalue()


def score(trace: str, name: str, value: float, kind: str = "NUMERIC") -> dict[str, Any]:
    return {
        "id": f"{trace}-{name}-{value}",
        "traceId": trace,
        "sessionId": None,
        "datasetRunId": None,
        "timestamp": "2025-06-01T10:00:00.000Z",
        "source": "EVAL",
        "name": name,
        "dataType": kind,
        "value": value,
        "stringValue": "good" if kind == "CATEGORICAL" else None,
        "comment": "because",
    }


SCORES = [
    score("t1", "helpful", 0.5),
    score("t1", "helpful", 1.0),
    score("t1", "safe", 1, "BOOLEAN"),
    score("t1", "tone", 0, "CATEGORICAL"),
    score("t2", "helpful", 0.25),
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("scores.json", SCORES),
        ("scores.jsonl", SCORES),
        ("scores.csv", as_csv(SCORES)),
        ("scores.json", {"data": SCORES, "meta": {"page": 1}}),
    ],
)
def test_numeric_scores_of_traces(write: Write, name: str, content: Any) -> None:
    scores = read_results([write(name, content)])
    assert scores.overview() == (
        "Read 1 candidate (file scores) x 2 examples (traces), helpful from 0.25 to 1, safe from 1 to 1."
    )
    assert "(scores with the same name), up to 2" in scores.remarks()[0]


def trace(at: int, correct: list[float] | None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"trace-{at}",
        "timestamp": "2025-06-01T10:00:00.000Z",
        "name": "support",
        "input": {"question": f"Why {at}?"},
        "output": "Because.",
        "latency": 1.5,
        "totalCost": 0.25,
        "observationCount": 3,
        "tags": ["a"],
        "level": "DEFAULT",
        "correct": correct,
        **more,
    }


def test_traces_are_matched_by_their_input_in_csv_and_json(write: Write) -> None:
    write("old.csv", as_csv([trace(0, [0.5, 1.0]), trace(1, [1])]))
    write("new.json", [trace(1, [0], id="other"), trace(0, None)])
    scores = read_results(["old.csv", "new.json"])
    assert scores.metrics == ["correct", "latency", "totalCost"]
    assert scores.examples == ['{"question": "Why 0?"}', '{"question": "Why 1?"}']
    assert scores.by_name["old"].scores["correct"].tolist() == [0.75, 1]
    assert scores.by_name["new"].complete(["correct"]) == {'{"question": "Why 1?"}'}


def test_an_error_without_a_score_is_a_failure(write: Write) -> None:
    rows = [trace(0, [1], level="ERROR"), trace(1, None, level="ERROR")]
    (evaluations,) = read_results([write("r.json", rows)]).by_name.values()
    assert evaluations.errors == {1: "level ERROR"}


def test_scores_in_traces_of_the_api(write: Write) -> None:
    scored = [score("t", "helpful", 0.5), score("t", "tone", 0, "CATEGORICAL")]
    rows = {"data": [trace(0, None, scores=scored)]}
    (evaluations,) = read_results([write("r.json", rows)]).by_name.values()
    assert evaluations.scores["helpful"].tolist() == [0.5]
    assert "tone" not in evaluations.scores


def test_columns_that_may_name_candidates_are_asked_about(write: Write) -> None:
    rows = [trace(at, [1], version=v) for v in ("1.0", "1.1") for at in range(2)]
    path = write("r.json", rows)
    with pytest.raises(UnclearResultsError, match="'version'") as info:
        read_results([path])
    assert info.value.readings[0].flags == ("--candidate-column", "version")
    scores = read_results([path], Wanted(candidate_columns=("version",)))
    assert scores.overview().startswith(
        "Read 2 candidates (column version: 1.0, 1.1) x 2 examples (inputs)"
    )
    with pytest.raises(InvalidArgumentError, match="no column 'verson'"):
        read_results([path], Wanted(candidate_columns=("verson",)))


def test_a_damaged_export_is_refused(write: Write) -> None:
    whole = as_csv([trace(0, [1], observationCount="x")])
    path = write("r.csv", whole + '"trace-1","cut off')
    with pytest.raises(InvalidArgumentError, match=r"r\.csv, line 3"):
        read_results([path])


def test_one_candidate_may_be_wanted(write: Write) -> None:
    path = write("r.json", [trace(at, [1], version=f"1.{at}") for at in range(2)])
    with pytest.raises(UnclearResultsError) as info:
        read_results([path])
    assert info.value.readings[-1].flags == ("--metrics", "correct,latency,totalCost")
    scores = read_results([path], Wanted(metrics=("correct",)))
    assert list(scores.by_name) == ["r"]
