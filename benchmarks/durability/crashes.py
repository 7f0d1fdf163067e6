"""SIGKILL at a random instant, thousands of times: is everything that returned still there, once?

    python -m benchmarks.durability.crashes --kills 2000
    python -m benchmarks.durability.crashes --kills 500 --url postgresql://...

A child works on a study and writes down in shared memory what it is about to do and
what has returned; the parent kills it at a random instant, opens the study, and checks
it. The next child goes on with the same study, so that damage would add up. Two kinds
of work:

- `create`: one study after another, with some being deleted;
- `work`: ask, tell, decide, snapshot, heartbeat, release, fail, add, extend and retire,
  with snapshots every few entries, by a method that decides often; every now and then
  somebody else adds and extends in between.

What a kill cannot show is the loss of power: it leaves what the kernel has been given.
For that, count the fsyncs: `--fsyncs` runs asks and tells under strace.
"""

import argparse
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asktell import (
    AsktellError,
    BestFeasible,
    Selector,
    Study,
    StudyNotFoundError,
    Tell,
)
from asktell.record import Engine
from asktell.studies import replica

PHASES = [
    "elsewhere",
    "create",
    "delete",
    "ask",
    "tell",
    "decide",
    "snapshot",
    "other",
    "grow",
]


class Board:
    """Memory shared by parent and child: the phase, and a growing list of (what, trial, score)."""

    _ROW = struct.Struct("<qqd")

    def __init__(self, rows: int = 100_000) -> None:
        self._memory = mmap.mmap(-1, 16 + rows * self._ROW.size)

    def clear(self) -> None:
        """Forget everything."""
        self._memory[:16] = bytes(16)

    def enter(self, phase: str) -> None:
        """What is being done now."""
        self._memory[8] = PHASES.index(phase)

    @property
    def phase(self) -> str:
        """What is, or was, being done."""
        return PHASES[self._memory[8]]

    def add(self, what: int, trial: int, score: float = 0.0) -> None:
        """Write down what has returned."""
        (n,) = struct.unpack_from("<q", self._memory, 0)
        self._ROW.pack_into(self._memory, 16 + n * self._ROW.size, what, trial, score)
        # last: a row counts once it is whole
        struct.pack_into("<q", self._memory, 0, n + 1)

    def rows(self) -> list[tuple[int, int, float]]:
        """What had returned."""
        (n,) = struct.unpack_from("<q", self._memory, 0)
        return [
            self._ROW.unpack_from(self._memory, 16 + i * self._ROW.size)
            for i in range(n)
        ]


ASKED, TOLD, CREATED, DELETED, FINISHED, ADDED, EXTENDED, RETIRED, BATCH = range(9)


def watch(board: Board) -> None:
    """Let the board know when a study decides and makes snapshots (in the child)."""

    def wrap(kind: type, name: str, phase: str) -> None:
        inner = getattr(kind, name)

        def call(self: Any, *args: Any) -> Any:
            before = board.phase
            board.enter(phase)
            try:
                return inner(self, *args)
            finally:
                board.enter(before)

        setattr(kind, name, call)

    wrap(replica.Replica, "save", "snapshot")
    wrap(Engine, "next_decision", "decide")


def killed(
    board: Board, work: Callable[[], None], longest: float, rng: random.Random
) -> None:
    """Run `work` in a child, and kill it at a random instant."""
    board.clear()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    while not board.rows() and board.phase == "elsewhere":
        time.sleep(0.0001)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:  # too short a work to be hit
            assert status == 0, f"the child failed: {status}"
            return
    time.sleep(rng.random() * longest)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), f"the child failed: {status}"


def new_selector(seed: int = 0) -> Selector:
    return Selector(
        [f"prompt {i}" for i in range(6)],
        BestFeasible("a", {"b": 0.3}),
        400,
        "auto",
        seed=seed,
        examples=99,
    )


def last_batch(board: Board) -> set[int]:
    """The trials of the batch that was told last, if nothing else was done since."""
    rows = board.rows()
    start = max(
        (i for i, (what, _, _) in enumerate(rows) if what == BATCH), default=None
    )
    if start is None:
        return set()
    asked = [
        (i, trial)
        for i, (what, trial, _) in enumerate(rows[start + 1 :], start + 1)
        if what == ASKED
    ]
    n = int(rows[start][1])
    return {trial for _, trial in asked} if len(asked) == n else set()


def crash_work(url: str, kills: int, rng: random.Random) -> Counter[str]:
    """Kill a worker again and again."""
    board, seen = Board(), Counter[str]()
    replica.ENTRIES_PER_SNAPSHOT, replica.HEAD_BYTES_PER_ENTRY = 12, 10**9
    number, confirmed, added, budget = 0, dict[int, float](), set[int](), 400
    Study.create(url, "work 0", new_selector()).close()
    for _ in range(kills):
        name = f"work {number}"

        def work(name: str = name, seed: int = rng.getrandbits(60)) -> None:
            watch(board)
            choice = random.Random(seed)
            with Study.open(url, name) as study:
                while not study.done:
                    if choice.random() < 0.3:
                        board.enter("grow")
                        i = choice.getrandbits(40)
                        study.add([f"new {i}"])
                        board.add(ADDED, i)
                        study.extend(evaluations=2)
                        board.add(EXTENDED, 2)
                        if choice.random() < 0.7:
                            study.retire(f"new {i}", "reason")
                            board.add(RETIRED, i)
                        board.enter("elsewhere")
                    board.enter("ask")
                    trials = study.worker("w", lease=1e6).ask(choice.choice([1, 2, 4]))
                    board.enter("elsewhere")
                    if len(trials) > 1 and choice.random() < 0.5:
                        board.add(BATCH, len(trials))
                        tells = []
                        for trial in trials:
                            board.add(ASKED, trial.id)
                            score = choice.random()
                            tells.append(
                                Tell(trial, [score, 1.0], None, {"output": score})
                            )
                        board.enter("tell")
                        study.worker("w").tell_many(tells)
                        for tell in tells:
                            board.add(TOLD, tell.trial.id, tell.scores[0])
                        board.enter("elsewhere")
                        trials = []
                    for trial in trials:
                        board.add(ASKED, trial.id)
                        roll, score = choice.random(), choice.random()
                        if roll < 0.05:
                            board.enter("other")
                            study.worker("w").heartbeat()
                            study.release(trial)
                        elif roll < 0.07:
                            board.enter("other")
                            study.fail(trial, "reason")
                        else:
                            board.enter("tell")
                            study.worker("w").tell(
                                trial, [score, 1.0], details={"output": score}
                            )
                            board.add(TOLD, trial.id, score)
                        board.enter("elsewhere")

        killed(board, work, 0.06, rng)
        seen[board.phase] += 1
        confirmed.update(
            {trial: score for what, trial, score in board.rows() if what == TOLD}
        )
        asked = {trial for what, trial, _ in board.rows() if what == ASKED}
        with Study.open(url, name) as study:
            history = study.selector.state.history
            there = dict(
                zip(
                    history.trials().tolist(),
                    history.scores()[:, 0].tolist(),
                    strict=True,
                )
            )
            assert len(there) == len(history) == study.spent <= study.budget, (
                "a score is there twice"
            )
            assert there.items() >= confirmed.items(), (
                "a confirmed score is lost or changed"
            )
            outputs = {
                e.trial: e.details["output"]
                for e in study.evaluations()
                if e.scores and e.details
            }
            assert outputs == there, "the details are not those of the scores"
            batch = last_batch(board)
            assert len(batch & there.keys()) in (0, len(batch)), (
                "a batch is there in part"
            )
            assert len(there) <= len(confirmed) + max(1, len(batch)), (
                "there are scores that nobody told"
            )
            confirmed = there
            assert max(asked, default=-1) < study.selector.state.plan.asked, (
                "what was asked is forgotten"
            )
            held = study._replica.leases.held("w")
            assert sorted(
                trial.id
                for trial in study.worker("w", lease=1e6).ask(max(1, len(held)))
            )[: len(held)] == (sorted(held)), "a worker does not get back what it held"
            joined = {
                int(text.split()[1])
                for text in study.selector.prompts.texts
                if text.startswith("new")
            }
            new = {i for what, i, _ in board.rows() if what == ADDED}
            assert joined >= added | new, "a prompt that joined is lost"
            assert len(joined) <= len(added | new) + 1, (
                "there are prompts that nobody added"
            )
            more = sum(n for what, n, _ in board.rows() if what == EXTENDED)
            assert 0 <= study.budget - budget - more <= 2, (
                "the budget is not what it was extended to"
            )
            out = {
                entry.prompt
                for entry in study.result().prompts
                if entry.status == "retired"
            }
            assert out >= {
                f"new {i}" for what, i, _ in board.rows() if what == RETIRED
            }, "a retired prompt is back"
            if rng.random() < 0.1:
                study.add([f"new {rng.getrandbits(40)}"])
                study.extend(evaluations=1)
            added = {
                int(text.split()[1])
                for text in study.selector.prompts.texts
                if text.startswith("new")
            }
            budget, done = study.budget, study.done
        if done:
            number, confirmed, added, budget = number + 1, {}, set(), 400
            Study.create(url, f"work {number}", new_selector(number)).close()
    return seen


def crash_create(url: str, kills: int, rng: random.Random) -> Counter[str]:
    """Kill whoever creates and deletes."""
    board, seen, there = Board(), Counter[str](), set[int]()
    text = new_selector().to_json()
    for start in range(0, kills * 1000, 1000):

        def work(start: int = start) -> None:
            for i in range(start, start + 1000):
                board.enter("create")
                Study.create(url, f"study {i}", Selector.from_json(text)).close()
                board.add(CREATED, i)
                if i % 3 == 0:
                    board.enter("delete")
                    Study.delete(url, f"study {i}")
                    board.add(DELETED, i)

        killed(board, work, 0.15, rng)
        seen[board.phase] += 1
        there |= {i for what, i, _ in board.rows() if what == CREATED}
        there -= {i for what, i, _ in board.rows() if what == DELETED}
        try:
            names = set(Study.names(url))
        except StudyNotFoundError:
            assert not there
            continue
        missing = {i for i in there if f"study {i}" not in names}
        assert not missing or (board.phase == "delete" and missing == {max(there)}), (
            f"lost: {missing}"
        )
        assert len(names) <= len(there) + 1
        for name in names:
            if int(name.split()[1]) >= start or rng.random() < 0.05:
                with Study.open(url, name) as study:
                    assert study.selector.to_json() == text, (
                        "a study is not what it was made of"
                    )
        for name in names:
            Study.delete(url, name)
        there = set()
    return seen


def count_fsyncs(folder: Path) -> dict[str, float]:
    """Per ask and per tell, by strace; checkpoints of the write-ahead log included."""
    counts = {}
    for what in ("ask", "ask and tell"):
        script = (
            "import sys; from asktell import *\n"
            "s = Study.create(sys.argv[1], 'x', Selector(['x', 'y'], BestFeasible('a'), 3000, 'uniform'))\n"
            "if sys.argv[2] != 'ask': s = s.worker('w', lease=60)\n"
            "for i in range(1000):\n    t = s.ask()\n    if sys.argv[2] != 'ask': s.tell(t, [1.0])\n"
        )
        path = folder / f"fsync {what}.db"
        command = [
            "strace",
            "-f",
            "-c",
            "-e",
            "trace=fsync,fdatasync",
            sys.executable,
            "-c",
            script,
            str(path),
            what,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        calls = [
            int(count)
            for count in re.findall(
                r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s", done.stderr, re.MULTILINE
            )
        ]
        counts[what] = sum(calls[:-1]) / 1000  # the last line is the total
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Kill processes that work on a study, at random instants."
    )
    parser.add_argument("--kills", type=int, default=1000, help="of each kind of work")
    parser.add_argument(
        "--url",
        help="of a PostgreSQL database; by default a SQLite file in a temporary folder",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fsyncs", action="store_true", help="count fsyncs instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.fsyncs:
            print(json.dumps(count_fsyncs(folder)))
            return
        runs: dict[str, Callable[[random.Random], Counter[str]]] = {
            "create": lambda rng: crash_create(
                arguments.url or str(folder / "create.db"), arguments.kills, rng
            ),
            "work": lambda rng: crash_work(
                arguments.url or str(folder / "work.db"), arguments.kills, rng
            ),
        }
        for kind, run in runs.items():
            start = time.perf_counter()
            seen = run(random.Random(f"{kind} {arguments.seed}"))
            line = {"work": kind, "kills": seen.total(), "in": dict(seen.most_common())}
            print(
                json.dumps({**line, "seconds": round(time.perf_counter() - start)}),
                flush=True,
            )


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, AsktellError) as error:
        sys.exit(f"A promise was broken: {type(error).__name__}: {error}")
