"""The load that a service holds: `python -m benchmarks.speed.service [--url sqlite:///FILE]`.

A service in a process of its own, and 1, 4 and 16 clients in processes of their own at
one study, each asking for a trial by its name and telling its scores, as fast as it
can, over one connection that stays open. The first row is the same loop on the study
itself, in the same run, without a service between: what HTTP adds is the difference.
Clients and service share the machine's cores, so that much of the load is the clients'
own.

Every answer that is not a success, retries included, counts as an error. In the end the
study must have exactly as many evaluations as were told.

With `--cpu N`, only the CPU time of the service and of one client for each of N
requests, on Linux: what else runs on the machine counts less there.
"""

import argparse
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from asktell import AsktellError, BestFeasible, RemoteStudy, Selector, Study
from benchmarks.results import table

CLIENTS = (1, 4, 16)
PROMPTS, EXAMPLES, BUDGET = 100, 10_000, 1_000_000


class Row(NamedTuple):
    """What some clients saw in a time: seconds of each ask and tell, and errors."""

    label: str
    seconds: float
    asks: list[float]
    tells: list[float]
    errors: int


def new_selector() -> Selector:
    """What is selected; no decision falls into the time that is measured but the first."""
    prompts = [f"prompt {i}" for i in range(PROMPTS)]
    return Selector(
        prompts, BestFeasible("a", {"b": 0.3}), BUDGET, "uniform", examples=EXAMPLES
    )


def loop(study: Any, worker: str, until: float) -> tuple[list[float], list[float], int]:
    """Ask and tell until a time."""
    asks: list[float] = []
    tells: list[float] = []
    errors, clock = 0, time.perf_counter
    mine = study.worker(worker)
    while time.time() < until:
        try:
            start = clock()
            trial = mine.ask()
            asked = clock()
            mine.tell(trial, [0.1 * (trial.id % 10), 0.5])
            asks.append(asked - start)
            tells.append(clock() - asked)
        except AsktellError:
            errors += 1
    return asks, tells, errors


def client(
    url: str, name: str, worker: str, seconds: float, ready: Any, results: Any
) -> None:
    """One client, in its process, that begins when all are there."""
    with RemoteStudy.open(url, name, retries=0) as study:
        ready.wait()
        results.put(loop(study, worker, time.time() + seconds))


def measure(url: str, n_clients: int, seconds: float) -> Row:
    """A row for some clients at a new study."""
    name = f"{n_clients} clients"
    with RemoteStudy.create(url, name, new_selector()) as study:
        context = multiprocessing.get_context("spawn")
        results, ready = context.Queue(), context.Barrier(n_clients)
        arguments = [
            (url, name, f"w{i}", seconds, ready, results) for i in range(n_clients)
        ]
        processes = [context.Process(target=client, args=a) for a in arguments]
        for process in processes:
            process.start()
        parts = [results.get() for _ in processes]
        for process in processes:
            process.join()
        asks, tells = ([x for part in parts for x in part[i]] for i in (0, 1))
        if study.spent != len(tells):
            raise SystemExit(
                f"{len(tells)} evaluations were told, and the study has {study.spent}."
            )
    plural = "s" if n_clients > 1 else ""
    return Row(
        f"{n_clients} client{plural}, HTTP",
        seconds,
        asks,
        tells,
        sum(part[2] for part in parts),
    )


def cpu_table(url: str, n_requests: int) -> str:
    """The CPU time of the service and of one client for a request, half asks and half tells."""
    with (
        serving_process(url) as (service, pid),
        RemoteStudy.create(service, "cpu", new_selector()) as study,
    ):
        mine = study.worker("w")

        def requests(n: int) -> None:
            for _ in range(n // 2):
                mine.tell(mine.ask(), [0.1, 0.5])

        requests(100)
        before = cpu_of(pid), time.process_time()
        requests(n_requests)
        after = cpu_of(pid), time.process_time()
    ms = [
        1e3 * (then - now) / n_requests for now, then in zip(before, after, strict=True)
    ]
    rows = zip(("the service", "the client"), (f"{x:.2f}" for x in ms), strict=True)
    return table(["", "CPU ms per request"], rows)


def cpu_of(pid: int) -> float:
    """Seconds of CPU time that a process has taken."""
    # Behind the name, which may have spaces: the 12th and 13th field are user and system
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def render(rows: list[Row]) -> str:
    """The table."""
    cells = []
    for row in rows:
        n_requests = len(row.asks) + len(row.tells)
        times = [
            f"{pick(times) * 1e3:.2f}"
            for times in (row.asks, row.tells)
            for pick in (statistics.median, _p99)
        ]
        failed = row.errors / max(1, n_requests + row.errors)
        cells.append(
            [
                row.label,
                f"{n_requests / row.seconds:.0f}",
                *times,
                f"{row.errors} ({failed:.2%})",
            ]
        )
    header = [
        "",
        "requests/s",
        "ask ms, median",
        "p99",
        "tell ms, median",
        "p99",
        "errors",
    ]
    return table(header, cells)


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def main() -> None:
    """Parse the command line, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--url",
        help="of an empty storage (default: a SQLite file in a folder of its own)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="for each row (default: %(default)s)",
    )
    parser.add_argument(
        "--cpu", type=int, metavar="N", help="CPU time for each of N requests, only"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = args.url or f"sqlite:///{folder}/studies.db"
        if args.cpu:
            print(cpu_table(url, args.cpu))
            return
        rows = [_direct(url, args.seconds)]
        rows += served(
            url, lambda service: [measure(service, n, args.seconds) for n in CLIENTS]
        )
    text = f"2 shared cores; load average of the machine at the end: {os.getloadavg()[0]:.1f}.\n\n{render(rows)}"
    print(text)
    print(
        json.dumps({row.label: [len(row.tells), row.errors] for row in rows}),
        file=sys.stderr,
    )


def _direct(url: str, seconds: float) -> Row:
    with Study.create(url, "direct", new_selector()) as study:
        return Row(
            "the study itself, no HTTP",
            seconds,
            *loop(study, "w", time.time() + seconds),
        )


def served(url: str, use: Callable[[str], list[Row]]) -> list[Row]:
    """What is measured at a service of this storage."""
    with serving(url) as service:
        return use(service)


@contextmanager
def serving(url: str) -> Iterator[str]:
    """The address of a service of this storage, in a process of its own."""
    with serving_process(url) as (address, _):
        yield address


@contextmanager
def serving_process(url: str) -> Iterator[tuple[str, int]]:
    """The address of a service of this storage, and the id of its process."""
    command = [
        sys.executable,
        "-m",
        "asktell_adapters.cli.main",
        "serve",
        url,
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            match = re.search(r"http://\S+", process.stdout.readline())
            if match is None:
                raise SystemExit("The service did not start.")
            yield match[0], process.pid
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
