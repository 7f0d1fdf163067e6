"""`asktell gate` and `asktell compare`, and the page about them."""

from __future__ import annotations

import io
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import asktell
from asktell import (
    BestFeasible,
    Selector,
    Study,
)
from tests.command_line import cli

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "fail-a-build.md"
COMMANDS = re.findall(r"```sh\nasktell (.*?)\n```", PAGE.read_text(), re.DOTALL)
_numbers = itertools.count()
LLM = """
from asktell_adapters.evaluators import Completion

SKILL = {"word.": 0.5, "case.": 0.9, "worse.": 0.1}

class LLM:
    calls = 0

    def complete(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        LLM.calls += 1
        prompt, text = request.messages[-1]["content"].split("\\n\\n")
        last = prompt.split()[-1]
        if last == "broken.":
            raise RuntimeError("no connection")
        right = (int(text) * 7 % 100) / 100 < SKILL[last]
        answer = "yes" if right else "no"
        return Completion(answer, completion_tokens=1, cost=0.5)

def load():
    return LLM()
"""
PRICED = """type = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
max_retries = 0
price = { input = 1000, output = 1000, currency = "EUR" } #"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's folder, with an LLM that is a few lines of Python."""
    monkeypatch.chdir(tmp_path)
    module = f"llm_of_gate_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(LLM)
    rows = [{"input": str(i), "reference": "yes"} for i in range(200)]
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    text = re.findall(r"```toml\n# gate.toml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    text = text.replace("my_llm", module)

    def write(**changes: str) -> None:
        changed = text
        for old, new in changes.items():
            changed = changed.replace(old, new)
        (tmp_path / "gate.toml").write_text(changed)

    write()
    return write


def test_the_pages_commands_run(project: Any, tmp_path: Path) -> None:
    gate, of_results, compare = COMMANDS
    out = cli(gate).out
    assert "passed    exact_match not worse by more than 5 points" in out
    assert "passed    brevity >= 0.5" in out
    assert re.search(
        r"exact_match: .new. 0\.[89]\d+ .*, .mine. 0\.\d+ .*, difference \+0\.\d+ \[",
        out,
    )
    spent = int(re.search(r"(\d+) of \d+ evaluations", out).group(1))  # type: ignore[union-attr]
    assert spent < 200  # of 400
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith(
        '## ✅ Passed: "new" is not worse than "mine" by more than 5 points in exact_match, and'
    )
    assert "| exact_match |" in summary
    suite = ElementTree.fromstring((tmp_path / "gate.xml").read_text())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        "3",
        "0",
        "0",
    )
    assert "[Full report](gate.html)" in summary
    both = "<tr><th>mine: 0</th><td><pre>no</pre></td></tr>\n<tr><th>new: 1</th><td><pre>yes</pre></td></tr>\n"
    assert both in summary
    data = json.loads(
        re.search(r'id="data">(.*?)</script>', (tmp_path / "gate.html").read_text())[1]  # type: ignore[index]
    )
    assert f"## \u2705 {data['words']['answer']}".rstrip(".") in summary.replace(
        "\\", ""
    )
    assert data["duels"][0]["rows"][-1]["answers"] == ["yes", "no"]
    assert len(data["inputs"]) == len(data["duels"][0]["rows"])
    (tmp_path / "runs").mkdir()
    text = (tmp_path / "gate.toml").read_text()
    (tmp_path / "gate.toml").write_text(
        'output = "runs/first"\n' + text.replace("budget = 600 ", "budget = 40 ")
    )
    cli("run gate.toml")
    assert "new" in cli(compare).out
    for name, score in (("old", 0), ("new", 1)):
        rows = [{"id": i, "success": score} for i in range(100)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    assert (
        'Passed: "new" is not worse than "old" by more than 5 points in success.'
        in cli(of_results).out
    )


@pytest.mark.parametrize(
    ("changes", "flags", "code", "said"),
    [
        ({"in lower case.": "but worse."}, "", 1, "failed    exact_match not worse"),
        ({"at_least": "at_most"}, "--margin 0.5", 1, "failed    brevity <= 0.5"),
        ({"budget = 600 ": "budget = 12 "}, "", 3, "Confidence 0.95. 12 of 12 evaluations spent."),
        ({"budget = 600 ": "budget = { cost = 5 } "}, "", 3, "10 of 400 evaluations spent"),
        ({"maximize": "type = 'pareto-set'\nmaximize", "at_least = { brevity = 0.5 }": "minimize = 'brevity'"},
         "--margin 0.99", 0, "passed    brevity not worse by more than 99 points"),
    ],
)  # fmt: skip
def test_the_exit_code_says_what_was_found(
    changes: Any, flags: str, code: int, said: str, project: Any, tmp_path: Path
) -> None:
    if "cost" in str(changes):
        changes = {**changes, "[metrics]": "[metrics]\ncost = true"}
    project(**changes)
    out = cli(
        f"gate gate.toml --baseline mine --summary s.md --junit j.xml {flags}",
        code=code,
    ).out
    assert said in out
    # An interval may reach beyond the margin beside "passed": both say why.
    for text in (out, (tmp_path / "s.md").read_text()):
        assert ("needs only one side" in text) == (code != 3)
    assert ElementTree.fromstring((tmp_path / "j.xml").read_text()).tag == "testsuite"


@pytest.mark.parametrize(
    ("line", "changes", "said"),
    [
        (
            "--baseline nobody",
            {},
            "Got --baseline 'nobody'. Pass the id of a prompt of gate.toml. The ids are 'mine', 'new'.",
        ),
        (
            "--baseline mine --candidate other",
            {},
            "Got --candidate 'other'. Pass the id of a prompt of gate.toml",
        ),
        (
            "--baseline mine --candidate mine",
            {},
            "The candidate and the baseline are the same prompt, 'mine'.",
        ),
        (
            "",
            {},
            "No --baseline is given. Pass the id of a prompt of gate.toml. The ids are",
        ),
        (
            "--baseline mine",
            {"[data]": 'c = "And one word."\n[data]'},
            "No --candidate is given. Pass the id of a prompt",
        ),
        ("--baseline mine --margin -1", {}, "--margin must be a number of at least 0"),
        (
            "--baseline mine --differ 1.5",
            {},
            "--differ must be a number from 0 to 1, got 1.5.",
        ),
        (
            "--baseline mine --recheck -1",
            {},
            "--recheck must be a number of evaluations, or 0 for no evaluations, got -1.",
        ),
        (
            "--baseline mine --confidence 1",
            {},
            "--confidence must be a number above 0 and below 1",
        ),
        ("--baseline mine --summary no/such/folder.md", {}, "cannot be written"),
        (
            "--baseline mine",
            {"in lower case.": "broken.", "one word.": "one broken."},
            "no connection",
        ),
    ],
)
def test_what_cannot_be_found_out_is_neither_pass_nor_failure(
    line: str, changes: Any, said: str, project: Any
) -> None:
    project(**changes)
    assert said in cli(f"gate gate.toml {line}", code=2).err


def test_a_candidate_that_only_fails_fails_the_build(
    project: Any, tmp_path: Path
) -> None:
    project(**{"in lower case.": "broken."})
    said = cli("gate gate.toml --baseline mine --summary s.md", code=1).out
    failed = re.search(
        r"Failed evaluations: .new. (\d+) of \1 \(100%\), .mine. 0 of \d+ \(0%\)", said
    )
    assert failed
    assert int(failed[1]) < 20  # of 200
    assert said.endswith('Failed: "new" fails more often than "mine".\n')
    summary = (tmp_path / "s.md").read_text()
    assert '❌ "new" fails no more often than "mine": failed' in summary
    assert 'Failed evaluations: "new"' in summary


def test_a_baseline_that_only_fails_passes_nothing(project: Any) -> None:
    project(**{"one word.": "broken."})
    said = cli("gate gate.toml --baseline mine", code=3).out
    assert 'Failed evaluations: "new" 0 of 200 (0%), "mine" 200 of 200 (100%)' in said
    assert "A failed evaluation has no score." in said


def test_the_gate_knows_prompts_that_were_added(project: Any) -> None:
    project()
    text = Path("gate.toml").read_text()
    Path("gate.toml").write_text(
        'output = "runs/gate"\n' + text.replace("budget = 600 ", "budget = 40 ")
    )
    cli("run gate.toml --no-progress")
    assert (
        "'mine', 'new'"
        in cli("gate gate.toml --baseline mine --candidate third", code=2).err
    )
    cli("add", "gate.toml", "third=And never but worse.")
    said = cli(
        "gate gate.toml --baseline new --candidate third --margin 0.05", code=1
    ).out
    assert (
        'Failed: "third" is worse in exact_match than "new" by more than 5 points'
        in said
    )
    # Where the file has two prompts, the candidate is still the other one.
    assert '"new" 0.' in cli("gate gate.toml --baseline mine --margin 0.05", code=3).out


EXITS = LLM.replace(
    "        LLM.calls += 1\n",
    "        LLM.calls += 1\n        if LLM.calls > 20:\n            os._exit(0)\n",
)


def test_a_process_that_exits_in_the_evaluator_passes_nothing(
    project: Any, tmp_path: Path
) -> None:
    project()
    (module,) = tmp_path.glob("llm_of_gate_*.py")
    module.write_text("import os\n" + EXITS)
    summary = tmp_path / "summary.md"
    summary.write_text("## ✅ Passed: an earlier one\n")
    line = [
        sys.executable,
        "-m",
        "asktell",
        "gate",
        "gate.toml",
        "--baseline",
        "mine",
        "--summary",
        str(summary),
    ]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ran.returncode == 2, ran.stderr
    assert "ended with exit code 0 before there was a verdict" in ran.stderr
    assert not summary.exists()


def test_a_terminated_gate_ends_its_process(project: Any, tmp_path: Path) -> None:
    project()
    (module,) = tmp_path.glob("llm_of_gate_*.py")
    waits = LLM.replace(
        "        LLM.calls += 1\n",
        '        print("asked", flush=True)\n        time.sleep(0.2)\n',
    )
    module.write_text("import time\n" + waits)
    line = [sys.executable, "-m", "asktell", "gate", "gate.toml", "--baseline", "mine"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.terminate()
        # Until the other process has closed it, too
        assert process.stdout.read().count("asked") < 20
    assert process.returncode == 143


@pytest.mark.parametrize(
    "error", [GeneratorExit(), RuntimeError("boom"), SystemExit(1), BrokenPipeError()]
)
@pytest.mark.parametrize("debug", ["", "--debug"])
def test_an_error_is_no_verdict(
    error: BaseException, debug: str, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("asktell_adapters.gating.settle.run", fail)
    assert cli(f"gate gate.toml --baseline mine {debug}", code=2).err


@pytest.mark.parametrize(
    ("stdout", "last", "code"),
    [
        (">&-", "in lower case.", 0),
        ("> /dev/full", "but worse.", 1),
        ("| true", "in lower case.", 0),
    ],
)
def test_the_verdict_is_the_exit_code_where_nobody_reads_it(
    stdout: str, last: str, code: int, project: Any
) -> None:
    project(**{"in lower case.": last})
    line = f"{sys.executable} -m asktell gate gate.toml --baseline mine --margin 0.05 {stdout}"
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stderr


def test_a_gate_that_may_cost_too_much_is_asked_about(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    project(**{"loader =": PRICED, "budget =": "confirm_above = 0.5\nbudget ="})
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert (
        "more than confirm_above = 0.5"
        in cli("gate gate.toml --baseline mine", code=2).err
    )
    said = cli("gate gate.toml --baseline mine --yes", code=2).err
    assert "confirm_above" not in said  # it was begun, and nobody answers there


def test_a_gate_on_doubtful_labels_is_undecided_and_says_why(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remarks(self: Any) -> dict[str, tuple[str, bool]]:
        return {
            "exact_match": ("People disagree with it on new: nothing is certain.", True)
        }

    monkeypatch.setattr(
        "asktell_adapters.evaluators.LLMEvaluator.remarks", remarks, raising=False
    )
    said = cli(
        "gate gate.toml --baseline mine --margin 0.05 --summary s.md --junit j.xml",
        code=3,
    ).out
    for text in (said, Path("s.md").read_text(), Path("j.xml").read_text()):
        assert "The gate neither passes nor fails on doubtful scores." in text
    assert (
        'Undecided: the scores are doubtful, so "new" cannot be compared with "mine".'
        in said
    )
    assert "People disagree with it on new" in said


def test_the_gate_says_beforehand_how_many_evaluations_it_takes(project: Any) -> None:
    project(
        **{"budget = 600 ": "budget = 40 ", "[model]": "[model]\ntemperature = 1.0"}
    )
    said = cli("gate gate.toml --baseline mine --margin 0.05 --summary s.md", code=3)
    assert re.search(
        r"\(--differ\), a pass takes about [\d,]{4,} evaluations of each\. The budget allows 20 of",
        said.err,
    )
    assert (
        "Expect no verdict. Use more examples and a larger budget, or a margin above 0.05."
        in said.err
    )
    for text in (said.out, Path("s.md").read_text()):
        assert re.search(
            r"If both are equally good, a pass takes about [\d,]{3,} evaluations of each\. So far, there are 20",
            text,
        )
    said = cli("gate gate.toml --baseline mine --summary s.md", code=3)
    assert (
        "Scores may differ when repeated, so the gate stays undecided for equal prompts unless there is a margin"
        in said.err
    )


def test_the_file_says_if_the_verdict_is_about_new_inputs(project: Any) -> None:
    project()
    said = cli("gate gate.toml --baseline mine --summary s.md")
    assert "If both prompts are equally good" in said.err
    for text in (said.out, Path("s.md").read_text()):
        assert (
            '\n"new" is the better choice on the given examples with over 99% probability.\n'
            in text
        )
    project(**{"budget = 600 ": "inputs = 'new'\nbudget = 600 "})
    said = cli("gate gate.toml --baseline mine")
    assert (
        '\n"new" is the better choice on unseen inputs with over 99% probability.\n'
        in said.out
    )
    assert (
        "The verdict is about unseen inputs, so the gate stays undecided for equal prompts unless there is a margin."
        in said.err
    )
    # The new prompt is ahead on 80 of the 200 examples and behind on none, which is
    # certain of new ones, too.
    assert said.out.endswith(
        'Passed: "new" is not worse than "mine" in exact_match, and satisfies every constraint.\n'
    )


def test_compare_studies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    prompts, goal = {"x": "be brief", "y": "be exact"}, BestFeasible("a")
    for name, options in {
        "first": {"repeats": 1, "inputs": "given"},
        "new": {},
    }.items():
        selector = Selector(prompts, goal, 8, "uniform", examples=4, **options)
        with Study.create(url, name, selector) as study:
            asktell.run(
                study,
                lambda prompt, example: {"a": len(prompt) + example},
                progress=False,
            )
    assert (
        'a: "x" and "y" are equal: difference 0 (exact for the given examples, since '
        "both were evaluated on all 4 examples)."
        in cli("compare", url, "first", "x", "y").out
    )
    # New inputs may show a difference.
    assert (
        'a: "x" and "y" have the same mean so far: difference 0, 95% interval '
    ) in cli("compare", url, "new", "x", "y").out
    assert json.loads(cli("compare", url, "first", "x", "y", "--json").out)[
        "guaranteed"
    ]
    for wrong in (["first"], ["first", "x", "nobody"], ["first", "x", "y", "x"]):
        said = cli("compare", url, *wrong, code=2).err
    assert "needs the ids of one or two prompts" in said


def test_a_bound_on_a_quantile_is_judged_as_that(project: Any) -> None:
    project(**{"brevity = 0.5": "brevity = { bound = 0.5, quantile = 0.05 }"})
    assert "quantile" in Path("gate.toml").read_text()
    assert "brevity >= 0.5 on 95% of the examples" in cli(COMMANDS[0]).out


AGENT = """
import json, random, sys
trial = json.load(sys.stdin)
i, name, n = int(trial["example"]["input"]), trial["prompt_id"], trial["trial"]
right = 0.0 if name == "new" and i % 4 == 0 else 0.5 if i % 2 else 1.0
print(json.dumps({"success": float(random.Random(f"{i} {name} {n}").random() < right)}))
"""


def test_the_gate_counts_its_rechecks_against_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "rows.jsonl").write_text(
        "".join(
            json.dumps({"id": f"q{i}", "input": str(i), "reference": ""}) + "\n"
            for i in range(16)
        )
    )
    config = f"""budget = BUDGET
[prompts.texts]
old = "a"
new = "b"
[data]
file = "rows.jsonl"
[evaluator]
command = [{sys.executable!r}, "agent.py"]
[goal]
maximize = "success"
ranges = {{ success = [0, 1] }}
"""
    (tmp_path / "gate.toml").write_text(config.replace("BUDGET", "44"))
    said = cli(
        "gate gate.toml --baseline old --margin 0.05 --recheck 12 --summary s.md",
        code=3,
    ).out
    assert "32 of 32 evaluations spent, 12 to recheck examples that differ" in said
    assert re.search(
        r"success: The two prompts scored differently on \d+ of 16 examples. With the measured noise, two runs of",
        said,
    )
    assert re.search(r"beyond noise, (no|\d+) examples? regressed", said)
    assert (
        "examples. With the measured noise, two runs of"
        in (tmp_path / "s.md").read_text()
    )
    said = cli("gate gate.toml --baseline old --margin 0.05 --recheck 0", code=3).out
    assert "44 of 44 evaluations spent" in said
    assert "recheck" not in said
    (tmp_path / "gate.toml").write_text(config.replace("BUDGET", "32"))
    said = cli("gate gate.toml --baseline old --margin 0.05", code=3).out
    assert (
        "The budget left nothing to recheck the examples that differ. With 50 more evaluations"
        in said
    )


def test_the_flag_is_the_baseline_of_a_relative_goal(
    project: Any, tmp_path: Path
) -> None:
    project(**{"brevity = 0.5": 'brevity = "within 0.2 of baseline"'})
    text = (tmp_path / "gate.toml").read_text()
    assert "within 0.2" in text
    assert "\nbaseline" not in text
    gate = "gate gate.toml --candidate new --margin 0.05"
    assert "passed    brevity >= baseline - 0.2" in cli(f"{gate} --baseline mine").out
    assert "needs a baseline" in cli(gate, code=2).err
    assert "There is no prompt 'nobody'" in cli(f"{gate} --baseline nobody", code=2).err


def test_results_and_reports_of_a_relative_goal(project: Any, tmp_path: Path) -> None:
    project(
        **{
            "brevity = 0.5": 'brevity = "within 0.2 of best"',
            "budget = 600 ": "budget = 40 ",
        }
    )
    cli("run gate.toml")
    assert "brevity >= best - 0.2" in cli("result gate.toml").out
    cli("report gate.toml -o page.html")
    assert "best - 0.2" in (tmp_path / "page.html").read_text()
