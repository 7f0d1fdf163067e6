"""What a service answered, as the engine's own values. An older service may leave out what was added later."""

from typing import Any

from asktell.errors import ServiceError
from asktell.problem.candidates import Trial
from asktell.problem.checks import short
from asktell.problem.goals import Goal
from asktell.results import Comparison, PromptResult, Result
from asktell.results.comparison import Comparer
from asktell.results.entries import FailureGroup
from asktell.service.problems import error_of
from asktell.studies.leases import Holding

_AS_THEY_ARE = (
    "spent",
    "budget",
    "spent_cost",
    "max_cost",
    "done",
    "stopped_early",
    "feasible",
    "examples",
)  # in a result


def record(data: object, *names: str) -> dict[str, Any]:
    """The answer, if it has these names.

    Raises:
        ServiceError: it has not.
    """
    if not isinstance(data, dict) or any(name not in data for name in names):
        raise ServiceError(f"The service answered {short(data)}, and not as asktell's does. Is the address right?")
    return data


def trials_of(data: object) -> list[Trial]:
    """The trials of an answer that has some."""
    return [Trial(**trial) for trial in record(data, "trials")["trials"]]


def outcomes_of(data: object) -> list[bool | Exception]:
    """What became of each of several scores: whether it was taken, or the error."""
    outcomes = record(data, "outcomes")["outcomes"]
    return [error_of(o["problem"]["status"], o["problem"]) if o["problem"] else o["taken"] for o in outcomes]


def holdings_of(data: dict[str, Any]) -> list[Holding]:
    """The trials that are out, and who holds them."""
    return [Holding(h["worker"], Trial(**h["trial"]), h["seconds_left"], h["attempt"]) for h in data["holdings"]]


def result_of(data: dict[str, Any], goal: Goal, comparer: Comparer) -> Result:
    """The study's result; further comparisons are the comparer's."""
    prompts = {entry["id"]: PromptResult(**entry) for entry in data["prompts"]}
    ids, comparison = data.get("example_ids"), data.get("comparison")
    return Result(
        goal=goal,
        selected=[prompts[entry["id"]] for entry in data["selected"]],
        prompts=list(prompts.values()),
        unresolved=[prompts[entry["id"]] for entry in data["unresolved"]],
        notes=tuple(data["notes"]),
        baseline=data.get("baseline"),
        _comparer=comparer,
        example_ids=None if ids is None else tuple(ids),
        failures=[FailureGroup(**group) for group in data.get("failures", [])],
        _comparison=None if comparison is None else Comparison.from_dict(comparison),
        repeats=data.get("repeats", 1),
        finished_early=data.get("finished_early", False),
        **{name: data[name] for name in _AS_THEY_ARE},
    )
