"""Runs whose responses people label."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from asktell import Study
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell_adapters.cli.label import new_selector
from asktell_adapters.config import Config, load_config
from asktell_adapters.server.labeling import Labeling
from tests.reports.conftest import browser

__all__ = ["browser"]

_MAIN = """
import signal, sys
from asktell_adapters.cli.main import main
from asktell_adapters.server.labeling import Labeling
Labeling.__init__.__kwdefaults__["hold_at_end"] = 2.0  # for 15 s
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(sys.argv[1:]))
"""
PROMPTS = ("secret-short", "secret-long", "secret-kind")
N = 40
PROXIES = '[proxies]\nscores = "responses.jsonl"\ncolumns = ["judge"]\n'
SCALE = 'scale = { "No" = 0, "Partly" = 0.5, "Yes" = 1 }'
RECORDED = f'{SCALE}\nresponses = "responses.jsonl"'


class LabelProject:
    """A folder with recorded responses and a configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "run.toml"
        self.rows = [
            {
                "prompt": prompt,
                "example": f"secret-x{j}",
                "response": f"response {k * N + j}",
                "judge": (k + j) % 3 / 2,
            }
            for k, prompt in enumerate(PROMPTS)
            for j in range(N)
        ]
        self.inputs = [f"input {j}" for j in range(N)]
        self.gold = [
            {"input": "gold 0", "response": "golden 0", "label": "Yes"},
            {"input": "gold 1", "response": "golden 1", "label": "No"},
        ]

    def write(
        self,
        label: str = SCALE,
        top: str = "",
        budget: int = 12,
        goal: str = 'maximize = "human"\nranges = { human = [0, 1] }',
        more: str = "",
    ) -> Path:
        """Write everything. `label`: keys of `[label]`; `top`: keys at the top; `more`: tables."""
        examples = [
            {"id": f"secret-x{j}", "input": text} for j, text in enumerate(self.inputs)
        ]
        for name, rows in (
            ("data", examples),
            ("responses", self.rows),
            ("gold", self.gold),
        ):
            text = "\n".join(map(json.dumps, rows))
            (self.folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        self.config.write_text(
            f'budget = {budget}\n{top}\n[data]\nfile = "data.jsonl"\nreference = false\n'
            f'[label]\nquestion = "Is it right?"\n{label}\n[goal]\n{goal}\n{more}',
            encoding="utf-8",
        )
        return self.config

    def load(
        self, label: str = f'{SCALE}\nresponses = "responses.jsonl"', **given: Any
    ) -> Config:
        """The configuration, read."""
        return load_config(self.write(label, **given))


@pytest.fixture
def project(tmp_path: Path) -> LabelProject:
    return LabelProject(tmp_path)


class Raters:
    """A study and its raters, which can be opened again as after a kill.

    `task` may be replaced by another one before `open`.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder = config, folder
        labels = config.labels
        assert labels is not None
        self.task = labels.task(config.selector, config.dataset, config.evaluator)
        self.create()
        self.made: list[Labeling] = []

    def create(self) -> None:
        selector = new_selector(self.config)
        Study.create(self.folder / "study.db", "s", selector).close()

    def storage(self, clock: Callable[[], float]) -> SQLiteStorage:
        """The study's storage, with a clock of its own."""
        return SQLiteStorage(self.folder / "study.db", clock)

    def open(self, storage: SQLiteStorage | None = None, **options: Any) -> Labeling:
        study = Study.open(storage or self.folder / "study.db", "s")
        journal = self.folder / "labels.jsonl"
        labeling = Labeling(study, self.task, journal, **options)
        self.made.append(labeling)
        return labeling

    def after_a_kill(self) -> "Raters":
        """The files as they are on the disk now, in another folder."""
        number = len(list(self.folder.parent.iterdir()))
        folder = self.folder.with_name(f"{self.folder.name}-{number}")
        # Labels are recorded in the study before the journal says so, and both go on
        # during the copy. So the journal is copied first.
        journal = (self.folder / "labels.jsonl").read_bytes()
        # A kill leaves the database and its log as they are at one moment. Without the lock,
        # the log may be emptied into the database between the two copies.
        with closing(sqlite3.connect(self.folder / "study.db", timeout=60)) as database:
            database.execute("BEGIN IMMEDIATE")
            shutil.copytree(self.folder, folder)
        (folder / "labels.jsonl").write_bytes(journal)
        again = Raters.__new__(Raters)
        again.config, again.folder, again.made = self.config, folder, self.made
        again.task = self.task
        return again

    def told(self) -> list[Any]:
        with Study.open(self.folder / "study.db", "s") as study:
            return list(study.evaluations())


@pytest.fixture
def raters(project: LabelProject, tmp_path: Path) -> Iterator[Callable[..., Raters]]:
    made = []

    def make(label: str = RECORDED, **given: Any) -> Raters:
        folder = tmp_path / "study"
        folder.mkdir()
        made.append(Raters(project.load(label, **given), folder))
        return made[-1]

    yield make
    for each in made:
        for labeling in each.made:
            labeling.close()


def give_all(labeling: Labeling, name: str, choice: int = 2, most: int = 100) -> int:
    """Label until nothing is left; the number of labels."""
    screen = labeling.next(name)
    n = 0
    while n < most and screen["state"] == "item":
        screen = labeling.label(name, screen["item"], choice, 1.0)
        n += 1
    return n


class LabelServer:
    """`asktell label` in a process of its own."""

    def __init__(self, config: Path, *more: str, **environment: str) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ASKTELL_")}
        words = ["label", str(config), "--no-browser", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, **environment},
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.line)
        if found is None:
            raise AssertionError(self.line + self.process.communicate()[1])
        self.url = found[0]
        self.port = int(self.url.split(":")[2].split("/")[0])

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str]:
        """End the process in order, and return its exit code and its output."""
        self.process.terminate()
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out + errors


@pytest.fixture
def serve_labels() -> Iterator[Callable[..., LabelServer]]:
    made: list[LabelServer] = []

    def start(config: Path, *more: str, **environment: str) -> LabelServer:
        made.append(LabelServer(config, *more, **environment))
        return made[-1]

    yield start
    for server in made:
        if server.process.poll() is None:
            server.kill()
