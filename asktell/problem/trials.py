"""Trials, and what `tell` takes, as plain data that means the same in another process."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from asktell.errors import InvalidArgumentError, TellManyError
from asktell.problem.candidates import Value
from asktell.problem.checks import as_integer
from asktell.problem.words import in_words, short


class Trial(NamedTuple):
    """One evaluation to do: evaluate the prompt on the example, then tell the scores.

    Attributes:
        id: the id of the trial, a number.
        prompt_id: the prompt's id, or its position if the prompts have no ids.
        prompt: the prompt's text.
        example: the position of the example in the dataset, from 0. None if the
            evaluator draws its own examples.
        candidate: factor -> value. None if the candidates do not differ in several
            factors.
    """

    id: int
    prompt_id: str | int
    prompt: str
    example: int | None
    candidate: dict[str, Value] | None = None

    def __hash__(self) -> int:
        return hash(self[:4])


AnyTrial: TypeAlias = Trial | int | str | Sequence[Any] | Mapping[str, Any]
"""A trial, its id, or the prompt as text. A trial may also come from JSON, as a list or an object."""


def from_json(trial: object) -> Trial | int | str:
    """Return a trial, its id or a prompt. A trial in JSON is a list of its parts or an object with an `id`."""
    if isinstance(trial, str):
        return trial
    if (number := as_integer(trial)) is not None:
        return number
    if isinstance(trial, Mapping):
        keys = [key for key in Trial._fields if key in trial]
        if keys != ["id"] and not {"id", "prompt_id"} <= set(keys):
            raise InvalidArgumentError(
                "A mapping that stands for a trial must have the key 'id', and also 'prompt_id' if it has any of "
                f"'prompt', 'example' and 'candidate'. Got the keys {short(list(trial))}."
            )
        parts: list[Any] = [trial.get(key) for key in Trial._fields]
    elif isinstance(trial, Sequence) and not isinstance(trial, bytes):
        keys, parts = [], list(trial)
        if len(parts) not in (len(Trial._fields) - 1, len(Trial._fields)):
            raise InvalidArgumentError(
                f"A trial given as a list must have the items {', '.join(Trial._fields)}. Only the last may be "
                f"missing. Got {short(trial)}."
            )
    else:
        is_over = " ask() returns None if nothing is left to evaluate." * (
            trial is None
        )
        raise InvalidArgumentError(
            f"Pass the Trial from ask(), its id, or the text of its prompt. Got {short(trial)} "
            f"({type(trial).__name__}).{is_over}"
        )
    id_ = as_integer(parts[0])
    if id_ is None:
        raise InvalidArgumentError(
            f"A trial's id must be a whole number, got {short(parts[0])} in {short(trial)}."
        )
    return id_ if keys == ["id"] else Trial(id_, *parts[1:])


class Tell(NamedTuple):
    """One entry of `tell_many`. A tuple `(trial, scores)` works, too.

    Attributes:
        trial: as for `Selector.tell`.
        scores: as for `Selector.tell`.
        cost: as for `Selector.tell`.
        details: more data about the evaluation, for a study. See `Study.tell`. A
            Selector accepts only None.
    """

    trial: Any
    scores: Any
    cost: float | None = None
    details: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, item: object) -> "Tell":
        """Turn an item of `tell_many`, a tuple or a list of 2 to 4 values, into a Tell.

        Raises:
            InvalidArgumentError: the item is something else.
        """
        if (
            isinstance(item, Trial)
            or not isinstance(item, tuple | list)
            or not 2 <= len(item) <= 4
        ):
            raise InvalidArgumentError(
                f"tell_many() takes tuples (trial, scores), (trial, scores, cost) or (trial, scores, cost, details), "
                f"got {short(item)}."
            )
        return cls(*item)


def all_taken(outcomes: Sequence[bool | Exception]) -> list[bool]:
    """Return the outcomes of a batch of scores, if no score was refused.

    Raises:
        TellManyError: a score was refused.
    """
    refused = [
        (i, outcome)
        for i, outcome in enumerate(outcomes)
        if isinstance(outcome, Exception)
    ]
    if not refused:
        return [bool(outcome) for outcome in outcomes]
    shown = " ".join(f"Item {i} has {in_words(error)}" for i, error in refused[:3])
    raise TellManyError(
        f"{len(refused)} of {len(outcomes)} scores were refused. Any other scores of this call are recorded, so do not "
        "send those again. The attribute `outcomes` of this error lists the outcome of every item that you passed. "
        f"The first item is item 0. {shown}",
        outcomes,
    ) from refused[0][1]
