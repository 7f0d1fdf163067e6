"""Runs of Weights & Biases, offline."""

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.testing.fakes import Table

wandb = pytest.importorskip("wandb")

from asktell_adapters.tracking.wandb import WandbTracker  # noqa: E402
from tests.command_line import cli  # noqa: E402
from tests.plays import new_selector, random_table  # noqa: E402


@pytest.fixture
def table() -> Table:
    return random_table(6, 10)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SILENT", "DISABLE_GIT"):
        monkeypatch.setenv(f"WANDB_{name}", "true")
    return tmp_path / "wandb"


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, Any]:
    """Not by the environment, which W&B reads once in a process."""
    return {"mode": "offline", "settings": {"dir": str(tmp_path)}}


def evaluate(table: Table) -> Callable[[str, int | None], object]:
    return lambda prompt, example: table(prompt, example)


def records(path: Path) -> Iterator[bytes]:
    """What a transaction log of W&B holds: LevelDB's log format, after a header of 7 bytes."""
    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:  # what is left of a block is padding
            place += 32768 - place % 32768
        _, size, kind = struct.unpack_from("<IHB", data, place)
        if place + 7 + size > len(data):
            return  # it is still being written
        record += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def logged(folder: Path) -> list[dict[str, Any]]:
    """The rows in the transaction logs of all run folders, once they are complete."""
    from wandb.proto import wandb_internal_pb2

    found: list[Any] = []
    for path in sorted(folder.glob("offline-run-*/*.wandb")):
        deadline, kinds = time.monotonic() + 20, set[str]()
        while "exit" not in kinds:  # W&B's own process may still be writing
            assert time.monotonic() < deadline, f"{path} is not complete"
            parsed = [
                wandb_internal_pb2.Record.FromString(data) for data in records(path)
            ]
            kinds = {record.WhichOneof("record_type") for record in parsed}
        found += [
            record.history.item
            for record in parsed
            if record.WhichOneof("record_type") == "history"
        ]
    return [
        {
            item.key or "/".join(item.nested_key): json.loads(item.value_json)
            for item in row
        }
        for row in found
    ]


def numbers(folder: Path, key: str) -> list[int]:
    return [row["progress/evaluations"] for row in logged(folder) if key in row]


def test_a_selection_is_a_run(
    table: Table, folder: Path, offline: dict[str, Any]
) -> None:
    selector = new_selector(table, "csr", budget=30)
    with WandbTracker("prompts", name="mine", **offline) as tracker:
        result = asktell.run(selector, evaluate(table), progress=False, on_tell=tracker)
    assert wandb.run is None
    metric = result.goal.metrics[0]
    rows = [row for row in logged(folder) if f"evaluation/{metric}" in row]
    assert [
        row[f"evaluation/{metric}"] for row in rows
    ] == selector.state.history.scores()[:, 0].tolist()
    assert [row["evaluation/prompt"] for row in rows] == [
        str(arm) for arm in selector.state.history.arms()
    ]
    assert numbers(folder, "decision/active") == [
        n for n, one in selector.state.decisions if one.departures
    ]
    last = logged(folder)[-1]
    assert last[f"best/{metric}"] == result.selected[0].estimate[metric]
    assert last["prompts/nrows"] == 6
    (answer,) = folder.glob("offline-run-*/files/result.json")
    assert json.loads(answer.read_text())["selected"][0]["id"] == result.selected[0].id


def test_a_study_goes_on_in_its_run(
    table: Table, folder: Path, tmp_path: Path, offline: dict[str, Any]
) -> None:
    with asktell.Study.create(
        tmp_path / "study.db", "long", new_selector(table, "csr", budget=30)
    ) as study:
        first = WandbTracker("prompts", interval=0, **offline)
        for _ in range(17):
            trial = study.ask()
            study.tell(trial, table(trial.prompt, trial.example))
            first(study, trial)
        id_ = first.run.id
        first.run.finish()  # without the tracker's end
        time.sleep(1.1)  # the folders of offline runs are named by the second
    with (
        asktell.Study.open(tmp_path / "study.db", "long") as study,
        WandbTracker("prompts", interval=0, **offline) as second,
    ):
        result = asktell.run(
            study, evaluate(table), progress=False, on_tell=second, repeatable=True
        )
    assert len(list(folder.glob(f"offline-run-*-{id_}"))) == 2
    metric = result.goal.metrics[0]
    assert numbers(folder, f"evaluation/{metric}") == list(range(1, result.spent + 1))
    assert len(numbers(folder, "decision/active")) == 5


def test_the_active_run_is_used_and_left_open(table: Table, folder: Path) -> None:
    with wandb.init(project="mine", mode="offline", dir=folder.parent) as run:
        with WandbTracker() as tracker:
            asktell.run(
                new_selector(table, "uniform", budget=12),
                evaluate(table),
                progress=False,
                on_tell=tracker,
            )
        assert tracker.run is run
        run.log({"mine": 1})
    assert len(numbers(folder, "evaluation/prompt")) == 12
    assert logged(folder)[-1]["mine"] == 1


CONFIG = """
budget = 8
[prompts]
texts = ["Say it.", "Say it, please"]
[data]
file = "data.csv"
input = "word"
reference = false
[model]
loader = "echo:Echo"
[metrics.length]
loader = "echo:length"
[goal]
maximize = "length"
[tracker]
type = "wandb"
mode = "offline"
name = "lengths"
settings = { dir = 'FOLDER' }
"""
ECHO = """
from asktell_adapters.evaluators import Completion

class Echo:
    def complete(self, requests):
        return [Completion(request.messages[-1]["content"]) for request in requests]

def length(completion, example):
    return len(completion.text)
"""


def test_a_configuration_names_the_tracker(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder.parent)
    Path("data.csv").write_text("word\na\nbb\nccc\ndddd\n")
    Path("echo.py").write_text(ECHO)
    Path("run.toml").write_text(CONFIG.replace("FOLDER", str(folder.parent)))
    cli("run run.toml --no-progress --yes")
    rows = [row for row in logged(folder) if "evaluation/length" in row]
    assert len(rows) == 8
    (answer,) = folder.glob("offline-run-*/files/result.json")
    assert json.loads(answer.read_text())["selected"][0]["id"] == 1
