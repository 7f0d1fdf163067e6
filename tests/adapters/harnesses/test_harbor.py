"""Evaluations by `harbor run`, with a stand-in that behaves as Harbor's command line is documented."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.harnesses.harbor.__main__ import main
from tests.adapters.harnesses import fake_harbor
from tests.command_line import cli

AGENTS: list[dict[str, Any]] = [
    {"name": "terminus-2", "model_name": "openai/small", "kwargs": {"reward": 0.0}},
    {"name": "claude-code", "model_name": "anthropic/big", "kwargs": {"reward": 1.0}},
]
TASKS = ["fix", "build", "test"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    fake_harbor.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    fake_harbor.write_job(tmp_path / "jobs" / "first", AGENTS, TASKS)
    return tmp_path


Said = tuple[int, str, str]


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def evaluate(
        candidate: Any = None, task: Any = "fix", *words: str, text: str | None = None
    ) -> Said:
        asked = {"candidate": candidate, "example": {"task": task}, "trial": 7}
        monkeypatch.setattr("sys.stdin", io.StringIO(text or json.dumps(asked)))
        code = main([*(words or ("jobs/first",))])
        said = capfd.readouterr()
        return code, said.out, said.err

    return evaluate


SMALL = {"agent": "terminus-2/openai/small"}


def test_an_evaluation_is_one_trial(evaluate: Any, home: Path) -> None:
    options = ("--jobs-dir", "mine", "--option=--env", "--option=daytona")
    code, out, err = evaluate(SMALL, "build", "jobs/first", *options)
    assert code == 0
    metrics = json.loads(out)
    (job,) = (home / "mine").iterdir()
    assert metrics == {
        "reward": 0.0,
        "cost": 0.25,
        "input_tokens": 900,
        "output_tokens": 50,
        "seconds": 60,
        "output": job.name,
    }
    assert "Mean" in err  # Harbor's own output
    kept = json.loads((job / "config.json").read_text())
    assert kept["config"] == {
        "agents": [AGENTS[0]],
        "tasks": [{"path": "tasks/build", "source": "mine"}],
    }
    given = kept["arguments"]
    assert (given["n_attempts"], given["n_concurrent"]) == (1, 1)
    assert (given["quiet"], given["yes"], given["env"]) == (True, True, "daytona")
    assert not Path(given["config"]).exists()


def test_factors_change_the_model_and_the_arguments(evaluate: Any, home: Path) -> None:
    code, out, _ = evaluate({**SMALL, "model": "openai/large", "reward": 0.5})
    assert (code, json.loads(out)["reward"]) == (0, 0.5)
    (job,) = (home / "jobs-of-asktell").iterdir()
    (agent,) = json.loads((job / "config.json").read_text())["config"]["agents"]
    assert agent["model_name"] == "openai/large"
    # A prompt may be the name of an agent, too
    assert evaluate({"prompt": "claude-code/anthropic/big"})[0] == 0


def test_settings_of_the_job_are_kept(evaluate: Any, home: Path) -> None:
    (path,) = home.glob("jobs/first/fix__0/result.json")
    row = json.loads(path.read_text())
    row["config"] |= {
        "environment": {"type": "modal"},
        "timeout_multiplier": 2.0,
        "trial_name": "x",
        "job_id": "1",
    }
    for path in home.glob("jobs/first/*__0/result.json"):
        other = json.loads(path.read_text())
        other["config"] = {**row["config"], "task": other["config"]["task"]}
        path.write_text(json.dumps(other))
    assert evaluate(SMALL)[0] == 0
    (job,) = (home / "jobs-of-asktell").iterdir()
    config = json.loads((job / "config.json").read_text())["config"]
    assert config["environment"] == {"type": "modal"}
    assert config["timeout_multiplier"] == 2.0
    assert "trial_name" not in config


def test_a_failed_trial_is_a_failed_evaluation_with_its_cost(evaluate: Any) -> None:
    code, out, err = evaluate({**SMALL, "fails": "after 900 s"})
    assert code == 1
    assert json.loads(out) == {"cost": 0.25}
    assert "the trial failed: AgentTimeoutError: after 900 s" in err


@pytest.mark.parametrize(
    ("candidate", "task", "words"),
    [
        (None, "fix", "[candidates] needs a factor 'agent', whose values are agents of the jobs: 'terminus-2/openai/s"),
        ({"agent": "terminus-2/openai/smal"}, "fix", "did you mean 'terminus-2/openai/small'"),
        ({"agent": 7}, "fix", "The jobs have no agent 7"),
        (SMALL, None, "[data] needs a column 'task', whose values are tasks of the jobs: 'build', 'fix', 'test'"),
        (SMALL, "nothing", "The jobs have no task 'nothing'"),
        ({**SMALL, "exit": 3}, "fix", "No container engine."),
        ({**SMALL, "exit": 3}, "fix", "harbor run ended with exit code 3"),
        ({**SMALL, "trials": 0}, "fix", "has 0 trials instead of one"),
        ({**SMALL, "trials": 2}, "fix", "has 2 trials instead of one"),
    ],
)  # fmt: skip
def test_mistakes_of_an_evaluation(
    evaluate: Any, candidate: Any, task: Any, words: str
) -> None:
    code, out, err = evaluate(candidate, task)
    assert code in (1, 2)
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_a_trial_that_is_stopped_leaves_no_settings_behind(home: Path) -> None:
    """The settings may have keys of APIs. Harbor has time to remove its container."""
    harbor = home / "bin" / "harbor"
    harbor.write_text(
        "#!/bin/sh\ntrap 'touch removed; exit 0' TERM\necho \"$3\" > name\nmv name settings\nsleep 60 &\nwait\n"
    )
    command = [sys.executable, "-m", "asktell_adapters.harnesses.harbor", "jobs/first"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(
            json.dumps({"candidate": SMALL, "example": {"task": "fix"}})
        )
        process.stdin.close()
        until = time.monotonic() + 60
        while not (home / "settings").exists() and time.monotonic() < until:
            time.sleep(0.02)
        settings = Path((home / "settings").read_text().strip())
        assert json.loads(settings.read_text())["agents"] == [AGENTS[0]]
        os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert not settings.parent.exists()
    while not (home / "removed").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert (home / "removed").exists()


def test_mistakes_of_the_call(
    evaluate: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "must be a JSON object from asktell, got 'x'" in evaluate(text="x")[2]
    assert "must be a JSON object from asktell" in evaluate(text="[]")[2]
    assert "no folder 'jobs/no'" in evaluate(SMALL, "fix", "jobs/no")[2]
    (home / "empty").mkdir()
    assert "no trial in 'empty'" in evaluate(SMALL, "fix", "empty")[2]
    nowhere = ("jobs/first", "--harbor", "harbour")
    assert "no program 'harbour'. Install Harbor" in evaluate(SMALL, "fix", *nowhere)[2]
    path = home / "jobs" / "first" / "fix__0" / "result.json"
    path.write_text("{")
    assert "cannot be read as JSON" in evaluate(SMALL)[2]
    keys = ("task_name", "trial_name", "task_checksum", "verifier_result")
    path.write_text(json.dumps(dict.fromkeys(keys, 1)))
    said = evaluate(SMALL)[2]
    assert "is not a trial of Harbor that asktell can read" in said
    # Its settings may have keys of APIs
    assert "task_checksum" not in said


def test_a_run_from_the_first_file_to_the_choice(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert main(["jobs/first", "--init"]) == 0
    assert "Wrote agents.toml (2 agents) and tasks.csv (3 tasks)" in capsys.readouterr().out  # fmt: skip
    assert main(["jobs/first", "--init"]) == 2
    assert "already" in capsys.readouterr().err
    said = cli("run agents.toml").out
    assert 'Take "claude-code/anthropic/big"' in said
    # The jobs of the evaluations are jobs like others
    analyzed = cli("analyze jobs-of-asktell --repeats --maximize reward").out
    assert "claude-code/anthropic/big" in analyzed
