"""A trial of Harbor, as its file `jobs/JOB/TRIAL/result.json` describes it.

Checked against the source of the package harbor, version 0.26 (`models/trial/result.py`, `models/trial/config.py`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError

_KEYS = {"task_name", "trial_name", "task_checksum", "verifier_result"}
_OPTIONS = ("import_path", "base_url", "kwargs", "env", "skills", "mcp_servers")


@final
class HarborTrial(NamedTuple):
    """An attempt of an agent at a task.

    Attributes:
        job: the name of the job's folder.
        agent: the agent, with its model.
        settings: the agent's version, and a checksum of its options.
        source: the dataset of the task. Empty for a task of a folder.
        task: the name of the task.
        rewards: the rewards by name. Empty if there is no valid reward.
        usage: `cost`, `input_tokens`, `output_tokens` and `seconds`. None if unknown.
        reason: why the trial failed. None if it did not fail, or has not ended.
        config: the settings with which Harbor ran it.
    """

    job: str
    agent: str
    settings: str
    source: str
    task: str
    rewards: Mapping[str, object]
    usage: Mapping[str, float | None]
    reason: str | None
    config: Mapping[str, Any]

    @classmethod
    def of(cls, path: Path, row: Mapping[str, Any]) -> "HarborTrial":
        """The trial in a file.

        Args:
            path: the file.
            row: its JSON data.

        Raises:
            InvalidArgumentError: the data are damaged.
        """
        try:
            return _read(path, row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"{path} is not a trial of Harbor that asktell can read ({type(error).__name__}: {error}). Give the "
                "file as Harbor wrote it."
            ) from error


def is_trial(data: object) -> bool:
    """Whether JSON data have a task with its checksum, a trial and its reward."""
    return isinstance(data, dict) and data.keys() >= _KEYS


def names_of(
    trials: Sequence[HarborTrial], *, always: bool = False
) -> list[tuple[str, str]]:
    """For each trial, the names of its agent and its task, which are different for different ones.

    Args:
        trials: the trials.
        always: True: the name of every agent has its settings, since not all trials are
            here. False: only the names of agents that have several.
    """
    sources: dict[str, set[str]] = {}
    settings: dict[str, set[str]] = {}
    for trial in trials:
        sources.setdefault(trial.task, set()).add(trial.source)
        settings.setdefault(trial.agent, set()).add(trial.settings)
    return [
        (
            f"{trial.agent} {trial.settings}".strip()
            if always or len(settings[trial.agent]) > 1
            else trial.agent,
            f"{trial.source}/{trial.task}"
            if len(sources[trial.task]) > 1
            else trial.task,
        )
        for trial in trials
    ]


def _read(path: Path, row: Mapping[str, Any]) -> HarborTrial:
    config = row.get("config") or {}
    settings = config.get("agent") or {}
    agent = row.get("agent_info") or settings
    # The configuration has the provider, too
    model = settings.get("model_name") or (agent.get("model_info") or {}).get("name")
    options = {name: settings[name] for name in _OPTIONS if settings.get(name)}
    words = [str(agent.get("version") or "")]
    if options:
        # Not the options themselves, which may have keys of APIs
        text = json.dumps(options, sort_keys=True)
        words.append(f"options {sha256(text.encode()).hexdigest()[:6]}")
    rewards = (row.get("verifier_result") or {}).get("rewards") or {}
    steps = list(row.get("step_results") or ())
    problems = [
        part["exception_info"] for part in (row, *steps) if part.get("exception_info")
    ]
    is_failed = (not rewards or row.get("reward_valid") is False) and bool(
        problems or row.get("finished_at")
    )
    uses = [part["agent_result"] for part in (row, *steps) if part.get("agent_result")]
    return HarborTrial(
        path.absolute().parent.parent.name,
        f"{agent['name']}/{model}" if model else str(agent["name"]),
        " ".join(filter(None, words)),
        str(row.get("source") or ""),
        str(row["task_name"]),
        {} if is_failed else {**rewards},
        {
            "cost": _sum(use.get("cost_usd") for use in uses),
            "input_tokens": _sum(use.get("n_input_tokens") for use in uses),
            "output_tokens": _sum(use.get("n_output_tokens") for use in uses),
            "seconds": _seconds(row.get("agent_execution") or row),
        },
        _reason(problems) if is_failed else None,
        config,
    )


def _reason(problems: list[Mapping[str, Any]]) -> str:
    if not problems:
        return "the verifier gave no reward"
    lines = str(problems[0].get("exception_message") or "").strip().splitlines()
    return ": ".join([str(problems[0].get("exception_type")), *lines[:1]])


def _sum(numbers: Iterator[float | None]) -> float | None:
    finite = [number for number in numbers if number is not None]
    return sum(finite) if finite else None


def _seconds(times: Mapping[str, Any]) -> float | None:
    start, end = times.get("started_at"), times.get("finished_at")
    if not start or not end:
        return None
    moments = [datetime.fromisoformat(time) for time in (start, end)]
    return (moments[1] - moments[0]).total_seconds()
