"""`asktell judge`, the licence that it writes, and the gates that demand it."""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.config.judging import load_judging
from asktell_adapters.metrics.licence import Licence
from asktell_adapters.tables.spreadsheets import csv_text
from tests.command_line import cli

_numbers = itertools.count()
LLMS = '''
"""A judge that is wrong on a share of the responses, and an LLM whose prompt decides how often it is right."""

import hashlib
import json

from asktell_adapters.evaluators import Completion, ScriptedLLM

WRONG = {"small": 0.3, "large": 0.04}
calls = []


def below(text, share):
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 1000 < 1000 * share


def judges(model, top=1):
    def answer(request):
        calls.append(model)
        text = str(request.messages)
        if "SILENCE" in text:
            return Completion("no comment", cost=0.5)
        good = ("GOOD" in request.messages[-1]["content"]) != below(model + text, WRONG[model])
        if "first-answer" in text:
            first = text.rindex("<first-answer"), text.rindex("<second-answer")
            good = "GOOD" in text[first[0]:first[1]]
            grade = "first" if good else "second"
        else:
            grade = top if good else 5 - top if top > 1 else 0
        name = "better" if "first-answer" in text else "right"
        reply = {"reason": "", "grades": {name: grade}}
        return Completion(json.dumps(reply), 9, 9, cost={"small": 0.1, "large": 1.0}[model])

    return ScriptedLLM(answer, model)


def answers():
    def answer(request):
        text = str(request.messages)
        return Completion("GOOD" if below(text, 0.9 if "exact" in text else 0.3) else "POOR")

    return ScriptedLLM(answer, "answers")
'''
CONFIG = """
budget = 400
baseline = "old"

[prompts]
texts = {{ old = "Be brief.", new = "Be exact." }}

[data]
file = "data.csv"
reference = false

[model]
loader = "{module}:answers"

[metrics.quality]
metric = "judge"
scale = [0, 1]
criteria = {{ right = "The answer is right." }}
model = {{ loader = "{module}:judges", arguments = {{ model = "large" }} }}

[judge]
floor = 0.8
{judge}

[goal]
maximize = "quality"
"""
GRID = """
[judge.candidates.model]
small = {{ loader = "{module}:judges", arguments = {{ model = "small" }} }}
large = {{ loader = "{module}:judges", arguments = {{ model = "large" }} }}

[judge.candidates.rubric]
plain = {{ criteria = {{ right = "The answer is right." }} }}
strict = {{ criteria = {{ right = "It is right." }}, max_new_tokens = 99 }}
"""
SHOTS = 'shots = [{ input = "question 0", answer = "POOR answer 0", grades = { right = 1 } }]'
Labels = list[dict[str, Any]]


def labels(n: int = 120) -> Labels:
    rng = random.Random(0)
    rows = []
    for i in range(n):
        good = rng.random() < 0.6
        rows.append(
            {
                "prompt": f"p{i % 2}",
                "example": f"e{i // 2}",
                "input": f"question {i // 2}",
                "response": f"{'GOOD' if good else 'POOR'} answer {i}",
                "label": int(good),
                "rater": "ann",
            }
        )
    return rows


def write_csv(path: Path, rows: Labels) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that writes run.toml, with keys of [judge] and replacements."""
    monkeypatch.chdir(tmp_path)
    module = f"llms_of_judge_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(LLMS)
    rows = [{"id": f"e{i}", "input": f"question {i}"} for i in range(200)]
    write_csv(tmp_path / "data.csv", rows)
    write_csv(tmp_path / "labels.csv", labels())

    def write(judge: str = "", *changes: tuple[str, str]) -> None:
        text = CONFIG.format(module=module, judge=judge.format(module=module))
        for change in changes:
            assert change[0] in text
            text = text.replace(*change)
        (tmp_path / "run.toml").write_text(text)

    write.module = module  # type: ignore[attr-defined]
    write()
    yield write
    sys.modules.pop(module, None)


def test_the_judge_that_agrees_best_is_licensed_and_may_gate(
    project: Any, tmp_path: Path
) -> None:
    project(GRID)
    out = cli("judge run.toml --labels labels.csv").out
    licence = Licence.read(tmp_path / "judge.json")
    assert licence.judge.startswith("large/")
    assert (licence.model, licence.labels, licence.candidates) == ("large", 120, 4)
    assert 0.85 < licence.low < licence.agreement < licence.high
    assert (licence.cost, licence.failures) == (1.0, 0)
    assert f'Take the judge "{licence.judge}" (large).' in out
    assert "The lower bound is not below the floor of 0.8, so a gate with this " in out
    assert out.count("120        ") >= 4  # judgments of each
    # The file names nobody's words
    text = (tmp_path / "judge.json").read_text()
    assert "GOOD" not in text
    assert "question" not in text
    assert "It is right" not in text
    # The licensed judge gates; without its rubric it does not, and nothing is paid
    lines = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    changed = {line.partition(" = ")[0]: line for line in lines if " = " in line}
    assert "model" not in changed  # it is the one in [metrics.quality]
    text = (tmp_path / "run.toml").read_text()
    head, _, tail = text.partition("[metrics.quality]\n")
    own, _, rest = tail.partition("\n\n")
    kept = [line for line in own.splitlines() if line.partition(" = ")[0] not in changed]  # fmt: skip
    licensed = "\n".join([*kept, *changed.values()])
    (tmp_path / "gate.toml").write_text(
        f"{head}[metrics.quality]\n{licensed}\n\n{rest}"
    )
    said = cli("gate gate.toml --candidate new")
    assert 'The judge of "quality" agrees with people on ' in said.out
    assert said.out.rstrip().endswith('is not worse than "old" in quality.')
    (tmp_path / "other.toml").write_text(
        (tmp_path / "gate.toml").read_text().replace("ight.", "ight!")
    )
    said = cli("gate other.toml --candidate new", code=3)
    assert f'It is for "{licence.judge}" (large), whose rubric differs.' in said.out
    assert " 0 of 400 evaluations spent" in said.out
    assert "Nothing is evaluated" in said.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('licence = "x"', ""), 'The judge of "quality" has no licence, because there is no file'),
        (('"large" } }', '"small" } }'), "whose model differs"),
        (("floor = 0.8", "floor = 0.99"), "is below the floor of 0.99"),
        (("scale = [0, 1]", "scale = [0, 1]\nmax_new_tokens = 9"), "whose settings differ."),
    ],
)  # fmt: skip
def test_a_gate_whose_judge_has_no_licence_is_undecided_and_pays_nothing(
    project: Any, tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    project('licence = "x"' if "licence" in change[0] else "")
    if "licence" not in change[0]:
        cli("judge run.toml --labels labels.csv")
        cli("gate run.toml --candidate new")
        project("", change)
    said = cli("gate run.toml --candidate new --report gate.html --summary s.md", code=3)  # fmt: skip
    assert words in said.out
    assert "0 of 400 evaluations spent" in said.out
    assert words.split('"')[-1] in (tmp_path / "s.md").read_text().replace("\\", "")
    # A run evaluates, and establishes nothing
    said = cli("run run.toml")
    assert "Do not rely on these scores." in said.out
    assert " ".join(said.out.split()).count(words.split(" has ")[-1]) == 1
    assert "P(best)" not in said.out


def test_a_run_with_a_licensed_judge_shows_the_licence(
    project: Any, tmp_path: Path
) -> None:
    cli("judge run.toml --labels labels.csv")
    out = cli("run run.toml").out
    assert 'The judge of "quality" agrees with people on' in out
    assert "P(best)" in out
    cli("report run.toml -o report.html")
    assert "agrees with people on" in (tmp_path / "report.html").read_text()


def test_finished_scores_are_gated_by_the_licence_of_their_judge(
    project: Any, tmp_path: Path
) -> None:
    cli("judge run.toml --labels labels.csv")
    rng = random.Random(1)
    rows = [
        {"example": i, "old": int(rng.random() < 0.4), "new": int(rng.random() < 0.9)}
        for i in range(200)
    ]
    write_csv(tmp_path / "scores.csv", rows)
    of_files = "scores.csv --candidates old,new --baseline old"
    said = cli(f"gate {of_files} --licence judge.json --floor 0.8")
    assert "agrees with people on" in said.out
    assert "Whether the scores came from this judge cannot be checked." in said.out
    for flags, words in (
        ("--licence judge.json --floor 0.99", "is below the floor of 0.99"),
        ("--floor 0.8", "has no licence."),
        ("--licence no.json", "because there is no file 'no.json'"),
    ):
        assert words in cli(f"gate {of_files} {flags}", code=3).out
        out = cli(f"analyze {of_files} {flags}").out
        assert words in " ".join(out.split())
        assert "P(best)" not in out
    assert "P(best)" in cli(f"analyze {of_files} --licence judge.json --floor 0.8").out
    for flags, words in (
        ("--licence labels.csv", "is not complete JSON"),
        ("--licence judge.json --floor 1.5", "must be a number from 0 to 1"),
    ):
        assert words in cli(f"gate {of_files} {flags}", code=2).err
        assert words in cli(f"analyze {of_files} {flags}", code=2).err
    assert "files of results only" in cli("gate run.toml --floor 0.8", code=2).err


def test_a_budget_chooses_first_and_then_completes_the_judge_to_take(
    project: Any, tmp_path: Path
) -> None:
    project(f"budget = 240\n{GRID}")
    said = cli("judge run.toml --labels labels.csv")
    assert "120 of 120 evaluations spent" in said.out
    assert "judgments complete the labels of 'large/" in said.err
    licence = Licence.read(tmp_path / "judge.json")
    assert (licence.labels, licence.candidates) == (120, 4)
    # Every label counts, whatever was evaluated before the choice
    assert sum(licence.false_passes[1:2] + licence.false_fails[1:2]) == 120
    # The same command repeats nothing that is in the study
    again = cli("judge run.toml --labels labels.csv")
    assert "120 of 120 evaluations spent" in again.out
    project(f"budget = 100\n{GRID}")
    words = "'budget' in [judge] must be at least 124: one judgment of each judge"
    assert words in cli("judge run.toml --labels labels.csv", code=2).err


def test_judges_of_metrics_are_candidates_without_a_grid(project: Any) -> None:
    tone = (
        '[metrics.tone]\nmetric = "judge"\nscale = [0, 1]\ncriteria = { right = "x" }\n'
        f'model = {{ loader = "{project.module}:judges", arguments = {{ model = "small" }} }}\n'
    )
    project("", ("[judge]\nfloor = 0.8", f"{tone}"))
    out = cli("judge run.toml --labels labels.csv").out
    assert 'Take the judge "quality" (large).' in out
    assert "Write these keys" not in out


def test_grades_agree_by_a_weighted_kappa(project: Any, tmp_path: Path) -> None:
    change = ("scale = [0, 1]", "scale = [1, 5]"), ('"large" }', '"large", top = 4 }')
    project("", *change)
    rows = labels()
    for i, row in enumerate(rows):
        row["label"] = 1 if not row["label"] else 4 + i % 2
    write_csv(tmp_path / "labels.csv", rows)
    out = cli("judge run.toml --labels labels.csv").out
    licence = Licence.read(tmp_path / "judge.json")
    assert licence.measure == "weighted kappa"
    assert "labeled responses with a weighted kappa of 0." in out
    # With a limit for passing, only passing and failing count
    project("pass_at = 3", *change)
    cli("judge run.toml --labels labels.csv --fresh")
    licence = Licence.read(tmp_path / "judge.json")
    assert (licence.measure, licence.pass_at) == ("accuracy", 3.0)


def test_a_response_without_a_grade_counts_as_the_worst_disagreement(
    project: Any, tmp_path: Path
) -> None:
    rows = labels()
    for row in rows[:6]:
        row["response"] = f"SILENCE {row['response']}"
    write_csv(tmp_path / "labels.csv", rows)
    out = cli("judge run.toml --labels labels.csv").out
    licence = Licence.read(tmp_path / "judge.json")
    assert licence.failures == 6
    assert "It gave no grade to 6 of them" in out


def test_a_preference_is_licensed_by_labels_of_pairs(
    project: Any, tmp_path: Path
) -> None:
    (tmp_path / "pairs.toml").write_text(
        f'[metrics.preference]\nmodel = {{ loader = "{project.module}:judges", arguments = {{ model = "large" }} }}\n'
    )
    rows = [
        {"input": f"i{i}", "response": f"{a} {i}", "other": f"{b} {i + 1}", "label": label}
        for i in range(60)
        for a, b, label in [[("GOOD", "POOR", 1), ("POOR", "GOOD", 0)][i % 2]]
    ]  # fmt: skip
    write_csv(tmp_path / "labels.csv", rows)
    cli("judge pairs.toml --labels labels.csv")
    licence = Licence.read(tmp_path / "judge.json")
    assert (licence.measure, licence.agreement, licence.pass_at) == ("accuracy", 1, 1)
    _without("other")(rows)
    write_csv(tmp_path / "labels.csv", rows)
    said = cli("judge pairs.toml --labels labels.csv", code=2)
    assert "has no text in the column 'other'" in said.err


def _row(number: int, **values: Any) -> Callable[[Labels], None]:
    return lambda rows: rows[number].update(values)


def _all(**values: Any) -> Callable[[Labels], None]:
    return lambda rows: [row.update(values) for row in rows] and None


def _without(*columns: str) -> Callable[[Labels], None]:
    return lambda rows: [row.pop(name) for row in rows for name in columns] and None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_all(label=1), "All 120 labels pass"),
        (_row(3, label=7), "line 5: The label must be a grade of the judge (0, 1), got '7'"),
        (_row(3, label=0.5), "The label must be a grade of the judge (0, 1), got '0.5'"),
        (_row(3, label="yes"), "got 'yes'. Correct the label"),
        (_row(3, label="pass"), "Write words such as pass and fail as numbers."),
        (_row(3, label="True"), "got 'True'. Correct the label"),
        (_row(3, label="nan"), "got 'nan'"),
        (_all(label=""), "has no row with a label"),
        (_without("label"), "has no column 'label'"),
        (lambda rows: rows.append({**rows[0], "label": 1 - rows[0]["label"], "rater": "bob"}),
         "1 response has contradictory labels. The first has the labels "),
        (lambda rows: rows.extend({**row, "label": 1 - row["label"]} for row in rows[:3]),
         "3 responses have contradictory labels."),
        (_without("response"), "The row has no column 'response'"),
        (_without("input", "example"), "The row has no column 'example'"),
        (lambda rows: [_without("input")(rows), _row(5, example="e999")(rows)],
         "There is no example 'e999' in [data]. The ids there are"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_used_say_why(
    project: Any, tmp_path: Path, edit: Callable[[Labels], Any], words: str
) -> None:
    rows = labels()
    edit(rows)
    write_csv(tmp_path / "labels.csv", rows)
    said = cli("judge run.toml --labels labels.csv", code=2)
    assert words in said.err
    assert not (tmp_path / "judge.json").exists()
    assert not (tmp_path / "run-judges").exists()


@pytest.mark.parametrize("kind", ["bom", "crlf", "semicolons", "jsonl", "xlsx"])
def test_labels_may_be_in_any_table(project: Any, tmp_path: Path, kind: str) -> None:
    rows = labels(12)
    rows[0]["response"] = 'GOOD; "quoted",\nand in two lines'
    path = tmp_path / "labels.csv"
    if kind == "jsonl":
        path = tmp_path / "labels.jsonl"
        lines = [json.dumps({**row, "label": bool(row["label"])}) for row in rows]
        path.write_text("\n".join(lines))
    elif kind == "xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book, path = openpyxl.Workbook(), tmp_path / "labels.xlsx"
        for cells in [list(rows[0]), *(list(row.values()) for row in rows)]:
            book.active.append(cells)
        book.save(path)
    else:
        with path.open("w", newline="", encoding="utf-8-sig" if kind == "bom" else "utf-8") as file:  # fmt: skip
            writer = csv.DictWriter(
                file,
                list(rows[0]),
                delimiter=";" if kind == "semicolons" else ",",
                lineterminator="\r\n" if kind == "crlf" else "\n",
            )
            writer.writeheader()
            writer.writerows({**row, "label": f"{row['label']}.0"} for row in rows)
            file.write("\n")
    labeled = load_judging(tmp_path / "run.toml", path).labeled
    assert labeled.responses == [row["response"] for row in rows]
    assert labeled.labels == [float(row["label"]) for row in rows]


def test_texts_that_would_be_formulas_are_judged_as_they_are(
    project: Any, tmp_path: Path
) -> None:
    rows = labels(4)
    for row, text in zip(rows, ["- GOOD", "=POOR", "'tis GOOD", "@POOR"], strict=True):
        row["response"] = text
    # As `asktell label` writes them
    text = csv_text(list(rows[0]), (row.values() for row in rows))
    (tmp_path / "labels.csv").write_text(text)
    assert "'- GOOD" in text
    labeled = load_judging(tmp_path / "run.toml", tmp_path / "labels.csv").labeled
    assert labeled.responses == [row["response"] for row in rows]
    write_csv(tmp_path / "labels.csv", [{**rows[0], "id": "x"}])
    (tmp_path / "labels.csv").write_text("id,id,input,response,label\n1,1,i,r,1\n")
    with pytest.raises(InvalidArgumentError, match="Two columns have the same name"):
        load_judging(tmp_path / "run.toml", tmp_path / "labels.csv")


def test_a_truth_value_is_no_grade_from_1_to_5(project: Any, tmp_path: Path) -> None:
    project("", ("scale = [0, 1]", "scale = [1, 5]"))
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(json.dumps({**row, "label": True}) for row in labels(4)))
    with pytest.raises(InvalidArgumentError, match="got True"):
        load_judging(tmp_path / "run.toml", path)


def test_an_empty_cell_is_no_input_if_the_row_names_an_example(
    project: Any, tmp_path: Path
) -> None:
    rows = labels(8)
    recorded = [{name: row[name] for name in ("prompt", "example", "response")} for row in rows]  # fmt: skip
    write_csv(tmp_path / "responses.csv", recorded)
    write_csv(tmp_path / "labels.csv", [{**row, "input": "", "response": ""} for row in rows])  # fmt: skip
    project('responses = "responses.csv"')
    labeled = load_judging(tmp_path / "run.toml", tmp_path / "labels.csv").labeled
    assert [example.input for example in labeled.dataset.examples] == [row["input"] for row in rows]  # fmt: skip
    assert labeled.responses == [row["response"] for row in rows]


def test_a_licence_replaces_no_other_file(project: Any, tmp_path: Path) -> None:
    before = (tmp_path / "labels.csv").read_bytes()
    for flags in ("-o labels.csv", "-o run.toml"):
        said = cli(f"judge run.toml --labels labels.csv {flags}", code=2)
        assert "which is another file. Give another path by --output" in said.err
    assert (tmp_path / "labels.csv").read_bytes() == before
    assert not (tmp_path / "run-judges").exists()
    # A damaged licence is made again
    (tmp_path / "judge.json").write_text('{"format": "asktell.judge", "ver')
    cli("judge run.toml --labels labels.csv")
    assert Licence.read(tmp_path / "judge.json").labels == 120


def test_an_interruption_loses_no_judgment(project: Any, tmp_path: Path) -> None:
    project(f"budget = 240\n{GRID}")
    module = tmp_path / f"{project.module}.py"
    stop = "        if len(calls) == {n}:\n            raise KeyboardInterrupt\n"
    call = "        calls.append(model)\n"
    whole = module.read_text()
    n_calls = 0
    for n in (50, 100, None):
        sys.modules.pop(project.module, None)
        module.write_text(whole if n is None else whole.replace(call, call + stop.format(n=n)))  # fmt: skip
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        cli("judge run.toml --labels labels.csv", code=0 if n is None else 130)
        n_calls += len(sys.modules[project.module].calls)
        assert (tmp_path / "judge.json").exists() == (n is None)
    licence = Licence.read(tmp_path / "judge.json")
    assert (licence.labels, licence.failures) == (120, 0)
    # All judgments, and once more those that were interrupted
    before = len(sys.modules[project.module].calls)
    said = cli("judge run.toml --labels labels.csv")
    assert len(sys.modules[project.module].calls) == before
    found = re.search(r"(\d+) judgments complete the labels", said.err)
    assert found
    assert n_calls == 120 + int(found[1]) + 2


def test_labels_may_name_recorded_responses_and_examples(
    project: Any, tmp_path: Path
) -> None:
    rows = labels()
    recorded = [{name: row[name] for name in ("prompt", "example", "response")} for row in rows]  # fmt: skip
    write_csv(tmp_path / "responses.csv", recorded)
    bare = [{name: row[name] for name in ("prompt", "example", "label")} for row in rows]  # fmt: skip
    write_csv(tmp_path / "bare.csv", bare)
    project('responses = "responses.csv"')
    cli("judge run.toml --labels bare.csv")
    of_bare = Licence.read(tmp_path / "judge.json")
    cli("judge run.toml --labels labels.csv --fresh -o other.json")
    of_texts = Licence.read(tmp_path / "other.json")
    assert of_bare.agreement == of_texts.agreement
    bare[4]["prompt"] = "p9"
    write_csv(tmp_path / "bare.csv", bare)
    said = cli("judge run.toml --labels bare.csv", code=2)
    assert "no recorded response of the prompt 'p9' to the example 'e2'" in said.err


@pytest.mark.parametrize(
    ("judge", "changes", "words"),
    [
        ("at_most = {{ cost = 1 }}", (), "'at_most' in [judge] bounds the cost, which is not known"),
        ("at_most = {{ latency = 1 }}", (), "has 'latency', which is not a metric of judges"),
        ("pass_at = 0", (), "'pass_at' in [judge] must be above 0, the worst grade"),
        ("[judge.candidates]\nmodels = [1]", (), "which is not a key of a judge (did you mean 'model'?)"),
        ("[judge.candidates]\ntemperature = []", (), "must be a list of values, or a table"),
        ("[judge.candidates]\ntemperature = [0, 0]", (), "has the value '0' twice"),
        ("[judge.candidates]\ncriteria = [{{ a = 'b' }}]", (), "has a value without a short name"),
        ("[judge.candidates]\nscale = {{ a = [0, 1], b = [1, 5] }}", (), "must have one scale"),
        ("[judge.candidates]\ncriteria = {{ a = 'b' }}", (), "'criteria' in [metrics.quality] must be"),
        ("", (('metric = "judge"', 'metric = "rouge"'),), "[judge] needs a judge in [metrics]"),
        ("shots = 1", (), "unknown key 'shots' in [judge]"),
        ("", (("scale = [0, 1]", "scale = [0, 1]\nreference = true"),), "some labeled responses have no reference"),
        ("", (("scale = [0, 1]", f"scale = [0, 1]\n{SHOTS}"),), "has a response that is also labeled"),
        ("[cache]\n", (("[cache]", 'confirm_above = 1\n[cache]'),), "unknown key 'confirm_above'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_choice_are_named(
    project: Any, judge: str, changes: tuple[tuple[str, str], ...], words: str
) -> None:
    project(judge, *changes)
    assert words in cli("judge run.toml --labels labels.csv", code=2).err


def test_a_run_that_asks_before_it_is_dear_wants_a_yes(project: Any) -> None:
    project("", ("budget = 400", "budget = 400\nconfirm_above = 1"))
    said = cli("judge run.toml --labels labels.csv", code=2)
    assert "the price of up to 120 judgments is not estimated" in said.err


def test_no_judge_within_the_bounds_is_no_licence(project: Any, tmp_path: Path) -> None:
    project("at_most = {{ false_passes = 0.01 }}", ('"large" } }', '"small" } }'))
    said = cli("judge run.toml --labels labels.csv", code=1)
    assert "No judge keeps the bounds" in said.err
    assert not (tmp_path / "judge.json").exists()


def test_labels_in_the_json_of_a_licence_are_counts_only(
    project: Any, tmp_path: Path
) -> None:
    cli("judge run.toml --labels labels.csv")
    data = json.loads((tmp_path / "judge.json").read_text())
    assert set(data["digests"]) == {"rubric", "model", "settings"}
    assert all(len(digest) == 64 for digest in data["digests"].values())
