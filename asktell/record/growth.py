"""Growth: prompts, budget and examples that are added, prompts that are retired, and the effect on departed prompts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from asktell.errors import InvalidArgumentError
from asktell.problem import checks
from asktell.problem.checks import whole
from asktell.problem.examples.ids import numbered
from asktell.problem.problem import Problem, check_proxy_scores
from asktell.problem.prompts import Prompts
from asktell.problem.words import short
from asktell.record.events import (
    Added,
    Decided,
    Departure,
    Extended,
    Growth,
    Retired,
)
from asktell.record.state import Departures, GrowthStep, State


def reopens(event: Growth, last: Decided | None) -> bool:
    """True if an event reopens a selection that its `last` decision finished (None: it is not finished).

    New prompts, budget or examples reopen it. A retired prompt reopens it if it was
    selected.
    """
    return last is not None and (
        not isinstance(event, Retired) or event.arm in last.answer
    )


def departed(
    left: Departures,
    event: Growth,
    decisions: Sequence[tuple[int, Decided]],
    reopening: bool,
) -> Departures:
    """The departed arms after growth. Reopening brings back the arms that the last decision accepted or rejected."""
    if reopening:
        last = decisions[-1][1]
        for departure in last.departures:
            # An arm that was retired since, or failed too often, stays out.
            if departure.status in ("accepted", "rejected") and left.get(
                departure.arm
            ) == (
                last.round,
                departure,
            ):
                left = left.delete(departure.arm)
    if isinstance(event, Retired):
        left = left.set(
            event.arm, (len(decisions), Departure(event.arm, "retired", event.reason))
        )
    return left


def told_departures(
    decisions: Sequence[tuple[int, Decided]], growth: Sequence[GrowthStep]
) -> tuple[Departures, bool]:
    """The arms that departed because of decisions and growth, and whether the last decision was reopened.

    Arms that departed because of failures are not included.
    """
    left = Departures()
    waiting, reopened = list(reversed(growth)), False
    for number in range(len(decisions) + 1):
        last = decisions[number - 1][1] if number else None
        reopened = False
        # The growth between the last decision and the next one
        while waiting and waiting[-1].decisions == number:
            event = waiting.pop().event
            reopening = reopens(
                event,
                last if last is not None and last.finished and not reopened else None,
            )
            left = departed(left, event, decisions[:number], reopening)
            reopened = reopened or reopening
        if number < len(decisions):
            decided = decisions[number][1]
            for departure in decided.departures:
                left = left.set(departure.arm, (decided.round, departure))
    return left, reopened


def problem_after(problem: Problem, event: object) -> Problem:
    """The problem after an event. Only new prompts, budget or examples change it."""
    if isinstance(event, Added):
        candidates = problem.candidates
        if candidates is not None and event.candidates is not None:
            candidates = candidates.joined(event.candidates)
        n_arms = problem.n_arms + len(event.texts)
        # Methods that use features plan their rounds, and refuse new prompts. So new
        # prompts have no features, and the others' are not needed any more.
        larger = replace(problem, n_arms=n_arms, features=None, candidates=candidates)
    elif isinstance(event, Extended):
        larger = replace(
            problem,
            budget=problem.budget + event.evaluations,
            max_cost=None
            if problem.max_cost is None
            else problem.max_cost + event.cost,
            examples=problem.examples.with_more(event.examples, event.ids),
        )
    else:
        return problem
    # A limit on cost alone allows all evaluations that exist, now more than before.
    if problem.is_bound_by_cost_alone:
        budget = larger.examples.most_evaluations(larger.n_arms)
        larger = replace(larger, budget=budget)
    return larger


def prompts_after(prompts: Prompts, event: Growth) -> Prompts:
    """The prompts after growth."""
    if not isinstance(event, Added):
        return prompts
    return prompts.joined(Prompts(event.ids, event.texts, event.candidates))


def check_growth(state: State, event: Growth) -> None:
    """Check that growth can come next.

    Raises:
        InvalidArgumentError: the event does not fit the problem.
    """
    check_key(event.key)
    if isinstance(event, Extended):
        _check_extended(state.problem, event)
    elif isinstance(event, Added):
        _check_names(state.problem, event)
    else:
        _check_retired(state, event)
    problem = state.problem
    check_proxy_scores(
        len(problem.proxies),
        problem.n_arms + (len(event.texts) if isinstance(event, Added) else 0),
        (problem.examples.n or 0)
        + (event.examples if isinstance(event, Extended) else 0),
    )


def _check_retired(state: State, event: Retired) -> None:
    """Check that an arm is not the baseline or the incumbent, and was not retired before.

    An eliminated arm may be retired.
    """
    if (
        whole("an arm", event.arm, 0, state.problem.n_arms - 1)
        == state.problem.baseline
    ):
        raise InvalidArgumentError(
            "The baseline cannot be retired, because the selected prompt is compared with it."
        )
    # Before the end, the answer of a decision is the incumbent of its method.
    answers = [decided.answer for _, decided in state.decisions if not decided.finished]
    if answers and event.arm in answers[-1]:
        raise InvalidArgumentError(
            "The incumbent cannot be retired, because candidates are compared with it. Add a better candidate, or "
            "start a new selection with another baseline."
        )
    gone = state.left.get(event.arm)
    if gone is not None and gone[1].status == "retired":
        raise InvalidArgumentError(
            f"This prompt was retired already. The reason was {short(gone[1].reason)}."
        )


def _check_names(problem: Problem, event: Added) -> None:
    """Check that the ids and texts are the ids and texts of the new candidates, if there are candidates."""
    candidates, came = problem.candidates, event.candidates
    if candidates is None or came is None:
        return
    joined, n = Prompts.of(candidates.joined(came)), len(candidates)
    ids = None if isinstance(joined.ids, range) else tuple(map(str, joined.ids[n:]))
    if (event.ids, event.texts) != (ids, tuple(joined.texts[n:])):
        raise InvalidArgumentError(
            f"The ids of the new candidates must be {short(ids)}, got {short(event.ids)}."
        )


def _check_extended(problem: Problem, event: Extended) -> None:
    """Check that an extension fits the problem: first its own values, then budget, examples and their sums."""
    if event.ids is not None and len(event.ids) != event.examples:
        raise InvalidArgumentError(
            f"The number of ids is {len(event.ids)}, but the number of new examples is {event.examples}. Pass one "
            "id per example."
        )
    # The same checks of each value as for the arguments of extend().
    examples = event.examples if event.ids is None else event.ids
    extension(
        event.evaluations or None, event.cost or None, examples or None, event.key
    )
    if event.examples and problem.examples.labels is not None:
        raise InvalidArgumentError(
            "extend() cannot add examples to a selection with segments. Start a new selection."
        )
    if not (event.evaluations or event.cost or event.examples):
        raise InvalidArgumentError(
            "extend() needs evaluations=..., cost=... or examples=..., each above 0."
        )
    _check_more_budget(problem, event)
    _check_new_examples(problem, event.examples, event.ids)
    sums = (
        ("evaluations", problem.budget, event.evaluations, checks.MOST_EVALUATIONS),
        ("examples", problem.examples.n or 0, event.examples, checks.MOST_EXAMPLES),
        ("cost", problem.max_cost or 0.0, event.cost, checks.LARGEST),
    )
    for name, there, more, most in sums:
        if there + more > most:
            raise InvalidArgumentError(
                f"extend() got {name}={more}. With the existing {there:,} {name}, the sum would exceed {most:,}. Add "
                "fewer."
            )


def _check_more_budget(problem: Problem, event: Extended) -> None:
    """Check that the budget grows in its own unit: evaluations or cost."""
    if event.cost and problem.max_cost is None:
        raise InvalidArgumentError(
            f"extend() got cost={event.cost:g}, but the budget is {problem.budget} evaluations, whatever they cost. "
            "Use extend(evaluations=...)."
        )
    if event.evaluations and problem.is_bound_by_cost_alone:
        raise InvalidArgumentError(
            f"extend() got evaluations={event.evaluations}, but the budget is a cost of {problem.max_cost:g}, for any "
            "number of evaluations. Use extend(cost=...)."
        )


def _check_new_examples(
    problem: Problem, examples: int, ids: tuple[str, ...] | None
) -> None:
    """Check that new examples, as many as `examples`, have ids exactly if the existing examples have ids."""
    if examples and problem.examples.n is None:
        raise InvalidArgumentError(
            f"extend() got examples={examples}, but this selection was made without `examples`. Its evaluator draws "
            "its own examples. Leave examples out."
        )
    if examples and (ids is None) != (problem.examples.ids is None):
        raise InvalidArgumentError(
            "extend() needs the ids of the new examples, because the existing examples have ids. Pass examples=[...]."
            if ids is None
            else "extend() got example ids, but the existing examples have no ids. Pass a number: examples=len(new)."
        )
    if ids and problem.examples.ids is not None:
        # Refuses ids that exist already.
        problem.examples.ids.with_more(ids)


def addition(
    state: State,
    prompts: Prompts,
    more: object,
    key: str | None,
) -> tuple[Added | None, list[str | int]]:
    """The event that adds prompts, and the ids of all prompts of the request.

    The event is None if all prompts exist already, with these ids.
    """
    key = check_key(key)
    came = Prompts.of(more)
    new = [arm for arm in range(len(came)) if not _is_there(prompts, came, arm)]
    if not new:
        return None, list(came.ids)
    new_prompts = came.part(new)
    joined = prompts.joined(new_prompts)
    has_ids = not isinstance(came.ids, range)
    event = Added(
        ids=tuple(map(str, joined.ids[len(prompts) :])) if has_ids else None,
        texts=tuple(new_prompts.texts),
        key=key,
        candidates=new_prompts.candidates,
    )
    check_growth(state, event)
    return event, list(came.ids) if has_ids else list(joined.ids[len(prompts) :])


def extension(
    evaluations: object, cost: object, examples: object, key: str | None
) -> Extended:
    """The event that extends the budget or the examples. `check_growth` checks that it fits the problem."""
    n_examples, ids = numbered(examples)
    return Extended(
        evaluations=0
        if evaluations is None
        else whole("evaluations", evaluations, 1, checks.MOST_EVALUATIONS),
        cost=0.0 if cost is None else checks.check_max_cost("cost of extend()", cost),
        examples=n_examples or 0,
        key=check_key(key),
        ids=None if ids is None else tuple(ids),
    )


def is_new(state: State, event: Retired | Extended) -> bool:
    """True if the request is new. It must then be able to come next. False if it repeats an earlier request."""
    earlier = request(state, event.key, type(event))
    if earlier is None:
        check_growth(state, event)
        return True
    # Retiring the same prompt for another reason is the same request.
    check_again(
        event.key,
        earlier[1].arm == event.arm
        if isinstance(event, Retired)
        else earlier[1] == event,
    )
    return False


def request(
    state: State, key: str | None, kind: type[Growth]
) -> tuple[int, Any] | None:
    """The number of arms before an earlier request with this key, and its event. None for a new request.

    Raises:
        InvalidArgumentError: the key belongs to a request of another kind.
    """
    n_arms = state.growth.origin.n_arms
    for grown in state.growth.events if key is not None else ():
        if grown.event.key == key:
            check_again(key, isinstance(grown.event, kind))
            return n_arms, grown.event
        n_arms += len(grown.event.texts) if isinstance(grown.event, Added) else 0
    return None


def ids_again(
    prompts: Prompts, more: object, first: int, event: Added
) -> list[str | int]:
    """The ids that a repeated request returned the first time. `event` is its event, and `first` its first new arm."""
    came = Prompts.of(more)
    joined = list(prompts.ids[first : first + len(event.texts)])
    if isinstance(came.ids, range):
        check_again(event.key, list(came.texts) == list(event.texts))
        return joined
    same = set(joined) <= set(came.ids) and all(
        _is_there(prompts, came, arm) for arm in range(len(came))
    )
    check_again(event.key, same)
    return list(came.ids)


def check_again(key: str | None, is_same: bool) -> None:
    """Check that a repeated key carries the same request."""
    if not is_same:
        raise InvalidArgumentError(
            f"The key {short(key)} belongs to an earlier, different request. Nothing was done. Choose another key."
        )


def check_key(key: str | None) -> str | None:
    """Check the idempotency key of a request, and return it."""
    return None if key is None else checks.check_name("The key of a request", key)


def _is_there(prompts: Prompts, came: Prompts, number: int) -> bool:
    """True if a prompt of a request exists already, with its own id."""
    arm = None if isinstance(came.ids, range) else prompts.with_id(came.ids[number])
    # Positions identify no prompt, so texts without ids are always new.
    if arm is None or prompts.texts[arm] != came.texts[number]:
        return False
    existing, new = prompts.candidates, came.candidates
    return (existing is None) == (new is None) and (
        existing is None or new is None or existing[arm] == new[number]
    )
