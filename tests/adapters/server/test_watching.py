"""Who works on a study, and how fast, by hand: a clock that is set, looks at chosen moments."""

from typing import Any

import pytest

from asktell import BestFeasible, Budget, Selector, Study
from asktell.studies.storages.memory import MemoryStorage
from asktell_adapters.server.watching import Watch
from tests.times import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def new(clock: Clock, budget: Any = 100) -> Study:
    return Study.create(
        MemoryStorage(clock=clock),
        "s",
        Selector(["a", "b", "c"], BestFeasible("m"), budget, examples=50),
    )


def by_name(look: dict[str, Any]) -> dict[str, Any]:
    return {worker["name"]: worker for worker in look["workers"]}


def test_who_holds_what_since_when_and_until_when(clock: Clock) -> None:
    study = new(clock)
    start = clock.time
    early = study.worker("early", lease=30).ask(2)
    watch = Watch(study)
    first = by_name(watch.look())["early"]
    assert (first["holds"], first["until"], first["seen"], first["pace"]) == (
        2,
        start + 30,
        None,
        None,
    )
    assert first["trials"] == [[t.prompt_id, t.example, 1, None] for t in sorted(early)]
    clock.time += 10
    (late,) = study.worker("late", lease=60).ask(1)
    study.ask()
    look = watch.look()
    assert len(look["workers"]) == 3
    assert by_name(look)["late"]["trials"] == [
        [late.prompt_id, late.example, 1, start + 10]
    ]
    assert (by_name(look)["late"]["seen"], by_name(look)["early"]["seen"]) == (
        start + 10,
        None,
    )
    clock.time += 10
    study.worker("early", lease=30).heartbeat()
    again = watch.look()
    assert (by_name(again)["early"]["seen"], by_name(again)["early"]["until"]) == (
        start + 20,
        start + 50,
    )
    assert by_name(again)["late"]["seen"] == start + 10
    clock.time += 1
    # Nothing has happened
    assert {**watch.look(), "now": again["now"], "pace": again["pace"]} == again
    study.worker("late").release(late)
    clock.time += 1
    assert by_name(watch.look())["late"]["holds"] == 0
    clock.time += 1000
    study.worker("early").ask(1)
    assert list(by_name(watch.look())) == ["early"]


def test_attempts_are_counted(clock: Clock) -> None:
    study = new(clock)
    study.worker("dies", lease=5).ask(1)
    clock.time += 6
    (trial,) = study.worker("lives", lease=5).ask(1)
    (worker,) = Watch(study).look()["workers"]
    assert worker["trials"] == [[trial.prompt_id, trial.example, 2, None]]


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        # 30 in a minute; 2 each
        (100, {"evaluations": 70, "cost": 140.0, "seconds": 140}),
        # 60 paid in a minute
        (Budget(cost=100.0), {"evaluations": 120, "cost": 40.0, "seconds": 40}),
        (
            Budget(cost=300.0, evaluations=40),
            {"evaluations": 10, "cost": 240.0, "seconds": 20},
        ),
    ],
)
def test_paces_and_what_is_left(
    budget: Any, left: dict[str, Any], clock: Clock
) -> None:
    study = new(clock, budget)
    watch = Watch(study)
    assert watch.look()["left"]["seconds"] is None
    for k in range(30):
        (trial,) = study.worker("fast" if k % 3 else "slow").ask(1)
        clock.time += 2
        study.worker("fast" if k % 3 else "slow").tell(trial, 0.5, 2.0)
    look = watch.look()
    assert (look["pace"], look["left"]) == (30.0, left)
    assert {name: (w["told"], w["pace"]) for name, w in by_name(look).items()} == {
        "fast": (20, 20.0),
        "slow": (10, 10.0),
    }
    clock.time += 1000
    watch.look()
    clock.time += 100
    assert watch.look()["pace"] == 0.0


def test_few_moments_are_kept_and_the_pace_is_that_of_five_minutes(
    clock: Clock,
) -> None:
    study = new(clock, 150)
    watch = Watch(study)
    for k in range(900):
        if k % 6 == 0:
            (trial,) = study.worker("w").ask(1)
            study.worker("w").tell(trial, 0.5)
        clock.time += 1
        look = watch.look()
    assert len(watch._moments) <= 33
    assert look["pace"] == pytest.approx(10.0, rel=0.05)
