"""Tables as people have them: the roles of columns follow from the cells, and a question replaces a guess."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import (
    Scores,
    UnclearResultsError,
    Wanted,
    read_results,
)

N = 8


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(header: str, *rows: Sequence[object]) -> str:
    lines = [",".join(map(str, row)) for row in rows]
    return "\n".join([header, *lines]) + "\n"


def wide(header: str, *columns: Sequence[object]) -> str:
    return table(header, *zip(*columns, strict=True))


def long(header: str, *columns: object, names: Sequence[str] = ("a", "b")) -> str:
    """A row for each name and example. A column is a function of both, given their positions."""
    return table(
        header,
        *(
            [column(k, i) if callable(column) else column for column in columns]
            for k in range(len(names))
            for i in range(N)
        ),
    )


def read(text: str, name: str = "r.csv", **wanted: object) -> Scores:
    Path(name).write_text(text, encoding="utf-8")
    return read_results([name], Wanted(**wanted))  # type: ignore[arg-type]


def means(scores: Scores, metric: str = "score") -> dict[str, float]:
    return {
        name: float(columns.scores[metric].mean())
        for name, columns in scores.by_name.items()
    }


def model(k: int, i: int) -> str:
    return "ab"[k]


def example(k: int, i: int) -> str:
    return f"q{i}"


def score(k: int, i: int) -> int:
    return (i + k) % 2


IDS = [f"q{i}" for i in range(N)]
HALF = [i % 2 for i in range(N)]
ONES = [1] * N


# One row for each example


@pytest.mark.parametrize(
    ("text", "names", "examples", "left_out"),
    [
        (wide("id,old,new", IDS, HALF, ONES), ["old", "new"], "column id", []),
        (wide("idx,old,new", range(1, N + 1), HALF, ONES), ["old", "new"], "column idx", []),
        (wide("№,Модель А,Модель Б", range(1, N + 1), HALF, ONES), ["Модель А", "Модель Б"], "column №", []),
        (wide(",old,new", range(N), HALF, ONES), ["old", "new"], "column (unnamed 1)", []),
        (wide("Aufgabe,old,new", range(7, 7 + 3 * N, 3), HALF, ONES), ["old", "new"], "column Aufgabe", []),
        (wide("old,new", HALF, ONES), ["old", "new"], "rows by their position", []),
        (wide("question,old,new", IDS, HALF, ONES), ["old", "new"], "column question", []),
        (wide("screenplay,old,new", IDS, HALF, ONES), ["old", "new"], "column screenplay", []),
        (wide("id,baseline,candidate", IDS, HALF, ONES), ["baseline", "candidate"], "column id", []),
        (wide("id,method,old,new", IDS, list("ab" * 4), HALF, ONES), ["old", "new"], "column id", ["method"]),
        (wide("id,difficulty,old,new", IDS, [1, 2] * 4, HALF, ONES), ["old", "new"], "column id", ["difficulty"]),
        (wide("date,old,new", [f"2024-01-{i + 10}" for i in range(N)], HALF, ONES), ["old", "new"],
         "rows by their position", ["date"]),
        (wide("id,old_score,new_score", IDS, HALF, ONES), ["old_score", "new_score"], "column id", []),
    ],
)  # fmt: skip
def test_columns_of_candidates(
    text: str, names: list[str], examples: str, left_out: list[str]
) -> None:
    scores = read(text)
    assert (list(scores.by_name), scores.of_examples) == (names, examples)
    assert (scores.of_candidates, scores.left_out) == ("columns", left_out)
    assert means(scores) == {names[0]: 0.5, names[1]: 1.0}


@pytest.mark.parametrize(
    "header",
    [
        "id,accuracy,latency_ms",
        "id,rouge1,rouge2",
        "id,judge_1,judge_2",
        "id,score_1,score_2",
        "id,clarity,helpfulness",
        "id,precision_at_1,precision_at_5",
        "id,is_valid,has_citation",
    ],
)
def test_columns_of_metrics_are_no_candidates(header: str) -> None:
    scores = read(wide(header, IDS, HALF, [i % 3 for i in range(N)]))
    assert list(scores.by_name) == ["r"]
    assert set(scores.metrics) == set(header.split(",")[1:])


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (wide("id,old,new,latency_ms", IDS, HALF, ONES, range(900, 900 + N)), "--candidates old,new"),
        (wide("id,response,foo,bar", IDS, IDS, HALF, ONES), "--candidates foo,bar"),
        (wide("id,run1,run2", IDS, HALF, ONES), "--candidates run1,run2"),
        (wide("old,when,new", HALF, range(1_700_000_000, 1_700_000_000 + N), ONES), "--candidates old,new"),
        (wide("id,a,b,p,q,r", IDS, HALF, ONES, IDS, IDS, IDS), "--metrics a,b"),
        (wide('id,"x, y",z,cost', IDS, HALF, ONES, HALF), """--candidates '"x, y",z'"""),
    ],
)  # fmt: skip
def test_a_question_replaces_a_guess(text: str, flags: str) -> None:
    with pytest.raises(UnclearResultsError, match="may be candidates or metrics") as e:
        read(text)
    assert flags in str(e.value)
    assert len(e.value.readings) == 2


def test_flags_answer_the_question() -> None:
    text = wide("id,old,new,latency_ms", IDS, HALF, ONES, range(900, 900 + N))
    scores = read(text, candidates=("old", "new"))
    assert (list(scores.by_name), scores.left_out) == (["old", "new"], ["latency_ms"])
    assert read(text, metrics=("old", "latency_ms")).metrics == ["old", "latency_ms"]
    assert list(read(text, ignore=("latency_ms",)).by_name) == ["old", "new"]
    assert list(read(text, ignore=("latency_ms",), rename={"old": "v1"}).by_name) == ["v1", "new"]  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=r"no column 'latency'.*--ignore"):
        read(text, ignore=("latency",))


def test_a_column_for_each_candidate_and_metric() -> None:
    cost = [2 * i for i in range(N)]
    scores = read(
        wide("id,old_acc,new_acc,old_cost,new_cost", IDS, HALF, ONES, cost, cost)
    )
    assert means(scores, "acc") == {"old": 0.5, "new": 1.0}
    assert scores.metrics == ["acc", "cost"]


@pytest.mark.parametrize(
    ("header", "metric"),
    [
        ("id,loss_v1,loss_v2", "loss"),
        ("id,old latency (ms),new latency (ms)", "latency_ms"),
        ("id,old_score,new_score", "score"),
        ("id,old,new", "score"),
    ],
)
def test_the_metric_in_the_names_of_all_candidates(header: str, metric: str) -> None:
    # With the metric "score", a larger loss would win
    scores = read(wide(header, IDS, HALF, ONES))
    assert (list(scores.by_name), scores.metrics) == (header.split(",")[1:], [metric])


def test_columns_in_percent_and_without_it() -> None:
    text = wide("id,old,new", IDS, range(50, 50 + N), [f"{i}%" for i in range(60, 68)])
    with pytest.raises(InvalidArgumentError, match=r"line 2: .*'old'.*'50'.*'60%'"):
        read(text)


def test_a_text_among_the_scores_of_a_candidate() -> None:
    text = wide("id,old,new", IDS, HALF, ["maybe", *ONES[1:]])
    with pytest.raises(
        InvalidArgumentError, match=r"line 2: .*'new'.*'maybe'.*--ignore"
    ):
        read(text)
    assert list(read(text, ignore=("new",)).by_name) == ["r"]


def test_rows_that_are_no_examples() -> None:
    scores = read(wide("id,old,new", [*IDS, "Average"], [*HALF, 0.5], [*ONES, 1]))
    assert len(scores.examples) == N
    assert "line 10" in scores.notes[0]
    scores = read(wide("id,old,new", [*IDS, ""], [*HALF, 0.5], [*ONES, 1]))
    assert len(scores.examples) == N
    assert "1 of 9 rows have no id (column id)" in scores.notes[0]


@pytest.mark.parametrize("seed", range(3))
def test_totals_among_the_rows_of_candidates(seed: int) -> None:
    ids = [*range(N), "sum", "Total"]
    rows = [(m, i, n) for m in "ab" for i, n in zip(ids, [*HALF, 0, 4], strict=True)]
    random.Random(seed).shuffle(rows)
    scores = read(table("model,id,correct", *rows))
    # An example may have such a name, too
    assert "sum" in scores.examples
    assert "Total" not in scores.examples
    assert len(scores.examples) == N + 1
    assert "rows that summarize others" in scores.notes[0]


@pytest.mark.parametrize("title", ["Total", "macro avg", "Weighted average:", "Grand total"])  # fmt: skip
def test_titles_of_rows_that_summarize(title: str) -> None:
    scores = read(wide("id,old,new", [*IDS, title], [*HALF, 0.5], [*ONES, 1]))
    assert len(scores.examples) == N


def test_ids_of_prompts_beside_columns_of_candidates() -> None:
    scores = read(wide("prompt_id,rank_old,rank_new", IDS, HALF, ONES))
    assert (scores.of_examples, scores.metrics) == ("column prompt_id", ["rank"])


# One row for each evaluation


@pytest.mark.parametrize(
    ("text", "candidates", "examples", "left_out"),
    [
        (long("model,id,score", model, example, score), "column model:", "column id", []),
        (long("model,question,score", model, example, score), "column model:", "column question", []),
        (long("id,prompt,model,score", example, example, model, score), "column model:", "column id", ["prompt"]),
        (long("idx,model,question,score", lambda k, i: k * N + i, model, example, score), "column model:",
         "column question", ["idx"]),
        (long("provider,model,id,score", "x", model, example, score), "column model:", "column id", ["provider"]),
        (long("model,id,answer,score", model, example, lambda k, i: "ABC"[(k + i) % 3], score), "column model:",
         "column id", ["answer"]),
        (long("model,id,score,level_of_pain", model, example, score, lambda k, i: i), "column model:", "column id",
         ["level_of_pain"]),
        (long("model,ticket_id,score", model, example, score), "column model:", "column ticket_id", []),
    ],
)  # fmt: skip
def test_a_column_with_the_names_of_candidates(
    text: str, candidates: str, examples: str, left_out: list[str]
) -> None:
    scores = read(text)
    assert (scores.of_candidates, scores.of_examples) == (candidates, examples)
    assert (scores.metrics, scores.left_out) == (["score"], left_out)
    assert {name: len(each.examples) for name, each in scores.by_name.items()} == {
        "a": N,
        "b": N,
    }


def test_what_names_the_candidates_is_asked() -> None:
    rows = [(m, p, i, 1) for m in "ab" for p in ("p1", "p2") for i in range(N)]
    text = table("model,prompt,id,score", *rows)
    with pytest.raises(UnclearResultsError, match="--candidate-column prompt,model"):
        read(text)
    scores = read(text, candidate_columns=("prompt", "model"))
    assert list(scores.by_name) == ["p1/a", "p2/a", "p1/b", "p2/b"]
    assert list(read(text, compared=("p1", "p2"), repeats=True).by_name) == ["p1", "p2"]
    text = long("annotator,id,score", model, example, score)
    with pytest.raises(UnclearResultsError, match="--candidate-column annotator"):
        read(text)
    assert list(read(text, candidates=("b",)).by_name) == ["b"]
    assert list(read(text, compared=("b",)).by_name) == ["a", "b"]


def test_averages_are_refused() -> None:
    text = table("model,accuracy,latency", ("a", 0.8, 3), ("b", 0.9, 4))
    with pytest.raises(InvalidArgumentError, match="the rows are averages"):
        read(text)


LEADERS = [("a", 60, 80), ("b", 50, 70), ("c", 55, 82)]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (table("Model,ARC,HellaSwag", *LEADERS), "Model"),
        (table("Model,Average,ARC,Size", ("a", 70, 60, 7), ("b", 60, 50, 13), ("c", 68, 55, 70)), "Model"),
        (table("Rank,Model,old,new", (1, "a", 60, 80), (2, "b", 50, 70), (3, "c", 55, 82)), "Model"),
        (table(",old,new", *LEADERS), "'(unnamed 1)'"),
        (table("Unnamed: 0,old,new", ("v1", 60, 80), ("v2", 50, 70)), "'Unnamed: 0'"),
        (table("Model,Score,95% CI", ("a", 60, "+3/-3"), ("b", 50, "+2/-3")), "Model"),
        (table(",win_rate,standard_error", ("a", 95.3, 0.7), ("b", 88.4, 1.1), ("c", 86, 1)), "'(unnamed 1)'"),
        (table("metric,old,new", ("accuracy", 0.7, 0.8), ("f1", 0.6, 0.7), ("kappa", 0.6, 0.5)), "metric"),
        (table(",old,new", ("accuracy", 0.7, 0.8), ("latency_s", 1, 2), ("cost_usd", 1, 3)), "'(unnamed 1)'"),
        (table("run_id,metrics.rmse,params.alpha", ("a", 0.8, 0.1), ("b", 0.7, 0.2), ("c", 0.6, 1)), "run_id"),
    ],
)  # fmt: skip
def test_rows_of_candidates_and_metrics_are_no_examples(text: str, column: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the rows are averages") as e:
        read(text)
    assert str(e.value).endswith(f"pass --example-column {column}.")
    # Each column may be a question, unless its rows are metrics or runs, or have errors
    others = ("metric", "run_id", ",win_rate", ",old,new\naccuracy")
    assert ("swap rows" in str(e.value)) != text.startswith(others)


@pytest.mark.parametrize(
    "labels", ["run step5 step10 step15", "step 500 1000 1500", ""]
)
def test_benchmarks_are_no_candidates(labels: str) -> None:
    lines = ["MMLU-Pro,Hella Swag,size", "60,80,7", "50,70,8", "55,82,7"]
    labeled = list(map(",".join, zip(labels.split(), lines, strict=False)))
    text = "\n".join(labeled or lines)
    with pytest.raises(InvalidArgumentError, match="the names of benchmarks") as e:
        read(text)
    assert "--candidates 'MMLU-Pro,Hella Swag,size'." in str(e.value)
    assert len(read(text, candidates=("MMLU-Pro", "Hella Swag")).by_name) == 2


@pytest.mark.parametrize("ids", ["q{}", "django__django-{}", "0a{:04x}"])
def test_numbered_and_random_ids_of_rows_are_examples(ids: str) -> None:
    rows = [(ids.format(place), 0, 1) for place in range(10, 20)]
    assert len(read(table(",old,new", *rows)).by_name) == 2


@pytest.mark.parametrize(
    "cell",
    ["0.85±0.02", "85.1 (1.2)", "0.8 [0.7, 0.9]", "0.8 (0.7-0.9)"],
)
def test_averages_with_errors_are_named_as_such(cell: str) -> None:
    text = f'model,accuracy\na,"{cell}"\nb,"{cell}"\n'
    with pytest.raises(InvalidArgumentError, match="has averages with errors, such as"):
        read(text, example_columns=("model",))


def test_columns_that_may_be_named_as_examples() -> None:
    text = wide("Model,old,new", IDS, HALF, ONES)
    assert list(read(text, candidates=("old", "new")).by_name) == ["old", "new"]
    assert list(read(text, example_columns=("Model",)).by_name) == ["old", "new"]
    text = wide("prompt,old,new", IDS, HALF, ONES)
    assert read(text).of_examples == "column prompt"


def test_settings_and_standard_errors_are_no_metrics() -> None:
    header = "model,task,acc,acc_stderr,params.alpha,learning_rate"
    scores = read(long(header, model, example, score, 0.1, lambda k, i: i, 0.01))
    assert scores.metrics == ["acc"]
    assert scores.left_out == ["acc_stderr", "params.alpha", "learning_rate"]


def test_comparisons_are_no_scores() -> None:
    rows = [(i, "a", "b", "model_a", 1686.1 + i) for i in range(N)]
    text = table("question_id,model_a,model_b,winner,seconds", *rows)
    with pytest.raises(InvalidArgumentError, match="better one in the column 'winner'"):
        read(text)
    assert read(text, metrics=("seconds",)).metrics == ["seconds"]
    text = wide("id,model_a,model_b,winner", IDS, HALF, ONES, ["model_b"] * N)
    assert list(read(text).by_name) == ["model_a", "model_b"]


def test_differences_are_no_candidates() -> None:
    change = [0.5 * i for i in range(N)]
    new = [a + b for a, b in zip(HALF, change, strict=True)]
    for name in ("diff", "Differenz", "Δ"):
        scores = read(wide(f"id,old,new,{name}", IDS, HALF, new, change))
        assert (list(scores.by_name), scores.left_out) == (["old", "new"], [name])
    # A candidate may have such a name
    scores = read(wide("id,alpha,beta,delta", IDS, HALF, new, ONES))
    assert list(scores.by_name) == ["alpha", "beta", "delta"]


def test_the_prompts_of_a_model_are_examples() -> None:
    header = "prompt_id,category,model,score"
    scores = read(long(header, example, lambda k, i: "xy"[i % 2], model, score))
    assert scores.of_examples == "column prompt_id"
    assert len(scores.examples) == N


def test_columns_that_may_identify_examples_are_asked() -> None:
    rows = [(m, d, s, s) for m in "ab" for d in ("cora", "pubmed") for s in range(3)]
    text = table("method,dataset,seed,acc", *rows)
    with pytest.raises(UnclearResultsError, match="--example-column dataset --repeats"):
        read(text)
    scores = read(text, example_columns=("dataset",), repeats=True)
    assert scores.examples == ["cora", "pubmed"]


def test_repeats() -> None:
    rows = [(m, i, r, (i + r) % 2) for m in "ab" for i in range(N) for r in range(3)]
    scores = read(table("model,id,run,score", *rows))
    assert (scores.repeats, scores.left_out) == ("column run", [])
    without = [(m, i, s) for m, i, _, s in rows]
    # Alike for all candidates
    assert len(read(table("model,id,score", *without)).by_name["a"].examples) == 3 * N
    with pytest.raises(UnclearResultsError, match="--repeats"):
        read(table("model,id,score", *without[:-1]))
    assert read(table("model,id,score", *without[:-1]), repeats=True).repeats is None


def test_an_id_within_a_subject() -> None:
    rows = [(m, s, i, i % 2) for m in "ab" for s in ("law", "math") for i in range(N)]
    text = table("model,subject,id,correct", *rows)
    with pytest.raises(UnclearResultsError, match="--example-column subject,id"):
        read(text)
    scores = read(text, example_columns=("subject", "id"))
    assert scores.examples[:2] == ["law/0", "law/1"]
    assert scores.remarks() == []


def test_a_row_for_each_score() -> None:
    rows = [(m, i, k, 1) for m in "ab" for i in range(N) for k in ("acc", "f1")]
    scores = read(table("model,id,metric,value", *rows))
    assert (scores.metrics, len(scores.examples)) == (["acc", "f1"], N)


def test_a_row_for_each_score_with_a_threshold() -> None:
    rows = [(f"t {i}", m, i % 2, 0.5, m) for i in range(N) for m in ("clear", "kind")]
    text = table("{},metric_name,score,threshold,reason", *rows)
    for name in ("test_case", "ticket"):
        scores = read(text.format(name))
        assert scores.metrics == ["clear", "kind"]
        assert len(scores.examples) == N
        assert scores.left_out == ["threshold"]
        assert scores.notes == (
            "r.csv: columns that differ between metrics are left out: reason.",
        )


def test_only_metrics_of_the_goal_must_be_numbers() -> None:
    text = long(
        "id,model,predicted,correct",
        example,
        model,
        lambda k, i: "?!" if i == 3 else i,
        1,
    )
    assert read(text, goal=("correct",)).metrics == ["correct"]
    with pytest.raises(InvalidArgumentError, match="'predicted' must hold finite"):
        read(text, goal=("predicted",))


# Failures


@pytest.mark.parametrize(
    "nothing", ["False", "0", "None", "[]", "{}", "no", "-", "N/A", "", "ok", "null"]
)
def test_an_error_that_says_nothing(nothing: str) -> None:
    text = long("model,id,score,error", model, example, score, nothing)
    assert all(not each.errors for each in read(text).by_name.values())


def test_failures() -> None:
    text = long(
        "model,id,score,error",
        model,
        example,
        lambda k, i: "" if i == 3 else score(k, i),
        lambda k, i: "boom" if i == 3 else "False",
    )
    assert read(text).by_name["a"].errors == {3: "boom"}
    status = long(
        "model,id,score,status",
        model,
        example,
        lambda k, i: "" if i > 3 else score(k, i),
        lambda k, i: ("ok", "failed", "ok", "timeout", "failed", "ok", "OOM", "ok")[i],
    )
    # A "failed" test has a score, unless it has none
    assert read(status).by_name["a"].errors == {3: "timeout", 4: "failed", 6: "OOM"}
    passes = long(
        "model,id,status", model, example,
        lambda k, i: "timeout" if i == 3 else "passed" if i % 2 else "failed",
    )  # fmt: skip
    scores = read(passes)
    assert scores.by_name["a"].errors == {3: "timeout"}
    assert scores.by_name["a"].scores["status"].tolist()[:3] == [0, 1, 0]
    with pytest.raises(InvalidArgumentError, match="'Worker was not ready' in 8 of 8"):
        read(wide("id,score,error", IDS, [""] * N, ["Worker was not ready"] * N))


# Notations


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["60%", "6 %", "0.5%"], [0.6, 0.06, 0.005]),
        (["$1.50", "$2", "-$3"], [1.5, 2, -3]),
        (["1,50 €", "2,00 €", "3,25 €"], [1.5, 2, 3.25]),
        (["1,200", "2,300", "12,345.5"], [1200, 2300, 12345.5]),
        (["1'200", "2 300", "4 500"], [1200, 2300, 4500]),
        (["1.234,5", "0,5", "2"], [1234.5, 0.5, 2]),
        (["3/5", "4 of 5", "1 / 4"], [0.6, 0.8, 0.25]),
        (["correct", "Incorrect", "correct"], [1, 0, 1]),
        (["PASS", "fail", "n/a"], [1, 0, math.nan]),
        (["ja", "nein", "ja"], [1, 0, 1]),
        (["oui", "non", ""], [1, 0, math.nan]),
        (["да", "нет", "да"], [1, 0, 1]),
        (["是", "否", "是"], [1, 0, 1]),
        (["✅", "❌", "✔"], [1, 0, 1]),
        (["True", "false", "-"], [1, 0, math.nan]),
        (["−0.5", "+1", ".25"], [-0.5, 1, 0.25]),
    ],
)
def test_notations(cells: list[str], numbers: list[float]) -> None:
    text = "id;model;value\n" + "".join(
        f"q{i};{name};{cell}\n" for name in "ab" for i, cell in enumerate(cells)
    )
    column = read(text).by_name["a"].scores["value"]
    assert column.tolist() == pytest.approx(numbers, nan_ok=True)


@pytest.mark.parametrize(
    "cells", [["A", "B", "F"], ["60%", "61", "62"], ["1e999", "1", "0"]]
)
def test_notations_that_are_refused(cells: list[str]) -> None:
    rows = [(f"q{i}", name, cell) for name in "ab" for i, cell in enumerate(cells)]
    with pytest.raises(InvalidArgumentError, match="value"):
        read(table("id,model,value", *rows), goal=("value",))


# Ids


def test_ids_are_values() -> None:
    ways = [map(str, range(N)), [f"{i}.0" for i in range(N)], [f" {i} " for i in range(N)]]  # fmt: skip
    for at, ids in enumerate(ways):
        Path(f"r{at}.csv").write_text(wide("id,acc", list(ids), HALF))
    scores = read_results([f"r{at}.csv" for at in range(3)])
    assert scores.examples == [str(i) for i in range(N)]
    assert read(wide("id,old,new", ["007", "7"], [0, 1], [1, 1])).examples == ["007", "7"]  # fmt: skip


def test_apostrophes_that_keep_a_spreadsheet_from_calculating() -> None:
    scores = read(wide("id,'=old,new", ["'=1+1", "'-x", "'90s"], [0, 1, 1], [1, 1, 1]))
    assert scores.examples == ["=1+1", "-x", "'90s"]
    assert list(scores.by_name) == ["=old", "new"]


def test_candidates_that_cannot_be_compared() -> None:
    Path("old.csv").write_text(wide("id,acc", IDS, HALF))
    Path("new.csv").write_text(wide("id,acc", [f"x{i}" for i in range(N)], HALF))
    scores = read_results(["old.csv", "new.csv"])
    with pytest.raises(InvalidArgumentError, match="'q0' of 'old', 'x0' of 'new'"):
        scores.check_common(["acc"])
    Path("new.csv").write_text(wide("id,accuracy", IDS, HALF))
    with pytest.raises(InvalidArgumentError, match="--rename"):
        read_results(["old.csv", "new.csv"])
    renamed = read_results(["old.csv", "new.csv"], Wanted(rename={"acc": "accuracy"}))
    assert renamed.metrics == ["accuracy"]


# Layouts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", "sep=;\nid;old;new\nq0;0;1\nq1;1;1\n"),
        ("r.csv", "id, old, new\nq0, 0, 1\nq1, 1, 1\n"),
        ("r.csv", "Evaluation of May,,\n,,\nid,old,new\nq0,0,1\nq1,1,1\n"),
        ("r.csv", "\ufeffid\told\tnew\nq0\t0\t1\nq1\t1\t1\n"),
        ("r.txt", "id;old;new\nq0;0,0;1,0\nq1;1,0;1,0\n"),
        ("r.csv", json.dumps([{"id": f"q{i}", "old": i, "new": 1} for i in (0, 1)])),
        ("r.json", '{"id": "q0", "old": 0, "new": 1}\n{"id": "q1", "old": 1, "new": 1}\n'),
        ("r.ndjson", '{"id": "q0", "old": 0, "new": 1}\n{"id": "q1", "old": 1, "new": 1}\n'),
        ("r.json", '{"columns": ["id", "old", "new"], "data": [["q0", 0, 1], ["q1", 1, 1]]}'),
        ("r.json", '{"run": {"rows": [{"id": "q0", "old": 0, "new": 1}, {"id": "q1", "old": 1, "new": 1}]}, "n": 2}'),
        ("r.json", '{"id": ["q0", "q1"], "old": [0, 1], "new": [1, 1]}'),
        ("r.json", '{"q0": {"old": 0, "new": 1}, "q1": {"old": 1, "new": 1}}'),
    ],
)  # fmt: skip
def test_layouts(name: str, text: str) -> None:
    scores = read(text, name)
    assert scores.examples == ["q0", "q1"]
    assert means(scores) == {"old": 0.5, "new": 1.0}


def test_a_header_of_two_rows_with_words_that_may_be_scores() -> None:
    scores = read("id,old,,new,\n,solved,cost,solved,cost\nq0,no,$1,yes,$2\nq1,yes,$1,yes,$2\n")  # fmt: skip
    assert means(scores, "solved") == {"old": 0.5, "new": 1.0}
    assert means(scores, "cost") == {"old": 1.0, "new": 2.0}
    names = ("pass", "fail")
    text = "id,pass,fail\nq0,1,0\nq1,1,1\n"
    assert tuple(read(text, candidates=names).by_name) == names


def test_a_header_of_two_rows_that_repeats_the_names_of_candidates() -> None:
    scores = read(",old,old,new,new\nid,acc,cost,acc,cost\nq0,1,2,1,2\nq1,0,2,1,3\n")
    assert means(scores, "acc") == {"old": 0.5, "new": 1.0}
    assert scores.of_examples == "column id"


@pytest.mark.parametrize("corner", ["metric,{}\nmodel,{}\nid,,,,\n", ",{}\n,{}\nid,,,,\n"])  # fmt: skip
def test_a_pivot_table_has_metrics_above_candidates(corner: str) -> None:
    header = corner.format("acc,acc,latency,latency", "old,new,old,new")
    scores = read(f"{header}q0,1,1,2,4\nq1,0,1,2,6\n")
    assert means(scores, "acc") == {"old": 0.5, "new": 1.0}
    assert means(scores, "latency") == {"old": 2.0, "new": 5.0}
    assert (scores.of_examples, scores.examples) == ("column id", ["q0", "q1"])


def test_names_of_columns_with_line_breaks() -> None:
    scores = read('id,"old\n(5-shot)","new\n(5-shot)"\nq0,0,1\nq1,1,1\n')
    assert list(scores.by_name) == ["old (5-shot)", "new (5-shot)"]


def test_settings_make_other_candidates() -> None:
    rows = [(m, t, i, 1) for m in "ab" for t in (0, 0.7) for i in range(N)]
    text = table("model,temperature,id,score", *rows)
    with pytest.raises(UnclearResultsError, match="--candidate-column model,temper"):
        read(text)
    scores = read(text, candidate_columns=("model", "temperature"))
    assert list(scores.by_name) == ["a/0", "a/0.7", "b/0", "b/0.7"]


def test_candidates_without_examples() -> None:
    text = table("model,score", *((m, i % 2) for m in "ab" for i in range(N)))
    with pytest.raises(InvalidArgumentError, match="no column that identifies"):
        read(text)


@pytest.mark.parametrize(
    ("letters", "is_score"),
    [("yn", True), ("TF", True), ("x✓", True), ("xy", False), ("mf", False), ("ab", False)],
)  # fmt: skip
def test_letters(letters: str, is_score: bool) -> None:
    text = long("model,id,it,score", model, example, lambda k, i: letters[(i + k) % 2], score)  # fmt: skip
    assert ("it" in read(text).metrics) == is_score


def test_nested_scores_have_dots() -> None:
    rows = [{"id": i, "model": m, "scores": {"acc": 1, "f1": 0.5}} for m in "ab" for i in range(3)]  # fmt: skip
    scores = read("\n".join(map(json.dumps, rows)), "r.jsonl")
    assert scores.metrics == ["scores.acc", "scores.f1"]


def test_spreadsheets() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Read me", "see the next sheet"])
    sheet = book.create_sheet("Scores")
    for row in (
        ["May", None, None, None, None],
        ["id", "Model A", None, "Model B", None],
        [None, "score", "latency", "score", "latency"],
        *([f"q{i}", i % 2, 100 + i, 1, 200 + i] for i in range(N)),
    ):
        sheet.append(row)
    book.save("r.xlsx")
    scores = read_results(["r.xlsx"])
    assert means(scores) == {"Model A": 0.5, "Model B": 1.0}
    assert scores.metrics == ["score", "latency"]
    assert "sheet 'Scores'" in scores.notes[0]
    other = book.create_sheet("Other")
    for row in (["id", "old", "new"], ["q0", 0, 1]):
        other.append(row)
    book.save("r.xlsx")
    with pytest.raises(UnclearResultsError, match="--sheet Scores"):
        read_results(["r.xlsx"])
    assert list(read_results(["r.xlsx"], Wanted(sheet="Other")).by_name) == ["old", "new"]  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="--sheet does not apply"):
        read("id,old,new\nq0,1,0\n", sheet="Other")


def test_the_order_of_rows_and_columns_does_not_matter() -> None:
    rng = random.Random(1)
    rows = [
        {"id": f"q{i}", "model": m, "note": "x", "acc": (i * k) % 3 / 2, "cost": i + k}
        for k, m in enumerate("abc")
        for i in range(N)
    ]
    expected = read(json.dumps(rows), "r.json")
    for _ in range(20):
        rng.shuffle(rows)
        keys = list(rows[0])
        rng.shuffle(keys)
        scores = read(json.dumps([{key: row[key] for key in keys} for row in rows]), "r.json")  # fmt: skip
        assert set(scores.metrics) == set(expected.metrics)
        for name, columns in expected.by_name.items():
            mine = scores.by_name[name]
            for metric, values in columns.scores.items():
                assert dict(zip(mine.examples, mine.scores[metric].tolist(), strict=True)) == dict(
                    zip(columns.examples, values.tolist(), strict=True)
                )  # fmt: skip
