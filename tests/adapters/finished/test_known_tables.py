"""Tables of MLflow, Ragas and LangSmith, whose columns have fixed names."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import UnclearResultsError, Wanted, read_results

Write = Callable[[str, Any], Path]


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def mlflow(*rows: tuple[Any, ...], columns: tuple[str, ...] = ()) -> dict[str, Any]:
    usual = (
        "inputs",
        "ground_truth",
        "outputs",
        "token_count",
        "latency",
        "toxicity/v1/score",
        "answer_similarity/v1/score",
        "answer_similarity/v1/justification",
    )
    return {"columns": list(columns or usual), "data": [list(row) for row in rows]}


def test_a_table_of_mlflow_has_the_metrics_of_one_candidate(write: Write) -> None:
    table = mlflow(
        ("Why?", "x", "y", 9, 0.5, 0.01, 4, "good"),
        ("How?", "x", "y", 5, 0.7, None, 2, "bad"),
    )
    scores = read_results([write("eval_results_table.json", table)])
    assert scores.overview() == (
        "Read 1 candidate (file eval_results_table) x 2 examples (column inputs), token_count from 5 to 9, "
        "answer_similarity/v1/score from 2 to 4, latency from 0.5 to 0.7, toxicity/v1/score from 0.01 to 0.01; left "
        "out: ground_truth, outputs, answer_similarity/v1/justification."
    )
    (evaluations,) = scores.by_name.values()
    assert evaluations.complete(["toxicity/v1/score"]) == {"Why?"}


def test_runs_in_a_table_of_mlflow_are_candidates(write: Write) -> None:
    columns = ("question", "outputs", "exact_match/v1/score", "latency", "run_id")
    rows = [(q, "x", s, 0.1, run) for q, s, run in [
        ("a", 1, "r1"), ("b", 0, "r1"), ("a", 1, "r2"), ("b", 1, "r2"),
    ]]  # fmt: skip
    path = write("r.json", mlflow(*rows, columns=columns))
    scores = read_results([path])
    assert list(scores.by_name) == ["r1", "r2"]
    assert scores.metrics == ["exact_match/v1/score", "latency"]


def test_a_metric_without_a_version_and_inputs_with_an_unusual_name(
    write: Write,
) -> None:
    columns = ("outputs", "brand voice", "target", "tone/score")
    table = mlflow(("y", "a", "z", 1), ("w", "b", "z", 0), columns=columns)
    scores = read_results([write("r.json", table)])
    assert scores.metrics == ["tone/score"]
    assert "(column brand voice)" in scores.overview()


def test_scorers_of_mlflow_genai(write: Write) -> None:
    rows = [
        {
            "trace_id": f"tr-{at}",
            "execution_duration": 900 + at,
            "request": f"Question {at}",
            "response": "Answer",
            "correctness/value": value,
            "tone/value": "friendly" if at else "neutral",
        }
        for at, value in enumerate(["yes", "no"])
    ]
    scores = read_results([write("genai.csv", as_csv(rows))])
    assert scores.kind == "evaluation tables of MLflow"
    assert scores.examples == ["Question 0", "Question 1"]
    assert scores.metrics == ["correctness/value", "execution_duration"]


def test_inputs_of_mlflow_that_repeat_are_asked_about(write: Write) -> None:
    rows = [
        (q, "x", "y", 9, 0.5, 0.0, s, "") for q, s in [("a", 1), ("a", 2), ("b", 3)]
    ]
    write("old.json", mlflow(*rows))
    write("new.json", mlflow(*rows[1:]))
    with pytest.raises(UnclearResultsError, match="--repeats"):
        read_results(["old.json", "new.json"])
    assert (
        len(read_results(["old.json", "new.json"], Wanted(repeats=True)).examples) == 2
    )


def ragas(faithfulness: list[Any], **more: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "user_input": f"Question {at}?",
            "retrieved_contexts": "['a context']",
            "response": "An answer.",
            "reference": "The truth.",
            "faithfulness": score,
            "factual_correctness(mode=f1)": 0.5,
            **{name: values[at] for name, values in more.items()},
        }
        for at, score in enumerate(faithfulness)
    ]


def test_the_metrics_of_ragas_are_no_candidates(write: Write) -> None:
    write("old.csv", as_csv(ragas([0.5, "", 1.0])))
    write("new.csv", as_csv(ragas([0.75, 1.0, 1.0])))
    alone = read_results(["old.csv"])
    assert list(alone.by_name) == ["old"]
    assert alone.metrics == ["faithfulness", "factual_correctness(mode=f1)"]
    # Ragas writes no number where the judge's response could not be parsed
    assert alone.by_name["old"].complete(["faithfulness"]) == {
        "Question 0?",
        "Question 2?",
    }
    both = read_results(["old.csv", "new.csv"])
    assert list(both.by_name) == ["old", "new"]
    assert "(column user_input)" in both.overview()


def test_a_spreadsheet_of_ragas(write: Write) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = write("r.xlsx", "")
    book = openpyxl.Workbook()
    rows = ragas([0.5, 1.0])
    for cells in ([*rows[0]], *(list(row.values()) for row in rows)):
        book.active.append(cells)
    book.save(path)
    scores = read_results([path])
    assert scores.kind == "tables of Ragas"
    assert scores.by_name["r"].scores["faithfulness"].tolist() == [0.5, 1]
    # A file that only begins as a spreadsheet does is refused as any other
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(InvalidArgumentError, match=r"r\.xlsx"):
        read_results([path])


def test_a_table_of_ragas_with_a_row_index_a_model_and_a_time(write: Write) -> None:
    rows = ragas([0.5, 1.0], model=["a", "a"], latency=[1.2, 3.4])
    rows += ragas([1.0, 1.0], model=["b", "b"], latency=[1.3, 1.4])
    rows = [{"Unnamed: 0": at, **row} for at, row in enumerate(rows)]
    scores = read_results([write("r.csv", as_csv(rows))])
    assert list(scores.by_name) == ["a", "b"]
    assert "Unnamed: 0" not in scores.metrics
    assert scores.metrics[-1] == "latency"


def test_a_metric_of_ragas_may_be_renamed_and_a_wanted_one_must_be_numbers(
    write: Write,
) -> None:
    path = write("r.csv", as_csv(ragas([0.5, 1.0])))
    renamed = read_results([path], Wanted(rename={"faithfulness": "faithful"}))
    assert renamed.metrics == ["faithful", "factual_correctness(mode=f1)"]
    path = write("r.csv", as_csv(ragas([0.5, "broken"])))
    assert read_results([path]).metrics == ["factual_correctness(mode=f1)"]
    with pytest.raises(InvalidArgumentError, match="'broken'"):
        read_results([path], Wanted(goal=("faithfulness",)))


def test_old_names_of_ragas_in_json(write: Write) -> None:
    rows = [
        {"question": q, "answer": "x", "contexts": ["c"], "ground_truth": "x", "context_recall": s}
        for q, s in [("a", 0.5), ("b", 1.0)]
    ]  # fmt: skip
    scores = read_results([write("r.json", rows)])
    assert scores.kind == "tables of Ragas"
    assert scores.metrics == ["context_recall"]


def test_ragas_without_a_score_is_refused(write: Write) -> None:
    rows = [{**row, "factual_correctness(mode=f1)": ""} for row in ragas(["", ""])]
    with pytest.raises(InvalidArgumentError, match=r"r\.csv has no column of scores"):
        read_results([write("r.csv", as_csv(rows))])


def langsmith(**columns: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "inputs.question": f"Question {at}?",
            "outputs.answer": "An answer.",
            "error": None,
            "reference.answer": "The truth.",
            "execution_time": 1.5,
            "example_id": f"0000-{at}",
            "id": f"ffff-{at}",
            **{name: values[at] for name, values in columns.items()},
        }
        for at in range(2)
    ]


def test_feedback_of_langsmith_is_a_metric(write: Write) -> None:
    feedback = {"feedback.correct": [True, False], "feedback.note": ["fine", "odd"]}
    rows = langsmith(**feedback, **{"outputs.n_words": [12, 15]})
    write("old.csv", as_csv(rows))
    write("new.json", rows)
    scores = read_results(["old.csv", "new.json"])
    assert scores.kind == "experiments of LangSmith"
    assert scores.metrics == ["feedback.correct", "execution_time"]
    assert scores.examples == ["0000-0", "0000-1"]


def test_an_error_of_langsmith_is_a_failure_and_repetitions_are_averaged(
    write: Write,
) -> None:
    rows = langsmith(**{"feedback.correct": [1, ""], "error": ["", "Timeout()"]})
    path = write("r.csv", as_csv([*rows, *({**row, "id": "e"} for row in rows)]))
    scores = read_results([path])
    (evaluations,) = scores.by_name.values()
    assert set(evaluations.errors.values()) == {"Timeout()"}
    assert "up to 2" in scores.remarks()[0]


def test_columns_keep_their_roles_under_new_names(write: Write) -> None:
    rows = langsmith(**{"feedback.correct": [1, 0]})
    wanted = Wanted(rename={"feedback.correct": "correct", "example_id": "case"})
    scores = read_results([write("r.csv", as_csv(rows))], wanted)
    assert scores.metrics == ["correct", "execution_time"]
    assert "(column case)" in scores.overview()
