"""The GitHub action of `asktell gate`: its file, and what its steps do, on a GitHub that is a few lines of Python."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.cli.main import main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "actions" / "gate"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
STEPS = {
    step.get("name", step.get("uses", "").partition("@")[0]): step
    for step in ACTION["runs"]["steps"]
}
METHODS = {"POST", "PATCH"}
LLM = """
from asktell_adapters.evaluators import Completion

class LLM:
    def complete(self, requests):
        return [Completion("yes" if "good" in r.messages[-1]["content"] else "::error::no") for r in requests]

def load():
    return LLM()
"""
CONFIG = """
budget = 80
prompts.texts = { old = "bad", new = "good" }
data.file = "rows.jsonl"
model.loader = "action_llm:load"
metrics.exact_match = true
goal.maximize = "exact_match"
"""


def steps() -> Any:
    spec = importlib.util.spec_from_file_location("gate_action", FOLDER / "gate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_inputs_are_data_and_never_code() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])


def test_only_the_step_that_comments_knows_the_token() -> None:
    knows = [
        name for name, step in STEPS.items() if "token" in json.dumps(step).lower()
    ]
    assert knows == ["Publish"]


def test_actions_are_pinned_as_in_the_workflow() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    pinned = re.findall(
        r"uses: (\S+@\w{40} # v\S+)",
        (FOLDER / "action.yml").read_text(encoding="utf-8"),
    )
    assert len(pinned) == sum("uses" in step for step in STEPS.values()) == 2
    assert all(each in workflow for each in pinned)


def test_every_step_has_the_variables_that_it_reads() -> None:
    source = (FOLDER / "gate.py").read_text(encoding="utf-8")
    functions = dict(
        re.findall(
            r"^def (\w+)\(.*?$(.*?)(?=^def |^if )", source, re.MULTILINE | re.DOTALL
        )
    )
    functions["publish"] += (
        functions["_summary"] + functions["_comment"] + functions["_api"]
    )
    for step in ACTION["runs"]["steps"]:
        if "run" in step:
            read = set(
                re.findall(
                    r"[\"']([A-Z_]{4,})[\"']", functions[step["run"].split()[-1]]
                )
            )
            ours = {
                name
                for name in read
                if not name.startswith(("GITHUB_", "RUNNER_")) and name not in METHODS
            }
            assert ours == set(step["env"])


def test_the_workflow_of_the_page_runs_it_with_no_more_than_it_needs() -> None:
    page = (ROOT / "docs" / "how-to" / "fail-a-build.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    workflow, pinned = (
        yaml.safe_load(text),
        (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"),
    )
    (job,) = workflow["jobs"].values()
    checkout, gate = job["steps"]
    needed = dict(
        re.findall(
            r"^#   ([\w-]+): (\w+)  ", (FOLDER / "action.yml").read_text(), re.MULTILINE
        )
    )
    assert (workflow["permissions"], job["permissions"]) == ({}, needed)
    assert f"uses: {checkout['uses']} # v" in pinned
    assert (
        gate["uses"].partition("@")[0]
        == "asktell/asktell/" + FOLDER.relative_to(ROOT).as_posix()
    )
    assert set(gate["with"]) <= set(ACTION["inputs"])
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["optional-dependencies"]
    assert set(gate["with"]["extras"].split(",")) <= set(extras)
    assert not [
        name
        for name, each in ACTION["inputs"].items()
        if each.get("required") and name not in gate["with"]
    ]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, with a runner's variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'adapters'}")
    (tmp_path / "action_llm.py").write_text(LLM)
    (tmp_path / "rows.jsonl").write_text(
        "".join(f'{{"input": "{i}", "reference": "yes"}}\n' for i in range(40))
    )
    (tmp_path / "a.toml").write_text(CONFIG)
    event = {"pull_request": {"number": 7, "head": {"sha": "c0ffee"}}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    for name, value in {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "me/mine",
        "GITHUB_RUN_ID": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


class Done(NamedTuple):
    """A process that has ended."""

    returncode: int = 0


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate runs in this process, which starts sooner."""

    def run(command: list[str], check: bool) -> Done:
        assert command[:3] == [sys.executable, "-m", "asktell"]
        return Done(main(command[3:]))

    monkeypatch.setattr("subprocess.run", run)


def evaluated(
    project: Path, monkeypatch: pytest.MonkeyPatch, **inputs: str
) -> dict[str, str]:
    """The outputs of the step that evaluates."""
    (project / "outputs").unlink(missing_ok=True)
    given = {
        "CONFIG": "a.toml",
        "BASELINE": "old",
        "CANDIDATE": "",
        "MARGIN": "0",
        "RECHECK": "",
        "CONFIDENCE": "0.95",
        "ACCEPT_PRICE": "true",
        "MAXIMIZE": "",
        "MINIMIZE": "",
    }
    for name, value in {**given, **inputs}.items():
        monkeypatch.setenv(name, value)
    assert steps().evaluate() == 0
    return dict(
        line.split("=", 1) for line in (project / "outputs").read_text().splitlines()
    )


@pytest.mark.parametrize(
    ("inputs", "verdict"),
    [
        ({}, "passed"),
        ({"BASELINE": "new", "CANDIDATE": "old"}, "failed"),
        ({"CONFIG": "few.toml"}, "undecided"),
        ({"CONFIG": "old.csv\n  new.csv\n", "MAXIMIZE": "right"}, "passed"),
        ({"CONFIG": "old.csv\nnew.csv", "MINIMIZE": "right"}, "failed"),
        ({"CONFIG": "--help"}, "error"),
        ({"BASELINE": "$(touch x); --yes"}, "error"),
    ],
)
def test_the_verdict_is_an_output(
    inputs: Any,
    verdict: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    here: None,
) -> None:
    (project / "few.toml").write_text(CONFIG.replace("80", "4"))
    for name, score in (("old", 0), ("new", 1)):
        (project / f"{name}.csv").write_text(
            "id,right\n" + "".join(f"{i},{score}\n" for i in range(100))
        )
    outputs = evaluated(project, monkeypatch, **inputs)
    assert outputs["verdict"] == verdict
    assert not (project / "x").exists()
    out = capfd.readouterr().out
    token = re.match(r"::stop-commands::(\w{32})\n", out)
    assert token
    assert out.endswith(f"\n::{token[1]}::\n")
    files = {path.name for path in Path(outputs["folder"]).iterdir()}
    assert files == (
        set() if verdict == "error" else {"summary.md", "report.html", "gate.xml"}
    )
    monkeypatch.setenv("VERDICT", verdict)
    codes = []
    for undecided in ("fail", "pass"):
        monkeypatch.setenv("UNDECIDED", undecided)
        codes.append(steps().verdict())
    assert (
        codes
        == {"passed": [0, 0], "failed": [1, 1], "undecided": [3, 0], "error": [2, 2]}[
            verdict
        ]
    )


def test_the_options_are_those_of_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, called = steps(), []
    monkeypatch.setattr(
        module.subprocess,
        "run",
        lambda command, check: called.append(command) or Done(),
    )
    monkeypatch.setattr("tests.packages.test_gate_action.steps", lambda: module)
    evaluated(project, monkeypatch, CANDIDATE="new", MARGIN="0.02", RECHECK="0")
    (command,) = called
    parsed = make_parser().parse_args(command[3:])
    assert (parsed.margin, parsed.baseline, parsed.candidate, parsed.yes) == (
        0.02,
        "old",
        "new",
        True,
    )
    assert {path.name for path in (parsed.summary, parsed.report, parsed.junit)} == {
        "summary.md", "report.html", "gate.xml"
    }  # fmt: skip


@pytest.mark.parametrize(
    "head",
    [
        None,
        "",
        "## ❌ Failed: new is worse",
        "Passed",
        "## ✅ Passed: new is not worse",
    ],
)
def test_an_exit_code_that_the_summary_does_not_confirm_is_no_verdict(
    head: str | None,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    module = steps()

    def run(command: list[str], check: bool) -> Done:
        (summary,) = (
            word.partition("=")[2] for word in command if word.startswith("--summary=")
        )
        if head is not None:
            Path(summary).write_text(f"{head}\n", encoding="utf-8")
        return Done()

    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr("tests.packages.test_gate_action.steps", lambda: module)
    is_confirmed = head is not None and "## ✅" in head
    assert evaluated(project, monkeypatch)["verdict"] == (
        "passed" if is_confirmed else "error"
    )
    assert ("::error::" in capfd.readouterr().out) == (not is_confirmed)


def test_a_model_that_ends_the_process_passes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert evaluated(project, monkeypatch)["verdict"] == "passed"
    (project / "action_llm.py").write_text("import os\ndef load():\n    os._exit(0)\n")
    assert evaluated(project, monkeypatch)["verdict"] == "error"


class GitHub(BaseHTTPRequestHandler):
    """Comments of one pull request, a hundred on a page."""

    comments: list[dict[str, Any]]
    status = 200

    def do_GET(self) -> None:
        assert self.path.startswith(
            "/repos/me/mine/issues/7/comments?per_page=100&page="
        )
        page = int(self.path.rpartition("=")[2])
        self.answer(self.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        made = {"id": len(self.comments), "body": body, "user": {"type": "Bot"}}
        if self.status == 200:
            self.comments.append(made)
        self.answer(made)

    def do_PATCH(self) -> None:
        id_ = int(self.path.removeprefix("/repos/me/mine/issues/comments/"))
        self.comments[id_]["body"] = json.loads(
            self.rfile.read(int(self.headers["Content-Length"]))
        )["body"]
        self.answer({})

    def answer(self, data: Any) -> None:
        assert self.headers["Authorization"] == "Bearer t0ken"
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps(data).encode())

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[GitHub]]:
    monkeypatch.setattr(GitHub, "comments", [], raising=False)
    monkeypatch.setattr(GitHub, "status", 200)
    with ThreadingHTTPServer(("127.0.0.1", 0), GitHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.server_port}")
        yield GitHub
        server.shutdown()


def published(
    monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str], **inputs: str
) -> None:
    given = {
        "NAME": "asktell-gate",
        "COMMENT": "true",
        "REPORT_URL": "https://x/artifact",
        "TOKEN": "t0ken",
    }
    given |= {
        "FOLDER": outputs.get("folder", ""),
        "VERDICT": outputs.get("verdict", ""),
    }
    for name, value in {**given, **inputs}.items():
        monkeypatch.setenv(name, value)
    assert steps().publish() == 0


def test_there_is_one_comment_which_every_run_updates(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    github: type[GitHub],
    capfd: pytest.CaptureFixture[str],
    here: None,
) -> None:
    marker = "<!-- asktell gate asktell_gate -->"
    others = [{"id": i, "body": "Hello", "user": {"type": "User"}} for i in range(150)]
    others[3]["body"] = marker  # by somebody who would change it later
    github.comments.extend(others)
    outputs = evaluated(project, monkeypatch)
    published(monkeypatch, outputs)
    published(monkeypatch, outputs)
    assert len(github.comments) == 151
    body = github.comments[150]["body"]
    assert body.startswith(
        f'{marker}\n## ✅ Passed: "new" is not worse than "old" in exact_match\n'
    )
    assert "[Full report](https://x/artifact)" in body
    assert "::error::no" in body
    assert body.endswith(
        "asktell_gate, [run](https://github.com/me/mine/actions/runs/1) of c0ffee\n"
    )
    assert (project / "summary.md").read_text().count("## ✅ Passed") == 2
    published(monkeypatch, outputs, NAME="other")
    assert len(github.comments) == 152
    published(monkeypatch, {})  # what was installed or configured is broken
    assert "## ⚠️ The gate could not be decided" in github.comments[150]["body"]
    assert "Passed" not in github.comments[150]["body"]
    published(monkeypatch, outputs, COMMENT="false")
    assert "Passed" not in github.comments[150]["body"]
    assert "::warning::" not in capfd.readouterr().out


def test_without_a_pull_request_or_a_permission_there_is_a_summary(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    github: type[GitHub],
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(GitHub, "status", 403)
    published(monkeypatch, {})
    assert (
        "::warning::No comment on the pull request: HTTP Error 403"
        in capfd.readouterr().out
    )
    (project / "event.json").write_text("{}")
    published(monkeypatch, {})
    assert not github.comments
    assert "::warning::" not in capfd.readouterr().out
    assert (project / "summary.md").read_text().count("could not be decided") == 2
    assert "t0ken" not in (project / "summary.md").read_text()


@pytest.mark.parametrize(
    ("extras", "requirements", "code", "said"),
    [
        ("openai, metrics", "r.txt", 0, ["[openai,metrics]", "--requirement r.txt"]),
        ("", "", 0, [str(ROOT)]),
        ("openai] evil", "", 2, []),
    ],
)
def test_what_is_installed(
    extras: str,
    requirements: str,
    code: int,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, called = steps(), []
    monkeypatch.setattr(
        module.subprocess,
        "run",
        lambda command, check: called.append(" ".join(command)) or Done(),
    )
    monkeypatch.setenv("EXTRAS", extras)
    monkeypatch.setenv("REQUIREMENTS", requirements)
    assert module.install() == code
    assert all(words in called[0] for words in said)
    assert bool(called) == (code == 0)
