"""Jobs of Harbor, which runs agents on Terminal-Bench, SWE-bench and other tasks: `jobs/JOB/TRIAL/result.json`.

Checked against the source of the package harbor, version 0.26 (`models/trial/result.py`, `models/job/result.py`).
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell.extend import short, some
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted

_KEYS = {"task_name", "trial_name", "task_checksum", "verifier_result"}
_OPTIONS = ("import_path", "base_url", "kwargs", "env", "skills", "mcp_servers")
_JOB = "job"  # --candidate-column job


class _Trial(NamedTuple):
    """An attempt of an agent at a task.

    Attributes:
        job: the name of the job's folder.
        agent: the agent, with its model.
        settings: the agent's version, and a checksum of its options.
        source: the dataset of the task. Empty for a task of a folder.
        graded: the rewards, or the reason of a failure.
    """

    job: str
    agent: str
    settings: str
    source: str
    graded: Graded


@final
class HarborReader:
    """An agent with its model and options is a candidate. The attempts at a task are repeats.

    A trial without a valid reward, such as one whose container broke, is a failure with the
    reason that Harbor gives. A timeout of the agent that was graded keeps its reward.
    """

    name = "jobs of Harbor"

    def recognizes(self, source: Source) -> bool:
        """Whether a document, or one in the folder, has a task with its checksum, a trial and its reward."""
        return any(map(_is_trial, source.files or (source,)))

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the trials of one or several jobs.

        Raises:
            InvalidArgumentError: a trial is damaged.
            UnclearResultsError: several jobs have the same agent.
        """
        if wanted.candidate_columns not in ((), (_JOB,)):
            raise InvalidArgumentError(
                f"The jobs of Harbor in {source.path} have no column {'/'.join(wanted.candidate_columns)!r}, which "
                f"--candidate-column names. Pass --candidate-column {_JOB} to make each job a candidate, or leave the "
                "flag out to make each agent a candidate."
            )
        files = [file for file in source.files or (source,) if _is_trial(file)]
        trials = [_trial(file) for file in files]
        _check_jobs(source, trials, wanted)
        by_job = bool(wanted.candidate_columns)
        sources: dict[str, set[str]] = {}
        settings: dict[str, set[str]] = {}
        for trial in trials:
            sources.setdefault(trial.graded.example, set()).add(trial.source)
            settings.setdefault(trial.agent, set()).add(trial.settings)
        evaluations: dict[str, list[Graded]] = {}
        for trial in trials:
            name = trial.job if by_job else trial.agent
            # Of a file alone, other trials of the job are not known
            if not by_job and (len(settings[trial.agent]) > 1 or not source.is_folder):
                name = f"{name} {trial.settings}".strip()
            graded = trial.graded
            if len(sources[graded.example]) > 1:
                graded = graded._replace(example=f"{trial.source}/{graded.example}")
            evaluations.setdefault(name, []).append(graded)
        # The trials of a job may also be given file by file
        path = source.path if source.is_folder else source.path.parent.parent
        return Scores(
            self.name,
            [
                ScoredCandidate(path, ScoreColumns.of(graded), name)
                for name, graded in evaluations.items()
            ],
            "jobs" if by_job else "agents",
            "tasks",
            repeats="attempts",
        )


def _is_trial(source: Source) -> bool:
    # The first bytes suffice to pass by the other files of a folder
    if b'"task_checksum"' not in source.head or b'"trial_name"' not in source.head:
        return False
    return isinstance(source.json, dict) and source.json.keys() >= _KEYS


def _trial(source: Source) -> _Trial:
    row: Mapping[str, Any] = source.json
    try:
        config = (row.get("config") or {}).get("agent") or {}
        agent = row.get("agent_info") or config
        # The configuration has the provider, too
        model = config.get("model_name") or (agent.get("model_info") or {}).get("name")
        options = {name: config[name] for name in _OPTIONS if config.get(name)}
        words = [str(agent.get("version") or "")]
        if options:
            # Not the options themselves, which may have keys of APIs
            text = json.dumps(options, sort_keys=True)
            words.append(f"options {sha256(text.encode()).hexdigest()[:6]}")
        return _Trial(
            source.path.absolute().parent.parent.name,
            f"{agent['name']}/{model}" if model else str(agent["name"]),
            " ".join(filter(None, words)),
            str(row.get("source") or ""),
            _graded(row),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{source.path}: {short(row)} is not a trial of Harbor that asktell can read ({error}). Give the file as "
            "Harbor wrote it."
        ) from error


def _graded(row: Mapping[str, Any]) -> Graded:
    """The rewards of a trial with its cost, tokens and seconds."""
    rewards = (row.get("verifier_result") or {}).get("rewards") or {}
    steps = list(row.get("step_results") or ())
    problems = [
        part["exception_info"] for part in (row, *steps) if part.get("exception_info")
    ]
    if (not rewards or row.get("reward_valid") is False) and (
        problems or row.get("finished_at")
    ):
        return Graded.of(row["task_name"], {}, _reason(problems))
    uses = [part["agent_result"] for part in (row, *steps) if part.get("agent_result")]
    values: dict[str, object] = {
        "cost": _sum(use.get("cost_usd") for use in uses),
        "input_tokens": _sum(use.get("n_input_tokens") for use in uses),
        "output_tokens": _sum(use.get("n_output_tokens") for use in uses),
        "seconds": _seconds(row.get("agent_execution") or row),
    }
    return Graded.of(row["task_name"], {**rewards, **values} if rewards else {})


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
    # Python 3.10 does not parse the letter
    moments = [
        datetime.fromisoformat(time.replace("Z", "+00:00")) for time in (start, end)
    ]
    return (moments[1] - moments[0]).total_seconds()


def _check_jobs(source: Source, trials: list[_Trial], wanted: Wanted) -> None:
    """Check that no agent is in several jobs, unless the user says what that means."""
    if wanted.repeats is not None or wanted.candidate_columns:
        return
    jobs: dict[tuple[str, str], dict[str, None]] = {}
    for trial in trials:
        jobs.setdefault((trial.agent, trial.settings), {})[trial.job] = None
    for (agent, _), names in jobs.items():
        if len(names) > 1:
            raise UnclearResultsError(
                f"{source.path} has {len(names)} jobs with the same agent {agent!r}: {some(list(names))}.",
                [
                    Reading("Each job is a candidate.", ("--candidate-column", _JOB)),
                    Reading(
                        "Each agent is a candidate, and its jobs are repeated evaluations, which are averaged.",
                        ("--repeats",),
                    ),
                ],
            )
