"""Runs of MLflow, in a SQLite database and files of its own."""

import csv
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.testing.fakes import Table

mlflow = pytest.importorskip("mlflow")

from asktell_adapters.tracking.mlflow import MLflowTracker  # noqa: E402
from tests.plays import new_selector, random_table  # noqa: E402


@pytest.fixture
def table() -> Table:
    return random_table(6, 10)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield mlflow.MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()


def evaluate(table: Table) -> Callable[[str, int | None], object]:
    return lambda prompt, example: table(prompt, example)


def play(selector: Any, table: Table, tracker: MLflowTracker, n: int) -> None:
    """Some evaluations, and no end: as if the process was killed."""
    for _ in range(n):
        trial = selector.ask()
        selector.tell(trial, table(trial.prompt, trial.example))
        tracker(selector, trial)


def steps(client: Any, run_id: str, key: str) -> list[int]:
    return [metric.step for metric in client.get_metric_history(run_id, key)]


def rows(client: Any, run_id: str, name: str) -> list[dict[str, str]]:
    return list(
        csv.DictReader(
            io.StringIO(mlflow.artifacts.load_text(f"runs:/{run_id}/{name}"))
        )
    )


def test_a_selection_is_a_run(table: Table, store: Any) -> None:
    selector = new_selector(table, "csr", budget=30)
    with MLflowTracker("prompts", name="mine", register="best-prompt") as tracker:
        result = asktell.run(
            selector, evaluate(table), progress=False, on_tell=tracker, repeatable=True
        )
    run = store.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["asktell.budget"] == "30"
    metric = result.goal.metrics[0]
    history = store.get_metric_history(tracker.run_id, f"evaluation/{metric}")
    assert [(m.step, m.value) for m in history] == list(
        enumerate(selector.state.history.scores()[:, 0].tolist(), 1)
    )
    assert run.data.metrics[f"best/{metric}"] == result.selected[0].estimate[metric]
    assert run.data.metrics["progress/active"] == 0
    assert steps(store, tracker.run_id, "decision/active") == [
        n for n, one in selector.state.decisions if one.departures
    ]
    prompts = {row["id"]: row for row in rows(store, tracker.run_id, "prompts.csv")}
    assert {row["status"] for row in prompts.values()} == {"accepted", "rejected"}
    assert [id_ for id_, row in prompts.items() if row["selected"] == "True"] == [
        str(result.selected[0].id)
    ]
    assert len(rows(store, tracker.run_id, "evaluations.csv")) == result.spent
    assert len(rows(store, tracker.run_id, "decisions.csv")) == 6
    answer = json.loads(
        mlflow.artifacts.load_text(f"runs:/{tracker.run_id}/result.json")
    )
    assert answer["selected"][0]["id"] == result.selected[0].id
    prompt = mlflow.genai.load_prompt("prompts:/best-prompt/1")
    assert prompt.template == result.selected[0].prompt
    assert run.data.tags["asktell.registered"] == "best-prompt 1"


def test_a_run_in_which_everything_failed(table: Table, store: Any) -> None:
    def never(prompt: str, example: int | None) -> float:
        raise ConnectionError("no server")

    selector = new_selector(table, "uniform", budget=30)
    with MLflowTracker("prompts", register="best-prompt") as tracker:
        result = asktell.run(
            selector, never, progress=False, on_tell=tracker, max_failures_in_a_row=None
        )
    assert result.done
    run = store.get_run(tracker.run_id)
    assert run.info.status == "FAILED"
    assert "asktell.registered" not in run.data.tags
    assert (
        mlflow.genai.load_prompt("prompts:/best-prompt/1", allow_missing=True) is None
    )
    assert (
        run.data.metrics["progress/failures"]
        == sum(entry.failures for entry in result.prompts)
        > 0
    )


def test_a_study_goes_on_in_its_run(table: Table, store: Any, tmp_path: Path) -> None:
    with asktell.Study.create(
        tmp_path / "study.db", "long", new_selector(table, "csr", budget=30)
    ) as study:
        first = MLflowTracker("prompts", interval=0)
        play(study, table, first, 17)
    with (
        asktell.Study.open(tmp_path / "study.db", "long") as study,
        MLflowTracker("prompts", interval=0) as second,
    ):
        result = asktell.run(
            study, evaluate(table), progress=False, on_tell=second, repeatable=True
        )
    assert second.run_id == first.run_id
    for name in result.goal.metrics:
        assert steps(store, first.run_id, f"evaluation/{name}") == list(
            range(1, result.spent + 1)
        )
    decisions = steps(store, first.run_id, "decision/active")
    assert len(decisions) == 5
    assert (
        len(store.search_runs([store.get_experiment_by_name("prompts").experiment_id]))
        == 1
    )
    # Looked at again when all is done: nothing new
    with MLflowTracker("prompts") as third:
        third(asktell.Study.open(tmp_path / "study.db", "long"))
    assert third.run_id == first.run_id
    assert steps(store, first.run_id, "decision/active") == decisions


PROGRAM = """
import sys, time
import asktell, mlflow
from asktell_adapters.tracking.mlflow import MLflowTracker

mlflow.set_tracking_uri(sys.argv[1])
goal = asktell.ParetoSet("a", "b")
selector = asktell.Selector(["x", "yy", "zzz"], goal, 900, "uniform", examples=300)

def evaluate(prompt, example):
    print(example, flush=True)
    time.sleep(0.002)
    return {"a": example % 7, "b": len(prompt)}

with asktell.Study.create("study.db", "killed", selector, exist_ok=True) as study:
    with MLflowTracker("prompts", interval=0) as tracker:
        asktell.run(study, evaluate, progress=False, on_tell=tracker, repeatable=True)
"""


def test_a_process_that_is_killed(store: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/mlflow.db"]
    store.search_experiments()  # makes the database
    for evaluations in (100, 200):
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
            assert process.stdout is not None
            for _ in range(evaluations):
                assert process.stdout.readline()
            process.kill()
    subprocess.run(
        command, stdout=subprocess.DEVNULL, cwd=tmp_path, check=True, timeout=300
    )
    (run,) = store.search_runs([store.get_experiment_by_name("prompts").experiment_id])
    assert run.info.status == "FINISHED"
    assert steps(store, run.info.run_id, "evaluation/a") == list(range(1, 901))


def test_more_evaluations_than_fit_in_a_request(table: Table, store: Any) -> None:
    selector = new_selector(
        table, "uniform", budget=2400, examples=None, sampling="iid"
    )
    while (trial := selector.ask()) is not None:
        selector.tell(trial, table(trial.prompt, 0))
    with MLflowTracker(name="big") as tracker:
        tracker(selector)
    assert steps(store, tracker.run_id, f"evaluation/{table.metrics[1]}") == list(
        range(1, 2401)
    )


def test_the_active_run_is_used_and_left_open(table: Table, store: Any) -> None:
    with mlflow.start_run() as run:
        with MLflowTracker() as tracker:
            asktell.run(
                new_selector(table, "uniform", budget=12),
                evaluate(table),
                progress=False,
                on_tell=tracker,
            )
        assert store.get_run(run.info.run_id).info.status == "RUNNING"
    assert tracker.run_id == run.info.run_id
    assert store.get_run(run.info.run_id).data.metrics["progress/evaluations"] == 12


def test_a_store_that_is_down_does_not_stop_the_run(
    table: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = MLflowTracker(name="down", interval=0)

    def refuse(*args: object, **options: object) -> None:
        raise mlflow.exceptions.MlflowException("the server is down")

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", refuse)
    with caplog.at_level(logging.WARNING, "asktell"), tracker:
        result = asktell.run(
            new_selector(table, "uniform", budget=12),
            evaluate(table),
            progress=False,
            on_tell=tracker,
        )
    assert result.done
    assert caplog.text.count("the server is down") == 1
