"""The state of a selection: facts, folded.

`apply(state, event)` is the bookkeeping, `decide(method, state)` the numerics. Everything here is an immutable value,
and every function is pure: no clock, no I/O, no random state. An event is data; a decision is an event too, recorded
when it is made and never computed again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from immutables import Map

from asktell.budget import Costs
from asktell.estimators.base import Tally
from asktell.features import rank
from asktell.goals import Goal
from asktell.numerics import counters
from asktell.numerics.arrays import Counts, Features, Indices, Means
from asktell.state.history import History
from asktell.state.queue import Pull, Queue

ACTIVE, ACCEPTED, REJECTED, FAILED = "active", "accepted", "rejected", "failed"
SAMPLINGS = ("shared", "iid")


@dataclass(frozen=True, eq=False)
class Problem:
    """What is known before the first pull.

    With `sampling="shared"` the t-th pull of every prompt takes the t-th example of one seeded order, without
    replacement; with "iid" every pull draws its own. `n_examples` None: the evaluator draws examples itself.
    `budget` counts evaluations; `max_cost` and `max_cost_per_evaluation` are those of `asktell.Budget`.
    """

    n_arms: int
    goal: Goal
    budget: int
    n_examples: int | None = None
    features: Features | None = None
    seed: int = 0
    sampling: str = "shared"
    max_failures: int = 3
    max_cost: float | None = None
    max_cost_per_evaluation: float | None = None
    order: Indices = field(init=False)

    def __post_init__(self) -> None:
        """Draw the shared order of the examples."""
        order = counters.permutation(self.seed, "example order", self.n_examples or 0)
        object.__setattr__(self, "order", order)

    @property
    def population(self) -> int | None:
        """How many distinct pulls an arm has, None for any number."""
        return self.n_examples if self.sampling == "shared" else None

    @cached_property
    def place(self) -> Indices:
        """(N,) where each example stands in the shared order."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(place))
        return place

    @cached_property
    def feature_rank(self) -> int | None:
        """Rank of the features of all arms, whatever their units; None without features."""
        return None if self.features is None else rank(self.features)

    def draw(self, arms: Indices, nth: Indices) -> Indices:
        """The example of the `nth` draw (from 0) of each of the `arms`; -1 without examples."""
        if self.n_examples is None:
            return np.full(len(arms), -1, dtype=np.int64)
        if self.sampling == "shared":
            return self.order[nth]
        return counters.integers(self.seed, "example", self.n_examples, arms, nth)


class Asked(NamedTuple):
    """A pull was handed out."""

    trial: int
    arm: int
    example: int | None


class Told(NamedTuple):
    """Scores of a trial, in the goal's order and metric units."""

    trial: int
    scores: tuple[float, ...]
    cost: float | None = None


class Released(NamedTuple):
    """A trial was handed back unevaluated; it will be asked again under the same id."""

    trial: int


class Failed(NamedTuple):
    """An evaluation failed; its arm's next example takes its place, unless the pulls were planned one by one."""

    trial: int
    reason: str
    cost: float | None = None


class Observed(NamedTuple):
    """Scores from elsewhere; they cost no budget."""

    arm: int
    example: int | None
    scores: tuple[float, ...]


class Departure(NamedTuple):
    """An arm leaves the race, with its estimate at that moment (empty where there is none)."""

    arm: int
    status: str
    reason: str
    means: tuple[float, ...] = ()
    standard_errors: tuple[float | None, ...] = ()


class Decided(NamedTuple):
    """The end of a round: who leaves and why, and the pulls of the next round.

    `pulls`: per arm that stays, ascending; one number if all have the same. `plan`: the very pulls instead, as pairs
    of arm and example (-1 for none), in the order of asking. `finished` decisions have neither but an `answer`, best
    first, and a departure for every arm that was left. `settled`: it ended before the budget, because the answer was
    certain enough.
    """

    round: int
    departures: tuple[Departure, ...] = ()
    pulls: int | tuple[int, ...] = 0
    finished: bool = False
    answer: tuple[int, ...] = ()
    plan: tuple[tuple[int, int], ...] | None = None
    settled: bool = False


Event: TypeAlias = Asked | Told | Released | Failed | Observed | Decided


class Failure(NamedTuple):
    """What failed, and why."""

    trial: int
    example: int | None
    reason: str


class State(NamedTuple):
    """Everything that follows from the events so far."""

    problem: Problem
    history: History
    pending: "Map[int, Pull]"  # by trial
    returned: Queue  # to be handed out before the rest of the plan
    plan_arms: tuple[int, ...]
    plan_examples: tuple[int, ...]  # -1: none
    position: int  # in the plan
    asked: int  # the next trial's id
    spent: int
    cost: float
    costs: Costs
    reserve: float | None  # of the trials out, under a budget of cost; None: to be added up
    left: "Map[int, tuple[int, Departure]]"  # by arm: the round in which it left, and how
    failures: "Map[int, tuple[Failure, ...]]"  # by arm
    draws: Counts  # (K,) examples drawn by the end of the plan
    redraws: "Map[int, int]"  # arm to draws beyond the plan, that replace failed ones
    tally: Tally  # of the rows up to the last decision
    tallied: int  # how many rows that is
    decisions: tuple[tuple[int, Decided], ...]  # with the number of rows each was based on

    @property
    def active(self) -> Indices:
        """(A,) arms still in the race, ascending."""
        mask = np.ones(self.problem.n_arms, dtype=bool)
        mask[list(self.left)] = False
        return np.flatnonzero(mask)

    @property
    def finished(self) -> bool:
        """Whether the last decision has been made."""
        return bool(self.decisions) and self.decisions[-1][1].finished

    @property
    def is_explicit(self) -> bool:
        """Whether the last decision planned its pulls one by one, so that nothing else takes their place."""
        return bool(self.decisions) and self.decisions[-1][1].plan is not None

    @property
    def plan_is_empty(self) -> bool:
        """Whether nothing is left to hand out before the next decision."""
        return self.position == len(self.plan_arms) and not self.returned

    @property
    def may_decide(self) -> bool:
        """Whether a decision can come next: nothing is left to hand out, or what is left may cost too much by now."""
        return not self.finished and (self.plan_is_empty or (self.problem.max_cost is not None and not self.pending))

    def fits(self, arm: int) -> bool:
        """Whether the cost allows one more pull of an arm, beside all that are out; see `asktell.Budget`."""
        problem, costs = self.problem, self.costs
        if problem.max_cost is None:
            return True
        most = problem.max_cost_per_evaluation
        if most is None and not costs.pool.n:
            return not self.pending
        if most is not None:
            return self.cost + most * (1 + len(self.pending)) <= problem.max_cost
        own = costs.reserve(arm)
        left = problem.max_cost - (self.cost + own + self.reserved())
        # Rounding depends on the order of summation: where it may decide, one order does.
        if abs(left) > 1e-15 * (2 + len(self.pending)) * problem.max_cost:
            return left > 0
        return self.cost + sum([own, *self._reserves()]) <= problem.max_cost

    def reserved(self) -> float:
        """What the trials out may cost, as a guess; there must be a cost."""
        return sum(self._reserves()) if self.reserve is None else self.reserve

    def _reserves(self) -> Iterator[float]:
        return (self.costs.reserve(pull.arm) for pull in self.pending.values())

    def open(self, trial: int) -> Pull | None:
        """The pull of a trial that was asked and neither told nor failed."""
        return self.pending.get(trial) or self.returned.find(trial)

    def next_pull(self) -> Pull | None:
        """What to hand out now, None if a decision or a score must come first."""
        if self.returned:
            return self.returned.front
        if self.position < len(self.plan_arms):
            example = self.plan_examples[self.position]
            return Pull(None, self.plan_arms[self.position], None if example < 0 else example)
        return None

    def current_tally(self) -> Tally:
        """Of all rows so far; of several scores of the same cell the mean, once."""
        if (merged := self._merged(0)) is not None:
            return Tally.empty(self.problem.n_arms, len(self.problem.goal.metrics)).plus(*merged)
        return self.tally.plus(*self.history.in_asked_order(self.tallied))

    def round_tally(self) -> Tally:
        """Of the rows since the last decision."""
        empty = Tally.empty(self.problem.n_arms, len(self.problem.goal.metrics))
        return empty.plus(*(self._merged(self.tallied) or self.history.in_asked_order(self.tallied)))

    def _merged(self, start: int) -> tuple[Indices, Means] | None:
        """Arms and mean scores of the cells in the rows from `start` on; None if no cell was scored twice."""
        if self.problem.population is None or len(self.history) == self.spent:  # nothing but told trials
            return None
        arms, examples, scores = self.history.arms(start), self.history.examples(start), self.history.scores(start)
        cells = np.where(examples < 0, -1 - np.arange(len(arms)), arms * self.problem.population + examples)
        _, first, cell = np.unique(cells, return_index=True, return_inverse=True)
        if len(first) == len(arms):
            return None
        sums = np.zeros((len(first), scores.shape[1]))
        np.add.at(sums, cell, scores - scores[first][cell])
        return arms[first], scores[first] + sums / np.bincount(cell)[:, None]

    def capacity(self) -> Counts:
        """(K,) examples that each arm has not drawn; practically unlimited unless they are shared."""
        population = self.problem.population
        if population is None:
            return np.full(self.problem.n_arms, np.iinfo(np.int32).max, dtype=np.int64)
        free = population - self.drawn()
        for arm, seen in _observed_examples(self).items():
            free[arm] = population - len(seen)
        return np.maximum(free, 0)

    def drawn(self) -> Counts:
        """(K,) examples that each arm has drawn, by plan or to replace a failed one."""
        drawn = self.draws.copy()
        for arm, extra in self.redraws.items():
            drawn[arm] += extra
        return drawn


class Method(Protocol):
    """What `decide` needs of a method."""

    def due(self, state: State) -> bool:
        """Whether it is time to decide."""

    def decide(self, state: State) -> Decided:
        """The decision."""


def initial(problem: Problem) -> State:
    """Nothing asked, nothing told."""
    n_metrics = len(problem.goal.metrics)
    return State(
        problem=problem,
        history=History(n_metrics),
        pending=Map(),
        returned=Queue(),
        plan_arms=(),
        plan_examples=(),
        position=0,
        asked=0,
        spent=0,
        cost=0.0,
        costs=Costs(),
        reserve=None,
        left=Map(),
        failures=Map(),
        draws=np.zeros(problem.n_arms, dtype=np.int64),
        redraws=Map(),
        tally=Tally.empty(problem.n_arms, n_metrics),
        tallied=0,
        decisions=(),
    )


def decide(method: Method, state: State) -> Decided | None:
    """The decision that is due, None if none is."""
    if state.finished or not method.due(state):
        return None
    return method.decide(state)


def apply(state: State, event: Event) -> State:
    """The state after an event. The caller has checked that the event can happen."""
    return _APPLY[type(event)](state, event)


def _asked(state: State, event: Asked) -> State:
    pull = Pull(event.trial, event.arm, event.example)
    pending = state.pending.set(event.trial, pull)
    asked = max(state.asked, event.trial + 1)
    if state.problem.max_cost is not None and state.costs.pool.n:
        # Kept from one ask to the next, until costs change: many asks at once are linear.
        state = state._replace(reserve=state.reserved() + state.costs.reserve(event.arm))
    if state.returned:
        return state._replace(pending=pending, returned=state.returned.without_front(), asked=asked)
    return state._replace(pending=pending, position=state.position + 1, asked=asked)


def _told(state: State, event: Told) -> State:
    pull, state = _close(state, event.trial)
    return state._replace(
        history=state.history.append(event.trial, pull.arm, pull.example, event.scores),
        spent=state.spent + 1,
        cost=state.cost + (event.cost or 0.0),
        costs=state.costs.plus(pull.arm, event.cost),
    )


def _released(state: State, event: Released) -> State:
    pull, state = _close(state, event.trial)
    if pull.arm in state.left:
        return state
    return state._replace(returned=state.returned.append(pull))


def _failed(state: State, event: Failed) -> State:
    pull, state = _close(state, event.trial)
    arm = pull.arm
    failures = (*state.failures.get(arm, ()), Failure(event.trial, pull.example, event.reason))
    state = state._replace(
        failures=state.failures.set(arm, failures),
        cost=state.cost + (event.cost or 0.0),
        costs=state.costs.plus(arm, event.cost),
    )
    if arm in state.left:
        return state
    if len(failures) >= state.problem.max_failures:
        reason = f"failed {len(failures)} times, last: {event.reason}"
        return _leave(state, (Departure(arm, FAILED, reason),), len(state.decisions))
    if state.is_explicit:
        return state
    replacement = _next_example(state, arm)
    if replacement is None:
        return state
    redraws = state.redraws.set(arm, state.redraws.get(arm, 0) + 1)
    return state._replace(redraws=redraws, returned=state.returned.append(replacement))


def _observed(state: State, event: Observed) -> State:
    arm, example = event.arm, event.example
    state = state._replace(history=state.history.append(None, arm, example, event.scores))
    if example is None or state.problem.population is None or arm in state.left:
        return state
    # What was planned on this example takes another one, and only what is out already stays.
    planned = zip(state.plan_arms[state.position :], state.plan_examples[state.position :], strict=True)
    i = next((i for i, cell in enumerate(planned, state.position) if cell == (arm, example)), None)
    if i is None and Pull(None, arm, example) not in state.returned:
        return state
    replacement = None if state.is_explicit else _next_example(state, arm)
    if i is None:
        returned = list(state.returned)
        i = returned.index(Pull(None, arm, example))
        returned[i : i + 1] = [] if replacement is None else [replacement]
        return state._replace(returned=Queue(returned))
    plan_arms, plan_examples = list(state.plan_arms), list(state.plan_examples)
    if replacement is None or replacement.example is None:
        del plan_arms[i], plan_examples[i]
    else:
        plan_examples[i] = replacement.example
    return state._replace(plan_arms=tuple(plan_arms), plan_examples=tuple(plan_examples))


def _decided(state: State, event: Decided) -> State:
    rows = len(state.history)
    state = state._replace(tally=state.current_tally(), tallied=rows, decisions=(*state.decisions, (rows, event)))
    state = _leave(state, event.departures, event.round)
    if event.finished:
        return state._replace(plan_arms=(), plan_examples=(), position=0, returned=Queue())
    if event.plan is not None:
        arms = np.array([arm for arm, _ in event.plan], dtype=np.int64)
        return state._replace(
            plan_arms=tuple(arms.tolist()),
            plan_examples=tuple(example for _, example in event.plan),
            position=0,
            # What does not fit into the cost any more is not handed out again.
            returned=state.returned.where(lambda pull: state.fits(pull.arm)),
            draws=state.draws + np.bincount(arms, minlength=state.problem.n_arms),
        )
    active = state.active
    pulls = np.broadcast_to(np.asarray(event.pulls, dtype=np.int64), active.shape)
    arms, examples = plan(state, active, pulls)
    drawn = state.drawn()
    drawn[active] += pulls
    return state._replace(
        plan_arms=tuple(arms.tolist()),
        plan_examples=tuple(examples.tolist()),
        position=0,
        draws=drawn,
        redraws=Map(),
    )


_APPLY: dict[type, Callable[[State, Any], State]] = {
    Asked: _asked,
    Told: _told,
    Released: _released,
    Failed: _failed,
    Observed: _observed,
    Decided: _decided,
}


def plan(state: State, active: Indices, pulls: Counts) -> tuple[Indices, Indices]:
    """Arms and examples of a round's pulls, in the order of asking: round robin, so that any cut is balanced."""
    arms = np.repeat(active, pulls)
    nth = np.arange(len(arms)) - np.repeat(np.cumsum(pulls) - pulls, pulls)  # 0, 1, ... within each arm
    examples = np.empty(len(arms), dtype=np.int64)
    observed = _observed_examples(state)
    usual = ~np.isin(arms, list(observed)) if observed else np.ones(len(arms), dtype=bool)
    examples[usual] = state.problem.draw(arms[usual], (state.drawn()[arms] + nth)[usual])
    for arm, seen in observed.items():
        mine = arms == arm
        n_mine = int(mine.sum())
        first = state.problem.order[: len(seen) + n_mine]
        examples[mine] = first[~np.isin(first, list(seen))][:n_mine]
    order = np.argsort(nth, kind="stable")
    return arms[order], examples[order]


def _leave(state: State, departures: tuple[Departure, ...], round_: int) -> State:
    if not departures:
        return state
    left = state.left
    for departure in departures:
        left = left.set(departure.arm, (round_, departure))
    gone = {departure.arm for departure in departures}
    keep = [i for i in range(state.position, len(state.plan_arms)) if state.plan_arms[i] not in gone]
    return state._replace(
        left=left,
        returned=state.returned.where(lambda pull: pull.arm not in gone),
        plan_arms=tuple(state.plan_arms[i] for i in keep),
        plan_examples=tuple(state.plan_examples[i] for i in keep),
        position=0,
    )


def _close(state: State, trial: int) -> tuple[Pull, State]:
    """Take a trial off the list of those out, or off those to be handed out again; what is out changes, or costs."""
    state = state._replace(reserve=None)
    pull = state.pending.get(trial)
    if pull is not None:
        return pull, state._replace(pending=state.pending.delete(trial))
    pull = state.returned.find(trial)
    assert pull is not None, "checked by whoever made the event"
    return pull, state._replace(returned=state.returned.without(trial))


def _next_example(state: State, arm: int) -> Pull | None:
    """A pull of the arm on the example after those it has drawn; None if it has drawn them all."""
    observed = _observed_examples(state).get(arm)
    if observed is not None:
        planned = {state.plan_examples[i] for i in range(len(state.plan_arms)) if state.plan_arms[i] == arm}
        planned |= {p.example for p in (*state.pending.values(), *state.returned) if p.arm == arm}
        free = next((j for j in map(int, state.problem.order) if j not in observed and j not in planned), None)
        return None if free is None else Pull(None, arm, free)
    nth = int(state.draws[arm]) + state.redraws.get(arm, 0)
    if state.problem.population is not None and nth >= state.problem.population:
        return None
    example = int(state.problem.draw(np.array([arm]), np.array([nth]))[0])
    return Pull(None, arm, None if example < 0 else example)


def _observed_examples(state: State) -> dict[int, set[int]]:
    """For arms with observed examples: every example they have had, by whatever way. Empty for most studies."""
    if state.problem.population is None:
        return {}
    if len(state.history) == state.spent:  # nothing but told trials
        return {}
    trials, arms, examples = state.history.trials(), state.history.arms(), state.history.examples()
    with_example = np.unique(arms[(trials < 0) & (examples >= 0)])
    had: dict[int, set[int]] = {int(arm): set(examples[arms == arm].tolist()) - {-1} for arm in with_example}
    for arm, seen in had.items():
        seen.update(f.example for f in state.failures.get(arm, ()) if f.example is not None)
        seen.update(p.example for p in state.pending.values() if p.arm == arm and p.example is not None)
        seen.update(p.example for p in state.returned if p.arm == arm and p.example is not None)
    return had
