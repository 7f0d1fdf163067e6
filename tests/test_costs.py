"""One check of a cost, wherever it comes from: `tell`, `fail`, `observe`, an exception or an evaluator's scores."""

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, Budget, InvalidArgumentError, Selector, Study
from asktell.studies.storages.memory import MemoryStorage


class Tensor:
    """A number without dimensions, as in torch: it is no `numbers.Real`."""

    def __repr__(self) -> str:  # the same in every process, as it names a test
        return "Tensor()"

    shape = ()

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value

    def __float__(self) -> float:
        return float(self.value)


QUARTERS = [
    0.25,
    Decimal("0.25"),
    Fraction(1, 4),
    np.float32(0.25),
    np.float16(0.25),
    np.array(0.25),
    np.array([0.25]),
    Tensor(0.25),
]
UNKNOWN = [None, math.nan, np.nan, Decimal("nan"), np.array(math.nan), Tensor(math.nan)]
WRONG = [
    (-0.25, "at least 0"),
    (Decimal(-1), "at least 0"),
    (True, "number of at least 0, got True"),
    (np.True_, "number of at least 0"),
    (Tensor(False), "number of at least 0"),
    (math.inf, "at most 1e"),
    (1e200, "at most 1e"),
    (10**400, "number of at least 0"),
    ("0.25", r"Convert text with float\(\)"),
    (b"1", r"Convert text with float\(\)"),
    (1j, "complex"),
    (np.array([0.25, 0.5]), "ndarray"),
    (np.timedelta64(3, "s"), "timedelta64"),
    (datetime.timedelta(seconds=3), "timedelta"),
    ([0.25], "list"),
    ({}, "dict"),
]


class Billed(Exception):
    cost: Any = None


MONEY = Budget(cost=5.0)


def new(budget: Any = MONEY) -> Selector:
    return Selector(["p0", "p1", "p2"], BestFeasible("a"), budget, examples=40)


def selections(budget: Any = MONEY) -> list[Any]:
    return [new(budget), Study.create(MemoryStorage(), "s", new(budget))]


def billed(cost: Any) -> Billed:
    error = Billed("cut off")
    error.cost = cost
    return error


@pytest.mark.parametrize("cost", QUARTERS, ids=repr)
def test_every_real_number_is_a_cost(cost: Any) -> None:
    for selection in selections():
        selection.tell(selection.ask(), 1.0, cost)
        selection.fail(selection.ask(), "down", cost)
        selection.observe("p1", 1.0, 39, cost)
        selection.tell_many([(selection.ask(), 1.0, cost)])
        assert selection.spent_cost == 1.0
        assert type(selection.spent_cost) is float

    class Half:
        n = 0

        def __call__(self, prompt: str, example: int) -> dict[str, Any]:
            self.n += 1
            if self.n % 2:
                raise billed(cost)
            return {"a": 0.5, "cost": cost}

    for selection in selections():
        evaluate = Half()
        asktell.run(selection, evaluate, progress=False)
        assert selection.spent_cost == 0.25 * evaluate.n == 5.0


@pytest.mark.parametrize("cost", UNKNOWN, ids=repr)
def test_an_unknown_cost_is_none_unless_the_budget_is_a_cost(cost: Any) -> None:
    for selection in selections(10):
        selection.tell(selection.ask(), 1.0, cost)
        selection.fail(selection.ask(), "down", cost)
        asktell.run(selection, lambda p, e: {"a": 1.0, "cost": cost}, progress=False)
        assert (selection.spent, selection.spent_cost) == (10, 0.0)
        with pytest.raises(asktell.InvalidScoresError):
            selection.observe("p1", None, 3, cost)
    for selection in selections():
        with pytest.raises(InvalidArgumentError, match="but the budget is a cost of 5"):
            selection.tell(trial := selection.ask(), 1.0, cost)
        selection.release(trial)
        with pytest.raises(asktell.EvaluatorError, match="the budget is a cost of 5"):
            asktell.run(
                selection, lambda p, e: {"a": 1.0, "cost": cost}, progress=False
            )


@pytest.mark.parametrize(("cost", "message"), WRONG, ids=lambda each: repr(each)[:20])
def test_a_wrong_cost_is_refused_and_ends_no_run(cost: Any, message: str) -> None:
    for selection in selections(12):
        trial = selection.ask()
        for call, arguments in (
            (selection.tell, (trial, 1.0, cost)),
            (selection.fail, (trial, "down", cost)),
            (selection.observe, ("p1", 1.0, 3, cost)),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                call(*arguments)
        assert selection.pending == [trial]
        assert selection.spent_cost == 0
        selection.release(trial)

        calls = []

        def evaluate(prompt: str, example: int, calls: list[int] = calls) -> Any:
            calls.append(example)
            if len(calls) == 2:
                raise billed(cost)
            return {"a": 1.0, "cost": cost if len(calls) == 4 else 0.5}

        result = asktell.run(selection, evaluate, progress=False)
        assert (result.spent, result.spent_cost) == (12, 6.0)
        reasons = [group.reason for group in result.failures]
        assert len(reasons) == 2
        assert any("Billed: cut off (Its cost was not" in reason for reason in reasons)


def test_a_cost_that_is_a_metric_may_be_anything_that_is_a_score() -> None:
    selector = Selector(
        ["p0", "p1"], BestFeasible(asktell.minimize("cost")), 4, examples=4
    )
    asktell.run(selector, lambda p, e: {"cost": -1.0}, progress=False)
    assert (selector.spent, selector.spent_cost) == (4, 0.0)


def test_an_evaluation_that_became_too_expensive_does_not_block_the_others() -> None:
    """Found by `benchmarks.attack plays --seed 5148`: the selection ended, although b could still be paid."""
    budget = Budget(evaluations=6, cost=100.0)
    selector = Selector(["a", "b"], BestFeasible("x"), budget, examples=9, seed=2)
    selector.tell(selector.ask(), 0.5, cost=1.0)
    trials = selector.ask(5)
    dear, again = (trial for trial in trials if trial.prompt == "a")
    cheap, *others, last = (trial for trial in trials if trial.prompt == "b")
    selector.tell(dear, 0.5, cost=60.0)
    for trial in (cheap, *others):
        selector.tell(trial, 0.5, cost=1.0)
    # Another evaluation of a may cost 60 again
    selector.release(again)
    selector.release(last)
    assert selector.ask() == last
    selector.tell(last, 0.5, cost=1.0)
    # The evaluation of a is left to b
    freed = selector.ask()
    assert freed.prompt == "b"
    selector.tell(freed, 0.5, cost=1.0)
    assert selector.ask() is None
    assert selector.done
    assert selector.spent == 6
