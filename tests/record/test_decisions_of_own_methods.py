"""A method of one's own may be wrong. What it plans is refused before anything is recorded or paid for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, Budget, Selector, Study
from asktell.extend import AbstractMethod, State, events


class Wrong(AbstractMethod):
    """Returns the decision that it got, and selects the first prompt."""

    def __init__(self, *decisions: events.Decided) -> None:
        self._decisions = decisions

    def decide(self, state: State) -> events.Decided:
        return self._decisions[len(state.decisions)]

    def answer(self, state: State) -> list[int]:
        return [0]


def departure(arm: Any) -> events.Departure:
    return events.Departure(arm, False, "wrong", (), ())


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        (events.Decided(0, pulls=9), "plans 27 evaluations, more than the budget"),
        (events.Decided(5, pulls=1), "Decision 5 is not due after 0 decisions"),
        (events.Decided(0, pulls=-1), "The number of evaluations must be .* got -1"),
        (events.Decided(0, pulls=(1, 99, 1)), "must be .* from 0 to 12, got 99"),
        (events.Decided(0, plan=((3, 0),)), "An arm must be .* from 0 to 2, got 3"),
        (events.Decided(0, plan=((0, 9),)), "An example must be .* got 9"),
        (events.Decided(0, (departure(7),), pulls=1), "An arm must be .* got 7"),
        (events.Decided(0, finished=True, answer=(8,)), "An arm must be .* got 8"),
        (
            events.Decided(0, plan=((np.int64(1), 0),)),
            r"An arm must be an int of Python, got .*1.* Pass int",
        ),
    ],
)
def test_a_wrong_decision_changes_nothing(
    decided: events.Decided, message: str, tmp_path: Path
) -> None:
    method = Wrong(decided)
    selector = Selector(["a", "b", "c"], BestFeasible("q"), 12, method, examples=5)
    before = selector.state
    with pytest.raises(asktell.InvalidStateError, match=f"Wrong.decide .*{message}"):
        selector.ask()
    assert selector.state is before
    again = Selector.from_json(selector.to_json(), method=method)
    with (
        Study.create(tmp_path / "s.db", "s", again) as study,
        pytest.raises(asktell.InvalidStateError, match=r"Wrong\.decide"),
    ):
        study.ask()
    with Study.open(tmp_path / "s.db", "s", method=method) as study:
        assert study.spent == 0


def test_scores_stay_if_the_next_decision_is_wrong() -> None:
    method = Wrong(events.Decided(0, plan=((0, 0),)), events.Decided(1, pulls=99))
    selector = Selector(["a", "b"], BestFeasible("q"), 12, method, examples=5)
    trial = selector.ask()
    assert trial is not None
    with pytest.raises(asktell.InvalidStateError, match=r"Wrong\.decide"):
        selector.tell(trial, 1.0)
    assert selector.spent == 1
    assert Selector.from_json(selector.to_json(), method=method).spent == 1


class NoRetiring(Wrong):
    """Does not support that prompts are retired."""

    def check_growth(self, event: events.Growth) -> None:
        if isinstance(event, events.Retired):
            raise asktell.IncompatibleMethodError("NoRetiring keeps every prompt.")


def test_a_method_may_refuse_to_retire(tmp_path: Path) -> None:
    method = NoRetiring(events.Decided(0, pulls=1))
    selector = Selector(["a", "b"], BestFeasible("q"), 12, method, examples=5)
    with pytest.raises(asktell.IncompatibleMethodError, match="keeps every prompt"):
        selector.retire("a", "old")
    assert selector.n_active == 2
    with (
        Study.create(tmp_path / "s.db", "s", selector) as study,
        pytest.raises(asktell.IncompatibleMethodError, match="keeps every"),
    ):
        study.retire("a", "old")


class OnePass(Wrong):
    """One evaluation of every prompt, then the first. `due` is the default."""

    def __init__(self) -> None:
        self._decisions = ()

    def decide(self, state: State) -> events.Decided:
        number = len(state.decisions)
        if not number:
            return events.Decided(0, pulls=3)
        gone = tuple(departure(arm) for arm in state.active.tolist() if arm)
        gone += (events.Departure(0, True, "first", (), ()),)
        return events.Decided(number, gone, finished=True, answer=(0,))


def test_a_method_ends_when_its_plan_becomes_too_expensive() -> None:
    selector = Selector(
        ["a", "b"], BestFeasible("q"), Budget(12, cost=1.0), OnePass(), examples=5
    )
    n = 0
    while trial := selector.ask():
        selector.tell(trial, 1.0, cost=0.4)
        n += 1
    assert n == 2
    assert selector.done


def test_a_plan_leaves_room_for_the_trials_that_were_returned() -> None:
    first = events.Decided(0, plan=((0, 0), (1, 0), (0, 1), (1, 1)))
    # Two of four evaluations are left, and the trial that "b" has returned is one
    too_many = events.Decided(1, plan=((1, 2), (1, 3)))
    method, budget = Wrong(first, too_many), Budget(4, cost=7.0)
    selector = Selector(["a", "b"], BestFeasible("q"), budget, method, examples=5)
    for cost in (3.0, 0.1):
        trial = selector.ask()
        assert trial is not None
        selector.tell(trial, 1.0, cost=cost)
    returned = [selector.ask(), selector.ask()]
    for trial in returned:
        assert trial is not None
        selector.release(trial)
    # Now the first of the two is too expensive. A plan drops it, and keeps the other
    selector.observe("a", None, cost=1.0)
    with pytest.raises(asktell.InvalidStateError, match="plans 2 evaluations, more"):
        selector.ask()
    last = events.Decided(2, finished=True, answer=(1,))
    method._decisions = (first, events.Decided(1, plan=((1, 2),)), last)
    while trial := selector.ask():
        selector.tell(trial, 1.0, cost=0.01)
    assert (selector.spent, selector.done) == (4, True)
