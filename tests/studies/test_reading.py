"""Reading changes nothing, and all that is read is of one state."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from asktell import Adaptive, BestFeasible, Budget, ParetoSet, Selector, Study, maximize

X, Y = maximize("x", tolerance=1.0), maximize("y", tolerance=1.0)
TEXTS = ["a", "b", "c", "d"]
_numbers = itertools.count()


def told(selector: Any, n: int = 100, cost: float | None = None) -> Any:
    """Up to n trials asked and told."""
    for trial in itertools.islice(iter(selector.ask, None), n):
        selector.tell(
            trial,
            [0.1 * len(trial.prompt) + 0.2 * trial.id % 0.3] * len(selector.metrics),
            cost,
        )
    return selector


def joined(make: Callable[..., Any]) -> Any:
    study = told(make(budget=12))
    study.add(["late"])  # there is no budget for it
    return study


def extended(make: Callable[..., Any]) -> Any:
    study = told(make(budget=Budget(cost=12)), cost=1.0)
    study.extend(cost=0.5)  # that pays for nothing
    return study


def observed(make: Callable[..., Any]) -> Any:
    study = told(make(), 6)
    for arm, example in itertools.product(range(len(TEXTS)), range(5)):
        study.observe(arm, [0.5 * arm] * len(study.metrics), example)
    return study


def retired(make: Callable[..., Any]) -> Any:
    study = told(make(), 6)
    trial = study.ask()
    for arm in {*range(len(TEXTS))} - {trial.prompt_id}:
        study.retire(arm, "is out")
    study.tell(trial, [1.0] * len(study.metrics))
    return study


def settled(make: Callable[..., Any]) -> Any:
    study = make(method=Adaptive(confidence=0.6))
    for trial in study.ask(4):
        study.tell(trial, [0.5] * len(study.metrics))
    return study


def halfway(make: Callable[..., Any]) -> Any:
    return told(make(), 7)


@pytest.mark.parametrize("place", ["selector", "study"])
@pytest.mark.parametrize("goal", [BestFeasible(X), ParetoSet(X, Y)])
@pytest.mark.parametrize(
    "situation", [joined, extended, observed, retired, settled, halfway]
)
def test_reading_changes_nothing(
    situation: Callable[..., Any], goal: Any, place: str
) -> None:
    def make(budget: Any = 16, method: Any = "auto") -> Any:
        selector = Selector(TEXTS, goal, budget, method, examples=5)
        return (
            selector
            if place == "selector"
            else Study.create(f"memory://{next(_numbers)}", "s", selector)
        )

    study = situation(make)
    before = study.result().to_dict()
    n_active = study.n_active
    done = study.done
    assert study.result().to_dict() == before
    assert (
        (study.done, study.n_active)
        == (done, n_active)
        == (before["done"], study.n_active)
    )
    assert n_active == sum(entry["status"] == "active" for entry in before["prompts"])
    saved = study.to_json() if place == "selector" else study.selector.to_json()
    assert Selector.from_json(saved).result().to_dict() == before
    trial = study.ask()
    assert (trial is None) == done
    if done:
        assert study.result().to_dict() == before
