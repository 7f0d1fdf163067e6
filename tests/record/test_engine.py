"""An engine, as a study uses it. The tests of Selector and Study test everything else."""

from typing import Any

import pytest

from asktell import BestFeasible, Selector
from asktell.methods import Adaptive
from asktell.record import Engine
from asktell.selector import selector_of


def test_an_engine_goes_back_and_its_events_make_the_same_engine() -> None:
    selector, events = Selector(["a"], BestFeasible("q"), 9, examples=9), list[Any]()
    engine = Engine(selector.prompts, selector.method, selector.state, events.append)
    copied = engine.at(engine.state)
    engine.tell(engine.ask(1)[0], 1.0, None)
    before = engine.state
    engine.add(["b"])
    engine.go_to(before)
    events.pop()
    engine.add(["c"])
    assert list(engine.prompts.texts) == ["a", "c"]
    for event in events:
        copied.replay(event)
    assert selector_of(copied).to_json() == selector_of(engine).to_json()


def test_a_decision_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    selector, states = Selector(["a"], BestFeasible("q"), 9, examples=9), list[Any]()
    engine = Engine(selector.prompts, selector.method, selector.state)
    decide = Adaptive.decide
    monkeypatch.setattr(
        Adaptive,
        "decide",
        lambda self, state: states.append(state) or decide(self, state),
    )
    assert engine.due() is engine.at(engine.state).due()
    assert engine.ask(1)
    assert len(states) == 1
