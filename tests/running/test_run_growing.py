"""A run goes on while prompts join: from on_tell, from another thread, from another process's study."""

import threading
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study
from asktell.studies.storages.memory import MemoryStorage


def evaluate(prompt: str, example: int | None) -> dict[str, float]:
    return {"a": len(prompt) + 0.1 * (example or 0)}


@pytest.mark.parametrize("kind", ["selector", "study"])
@pytest.mark.parametrize("how", ["here", "async"])
def test_on_tell_may_let_prompts_join(kind: str, how: str) -> None:
    selector: Any = Selector(["a", "bb"], BestFeasible("a"), 6, examples=10)
    if kind == "study":
        selector = Study.create(MemoryStorage(), "s", selector)
    told = 0

    def on_tell(running: Any, trial: asktell.Trial) -> None:
        nonlocal told
        told += 1
        if told in (6, 9):  # with the last evaluation there was
            running.add([f"number {told}"])
            running.extend(evaluations=3)

    async def evaluate_async(prompt: str, example: int | None) -> dict[str, float]:
        return evaluate(prompt, example)

    call = evaluate if how == "here" else evaluate_async
    result = asktell.run(selector, call, progress=False, on_tell=on_tell)
    assert (result.spent, result.done) == (12, True)
    assert all(entry.evaluations for entry in result.prompts)
    assert len(result.prompts) == 4


def test_another_may_let_prompts_join_while_it_runs() -> None:
    storage = MemoryStorage()
    study = Study.create(
        storage, "s", Selector(["a", "bb"], BestFeasible("a"), 6, examples=10)
    )
    began, added = threading.Event(), threading.Event()

    def slow(prompt: str, example: int | None) -> dict[str, float]:
        began.set()
        assert added.wait(60)
        return evaluate(prompt, example)

    def other() -> None:
        began.wait(60)
        mine = Study.open(storage, "s")
        mine.add(["a much longer one"])
        mine.extend(evaluations=4)
        added.set()

    thread = threading.Thread(target=other)
    thread.start()
    result = asktell.run(study, slow, progress=False)
    thread.join()
    assert (result.spent, result.budget) == (10, 10)
    assert result.selected[0].prompt == "a much longer one"


def test_the_bar_follows_the_budget(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from asktell.running import progress

    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LOOKS", -1.0)
    selector = Selector(["a", "bb"], BestFeasible("a"), 4, examples=10)

    def on_tell(running: Any, trial: asktell.Trial) -> None:
        if running.budget == 4:
            running.extend(evaluations=5)

    asktell.run(selector, evaluate, on_tell=on_tell)
    assert "9/9" in capsys.readouterr().err
