"""`asktell analyze`, and `asktell gate` on files of results."""

import csv
import io
import json
import random
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell_adapters.cli.main import main
from tests.adapters.finished.test_formats import as_csv, long_rows
from tests.command_line import Terminal, cli


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("r.csv").write_text(as_csv(long_rows()))


def wide(skills: dict[str, float], n: int = 200, name: str = "wide.csv") -> None:
    rng = random.Random(3)
    rows = [
        ",".join(str(int(rng.random() < skill)) for skill in skills.values())
        for _ in range(n)
    ]
    Path(name).write_text("\n".join([",".join(skills), *rows]) + "\n")


def test_several_metrics_are_listed_and_no_goal_is_guessed() -> None:
    said = cli("analyze r.csv", code=2).err
    assert (
        "No metric to optimize is given. Choose one by --maximize METRIC or --minimize METRIC"
        in said
    )
    assert "for example --maximize accuracy." in said


def test_the_only_metric_is_maximized_unless_less_is_better() -> None:
    wide({"old": 0.4, "new": 0.8})
    said = cli("analyze wide.csv").out
    assert (
        "Larger values of score count as better. If smaller ones are better, pass --minimize score.\n"
        in said
    )
    assert 'Take "new". It is the best' in said
    Path("slow.csv").write_text("model,id,latency\na,1,2\nb,1,3\n")
    assert "for example --minimize latency." in cli("analyze slow.csv", code=2).err
    assert "minimize latency (final" in cli("analyze slow.csv --minimize latency").out


def test_what_the_only_metric_of_a_wide_table_is_called() -> None:
    wide({"old": 0.4, "new": 0.8})
    assert "maximize f1 (final" in cli("analyze wide.csv --maximize f1").out
    assert (
        "maximize f1 subject to f1 >= 0.5"
        in cli("analyze wide.csv --maximize f1 --at-least f1=0.5").out
    )


def test_goals() -> None:
    said = cli(
        "analyze r.csv --maximize accuracy --at-most cost=9 --at-least accuracy=0.1"
    ).out
    assert "maximize accuracy subject to accuracy >= 0.1, cost <= 9 (final" in said
    assert (
        "Pareto set: maximize accuracy, minimize cost"
        in cli("analyze r.csv --maximize accuracy --minimize cost").out
    )
    assert (
        "There is no metric 'acuracy' (did you mean 'accuracy'?)"
        in cli("analyze r.csv --maximize acuracy", code=2).err
    )


def test_ranges_and_tolerances_of_metrics() -> None:
    wide({"old": 0.5, "new": 0.5})
    flags = "--maximize score --range score=0:1 --tolerance score=0.2"
    found = json.loads(cli(f"analyze wide.csv {flags} --json").out)
    assert found["goal"].startswith("maximize score (tolerance 0.2)")
    assert found["verdict"]["tolerance"] == 0.2
    assert found["verdict"]["assumption"] == ""
    assert "range" not in [each["name"] for each in found["checks"] if not each["ok"]]
    assert "Take new or old: they do not differ" in cli(
        f"analyze wide.csv {flags}"
    ).out.replace('"', "")
    assumed = json.loads(cli("analyze wide.csv --json").out)["verdict"]
    assert "(1% of the range)" in assumed["assumption"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--range cost", "--range needs a metric and its lowest and highest"),
        ("--range cost=1", "--range needs a metric and its lowest and highest"),
        ("--range cost=a:2", "--range needs a metric and its lowest and highest"),
        ("--range cost=2:1 --minimize cost", "must be two finite numbers"),
        ("--range accuracy=0:1 --range accuracy=0:1", "--range has 'accuracy' twice"),
        ("--range acuracy=0:1", "There is no metric 'acuracy' (did you mean"),
        ("--range cost=0:1", "ranges has 'cost', which is not a metric of the goal"),
        ("--tolerance accuracy", "--tolerance needs a metric and a number"),
        ("--tolerance accuracy=0", "must be a number above 0"),
        ("--tolerance accuracy=nan", "must be a number above 0"),
        (
            "--tolerance accuracy=5 --range accuracy=0:1",
            "For 5 points, write 0.05",
        ),
    ],
)
def test_ranges_and_tolerances_that_make_no_sense(flags: str, said: str) -> None:
    assert said in cli(f"analyze r.csv --maximize accuracy {flags}", code=2).err


def test_the_tolerance_of_the_objective_is_the_margin_of_the_gate() -> None:
    wide({"old": 0.5, "new": 0.45})
    gate = "gate wide.csv --maximize score --baseline old"
    assert "undecided score not worse\n" in cli(gate, code=3).out
    tolerant = f"{gate} --range score=0:1 --tolerance score=0.2"
    said = cli(tolerant).out
    assert 'Passed: "new" is not worse than "old" by more than 20 points' in said
    assert "undecided score not worse\n" in cli(f"{tolerant} --margin 0", code=3).out


@pytest.mark.parametrize("bound", ["cost", "cost=", "cost=much", "=2", "cost=nan"])
def test_a_bound_needs_a_number(bound: str) -> None:
    said = cli(f"analyze r.csv --maximize accuracy --at-most {bound}", code=2).err
    assert "--at-most needs a metric and a number, such as --at-most cost=2" in said


def test_json_is_the_result_and_nothing_else() -> None:
    said = cli("analyze r.csv --maximize accuracy --baseline old --json")
    found = json.loads(said.out)
    assert (found["done"], found["baseline"], found["verdict"]["answer"]) == (
        True,
        "old",
        "new",
    )
    assert found["comparison"]["a"] == "new"
    assert said.err.startswith(
        "Read 2 candidates (column prompt: new, old) x 6 examples (column example), accuracy from 0 to 1, cost from 0.5"
    )


def test_a_report_and_a_place_for_it() -> None:
    said = cli("analyze r.csv --maximize accuracy -o page.html").out
    assert said.endswith("Report: page.html\n")
    assert "r.csv" in Path("page.html").read_text()
    assert (
        "cannot be written"
        in cli("analyze r.csv --maximize accuracy -o none/page.html", code=2).err
    )


def data_of(page: str) -> Any:
    """The document in a page."""
    text = Path(page).read_text().split('<script type="application/json" id="data">')[1]
    return json.loads(text.split("</script>")[0])


def test_columns_without_a_role_are_shown_and_offered_as_segments() -> None:
    rng, topics = random.Random(1), ("billing", "returns")
    lines = ["message,topic,prompt,accuracy,answer"]
    for prompt, skill in (("old", 0.4), ("new", 0.9)):
        for n in range(40):
            score = int(rng.random() < skill)
            lines.append(f"m {n},{topics[n % 2]},{prompt},{score},{prompt} {n}")
    Path("t.csv").write_text("\n".join(lines) + "\n")
    offer = (
        "topic has 2 values, from billing to returns. To compare the candidates for each, add "
        "--rename topic=segment."
    )
    assert offer in cli("analyze t.csv --maximize accuracy -o page.html").out
    data = data_of("page.html")
    assert data["finished"]
    assert offer in data["notes"]
    names = data["example_names"]
    assert data["inputs"]["0"].startswith(f"message: {names[0]}\ntopic: ")
    # A column that differs between the candidates is no part of the input
    assert "answer" not in data["inputs"]["0"]
    said = cli("analyze t.csv --maximize accuracy --rename topic=segment -o page.html")
    assert "--rename" not in said.out
    assert data_of("page.html")["segments"]["names"] == ["billing", "returns"]
    cli("gate t.csv --maximize accuracy --baseline old --report page.html")
    data = data_of("page.html")
    assert (
        data["words"]["answer"] == 'Passed: "new" is not worse than "old" in accuracy.'
    )
    assert data["ruling"]["requirements"][0] == ["accuracy not worse", "passed"]
    assert data["inputs"]


def test_what_scores_say_of_each_example() -> None:
    wide({f"m{k}": 0.05 + 0.1 * k for k in range(10)}, n=40)
    said = cli("analyze wide.csv --maximize f1 --examples examples.csv").out
    assert said.splitlines()[-1].startswith(
        "Examples: examples.csv (f1 on 40 examples: "
    )
    with Path("examples.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [field.name for field in fields(asktell.ExampleResult)]
    assert [row["id"] for row in rows] == [str(number) for number in range(1, 41)]
    assert all(
        0.0 <= float(row["loss"]) <= 1.0 and row["prompts"] == "10" for row in rows
    )
    assert {row["separates_nobody"] for row in rows} <= {"0", "1"}
    cli("analyze r.csv --maximize accuracy --examples few.csv --json")
    assert Path("few.csv").read_text().splitlines()[1].startswith("q0,2,")
    assert (
        "cannot be written"
        in cli("analyze r.csv --maximize accuracy --examples no/x.csv", code=2).err
    )


def tickets(n: int = 120) -> None:
    """Scores of two candidates, of which each is better in one of the two topics."""
    rng = random.Random(1)
    rows = ["id,topic,candidate,solved"]
    for i in range(n):
        topic = ("law", "math")[i % 2]
        for name, share in (("a", (0.9, 0.3)), ("b", (0.3, 0.8))):
            rows.append(f"t{i},{topic},{name},{int(rng.random() < share[i % 2])}")
    Path("tickets.csv").write_text("\n".join(rows) + "\n")


def test_a_candidate_for_each_segment() -> None:
    tickets()
    flags = "tickets.csv --maximize solved --segment-column topic --assign"
    said = cli(f"analyze {flags} -o page.html").out
    assert 'Use "a", but "b" in "math". This is expected to raise the mean solved' in (
        " ".join(said.split())
    )
    segments = data_of("page.html")["segments"]
    assert segments["names"] == ["law", "math"]
    assert segments["assignment"]["sentence"].startswith('Use "a", but "b" in "math"')
    data = json.loads(cli(f"analyze {flags} --json").out)
    assert data["assignment"]["candidates"] == {"law": "a", "math": "b"}
    assert "assignment" not in json.loads(
        cli("analyze tickets.csv --maximize solved --json").out
    )


@pytest.mark.parametrize(
    ("table", "flags", "said"),
    [
        ("id,topic,candidate,solved\n1,x,a,1\n1,x,b,0\n2,y,a,1\n2,y,b,0\n", "--segment-column topik", "no column"),
        ("id,topic,candidate,solved\n1,x,a,1\n1,x,b,0\n2,y,a,1\n2,y,b,0\n", "--assign", "no column segment"),
        ("id,topic,candidate,solved\n1,x,a,1\n1,x,b,0\n2,,a,1\n2,,b,0\n", "--segment-column topic", "1 of 2 have none"),
        ("id,topic,candidate,solved\n1,x,a,1\n1,y,b,0\n2,y,a,1\n2,y,b,0\n", "--segment-column topic", "two segments"),
    ],
)  # fmt: skip
def test_segments_that_cannot_be_used(table: str, flags: str, said: str) -> None:
    Path("t.csv").write_text(table)
    err = cli(f"analyze t.csv --maximize solved {flags}", code=2).err
    assert said in err.replace("'segment'", "segment")


def test_another_column_of_segments_is_left_alone() -> None:
    text = "id,Segment,topic,candidate,solved\n"
    for i in range(40):
        for name in ("a", "b"):
            text += (
                f"{i},q{i % 4},t{i % 2},{name},{int((i % 2 == 0) == (name == 'a'))}\n"
            )
    Path("t.csv").write_text(text)
    said = cli("analyze t.csv --maximize solved --segment-column topic --assign --json")
    assert set(json.loads(said.out)["assignment"]["candidates"]) == {"t0", "t1"}


def test_a_baseline_that_is_not_there() -> None:
    said = cli("analyze r.csv --maximize accuracy --baseline od", code=2).err
    assert (
        "There is no candidate 'od' (did you mean 'old'?). Give --baseline one of 'old', 'new'."
        in said
    )


def test_a_repeat_is_said() -> None:
    Path("r.csv").write_text(as_csv([*long_rows(), long_rows()[0]]))
    assert (
        "1 of 12 cells were evaluated several times, up to 2."
        in cli("analyze r.csv --maximize accuracy --repeats").out
    )


# What the flags say, and what is asked


def three() -> None:
    rows = [f"q{i},{i % 2},1,{900 + i}" for i in range(20)]
    Path("three.csv").write_text("\n".join(["id,old,new,latency_ms", *rows]) + "\n")


@pytest.mark.parametrize("command", ["analyze", "gate --baseline old"])
def test_a_question_has_a_complete_command_for_each_reading(command: str) -> None:
    three()
    said = cli(f"{command} three.csv", code=2)
    question, *readings = said.err.splitlines()
    assert said.out == ""
    assert question.startswith("asktell: three.csv has several columns of numbers")
    assert len(readings) == 2
    start = f"asktell {command} three.csv"
    assert readings[0].endswith(f"Run: {start} --candidates old,new")
    assert readings[1].endswith(f"Run: {start} --metrics old,new,latency_ms")
    assert "2 candidates" in cli(f"{command} three.csv --candidates old,new").out


def test_a_question_is_asked_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    three()
    monkeypatch.setattr(sys, "stdin", Terminal("5\n1\n"))
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(Terminal()) as err:
        assert main(["analyze", "three.csv"]) == 0
    assert err.getvalue().count("Which one? Type a number from 1 to 2") == 2
    assert "1. The candidates 'old', 'new'" in err.getvalue()
    assert "Read 2 candidates (columns old, new)" in out.getvalue()
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(Terminal()) as err:
        assert main(["analyze", "three.csv"]) == 2
    assert (out.getvalue(), "Run: asktell" in err.getvalue()) == ("", True)


def test_without_a_common_example_nothing_is_compared() -> None:
    for name, letter in (("old", "q"), ("new", "x")):
        rows = "".join(f"{letter}{i},{i % 2}\n" for i in range(20))
        Path(f"{name}.csv").write_text("id,ok\n" + rows)
    for command in ("analyze", "gate --baseline old"):
        said = cli(f"{command} old.csv new.csv", code=2)
        assert "no example in common" in said.err
        assert said.out.count("\n") < 2


def test_a_gate_needs_two_candidates() -> None:
    Path("old.csv").write_text("id,ok\na,1\nb,0\n")
    said = cli("gate old.csv --baseline old", code=2).err
    assert "have one candidate, 'old', but a gate compares two" in said


def test_a_file_of_one_candidate_is_no_comparison_of_its_columns() -> None:
    rows = [f"q{i},{i % 2},{900 + i},0.00{i % 3}" for i in range(20)]
    Path("run.csv").write_text("\n".join(["id,accuracy,latency_ms,usd", *rows]) + "\n")
    said = cli("analyze run.csv", code=2).err
    assert "Read 1 candidate (file run) x 20 examples (column id), accuracy" in said
    assert "If the columns are candidates, name them with --candidates" in said
    assert '"run"' in cli("analyze run.csv --maximize accuracy").out


def test_names_in_flags() -> None:
    three()
    flags = "--candidates old,new --rename new=tuned --baseline old"
    assert '"tuned"' in cli(f"analyze three.csv {flags}").out
    said = cli("analyze three.csv --rename new", code=2).err
    assert "--rename needs two names" in said


# The gate


@pytest.mark.parametrize(
    ("skills", "code", "said"),
    [
        (
            {"old": 0.3, "new": 0.9},
            0,
            'Passed: "new" is not worse than "old" in score.',
        ),
        ({"old": 0.9, "new": 0.3}, 1, 'Failed: "new" is worse in score than "old".'),
        (
            {"old": 0.6, "new": 0.6},
            3,
            'Undecided: the evaluations do not yet establish how "new" compares with "old".',
        ),
    ],
)
@pytest.mark.parametrize("inputs", ["", "--inputs new"])
def test_the_exit_code_is_the_verdict(
    skills: dict[str, float], code: int, said: str, inputs: str
) -> None:
    wide(skills)
    assert cli(f"gate wide.csv --baseline old {inputs}", code=code).out.endswith(
        f"{said}\n"
    )


def test_the_files_that_the_gate_writes() -> None:
    wide({"old": 0.3, "new": 0.9, "third": 0.5})
    cli(
        "gate wide.csv --baseline old --candidate new --summary s.md --junit j.xml --report p.html"
    )
    assert (
        Path("s.md")
        .read_text()
        .startswith('## \u2705 Passed: "new" is not worse than "old" in score')
    )
    assert "[Full report](p.html)" in Path("s.md").read_text()
    assert 'failures="0"' in Path("j.xml").read_text()
    assert "third" not in Path("p.html").read_text()


def test_a_margin_counts_in_points_where_scores_are_0_and_1() -> None:
    wide({"old": 0.6, "new": 0.6}, n=1000)
    assert (
        "not worse by more than 20 points"
        in cli("gate wide.csv --baseline old --margin 0.2").out
    )


def test_who_is_compared_has_to_be_said() -> None:
    wide({"a": 0.5, "b": 0.5, "c": 0.5})
    assert (
        "No baseline is given. Choose it by --baseline ID. The ids in the files are 'a', 'b', 'c'."
        in cli("gate wide.csv", code=2).err
    )
    assert (
        "Choose it by --candidate ID" in cli("gate wide.csv --baseline a", code=2).err
    )
    assert (
        "--candidate and --baseline are both 'a'"
        in cli("gate wide.csv --baseline a --candidate a", code=2).err
    )
    assert (
        "no candidate 'd'"
        in cli("gate wide.csv --baseline d --candidate a", code=2).err
    )


def test_examples_of_one_alone_are_said_and_count_against_a_verdict() -> None:
    Path("old.csv").write_text("id,ok\n" + "".join(f"q{i},0\n" for i in range(60)))
    Path("new.csv").write_text("id,ok\n" + "".join(f"q{i},1\n" for i in range(10, 80)))
    # Even if the unknown scores of "new" were 0 and those of "old" 1, "new" leads.
    said = cli("gate old.csv new.csv --baseline old").out
    assert '"new" has no score on 10 and "old" has no score on 20 of 80' in said
    assert "on 50 of 80 examples" in said


@pytest.mark.parametrize("missing", ["empty", "no row"])
def test_a_candidate_without_half_of_its_scores_does_not_pass(missing: str) -> None:
    n = 300
    rows = [(f"q{i}", i % 3 != 0, i % 3 != 0 and i % 6 != 1) for i in range(n)]
    Path("old.csv").write_text(
        "id,acc\n" + "".join(f"{name},{int(ok)}\n" for name, ok, _ in rows)
    )
    blank = "" if missing == "no row" else None
    cells = [(name, "1" if has else blank) for name, _, has in rows]
    Path("new.csv").write_text(
        "id,acc\n"
        + "".join(f"{name},{cell or ''}\n" for name, cell in cells if cell != "")
    )
    said = cli("gate old.csv new.csv --baseline old --margin 0.05", code=3).out
    assert '"new" has no score on 150 of 300 examples' in said


def test_the_order_of_rows_and_files_changes_nothing() -> None:
    names = {"b": lambda i: i % 2, "a": lambda i: i % 3 == 0, "c10": lambda i: 1}
    rows = [f"{i},{n},{int(f(i))},{i % 7}" for n, f in names.items() for i in range(30)]
    said = set()
    for seed in range(4):
        random.Random(seed).shuffle(rows)
        text = "example,model,acc,cost\n" + "\n".join(rows) + "\n"
        Path("t.csv").write_text(text)
        said.add(cli("analyze t.csv --maximize acc --at-most cost=4").out)
    assert len(said) == 1


def test_plain_means_stand_beside_the_estimates() -> None:
    rows = [f"{i},{m},{int(i < k)}" for m, k in (("x", 7), ("y", 3)) for i in range(10)]
    Path("t.csv").write_text("example,model,acc\n" + "\n".join(rows) + "\n")
    said = cli("analyze t.csv").out
    assert "plain mean" in said
    entries = json.loads(cli("analyze t.csv --json").out)["prompts"]
    assert [(e["plain_mean"], e["evaluations"]) for e in entries] == [
        ({"acc": 0.7}, 10),
        ({"acc": 0.3}, 10),
    ]


def test_a_mean_at_its_bound_satisfies_it_on_exactly_these_examples() -> None:
    rows = [
        f"q{i},{m},{int(i % 10 < k)},{c}"
        for m, k, c in (("a", 8, 2), ("b", 5, 1))
        for i in range(100)
    ]
    Path("t.csv").write_text("id,model,acc,cost\n" + "\n".join(rows) + "\n")
    flags = "--minimize cost --at-least acc=0.8 --inputs given"
    assert 'Take "a"' in cli(f"analyze t.csv {flags}").out


def test_failures_count_against_the_candidate() -> None:
    rows = [
        {
            "prompt": name,
            "example": i,
            "ok": 1,
            "error": "timeout" if name == "new" and i < 60 else "",
        }
        for name in ("old", "new")
        for i in range(100)
    ]
    Path("f.csv").write_text(as_csv(rows))
    assert 'Failed: "new"' in cli("gate f.csv --baseline old", code=1).out
    assert "60 of 100 (60%)" in cli("gate f.csv --baseline old", code=1).out


def test_a_configuration_says_its_goal_itself() -> None:
    Path("c.toml").write_text("")
    assert (
        "--maximize can be used with files of results only"
        in cli("gate c.toml --maximize ok", code=2).err
    )
    assert "Give either the configuration alone" in cli("gate c.toml r.csv", code=2).err


def test_files_of_results_need_no_reader_of_configurations(tmp_path: Path) -> None:
    for name, every in (("old", 50), ("new", 3)):
        rows = [{"id": i, "success": int(i % every > 0)} for i in range(60)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    code = "import sys; sys.modules['pydantic'] = None; from asktell_adapters.cli.main import main; sys.exit(main())"
    for command, expected in (
        ("analyze old.json new.json", 0),
        ("gate old.json new.json --baseline old", 1),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected, done.stderr
    assert (
        "examples. It is not known how often two runs of the same candidate would differ."
        in done.stdout
    )


def test_files_of_results_cannot_be_rechecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        (tmp_path / f"{name}.json").write_text(
            json.dumps([{"id": i, "success": i % 2} for i in range(20)])
        )
    assert (
        "--recheck has no effect"
        not in cli("gate old.json new.json --baseline old --margin 0.9").out
    )
    assert (
        "--recheck has no effect"
        in cli("gate old.json new.json --baseline old --margin 0.9 --recheck 5").out
    )


def _slow_and_fast(path: str = "three.csv") -> None:
    """Scores of three candidates, of which "new" is slower than "old" by 0.4 s and "slow" by 4 s."""
    rng = random.Random(1)
    lines = ["prompt,example,accuracy,latency"]
    for example in range(60):
        for name, skill, seconds in (
            ("old", 0.7, 1.0),
            ("new", 0.8, 1.4),
            ("slow", 0.9, 5.0),
        ):
            is_right = int(rng.random() < skill)
            taken = seconds + 0.1 * rng.random()
            lines.append(f"{name},e{example},{is_right},{taken:.3f}")
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("flags", "bound"),
    [
        ("--minimize latency --within latency=0.5", "latency <= best + 0.5"),
        (
            "--minimize latency --within 'latency=0.5 of baseline'",
            "latency <= baseline + 0.5",
        ),
        ("--at-most 'latency=within 0.5 of best'", "latency <= best + 0.5"),
    ],
)
def test_a_constraint_may_be_relative(flags: str, bound: str) -> None:
    _slow_and_fast()
    out = cli(
        f"analyze three.csv --maximize accuracy {flags} --baseline old --json"
    ).out
    entries = {entry["id"]: entry for entry in json.loads(out)["prompts"]}
    assert entries["new"]["feasible"]
    assert not entries["slow"]["feasible"]
    out = cli(f"analyze three.csv --maximize accuracy {flags} --baseline old").out
    assert bound in " ".join(out.split())


@pytest.mark.parametrize(
    ("within", "mistake"),
    [
        ("latency", "--within needs a metric and a margin"),
        ("accuracy=x", "The bound on 'accuracy' must be a number"),
        ("accuracy=0.5 of first", "Got 'within 0.5 of first'"),
        ("nothing=1", "There is no metric 'nothing'"),
        ("latency=0.5", "--at-most 'latency=within 0.5 of best'"),
    ],
)
def test_mistakes_in_relative_constraints_are_named(within: str, mistake: str) -> None:
    _slow_and_fast()
    flags = ("--maximize", "accuracy", "--within", within)
    assert mistake in cli("analyze three.csv", *flags, code=2).err
    if "nothing" not in within:
        gate = cli("gate three.csv --baseline old --candidate new", *flags, code=2).err
        assert mistake in gate


def test_a_gate_on_files_of_results_judges_relative_constraints() -> None:
    _slow_and_fast()
    gate = "gate three.csv --maximize accuracy --at-most 'latency=within 0.5 of baseline' --baseline old --margin 0.2"
    assert "passed    latency <= baseline + 0.5" in cli(f"{gate} --candidate new").out
    out = cli(f"{gate} --candidate slow", code=1).out
    assert "failed    latency <= baseline + 0.5" in out
