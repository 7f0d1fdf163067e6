import argparse
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.selection import featured, run, second_study
from benchmarks.selection.run import Suite, Task, chosen_problems, read_lines, run_tasks, tasks

TASKS = tasks(
    Suite(("best@.5", "pareto"), (2, 3), 2, (2, 3), 1), ["synthetic/linear-small@8"], ["uniform", "csr", "capo-race"]
)


def without_time(lines: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


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


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.jsonl"
    whole = run_tasks(TASKS, path, None, jobs=1)
    text = path.read_text()
    cut = text[: len(text) // 2]  # in the middle of a line
    path.write_text(cut)
    calls: list[Task] = []
    run_task = run.run_task
    monkeypatch.setattr(run, "run_task", lambda task, folder: (calls.append(task), run_task(task, folder))[1])
    again = run_tasks(TASKS, path, None, jobs=1)
    assert without_time(again) == without_time(whole)
    assert calls == TASKS[cut.count("\n") :]


def test_packed_lines_are_read_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run_tasks(TASKS[:3], tmp_path / "lines.jsonl", None, jobs=1)
    packed = tmp_path / "lines.jsonl.xz"
    packed.write_bytes(lzma.compress((tmp_path / "lines.jsonl").read_bytes()))
    assert read_lines(packed) == lines
    monkeypatch.setattr("sys.argv", ["run", "--output", str(packed)])
    with pytest.raises(SystemExit):
        run.main()
    assert read_lines(packed) == lines


def test_lines_of_another_commit_are_kept_only_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    lines = run_tasks(TASKS[:2], path, None, jobs=1)
    path.write_text("".join(json.dumps({**line, "commit": "older", "quality": -1.0}) + "\n" for line in lines))
    assert [line["quality"] for line in run_tasks(TASKS[:2], path, None, 1, any_commit=True)] == [-1.0, -1.0]
    assert all(line["quality"] >= 0 for line in run_tasks(TASKS[:2], path, None, 1))


def test_slow_methods_run_fewer_seeds_and_budgets() -> None:
    suite = Suite(("pareto",), (3, 5), seeds=5, slow_per_prompt=(3,), slow_seeds=2)
    assert len(tasks(suite, ["p"], ["uniform"])) == 10
    assert len(tasks(suite, ["p"], ["optuna-tpe"])) == 2


@pytest.mark.parametrize("names", [["nosuch"], ["synthetic/linear-small", "nosuch/x@50"]])
def test_unknown_problems_are_named(names: list[str], tmp_path: Path) -> None:
    args = argparse.Namespace(problems=names, half=None, tables=None)
    with pytest.raises(SystemExit, match=r"No problem begins with nosuch.*--tables.*synthetic/linear-small"):
        chosen_problems(args)
    args = argparse.Namespace(problems=["synthetic/linear-small@50"], half="development", tables=None)
    assert chosen_problems(args) == ["synthetic/linear-small@50"]
    args.half = "report"
    with pytest.raises(SystemExit, match="report half"):
        chosen_problems(args)


@pytest.mark.parametrize("size", ["x", "", "-3"])
def test_a_number_of_prompts_that_is_none_is_an_error(size: str) -> None:
    args = argparse.Namespace(tables=None, problems=[f"synthetic/linear-small@{size}"], half=None)
    with pytest.raises(SystemExit, match="number of prompts"):
        chosen_problems(args)


def test_a_half_without_lines_has_no_part_that_would_empty_a_page() -> None:
    lines = [{"problem": "capo/agnews_llama_seed42"}]
    count = lambda part: str(len(part))  # noqa: E731 - the summary of a test
    assert run.by_half("x", lines, None, count) == {"x-development": "1"}
    assert run.by_half("x", lines, "report", count) == {}


@pytest.mark.parametrize("main", [featured.main, second_study.main])
def test_nothing_to_run_is_no_success(main: Callable[[list[str]], None], tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    with pytest.raises(SystemExit):
        main(["--problems", "synthetic/linear-small", "--output", str(path)])
    assert not path.exists()
