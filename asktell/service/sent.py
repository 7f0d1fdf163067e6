"""What a client sends of what it is told: checked here, so that a mistake is known before it travels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asktell.errors import InvalidArgumentError
from asktell.problem.candidates import AnyPrompt, Tell, Trial
from asktell.problem.checks import check_cost, short
from asktell.problem.goals import Goal
from asktell.state.lookup import from_json
from asktell.studies.evaluations import decode, encode


def score(tell: Tell, goal: Goal) -> dict[str, Any]:
    """A trial's scores.

    Raises:
        InvalidArgumentError: they cannot be used, nor can anything beside them.
    """
    vector = goal.vector(tell.scores)
    cost = None if tell.cost is None else check_cost(tell.cost)
    return {"trial": named(tell.trial), "scores": vector, "cost": cost, **kept(tell.details)}


def kept(details: Mapping[str, Any] | None) -> dict[str, Any]:
    """Details for the service, which may be older and not know them."""
    text = encode(details)
    return {} if text is None else {"details": decode(text)}


def named(trial: object) -> int | str | dict[str, Any]:
    """A trial for the service; its text need not travel."""
    trial = from_json(trial)
    if type(trial) is Trial:
        example = None if trial.example is None else int(trial.example)
        return {"id": int(trial.id), "prompt_id": trial.prompt_id, "example": example}
    if isinstance(trial, str):
        return trial
    if isinstance(trial, int | np.integer) and not isinstance(trial, bool):
        return int(trial)
    raise InvalidArgumentError(
        f"A trial must be a Trial, its id, or the prompt as str; got {short(trial)} ({type(trial).__name__})."
    )


def named_prompt(prompt: AnyPrompt) -> str | dict[str, str | int]:
    """A prompt for the service: text may be an id or a text there, `{"id": ...}` is an id.

    Raises:
        InvalidArgumentError: it names no prompt.
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Trial):
        id_: object = prompt.prompt_id
    else:
        id_ = prompt if isinstance(prompt, int) else getattr(prompt, "id", None)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise InvalidArgumentError(f"A prompt is named by its id or text, got {short(prompt)}.")
    return {"id": id_}
