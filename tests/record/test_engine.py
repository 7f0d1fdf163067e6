"""An engine, as a study uses it. The tests of Selector and Study test everything else."""

from typing import Any

from asktell import BestFeasible, Selector
from asktell.record import Engine
from asktell.selector import selector_of


def test_an_engine_goes_back_and_its_events_make_the_same_engine() -> None:
    selector, events = Selector(["a"], BestFeasible("q"), 9, examples=9), list[Any]()
    engine = Engine(selector.prompts, selector.method, selector.state, events.append)
    due, copied = engine.next_decision(), engine.at(engine.state)
    for trial in engine.ask(3):
        engine.tell(trial, 1.0, None)
    assert events[0] is due is copied.next_decision()  # computed once
    before = engine.state
    engine.add(["b"])
    engine.go_to(before)
    events.pop()
    engine.add(["c"])
    assert list(engine.prompts.texts) == ["a", "c"]
    for event in events:
        copied.replay(event)
    assert selector_of(copied).to_json() == selector_of(engine).to_json()
