"""Many processes hammer one study, and some of them are killed: is everything that was promised still there?

    python -m benchmarks.durability.hammer sqlite:///hammer.db --processes 16 --killed 5 --budget 5000

Each process asks with a lease, evaluates, tells, and writes down what `tell` confirmed,
in a file of its own. A killed one (SIGKILL, at a random point of the study) comes back
under its old name half of the time. In the end:

- every score whose `tell` returned is in the study, once, as it was told;
- no trial was handed to a second worker unless its first lease had run out, or its
  process had been killed;
- no more evaluations than the budget were told;
- with a method that decides by rounds, the result is, in every bit, that of one process
  that was never disturbed. Its decisions depend on which pulls were told, and not on
  when; the scores here are a function of the pull, and no trial fails.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asktell import BestFeasible, Selector, Study, Trial
from asktell.record import Asked, Told
from asktell.studies.leases import Expired, Leased
from asktell.studies.log import decode

PROMPTS, EXAMPLES = 20, 400


def new_selector(budget: int, method: str = "csr-sh") -> Selector:
    """What is selected."""
    prompts = [f"prompt {i}" for i in range(PROMPTS)]
    return Selector(
        prompts, BestFeasible("a", {"b": 0.3}), budget, method, examples=EXAMPLES
    )


def evaluate(trial: Trial) -> list[float]:
    """Scores that follow from the prompt and the example."""
    bits = zlib.crc32(f"{trial.prompt} {trial.example}".encode())
    return [(bits & 0xFFFF) / 65536, (bits >> 16) / 65536]


def work(url: str, name: str, worker: str, record: Path, lease: float) -> None:
    """Ask, evaluate, tell, and write down what was confirmed."""
    rng = random.Random(worker)
    with Study.open(url, name) as study, record.open("ab", buffering=0) as file:
        while not study.done:
            # Bound again for each ask, as by a worker that was restarted
            mine = study.worker(worker, lease=lease)
            trials = mine.ask(rng.choice([1, 1, 3]))
            size = rng.choice([1, 3])
            for batch in (trials[i : i + size] for i in range(0, len(trials), size)):
                for trial in batch:
                    file.write(b"%s\n" % json.dumps(["asked", trial.id]).encode())
                    time.sleep(rng.expovariate(500))
                if size == 1:
                    outcomes = [mine.tell(batch[0], evaluate(batch[0]))]
                else:
                    outcomes = mine.tell_many(
                        [(trial, evaluate(trial)) for trial in batch]
                    )
                for trial, outcome in zip(batch, outcomes, strict=True):
                    file.write(
                        b"%s\n" % json.dumps(["told", trial.id, outcome]).encode()
                    )
            if not trials:
                time.sleep(0.02)


def hammer(
    url: str, processes: int, killed: int, budget: int, lease: float, seed: int = 0
) -> dict[str, Any]:
    """Run it, check it, and return what was seen.

    Raises:
        AssertionError: a promise was broken.
    """
    rng, name = random.Random(seed), f"hammer {seed}"
    study = Study.create(url, name, new_selector(budget), max_attempts=1000)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        records = {f"w{i}": Path(folder) / str(i) for i in range(processes)}
        running = {
            _fork(url, name, worker, records[worker], lease): worker
            for worker in records
        }
        kills = sorted(rng.randrange(budget * 3 // 4) for _ in range(killed))
        n_killed = 0
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                worker = running.pop(pid)
                assert status in (0, signal.SIGKILL), (
                    f"{worker} ended with status {status}"
                )
                if status and rng.random() < 0.5:
                    running[_fork(url, name, worker, records[worker], lease)] = worker
            elif kills and study.spent >= kills[0]:
                kills.pop(0)
                time.sleep(rng.random() * 0.01)
                os.kill(rng.choice(list(running)), signal.SIGKILL)
                n_killed += 1
            else:
                time.sleep(0.002)
        seconds = time.perf_counter() - start
        confirmed, asked = _confirmed(list(records.values()))
    _check(study, confirmed, budget)
    again = _check_log(study)
    return {
        "processes": processes,
        "killed": n_killed,
        "budget": budget,
        "spent": study.spent,
        "handed out": asked,
        "re-issued": again,
        "seconds": round(seconds, 2),
    }


def _fork(url: str, name: str, worker: str, record: Path, lease: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(url, name, worker, record, lease)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _confirmed(records: Sequence[Path]) -> tuple[set[int], int]:
    """Trials of which a `tell` returned True, and how often a trial was handed out."""
    lines = []
    for path in records:
        if path.exists():
            lines += [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return {line[1] for line in lines if line[0] == "told" and line[2]}, sum(
        line[0] == "asked" for line in lines
    )


def _check(study: Study, told: set[int], budget: int) -> None:
    history = study.selector.state.history
    trials = history.trials().tolist()
    assert len(set(trials)) == len(trials) == study.spent <= budget, (
        "a trial was told twice, or beyond the budget"
    )
    assert told <= set(trials), f"confirmed and lost: {sorted(told - set(trials))}"
    alone = new_selector(budget)
    while trial := alone.ask():
        alone.tell(trial, evaluate(trial))
    assert study.done
    assert study.result().to_dict() == alone.result().to_dict(), (
        "another result than without disturbance"
    )


def _check_log(study: Study) -> int:
    """Re-issued trials; every one of them after its lease had run out."""
    holder: dict[int, str] = {}
    n_told: dict[int, int] = {}
    again = 0
    for line in study._replica.storage.read(study._replica.key, 0):
        entries = decode(line.text)
        for entry in entries:
            if isinstance(entry, Leased):
                late = any(isinstance(e, Told) for e in entries)
                for trial in entry.trials:
                    assert late or holder.get(trial, entry.worker) == entry.worker, (
                        f"trial {trial} has two holders"
                    )
                    holder[trial] = entry.worker
            elif isinstance(entry, Expired):
                del holder[entry.trial]
                again += 1
            elif isinstance(entry, Asked):
                assert entry.trial not in holder, (
                    f"trial {entry.trial} was asked while it was held"
                )
            elif isinstance(entry, Told):
                n_told[entry.trial] = n_told.get(entry.trial, 0) + 1
    assert set(n_told.values()) == {1}, "a trial was told twice"
    return again


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Hammer a study with many processes, and kill some of them."
    )
    parser.add_argument("url", help="where: sqlite:///PATH or postgresql://...")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--killed", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5000)
    parser.add_argument("--lease", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seen = hammer(
        arguments.url,
        arguments.processes,
        arguments.killed,
        arguments.budget,
        arguments.lease,
        arguments.seed,
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
