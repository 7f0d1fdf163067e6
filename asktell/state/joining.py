"""Growth, from what users pass in."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell.arguments import (
    LARGEST,
    MOST_EVALUATIONS,
    check_features,
    check_name,
    check_number,
    check_prompts,
    check_reason,
    short,
    whole,
)
from asktell.errors import InvalidArgumentError
from asktell.examples import numbered
from asktell.features import TextBasis
from asktell.state.events import Added, Extended, Growth, Retired
from asktell.state.growth import check_growth
from asktell.state.state import State
from asktell.trial import AnyPrompt, Prompts


def addition(
    state: State, prompts: Prompts, more: object, features: npt.ArrayLike | str | None, key: str | None
) -> tuple[Added | None, list[str | int]]:
    """The event, None if all of them are there already under these ids, and their ids.

    Raises:
        InvalidArgumentError: an argument has the wrong type, value or length; or a text or an id is there already.
    """
    check_key(key)
    ids, texts = check_prompts(more)
    there = [] if ids is None else [i for i, id_ in enumerate(ids) if _is_there(prompts, id_, texts[i])]
    rows = None if features is None or isinstance(features, str) else check_features(features, len(texts))
    new = [i for i in range(len(texts)) if i not in set(there)]
    if not new:
        assert ids is not None
        return None, list(ids)
    new_texts = tuple(texts[i] for i in new)
    # First, for what is wrong with the texts is more than what is wrong with their features.
    joined = prompts.joined(None if ids is None else [ids[i] for i in new], new_texts)
    event = Added(
        ids=None if ids is None else tuple(ids[i] for i in new),
        texts=new_texts,
        features=_features(state, prompts, new_texts, features, None if rows is None else rows[new]),
        key=key,
    )
    check_growth(state, event)
    return event, list(joined.ids[len(prompts) :]) if ids is None else list(ids)


def retirement(state: State, prompts: Prompts, prompt: AnyPrompt, reason: object, key: str | None) -> Retired:
    """The event.

    Raises:
        InvalidArgumentError: the prompt is unknown, ambiguous, the baseline, or retired already; no reason is given.
    """
    event = Retired(prompts.arm(prompt), check_reason(reason), check_key(key))
    check_growth(state, event)
    return event


def extension(state: State, evaluations: object, cost: object, examples: object, key: str | None) -> Extended:
    """The event.

    Raises:
        InvalidArgumentError: a number is not above 0, none is given, it extends what is not limited, or ids of examples
            are missing, are there already, or should not be there.
    """
    n_examples, ids = numbered(examples)
    event = Extended(
        evaluations=0 if evaluations is None else whole("evaluations", evaluations, 1, MOST_EVALUATIONS),
        cost=0.0 if cost is None else _more_cost(cost),
        examples=n_examples or 0,
        key=check_key(key),
        ids=None if ids is None else ids.ids,
    )
    check_growth(state, event)
    return event


def request(state: State, key: str | None, kind: type[Growth]) -> tuple[int, Any] | None:
    """The event of the request of this name, and the first arm behind those there were; None if it is new.

    Raises:
        InvalidArgumentError: the name is that of another kind of request.
    """
    n_arms = state.origin.n_arms
    for grown in state.growth if key is not None else ():
        if grown.event.key == key:
            check_again(key, isinstance(grown.event, kind))
            return n_arms, grown.event
        n_arms += len(grown.event.texts) if isinstance(grown.event, Added) else 0
    return None


def ids_again(prompts: Prompts, more: object, first: int, event: Added) -> list[str | int]:
    """The ids that the request gave whose event it was; those that were there already had theirs in what is sent.

    Raises:
        InvalidArgumentError: what is sent now are other prompts.
    """
    ids, texts = check_prompts(more)
    joined = list(prompts.ids[first : first + len(event.texts)])
    if ids is None:
        same = texts == list(event.texts)
    else:
        same = set(joined) <= set(ids) and all(map(partial(_is_there, prompts), ids, texts))
    check_again(event.key, same)
    return joined if ids is None else list(ids)


def check_again(key: str | None, is_same: bool) -> None:
    """See that what came under the name of an earlier request is that request.

    Raises:
        InvalidArgumentError: it is another one.
    """
    if not is_same:
        raise InvalidArgumentError(
            f"The key {short(key)} was given to another request before. Nothing was done: choose another."
        )


def check_key(key: str | None) -> str | None:
    """The name of a request, None if it has none."""
    return None if key is None else check_name("The key of a request", key)


def _is_there(prompts: Prompts, id_: str, text: str) -> bool:
    arm = prompts.with_id(id_)
    return arm is not None and prompts.texts[arm] == text


def _more_cost(cost: object) -> float:
    if isinstance(cost, np.floating):
        cost = float(cost)
    value = check_number("cost", cost, 0.0, LARGEST)
    if not value > 0:
        raise InvalidArgumentError(f"cost must be a number above 0, got {short(cost)}.")
    return value


def _features(
    state: State, prompts: Prompts, texts: Sequence[str], given: object, rows: npt.NDArray[np.float64] | None
) -> tuple[tuple[float, ...], ...] | None:
    known = state.problem.features
    if isinstance(given, str) and given != "text":
        raise InvalidArgumentError(f'features must be numbers, "text" or None, got {short(given)}.')
    if known is None:
        if given is not None:
            raise InvalidArgumentError("add() got features, but the prompts that are there have none: leave them out.")
        return None
    if rows is None:
        n_first, width = state.origin.n_arms, known.shape[1]
        basis = TextBasis(prompts.texts[:n_first], width)
        if not np.allclose(known[:n_first], basis.features, rtol=1e-6, atol=1e-6):
            raise InvalidArgumentError(
                f"The prompts that are there have features of their own: add(prompts, features=...) with {width} "
                "numbers for each prompt, made in the same way."
            )
        rows = basis.of_more(texts)
    return tuple(map(tuple, rows.tolist()))
