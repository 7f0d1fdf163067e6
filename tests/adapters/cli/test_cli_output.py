"""What `asktell status` and `asktell result` print of a result."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asktell import BestFeasible, ParetoSet, Selector, minimize
from asktell_adapters.cli import output
from asktell_adapters.cli.output import note, overview, show, show_json
from tests.command_line import cli


def test_a_front_under_constraints_comes_before_the_feasible_and_these_before_the_infeasible() -> (
    None
):
    goal = ParetoSet("a", minimize("b"), subject_to={minimize("c"): 0.5})
    selector = Selector(
        ["far off", "near", "beaten", "cheap", "good", "unknown"],
        goal,
        30,
        "uniform",
        examples=9,
    )
    rows = [[9, 0, 0.9], [9, 0, 0.6], [0.1, 2, 0], [0.5, 1, 0.3], [0.9, 1.5, 0.2]]
    for prompt, row in enumerate(rows):
        for example in range(3):
            selector.observe(prompt, row, example=example)
    lines = selector.result().table().split("\n")
    ids = [line.replace("*", " ").replace("?", " ").split()[0] for line in lines[2:8]]
    # The one that was not evaluated has the estimates of an average prompt, which
    # misses the bound by less.
    assert ids == ["4", "3", "2", "5", "1", "0"]
    assert [line.startswith("*") for line in lines[2:8]] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [line.startswith("?") for line in lines[2:8]] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert ["infeasible" in line for line in lines[2:8]] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]
    assert re.search(r" 2 ± 0\.0\d+ ", lines[4])
    assert "subject to c <= 0.5" in lines[0]
    assert any("c 0.2" in line for line in overview(selector.result(), "here", 6))


def test_no_line_is_a_command_to_the_runner_of_a_build(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Prompts, remarks and reasons have several lines, and a runner reads the log line by line."""
    show(
        "A remark.\n::warning::taken over\n  ::add-mask::a\r\n##[error]no\n##vso[task.setvariable]x"
    )
    assert capsys.readouterr().out.splitlines() == [
        "A remark.",
        "\\x3a:warning::taken over",
        "  \\x3a:add-mask::a\\r",
        "\\x23#[error]no",
        "\\x23#vso[task.setvariable]x",
    ]
    usual = ["# A heading", "## Another", "a::b", ": a colon", "", "[x]"]
    show("\n".join(usual))
    assert capsys.readouterr().out.splitlines() == usual


def test_a_remark_is_one_line_wherever_it_is_shown() -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 4, examples=9)
    selector.remark("Judged by a model.\n::warning::taken over", topic="judge")
    assert "Judged by a model. ::warning::taken over" in selector.result().notes
    assert all("\n" not in note for note in selector.result().notes)


def test_nothing_that_is_printed_controls_a_terminal_or_a_build(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "::warning::a\x1b[2J\n##vso[task]\nb\x7f"
    show(text)
    note(text)
    said = capsys.readouterr()
    assert said.out == said.err == "\\x3a:warning::a\\x1b[2J\n\\x23#vso[task]\nb\\x7f\n"
    show_json({"a": "\x7f\x1b\ud83d::error::"})
    out = capsys.readouterr().out
    assert out.isascii()
    assert "\x7f" not in out
    assert json.loads(out) == {"a": "\x7f\x1b\ud83d::error::"}


def test_no_command_prints_past_the_functions_that_escape() -> None:
    """The only calls of `print` are in `show` and `note`."""
    folder = Path(output.__file__).parent
    for path in folder.glob("*.py"):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ]
        assert len(calls) == (2 if path.name == "output.py" else 0), path


def test_analyze_escapes_names_of_columns_in_its_remarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "::warning::\x1b[2J"
    Path("t.csv").write_text(f"example,a,{name}\n1,0.5,x\n2,0.25,y\n")
    said = cli("analyze t.csv --json")
    assert "\x1b" not in said.err + said.out
    assert not re.search(r"^\s*::", said.err, re.MULTILINE)
    assert json.loads(said.out)


CONFIG = """
output = "run"
budget = 4
[prompts]
texts = ["a", "b"]
[data]
file = "d.csv"
[evaluator]
command = ["sh", "-c", "echo '{\\"acc\\": 1}'"]
[goal]
maximize = "acc"
"""


@pytest.mark.parametrize(
    ("streams", "code"),
    [
        ("2>&-", 0),
        ("2>&1 | true", 0),
        (">/dev/full", 1),
    ],
)
def test_a_command_needs_no_reader(
    streams: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("bash") is None or not Path("/dev/full").exists():
        pytest.skip("this needs bash and /dev/full")
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(CONFIG)
    Path("d.csv").write_text("input,reference\n1,1\n2,2\n")
    line = f"{sys.executable} -m asktell run a.toml {streams}"
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True
    )
    assert ran.returncode == code, ran.stderr
    assert json.loads(Path("run/result.json").read_text())["spent"] == 4


def test_a_result_that_cannot_be_written_is_printed_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(CONFIG)
    Path("d.csv").write_text("input,reference\n1,1\n2,2\n")
    Path("run/result.json").mkdir(parents=True)
    said = cli("run a.toml", code=1)
    assert "4 of 4 evaluations spent" in said.out
    assert "All evaluations are saved in" in said.err
    assert "result.json could not be written (Is a directory)" in said.err
    Path("run/result.json").rmdir()
    cli("run a.toml")
    assert json.loads(Path("run/result.json").read_text())["spent"] == 4
