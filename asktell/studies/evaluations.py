"""The evaluations of a study in the order in which they were told, with what was kept beside their scores."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from asktell.arguments import short
from asktell.errors import InvalidArgumentError
from asktell.results.evaluations import Evaluation, evaluations_of, id_of_example
from asktell.state import Asked, Failed, Growth, State, Told, grown
from asktell.state.growth import prompts_after
from asktell.studies import log
from asktell.trial import Prompts

_AT_ONCE = 500  # answers may be long


def encode(details: Mapping[str, Any] | None) -> str | None:
    """Details as JSON, in ASCII.

    Raises:
        InvalidArgumentError: they are no mapping that JSON can hold.
    """
    if details is None:
        return None
    try:
        if not isinstance(details, Mapping):
            raise TypeError("a mapping is expected")
        return json.dumps(dict(details), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"details must be a mapping of text to what JSON can hold (finite numbers, text, lists, ...), got "
            f"{short(details)}: {error}."
        ) from error


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
                evaluation = evaluation._replace(details=json.loads(text))
            yield evaluation


def _told(base: State, lines: Iterable[str], prompts: Prompts) -> Iterator[Evaluation]:
    problem, ids = base.problem, prompts.ids
    metrics = problem.goal.metrics
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
                yield Evaluation(entry.trial, ids[arm], example, None, entry.cost, entry.reason, example_id=id_)
