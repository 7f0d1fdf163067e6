"""The evaluations of a study in the order in which they were told, with what was kept beside their scores."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from asktell import serialization
from asktell.errors import InvalidArgumentError
from asktell.problem.candidates import Prompts
from asktell.problem.checks import short
from asktell.results.evaluations import Evaluation, evaluations_of, id_of_example
from asktell.state import Asked, Failed, Growth, State, Told, grown
from asktell.state.growth import prompts_after
from asktell.studies import log

_AT_ONCE = 500  # answers may be long
_MOST_LEVELS = 100  # what was kept must be readable wherever it is read, also far down a stack


def encode(details: Mapping[str, Any] | None) -> str | None:
    """Details as JSON, as `encoded`; None stays None."""
    return None if details is None else encoded(details)


def encoded(details: Mapping[str, Any]) -> str:
    """Details as JSON, in ASCII.

    Raises:
        InvalidArgumentError: they are no mapping that JSON can hold, or nested too deeply.
    """
    try:
        if not isinstance(details, Mapping):
            raise TypeError("a mapping is expected")
        text = json.dumps(dict(details), separators=(",", ":"), allow_nan=False)
        if text.count("[") + text.count("{") > _MOST_LEVELS and _levels(details) > _MOST_LEVELS:
            raise ValueError(f"they are nested more than {_MOST_LEVELS} levels deep")
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"details must be a mapping of text to what JSON can hold (finite numbers, text, lists, ...), got "
            f"{short(details)}: {error}."
        ) from error


def decode(text: str) -> dict[str, Any]:
    """Details of the JSON that `encode` made.

    Raises:
        InvalidStateError: the text is damaged.
    """
    return serialization.parse(text, "What is kept of a trial")


def _levels(value: object) -> int:
    """How deep JSON's lists and objects are nested."""
    deep, here = 0, [value]
    while here := [item for item in here if isinstance(item, Mapping | list | tuple)]:
        deep += 1
        here = [below for item in here for below in (item.values() if isinstance(item, Mapping) else item)]
    return deep


def evaluations(
    base: State,
    lines: Iterable[str],
    prompts: Prompts,
    find: Callable[[Sequence[int]], Mapping[int, str]],
    after: int = 0,
) -> Iterator[Evaluation]:
    """What a study that began at `base` was told, by the lines of its log.

    Args:
        base: where it began; what had been told by then comes first, the failures of that time last.
        lines: of the log.
        prompts: where it began.
        find: the details of trials, as JSON.
        after: how many to leave out.
    """
    told = islice(_told(base, lines, prompts), after, None)
    while group := list(islice(told, _AT_ONCE)):
        details = find([evaluation.trial for evaluation in group])
        for evaluation in group:
            if (text := details.get(evaluation.trial)) is not None:
                evaluation = evaluation._replace(details=decode(text))
            yield evaluation


def _told(base: State, lines: Iterable[str], prompts: Prompts) -> Iterator[Evaluation]:
    problem, ids = base.problem, prompts.ids
    metrics = problem.goal.metrics
    counted = problem.on_failure if isinstance(problem.on_failure, dict) else None
    yield from evaluations_of(base, ids)
    out = {}
    for trial in range(base.asked):
        if (pull := base.open(trial)) is not None:
            out[trial] = pull.arm, pull.example
    for line in lines:
        for entry in log.decode(line, problem):
            if isinstance(entry, Growth):
                problem, prompts = grown(problem, entry), prompts_after(prompts, entry)
                ids = prompts.ids
            elif isinstance(entry, Asked):
                out[entry.trial] = entry.arm, entry.example
            elif isinstance(entry, Told):
                arm, example = out.pop(entry.trial)
                scores, id_ = dict(zip(metrics, entry.scores, strict=True)), id_of_example(problem, example)
                yield Evaluation(entry.trial, ids[arm], example, scores, entry.cost, example_id=id_)
            elif isinstance(entry, Failed):
                arm, example = out.pop(entry.trial)
                id_ = id_of_example(problem, example)
                yield Evaluation(entry.trial, ids[arm], example, counted, entry.cost, entry.reason, example_id=id_)
