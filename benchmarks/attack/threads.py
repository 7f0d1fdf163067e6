"""Threads that do everything a study can, on one object, on one file from several processes, and over HTTP.

Each case is a child process, or some of them. A watchdog in it ends it with the stacks
of all threads if one of them gets no answer, so that a deadlock is reported, and
nothing hangs. In the end every score whose `tell` returned must be there as it was
told, and everything that can be made anew of the study must equal it.
"""

import argparse
import faulthandler
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from asktell import AsktellError, BestFeasible, RemoteStudy, Selector, Study, Trial
from asktell.errors import ConflictingTellError, UnknownTrialError
from asktell.studies.storages import open_storage
from benchmarks.attack.copies import check_copies
from benchmarks.attack.findings import (
    BrokenPromiseError,
    Finding,
    Limit,
    Report,
    our_frames,
)
from benchmarks.attack.service import READ, WRITE, Service

NAME = "threads"
PATIENCE = 30.0  # seconds for one operation, on a machine with much else to do
THREADS = [3, 3, 6]
PROCESSES = 3
STUCK, FOUND = 3, 1  # exit codes of a child
METHODS = ["auto", "csr-sh"]


def new_selector(seed: int) -> Selector:
    """What is selected; the methods take turns."""
    prompts = [f"prompt {i}" for i in range(6)]
    goal = BestFeasible("a", {"b": 0.3})
    return Selector(
        prompts, goal, 3000, METHODS[seed // 4 % len(METHODS)], examples=700, seed=seed
    )


class Thread:
    """One of many that use a study: what it did last, what was confirmed, and what should not have been."""

    def __init__(
        self,
        study: Any,
        reader: Any,
        works: bool,
        name: str,
        seed: int,
        operations: int,
    ) -> None:
        self._study = study
        self._reader = reader
        self._works = works
        self._name = name
        self._rng = random.Random(f"{name} {seed}")
        self._operations = operations
        self.since = time.monotonic()
        self.told: dict[int, list[float]] = {}
        self.error: str | None = None
        self._mine: list[Any] = []
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        reads = 1 if self._works else 20
        does: dict[Callable[[], object], int] = {
            self._ask_and_tell: 60 if self._works else 0,
            self._ask: 3 if self._works else 0,
            self._end: 3,
            self._meddle: 2,
            lambda: self._study.observe(
                "prompt 1", [0.5, 0.5], self._rng.randrange(700)
            ): 1,
            lambda: self._bound().heartbeat(): 3,
            lambda: self._study.workers(): reads,
            lambda: self._study.done: reads,
            lambda: (
                self._study.n_active + self._study.spent + len(self._study.pending)
            ): reads,
            lambda: self._reader.selector: reads,
            lambda: self._reader.result(): reads,
            self._export: 1,
        }
        try:
            for _ in range(self._operations):
                # Another thread has meddled
                with suppress(UnknownTrialError, ConflictingTellError):
                    self._rng.choices(list(does), list(does.values()))[0]()
                self.since = time.monotonic()
        except BaseException:
            self.error = traceback.format_exc()

    def _bound(self) -> Any:
        """The study of a worker that was restarted, and holds what it held."""
        return self._study.worker(self._name, lease=60.0)

    def _ask(self) -> None:
        if self._rng.random() < 0.5:
            self._mine = self._bound().ask(self._rng.choice([1, 2, 4]))
        else:
            self._mine += self._study.ask(1)

    def _ask_and_tell(self) -> None:
        """At once, so that often nothing is out, and whoever reads has to decide."""
        self._ask()
        while self._mine:
            self._tell(self._mine.pop())

    def _tell(self, trial: Trial) -> None:
        scores = [self._rng.random(), self._rng.random()]
        if self._bound().tell(trial, scores):
            self.told[trial.id] = scores

    def _end(self) -> None:
        if self._mine:
            mine = self._bound()
            end = self._rng.choice([mine.release, lambda trial: mine.fail(trial, "")])
            end(self._mine.pop())

    def _meddle(self) -> None:
        """With trials of others."""
        out = self._study.pending
        if out and self._rng.random() < 0.5:
            self._bound().release(self._rng.choice(out))
        elif out:
            self._tell(self._rng.choice(out))

    def _export(self) -> None:
        if isinstance(self._study, Study):
            with tempfile.TemporaryDirectory() as folder:
                self._study.export(Path(folder) / "export")


def use(
    location: str, process: int, seed: int, operations: int, patience: float
) -> int:
    """What a child does; its exit code."""
    if location.startswith("http"):
        study: Any = RemoteStudy.open(
            location, NAME, token=WRITE, timeout=2 * patience, retries=0
        )
        reader: Any = RemoteStudy.open(
            location, NAME, token=READ, timeout=2 * patience, retries=0
        )
    else:
        storage = open_storage(location)
        study = reader = Study.create(storage, NAME, new_selector(seed), exist_ok=True)
    threads = [
        Thread(study, reader, i % 3 != 2, f"p{process} t{i}", seed, operations)
        for i in range(random.Random(seed).choice(THREADS))
    ]
    for thread in threads:
        thread.since = time.monotonic()
        thread.thread.start()
    while any(thread.thread.is_alive() for thread in threads):
        time.sleep(0.05)
        for thread in threads:
            if thread.thread.is_alive() and time.monotonic() - thread.since > patience:
                print(
                    f"{thread.thread.name} gets no answer", file=sys.stderr, flush=True
                )
                faulthandler.dump_traceback(all_threads=True)
                os._exit(STUCK)
    for thread in threads:
        if thread.error is not None:
            print(thread.error, file=sys.stderr)
            return FOUND
    history = study.selector.state.history
    for thread in threads:
        for trial, scores in thread.told.items():
            if history.scores_of(trial) != tuple(scores):
                print(
                    f"Confirmed {scores} of trial {trial}, there are {history.scores_of(trial)}",
                    file=sys.stderr,
                )
                return FOUND
    if location == "memory://":  # nobody else can look
        check_copies(study, storage)
    return 0


def run(
    location: str, processes: int, seed: int, operations: int, patience: float
) -> tuple[str, str] | None:
    """Children at a study; what they found, and the details."""
    command = [sys.executable, "-m", "benchmarks.attack.threads", location]
    options = [
        "--seed",
        str(seed),
        "--operations",
        str(operations),
        "--patience",
        str(patience),
    ]
    children = [
        subprocess.Popen(
            [*command, *options, "--process", str(i)], stderr=subprocess.PIPE, text=True
        )
        for i in range(processes)
    ]
    problem = None
    for child in children:
        _, errors = child.communicate()
        if child.returncode == STUCK:
            problem = ("a thread gets no answer", errors)
        elif child.returncode and problem is None:
            problem = (
                (errors.strip().splitlines() or [f"exit code {child.returncode}"])[-1],
                errors,
            )
    if problem is None and not location.startswith(("memory:", "http")):
        with Study.open(location, NAME) as study:
            try:
                check_copies(study, open_storage(location))
            except BrokenPromiseError as error:
                problem = (str(error), "")
    return problem


def serve(
    folder: Path, url: str, seed: int, operations: int, patience: float
) -> tuple[str, str] | None:
    """Threads at a service, which must end in the end."""
    with Service(url, folder) as service:
        RemoteStudy.create(service.url, NAME, new_selector(seed), token=WRITE).close()
        problem = run(service.url, 2, seed, operations, patience)
        if problem is not None:
            problem = (problem[0], f"{problem[1]}\nAt the service:\n{service.stacks()}")
        code = service.stop()
        if code != 143 and problem is None:
            problem = (
                f"SIGTERM did not end the service: exit code {code}",
                service.stacks() if code is None else "",
            )
        elif code is None and problem is not None:
            problem = (
                f"{problem[0]}, and SIGTERM does not end the service",
                problem[1],
            )
    return problem


def attack(
    seed: int,
    limit: Limit,
    url: str | None = None,
    operations: int = 100,
    patience: float = PATIENCE,
) -> Report:
    """One object in memory, one in a file, processes at one file, and a service, in turn."""
    report = Report()
    for number in limit.numbers():
        report.cases += 1
        kind = (seed + number) % 4
        with tempfile.TemporaryDirectory() as name:
            where = url or f"sqlite:///{name}/studies.db"
            if url is not None and NAME in Study.names(url):
                Study.delete(url, NAME)
            if kind == 3:
                problem = serve(Path(name), where, seed + number, operations, patience)
            else:
                problem = run(
                    "memory://" if kind == 0 else where,
                    PROCESSES if kind == 2 else 1,
                    seed + number,
                    operations,
                    patience,
                )
        if problem is not None and report.is_new(problem[0]):
            what = ["one object in memory", "one object", "processes", "a service"][
                kind
            ]
            command = (
                f"python -m benchmarks.attack threads --seed {seed + number} --cases 1"
                + " --url URL" * bool(url)
            )
            report.add(
                Finding(f"{what}: {problem[0]}", command, our_frames(problem[1]))
            )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description="A child of the attack by threads.")
    parser.add_argument("location")
    for name in ("process", "seed", "operations"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--patience", type=float)
    arguments = parser.parse_args()
    try:
        return use(
            arguments.location,
            arguments.process,
            arguments.seed,
            arguments.operations,
            arguments.patience,
        )
    except (BrokenPromiseError, AsktellError):
        traceback.print_exc()
        return FOUND


if __name__ == "__main__":
    sys.exit(main())
