"""What a durable study costs, ours and Optuna's in one run: `python -m benchmarks.speed.studies`.

K = 100 prompts, two metrics, `uniform`; Optuna's random sampler, one categorical
parameter. All write to the same folder, in turns, so that they meet the same disk and
the same neighbours; `fsync` is the time of appending 100 bytes to a file and syncing
it, for scale. A study is filled up to a mark by single asks and tells that are not
synced, the only difference to those that are measured. PostgreSQL is a server of our
own on this machine, with its settings as they come. Many workers at once are another
script's: `benchmarks.speed.workers`.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from asktell import ParetoSet, Selector, Study
from asktell.studies.storages import Transaction
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell.testing.postgresql_server import find_binaries, postgresql_server
from benchmarks.results import table

K = 100
SCORES = np.random.default_rng(0).uniform(size=(1000, 2)).round(4).tolist()


class Unsynced(SQLiteStorage):
    """Nothing waits for the disk."""

    def transaction(
        self, key: int, durable: bool
    ) -> contextlib.AbstractContextManager[Transaction]:
        """See AbstractStorage."""
        return super().transaction(key, durable=False)


def new_selector(budget: int = 1_100_000) -> Selector:
    """With room for a million evaluations."""
    prompts = [f"prompt {i}" for i in range(K)]
    return Selector(
        prompts, ParetoSet("a", "b"), budget, "uniform", examples=budget // K
    )


def timed(step: Callable[[], None], n: int) -> list[float]:
    """Seconds of each of n steps."""
    times = []
    for _ in range(n):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times


def ask_and_tell(study: Study, worker: str | None = None) -> Callable[[], None]:
    """One step of ours."""
    mine = study if worker is None else study.worker(worker)

    def step() -> None:
        trial = mine.ask()
        assert trial is not None
        mine.tell(trial, SCORES[trial.id % 1000])

    return step


def optuna_step(url: str | None, journal: Path) -> Callable[[], None]:
    """One step of Optuna's, in a database or a journal file."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = url or JournalStorage(JournalFileBackend(str(journal)))
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(
        storage=storage, sampler=sampler, directions=["maximize"] * 2
    )
    space: Any = {"prompt": optuna.distributions.CategoricalDistribution(range(K))}

    def step() -> None:
        trial = study.ask(space)
        study.tell(trial, SCORES[trial.number % 1000])

    return step


def fsync_step(path: Path) -> Callable[[], None]:
    """Append and sync."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step() -> None:
        os.write(handle, b"x" * 100)
        os.fsync(handle)

    return step


def latency(
    folder: Path, rounds: int, server: str | None
) -> dict[str, dict[str, float]]:
    """Milliseconds per ask + tell."""
    leases = Study.create(folder / "leases.db", "s", new_selector())
    steps = {
        "one fsync": fsync_step(folder / "fsync"),
        "asktell, memory": ask_and_tell(
            Study.create("memory://benchmark", "s", new_selector())
        ),
        "asktell, SQLite": ask_and_tell(
            Study.create(folder / "plain.db", "s", new_selector())
        ),
        "asktell, SQLite, with leases": ask_and_tell(leases, "worker 1"),
        "Optuna, journal file": optuna_step(None, folder / "journal"),
        "Optuna, SQLite": optuna_step(f"sqlite:///{folder / 'optuna.db'}", folder),
    }
    if server is not None:
        steps["asktell, PostgreSQL"] = ask_and_tell(
            Study.create(server, "latency", new_selector())
        )
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        timed(step, 20)
    for _ in range(rounds):
        for name, step in steps.items():
            times[name] += timed(step, 25)
    return {
        name: {
            "median": 1e3 * statistics.median(latencies),
            "p99": 1e3 * float(np.quantile(latencies, 0.99)),
        }
        for name, latencies in times.items()
    }


def growth(folder: Path, marks: list[int]) -> list[dict[str, float]]:
    """Latency, size and reload time as a study grows."""
    path, rows = folder / "growth.db", []
    Study.create(path, "s", new_selector()).close()
    synced = Study.open(path, "s")
    fsync = fsync_step(folder / "fsync")
    timed(ask_and_tell(synced, "worker 1"), 3)

    def size() -> int:
        (pages,), (bytes_,) = (
            synced._replica.storage._query(f"PRAGMA {what}")[0]  # type: ignore[attr-defined]
            for what in ("page_count", "page_size")
        )
        return int(pages * bytes_)

    empty = size()
    for mark in marks:
        with Study.open(Unsynced(path), "s") as filler:
            start, before = time.perf_counter(), filler.spent
            step = ask_and_tell(filler, "worker 1")
            while filler._replica.selector.spent < mark:
                step()
            seconds = time.perf_counter() - start
            filler._replica.storage.close()
        synced.spent  # noqa: B018 - catches up
        latencies, syncs = [], []
        for _ in range(10):
            latencies += timed(ask_and_tell(synced, "worker 1"), 20)
            syncs += timed(fsync, 20)
        opened = in_a_new_process(path)
        assert opened["spent"] == synced.spent
        log = synced._replica.storage._query(  # type: ignore[attr-defined]
            "SELECT sum(length(entries)) FROM asktell_log"
        )[0][0]
        rows.append(
            {
                "told": mark,
                "unsynced ms": 1e3 * seconds / max(1, mark - before),
                "median ms": 1e3 * statistics.median(latencies),
                "fsync ms": 1e3 * statistics.median(syncs),
                "reload s": opened["seconds"],
                "reload peak MB": opened["peak MB"],
                "log bytes": log / synced.spent,
                "file bytes": (size() - empty) / synced.spent,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def in_a_new_process(path: Path) -> dict[str, float]:
    """The seconds and the peak memory of opening a study, for a process that has done nothing else."""
    command = [sys.executable, "-m", "benchmarks.speed.studies", "--open", str(path)]
    opening: dict[str, float] = json.loads(subprocess.check_output(command))
    return opening


def opening(path: Path) -> dict[str, float]:
    """What `in_a_new_process` returns, measured in that process."""
    start = time.perf_counter()
    with Study.open(path, "s") as study:
        return {
            "seconds": time.perf_counter() - start,
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "spent": study.spent,
        }


def tables(seen: dict[str, Any]) -> Iterator[str]:
    """The tables."""
    if "latency" in seen:
        ours = seen["latency"]["asktell, SQLite"]["median"]
        in_order = sorted(seen["latency"].items(), key=lambda item: item[1]["median"])
        rows = [
            [name, f"{t['median']:.3g}", f"{t['p99']:.3g}", f"{t['median'] / ours:.2g}"]
            for name, t in in_order
        ]
        yield table(
            ["storage", "median ms", "p99 ms", "median, by asktell with SQLite"], rows
        )
    if "growth" in seen:
        header = [
            "evaluations told",
            "ask + tell, not synced",
            "ask + tell",
            "one fsync",
            "opening",
            "its peak memory",
            "log",
            "file",
        ]
        rows = []
        for row in seen["growth"]:
            times = [
                f"{row[name]:.2f} ms"
                for name in ("unsynced ms", "median ms", "fsync ms")
            ]
            sizes = [f"{row[name]:.0f} B" for name in ("log bytes", "file bytes")]
            opened = [f"{row['reload s']:.2f} s", f"{row['reload peak MB']:.0f} MB"]
            rows.append([f"{row['told']:,}", *times, *opened, *sizes])
        yield table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Durable ask + tell, ours and Optuna's."
    )
    parser.add_argument("--rounds", type=int, default=20, help="of 25 steps each")
    parser.add_argument(
        "--marks", type=int, nargs="*", default=[100, 10_000, 1_000_000]
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="on the disk to be measured (default: the system's temporary one)",
    )
    # The child process
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open:
        print(json.dumps(opening(arguments.open)))
        return
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as name,
        contextlib.ExitStack() as stack,
    ):
        folder, seen = Path(name), dict[str, Any]()
        folder.chmod(0o755)
        server = None
        if find_binaries() is not None:
            server = stack.enter_context(
                postgresql_server(folder / "server", options="")
            ).url
        if arguments.rounds:
            seen["latency"] = latency(folder, arguments.rounds, server)
            print(json.dumps(seen["latency"], indent=1), flush=True)
        if arguments.marks:
            seen["growth"] = growth(folder, arguments.marks)
        print("\n\n".join(tables(seen)))


if __name__ == "__main__":
    main()
