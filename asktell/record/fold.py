"""Fold events into the state: `apply` keeps the books, and `decide` calls the method. Both are pure functions.

`check` refuses an event that cannot come next. It is for events from files and logs,
which may contain anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.numerics.arrays import Ints
from asktell.numerics.shapes import Int
from asktell.problem.checks import MalformedError, whole
from asktell.problem.problem import Problem
from asktell.problem.words import short
from asktell.record import events
from asktell.record.costs import Costs
from asktell.record.events import Pull
from asktell.record.growth import check_growth, departed, problem_after, reopens
from asktell.record.proxies import ProxyScores
from asktell.record.state import (
    GrowthStep,
    Remarks,
    State,
    examples_left,
    observed_examples,
)


class Decider(Protocol):
    """The part of a method that an `Engine` uses."""

    def check_growth(self, event: events.Growth) -> None:
        """Refuse growth that the method does not support."""

    def due(self, state: State) -> bool:
        """True if it is time to decide."""

    def decide(self, state: State) -> events.Decided:
        """The decision."""


def decision_of(method: Decider, state: State) -> events.Decided | None:
    """The decision of a method that is due in a state. None if no decision is due, or the selection has ended.

    Raises:
        InvalidStateError: the decision cannot be saved, or exceeds the budget.
    """
    if state.finished or not method.due(state):
        return None
    decided = method.decide(state)
    try:
        _check_decided(state, decided)
    except (InvalidArgumentError, InvalidStateError) as error:
        raise InvalidStateError(
            f"{type(method).__name__}.decide returned a decision that cannot be used, so nothing was changed. {error}"
        ) from error
    return decided


def apply(state: State, event: events.Event) -> State:
    """The state after an event. The given state does not change.

    Args:
        state: the state before the event.
        event: an event that can happen in this state. This is not checked.
    """
    return _APPLY[type(event)](state, event)


def check(state: State, event: events.Event) -> None:
    """Refuse an event that cannot come next.

    Raises:
        InvalidStateError: the event cannot follow this state.
        InvalidArgumentError: the event refers to an unknown arm or example, or the
            problem does not allow the growth.
    """
    _CHECK[type(event)](state, event)


def _check_asked(state: State, event: events.Asked) -> None:
    """Check that the log assigned the evaluation that comes next."""
    # A planned evaluation has no trial yet, and gets the next number.
    pull = state.plan.next()
    if pull is not None and pull.trial is None:
        pull = pull._replace(trial=state.plan.asked)
    if pull != (event.trial, event.arm, event.example):
        raise MalformedError(
            f"Trial {event.trial} was assigned, but it is not the next evaluation of the plan."
        )


def _check_told(state: State, event: events.Told) -> None:
    """Check that the trial waits for scores, and that these have the right form."""
    _check_out(state, event)
    _check_scores(state.problem, event.scores)
    Costs.check(event.cost)
    pull = state.plan.open(event.trial)
    ProxyScores.check(state.problem, pull and pull.example, event.proxies)


def _check_failed(state: State, event: events.Failed) -> None:
    """Check that the trial waits for scores, and that its cost has the right form."""
    _check_out(state, event)
    Costs.check(event.cost)


def _check_released(state: State, event: events.Released) -> None:
    """Check that the trial is pending. A trial that was returned already cannot be released again."""
    if event.trial not in state.plan.pending:
        raise not_pending(event)


def _check_observed(state: State, event: events.Observed) -> None:
    """Check the arm, the example and the numbers of an observation. Any arm may be observed, also an eliminated one."""
    whole("an arm", event.arm, 0, state.problem.n_arms - 1)
    n_examples = state.problem.examples.n or 0
    if event.example is not None and not 0 <= event.example < n_examples:
        raise MalformedError(
            f"A score is of example {event.example}, but there are {n_examples} examples, numbered from 0."
        )
    if event.scores is None and event.cost is None and not event.proxies:
        raise MalformedError("An observation has neither scores nor a cost.")
    if event.scores is not None:
        _check_scores(state.problem, event.scores)
    Costs.check(event.cost)
    ProxyScores.check(state.problem, event.example, event.proxies)


def not_pending(event: Any) -> MalformedError:
    """Return the error for an event of a trial that was not pending."""
    return MalformedError(
        f"An event ({type(event).__name__}) is about trial {event.trial}, which was not pending."
    )


def _check_out(state: State, event: events.Told | events.Failed) -> None:
    """Check that a trial is pending, or waits to be assigned again. In the latter case its scores come late."""
    if state.plan.open(event.trial) is None:
        raise not_pending(event)


def _check_scores(problem: Problem, scores: tuple[float, ...]) -> None:
    """Check the number of scores. Their sizes are checked when the event is decoded."""
    n_metrics = len(problem.goal.columns)
    if len(scores) != n_metrics:
        raise MalformedError(
            f"An evaluation has {len(scores)} scores, but the goal needs {n_metrics}."
        )


def _check_decided(state: State, decided: events.Decided) -> None:
    """Check that a decision is due, and that the budget covers its plan besides what is in progress."""
    check_decision(state.problem, decided)
    if not state.may_decide or decided.round != len(state.decisions):
        raise MalformedError(
            f"Decision {decided.round} is not due after {len(state.decisions)} decisions."
        )
    if decided.plan is not None:
        n_planned = len(decided.plan)
    elif isinstance(decided.pulls, int):
        n_planned = decided.pulls * (len(state.active) - len(decided.departures))
    else:
        n_planned = sum(decided.pulls)
    # Returned evaluations are part of the plan, too. A plan of cells drops those that
    # no longer fit the budget of cost.
    n_kept = sum(
        decided.plan is None or state.fits(pull.arm) for pull in state.plan.returned
    )
    room = state.problem.budget - state.spent - len(state.plan.pending) - n_kept
    if n_planned > max(0, room):
        raise MalformedError(
            f"Decision {decided.round} plans {n_planned} evaluations, more than the budget allows."
        )


def check_decision(problem: Problem, decided: events.Decided) -> None:
    """Refuse a decision that refers to unknown arms or examples, or to estimates of the wrong length.

    Raises:
        InvalidArgumentError: an arm, an example or a number is out of range.
        InvalidStateError: an estimate has the wrong length.
    """
    n_metrics, last_example = len(problem.goal.columns), (problem.examples.n or 0) - 1
    plan = () if decided.plan is None else decided.plan
    arms = [departure.arm for departure in decided.departures]
    arms += decided.answer
    arms += [arm for arm, _ in plan]
    pulls = decided.pulls if isinstance(decided.pulls, tuple) else (decided.pulls,)
    _check_whole("An arm", arms, 0, problem.n_arms - 1)
    _check_whole("An example", [example for _, example in plan], -1, last_example)
    _check_whole("The number of evaluations", pulls, 0, problem.budget)
    for departure in decided.departures:
        if {len(departure.means), len(departure.standard_errors)} not in (
            {0},
            {n_metrics},
        ):
            raise MalformedError(
                f"The estimate of a departure needs {n_metrics} means and standard errors, got {short(departure)}."
            )


def _check_whole(name: str, numbers: Sequence[int], low: int, high: int) -> None:
    """Check that all are ints from `low` to `high`. Other types of numbers, such as numpy's, cannot be saved."""
    if not numbers:
        return
    if not (
        {*map(type, numbers)} == {int} and low <= min(numbers) <= max(numbers) <= high
    ):
        for number in numbers:
            whole(name, number, low, high)
            if type(number) is not int:
                raise InvalidArgumentError(
                    f"{name} must be an int of Python, got {number!r}. Pass int(...)."
                )


_CHECK: dict[type, Callable[[State, Any], None]] = {
    events.Asked: _check_asked,
    events.Told: _check_told,
    events.Released: _check_released,
    events.Failed: _check_failed,
    events.Observed: _check_observed,
    events.Decided: _check_decided,
    events.Remarked: lambda state, event: None,
    events.Added: check_growth,
    events.Retired: check_growth,
    events.Extended: check_growth,
}


def _asked(state: State, event: events.Asked) -> State:
    """Make an evaluation pending: the first that was returned, or else the next of the plan."""
    plan, reserve = state.plan, None
    if state.problem.max_cost is not None and state.costs.pool.n:
        # The reserve is kept until costs change, so that n asks in a row take O(n)
        # time.
        reserve = plan.reserve
        if reserve is None:
            reserve = state.costs.reserved(plan.pending.values())
        reserve += state.costs.reserve(event.arm)
    pull = Pull(event.trial, event.arm, event.example)
    return state._replace(plan=plan.assign(event.trial, pull, reserve))


def _told(state: State, event: events.Told) -> State:
    """Record the scores of a trial, even if its arm was eliminated meanwhile."""
    pull, plan = state.plan.close(event.trial)
    return state._replace(
        plan=plan,
        history=state.history.append(event.trial, pull.arm, pull.example, event.scores),
        spent=state.spent + 1,
        costs=state.costs.plus(pull.arm, event.cost),
        proxies=state.proxies.append(pull.arm, pull.example, event.proxies)
        if event.proxies
        else state.proxies,
    )


def _released(state: State, event: events.Released) -> State:
    """Return a trial, which is assigned again unless its arm was eliminated."""
    pull, plan = state.plan.close(event.trial)
    return state._replace(plan=plan if pull.arm in state.left else plan.put_back(pull))


def _failed(state: State, event: events.Failed) -> State:
    """Record a failure. The arm is eliminated if it fails too often, and otherwise takes another example.

    With `failure_scores`, a failure counts as these scores instead.
    """
    pull, plan = state.plan.close(event.trial)
    arm, scores = pull.arm, state.problem.failure_scores
    state = state._replace(
        plan=plan,
        failures=state.failures.append(pull, event.reason),
        costs=state.costs.plus(arm, event.cost),
    )
    # Failures that count as scores use the budget, as scores do.
    if scores is not None:
        history = state.history.append(event.trial, arm, pull.example, scores)
        return state._replace(history=history, spent=state.spent + 1)
    if arm in state.left:
        return state
    # Missing scores: the failure rate decides whether the arm stays.
    departure = state.failures.given_up(arm, state.history, state.problem)
    if departure is not None:
        return _leave(state, (departure,), len(state.decisions))
    replacement = _next_example(state, arm)
    if replacement is None:
        return state
    return state._replace(plan=plan.redraw(replacement))


def _observed(state: State, event: events.Observed) -> State:
    """Record scores or a cost from elsewhere. They use no budget of evaluations.

    A planned evaluation of an observed cell moves to another example, since it would
    repeat the cell.
    """
    arm, example = event.arm, event.example
    if event.cost is not None:
        state = state._replace(
            costs=state.costs.plus(arm, event.cost),
            plan=state.plan._replace(reserve=None),
        )
    if event.proxies:
        state = state._replace(
            proxies=state.proxies.append(arm, example, event.proxies)
        )
    if event.scores is None:
        return state
    state = state._replace(
        history=state.history.append(None, arm, example, event.scores)
    )
    if (
        example is None
        or state.problem.examples.population is None
        or arm in state.left
    ):
        return state
    # An evaluation of the cell that is in progress stays: it may be paid for already.
    plan = state.plan.replaced(
        Pull(None, arm, example), lambda: _next_example(state, arm)
    )
    return state._replace(plan=plan)


def _decided(state: State, event: events.Decided) -> State:
    """Eliminate the departing arms, and replace the plan by the decision's plan.

    A decision has its plan in one of two forms: pairs of arm and example (`plan`), or
    the number of evaluations of each active arm (`pulls`), whose examples follow from
    the order.
    """
    rows = len(state.history)
    # Rows never change. So unless cells are scored several times, later tallies only
    # add the rows that come after these.
    state = state._replace(
        tally=state.next_tally(),
        decisions=(*state.decisions, (rows, event)),
    )
    if state.growth.reopened:
        state = state._replace(growth=replace(state.growth, reopened=False))
    state = _leave(state, event.departures, event.round)
    if event.finished:
        plan = state.plan.ended()
    elif event.plan is not None:
        plan = state.plan.of_cells(event.plan, state.fits)
    else:
        active = state.active
        pulls = np.broadcast_to(np.asarray(event.pulls, dtype=np.int64), active.shape)
        plan = state.plan.of_round(*cells_of_round(state, active, pulls))
    return state._replace(plan=plan)


def _grown(state: State, event: events.Growth) -> State:
    """Grow the problem. A finished selection continues, and the departures of its last decision are undone.

    These departures rested on the scores at that time.
    """
    reopening = reopens(event, state.decisions[-1][1] if state.finished else None)
    growth = state.growth
    before = GrowthStep(len(state.decisions), state.spent, state.costs.total, event)
    n_more = len(event.texts) if isinstance(event, events.Added) else 0
    state = state._replace(
        problem=problem_after(state.problem, event),
        growth=replace(
            growth,
            events=(*growth.events, before),
            reopened=growth.reopened or reopening,
        ),
        left=departed(state.left, event, state.decisions, reopening),
        plan=state.plan.wider(n_more),
        tally=state.tally.wider(n_more),
    )
    # `departed` has the departure of a retired arm. Only its plan is left to drop.
    if isinstance(event, events.Retired):
        return state._replace(plan=state.plan.without({event.arm}))
    # An arm that is back may have failed too often meanwhile.
    failures = state.failures
    failed = [
        departure
        for arm in failures.arms()
        if arm not in state.left
        and (departure := failures.given_up(arm, state.history, state.problem))
    ]
    return _leave(state, tuple(failed), len(state.decisions))


_APPLY: dict[type, Callable[[State, Any], State]] = {
    events.Asked: _asked,
    events.Told: _told,
    events.Released: _released,
    events.Failed: _failed,
    events.Observed: _observed,
    events.Decided: _decided,
    events.Remarked: lambda state, event: state._replace(
        remarks=Remarks({**state.remarks, event.topic: event})
    ),
    events.Added: _grown,
    events.Retired: _grown,
    events.Extended: _grown,
}


def cells_of_round(
    state: State, active: Int[Ints, " active"], pulls: Int[Ints, " active"]
) -> tuple[Int[Ints, " pulls"], Int[Ints, " pulls"]]:
    """Arms and examples of a round's pulls, in the order of asking.

    The order is round robin. So the arms have about equally many scores wherever the
    round is interrupted.
    """
    arms = np.repeat(active, pulls)
    # The pulls of each arm are numbered 0, 1, ...
    nth = np.arange(len(arms)) - np.repeat(np.cumsum(pulls) - pulls, pulls)
    examples = np.empty(len(arms), dtype=np.int64)
    observed = observed_examples(state)
    usual = (
        ~np.isin(arms, list(observed)) if observed else np.ones(len(arms), dtype=bool)
    )
    # The usual arms take the order of examples from where they stopped.
    examples[usual] = state.problem.examples.draw(
        arms[usual], (state.plan.drawn()[arms] + nth)[usual]
    )
    # Arms with observed examples skip these examples.
    for arm, seen in observed.items():
        mine = arms == arm
        n_mine = int(mine.sum())
        examples[mine] = list(islice(examples_left(state.problem, seen), n_mine))
    order = np.argsort(nth, kind="stable")
    return arms[order], examples[order]


def _leave(
    state: State, departures: tuple[events.Departure, ...], round_: int
) -> State:
    """The state without the departing arms, whose planned evaluations are dropped."""
    if not departures:
        return state
    left = state.left
    for departure in departures:
        left = left.set(departure.arm, (round_, departure))
    gone = {departure.arm for departure in departures}
    return state._replace(left=left, plan=state.plan.without(gone))


def _next_example(state: State, arm: int) -> Pull | None:
    """The next evaluation of an arm, on an example that it has not drawn yet. None if no evaluation is left.

    None, too, if the method plans its own cells, since it then also plans what replaces
    them.
    """
    is_explicit = state.growth.reopened or (
        bool(state.decisions) and state.decisions[-1][1].plan is not None
    )
    if is_explicit or state.missing.have_exhausted(arm, state.history):
        return None
    observed = observed_examples(state, arm).get(arm)
    # With observed examples, the number of draws is no place in the order any more. So
    # the used and the planned examples are counted one by one.
    if observed is not None:
        observed.update(state.plan.examples_ahead(arm))
        free = next(examples_left(state.problem, observed), None)
        return None if free is None else Pull(None, arm, free)
    nth = int(state.plan.draws[arm]) + state.plan.redraws.get(arm, 0)
    if (
        state.problem.examples.most_pulls is not None
        and nth >= state.problem.examples.most_pulls
    ):
        return None
    example = int(state.problem.examples.draw(np.array([arm]), np.array([nth]))[0])
    return Pull(None, arm, None if example < 0 else example)
