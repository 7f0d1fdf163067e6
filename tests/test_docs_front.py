"""The Python of README, of the pages on embedding and failures, and of the reference of methods runs, top to bottom."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.testing.fakes import Table

ROOT = Path(__file__).parents[1]
EMBED = ROOT / "docs" / "how-to" / "embed-in-your-own-loop.md"
METHODS = ROOT / "docs" / "reference" / "methods.md"
FAILED = ROOT / "docs" / "how-to" / "failed-evaluations.md"


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def run(page: Path, block: str, names: dict[str, Any]) -> None:
    exec(compile(block, str(page), "exec"), names)


def test_the_loop_of_the_front_page_ends_in_a_feasible_answer(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "README.md"
    names: dict[str, Any] = {}
    (block,) = blocks(page)
    run(page, "import random; random.seed(0)", names)
    run(page, block, names)
    assert "final, 120 of 120 evaluations spent" in capsys.readouterr().out
    assert names["selector"].result().feasible


def test_the_loop_of_the_documentation_s_first_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "README.md"
    prompts = [f"Summarize in {n} words." for n in range(5, 65, 5)]

    def evaluate(prompt: str, document: int) -> dict[str, float]:
        words = int(prompt.split()[2])
        return {"rouge": min(0.3, words / 100) + document / 1000, "brevity": 1 - words / 60}

    (block,) = blocks(page)
    run(page, block, {"prompts": prompts, "dataset": range(100), "evaluate": evaluate})
    assert "final, 120 of 120 evaluations spent" in capsys.readouterr().out


@pytest.fixture
def loop(tmp_path: Path) -> dict[str, Any]:
    """What a reader has before the page on embedding."""
    table = Table([[[0.3, 1.0]] * 6, [[0.5, 0.8]] * 6, [[0.9, 0.2]] * 6], ["rouge", "brevity"])
    goal = asktell.BestFeasible("rouge", subject_to={"brevity": 0.5})

    def selector() -> asktell.Selector:
        return asktell.Selector(table.prompts, goal, budget=12, examples=6)

    class Batches:
        def evaluate_batch(self, trials: list[asktell.Trial]) -> list[dict[str, float]]:
            return [table(trial.prompt, trial.example) for trial in trials]

    async def in_time(prompt: str, example: int) -> dict[str, float]:
        return table(prompt, example)

    return {
        "asktell": asktell, "json": json, "ThreadPoolExecutor": ThreadPoolExecutor,
        "prompts": table.prompts, "goal": goal, "dataset": range(6), "evaluate": table, "evaluator": table,
        "async_evaluator": in_time,
        "batch_evaluator": Batches(), "path": tmp_path / "selector.json", "selector": selector(), "new": selector,
    }  # fmt: skip


def test_embedding_in_a_loop_of_ones_own(loop: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    one, back, ids, batch, cost, save, drive = blocks(EMBED)
    run(EMBED, one, loop)
    assert loop["answer"].selected[0].id == 1
    loop["selector"] = loop["new"]()
    run(EMBED, back, loop)
    assert loop["selector"].spent == 1
    run(EMBED, ids, loop)
    assert "other examples: 1 added ('paper-6'); 1 missing ('paper-0')." in capsys.readouterr().out
    loop["selector"] = loop["new"]()
    run(EMBED, batch, loop)
    assert 0 < len(loop["trials"]) <= 12
    first, second, third = cost.splitlines()
    loop["scores"] = [0.3, 1.0]
    for line in (first, second, third):
        loop["trial"] = None if line is first else loop["selector"].ask()
        run(EMBED, line, loop)
    assert (loop["selector"].spent, loop["selector"].result().cost) == (1, 0.0026)
    run(EMBED, save, loop)
    assert loop["selector"].result().cost == 0.0026
    lines = drive.splitlines()
    assert len(lines) == 4
    for line in lines:
        loop["selector"] = loop["new"]()
        run(EMBED, line, loop)
        assert loop["selector"].done
        assert loop["selector"].result().selected[0].id == 1


def test_the_page_on_failed_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"asktell": asktell, "prompts": ["one", "two", "three"]}
    skipped, played, counted = blocks(FAILED)
    for block in (skipped, played):
        run(FAILED, block, names)
    assert re.findall(r"# (.*)", played) == capsys.readouterr().out.splitlines()
    run(FAILED, counted, names)
    assert names["selector"].state.problem.on_failure == {"accuracy": 0.0}


def test_the_methods_of_the_reference_can_be_composed() -> None:
    names: dict[str, Any] = {}
    first, second, _ = blocks(METHODS)
    for block in (first, second):
        run(METHODS, block, names)
    goal = asktell.ParetoSet("a", "b")
    selector = asktell.Selector(["x", "y", "z"], goal, 9, names["method"], examples=3)
    table = Table([[[0.1, 0.9]] * 3, [[0.9, 0.1]] * 3, [[0.0, 0.0]] * 3], prompts=["x", "y", "z"])
    assert {entry.id for entry in asktell.run(selector, table, progress=False).selected} == {0, 1}


def test_a_front_under_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    means = [[0.9, 3.0, 0.3], [0.7, 2.0, 0.05], [0.4, 1.0, 0.0], [0.3, 1.5, 0.0]]
    table = Table([[row] * 30 for row in means], ["rouge", "cost", "toxicity"])
    names: dict[str, Any] = {"prompts": table.prompts, "evaluate": table}
    run(METHODS, blocks(METHODS)[2], names)
    assert [(entry.id, entry.feasible) for entry in names["result"].selected] == [(1, True), (2, True)]
    assert "maximize rouge, minimize cost subject to toxicity <= 0.1" in capsys.readouterr().out


def test_every_name_of_the_reference_is_a_method_and_the_other_way_round() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", METHODS.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(asktell.METHODS)
