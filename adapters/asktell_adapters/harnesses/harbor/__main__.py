"""`python -m asktell_adapters.harnesses.harbor JOB ...`: one evaluation of an agent of Harbor, as a program.

The program is the `command` of `[evaluator]`. It runs `harbor run` for one task and one agent of earlier jobs, with the
settings of these jobs, and prints the rewards, the cost, the tokens and the seconds of the trial.

The command line was checked against the source of the package harbor, version 0.26 (`cli/jobs.py`).
"""

import argparse
import csv
import json
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from asktell import AsktellError, EvaluatorError, InvalidArgumentError
from asktell.extend import nearest, short, some
from asktell_adapters.harnesses.harbor.trial import HarborTrial, is_trial, names_of

_JOBS = "jobs-of-asktell"
_CONFIG, _TASKS = "agents.toml", "tasks.csv"
# Settings of a trial that are those of its job, too. Harbor chooses the others anew.
_OF_THE_JOB = (
    "timeout_multiplier", "agent_timeout_multiplier", "verifier_timeout_multiplier", "agent_setup_timeout_multiplier",
    "environment_build_timeout_multiplier", "user_agent", "environment", "verifier", "override_error_policy",
    "artifacts", "extra_instruction_paths", "extra_instructions",
)  # fmt: skip
_NOT_FOUND = (
    "There is no program {!r}. Install Harbor, which needs Python 3.12 and Docker: uv tool install harbor. Or name its "
    "place with --harbor."
)


def main(words: Sequence[str] | None = None) -> int:
    """Run the program. Return its exit code: 0, 1 if the evaluation failed, or 2 if the call is wrong."""
    parser = argparse.ArgumentParser(
        "python -m asktell_adapters.harnesses.harbor",
        description="Evaluate an agent of Harbor on a task, with the settings of finished jobs.",
    )
    parser.add_argument("job", nargs="+", type=Path, help="folder of a job of Harbor")
    parser.add_argument(
        "--init",
        action="store_true",
        help=f"write {_CONFIG} and {_TASKS} for the agents and tasks of the jobs",
    )
    parser.add_argument(
        "--jobs-dir",
        default=_JOBS,
        help=f"folder for the jobs of the evaluations (default: {_JOBS})",
    )
    parser.add_argument(
        "--harbor", default="harbor", help="the program (default: harbor)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="WORD",
        help="further word for harbor run, such as --option=--env --option=daytona",
    )
    arguments = parser.parse_args(words)
    try:
        trials = _trials(arguments.job)
        if arguments.init:
            _init(trials, arguments.job)
        else:
            asked = _asked(sys.stdin.read())
            cell = _cell(trials, asked.get("candidate"), asked.get("example"))
            _show(_evaluated(cell, arguments))
    except AsktellError as error:
        print(f"asktell: {error}", file=sys.stderr)
        return 1 if isinstance(error, EvaluatorError) else 2
    return 0


def _trials(jobs: Sequence[Path]) -> dict[tuple[str, str], HarborTrial]:
    """A trial for each agent and task of the jobs, by their names.

    Raises:
        InvalidArgumentError: there are none, or a file is damaged.
    """
    trials = []
    for job in jobs:
        if not job.is_dir():
            raise InvalidArgumentError(
                f"There is no folder {str(job)!r}. Give the folder of a job of Harbor, such as jobs/first."
            )
        for path in sorted(job.glob("*/result.json")):
            if is_trial(data := _json(path)):
                trials.append(HarborTrial.of(path, data))
    if not trials:
        raise InvalidArgumentError(
            f"There is no trial in {some([str(job) for job in jobs])}. Give the folder of a job of Harbor that has at "
            "least one trial of each agent, and one of each task."
        )
    return dict(zip(names_of(trials), trials, strict=True))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{path} cannot be read as JSON ({error})."
        ) from None


def _asked(text: str) -> dict[str, Any]:
    """The evaluation that asktell asks for.

    Raises:
        InvalidArgumentError: it is no JSON object.
    """
    with suppress(ValueError, RecursionError):
        if isinstance(asked := json.loads(text), dict):
            return asked
    raise InvalidArgumentError(
        f"The standard input must be a JSON object from asktell, got {short(text)}. Use this program as the command of "
        f"[evaluator]. To write such a file: add --init."
    )


def _cell(
    trials: Mapping[tuple[str, str], HarborTrial], candidate: object, example: object
) -> dict[str, Any]:
    """The configuration of a job of Harbor for one agent and one task.

    Args:
        trials: a trial for each agent and task, by their names.
        candidate: `agent` is the name of an agent. `model` replaces its model, and other
            values are arguments of the agent.
        example: `task` is the name of a task.

    Raises:
        InvalidArgumentError: there is no such agent or task.
    """
    candidate = dict(candidate) if isinstance(candidate, Mapping) else {}
    columns = example if isinstance(example, Mapping) else {}
    agents = {agent: trial for (agent, _), trial in trials.items()}
    tasks = {task: trial for (_, task), trial in trials.items()}
    name = candidate.pop("agent", None)
    if name is None and set(candidate) == {"prompt"}:
        name = candidate.pop("prompt")
    base = _named("agent", name, agents, "[candidates] needs a factor 'agent'")
    task = _named("task", columns.get("task"), tasks, "[data] needs a column 'task'")
    agent = {**(base.config.get("agent") or {})}
    if "model" in candidate:
        agent["model_name"] = candidate.pop("model")
    agent["kwargs"] = {**(agent.get("kwargs") or {}), **candidate}
    of_the_job = {key: base.config[key] for key in _OF_THE_JOB if key in base.config}
    return {**of_the_job, "agents": [agent], "tasks": [task.config.get("task") or {}]}


def _named(
    kind: str, name: object, trials: Mapping[str, HarborTrial], need: str
) -> HarborTrial:
    """The trial with this name of its agent, or of its task."""
    if isinstance(name, str) and name in trials:
        return trials[name]
    if name is None:
        raise InvalidArgumentError(
            f"{need}, whose values are {kind}s of the jobs: {some(list(trials))}."
        )
    raise InvalidArgumentError(
        f"The jobs have no {kind} {short(name)}{nearest(name, trials)}. They have {some(list(trials))}."
    )


def _evaluated(cell: Mapping[str, Any], arguments: argparse.Namespace) -> HarborTrial:
    """Run Harbor, and read its trial.

    Raises:
        EvaluatorError: Harbor failed, or wrote no trial.
        InvalidArgumentError: there is no Harbor.
    """
    if shutil.which(arguments.harbor) is None:
        raise InvalidArgumentError(_NOT_FOUND.format(arguments.harbor))
    # Another run of asktell may use the same folder
    name = f"asktell-{secrets.token_hex(6)}"
    with tempfile.TemporaryDirectory(prefix="asktell-") as folder:
        # Only this user can read the folder, since the settings may have keys of APIs
        config = Path(folder) / "job.json"
        config.write_text(json.dumps(cell), encoding="utf-8")
        command = [
            arguments.harbor, "run", "--config", str(config), "--jobs-dir", arguments.jobs_dir, "--job-name", name,
            "--n-attempts", "1", "--n-concurrent", "1", "--quiet", "--yes", *arguments.option,
        ]  # fmt: skip
        # Standard output is for the metrics. Standard error is the reason of a failure.
        # Not subprocess.run, which kills Harbor if a signal ends the wait
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        code = process.wait()
    if code != 0:
        raise EvaluatorError(
            f"harbor run ended with exit code {code}. Its messages are above."
        )
    job = Path(arguments.jobs_dir) / name
    files = [path for path in job.glob("*/result.json") if is_trial(_json(path))]
    if len(files) != 1:
        raise EvaluatorError(
            f"harbor run ended, but {str(job)!r} has {len(files)} trials instead of one. Look at the job with harbor "
            f"view {arguments.jobs_dir}."
        )
    return HarborTrial.of(files[0], _json(files[0]))


def _show(trial: HarborTrial) -> None:
    """Print the metrics of a trial.

    Raises:
        EvaluatorError: the trial failed, or has no reward. Its cost is printed.
    """
    usage = {name: value for name, value in trial.usage.items() if value is not None}
    if not trial.rewards:
        if "cost" in usage:
            print(json.dumps({"cost": usage["cost"]}), flush=True)
        raise EvaluatorError(
            f"the trial failed: {trial.reason or 'it has no reward, and did not end'}"
        )
    print(json.dumps({**trial.rewards, **usage, "output": trial.job}))


def _init(trials: Mapping[tuple[str, str], HarborTrial], jobs: Sequence[Path]) -> None:
    """Write a configuration, and the table of its tasks.

    Raises:
        InvalidArgumentError: there is such a file.
    """
    agents = list(dict.fromkeys(agent for agent, _ in trials))
    tasks = list(dict.fromkeys(task for _, task in trials))
    rewards = list(dict.fromkeys(name for trial in trials.values() for name in trial.rewards))  # fmt: skip
    command = ["python", "-m", "asktell_adapters.harnesses.harbor", *map(str, jobs)]
    # A text of JSON is one of TOML
    text = f"""budget = {2 * len(agents) * len(tasks)}
# Attempts of an agent at a task, at most
repeats = 3

[candidates]
agent = {json.dumps(agents, ensure_ascii=False)}

[data]
file = "{_TASKS}"
id = "task"
input = "task"
reference = false

[evaluator]
command = {json.dumps(command, ensure_ascii=False)}
timeout = 7200
workers = 2

[goal]
maximize = {json.dumps(rewards[0] if rewards else "reward")}
"""
    for name in (_CONFIG, _TASKS):
        if Path(name).exists():
            raise InvalidArgumentError(
                f"There is a file {name!r} already. Move it away, or go to another folder."
            )
    Path(_CONFIG).write_text(text, encoding="utf-8")
    with Path(_TASKS).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["task"], *([task] for task in tasks)])
    print(
        f"Wrote {_CONFIG} ({len(agents)} agents) and {_TASKS} ({len(tasks)} tasks). Next: asktell check {_CONFIG}"
    )


if __name__ == "__main__":
    # asktell stops this program with SIGTERM. The file with the settings is removed first, and Harbor, which gets the
    # signal too, has time to remove its container.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
