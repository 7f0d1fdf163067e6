"""`apply` is pure: whatever happens later, an earlier state stays what it was."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell import ParetoSet, Race
from asktell.methods import preset
from asktell.problem.examples.examples import Examples
from asktell.problem.problem import Problem
from asktell.record import (
    Added,
    Asked,
    Decided,
    Departure,
    Event,
    Extended,
    Failed,
    Observed,
    Pull,
    Released,
    Retired,
    State,
    Told,
    apply,
    decision_of,
    initial,
)
from asktell.record.saved import SavedState

GOAL = ParetoSet("a", "b")
METHOD = preset("ege-sr", GOAL)


def problem(n: int = 6, sampling: str = "shared") -> Problem:
    return Problem(4, GOAL, 16, Examples(n, seed=5, sampling=sampling), seed=5)


def fingerprint(state: State) -> str:
    told = [state.history.scores_of(trial) for trial in range(40)]
    return json.dumps(
        [SavedState.dump(state), told, state.active.tolist(), state.finished]
    )


def folded(state: State, *events: Event) -> State:
    for event in events:
        state = apply(state, event)
    return state


def random_event(
    state: State, rng: random.Random, method: Any = METHOD
) -> Event | None:
    growth: list[Event] = [Retired(int(arm), "reason") for arm in state.active[:1]]
    if method is not METHOD:
        growth += [
            Added(None, (f"new {rng.random()}",)),
            Extended(evaluations=2),
            Extended(examples=1),
        ]
    if growth and rng.random() < 0.1:
        return rng.choice(growth)
    decided = decision_of(method, state)
    if decided is not None:
        return decided
    choices: list[Event] = [
        Observed(
            rng.randrange(4), rng.choice([None, 0, 5]), (rng.random(), rng.random())
        )
    ]
    pull = state.plan.next()
    if pull is not None:
        trial = state.plan.asked if pull.trial is None else pull.trial
        choices += [Asked(trial, pull.arm, pull.example)] * 4
    for trial in sorted(state.pending):
        choices += [
            Told(trial, (rng.random(), rng.random()), rng.choice([None, 0.5]))
        ] * 2
        choices += [Released(trial), Failed(trial, "boom")]
    return None if state.finished else rng.choice(choices)


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["shared", "iid"]),
    st.sampled_from([METHOD, Race(block=1)]),
)
def test_no_event_changes_an_earlier_state_even_where_histories_fork(
    seed: int, sampling: str, method: Any
) -> None:
    rng = random.Random(seed)
    states = [initial(problem(sampling=sampling))]
    seen = [fingerprint(states[0])]
    for _ in range(50):
        state = rng.choice([states[-1], states[-1], rng.choice(states)])
        event = random_event(state, rng, method)
        if event is not None:
            states.append(apply(state, event))
            seen.append(fingerprint(states[-1]))
    assert [fingerprint(state) for state in states] == seen


@given(st.integers(0, 10**6), st.sampled_from([METHOD, Race(block=1)]))
def test_the_same_events_give_the_same_state(seed: int, method: Any) -> None:
    rng = random.Random(seed)
    state, events = initial(problem()), list[Event]()
    for _ in range(40):
        event = random_event(state, rng, method)
        if event is not None:
            events.append(event)
            state = apply(state, event)
    assert fingerprint(folded(initial(problem()), *events)) == fingerprint(state)


PLANNED = Decided(0, pulls=2)


def test_a_plan_goes_round_the_arms_along_one_order_of_the_examples() -> None:
    state = folded(initial(problem()), PLANNED)
    first, second = problem().examples.order[:2].tolist()
    pulls = []
    while (pull := state.plan.next()) is not None:
        pulls.append(pull)
        state = apply(state, Asked(len(pulls) - 1, pull.arm, pull.example))
    assert pulls == [
        Pull(None, arm, example) for example in (first, second) for arm in range(4)
    ]


def test_iid_plans_draw_their_own_examples_and_none_repeats_the_shared_order() -> None:
    state = folded(initial(problem(1000, sampling="iid")), PLANNED)
    assert len(set(state.plan.examples)) == 8


def test_the_ledger() -> None:
    state = folded(initial(problem()), PLANNED)
    state = folded(state, Asked(0, 0, 3), Asked(1, 1, 3), Asked(2, 2, 3))
    assert (state.plan.asked, state.spent, sorted(state.pending)) == (3, 0, [0, 1, 2])
    state = folded(state, Told(1, (1.0, 2.0), 0.5), Told(0, (3.0, 4.0), 0.25))
    assert (
        state.plan.asked,
        state.spent,
        state.costs.total,
        sorted(state.pending),
    ) == (
        3,
        2,
        0.75,
        [2],
    )
    state = apply(state, Released(2))
    assert (sorted(state.pending), state.plan.next()) == ([], Pull(2, 2, 3))
    assert state.plan.open(2) == Pull(2, 2, 3)
    state = apply(state, Asked(2, 2, 3))
    assert (state.plan.asked, sorted(state.pending)) == (3, [2])
    state = apply(state, Failed(2, "boom"))
    assert (state.spent, state.plan.open(2), list(state.failures)) == (
        2,
        None,
        [(2, 2, 3, "boom")],
    )
    state = apply(state, Observed(3, 1, (0.0, 0.0)))
    assert (state.spent, len(state.history)) == (2, 3)


def test_a_decision_moves_arms_out_and_is_kept_with_the_rows_it_saw() -> None:
    state = folded(
        initial(problem()), Decided(0, pulls=1), Asked(0, 0, 3), Told(0, (1.0, 2.0))
    )
    departure = Departure(2, "rejected", "why", (0.5, 0.5), (None, 0.0))
    after = apply(state, Decided(1, (departure,), pulls=(3, 0, 1)))
    assert after.decisions[1] == (1, Decided(1, (departure,), pulls=(3, 0, 1)))
    assert after.left[2] == (1, departure)
    assert [after.plan.arms.count(arm) for arm in range(4)] == [3, 0, 0, 1]
    assert (after.decisions[-1][0], after.tally.counts.tolist()) == (1, [1, 0, 0, 0])
    assert state.active.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("sampling", ["shared", "iid"])
def test_capacity_counts_every_example_an_arm_has_had(sampling: str) -> None:
    state = folded(initial(problem(sampling=sampling)), PLANNED)
    if sampling == "iid":
        assert (state.capacity() > 10**6).all()
        return
    assert state.capacity().tolist() == [4, 4, 4, 4]
    pull = state.plan.next()
    state = folded(state, Asked(0, *pull[1:]), Failed(0, "boom"))
    assert state.capacity().tolist() == [3, 4, 4, 4]
