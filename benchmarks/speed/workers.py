"""Many processes at one study, ours and Optuna's in one run: `python -m benchmarks.speed.workers`.

K = 100 prompts, two metrics, `uniform`; Optuna's random sampler, one categorical
parameter. So many processes, each with the study open and a name of its own, ask and
tell as fast as they can for some seconds, one by one or in batches (`ask(n)` and
`tell_many`), with leases; Optuna has no batches. An evaluation takes no time, so that
the numbers are the most that a storage can take. A score counts once `tell` has
returned, and in the end the study must have exactly what was told. Every round measures
everything once, the rivals in turns; the table has the medians of the rounds.

SQLite, the journal file and PostgreSQL (a server of our own, with its settings as they
come) write to the same disk. HTTP is a service in a process of its own, with a SQLite
file, and clients with a connection each that stays open. `ahead` are workers that ask
one by one for 16 at a time, and tell each by itself. `threads` share one `Study`.
"""

import argparse
import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from asktell import ParetoSet, RemoteStudy, Selector, Study
from asktell.testing.postgresql_server import find_binaries, postgresql_server
from benchmarks.results import table
from benchmarks.speed.service import serving

K = 100
SCORES = np.random.default_rng(0).uniform(size=(1000, 2)).round(4).tolist()
WORKERS = (1, 4, 16)

Step: TypeAlias = Callable[[], int]
"""Asks and tells; how many."""
Steps: TypeAlias = Callable[[str], Step]
"""Of a worker's name."""


class Kind(NamedTuple):
    """A way to keep a study: made by `create(name)`, and opened in each process by `join(name)`, for its workers."""

    name: str
    create: Callable[[str], None]
    join: Callable[[str], contextlib.AbstractContextManager[Steps]]
    count: Callable[[str], int]
    in_threads: bool = False


def new_selector() -> Selector:
    """With room for what is told in some seconds; no decision falls into them but the first, which `create` makes."""
    return Selector(
        [f"prompt {i}" for i in range(K)],
        ParetoSet("a", "b"),
        200_000,
        "uniform",
        examples=2000,
    )


def step_of(study: Any, batch: int, worker: str) -> Step:
    """Ours."""
    mine = study.worker(worker)

    def one() -> int:
        trial = mine.ask()
        mine.tell(trial, SCORES[trial.id % 1000])
        return 1

    def many() -> int:
        trials = mine.ask(batch)
        mine.tell_many([(trial, SCORES[trial.id % 1000]) for trial in trials])
        return len(trials)

    return one if batch == 1 else many


@contextlib.contextmanager
def joined(
    open_: Callable[[str, str], Any], url: str, batch: int, ahead: int, name: str
) -> Iterator[Steps]:
    """A process of ours at a study, with what there is folded."""
    with contextlib.ExitStack() as stack:
        study = stack.enter_context(open_(url, name))
        _ = study.spent

        def at_hand(worker: str) -> Step:
            mine = stack.enter_context(study.worker(worker, ahead=ahead))

            def step() -> int:
                (trial,) = mine.ask(1)
                mine.tell(trial, SCORES[trial.id % 1000])
                return 1

            return step

        yield at_hand if ahead else partial(step_of, study, batch)


def asktell(
    label: str, url: str, batch: int = 1, ahead: int = 0, in_threads: bool = False
) -> Kind:
    """A way of ours."""
    kind: Any = RemoteStudy if url.startswith("http") else Study
    open_ = kind if kind is RemoteStudy else Study.open

    def create(name: str) -> None:
        with kind.create(url, name, new_selector()) as study:
            trial = study.ask()
            study.tell(trial, [0.5, 0.5])

    def count(name: str) -> int:
        with open_(url, name) as study:
            return int(study.spent) - 1

    return Kind(
        label, create, partial(joined, open_, url, batch, ahead), count, in_threads
    )


def optuna(label: str, storage_at: Callable[[], Any]) -> Kind:
    """A way of Optuna's."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space: Any = {"prompt": optuna.distributions.CategoricalDistribution(range(K))}

    def create(name: str) -> None:
        optuna.create_study(
            storage=storage_at(), study_name=name, directions=["maximize"] * 2
        )

    @contextlib.contextmanager
    def join(name: str) -> Iterator[Steps]:
        def steps(worker: str) -> Step:
            sampler = optuna.samplers.RandomSampler(seed=int(worker[1:]))
            study = optuna.load_study(
                storage=storage_at(), study_name=name, sampler=sampler
            )

            def step() -> int:
                trial = study.ask(space)
                study.tell(trial, SCORES[trial.number % 1000])
                return 1

            return step

        yield steps

    def count(name: str) -> int:
        states = (optuna.trial.TrialState.COMPLETE,)
        return len(
            optuna.load_study(storage=storage_at(), study_name=name).get_trials(
                deepcopy=False, states=states
            )
        )

    return Kind(label, create, join, count)


def kinds(folder: Path, server: str | None, service: str | None) -> Iterator[Kind]:
    """All of them."""
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    file = str(folder / "asktell.db")
    yield asktell("asktell, SQLite", file)
    yield asktell("asktell, SQLite, batches of 16", file, batch=16)
    yield asktell("asktell, SQLite, 16 ahead", file, ahead=15)
    yield asktell("asktell, SQLite, threads", file, in_threads=True)
    yield optuna(
        "Optuna, journal file",
        lambda: JournalStorage(JournalFileBackend(str(folder / "journal"))),
    )
    patient = {"connect_args": {"timeout": 100}}
    yield optuna(
        "Optuna, SQLite",
        lambda: RDBStorage(f"sqlite:///{folder / 'optuna.db'}", patient),
    )
    if server is not None:
        yield asktell("asktell, PostgreSQL", server)
        yield asktell("asktell, PostgreSQL, batches of 16", server, batch=16)
        yield asktell("asktell, PostgreSQL, 16 ahead", server, ahead=15)
        theirs = server.replace("postgresql://", "postgresql+psycopg://")
        yield optuna("Optuna, PostgreSQL", lambda: RDBStorage(theirs))
    if service is not None:
        yield asktell("asktell, HTTP", service)
        yield asktell("asktell, HTTP, batches of 16", service, batch=16)


def measure(kind: Kind, n: int, seconds: float, name: str) -> dict[str, float]:
    """Evaluations per second by n processes, or threads, that begin together; and the slowest step of them all.

    Raises:
        AssertionError: one of them failed, or the study does not have what was told.
    """
    kind.create(name)
    ready_read, ready = os.pipe()
    go, go_write = os.pipe()
    read, write = os.pipe()

    def work(step: Step) -> None:
        before_all = step()  # what is done once only is done now
        os.write(ready, b"x")
        os.read(go, 1)  # until nobody can write there any more
        n_told, slowest, start = 0, 0.0, time.perf_counter()
        before, end = start, start + seconds
        while before < end:
            n_told += step()
            now = time.perf_counter()
            before, slowest = now, max(slowest, now - before)
        os.write(write, f"{n_told} {before - start} {slowest} {before_all}\n".encode())

    gc.collect()
    # Or the first collection of each process copies whatever was imported here
    gc.freeze()
    children, threads = [], []
    with contextlib.ExitStack() as stack:
        if kind.in_threads:
            steps = stack.enter_context(kind.join(name))
            for i in range(n):
                threads.append(threading.Thread(target=work, args=(steps(f"w{i}"),)))
                threads[-1].start()
        else:
            for i in range(n):
                if not (pid := os.fork()):
                    try:
                        os.close(go_write)
                        with kind.join(name) as steps:
                            work(steps(f"w{i}"))
                        os._exit(0)
                    except BaseException:
                        sys.excepthook(*sys.exc_info())
                    finally:
                        os._exit(1)
                children.append(pid)
        waiting = n
        while waiting:
            waiting -= len(os.read(ready_read, waiting))
        os.close(go_write)
        for thread in threads:
            thread.join()
        statuses = [os.waitpid(pid, 0)[1] for pid in children]
    os.close(write)
    with os.fdopen(read) as lines:
        rows = [[float(word) for word in line.split()] for line in lines]
    for handle in (ready_read, ready, go):
        os.close(handle)
    assert not any(statuses), f"a process of {kind.name} failed"
    n_told = sum(row[0] + row[3] for row in rows)
    assert kind.count(name) == n_told, (
        f"{n_told} were told to {kind.name}, which has {kind.count(name)}"
    )
    return {
        "per second": sum(row[0] / row[1] for row in rows),
        "slowest": max(row[2] for row in rows),
    }


def run(
    chosen: list[Kind], workers: list[int], rounds: int, seconds: float
) -> dict[str, dict[int, dict[str, float]]]:
    """Medians over the rounds, of each kind by the number of workers."""
    seen: dict[tuple[str, int], list[dict[str, float]]] = {}
    for turn in range(rounds):
        for kind in chosen:
            for n in workers:
                speeds = measure(kind, n, seconds, f"{kind.name} {n} {turn}")
                seen.setdefault((kind.name, n), []).append(speeds)
                line = {
                    "kind": kind.name,
                    "workers": n,
                    **{what: round(x, 4) for what, x in speeds.items()},
                }
                print(
                    json.dumps({**line, "load": round(os.getloadavg()[0], 1)}),
                    flush=True,
                )
    return {
        kind.name: {
            n: {
                what: statistics.median(speeds[what] for speeds in seen[kind.name, n])
                for what in seen[kind.name, n][0]
            }
            for n in workers
        }
        for kind in chosen
    }


def render(medians: dict[str, dict[int, dict[str, float]]], note: str) -> str:
    """The table."""
    workers = list(next(iter(medians.values())))
    most = workers[-1]
    header = [
        "evaluations per second",
        *(f"{n} worker{'s' if n > 1 else ''}" for n in workers),
    ]
    rows = [
        [
            name,
            *(f"{by[n]['per second']:,.0f}" for n in workers),
            f"{by[most]['per second'] / by[workers[0]]['per second']:.2g}",
            f"{1e3 * by[most]['slowest']:,.0f} ms",
        ]
        for name, by in medians.items()
    ]
    return f"{note}\n\n{table([*header, f'{most} / {workers[0]}', f'slowest of {most}'], rows)}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds",
        type=float,
        default=3.0,
        help="for each number (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument(
        "--kinds",
        nargs="+",
        help="words, one of which a kind's name must have (default: all)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="on the disk to be measured (default: the system's temporary one)",
    )
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        server = None
        if find_binaries() is not None:
            server = stack.enter_context(
                postgresql_server(folder / "server", options="")
            ).url
        service = stack.enter_context(serving(f"sqlite:///{folder / 'served.db'}"))
        all_kinds = list(kinds(folder, server, service))
        chosen = [
            k
            for k in all_kinds
            if not arguments.kinds or any(word in k.name for word in arguments.kinds)
        ]
        medians = run(chosen, arguments.workers, arguments.rounds, arguments.seconds)
    load = os.getloadavg()[0]
    note = (
        f"{os.cpu_count()} cores, shared with the rivals' server and ours; medians of {arguments.rounds} rounds of "
        f"{arguments.seconds:g} s; load average of the machine at the end {load:.1f}."
    )
    print(render(medians, note))


if __name__ == "__main__":
    main()
