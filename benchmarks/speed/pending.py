"""How long telling, asking and opening take while very many trials are pending, as with a batch API or a large cluster.

Each line is the median of some repetitions, in milliseconds: `tell` books scores of one
trial, named by itself, by its id or by its prompt; `ask` asks for one more; `open`
opens the study from its storage. A study's times are with the file of SQLite and its
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
from asktell.storages import AbstractStorage
from asktell.storages.memory import MemoryStorage
from asktell.storages.sqlite import SQLiteStorage

_N_PROMPTS, _N_EXAMPLES = 10, 100_000
_REPETITIONS = 20


def new_selector() -> Selector:
    """Ten prompts, whose evaluations are planned all at once."""
    prompts = [f"Prompt {i}." for i in range(_N_PROMPTS)]
    return Selector(
        prompts, BestFeasible("accuracy"), 10**6, "uniform", examples=_N_EXAMPLES
    )


def milliseconds(call: Callable[[], object], repetitions: int = _REPETITIONS) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
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
    show("selector", measured(selector, selector.ask(n)))
    with TemporaryDirectory() as folder:
        storages: dict[str, AbstractStorage] = {
            "memory": MemoryStorage(),
            "SQLite": SQLiteStorage(Path(folder) / "studies.db"),
        }
        for name, storage in storages.items():
            for of_worker in ("", ", of a worker"):
                study = Study.create(storage, f"study{of_worker}", new_selector())
                used = study.worker("w") if of_worker else study
                found = measured(used, used.ask(n))
                found["open"] = milliseconds(
                    partial(Study.open, storage, study.name), 3
                )
                show(f"study in {name}{of_worker}", found)


def show(what: str, found: dict[str, float]) -> None:
    """Print a line of times."""
    print(
        f"{what:<32}",
        "   ".join(f"{name} {time:.2f}" for name, time in found.items()),
        flush=True,
    )


if __name__ == "__main__":
    main()
