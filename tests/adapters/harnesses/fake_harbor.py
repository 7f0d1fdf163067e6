"""Stands in for `harbor run` of version 0.26: it takes its options, and writes a job as Harbor does.

The agent's kwargs say what happens: `reward`, or the `chance` of one, `fails` (a reason), `exit` (a code), and `trials`
(their number).
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser("harbor")
    run = parser.add_subparsers(required=True).add_parser("run")
    run.add_argument("-c", "--config", type=Path, required=True)
    run.add_argument("-o", "--jobs-dir", type=Path, default="jobs")
    run.add_argument("--job-name", required=True)
    run.add_argument("-k", "--n-attempts", type=int, default=1)
    run.add_argument("-n", "--n-concurrent", type=int, default=4)
    run.add_argument("-q", "--quiet", action="store_true")
    run.add_argument("-y", "--yes", action="store_true")
    run.add_argument("-e", "--env", default="docker")
    arguments = parser.parse_args()
    config = json.loads(arguments.config.read_text())
    print("1/1 Mean: 0.500")  # a table of Harbor's
    job = arguments.jobs_dir / arguments.job_name
    job.mkdir(parents=True)
    (job / "result.json").write_text(json.dumps({"n_total_trials": 1, "stats": {}}))
    kept = {"arguments": vars(arguments), "config": config}
    (job / "config.json").write_text(json.dumps(kept, default=str))
    for agent in config["agents"]:
        for task in config["tasks"]:
            of_agent = agent.get("kwargs", {})
            if of_agent.get("exit"):
                print("No container engine.", file=sys.stderr)
                return int(of_agent["exit"])
            for attempt in range(int(of_agent.get("trials", arguments.n_attempts))):
                write(job, config, agent, task, attempt)
    return 0


def write(
    job: Path, config: dict[str, Any], agent: Any, task: Any, attempt: int
) -> None:
    kwargs = agent.get("kwargs", {})
    name = Path(task["path"]).name
    failure = {
        "exception_type": "AgentTimeoutError",
        "exception_message": kwargs.get("fails"),
    }
    reward = kwargs.get("reward", 1.0)
    if "chance" in kwargs:
        # The same in every attempt, so that pages show the same
        luck = random.Random(f"{name} {agent}").random()
        reward = float(
            0.3 * luck + 0.7 * random.Random(name).random() < kwargs["chance"]
        )
    row = {
        "task_name": name,
        "trial_name": f"{name}__{attempt}",
        "source": task.get("source"),
        "task_checksum": "c0ffee",
        "config": {
            "task": task,
            "agent": agent,
            **{key: config[key] for key in ("environment",) if key in config},
        },
        "agent_info": {"name": agent["name"], "version": "1"},
        "agent_result": {
            "n_input_tokens": 900,
            "n_output_tokens": 50,
            "cost_usd": 0.25,
        },
        "verifier_result": None
        if kwargs.get("fails")
        else {"rewards": {"reward": reward}},
        "exception_info": failure if kwargs.get("fails") else None,
        "started_at": "2026-01-31T10:00:00Z",
        "finished_at": "2026-01-31T10:05:00Z",
        "agent_execution": {
            "started_at": "2026-01-31T10:01:00Z",
            "finished_at": "2026-01-31T10:02:00Z",
        },
    }
    trial = job / str(row["trial_name"])
    trial.mkdir()
    (trial / "config.json").write_text(json.dumps(row["config"]))
    (trial / "result.json").write_text(json.dumps(row))


def write_job(job: Path, agents: list[dict[str, Any]], tasks: list[str]) -> None:
    """A finished job."""
    job.mkdir(parents=True)
    for at, agent in enumerate(agents):
        for task in tasks:
            write(job, {}, agent, {"path": f"tasks/{task}", "source": "mine"}, at)


def install(folder: Path) -> None:
    """Write an executable `harbor` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "harbor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" "$@"\n')
    program.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
