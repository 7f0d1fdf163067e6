"""Semantic plays: every operation with every argument, good and bad, in random order, on studies and on selectors.

A play is a list of actions that are all known before they are performed, so that a
failing one is shrunk by leaving actions out. At random instants, and at the end,
everything that can be made anew is: the log replayed from scratch, the study opened
with its snapshots, and imported from its export, must each equal the live state in
every bit. An operation that raised must have left no trace, and what is asked in good
order must not raise at all.
"""

import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from unittest import mock

from asktell.studies import replica
from benchmarks.attack.dealer import Dealer
from benchmarks.attack.findings import BrokenPromiseError, Finding, Limit, Report
from benchmarks.attack.setups import Setup
from benchmarks.attack.world import Action, World


@contextmanager
def _conditions() -> Iterator[None]:
    """Snapshots all the time, and no warnings."""
    with (
        mock.patch.object(replica, "ENTRIES_PER_SNAPSHOT", 8),
        mock.patch.object(replica, "HEAD_BYTES_PER_ENTRY", 10**9),
        # It takes longer than all the rest of a saved selector.
        mock.patch("importlib.metadata.version", cache(version)),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", RuntimeWarning)
        yield


def perform(
    setup: Setup, actions: Sequence[Action] | None, length: int = 80
) -> tuple[list[Action], str | None]:
    """Play given actions, or new ones; what was played, and the promise that was broken."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _conditions(),
        closing(World(setup, Path(folder))) as world,
    ):
        dealer = Dealer(random.Random(f"play {setup.seed}"), world)
        played: list[Action] = []
        try:
            for i in range(length if actions is None else len(actions)):
                played.append(dealer.next() if actions is None else actions[i])
                world.perform(played[-1])
            world.check(0)
            world.finish(random.Random(f"finish {setup.seed}"))
        except BrokenPromiseError as error:
            return played, str(error)
        return played, None


def shrunk(
    setup: Setup, actions: list[Action], broken: str, seconds: float = 10.0
) -> tuple[list[Action], str]:
    """As few of the actions as break the same promise; bounded in time."""
    end = time.monotonic() + seconds
    size = max(1, len(actions) // 2)
    while size:
        start = 0
        while start < len(actions) and time.monotonic() < end:
            fewer = actions[:start] + actions[start + size :]
            _, breach = perform(setup, fewer)
            if breach is not None and breach[:30] == broken[:30]:
                actions, broken = fewer, breach
            else:
                start += size
        size //= 2
    return actions, broken


def described(setup: Setup, actions: Sequence[Action], broken: str) -> Finding:
    """A broken promise, with what leads to it."""
    in_postgresql = setup.backend.startswith("postgresql")
    kind = f"{setup.method}, {setup.goal}, budget of {setup.budget}, {setup.sampling}, examples {setup.examples}"
    lines = [
        f"{kind}, {'PostgreSQL' if in_postgresql else setup.backend}",
        *map(str, actions),
    ]
    command = (
        f"python -m benchmarks.attack plays --seed {setup.seed} --cases 1"
        + " --url URL" * in_postgresql
    )
    return Finding(broken, command, "\n".join(lines))


def attack(seed: int, limit: Limit, url: str | None = None) -> Report:
    """Play after play."""
    report = Report()
    for number in limit.numbers():
        report.cases += 1
        setup = Setup.of(seed + number, url)
        actions, broken = perform(setup, None)
        if broken is not None and report.is_new(broken):
            actions, broken = shrunk(setup, actions, broken)
            report.add(described(setup, actions, broken))
    return report
