"""How long telling, asking and opening take while very many trials are pending, as with a batch API or a large cluster.

Each number is the median of some repetitions, in milliseconds: `tell` books scores of
one trial, named by itself, by its id or by its prompt; `ask` asks for one more; opening
is from the storage, in CPU time. A study's times are with the file of SQLite and its
syncs to the disk, but for those in memory.

    python -m benchmarks.speed.pending --pending 100000
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from asktell import BestFeasible, Selector, Study
from asktell.studies.storages import AbstractStorage
from asktell.studies.storages.memory import MemoryStorage
from asktell.studies.storages.sqlite import SQLiteStorage
from benchmarks.results import table

_N_PROMPTS, _N_EXAMPLES = 10, 100_000
_REPETITIONS = 20


def new_selector() -> Selector:
    """Ten prompts, whose evaluations are planned all at once."""
    prompts = [f"Prompt {i}." for i in range(_N_PROMPTS)]
    return Selector(
        prompts, BestFeasible("accuracy"), 10**6, "uniform", examples=_N_EXAMPLES
    )


def milliseconds(
    call: Callable[[], object],
    repetitions: int = _REPETITIONS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repetitions):
        start = clock()
        call()
        times.append(1000 * (clock() - start))
    return median(times)


def measured(selection: Any, trials: list[Any]) -> dict[str, float]:
    """The times of a selection with these trials pending, which are told from both ends."""
    left = list(trials)
    return {
        "tell": milliseconds(lambda: selection.tell(left.pop(), 0.5)),
        "tell an id": milliseconds(lambda: selection.tell(left.pop().id, 0.5)),
        "tell a prompt": milliseconds(lambda: selection.tell(left[0].prompt, 0.5)),
        "tell, then ask": milliseconds(
            lambda: (selection.tell(left.pop(), 0.5), selection.ask())
        ),
    }


def main() -> None:
    """Print the times of a selector, and of studies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pending",
        type=int,
        default=100_000,
        help="trials that are out (default: %(default)s)",
    )
    n = parser.parse_args().pending
    selector = new_selector()
    times_of = {"selector": measured(selector, selector.ask(n))}
    with TemporaryDirectory() as folder:
        storages: dict[str, AbstractStorage] = {
            "memory": MemoryStorage(),
            "SQLite": SQLiteStorage(Path(folder) / "studies.db"),
        }
        for name, storage in storages.items():
            for of_worker in ("", ", of a worker"):
                study = Study.create(storage, f"study{of_worker}", new_selector())
                used = study.worker("w") if of_worker else study
                times = measured(used, used.ask(n))
                times["open"] = milliseconds(
                    partial(Study.open, storage, study.name), 3, time.process_time
                )
                times_of[f"study in {name}{of_worker}"] = times
    header = ["", "tell", "by its id", "by its prompt", "tell and ask", "opening, CPU"]
    rows = [
        [what, *(f"{time:.2f} ms" for time in times.values()), *[""] * (5 - len(times))]
        for what, times in times_of.items()
    ]
    print(table(header, rows))


if __name__ == "__main__":
    main()
