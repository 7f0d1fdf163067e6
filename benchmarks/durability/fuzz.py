"""Malformed input, many thousands of times: whatever is loaded is whole, or an AsktellError, and nothing else.

    python -m benchmarks.durability.fuzz --cases 100000

Saved selectors, exported studies and snapshots are damaged at random: values of the
JSON replaced, removed, repeated or moved, and bytes of the text changed. What loads all
the same must go on working.
"""

import argparse
import copy
import json
import random
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from asktell import AsktellError, BestFeasible, ParetoSet, Selector, Study
from asktell.selector import at_state
from asktell.studies import snapshots
from asktell.studies.storages.memory import MemoryStorage

MARK = "put deep or long JSON here"
DEEP = [
    *("[" * n + "]" * n for n in (50, 300, 900, 990, 10**5)),
    *('{"a":' * n + "1" + "}" * n for n in (300, 10**5)),
]
LONG = [*("9" * n for n in (400, 4300, 4301, 20_000)), "1" * 400 + ".5", "-1e400"]
"""JSON that Python does not parse, or parses into what it cannot write."""

STRANGE: list[Any] = [
    *[
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        7,
        2**31,
        2**62,
        2**64,
        -(2**70),
        0.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
    ],
    *[
        "",
        "a",
        "uniform",
        "\0",
        "\ud800",
        "x" * 5000,
        [],
        [[]],
        {},
        [0],
        [None, None],
        {"type": "Adaptive"},
        [1, 2, 3],
    ],
    *[MARK, MARK, *"atrfodlxnqe", "shared", "iid", "failed", "rejected", "retired"],
]


def samples(
    seed: int = 0,
) -> tuple[list[str], list[list[str]], list[tuple[Any, bytes, list[bytes], str]]]:
    """Saved selectors, lines of exported studies, and snapshots with their problems."""
    rng = random.Random(seed)
    selectors, studies, saved = [], [], []
    for method in ["auto", "csr-sh", "uniform", "ege-sr"]:
        goal = (
            ParetoSet("a", "b") if method == "ege-sr" else BestFeasible("a", {"b": 0.4})
        )
        features = np.arange(10.0).reshape(5, 2) if method == "uniform" else None
        selector = Selector(
            [f"p{i}" for i in range(5)], goal, 30, method, examples=8, features=features
        )
        now = [1.8e9]
        storage = MemoryStorage(clock=lambda now=now: now[0])  # type: ignore[misc]
        study = Study.create(storage, method, selector)
        study._replica._next_save = 20
        study.observe("p1", [0.5, 0.5], 3)
        for _ in range(40):
            now[0] += rng.choice([0, 0, 40])
            for trial in study.worker(rng.choice("vw"), lease=30).ask(2):
                if (roll := rng.random()) < 0.7:
                    study.tell(trial, [rng.random(), rng.random()], cost=0.5)
                elif roll < 0.8:
                    study.fail(trial, "reason")
            if method == "auto" and rng.random() < 0.2:
                study.add([f"new {rng.random()}"])
                study.extend(rng.choice([1, 3]), examples=rng.choice([None, 2]))
                study.retire(
                    len(study.selector.prompts) - 1, "no good", key=str(rng.random())
                )
        selectors.append(study.selector.to_json())
        with tempfile.TemporaryDirectory() as folder:
            study.export(Path(folder) / "s")
            studies.append((Path(folder) / "s").read_text().splitlines())
        snapshot = storage.snapshot(1)
        assert snapshot is not None
        line = storage.read(1, snapshot.position - 1, 1)[0].text
        saved.append(
            (
                study.selector.state.growth.origin,
                snapshot.head,
                list(snapshot.parts),
                line,
            )
        )
    return selectors, studies, saved


def damaged(text: str, rng: random.Random) -> bytes:
    """The text with some damage."""
    if rng.random() < 0.3:
        data = bytearray(text.encode("utf-8", "surrogatepass"))
        for _ in range(rng.randint(1, 4)):
            i = rng.randrange(len(data))
            j = min(len(data), i + rng.choice([0, 1, 1, 5, 100]))
            data[i:j] = rng.choice(
                [
                    b"",
                    bytes([rng.randrange(256)]),
                    b"9",
                    b'"',
                    b"[",
                    b"]",
                    b"-",
                    b"e9",
                    data[:20],
                ]
            )
            if not data:
                break
        return bytes(data)
    data_ = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        _damage(data_, rng)
    text = json.dumps(data_).replace(f'"{MARK}"', rng.choice([*DEEP, *LONG]))
    return text.encode("utf-8", "surrogatepass")


def _damage(data: Any, rng: random.Random) -> None:
    """Change one value, somewhere."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        if not keys:
            return
        key = rng.choice(keys)
        value = data[key]
        if isinstance(value, dict | list) and value and rng.random() < 0.8:
            data = value
            continue
        roll = rng.random()
        if roll < 0.5:
            data[key] = copy.deepcopy(rng.choice(STRANGE))
        elif roll < 0.65:
            del data[key]
        elif roll < 0.8 and isinstance(data, list):
            data.insert(key, copy.deepcopy(rng.choice(data)))
        elif type(value) in (int, float):
            data[key] = value + rng.choice([-1, 1, 1000])
        else:
            data[key] = [value]
        return


def work_on(selector: Selector) -> None:
    """Some steps with what was loaded."""
    for trial in selector.ask(3):
        selector.tell(trial, [0.5] * len(selector.metrics))
    assert selector.done in (True, False)


def fuzz(cases: int, seed: int = 0) -> dict[str, dict[str, int]]:
    """What became of so many damaged inputs, of each kind.

    Raises:
        Exception: anything but an AsktellError was raised.
    """
    rng = random.Random(seed)
    selectors, studies, saved = samples()

    def of_selector() -> None:
        work_on(Selector.from_json(damaged(rng.choice(selectors), rng)))

    def of_study() -> None:
        whole = rng.choice(studies)
        lines = [line.encode() for line in whole]
        i, roll = rng.randrange(len(lines)), rng.random()
        if roll < 0.8:
            lines[i] = damaged(whole[i], rng)
        elif roll < 0.9:
            del lines[i]
        else:
            lines.insert(i, rng.choice(lines))
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"\n".join(lines) + b"\n")
            file.flush()
            work_on(Study.import_(MemoryStorage(), file.name).selector)

    def of_snapshot() -> None:
        problem, head, parts, line = rng.choice(saved)
        parts = list(parts)
        if rng.random() < 0.5:
            head = zlib.compress(damaged(zlib.decompress(head).decode(), rng))
        else:
            i = rng.randrange(len(parts))
            parts[i] = zlib.compress(damaged(zlib.decompress(parts[i]).decode(), rng))
        state, _ = snapshots.load(head, parts, problem, line)
        prompts = [f"p{i}" for i in range(problem.n_arms)]
        at_state(
            Selector(prompts, problem.goal, 4 * problem.n_arms, "uniform"), state
        ).result()

    kinds: dict[str, Callable[[], None]] = {
        "selector": of_selector,
        "study": of_study,
        "snapshot": of_snapshot,
    }
    seen: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    for i in range(cases):
        kind = list(kinds)[i % len(kinds)]
        try:
            kinds[kind]()
            seen[kind]["loaded"] += 1
        except AsktellError:
            seen[kind]["refused"] += 1
        except BaseException:
            print(f"Case {i}, {kind}, of seed {seed}:", file=sys.stderr)
            raise
    return {kind: dict(counts) for kind, counts in seen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Load damaged selectors, studies and snapshots."
    )
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.perf_counter()
    seen = fuzz(arguments.cases, arguments.seed)
    print(json.dumps({**seen, "seconds": round(time.perf_counter() - start)}))


if __name__ == "__main__":
    main()
