"""Which trial is meant, and what to say of one that is not pending."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from asktell.errors import ConflictingTellError, InvalidArgumentError, UnknownTrialError
from asktell.problem.candidates import Prompts, Trial
from asktell.problem.checks import short, some, whole
from asktell.state.problem import Problem
from asktell.state.state import State

AnyTrial: TypeAlias = Trial | int | str | Sequence[Any] | Mapping[str, Any]
"""A trial, its id, or the prompt as text; or a trial that came back from JSON, as a list or an object."""


def from_json(trial: object) -> Trial | int | str:
    """A Trial again of a list of its parts, or of an object; of one with an `id` alone that id; else what came."""
    if isinstance(trial, Mapping):
        given = [key for key in Trial._fields if key in trial]
        if given != ["id"] and not {"id", "prompt_id"} <= set(given):
            raise InvalidArgumentError(
                f"A trial as a mapping has {', '.join(map(repr, Trial._fields))}; got {short(list(trial))}."
            )
        parts: list[Any] = [trial.get(key) for key in Trial._fields]
        if given == ["id"]:
            return _whole_id(trial, parts)
    elif isinstance(trial, Sequence) and not isinstance(trial, Trial | str | bytes):
        parts = list(trial)
        if len(parts) not in (len(Trial._fields) - 1, len(Trial._fields)):
            raise InvalidArgumentError(
                f"A trial as a list has the items {', '.join(Trial._fields)}, of which the last may be missing; got "
                f"{short(trial)}."
            )
    else:
        return trial  # type: ignore[return-value]
    return Trial(_whole_id(trial, parts), *parts[1:])


def _whole_id(trial: object, parts: Sequence[object]) -> int:
    if not isinstance(parts[0], int) or isinstance(parts[0], bool):
        raise InvalidArgumentError(f"A trial's id must be a whole number, got {short(parts[0])} in {short(trial)}.")
    return parts[0]


def check_match(state: State, prompts: Prompts, trial: Trial) -> None:
    """Check that a trial that is out, or was told, is the one that its id says."""
    pull = state.open(trial.id)
    cell = state.history.pull_of(trial.id) if pull is None else (pull.arm, pull.example)
    here = trial if cell is None else prompts.trial(trial.id, *cell)
    same = (trial.prompt_id, trial.example) == (here.prompt_id, here.example)
    if not same or trial.prompt not in (None, "", here.prompt):
        raise UnknownTrialError(
            f"Trial {trial.id} is prompt {here.prompt_id!r} on example {here.example}, not prompt "
            f"{short(trial.prompt_id)} ({short(trial.prompt)}) on example {short(trial.example)}: it was asked in "
            "another study, or before its machine crashed. observe() takes its scores."
        )


def trial_id(state: State, prompts: Prompts, trial: AnyTrial) -> int:
    """The id of a trial, however it is named; of a prompt, its oldest pending one."""
    if type(trial) is not Trial:
        trial = from_json(trial)
        if isinstance(trial, Trial):
            check_match(state, prompts, trial)
    if type(trial) is Trial:
        if type(trial.id) is int:
            return trial.id
        trial = int(trial.id) if isinstance(trial.id, np.integer) else trial  # a str would name a prompt
    if isinstance(trial, str):
        arm = prompts.find(trial)
        if arm is None:
            raise UnknownTrialError(f"{prompts.unknown(trial)} {_pending(state)}")
        pulls = (*state.pending.values(), *state.returned)
        out: list[int] = [pull.trial for pull in pulls if pull.arm == arm and pull.trial is not None]
        if not out:
            raise UnknownTrialError(f"The prompt {short(trial)} has no pending trial. {_pending(state)}")
        return min(out)
    if isinstance(trial, int | np.integer) and not isinstance(trial, bool):
        return int(trial)
    raise InvalidArgumentError(
        f"A trial must be a Trial, its id, or the prompt as str; got {short(trial)} ({type(trial).__name__})."
    )


def find_example(problem: Problem, example: int | str | None) -> int | None:
    """The position of an example that is named by it, or by its id."""
    if example is None:
        return None
    if problem.n_examples is None:
        raise InvalidArgumentError(f"Got example {short(example)}, but this selector was made without `examples`.")
    if isinstance(example, str):
        if problem.examples is None:
            raise InvalidArgumentError(
                f"Got example {short(example)}, but this selector was made with a number of examples, and not with "
                f"their ids. Name it by its position, from 0 to {problem.n_examples - 1}."
            )
        return problem.examples.position(example)
    return whole("example", example, 0, problem.n_examples - 1)


def not_out(state: State, trial: int) -> UnknownTrialError:
    """The error for a trial that is not pending, or no longer."""
    if trial in state.failures:
        what = f"Trial {short(trial)} has failed already."
    elif state.history.scores_of(trial) is not None:
        what = f"Trial {short(trial)} has been told already."
    else:
        what = f"Trial {short(trial)} is not pending."
    return UnknownTrialError(f"{what} {_pending(state)}")


def check_same(state: State, trial: int, scores: tuple[float, ...]) -> None:
    """Check that a trial that is not pending was told these scores before."""
    told = state.history.scores_of(trial)
    if told is None or trial in state.failures:
        raise not_out(state, trial)
    if told != scores:
        before, now = (dict(zip(state.problem.goal.columns, vector, strict=True)) for vector in (told, scores))
        raise ConflictingTellError(
            f"Trial {trial} was told {before} before, and now {now}. "
            "A trial is evaluated once; use observe() for further scores of the same prompt."
        )


def _pending(state: State) -> str:
    pending = sorted(state.pending)
    return f"Pending trials: {some(pending)}." if pending else "No trial is pending: ask() first."
