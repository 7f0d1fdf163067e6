"""Jobs of Harbor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import UnclearResultsError, Wanted, read_results

Write = Callable[[str, Any], Path]


def trial(
    task: str, reward: float | None, agent: str = "terminus-2", **more: Any
) -> dict[str, Any]:
    rewards = None if reward is None else {"rewards": {"reward": reward}}
    return {
        "id": "5e7f0f7c-0000-4000-8000-000000000000",
        "task_name": task,
        "trial_name": f"{task}__abc",
        "trial_uri": "file:///jobs",
        "task_id": {"path": task},
        "source": "terminal-bench",
        "task_checksum": "c0ffee",
        "config": {"agent": {"name": agent, "kwargs": {}, "env": {}}},
        "agent_info": {"name": agent, "version": "2.0.0", "model_info": {"name": "m"}},
        "agent_result": {
            "n_input_tokens": 900,
            "n_cache_tokens": 100,
            "n_output_tokens": 50,
            "cost_usd": 0.25,
        },
        "verifier_result": rewards,
        "exception_info": None,
        "started_at": "2025-11-01T10:00:00Z",
        "finished_at": "2025-11-01T10:05:00Z",
        "agent_execution": {
            "started_at": "2025-11-01T10:01:00.500Z",
            "finished_at": "2025-11-01T10:02:00.500Z",
        },
        **more,
    }


def write_job(write: Write, job: str, *trials: dict[str, Any]) -> Path:
    for at, row in enumerate(trials):
        write(f"{job}/{row['task_name']}__{at}/result.json", row)
        write(f"{job}/{row['task_name']}__{at}/config.json", {"task": {}})
    write(f"{job}/result.json", {"id": "1", "n_total_trials": 9, "stats": {}})
    return Path(job)


def failure(kind: str, message: str = "") -> dict[str, Any]:
    return {"exception_type": kind, "exception_message": message}


def test_attempts_are_repeats_and_cost_and_seconds_are_metrics(write: Write) -> None:
    write_job(
        write,
        "jobs/one",
        trial("fix", 1.0),
        trial("fix", 0.0),
        trial("build", 1),
        trial("fix", 1.0, "oracle"),
        trial("build", 1.0, "oracle"),
    )
    scores = read_results(["jobs/one"])
    assert scores.overview() == (
        "Read 2 candidates (agents terminus-2/m, oracle/m) x 2 examples (tasks), reward from 0 to 1, cost from 0.25 to "
        "0.25, input_tokens from 900 to 900, output_tokens from 50 to 50, seconds from 60 to 60."
    )
    assert "1 of 4 cells were evaluated several times (attempts)" in scores.remarks()[0]


def test_a_trial_without_a_valid_reward_failed_for_its_reason(write: Write) -> None:
    broken = failure("EnvironmentStartTimeoutError", "no container\nTraceback")
    write_job(
        write,
        "job",
        trial("a", 1.0),
        trial("b", None, exception_info=broken),
        trial("c", 1.0, exception_info=failure("AgentTimeoutError"), reward_valid=True),
        trial("d", 1.0, exception_info=failure("ApiError"), reward_valid=False),
        trial("e", None),
        trial("f", None, finished_at=None),
    )
    (evaluations,) = read_results(["job"]).by_name.values()
    reasons = {evaluations.examples[at]: why for at, why in evaluations.errors.items()}
    assert reasons == {
        "b": "EnvironmentStartTimeoutError: no container",
        "d": "ApiError",
        "e": "the verifier gave no reward",
    }
    # A timeout that was graded has its reward, and a trial that has not ended is missing
    assert evaluations.complete(["reward"]) == set("abcde")


def test_jobs_of_the_same_agent_are_asked_about(write: Write) -> None:
    write_job(write, "jobs/old", trial("a", 0.0), trial("b", 0.0))
    write_job(write, "jobs/new", trial("a", 1.0), trial("b", 1.0))
    with pytest.raises(UnclearResultsError, match="2 jobs with the same agent") as info:
        read_results(["jobs"])
    assert [reading.flags for reading in info.value.readings] == [
        ("--candidate-column", "job"),
        ("--repeats",),
    ]
    by_job = read_results(["jobs"], Wanted(candidate_columns=("job",)))
    assert list(by_job.by_name) == ["new", "old"]
    assert list(read_results(["jobs/old", "jobs/new"]).by_name) == ["old", "new"]
    with pytest.raises(InvalidArgumentError, match="--candidate-column job"):
        read_results(["jobs"], Wanted(candidate_columns=("agent",)))
    repeated = read_results(["jobs"], Wanted(repeats=True))
    assert list(repeated.by_name) == ["terminus-2/m"]


def test_trials_may_be_given_file_by_file(write: Write) -> None:
    write_job(write, "jobs/old", trial("a", 0.0), trial("b", 0.0))
    write_job(write, "jobs/new", trial("a", 1.0), trial("b", 1.0))
    scores = read_results(sorted(Path("jobs").glob("*/*/result.json")))
    assert {
        name: each.scores["reward"].tolist() for name, each in scores.by_name.items()
    } == {"new/terminus-2/m 2.0.0": [1, 1], "old/terminus-2/m 2.0.0": [0, 0]}


def test_other_options_make_another_candidate_and_are_not_shown(write: Write) -> None:
    other = {
        "agent": {"kwargs": {"temperature": 1}, "env": {"API_KEY": "secret"}},
    }
    write_job(write, "job", trial("a", 0.0), trial("a", 1.0, config=other))
    first, second = read_results(["job"]).by_name
    assert first == "terminus-2/m 2.0.0"
    assert second.startswith("terminus-2/m 2.0.0 options ")
    assert "secret" not in second


def test_the_provider_of_a_model_is_part_of_the_name(write: Write) -> None:
    for model in ("openai/gpt", "azure/gpt"):
        config = {"agent": {"name": "codex", "model_name": model}}
        write_job(write, f"jobs/{model[:5]}", trial("a", 1.0, "codex", config=config))
    assert set(read_results(["jobs"]).by_name) == {
        "codex/openai/gpt",
        "codex/azure/gpt",
    }


def test_steps_are_added_up_and_datasets_distinguish_tasks(write: Write) -> None:
    steps = [
        {"step_name": "s", "agent_result": {"cost_usd": 0.5, "n_input_tokens": 10}},
        {"step_name": "t", "agent_result": {"cost_usd": 0.25}},
    ]
    several = trial("a", 1.0, step_results=steps, agent_result=None, source="swe-bench")
    write_job(write, "job", several, trial("a", 0.0))
    (evaluations,) = read_results(["job"]).by_name.values()
    assert dict(zip(evaluations.examples, evaluations.scores["cost"], strict=True)) == {
        "swe-bench/a": 0.75,
        "terminal-bench/a": 0.25,
    }


def test_a_damaged_trial_is_named(write: Write) -> None:
    write_job(write, "job", trial("a", 1.0), trial("b", 1.0, config="?"))
    with pytest.raises(InvalidArgumentError, match=r"b__1.*not a trial of Harbor"):
        read_results(["job"])
