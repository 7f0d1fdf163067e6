"""Budgets of cost: never exceeded, cheap prompts first where they tell as much, exact resume."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell import (
    BestFeasible,
    Budget,
    IncompatibleMethodError,
    InvalidArgumentError,
    ParetoSet,
    Selector,
    Study,
    Trial,
)
from asktell.record import Asked, Failed, Released, State, Told, apply, initial
from asktell.record.costs import Costs
from asktell.studies.storages.memory import MemoryStorage
from tests.plays import play

BEST = BestFeasible("a", subject_to={"b": 0.5})
PARETO = ParetoSet("a", "b")


def prompts(k: int) -> list[str]:
    return [f"p{i}" for i in range(k)]


def committed(s: Selector, ceiling: float | None) -> float:
    """What was told and what is reserved for the trials out."""
    costs = s.state.costs
    out = [pull.arm for pull in s.state.pending.values()]
    return s.state.costs.total + sum(
        costs.reserve(arm) if ceiling is None else ceiling for arm in out
    )


def test_expected_costs_by_hand() -> None:
    costs = Costs().plus(0, 1.0).plus(0, 2.0).plus(1, 9.0).plus(2, None)
    assert costs.pool == (3, 12.0, 9.0)
    assert costs.expected(0) == pytest.approx((3 + 4) / 3)
    assert costs.expected(1) == pytest.approx((9 + 4) / 2)
    assert costs.expected_all(4).tolist() == pytest.approx([7 / 3, 13 / 2, 4.0, 4.0])
    assert costs.reserve(0) == pytest.approx(7 / 3)  # more than it has ever cost
    assert costs.reserve(1) == 9.0  # the most that it has cost
    assert costs.reserve(3) == 9.0  # the most that any has cost
    assert (
        Costs().expected_all(2).tolist()
        == Costs().plus(0, 0.0).expected_all(2).tolist()
        == [1.0, 1.0]
    )


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-51])
@pytest.mark.parametrize("kind", ["selector", "study"])
def test_a_cost_next_to_nothing_is_free_and_the_selection_goes_on(
    kind: str, tiny: float
) -> None:
    """Divided by it, a gain would be infinite."""
    selector = Selector(prompts(3), PARETO, Budget(20, cost=1.0), examples=9)
    s: Any = (
        selector if kind == "selector" else Study.create(MemoryStorage(), "s", selector)
    )
    costs = itertools.cycle([tiny, tiny, tiny, 0.01])
    n = 0
    while (trial := s.ask()) is not None:
        s.tell(trial, [0.1 * (trial.id % 7), 0.5], cost=next(costs))
        n += 1
        if n == 3:
            assert s.spent_cost == 0.0
    assert n == s.spent == 20
    assert s.spent_cost == pytest.approx(0.05)


def test_a_saved_cost_next_to_nothing_is_free() -> None:
    assert Costs().plus(0, 5e-324).expected_all(2).tolist() == [1.0, 1.0]


def test_a_limit_next_to_nothing_is_refused() -> None:
    for make in (
        lambda: Budget(cost=1e-60),
        lambda: Budget(cost=1.0, max_cost_per_evaluation=1e-60),
    ):
        with pytest.raises(
            InvalidArgumentError,
            match=r"of Budget must be a number from 1e-50 to 1e\+100, got 1e-60",
        ):
            make()
    s = Selector(prompts(3), PARETO, Budget(cost=1.0), examples=9)
    with pytest.raises(
        InvalidArgumentError, match=r"cost of extend\(\) must be .* from 1e-50"
    ):
        s.extend(cost=1e-60)
    assert s.max_cost == 1.0


def test_one_trial_is_out_until_a_cost_is_known() -> None:
    s = Selector(prompts(5), PARETO, Budget(cost=10), examples=9)
    first = s.ask(4)
    assert len(first) == 1
    assert s.ask() is None
    assert not s.done
    s.fail(first[0], "no answer")  # at no cost: nothing is known yet
    second = s.ask(4)
    assert len(second) == 1
    s.tell(second[0], [0.5, 0.5], cost=2.0)
    # 2 of 10 are spent, and the most that a trial has cost is 2
    assert len(s.ask(9)) == 4


def test_with_a_ceiling_many_may_be_out_at_once() -> None:
    s = Selector(
        prompts(5), PARETO, Budget(cost=10, max_cost_per_evaluation=3), examples=9
    )
    out = s.ask(9)
    assert len(out) == 3
    s.tell(out[0], [0.5, 0.5], cost=1.0)
    assert len(s.ask(9)) == 1  # 1 told, 6 reserved


def test_evaluations_and_cost_both_bind() -> None:
    for limit, spent in (
        (Budget(evaluations=4, cost=100), 4),
        (Budget(evaluations=50, cost=7), 7),
    ):
        s = Selector(prompts(3), PARETO, limit, examples=20)
        play(s, lambda _: [0.5, 0.5], cost=1.0)
        assert (s.spent, s.done) == (spent, True)
        assert s.result().spent_cost == spent


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    k=st.integers(1, 7),
    n=st.sampled_from([None, 1, 6, 30]),
    limit=st.floats(0.5, 30),
    ceiling=st.booleans(),
    evaluations=st.none() | st.integers(1, 40),
    goal=st.sampled_from([BEST, PARETO]),
)
def test_the_budget_is_never_exceeded_in_any_order(
    seed: int,
    k: int,
    n: int | None,
    limit: float,
    ceiling: bool,
    evaluations: int | None,
    goal: Any,
) -> None:
    rng = random.Random(seed)
    most = 2.0 if ceiling else None
    if most is not None and most > limit:
        limit = most
    s = Selector(
        prompts(k), goal, Budget(evaluations, limit, most), examples=n, seed=seed
    )
    out: list[Trial] = []
    surprise, reserved = 0.0, dict[int, float]()
    for _ in range(2000):
        if s.done and not out:
            break
        trials = s.ask(rng.randint(1, 4))
        out += trials
        if trials:
            known = s.state.costs.pool.n > 0
            assert (
                committed(s, most) <= limit * (1 + 1e-12)
                if known or most
                else len(out) == 1
            )
            surprise = 0.0
            reserved = {
                t.id: s.state.costs.reserve(int(t.prompt_id)) if known else 0.0
                for t in out
            }
        if not out:
            continue
        trial = out.pop(rng.randrange(len(out)))
        cost = rng.choice([0.1, 0.5, 2.0]) * rng.random()
        chance = rng.random()
        if chance < 0.75:
            s.tell(trial, [rng.random(), rng.random()], cost=cost)
        elif chance < 0.9:
            s.fail(trial, "boom", cost=cost)
        else:
            s.release(trial)
            continue
        surprise += max(0.0, cost - reserved[trial.id])
        if rng.random() < 0.1:
            s = Selector.from_json(s.to_json())
    assert s.done
    assert not s.pending
    result = s.result()
    assert result.spent_cost <= limit * (1 + 1e-12) + (
        0.0 if most is not None else surprise
    )
    assert evaluations is None or s.spent <= evaluations
    assert result.max_cost == limit
    assert result.to_dict()["max_cost"] == limit


def fits_by_summing(state: State, arm: int) -> bool:
    """As the docstring of `Budget` says, of everything that is out."""
    problem, costs = state.problem, state.costs
    assert problem.max_cost is not None
    most = problem.max_cost_per_evaluation
    if most is None and not costs.pool.n:
        return not state.pending
    arms = [arm, *(pull.arm for pull in state.pending.values())]
    return (
        state.costs.total
        + (sum(map(costs.reserve, arms)) if most is None else most * len(arms))
        <= problem.max_cost
    )


COSTS = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 1e-100, 1e100]), st.floats(0, 2)
)


@settings(deadline=None)
@given(
    limit=st.sampled_from([0.3, 0.7, 1.0, 3.0, 1e100]) | st.floats(0.01, 30),
    ceiling=st.sampled_from([None, 0.1, 0.3]),
    steps=st.lists(
        st.tuples(st.sampled_from("aatfrr"), st.integers(0, 99), st.none() | COSTS),
        max_size=60,
    ),
)
def test_what_fits_is_what_the_sum_over_all_that_is_out_says(
    limit: float, ceiling: float | None, steps: list[tuple[str, int, float | None]]
) -> None:
    budget = Budget(
        cost=limit,
        max_cost_per_evaluation=ceiling
        if ceiling is not None and ceiling <= limit
        else None,
    )
    state = initial(
        Selector(
            prompts(4), BEST, budget, examples=30, max_failure_rate=1
        ).state.problem
    )
    plan = state.plan.of_cells([(i % 4, i // 4) for i in range(60)], state.fits)
    state = state._replace(plan=plan)
    for kind, number, cost in steps:
        out = sorted(state.pending) or sorted(
            p.trial for p in state.plan.returned if p.trial is not None
        )
        pull = state.plan.next()
        if kind == "a" and pull is not None:
            trial = state.plan.asked if pull.trial is None else pull.trial
            state = apply(state, Asked(trial, pull.arm, pull.example))
        elif out:
            trial = out[number % len(out)]
            events = {
                "t": Told(trial, (0.5, 0.5), cost),
                "f": Failed(trial, "no", cost),
                "r": Released(trial),
            }
            if kind in "tf" or (kind == "r" and trial in state.pending):
                state = apply(state, events[kind])
        for arm in range(4):
            assert state.fits(arm) == fits_by_summing(state, arm)


def test_what_is_out_is_added_up_once_for_many_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s = Selector(prompts(50), BEST, Budget(cost=1e6), examples=100)
    s.tell(s.ask() or "", [0.5, 0.5], cost=1.0)
    calls = 0
    reserve = Costs.reserve

    def counted(costs: Costs, arm: int) -> float:
        nonlocal calls
        calls += 1
        return reserve(costs, arm)

    monkeypatch.setattr(Costs, "reserve", counted)
    asked = len(s.ask(1000))
    assert asked >= 500
    assert calls < 5 * asked


def test_alone_and_without_surprises_it_keeps_to_the_cost_and_spends_it() -> None:
    price = [0.5, 1.0, 2.0, 4.0]
    rng = np.random.default_rng(0)
    s = Selector(prompts(4), PARETO, Budget(cost=40), examples=100)
    while trial := s.ask():
        s.tell(trial, rng.random(2).tolist(), cost=price[int(trial.prompt_id)])
    assert 40 - min(price) - 0.5 < s.result().spent_cost <= 40
    pulls = [entry.evaluations for entry in s.result().prompts]
    # The scores say nothing; the cheap prompt is evaluated more
    assert pulls[0] > pulls[3]


def test_what_is_planned_and_too_dear_by_now_makes_room_for_cheaper_prompts() -> None:
    s = Selector(prompts(2), PARETO, Budget(cost=30), examples=50)
    while trial := s.ask():
        s.tell(
            trial,
            [0.5 + 0.1 * (trial.example or 0) % 1, 0.5],
            cost=8.0 if trial.prompt_id == 0 else 1.0,
        )
    dear, cheap = s.result().prompts
    assert dear.evaluations <= 3
    assert cheap.evaluations >= 5
    # What is left would pay for no cheap pull, as far as is known
    assert 30 - 1 - 8 / 3 < s.result().spent_cost <= 30


def test_a_missing_cost_is_an_error_that_loses_nothing() -> None:
    s = Selector(prompts(2), PARETO, Budget(cost=5), examples=4)
    trial = s.ask()
    before = s.to_json()
    with pytest.raises(InvalidArgumentError, match=r"tell\(trial, scores, cost=...\)"):
        s.tell(trial, [0.1, 0.2])
    assert s.to_json() == before
    s.tell(trial, [0.1, 0.2], cost=0)


def test_the_result_says_what_was_spent() -> None:
    s = Selector(prompts(2), PARETO, Budget(cost=5), examples=4)
    trial = s.ask()
    s.tell(trial, [0.1, 0.2], cost=1.25)
    assert "1 of 8 evaluations and a cost of 1.25 of 5 spent" in str(s.result())
    endless = Selector(prompts(2), PARETO, Budget(cost=5))
    assert "0 evaluations and a cost of 0 of 5 spent" in str(endless.result())
    assert (s.max_cost, s.budget, s.result().max_cost) == (5.0, 8, 5.0)
    plain = Selector(prompts(2), PARETO, 6)
    assert plain.max_cost is None
    assert Selector(prompts(2), PARETO, Budget(6)).to_json() == plain.to_json()


@pytest.mark.parametrize(
    "method",
    [name for name in asktell.METHODS if name not in ("auto", "race", "lcsh", "gege")],
)
def test_methods_with_rounds_refuse_a_cost(method: str) -> None:
    for goal in (BEST, PARETO):
        with pytest.raises(IncompatibleMethodError):
            Selector(prompts(3), goal, Budget(cost=5), method, examples=4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"evaluations": 0},
        {"evaluations": 2.5},
        {"cost": 0},
        {"cost": -1.0},
        {"cost": float("nan")},
        {"cost": float("inf")},
        {"cost": "5"},
        {"cost": True},
        {"evaluations": 5, "max_cost_per_evaluation": 1.0},
        {"cost": 5, "max_cost_per_evaluation": 6.0},
    ],
)
def test_budgets_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        Budget(**options)


@pytest.mark.parametrize(
    "costs",
    [
        {"all": [1, 2.0], "arms": []},
        {"all": [1, -2.0, 1.0], "arms": []},
        [],
        {"arms": 1},
    ],
)
def test_malformed_costs_are_refused(costs: Any) -> None:

    s = Selector(prompts(2), PARETO, Budget(cost=5), examples=4)
    trial = s.ask()
    s.tell(trial, [0.1, 0.2], cost=1.25)
    data = json.loads(s.to_json())
    data["state"]["costs"] = costs
    with pytest.raises(asktell.InvalidStateError):
        Selector.from_json(json.dumps(data))


def test_run_takes_the_cost_from_the_scores(tmp_path: Path) -> None:
    def evaluate(prompt: str, example: int) -> dict[str, float]:
        return {"a": len(prompt) / 9, "cost": 0.25}

    for goal in (BestFeasible("a"), ParetoSet("a", asktell.minimize("cost"))):
        s = Selector(["x", "yy", "zzz"], goal, Budget(cost=2), examples=10)
        result = asktell.run(s, evaluate, progress=False)
        assert (result.spent, result.spent_cost, result.done) == (8, 2.0, True)
