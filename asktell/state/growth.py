"""Growth: prompts, budget and examples that join, and its effect on prompts that have left."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError
from asktell.numerics.intmap import IntMap
from asktell.problem import checks
from asktell.problem.candidates import Prompts
from asktell.problem.checks import short, whole
from asktell.problem.examples import numbered
from asktell.problem.features import TextBasis
from asktell.state.events import ACCEPTED, REJECTED, RETIRED, Added, Decided, Departure, Extended, Growth, Retired
from asktell.state.problem import Problem
from asktell.state.state import Grown, State


def reopens(event: Growth, last: Decided | None) -> bool:
    """True if growth reopens a selection that its `last` decision finished (None: it is not finished).

    So it does with new prompts, money or examples, and when a prompt of its answer is retired.
    """
    return last is not None and (not isinstance(event, Retired) or event.arm in last.answer)


def departed(
    left: IntMap[tuple[int, Departure]], event: Growth, decisions: Sequence[tuple[int, Decided]], reopening: bool
) -> IntMap[tuple[int, Departure]]:
    """Who has left after growth: those accepted and rejected by the last decision, if it was not, have not."""
    if reopening:
        last = decisions[-1][1]
        for departure in last.departures:
            if departure.status in (ACCEPTED, REJECTED) and left.get(departure.arm) == (last.round, departure):
                left = left.delete(departure.arm)
    if isinstance(event, Retired):
        left = left.set(event.arm, (len(decisions), Departure(event.arm, RETIRED, event.reason)))
    return left


def told_departures(
    decisions: Sequence[tuple[int, Decided]], growth: Sequence[Grown]
) -> tuple[IntMap[tuple[int, Departure]], bool]:
    """Who has left by decisions and growth alone, and whether the last decision has been reopened.

    What is missing are those who left for their failures.
    """
    left: IntMap[tuple[int, Departure]] = IntMap()
    waiting, reopened = list(reversed(growth)), False
    for number in range(len(decisions) + 1):
        last = decisions[number - 1][1] if number else None
        reopened = False
        while waiting and waiting[-1].decisions == number:
            event = waiting.pop().event
            reopening = reopens(event, last if last is not None and last.finished and not reopened else None)
            left = departed(left, event, decisions[:number], reopening)
            reopened = reopened or reopening
        if number < len(decisions):
            decided = decisions[number][1]
            for departure in decided.departures:
                left = left.set(departure.arm, (decided.round, departure))
    return left, reopened


def prompts_after(prompts: Prompts, event: Growth) -> Prompts:
    """The prompts after growth."""
    if not isinstance(event, Added):
        return prompts
    return prompts.joined(Prompts(event.ids, event.texts, event.candidates))


def check_growth(state: State, event: Growth) -> None:
    """Check that growth can come next."""
    check_key(event.key)
    if isinstance(event, Extended):
        if event.ids is not None and len(event.ids) != event.examples:
            raise InvalidArgumentError(f"There are {len(event.ids)} ids for {event.examples} examples that join.")
        examples = event.examples if event.ids is None else event.ids
        extension(event.evaluations or None, event.cost or None, examples or None, event.key)
        _check_extended(state.problem, event)
    elif isinstance(event, Added):
        known = state.problem.features
        expected = None if known is None else [known.shape[1]] * len(event.texts)
        came = None if event.features is None else [len(row) for row in event.features]
        if came != expected:
            raise InvalidArgumentError(
                "The features of prompts that join must be as those of the prompts that are there: "
                f"{'none' if known is None else f'rows of {known.shape[1]} numbers'}; got "
                f"{'none' if came is None else f'{len(came)} rows of {sorted(set(came))}'}."
            )
        _check_names(state.problem, event)
    elif whole("an arm", event.arm, 0, state.problem.n_arms - 1) == state.problem.baseline:
        raise InvalidArgumentError("The baseline cannot be retired: the answer is compared with it.")
    elif (gone := state.left.get(event.arm)) is not None and gone[1].status == RETIRED:
        raise InvalidArgumentError(f"This prompt was retired already: {short(gone[1].reason)}.")


def _check_names(problem: Problem, event: Added) -> None:
    """Check that ids and texts are those of the candidates that join, if they are candidates."""
    known, came = problem.candidates, event.candidates
    if known is None or came is None:
        return
    joined, n = Prompts.of(known.joined(came)), len(known)
    ids = None if isinstance(joined.ids, range) else tuple(map(str, joined.ids[n:]))
    if (event.ids, event.texts) != (ids, tuple(joined.texts[n:])):
        raise InvalidArgumentError(f"Candidates that join have the ids {short(ids)}, got {short(event.ids)}.")


def _check_extended(problem: Problem, event: Extended) -> None:
    evaluations, cost, examples = event.evaluations, event.cost, event.examples
    ids, n_examples = event.ids, problem.n_examples
    if examples and problem.labels is not None:
        raise InvalidArgumentError("extend() takes no examples where there are segments: start a new selection.")
    if not (evaluations or cost or examples):
        raise InvalidArgumentError("extend() needs evaluations=..., cost=... or examples=..., each above 0.")
    if cost and problem.max_cost is None:
        raise InvalidArgumentError(
            f"extend() got cost={cost:g}, but the budget is {problem.budget} evaluations, whatever they cost: "
            "extend(evaluations=...)."
        )
    if evaluations and problem.is_bound_by_cost_alone:
        raise InvalidArgumentError(
            f"extend() got evaluations={evaluations}, but the budget is a cost of {problem.max_cost:g}, for any "
            "number of evaluations: extend(cost=...)."
        )
    if examples and n_examples is None:
        raise InvalidArgumentError(
            f"extend() got examples={examples}, but this selection was made without `examples`: the evaluator draws "
            "its own."
        )
    if examples and (ids is None) != (problem.examples is None):
        raise InvalidArgumentError(
            "extend() needs the ids of the new examples, as those there are have ids: examples=[...]."
            if ids is None
            else "extend() got ids of examples, but those there are have none: give their number, examples=len(new)."
        )
    if ids and problem.examples is not None:
        problem.examples.with_more(ids)
    for name, there, more, most in (
        ("evaluations", problem.budget, evaluations, checks.MOST_EVALUATIONS),
        ("examples", n_examples or 0, examples, checks.MOST_EXAMPLES),
    ):
        if there + more > most:
            raise InvalidArgumentError(
                f"extend() got {name}={more}: with the {there} there are, that is more than {most}."
            )


def addition(
    state: State, prompts: Prompts, more: object, features: npt.ArrayLike | str | None, key: str | None
) -> tuple[Added | None, list[str | int]]:
    """The event, None if all of them are there already under these ids, and their ids."""
    check_key(key)
    came = Prompts.of(more)
    rows = None if features is None or isinstance(features, str) else checks.check_features(features, len(came))
    new = [arm for arm in range(len(came)) if not _is_there(prompts, came, arm)]
    if not new:
        return None, list(came.ids)
    new_prompts = came.part(new)
    # First, for what is wrong with the texts is more than what is wrong with their features.
    joined = prompts.joined(new_prompts)
    has_ids = not isinstance(came.ids, range)
    event = Added(
        ids=tuple(map(str, joined.ids[len(prompts) :])) if has_ids else None,
        texts=tuple(new_prompts.texts),
        features=_features(state, prompts, new_prompts.texts, features, None if rows is None else rows[new]),
        key=key,
        candidates=new_prompts.candidates,
    )
    check_growth(state, event)
    return event, list(came.ids) if has_ids else list(joined.ids[len(prompts) :])


def extension(evaluations: object, cost: object, examples: object, key: str | None) -> Extended:
    """The event; it may not fit the problem."""
    n_examples, ids = numbered(examples)
    return Extended(
        evaluations=0 if evaluations is None else whole("evaluations", evaluations, 1, checks.MOST_EVALUATIONS),
        cost=0.0 if cost is None else checks.check_max_cost("cost", cost),
        examples=n_examples or 0,
        key=check_key(key),
        ids=None if ids is None else ids.ids,
    )


def is_new(state: State, event: Retired | Extended) -> bool:
    """False if the request of this name was the same; one that is new must be able to come next."""
    known = request(state, event.key, type(event))
    if known is None:
        check_growth(state, event)
        return True
    check_again(event.key, known[1].arm == event.arm if isinstance(event, Retired) else known[1] == event)
    return False


def request(state: State, key: str | None, kind: type[Growth]) -> tuple[int, Any] | None:
    """The event of the request of this name, and the first arm behind those there were; None if it is new."""
    n_arms = state.origin.n_arms
    for grown in state.growth if key is not None else ():
        if grown.event.key == key:
            check_again(key, isinstance(grown.event, kind))
            return n_arms, grown.event
        n_arms += len(grown.event.texts) if isinstance(grown.event, Added) else 0
    return None


def ids_again(prompts: Prompts, more: object, first: int, event: Added) -> list[str | int]:
    """The ids that the request gave whose event it was; those that were there already had theirs in what is sent."""
    came = Prompts.of(more)
    joined = list(prompts.ids[first : first + len(event.texts)])
    if isinstance(came.ids, range):
        check_again(event.key, list(came.texts) == list(event.texts))
        return joined
    same = set(joined) <= set(came.ids) and all(_is_there(prompts, came, arm) for arm in range(len(came)))
    check_again(event.key, same)
    return list(came.ids)


def check_again(key: str | None, is_same: bool) -> None:
    """Check that a repeated key carries the same request."""
    if not is_same:
        raise InvalidArgumentError(
            f"The key {short(key)} was given to another request before. Nothing was done: choose another."
        )


def check_key(key: str | None) -> str | None:
    """The name of a request, None if it has none."""
    return None if key is None else checks.check_name("The key of a request", key)


def _is_there(prompts: Prompts, came: Prompts, number: int) -> bool:
    """True if one of those that came is there already, under its own id."""
    arm = None if isinstance(came.ids, range) else prompts.with_id(came.ids[number])
    if arm is None or prompts.texts[arm] != came.texts[number]:
        return False
    known, new = prompts.candidates, came.candidates
    return (known is None) == (new is None) and (known is None or new is None or known[arm] == new[number])


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
