"""The progress of a run in a notebook: one output, drawn anew."""

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import asktell
from asktell.running import progress
from tests.results.test_notebook import HOSTILE, Tags


class Notebook:
    """What IPython shows, as far as a cell uses it."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []  # by output, everything that it has shown
        self.kernel: Any = object()

    def display(self, content: Any, display_id: bool) -> "Handle":
        assert display_id
        self.outputs.append([content])
        return Handle(self.outputs[-1])


class Handle:
    def __init__(self, output: list[str]) -> None:
        self._output = output

    def update(self, content: str) -> None:
        self._output.append(content)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    shown = Notebook()
    top: Any = ModuleType("IPython")
    top.get_ipython = lambda: shown
    below: Any = ModuleType("IPython.display")
    below.HTML, below.display = str, shown.display
    monkeypatch.setitem(sys.modules, "IPython", top)
    monkeypatch.setitem(sys.modules, "IPython.display", below)
    return shown


def selector(budget: Any = 12) -> asktell.Selector:
    prompts = {"a": "be brief", HOSTILE: "be long", "c": "be there"}
    return asktell.Selector(prompts, asktell.ParetoSet("x", "y"), budget, examples=20)


def evaluate(prompt: str, example: Any) -> dict[str, float]:
    if prompt == "be there" and not example % 5:
        raise RuntimeError("no answer")
    return {"x": len(prompt) + example / 10, "y": -len(prompt) + example / 10, "cost": 0.5}


def test_a_run_is_one_output_that_ends_with_how_far_it_came(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    result = asktell.run(selector(), evaluate)
    (output,) = notebook.outputs
    assert len(output) >= result.spent
    assert "0 of 12 evaluations" in output[0]
    assert 'value="0.0000"' in output[0]
    assert 'value="1.0000"' in output[-1]
    assert "12 of 12 evaluations" in output[-1]
    assert "to go" in output[5]
    assert "to go" not in output[-1]
    assert result.verdict.sentence not in output[-1]  # the cell shows what asktell.run returned: nothing twice
    assert all("<strong>" in each for each in output[:-1])
    assert output[-2].count("of 12 evaluations") == 1
    failed = sum(entry.failures for entry in result.prompts)
    assert (f", {failed} failed" in output[-1]) == bool(failed)
    for content in output:
        assert not {"script", "img"} & set(Tags(content).found)


def test_it_is_drawn_about_once_a_second_and_less_often_where_that_takes_long(notebook: Notebook) -> None:
    now = 0.0
    selection = selector(1000)
    with progress.Cell(selection, lambda: now) as shown:
        for _ in range(32):
            now += 0.1
            shown.show()
        assert len(notebook.outputs[0]) == 4
        genuine = selection.result

        def slow(*args: Any) -> Any:
            nonlocal now
            now += 2.0
            return genuine()

        selection.result = slow  # type: ignore[method-assign]
        before = now
        while now < before + 25.0:
            now += 0.1
            shown.show()
        assert len(notebook.outputs[0]) == 4 + 3  # each two seconds, and eight of the run's own
    assert len(notebook.outputs) == 1


def test_money_that_is_bounded_fills_the_bar(notebook: Notebook) -> None:
    asktell.run(selector(asktell.Budget(cost=2.0)), evaluate)
    assert "a cost of 2 of 2" in notebook.outputs[0][-1]
    assert 'value="1.0000"' in notebook.outputs[0][-1]


def test_async_evaluators_and_studies_are_shown_too(notebook: Notebook) -> None:
    async def evaluate_async(prompt: str, example: Any) -> dict[str, float]:
        await asyncio.sleep(0)
        return {"x": 1.0, "y": float(example)}

    with asktell.Study.create("memory://cells", "s", selector()) as study:
        asktell.run(study, evaluate_async)
    assert "12 of 12 evaluations" in notebook.outputs[0][-1]


def test_a_terminal_and_who_wants_nothing_have_no_cell(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    asktell.run(selector(), evaluate, progress=False)
    notebook.kernel = None
    asktell.run(selector(), evaluate)
    assert notebook.outputs == []
    assert "12/12" in capsys.readouterr().err
