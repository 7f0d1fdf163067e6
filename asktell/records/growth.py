"""Growth as data: lists that begin with a letter, as in a study's log.

| entry                                      | what happened                                                     |
|--------------------------------------------|-------------------------------------------------------------------|
| `["n", ids, texts, features, key]`         | new prompts joined; `ids` null for their positions                 |
| `["q", arm, reason, key]`                  | a prompt was retired                                              |
| `["e", evaluations, cost, examples, key]`  | so much more of each; a sixth item are the examples' ids           |
"""

from collections.abc import Sequence
from typing import Any

from asktell.arguments import MOST_EVALUATIONS, MOST_EXAMPLES, short
from asktell.errors import InvalidStateError
from asktell.records import checks
from asktell.state import Added, Extended, Grown, Growth, Problem, Retired, grown

LETTERS = ("n", "q", "e")


def dump_growth(event: Growth) -> list[Any]:
    """An event as data."""
    if isinstance(event, Added):
        return ["n", event.ids, event.texts, event.features, event.key]
    if isinstance(event, Retired):
        return ["q", *event]
    return ["e", *(event[:-1] if event.ids is None else event)]


def load_growth(data: Sequence[Any], problem: Problem) -> Growth:
    """The event that `dump_growth` made `data` of; `problem` as it was before."""
    kind, *rest = data
    if kind == "q" and len(rest) == 3 and isinstance(rest[1], str):
        return Retired(checks.whole("an arm", rest[0], 0, problem.n_arms - 1), rest[1], _key(rest[2]))
    if kind == "e" and len(rest) in (4, 5):
        ids = None if len(rest) == 4 else _texts("the ids of examples", rest[4])
        if ids is not None and len(ids) != rest[2]:
            raise InvalidStateError(f"There are {len(ids)} ids for {rest[2]!r} examples that join.")
        return Extended(
            checks.whole("evaluations", rest[0], 0, MOST_EVALUATIONS),
            checks.bounded("a cost", rest[1], 0.0),
            checks.whole("examples", rest[2], 0, MOST_EXAMPLES),
            _key(rest[3]),
            ids,
        )
    if kind == "n" and len(rest) == 4:
        ids, texts, features, key = rest
        texts = _texts("the texts of prompts", texts)
        ids = None if ids is None else _texts("the ids of prompts", ids)
        if not texts or (ids is not None and len(ids) != len(texts)):
            raise InvalidStateError(f"Prompts that join must be texts, with as many ids or none; got {short(data)}.")
        if (features is None) != (problem.features is None):
            raise InvalidStateError("Prompts that join have features where the others have some, and only there.")
        if features is not None:
            features = tuple(map(tuple, checks.matrix("features", features, len(texts)).tolist()))
        return Added(ids, texts, features, _key(key))
    raise InvalidStateError(f"Growth is malformed: {short(data)}.")


def _texts(what: str, data: object) -> tuple[str, ...]:
    texts = checks.items(what, data)
    if not all(type(text) is str for text in texts):
        raise InvalidStateError(f"{what} must be text, got {short(texts)}.")
    return tuple(texts)


def _key(data: object) -> str | None:
    if data is not None and not isinstance(data, str):
        raise InvalidStateError(f"The key of a request must be text, got {short(data)}.")
    return data


def dump_grown(growth: Sequence[Grown]) -> dict[str, Any]:
    """All growth so far, and where it was; nothing where there was none."""
    return {"growth": [[*each[:-1], dump_growth(each.event)] for each in growth]} if growth else {}


def load_grown(data: object, problem: Problem, n_decisions: int) -> tuple[Problem, tuple[Grown, ...]]:
    """The problem as it has grown, and the growth that `dump_grown` made `data` of."""
    growth, before = [], 0
    for item in [] if data is None else checks.items("growth", data):
        decisions, spent, cost, entry = checks.items("growth", item, 4)
        event = load_growth(checks.items("growth", entry), problem)
        before = checks.whole("decisions", decisions, before, n_decisions)
        growth.append(Grown(before, checks.whole("spent", spent, 0), checks.cost("cost", cost), event))
        problem = grown(problem, event)
    return problem, tuple(growth)
