"""The command line, end to end, with an LLM that is a few lines of Python."""

from __future__ import annotations

import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell._util.files import write_atomically
from asktell.studies import worker
from asktell.studies.storages import sqlite
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.main import main as run_command
from tests.command_line import Said, cli

_numbers = itertools.count()

LLM = """
import json, os, signal
from asktell_adapters.evaluators import Completion

class Down(Exception):
    pass

class Sync:
    def __init__(self, paid, stop_at=0, stop_by="", broken=(), down=False, raising=()):
        self.raising = raising
        self.paid, self.stop_at, self.stop_by, self.broken, self.down = paid, stop_at, stop_by, broken, down
        self.calls = 0

    def complete(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        self.calls += 1
        if self.calls == self.stop_at:
            if self.stop_by == "ctrl-c":
                raise KeyboardInterrupt
            os.kill(os.getpid(), getattr(signal, self.stop_by))
        prompt, text = request.messages[-1]["content"].split("\\n\\n")
        if any(name in prompt for name in self.raising):
            raise Down("raised")
        if self.down or any(name in prompt for name in self.broken):
            return Down("no \\x1b[31mconnection")
        with open(self.paid, "a") as file:
            file.write(json.dumps([prompt, text]) + "\\n")
        words = text.split() + ["x"] * (int(prompt.split()[-1]) + len(text) % 3)
        return Completion(" ".join(words), completion_tokens=len(words), cost=0.5)

class Async(Sync):
    async def acomplete(self, request):
        answer = self.one(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    complete = None
"""


class Project:
    """A folder with a configuration that can be run in this process."""

    def __init__(self, home: Path, kind: str = "Sync", n_prompts: int = 6) -> None:
        self.home = home
        self.config = home / "a.toml"
        self.folder = RunFolder(home / "out")
        self.module = f"llm_of_test_{next(_numbers)}"
        self.kind = kind
        self.changes: dict[str, str] = {}
        (home / f"{self.module}.py").write_text(LLM)
        rows = [
            {
                "input": "word " * (1 + i % 4) + str(i),
                "reference": "word word " + str(i),
            }
            for i in range(8)
        ]
        (home / "data.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
        self.prompts = {f"p{i}": f"Answer with noise {i}" for i in range(n_prompts)}
        self.write()

    def write(self, *, changes: dict[str, str] | None = None, **arguments: Any) -> None:
        given = ", ".join(
            f"{name} = {json.dumps(value)}" for name, value in arguments.items()
        )
        text = textwrap.dedent(f"""\
            output = "out"
            budget = 24
            concurrency = 3
            [prompts]
            texts = {{ {", ".join(f"{name} = {json.dumps(text)}" for name, text in self.prompts.items())} }}
            [data]
            file = "data.jsonl"
            [model]
            loader = "{self.module}:{self.kind}"
            arguments = {{ paid = {json.dumps(str(self.home / "paid.jsonl"))}{", " if given else ""}{given} }}
            [metrics]
            token_f1 = true
            brevity = {{ low = 2, high = 12 }}
            output_tokens = true
            cost = true
            [goal]
            maximize = "token_f1"
            at_least = {{ brevity = 0.3 }}
            """)
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        self.config.write_text(text)

    def run(self, *flags: str, code: int = 0) -> Said:
        # The arguments of the LLM say how it is interrupted; they are no other set-up.
        saved = None if flags == ("--as-it-is",) else self.folder.read_setup()
        if saved is not None:
            saved["model"]["arguments"] = self.arguments
            self.folder.write_setup(saved)
        return cli(
            "run",
            self.config,
            *(flag for flag in flags if flag != "--as-it-is"),
            code=code,
        )

    @property
    def arguments(self) -> Any:
        import tomllib

        return tomllib.loads(self.config.read_text())["model"]["arguments"]

    @property
    def paid(self) -> list[Any]:
        path = self.home / "paid.jsonl"
        return (
            [tuple(json.loads(line)) for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in self.folder.log_file.read_text().splitlines()
        ]

    @property
    def result(self) -> Any:
        return json.loads(self.folder.result_file.read_text())

    @property
    def spent(self) -> int:
        with self.folder.open_study() as study:
            return study.spent


@pytest.fixture(params=["Sync", "Async"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    return Project(tmp_path, request.param)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of the same run without any interruption, by the kind of the LLM."""
    results = {}
    for kind in ("Sync", "Async"):
        project = Project(tmp_path_factory.mktemp("undisturbed"), kind)
        project.run()
        results[kind] = project.result
    return results


def test_a_run_prints_its_result_and_leaves_everything_on_disk(
    either: Project, undisturbed: dict[str, Any]
) -> None:
    out = either.run().out
    assert "24 of 24 evaluations spent" in out
    assert f"Files: {either.folder.path}" in out
    assert len(either.lines) == len(either.paid) == either.spent == 24
    line = either.lines[0]
    assert set(line["scores"]) == {"token_f1", "brevity", "output_tokens", "cost"}
    assert line["prompt"] in either.prompts
    assert line["row"] == str(line["example"] + 1)
    assert line["example_id"].startswith("word ")
    assert line["output"].startswith("word")
    assert line["seconds"] >= 0
    assert either.result["done"]
    assert either.result["spent_cost"] == pytest.approx(12)
    assert either.result == undisturbed[either.kind]
    with either.folder.open_study() as study:
        assert study.name == "a"
        kept = list(study.evaluations())
    assert [(e.trial, e.prompt, e.example) for e in kept] == [
        (line["trial"], line["prompt"], line["example"]) for line in either.lines
    ]
    assert all(
        line["scores"] == e.details["scores"]
        for e, line in zip(kept, either.lines, strict=True)
        if e.details
    )


def test_a_finished_run_repeated_prints_its_result_at_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = project.run().out
    from asktell_adapters.config import Config

    monkeypatch.setattr(Config, "evaluator", None)  # the model is not even loaded
    assert project.run().out == first
    assert len(project.paid) == 24


@pytest.mark.parametrize("at", [1, 11, 24])
def test_after_ctrl_c_the_same_command_goes_on(
    either: Project, at: int, undisturbed: dict[str, Any]
) -> None:
    either.write(stop_at=at, stop_by="ctrl-c")
    stopped = either.run(code=130).err
    if either.kind == "Sync":
        # In a batch that was cut off, too
        assert either.spent == len(either.lines) == at - 1
        assert f"Stopped after {at - 1} of 24" in stopped
    either.write()
    either.run()
    assert max(Counter(either.paid).values()) == 1
    assert len(either.paid) == 24
    assert either.result == undisturbed[either.kind]


@pytest.mark.parametrize(
    ("signal", "code"), [("SIGTERM", 143), ("SIGKILL", -9), ("SIGINT", 130)]
)
def test_after_a_signal_the_same_command_goes_on(
    project: Project, signal: str, code: int, undisturbed: dict[str, Any]
) -> None:
    project.write(stop_at=14, stop_by=signal)
    # A background job ignores SIGINT, and so would its children.
    main = (
        "import signal, sys; from asktell_adapters.cli.main import main; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", main, "run", str(project.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    with project.folder.open_study() as study:
        outputs = [
            each.details["output"] for each in study.evaluations() if each.details
        ]
    assert len([text for text in outputs if text.startswith("word")]) == 13
    assert project.folder.log_file.exists() == (signal != "SIGKILL")
    assert "13 of 24" in cli("status", project.config).out
    project.write()
    assert "Resuming after 13 of 24" in project.run().err
    assert len(project.paid) == len(project.lines) == len(set(project.paid)) == 24
    assert project.result == undisturbed[project.kind]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("budget = 24", "budget = 23", "'budget' was 24, and is 23 now"),
        ("concurrency = 3", "concurrency = 3\nseed = 1", "'seed' was 0, and is 1 now"),
        (
            "concurrency = 3",
            'concurrency = 3\nmethod = "csr"',
            "'method' was 'auto', and is 'csr' now",
        ),
        (
            "brevity = 0.3",
            "brevity = 0.4",
            "'goal.at_least.brevity' was 0.3, and is 0.4 now",
        ),
        ("high = 12", "high = 13", "'metrics.brevity.high' was 12, and is 13 now"),
        ("p1 = ", "q1 = ", "were changed, added or dropped: 'p1', 'q1'. "),
        ("noise 2", "noise 7", "were changed, added or dropped: 'p2'. "),
        (
            "[data]",
            "[data]\nlimit = 7",
            "The examples have changed: 1 missing (row 8). ",
        ),
        (
            "[data]",
            "[data]\nshuffle = 1",
            "The examples have changed: 5 moved (row ",
        ),
        (
            "[model]",
            "[model]\nmax_new_tokens = 9",
            "'model.max_new_tokens' was 512, and is 9 now",
        ),
        (
            "[model]",
            "[model]\nsystem = 'Be brief.'",
            "'model.system' was not given, and is 'Be brief.' now",
        ),
    ],
)
def test_another_set_up_is_not_mixed_into_a_run(
    project: Project, old: str, new: str, named: str
) -> None:
    project.run()
    before = project.folder.result_file.read_bytes()
    project.write(changes={old: new})
    error = project.run("--as-it-is", code=2).err
    assert named in error
    assert "--fresh" in error
    assert project.folder.result_file.read_bytes() == before


def test_what_cannot_change_an_answer_may_change(project: Project) -> None:
    project.write(stop_at=5, stop_by="ctrl-c")
    project.run(code=130)
    changes = {
        "concurrency = 3": "concurrency = 1",
        "token_f1 = true": "token_f1 = {}",
        "[goal]": "[goal]\ntype = 'best-feasible'",
    }
    project.write(changes=changes)
    project.run()


def test_fresh_starts_anew_and_keeps_the_old_folder(project: Project) -> None:
    project.run()
    old = project.folder.study_file.read_bytes()
    for number in (1, 2):
        project.write(changes={"budget = 24": f"budget = {24 + number}"})
        assert f"out.{number}" in project.run("--fresh").err
    assert (project.home / "out.1" / "study.db").read_bytes() == old
    assert project.result["budget"] == 26


def test_a_mistake_with_fresh_leaves_the_old_folder_where_it_is(
    project: Project,
) -> None:
    project.run()
    project.write(no_such_argument=1)
    project.run("--fresh", code=2)
    assert project.folder.result_file.exists()


def test_two_runs_do_not_share_a_folder(project: Project) -> None:
    with project.folder.locked():
        assert f"Another run (process {os.getpid()})" in project.run(code=1).err
        assert project.folder.runner == str(os.getpid())
    assert project.folder.runner is None
    project.run()


def test_a_folder_of_unknown_set_up_is_refused(project: Project) -> None:
    project.run()
    project.folder.setup_file.unlink()
    assert "--fresh" in project.run(code=2).err
    project.folder.setup_file.write_text(
        '{"format": "asktell.run", "version": 99, "setup": {}}'
    )
    assert "version 99" in project.run("--as-it-is", code=2).err


def test_failures_are_counted_kept_and_shown(either: Project) -> None:
    either.write(broken=["noise 3"])
    err = either.run().err
    assert "\x1b" not in err
    assert "Down" in err
    failed = [line for line in either.lines if "error" in line]
    assert {line["prompt"] for line in failed} == {"p3"}
    n_failed = len(failed)
    assert n_failed in (6, 7, 8), "some were under way when it left"
    assert f"failures     {n_failed}" in cli("status", either.folder.path).out
    out = cli("result", either.folder.path).out
    assert f'All {n_failed} failures, when evaluating "p3" on the examples "' in out
    assert ": Down: no \\x1b[31mconnection" in out
    assert "\x1b" not in out


def test_a_budget_of_cost_is_kept_over_interruptions(project: Project) -> None:
    cost = {"budget = 24": "budget = { cost = 6.2 }"}
    project.write(changes=cost, stop_at=9, stop_by="ctrl-c")
    project.run(code=130)
    project.write(changes=cost)
    assert "12 of 48 evaluations and a cost of 6 of 6.2 spent" in project.run().out
    assert project.result["spent_cost"] == 0.5 * len(project.paid) == 6.0
    assert "cost         6 of 6.2 (97%)" in cli("status", project.folder.path).out


@pytest.mark.parametrize("n_prompts", [2, 6, 20])
def test_when_nothing_succeeds_the_run_stops_and_no_prompt_is_lost(
    tmp_path: Path, n_prompts: int
) -> None:
    project = Project(tmp_path, "Async", n_prompts)
    project.write(down=True)
    *others, error = project.run(code=1).err.splitlines()
    assert "The last error was Down: no \\x1b[31mconnection" in error
    # One line for each; of a single example they would not stop the run
    assert 5 <= len(others) < 5 + 2 * n_prompts
    project.write()
    project.run()
    prompts = project.result["prompts"]
    assert not any(entry["failures"] for entry in prompts)
    assert "failed" not in {entry["status"] for entry in prompts}
    assert len(project.paid) == len(project.lines) == min(24, 8 * n_prompts)


def test_keep_going_counts_every_failure(project: Project) -> None:
    project.write(down=True)
    for again in range(2):  # a second call finds the same run, and fails as well
        printed = project.run("--keep-going", code=1)
        assert "Nothing was measured, because all 36 evaluations failed." in printed.out
        assert "All 36 failures, when evaluating" in printed.out, again
        assert "repeat the command with --fresh" in printed.err
    project.write()
    project.run("--fresh")
    project.write(down=True)
    project.run("--fresh", "--keep-going", code=1)
    assert {entry["status"] for entry in project.result["prompts"]} == {"failed"}


@pytest.mark.parametrize("error", ["SystemExit(0)", "asyncio.CancelledError()"])
def test_an_exit_of_a_metric_is_a_failure_of_its_evaluation(
    either: Project, error: str
) -> None:
    (either.home / f"{either.module}_metrics.py").write_text(
        f"import asyncio\ndef odd(completion, example):\n    if example.id == '3': raise {error}\n    return 1.0\n"
    )
    either.write(
        changes={"cost = true": f'odd = {{ loader = "{either.module}_metrics:odd" }}'}
    )
    either.run()
    assert either.result["done"]
    failed = [line for line in either.lines if "error" in line]
    assert {line["row"] for line in failed} == {"3"}
    assert all(
        f"the metric 'odd' failed with {error.partition('(')[0].rpartition('.')[2]}"
        in line["error"]
        for line in failed
    )


def test_an_error_of_the_disk_ends_the_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, trial: int, details: str) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite._Transaction, "attach", full)
    monkeypatch.setattr(worker, "_PATIENCE", 0.0)
    assert "disk is full" in project.run(code=1).err
    assert project.spent == 0
    monkeypatch.undo()
    project.run()
    assert len(project.lines) == 24


# status and result


def test_status_of_a_run_that_goes_on(project: Project) -> None:
    project.write(stop_at=15, stop_by="ctrl-c")
    project.run(code=130)
    out = cli("status", project.config).out
    assert "stopped" in out
    assert "14 of 24 (58%)" in out
    assert "best so far  p0: token_f1" in out
    assert re.search(r"last change  \d+ s ago", out)
    files = {file.name: file.read_bytes() for file in project.folder.path.iterdir()}
    with project.folder.open_study() as study, project.folder.locked():
        trial = study.worker("w").ask()
        study.worker("w").tell(trial, {"token_f1": 1, "brevity": 1})
        out = cli("status", project.folder.path).out
    assert f"running (process {os.getpid()})" in " ".join(out.split())
    assert "15 of 24" in out
    changed = {"lock", "study.db"}
    assert {
        file.name: file.read_bytes()
        for file in project.folder.path.iterdir()
        if file.name not in changed
    } == {name: data for name, data in files.items() if name not in changed}


def test_a_run_that_finished_early_says_why(tmp_path: Path) -> None:
    project = Project(tmp_path, n_prompts=2)
    out = project.run().out + "".join(
        cli(command, project.config).out for command in ("status", "result")
    )
    early = "finished early: every prompt still in the selection was evaluated on every example"
    assert f"evaluations 16 of 24 (67%); {early}" in " ".join(out.split())
    # Run and result
    assert (
        " ".join(out.split()).count(f"(final, 16 of 24 evaluations spent; {early})")
        == 2
    )


def test_result_as_json_and_as_a_plot(project: Project, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    project.run()
    assert (
        json.loads(
            cli("result", project.config, "--json", "--plot", tmp_path / "a.svg").out
        )
        == project.result
    )
    assert "<svg" in (tmp_path / "a.svg").read_text()
    cli("result", project.config, "--plot", tmp_path / "a.gif", code=2)
    cli("result", project.config, "--plot", tmp_path / "nowhere" / "a.svg", code=1)


def test_nothing_that_steers_a_terminal_is_printed(project: Project) -> None:
    project.prompts["p0"] = "\x1b[2J\x07red\u202e\x9b noise 0"
    project.write()
    shown = [
        project.run().out,
        *(cli(command, project.config).out for command in ("status", "result")),
    ]
    text = "".join(shown).replace("\n", "")
    assert text.isprintable()
    assert "\\x1b[2J\\x07red" in text


# The rest


def test_a_mistake_is_one_line_and_debug_shows_where(project: Project) -> None:
    project.write(changes={"budget = 24": 'budget = 3\nmethod = "csr"'})
    err = project.run(code=2).err
    assert err.startswith("asktell: a.toml: A budget of 3 evaluations is too small")
    assert err.count("\n") == 1
    with pytest.raises(asktell.AsktellError):
        project.run("--debug")
    assert not project.folder.path.exists()


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("asktell._util.files.os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_holds_prompts_and_answers_is_for_its_owner_only(
    project: Project, umask: int
) -> None:
    before = os.umask(umask)
    try:
        project.run()
        goal = asktell.BestFeasible("x")
        with asktell.Study.create(
            project.home / "s.db", "s", asktell.Selector(["a", "b"], goal, 4)
        ) as study:
            study.export(project.home / "s.jsonl")
        words = [str(project.config), "--plot", str(project.home / "plot.png")]
        assert run_command(["result", *words]) == 0
        new = project.home / "new"
        new.mkdir()
        assert run_command(["init", str(new / "run.toml")]) == 0
    finally:
        os.umask(before)
    folder = project.folder
    files = [
        folder.log_file,
        folder.study_file,
        folder.result_file,
        folder.setup_file,
        project.home / "s.jsonl",
        project.home / "plot.png",
        *new.iterdir(),
    ]
    assert {"run.toml", "prompts.txt", "examples.csv"} <= {path.name for path in files}
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in files} == {
        path.name: "0o600" for path in files
    }


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_permissions_that_were_given_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    path.chmod(0o640)
    write_atomically(path, "new")
    assert (path.read_text(), oct(path.stat().st_mode & 0o777)) == ("new", "0o640")
