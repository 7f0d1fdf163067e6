"""Results that people have: every format gives the same table, and a file that is none of them says what is read."""

import io
import json
import math
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import BestFeasible, InvalidArgumentError
from asktell_adapters.finished import (
    Scores,
    UnclearResultsError,
    Wanted,
    read_results,
)
from tests.command_line import cli

ASSETS = Path(__file__).parents[2] / "assets" / "inspect"
SCORES = {"old": [1, 0, 0, 1, 0, 1], "new": [1, 1, 0, 1, 1, 1]}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def scores_in(scores: Scores, metric: str) -> dict[str, list[float]]:
    return {name: each.scores[metric].tolist() for name, each in scores.by_name.items()}


# Tables


def long_rows() -> list[dict[str, Any]]:
    return [
        {"prompt": name, "example": f"q{i}", "accuracy": score, "cost": 0.5 + i}
        for name, scores in SCORES.items()
        for i, score in enumerate(scores)
    ]


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    return (
        "\n".join(
            delimiter.join(map(str, row))
            for row in ([*rows[0]], *(row.values() for row in rows))
        )
        + "\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", as_csv(long_rows())),
        ("r.csv", as_csv(long_rows(), ";")),
        ("r.csv", "\ufeff" + as_csv(long_rows())),
        ("r.tsv", as_csv(long_rows(), "\t")),
        ("r.json", json.dumps(long_rows())),
        ("r.json", json.dumps({"rows": long_rows()})),
        ("r.jsonl", lines(long_rows())),
        ("r.csv", as_csv([{"model" if k == "prompt" else "id" if k == "example" else k: v for k, v in row.items()}
                          for row in long_rows()])),
    ],
)  # fmt: skip
def test_a_row_per_evaluation(name: str, text: str) -> None:
    scores = read_results([write(name, text)])
    assert scores_in(scores, "accuracy") == SCORES
    assert scores.metrics == ["accuracy", "cost"]
    assert scores.examples == [f"q{i}" for i in range(6)]


def test_columns_of_other_names() -> None:
    rows = [
        {"who": row["prompt"], "what": row["example"], "accuracy": row["accuracy"]}
        for row in long_rows()
    ]
    path = write("r.csv", as_csv(rows))
    assert (
        scores_in(
            read_results(
                [path], Wanted(candidate_columns=("who",), example_columns=("what",))
            ),
            "accuracy",
        )
        == SCORES
    )
    with pytest.raises(
        InvalidArgumentError,
        match=r"no column 'whom' \(did you mean 'who'\?\), which --candidate-column names",
    ):
        read_results([path], Wanted(candidate_columns=("whom",)))
    with pytest.raises(UnclearResultsError, match="--candidate-column who"):
        read_results([path], Wanted(example_columns=("what",)))


def test_a_column_per_prompt() -> None:
    path = write("r.csv", "id,question,old,new\n" + "".join(
        f"q{i},why?,{a},{b}\n" for i, (a, b) in enumerate(zip(*SCORES.values(), strict=True))
    ))  # fmt: skip
    scores = read_results([path], Wanted(goal=("accuracy",)))
    assert scores_in(scores, "accuracy") == SCORES
    assert scores.left_out == ["question"]
    assert scores.overview() == (
        "Read 2 candidates (columns old, new) x 6 examples (column id), accuracy from 0 to 1; left out: question."
    )


def test_words_gaps_and_what_is_not_known() -> None:
    scores = read_results(
        [write("r.csv", "old,new\nTrue,pass\nfalse,N/A\nyes,nan\nno,\n")]
    )
    assert scores_in(scores, "score") == {"old": [1, 0, 1, 0], "new": [1]}


def test_several_tables_are_several_candidates() -> None:
    for name, scores in SCORES.items():
        write(
            f"{name}.csv",
            "id,ok\n" + "".join(f"q{i},{score}\n" for i, score in enumerate(scores)),
        )
    scores = read_results(["old.csv", "new.csv"])
    assert scores_in(scores, "ok") == SCORES
    assert scores.notes == ()
    for name, scores in SCORES.items():
        write(f"{name}.csv", "ok\n" + "".join(f"{score}\n" for score in scores))
    joined = read_results(["old.csv", "new.csv"])
    assert "(files old, new) x 6 examples (rows by their position)" in joined.overview()
    write("new.csv", "ok\n1\n")
    with pytest.raises(InvalidArgumentError, match="6 of 'old', 1 of 'new'"):
        read_results(["old.csv", "new.csv"])


def test_a_name_that_two_files_have_is_one_of_each() -> None:
    write("before/r.csv", as_csv(long_rows()))
    write("after/r.csv", as_csv(long_rows()))
    assert list(read_results(["before/r.csv", "after/r.csv"]).by_name) == [
        "before/old", "before/new", "after/old", "after/new",
    ]  # fmt: skip


def test_repeats_errors_and_segments() -> None:
    rows = [{**row, "segment": "en", "error": ""} for row in long_rows()]
    rows += [{**rows[0], "accuracy": 0}, {**rows[1], "error": "timeout"}]
    path = write("r.csv", as_csv(rows))
    with pytest.raises(UnclearResultsError, match="--repeats"):
        read_results([path])
    scores = read_results([path], Wanted(repeats=True))
    assert scores.remarks() == [
        "2 of 12 cells were evaluated several times, up to 2. Repeated evaluations of a cell are averaged."
    ]
    table = scores.table(BestFeasible("accuracy"))
    assert (table.arms[-1], table.places[-1]) == (0, 1)
    assert table.reasons == ["timeout"]
    assert table.segments == ["en"] * 6
    assert len(table.scores) == 13


def test_the_examples_are_those_of_the_chosen_candidates() -> None:
    rows = ["old,a,1", "old,b,0", "new,b,1", "new,d,1", "other,e,1"]
    path = write("r.csv", "\n".join(["prompt,example,accuracy", *rows]))
    table = read_results([path]).table(BestFeasible("accuracy"), ["new", "old"])
    assert sorted(table.examples) == ["a", "b", "d"]
    assert list(table.prompts) == ["new", "old"]


# promptfoo


def promptfoo_rows(provider: str = "openai:gpt-4o-mini") -> list[dict[str, Any]]:
    passed = {
        "pass": True,
        "score": 1,
        "reason": "Assertion passed",
        "assertion": {"type": "equals", "metric": "right"},
    }
    return [
        {
            "promptIdx": at,
            "testIdx": i,
            "prompt": {"raw": f"{name} Why {i}?", "label": name},
            "provider": {"id": provider, "label": ""},
            "vars": {"question": f"Why {i}?"},
            "testCase": {
                "vars": {"question": f"Why {i}?"},
                "assert": [{"type": "equals"}],
            },
            "success": bool(score),
            "score": score,
            "failureReason": 0 if score else 1,
            "error": None if score else "Expected output to equal x",
            "namedScores": {"right": score},
            "gradingResult": {
                "pass": bool(score),
                "componentResults": [{**passed, "pass": bool(score)}],
            },
            "response": {"output": "x", "cost": 0.001},
            "latencyMs": 250,
            "cost": 0.001,
            "tokenUsage": {"total": 12, "prompt": 10, "completion": 2},
        }
        for at, (name, scores) in enumerate(SCORES.items())
        for i, score in enumerate(scores)
    ]


def promptfoo(rows: list[dict[str, Any]]) -> str:
    return json.dumps(
        {
            "evalId": "eval-1",
            "results": {"version": 3, "results": rows, "stats": {}},
            "config": {},
        }
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.json", promptfoo(promptfoo_rows())),
        ("results.json", json.dumps({"results": promptfoo_rows()})),
        ("results.jsonl", lines(promptfoo_rows())),
    ],
)
def test_results_of_promptfoo(name: str, text: str) -> None:
    scores = read_results([write(name, text)])
    assert scores_in(scores, "right") == SCORES
    assert scores.metrics == [
        "success",
        "score",
        "right",
        "latency",
        "cost",
        "input_tokens",
        "output_tokens",
        "tokens",
    ]
    assert {
        x for made in scores.by_name.values() for x in made.scores["latency"].tolist()
    } == {0.25}
    assert len(scores.examples) == 6


def test_promptfoo_with_several_providers_an_error_and_a_filter() -> None:
    rows = [*promptfoo_rows("a"), *promptfoo_rows("b")]
    rows[0] = {**rows[0], "failureReason": 2, "error": "the key is wrong"}
    rows = [{**row, "testIdx": 0} for row in rows]  # as a filter renumbers them
    scores = read_results([write("results.json", promptfoo(rows))])
    assert list(scores.by_name) == ["a/old", "a/new", "b/old", "b/new"]
    assert (
        scores.by_name["a/old"].errors[0]
        == "promptfoo reported this error: the key is wrong"
    )
    assert len(scores.examples) == 6


def test_promptfoo_with_one_prompt_names_the_providers() -> None:
    rows = [
        row
        for provider in "ab"
        for row in promptfoo_rows(provider)
        if row["prompt"]["label"] == "old"
    ]
    assert list(read_results([write("results.json", promptfoo(rows))]).by_name) == [
        "a",
        "b",
    ]


def test_errors_of_promptfoo_2() -> None:
    rows = promptfoo_rows()
    for row in rows:
        del row["failureReason"]
    rows[0] |= {"error": "API call error: 429", "gradingResult": None}
    scores = read_results([write("results.json", promptfoo(rows))])
    assert scores.by_name["old"].errors == {
        0: "promptfoo reported this error: API call error: 429"
    }
    assert scores_in(scores, "right")["new"] == SCORES["new"]


def test_responses_from_the_cache_of_promptfoo_have_no_cost() -> None:
    rows = promptfoo_rows()
    for row in rows[:6]:
        row["response"] |= {"cached": True, "cost": 0}
    scores = read_results([write("results.json", promptfoo(rows))])
    assert "cost" not in scores.by_name["old"].scores
    assert scores.by_name["new"].scores["cost"].tolist() == [0.001] * 6
    assert "6 of 12 responses are from promptfoo's cache" in scores.notes[0]


def test_tests_of_promptfoo_are_matched_by_their_variables() -> None:
    for name, rubric in (("before", "polite"), ("after", "polite and short")):
        rows = [row for row in promptfoo_rows() if row["promptIdx"] == 0]
        for row in rows:
            row["vars"]["lang"] = "en"
            row["testCase"]["assert"] = [{"type": "llm-rubric", "value": rubric}]
        write(f"{name}.json", promptfoo(rows))
    scores = read_results(["before.json", "after.json"])
    assert len(scores.examples) == 6
    # Tests with the same variables are distinguished by their assertions
    twice = [*promptfoo_rows(), *promptfoo_rows()]
    for row in twice[:12]:
        row["testCase"] = {**row["testCase"], "assert": [{"type": "contains"}]}
    assert len(read_results([write("r.json", promptfoo(twice))]).examples) == 12


PROMPTFOO_CSV = """\
topic,[m] short,Status,Score,Named Scores,Grader Reason,Comment,[m] long,Status,Score,Named Scores,Grader Reason,Comment
a,out,PASS,1,"{""brief"": 0.5}",ok,,out,FAIL,0,{},no,
b,out,PASS,1,{},ok,,out,ERROR,0,{},429,
"""
OLD_PROMPTFOO_CSV = """\
topic,[m] short,[m] long
a,[PASS] (1.00) out,[FAIL] (0.00) out
b,[PASS] (1.00) out,[ERROR] 429
"""


@pytest.mark.parametrize("text", [PROMPTFOO_CSV, OLD_PROMPTFOO_CSV])
def test_csv_of_promptfoo(text: str) -> None:
    scores = read_results([write("r.csv", text)])
    assert list(scores.by_name) == ["short", "long"]
    assert (scores.examples, scores.of_examples) == (["a", "b"], "variables topic")
    assert scores.by_name["short"].scores["score"].tolist() == [1, 1]
    assert scores.by_name["long"].scores["success"].tolist()[:1] == [0]
    assert "429" in scores.by_name["long"].errors[1]
    with pytest.raises(
        InvalidArgumentError, match="line 2: The score must be a number"
    ):
        read_results([write("r.csv", PROMPTFOO_CSV.replace("PASS,1", "PASS,one"))])


def test_two_runs_of_one_prompt_of_promptfoo() -> None:
    for name in ("before", "after"):
        write(
            f"{name}.json",
            promptfoo([row for row in promptfoo_rows() if row["promptIdx"] == 0]),
        )
    assert list(read_results(["before.json", "after.json"]).by_name) == [
        "before",
        "after",
    ]


# Inspect


def inspect_log(scores: list[float], model: str = "m", **change: Any) -> dict[str, Any]:
    samples = [
        {
            "id": f"q{i}",
            "epoch": 1,
            "scores": {
                "match": {"value": "C" if score else "I"},
                "graded": {"value": {"style": 3}},
            },
            "model_usage": {
                model: {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
            },
            "total_time": 0.5,
        }
        for i, score in enumerate(scores)
    ]
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "t", "model": model},
        "samples": samples,
        **change,
    }


def zipped(log: dict[str, Any], header: str = "header.json") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            header, json.dumps({k: v for k, v in log.items() if k != "samples"})
        )
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    return file.getvalue()


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
def test_logs_of_inspect(header: str) -> None:
    for name, scores in SCORES.items():
        write(f"{name}.json", json.dumps(inspect_log(scores)))
        Path(f"{name}.eval").write_bytes(zipped(inspect_log(scores), header))
    for kind in ("json", "eval"):
        scores = read_results([f"old.{kind}", f"new.{kind}"])
        assert scores_in(scores, "match") == SCORES
        assert scores.metrics == [
            "match",
            "graded/style",
            "input_tokens",
            "output_tokens",
            "total_tokens",
            "latency",
        ]
    assert scores_in(read_results(["old.json", "new.eval"]), "match") == SCORES


def test_logs_that_inspect_itself_wrote() -> None:
    """They are compressed by Zstandard."""
    if not any(map(_is_there, ("zstandard", "pyarrow"))):
        pytest.skip("neither zstandard nor pyarrow is installed")
    scores = read_results([ASSETS / "old.eval", ASSETS / "new.eval"])
    assert scores_in(scores, "match") == {"old": [1, 0, 0, 1], "new": [0, 0, 1, 1]}


def _is_there(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


def test_without_a_package_for_zstandard_the_cure_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from asktell_adapters.finished import inspect_files

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(inspect_files, "import_module", missing)
    with pytest.raises(
        InvalidArgumentError,
        match=r"pip install zstandard.*inspect log convert --to json",
    ):
        read_results([ASSETS / "old.eval"])


def test_logs_of_inspect_are_named_by_what_differs() -> None:
    for name, scores in SCORES.items():
        write(f"{name}/2026_t.json", json.dumps(inspect_log(scores)))
    assert list(read_results(["old", "new"]).by_name) == ["old", "new"]
    for name, scores in SCORES.items():
        write(
            f"logs/{name}.json", json.dumps(inspect_log(scores, model=f"openai/{name}"))
        )
    assert list(read_results(["logs"]).by_name) == ["openai/new", "openai/old"]


def test_a_sample_of_inspect_that_failed_and_epochs() -> None:
    log = inspect_log([1, 1, 0])
    log["samples"][0] |= {"error": {"message": "boom", "traceback": ""}, "scores": {}}
    log["samples"][1] |= {"limit": {"type": "token", "limit": 100}, "scores": {}}
    log["samples"].append(
        {**log["samples"][2], "epoch": 2, "scores": {"match": {"value": "C"}}}
    )
    (made,) = read_results([write("a.json", json.dumps(log))]).by_name.values()
    assert made.errors == {
        0: "Inspect's sample 'q0' failed: boom",
        1: "Inspect's sample 'q1' failed: the sample reached its token limit of 100",
    }
    assert made.examples[2:] == ["q2", "q2"]
    assert made.scores["match"][2:].tolist() == [0.0, 1.0]


def test_samples_with_a_limit_count_as_in_inspect() -> None:
    log = inspect_log([1, 1, 0])
    for sample in log["samples"]:
        sample["limit"] = {"type": "message", "limit": 50}
    log["samples"][1]["error"] = {"message": "boom", "traceback": ""}
    path = write("a.json", json.dumps(log))
    scores = read_results([path])
    assert scores_in(scores, "match") == {"a": [1, 1, 0]}
    assert "3 of 3 samples reached a limit" in scores.notes[0]
    write("b.json", json.dumps(inspect_log([1, 1, 1])))
    dropped = read_results([path, "b.json"], Wanted(drop_limited=True))
    assert len(dropped.by_name["a"].errors) == 3


def test_words_and_reducers_of_inspect() -> None:
    log = inspect_log([1] * 4)
    log["eval"]["config"] = {"epochs_reducer": ["max"]}
    for sample, grade in zip(log["samples"], "ABCP", strict=True):
        sample["scores"] = {"grade": {"value": grade}, "remark": {"value": "fine"}}
    scores = read_results([write("a.json", json.dumps(log))])
    assert scores_in(scores, "grade") == {"a": [0, 0, 1, 0.5]}
    assert "remark" not in scores.metrics
    assert "the values 'A', 'B', and counts them as 0" in scores.notes[0]
    assert "reduces epochs by max, but asktell averages" in scores.notes[1]


def test_a_log_of_many_prompts_that_asktell_chose() -> None:
    log = inspect_log([1, 0, 1, 1])
    for i, sample in enumerate(log["samples"]):
        sample["metadata"] = {
            "asktell": {
                "prompt_id": ["old", "new"][i % 2],
                "prompt": f"P{i % 2}",
                "example": i // 2,
            }
        }
    scores = read_results([write("a.json", json.dumps(log))])
    assert scores_in(scores, "match") == {"old": [1, 1], "new": [0, 1]}
    assert scores.texts == {"old": "P0", "new": "P1"}


# lm-eval


def samples(
    scores: list[float], hashes: bool = True, filters: tuple[str, ...] = ("none",)
) -> str:
    return lines([
        {
            "doc_id": i,
            "doc": {"question": f"Why {i}?"},
            "target": "x",
            "filter": name,
            **({"doc_hash": f"{i:064d}"[::-1]} if hashes else {}),
            "metrics": ["exact_match"],
            "exact_match": float(score),
            "other": 7,
        }
        for name in filters
        for i, score in enumerate(scores)
    ])  # fmt: skip


def test_samples_of_lm_eval_in_a_folder() -> None:
    for name, scores in SCORES.items():
        write(
            f"out/{name}/samples_gsm8k_2026-11-20T10-00-00.123456.jsonl",
            samples(scores),
        )
    scores = read_results(["out"])
    assert scores_in(scores, "exact_match") == {
        "new": SCORES["new"],
        "old": SCORES["old"],
    }
    assert scores.metrics == ["exact_match"]
    assert set(read_results([*Path("out").rglob("*.jsonl")]).by_name) == {"old", "new"}


def test_samples_of_several_tasks_and_filters() -> None:
    for name, scores in SCORES.items():
        for task in ("gsm8k", "arc_easy"):
            write(
                f"out/{name}/samples_{task}_2026-11-20T10-00-00.123456.jsonl",
                samples(scores, filters=("strict", "flex")),
            )
    scores = read_results(["out"])
    assert scores.metrics == ["exact_match,strict", "exact_match,flex"]
    assert len(scores.examples) == 12
    assert all(name.startswith(("gsm8k/", "arc_easy/")) for name in scores.examples)


def test_two_runs_of_a_task_in_one_folder_are_two_candidates() -> None:
    for day, scores in zip(("20", "21"), SCORES.values(), strict=True):
        write(
            f"out/m/samples_gsm8k_2026-11-{day}T10-00-00.123456.jsonl",
            samples(scores, hashes=False),
        )
    assert list(scores_in(read_results(["out"]), "exact_match").values()) == list(
        SCORES.values()
    )


def test_documents_of_lm_eval_are_matched_by_content() -> None:
    """lm-eval misnumbers those that were chosen by --samples."""
    write("old/samples_t.jsonl", samples(SCORES["old"]))
    rows = [json.loads(line) for line in samples(SCORES["new"]).splitlines()]
    for row in rows:
        row["doc_id"] = 5 - row["doc_id"]
    write("new/samples_t.jsonl", lines(rows))
    scores = read_results(["old", "new"])
    assert scores_in(scores, "exact_match") == SCORES
    assert len(scores.examples) == 6


def test_old_samples_of_lm_eval_are_an_array() -> None:
    rows = [json.loads(line) for line in samples([1, 0]).splitlines()]
    scores = read_results([write("a.jsonl", json.dumps(rows, indent=1))])
    assert (scores.kind, scores.examples) == ("lm-eval's samples", scores.examples)
    assert list(scores_in(scores, "exact_match").values()) == [[1, 0]]


# The reader of a file


def test_one_key_does_not_decide() -> None:
    """EvalPlus has a key "eval", too, and another tool may have "results"."""
    rows = [{"id": i, "model": m, "score": 1} for m in "ab" for i in range(3)]
    for document in ({"eval": {"rows": rows}}, {"results": rows}, {"doc_id": rows}):
        scores = read_results([write("a.json", json.dumps(document))])
        assert (scores.kind, list(scores.by_name)) == ("a table", ["a", "b"])


def test_the_ending_does_not_decide() -> None:
    for name, text in (("a.txt", promptfoo(promptfoo_rows())), ("b", lines(promptfoo_rows()))):  # fmt: skip
        assert read_results([write(name, text)]).kind == "promptfoo's results"
    Path("log").write_bytes(zipped(inspect_log([1, 0])))
    assert read_results(["log"]).kind == "Inspect logs"


def test_values_of_other_types_are_errors_of_the_file() -> None:
    row = {"doc_id": 1, "doc": {}, "metrics": [{"a": 1}]}
    with pytest.raises(InvalidArgumentError, match="lm-eval's samples, but cannot be"):
        read_results([write("a.jsonl", lines([row]))])


# Files that are none of these


def _truncated() -> bytes:
    return zipped(inspect_log([1, 0]))[:-60]


def _of_method(number: int) -> bytes:
    data = bytearray(zipped(inspect_log([1, 0])))
    at = data.index(b"PK\x01\x02")
    while at >= 0:
        data[at + 10] = number
        at = data.find(b"PK\x01\x02", at + 4)
    return bytes(data)


HOSTILE: dict[str, tuple[str, bytes | Callable[[], bytes]]] = {
    "empty csv": ("a.csv", b""),
    "blank csv": ("a.csv", b"\n\n  \n"),
    "only a header": ("a.csv", b"old,new\n"),
    "binary": ("a.csv", bytes(range(256))),
    "null bytes": ("a.csv", b"old,new\n1,\x000\n"),
    "not utf-8": ("a.csv", "id,größe\na,1\n".encode("cp1252")),
    "utf-16 without a mark": ("a.csv", "old,new\n1,0\n".encode("utf-16-le")),
    "duplicate headers": ("a.csv", b"old,old\n1,0\n"),
    "all text": ("a.csv", b"old,new\ngood,bad\n"),
    "all empty": ("a.csv", b"id,new\na,\nb,\n"),
    "all nan": ("a.csv", b"old,new\nnan,nan\n"),
    "infinite": ("a.csv", b"old,new\n1,inf\n0,1\n"),
    "huge": ("a.csv", b"old,new\n1,1e300\n0,1\n"),
    "thousands of digits": ("a.csv", b"old,new\n1," + b"9" * 5000 + b"\n0,1\n"),
    "mixed types": ("a.csv", b"old,new\n1,1\n0,1\n1,maybe\n"),
    "ragged rows": ("a.csv", b"old,new\n1\n0,1,1\n"),
    "an open quote": ("a.csv", b'old,new\n"1,0\n'),
    "no example": ("a.csv", b"prompt,score\nold,1\nnew,0\n"),
    "no name": ("a.csv", b"prompt,example,score\n,a,1\nnew,a,0\n"),
    "no metric": ("a.csv", b"prompt,example\nold,a\n"),
    "empty json": ("a.json", b""),
    "not json": ("a.json", b"{'a': 1}"),
    "a number": ("a.json", b"7"),
    "empty object": ("a.json", b"{}"),
    "empty list": ("a.json", b"[]"),
    "a list of numbers": ("a.json", b"[1, 2]"),
    "deep json": ("a.json", b"[" * 100_000),
    "nested cells": ("a.json", b'[{"old": [1], "new": {"x": [1]}}]'),
    "lm-eval's averages": ("results.json", b'{"results": {"gsm8k": {"acc": 0.5}}, "configs": {}}'),
    "promptfoo without results": ("a.json", b'{"evalId": "e", "results": {"version": 3, "results": []}}'),
    "promptfoo with odd results": ("a.json", b'{"results": {"results": [{"prompt": {"label": "x"}, "vars": 7}, 3]}}'),
    "promptfoo with odd scores": (
        "a.json", b'{"results": {"results": [{"prompt": {"label": "x"}, "vars": {"q": 1}, "namedScores": 7}]}}',
    ),
    "inspect without samples": ("a.json", json.dumps(inspect_log([])).encode()),
    "inspect with odd samples": ("a.json", json.dumps(inspect_log([1], samples=[7])).encode()),
    "inspect with odd scores": ("a.json", json.dumps(inspect_log([1], samples=[{"id": 1, "scores": 3}])).encode()),
    "not a zip": ("a.eval", b"PK\x03\x04 and no more"),
    "truncated zip": ("a.eval", _truncated),
    "another zip": ("a.eval", b"PK\x05\x06" + bytes(18)),
    "another compression": ("a.eval", lambda: _of_method(98)),
    "damaged zstandard": ("a.eval", lambda: _of_method(93)),
    "broken lines": ("a.jsonl", b'{"prompt": "old", "example": 1, "score": 1}\n{"prompt": '),
    "lines of numbers": ("a.jsonl", b"1\n2\n"),
    "empty lines": ("a.jsonl", b"\n"),
    "odd samples of lm-eval": ("samples_t.jsonl", b'{"doc_id": 1, "doc": {}}\n{"x": 1}\n'),
    "samples without numbers": ("samples_t.jsonl", b'{"doc_id": 1, "doc": {}, "acc": "no"}\n'),
    "yaml": ("a.yaml", b"a: 1\n"),
    "a spreadsheet that is none": ("a.xlsx", b"PK not a workbook"),
    "parquet that is none": ("a.parquet", b"PAR1"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["analyze", "gate"])
@pytest.mark.parametrize("which", HOSTILE)
def test_hostile_files_end_with_a_mistake_and_a_cure(which: str, command: str) -> None:
    name, data = HOSTILE[which]
    Path(name).write_bytes(data() if callable(data) else data)
    said = cli(
        f"{command} {name}",
        *(["--baseline", "old"] if command == "gate" else []),
        code=2,
    )
    assert said.out == ""
    assert said.err.startswith("asktell: ")
    assert "Traceback" not in said.err
    # Which stands behind an error that nobody expected
    assert "--debug" not in said.err
    assert said.err.count("\n") == 1 or "Choose one" in said.err
    assert re.search(
        r"\b(Give|Pass|Name|Run|Use|Write|Correct|Export|Copy|write|say|run)\b",
        said.err,
    ), said.err


def test_a_file_or_a_folder_that_is_not_there() -> None:
    assert "There is no file 'none.csv'" in cli("analyze none.csv", code=2).err
    Path("empty").mkdir()
    assert "run lm-eval with --log_samples" in cli("analyze empty", code=2).err


def test_numbers_that_are_no_scores_are_not_metrics() -> None:
    rows = [{"trial": i, "epoch": 1, **row} for i, row in enumerate(long_rows())]
    scores = read_results([write("r.csv", as_csv(rows))])
    assert scores.metrics == ["accuracy", "cost"]
    assert not any(
        math.isnan(x)
        for made in scores.by_name.values()
        for column in made.scores.values()
        for x in column
    )
