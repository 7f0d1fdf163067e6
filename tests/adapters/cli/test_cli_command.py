"""A program as the evaluator of the command line: what it is given, what a run keeps, and what a file may say."""

import io
import json
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from asktell import ConfigError, Study
from asktell_adapters.config import load_config
from asktell_adapters.testing.llm_server import FaultyLLMServer
from tests.command_line import cli

AGENT = """
import json, sys, time
asked = json.load(sys.stdin)
with open("asked.jsonl", "a") as file:
    file.write(json.dumps(asked) + "\\n")
skill = asked["candidate"].get("skill", asked["prompt"])
if asked["example"]["task"] == "hang" and not skill:
    print('{"cost": 0.25}', flush=True)
    time.sleep(60)
if asked["example"]["task"] == "crash":
    sys.exit("no luck")
print(json.dumps({"success": "check" in skill, "cost": 0.5, "output": skill[:5]}))
"""
TEXT = """
output = "out"
budget = 12
method = "uniform"
on_failure = "skip"
[candidates]
skill = ["", "LONG.md", "SHORT.md"]
files = ["skill"]
[data]
file = "tasks.csv"
input = "task"
reference = "wanted"
id = "nr"
[evaluator]
command = ["PYTHON", "-S", "agent.py"]
repeatable = true
timeout = 20
[goal]
maximize = "success"
at_most = { seconds = 100 }
"""


NOISY = """
import json
number = len(open("count").read()) if __import__("os").path.exists("count") else 0
open("count", "a").write("x")
print(json.dumps({"success": number % 2, "seconds": 1.5}))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "LONG.md").write_text("long: run make check, please\n")
    (tmp_path / "SHORT.md").write_text("brief: nothing\n")
    (tmp_path / "tasks.csv").write_text(
        "nr,task,wanted,level\nA,one,1,9\nB,two,2,8\nC,three,3,7\nD,four,4,6\n"
    )
    write(tmp_path)
    return tmp_path


def write(home: Path, **changes: str) -> None:
    text = TEXT.replace("PYTHON", sys.executable)
    for old, new in changes.items():
        (line,) = [each for each in text.splitlines() if each.startswith(f"{old} =")]
        text = text.replace(line, new)
    (home / "a.toml").write_text(text)


def asked(home: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (home / "asked.jsonl").read_text().splitlines()
    ]


def test_a_run_gives_every_version_every_row_and_keeps_what_came(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "elsewhere").mkdir()
    # The program is started beside the file all the same
    monkeypatch.chdir(home / "elsewhere")
    said = cli("run ../a.toml").out
    assert "12 of 12 evaluations spent" in said
    assert 'Take "LONG.md"' in said
    assert ("Total cost: 6") in said
    by_trial = {each["trial"]: each for each in asked(home)}
    assert sorted(by_trial) == list(range(12))
    texts = {
        "none": "",
        "LONG.md": (home / "LONG.md").read_text(),
        "SHORT.md": (home / "SHORT.md").read_text(),
    }
    assert all(
        each["candidate"] == {"skill": texts[each["prompt_id"]]}
        for each in by_trial.values()
    )
    assert {"nr": "B", "task": "two", "wanted": "2", "level": "8"} in [
        each["example"] for each in by_trial.values()
    ]
    lines = [
        json.loads(line)
        for line in (home / "out" / "evaluations.jsonl").read_text().splitlines()
    ]
    assert {(line["prompt"], line.get("output")) for line in lines} == {
        ("none", ""),
        ("LONG.md", "long:"),
        ("SHORT.md", "brief"),
    }
    assert all(
        0 < line["scores"]["seconds"] < 20 and line["cost"] == 0.5 for line in lines
    )


def test_a_file_that_changes_later_changes_no_run(home: Path) -> None:
    cli("run a.toml")
    (home / "SHORT.md").write_text("brief: run make check\n")
    refused = cli("run a.toml", code=2).err
    assert "were changed, added or dropped: 'SHORT.md'. " in refused
    with Study.open(home / "out" / "study.db", "a") as study:
        candidates = study.selector.prompts.candidates
        assert candidates is not None
        assert candidates.factors["skill"]["SHORT.md"] == "brief: nothing\n"
    assert len(asked(home)) == 12


def test_how_it_is_started_is_no_other_run(home: Path) -> None:
    cli("run a.toml")
    write(home, timeout="timeout = 30\nworkers = 2\ncost = 1")
    assert "final" in cli("run a.toml").out
    write(home, repeatable="repeatable = false")
    assert (
        "'evaluator.repeatable' was True, and is False now"
        in cli("run a.toml", code=2).err
    )


def test_one_that_hangs_and_one_that_crashes_cost_their_evaluations_only(
    home: Path,
) -> None:
    (home / "tasks.csv").write_text(
        "nr,task,wanted,level\nA,one,1,9\nB,hang,2,8\nC,crash,3,7\nD,four,4,6\n"
    )
    write(home, timeout="timeout = 3\nworkers = 4")
    start = time.monotonic()
    # A row on which every version crashes is no failure of the run
    found = cli("run a.toml --keep-going")
    assert time.monotonic() - start < 45
    assert 'Take "LONG.md"' in found.out
    lines = [
        json.loads(line)
        for line in (home / "out" / "evaluations.jsonl").read_text().splitlines()
    ]
    failures = {
        (line["prompt"], line["example_id"]): line for line in lines if "error" in line
    }
    assert set(failures) == {
        ("none", "B"),
        *((id_, "C") for id_ in ("none", "LONG.md", "SHORT.md")),
    }
    assert "its timeout" in failures["none", "B"]["error"]
    assert failures["none", "B"]["cost"] == 0.25
    assert failures["none", "C"]["error"].endswith("exit code 1: no luck")


def test_a_check_shows_what_came_and_why_nothing_did(home: Path) -> None:
    said = cli("check a.toml --prompt LONG.md --example B").out
    assert said.startswith(
        "prompt 'LONG.md'\non: two\n--- response\nlong:\n--- reference\n2\n--- scores\n"
    )
    assert "\nsuccess  1\ncost     0.5\n" in said
    found = json.loads(cli("check a.toml --json").out)
    assert (found["candidate"], found["scores"]["success"]) == ({"skill": ""}, 0.0)
    (home / "agent.py").write_text("import sys; sys.exit('no key')")
    assert (
        "The evaluation failed. The error was EvaluatorError: the program ended with exit code 1: no key"
        in cli("check a.toml", code=1).err
    )
    (home / "agent.py").write_text("print('{\"sucess\": 1}')")
    assert (
        "but the evaluator returned only ['seconds', 'sucess']"
        in cli("check a.toml", code=2).err
    )
    assert not (home / "out").exists()


def test_an_estimate_tries_some_or_believes_what_is_given(home: Path) -> None:
    assert (
        "money          unknown until an evaluation is tried"
        in cli("run a.toml --estimate").out
    )
    assert not (home / "asked.jsonl").exists()
    write(home, timeout="cost = 2.0")
    assert "money          about 24\n" in cli("run a.toml --estimate").out
    said = cli("run a.toml --estimate 3").out
    assert "money          about 6\n" in said
    assert "tried          3 evaluations, for 1.5" in said
    assert (
        len({(each["prompt_id"], each["example"]["nr"]) for each in asked(home)}) == 3
    )
    write(home, budget="budget = { cost = 3.0 }", method="")
    found = json.loads(cli("run a.toml --estimate 3 --json").out)
    assert (
        found["evaluations"],
        found["cost"],
        found["most_cost"],
        found["repeats"],
    ) == (6, 3.0, 3.0, 0)
    (home / "agent.py").write_text("import sys; sys.exit('no key')")
    assert (
        "All evaluations failed (3 of 3). Remove the cause, and repeat the estimate. The first error was EvaluatorError"
        in cli("run a.toml --estimate 3", code=1).err
    )


def test_an_estimate_of_a_run_that_has_begun_goes_by_what_it_paid(home: Path) -> None:
    write(home, budget="budget = 6", method="")
    cli("run a.toml")
    assert "0: nothing is left" in cli("run a.toml --estimate").out
    cli("extend a.toml --evaluations 6")
    said = cli("run a.toml --estimate").out
    assert (
        "evaluations    6\nmoney          about 3 based on the 6 evaluations paid so far\n"
        in said
    )


def test_prompts_of_a_file_go_with_a_program(home: Path) -> None:
    text = (home / "a.toml").read_text()
    begin, end = text.index("[candidates]"), text.index("[data]")
    (home / "a.toml").write_text(
        f"{text[:begin]}[prompts]\ntexts = {{ a = 'Just {{do}} it.', b = 'check' }}\n{text[end:]}"
    )
    assert 'Take "b"' in cli("run a.toml").out
    assert {each["prompt"] for each in asked(home)} == {"Just {do} it.", "check"}
    assert all(each["candidate"] == {"prompt": each["prompt"]} for each in asked(home))


@pytest.mark.parametrize("header", ["id,task,wanted,name", "nr,task,wanted,id"])
def test_a_column_named_id_need_not_be_the_ids(home: Path, header: str) -> None:
    rows = (home / "tasks.csv").read_text().partition("\n")[2]
    (home / "tasks.csv").write_text(f"{header}\n{rows}")
    if header.startswith("id"):
        write(home, id="")  # so no column is declared as the ids
    cli("run a.toml")
    assert len(asked(home)) == 12


def test_the_text_of_a_file_is_the_same_from_an_editor_on_windows(home: Path) -> None:
    text = (home / "LONG.md").read_bytes()
    (home / "LONG.md").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    cli("run a.toml")
    skills = {each["candidate"]["skill"] for each in asked(home)}
    assert skills == {"", text.decode(), "brief: nothing\n"}


def test_a_gate_compares_two_versions(home: Path) -> None:
    write(home, budget="budget = 8")
    said = cli("gate a.toml --baseline none --candidate LONG.md")
    assert 'Passed: "LONG.md" is not worse than "none" in success' in said.out
    assert {each["prompt_id"] for each in asked(home)} == {"none", "LONG.md"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"command": "command = 'python agent.py'"},
            "'command' in [evaluator] must be a list of texts",
        ),
        (
            {"command": "command = []"},
            "[evaluator]: The command must be a list of words",
        ),
        (
            {"command": "command = ['no-such-program']"},
            "The program 'no-such-program' does not exist on the PATH",
        ),
        (
            {"command": "command = ['./agent']"},
            "The program './agent' does not exist in",
        ),
        ({"timeout": "timeout = 0"}, "'timeout' in [evaluator] must be"),
        ({"timeout": "workers = 0"}, "'workers' in [evaluator] must be at least 1"),
        ({"timeout": "type = 'inspect'"}, "got command and type"),
        (
            {"budget": "budget = 2\nconcurrency = 2", "timeout": "workers = 2"},
            "'concurrency' at the top and workers",
        ),
        (
            {"files": "files = ['skil']"},
            "has 'skil', which is not a factor with a list of files (did you mean 'skill'?)",
        ),
        (
            {"files": ""},
            'which is the name of a file. To use the text of the file, add files = ["skill"] to [candidates].',
        ),
        (
            {"skill": "skill = ['', 'GONE.md']"},
            "cannot be read (No such file or directory)",
        ),
        (
            {"skill": "skill = ['', '.']"},
            "cannot be read (Is a directory)",
        ),
        (
            {"skill": "skill = ['', 'binary']"},
            "has the file 'binary', which is not UTF-8 at byte 1",
        ),
        (
            {"skill": "skill = ['', 3]"},
            "so its values must be file names, got 3",
        ),
        (
            {"skill": "skill = ['LONG.md', 'LONG.md']"},
            "'skill' in [candidates] must have each value only once, got 'LONG.md'",
        ),
        (
            {"output": "confirm_above = 1.0"},
            "of its evaluations is not known before they are made. To limit what the run spends, use budget = { cost",
        ),
    ],
)
def test_mistakes_are_named(changes: dict[str, str], words: str, home: Path) -> None:
    (home / "binary").write_bytes(b"a\xff")
    write(home, **changes)
    with pytest.raises(ConfigError) as caught:
        load_config(home / "a.toml")
    assert words in str(caught.value)


def test_names_of_files_may_be_meant_as_such(home: Path) -> None:
    write(home, files="files = []")
    candidates = load_config(home / "a.toml").selector.prompts.candidates
    assert candidates is not None
    assert list(candidates.factors["skill"].values()) == ["", "LONG.md", "SHORT.md"]
    write(home, skill='skill = { without = "", with = "LONG.md" }')
    candidates = load_config(home / "a.toml").selector.prompts.candidates
    assert candidates is not None
    assert candidates.factors["skill"] == {
        "without": "",
        "with": (home / "LONG.md").read_text(),
    }


# A meter


METERED = """
import http.client, json, os, sys, urllib.parse
asked = json.load(sys.stdin)
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(url.hostname, url.port)
for _ in range(1 + len(asked["candidate"]["skill"]) % 2):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    connection.request("POST", url.path + "/chat/completions", json.dumps(body))
    connection.getresponse().read()
print(json.dumps({"success": 1}))
"""


def test_a_goal_of_what_the_meter_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    (home / "agent.py").write_text(METERED)
    price = "timeout = 60\nmeter = { prices = { m = { input = 1, output = 2 } } }"
    write(home, timeout=price, maximize='minimize = "cost"', budget="budget = 8",
          skill='skill = ["SHORT.md", "LONG.md"]',
          at_most="at_most = { calls = 9, errors = 0 }")  # fmt: skip
    lengths = {name: len((home / name).read_text()) for name in ("SHORT.md", "LONG.md")}
    with FaultyLLMServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        said = cli("run a.toml").out
        n_calls = [1 + length % 2 for length in lengths.values()]
        assert len(server.requests) == 4 * sum(n_calls)
    assert f"Total cost: {4 * sum(n_calls) * 20e-6:g}" in said
    rows = [
        json.loads(line)
        for line in (home / "out" / "evaluations.jsonl").read_text().splitlines()
    ]
    assert {row["cost"] for row in rows} == {20e-6 * n for n in n_calls}
    assert {row["scores"]["tokens_out"] for row in rows} == {5 * n for n in n_calls}
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert not any(b"sk-secret" in path.read_bytes() for path in kept)


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        ('"yes"', "'meter' in [evaluator] must be true or false, or a table with prices, addresses or both, got 'yes'"),
        ("[]", "must be true or false, or a table"),
        ("{ price = {} }", "unknown key 'price' in [evaluator.meter]. Did you mean 'prices'?"),
        ("{ prices = { m = 1 } }", "'prices' in [evaluator.meter] must be a table MODEL = { input"),
        ("{ prices = { m = { input = 1 } } }", "'output' is missing in [evaluator.meter.prices.m]"),
        ("{ prices = { m = { input = -1, output = 1 } } }", "prices must be finite and not negative"),
        ("{ prices = { m = { input = 1, output = 1, cached = 2 } } }", "Did you mean 'cached_input'?"),
        ('{ addresses = { A = "nowhere" } }', "[evaluator.meter]: The address in A must be the root of an API"),
        ('{ addresses = { "A B" = "http://a" } }', "have names of environment variables"),
        ("{ addresses = { A = 3 } }", "'addresses' in [evaluator.meter] must be a table VARIABLE = address"),
    ],
)  # fmt: skip
def test_mistakes_of_a_meter_are_named(meter: str, words: str, home: Path) -> None:
    write(home, timeout=f"timeout = 20\nmeter = {meter}")
    with pytest.raises(ConfigError) as caught:
        load_config(home / "a.toml")
    assert words in str(caught.value)


def test_only_a_command_has_a_meter(home: Path) -> None:
    (home / "b.toml").write_text(
        'budget = 4\n[evaluator]\ntype = "promptfoo"\nmeter = true\n[goal]\nmaximize = "a"\n'
    )
    with pytest.raises(
        ConfigError, match=r"'meter' in .* can be used only with `comma"
    ):
        load_config(home / "b.toml")


# init


def test_what_init_writes_runs_as_it_stands(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(home / "..")
    (home / "new").mkdir()
    monkeypatch.chdir(home / "new")
    said = cli("init --kind command").out
    assert "Wrote selection.toml, examples.csv, agent.py, SKILL.md." in said
    assert "success  0" in cli("check selection.toml").out
    assert "success  1" in cli("check selection.toml --prompt SKILL.md").out
    assert "final" in cli("run selection.toml").out


def test_init_takes_a_program_with_its_data_and_prompts(home: Path) -> None:
    (home / "prompts.txt").write_text("check it\nleave it\n")
    command = shlex.join([sys.executable, "-S", "agent.py"])
    said = cli(
        "init b.toml --data tasks.csv --prompts prompts.txt --budget 8 --maximize success",
        "--command",
        command,
    )
    assert "Wrote b.toml." in said.out
    config = load_config(home / "b.toml")
    assert (
        config.selector.budget,
        config.concurrency,
        len(config.selector.prompts),
    ) == (8, 4, 2)
    assert "8 of 8 evaluations spent" in cli("run b.toml").out
    cli("init c.toml --data tasks.csv --maximize quality", "--command", command)
    text = (home / "c.toml").read_text()
    assert 'maximize = "quality"' in text
    assert "ranges" not in text
    for words, problem in (
        ("--command x --kind openai", "--command can be used only with --kind command"),
        ("--kind command --model m", "--model cannot be used with --kind command"),
        ('--command "it\'s"', "--command must be words as in a shell"),
        ("--command no-such-program", "The program 'no-such-program' does not exist"),
    ):
        assert problem in cli(f"init d.toml --yes {words}", code=2).err
        assert not (home / "d.toml").exists()


def test_a_check_shows_how_much_the_scores_of_an_agent_differ(home: Path) -> None:
    (home / "agent.py").write_text(NOISY)
    said = cli("check a.toml --repeats 4").out
    assert "--- noise: 4 evaluations of this prompt and example" in said
    assert re.search(r"success +0 1 0 1: standard deviation 0\.58\n", said)
    assert re.search(r"seconds +1\.5 1\.5 1\.5 1\.5: all agree\n", said)
    assert (home / "count").read_text() == "xxxx"
