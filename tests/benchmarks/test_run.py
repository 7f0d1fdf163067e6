import json
from pathlib import Path

import pytest

from asktell.simulation.lines import read_lines
from benchmarks.selection import run
from benchmarks.selection.run import Suite, Task, run_tasks, tasks

TASKS = tasks(
    Suite(("best@.5", "pareto"), (2, 3), 2, (2, 3), 1),
    ["synthetic/linear-small@8"],
    ["uniform", "csr", "capo-race"],
)


def without_time(lines: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for line in lines
    ]


def test_lines_are_complete_and_repeatable(tmp_path: Path) -> None:
    one = run_tasks(TASKS, tmp_path / "one.jsonl", None, jobs=1)
    other = run_tasks(TASKS, tmp_path / "other.jsonl", None, jobs=1)
    assert without_time(one) == without_time(other)
    assert without_time(one) == without_time(read_lines(tmp_path / "one.jsonl"))
    assert [run.key(line) for line in one] == TASKS
    refused = [line for line in one if "refused" in line]
    assert {(line["method"], line["goal"]) for line in refused} == {("csr", "pareto")}
    for line in one:
        assert line["commit"]
        assert line["budget"] == round(line["per_prompt"] * 8)
        assert "refused" in line or line["spent"] <= line["budget"]


def test_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.jsonl"
    whole = run_tasks(TASKS, path, None, jobs=1)
    text = path.read_text()
    cut = text[: len(text) // 2]  # in the middle of a line
    path.write_text(cut)
    calls: list[Task] = []
    run_task = run.run_task
    monkeypatch.setattr(
        run,
        "run_task",
        lambda task, folder: (calls.append(task), run_task(task, folder))[1],
    )
    again = run_tasks(TASKS, path, None, jobs=1)
    assert without_time(again) == without_time(whole)
    assert calls == TASKS[cut.count("\n") :]


def test_lines_of_another_commit_are_kept_only_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    lines = run_tasks(TASKS[:2], path, None, jobs=1)
    path.write_text(
        "".join(
            json.dumps({**line, "commit": "older", "quality": -1.0}) + "\n"
            for line in lines
        )
    )
    assert [
        line["quality"] for line in run_tasks(TASKS[:2], path, None, 1, any_commit=True)
    ] == [-1.0, -1.0]
    assert all(line["quality"] >= 0 for line in run_tasks(TASKS[:2], path, None, 1))
