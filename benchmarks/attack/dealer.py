"""Chooses what is done next: every operation, with every argument, good and bad."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from asktell import Trial
from benchmarks.attack.setups import PROMPTS, example_names, good_cost, good_scores
from benchmarks.attack.world import Action, World, id_of

NAN, INF = math.nan, math.inf
BAD_SCORES = [
    [NAN, NAN],
    [INF, 0.5],
    [0.5] * 3,
    [],
    {},
    {"a": NAN, "b": 1},
    {"a": 1, "zz": 1},
    None,
    5,
    "text",
    [None],
]
BAD_COSTS = [NAN, -1.0, INF, "1", 10**400, True, [1.0], None]
BAD_TRIALS = [
    -1,
    10**6,
    2**70,
    "nobody",
    None,
    1.5,
    True,
    Trial(0, "id0", "x", 999),
    Trial("0", 0, "", 0),
    b"x",
    [],
]  # type: ignore[arg-type]
BAD_WORKERS = ["", 5, "a\nb", "x" * 201, b"w"]
BAD_LEASES = [NAN, -1.0, 0, INF, 1e10, "1", True]
BAD_COUNTS = [-1, 1.5, True, "2", 2**70]
BAD_BESIDES: list[Any] = [5, [None], ["x"], [[]], "text", [1.5]]
BAD_REASONS = [None, 5, b"x", ["text"]]
BAD_PROMPTS: list[Any] = [
    {"id0": "new"},
    {"new": "prompt 0"},
    ["no id"],
    {},
    [],
    "text",
    None,
    {1: "x"},
    {"x": 1},
]
BAD_MORE: list[Any] = [0, -1, NAN, INF, True, "1", [], 10**400, ""]
REASONS = ["text", ValueError("no"), "\ud800\n\0", "", "x" * 5000]
WORKERS = [None, "v", "w", "x"]
LEASES = [None, 5.0, 30, 1e6]


class Dealer:
    """Chooses the next action by what the world looks like."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self._rng = rng
        self._world = world
        deals: dict[Callable[[], Action], int] = {
            self._ask: 25,
            self._tell: 30,
            self._bad_tell: 10,
            self._fail: 5,
            self._release: 5,
            self._observe: 4,
            self._read: 6,
            self._reopen: 2,
            self._check: 3,
            self._add: 2,
            self._retire: 2,
            self._extend: 2,
        }
        if world.is_study:
            deals |= {self._heartbeat: 4, self._wait: 6}
        self._deals, self._weights = list(deals), list(deals.values())

    def next(self) -> Action:
        """An action."""
        return self._rng.choices(self._deals, self._weights)[0]()

    def _handle(self) -> int:
        return self._rng.randrange(len(self._world.handles))

    def _is_bad(self) -> bool:
        return self._rng.random() < 0.15

    def _trial(self) -> Any:
        """One that was handed out, most likely one that is still out; by any of its names."""
        out = (
            list(self._world.holders)
            if self._rng.random() < 0.8
            else list(self._world.known)
        )
        if not out:
            return self._rng.choice([0, 1, "prompt 0"])
        trial = self._world.known[self._rng.choice(out)]
        return self._rng.choice(
            [
                trial,
                trial,
                trial.id,
                trial.id,
                np.int64(trial.id),
                trial.prompt,
                trial.prompt_id,
            ]
        )

    def _worker(self, trial: object = None) -> dict[str, Any]:
        """Mostly who has the trial."""
        if not self._world.is_study:
            return {}
        worker = (
            self._world.worker_of.get(id_of(trial) or 0)
            if self._rng.random() < 0.8
            else self._rng.choice(WORKERS)
        )
        return {} if worker is None else {"worker": worker}

    def _ask(self) -> Action:
        rng, bad = self._rng, self._is_bad()
        count = rng.choice([None, 1, 1, 2, 3, 8, 0])
        if not self._world.is_study:
            return Action(
                0, "ask", (rng.choice(BAD_COUNTS) if bad else count,), good=not bad
            )
        options: dict[str, Any] = {}
        if (worker := rng.choice(WORKERS)) is not None:
            options = {"worker": worker, "lease": rng.choice(LEASES)}
            if rng.random() < 0.2:
                options["besides"] = rng.sample(
                    list(self._world.known), min(2, len(self._world.known))
                )
        args: tuple[Any, ...] = (count,)
        if bad:
            place = rng.randrange(4)
            if place == 0:
                args = (rng.choice(BAD_COUNTS),)
            else:
                name, values = [
                    ("worker", BAD_WORKERS),
                    ("lease", BAD_LEASES),
                    ("besides", BAD_BESIDES),
                ][place - 1]
                options[name] = rng.choice(values)
        return Action(self._handle(), "ask", args, options, not bad)

    def _tell(self) -> Action:
        """As it should be, also late, again, or something else than before."""
        trial, rng, world = self._trial(), self._rng, self._world
        scores = good_scores(rng, world.setup)
        if (
            before := world.told.get(id_of(trial) or 0)
        ) is not None and rng.random() < 0.5:
            scores = list(before)
        cost = good_cost(rng, world.setup)
        return Action(
            self._handle(), "tell", (trial, scores, cost), self._worker(trial)
        )

    def _bad_tell(self) -> Action:
        rng = self._rng
        trial = (
            self._trial()
            if rng.random() < 0.7
            else rng.choice(list(self._world.known) or [0])
        )
        arguments = [
            trial,
            good_scores(rng, self._world.setup),
            good_cost(rng, self._world.setup),
        ]
        options = self._worker(trial)
        place = rng.randrange(4)
        if place < 3:
            arguments[place] = rng.choice([BAD_TRIALS, BAD_SCORES, BAD_COSTS][place])  # type: ignore[arg-type]
        elif self._world.is_study:
            options["worker"] = rng.choice(BAD_WORKERS)
        return Action(self._handle(), "tell", tuple(arguments), options, good=False)

    def _fail(self) -> Action:
        rng, trial, bad = self._rng, self._trial(), self._is_bad()
        arguments = [
            trial,
            rng.choice(REASONS),
            rng.choice([None, good_cost(rng, self._world.setup)]),
        ]
        if bad:
            place = rng.randrange(3)
            arguments[place] = rng.choice([BAD_TRIALS, BAD_REASONS, BAD_COSTS][place])  # type: ignore[arg-type]
        return Action(
            self._handle(), "fail", tuple(arguments), self._worker(trial), not bad
        )

    def _release(self) -> Action:
        trial, bad = self._trial(), self._is_bad()
        released = self._rng.choice(BAD_TRIALS) if bad else trial
        return Action(
            self._handle(), "release", (released,), self._worker(trial), not bad
        )

    def _observe(self) -> Action:
        rng, bad, setup = self._rng, self._is_bad(), self._world.setup
        example: Any = (
            None
            if setup.examples is None
            else rng.choice([None, rng.randrange(setup.examples)])
        )
        if setup.named and example is not None and rng.random() < 0.5:
            example = f"example {example}"
        arguments = [self._prompt(), good_scores(rng, setup), example]
        if bad:
            place = rng.randrange(3)
            arguments[place] = rng.choice(
                [["nobody", None, 1.5, []], BAD_SCORES, [-1, 10**6, 1.5, True, "0"]][
                    place
                ]
            )
        return Action(self._handle(), "observe", tuple(arguments), good=not bad)

    def _prompt(self) -> str:
        """One of the first prompts, or of those that joined."""
        return self._rng.choice([*PROMPTS, *PROMPTS.values(), *self._world.joined])

    def _add(self) -> Action:
        """Often of one that is there already, and sometimes the same request once more."""
        rng, bad = self._rng, self._is_bad()
        there = rng.sample(sorted(PROMPTS), rng.choice([0, 0, 1]))
        requests = self._world.requests
        if requests and rng.random() < 0.2:
            key = rng.choice(sorted(requests))
            return Action(self._handle(), "add", requests[key][0], {"key": key})
        new = [str(rng.getrandbits(60)) for _ in range(rng.choice([1, 1, 3]))]
        prompts = {id_: PROMPTS[id_] for id_ in there} | {
            name: f"prompt {name}" for name in new
        }
        added: Any = rng.choice(BAD_PROMPTS) if bad else prompts
        options = {"key": f"key {new[0]}"} if rng.random() < 0.5 else {}
        return Action(
            self._handle(),
            "add",
            (added,),
            options,
            good=not bad and self._world.setup.takes_more,
        )

    def _retire(self) -> Action:
        rng, bad = self._rng, self._is_bad()
        prompt = rng.choice(["nobody", None, 1.5]) if bad else self._prompt()
        # It may be retired already
        return Action(
            self._handle(), "retire", (prompt, rng.choice(REASONS)), good=False
        )

    def _extend(self) -> Action:
        rng, bad, setup = self._rng, self._is_bad(), self._world.setup
        name = "evaluations" if setup.budget == "evaluations" else "cost"
        options: dict[str, Any] = {name: rng.choice([1, 3])}
        if setup.examples is not None and rng.random() < 0.4:
            n, start = rng.choice([1, 2]), rng.randrange(10**9)
            more = {"examples": example_names(start, start + n) if setup.named else n}
            options = {**options, **more} if rng.random() < 0.5 else more
        if bad:
            options = {
                rng.choice(["evaluations", "cost", "examples", "key"]): rng.choice(
                    BAD_MORE
                )
            }
        return Action(
            self._handle(), "extend", (), options, not bad and setup.takes_more
        )

    def _heartbeat(self) -> Action:
        rng, bad = self._rng, self._is_bad()
        worker = rng.choice(BAD_WORKERS if bad and rng.random() < 0.5 else WORKERS[1:])
        options = {"lease": rng.choice(BAD_LEASES if bad else LEASES)}
        return Action(self._handle(), "heartbeat", (worker,), options, not bad)

    def _read(self) -> Action:
        names = ["result", "result", "done", "pending", "spent", "n_active"]
        return Action(
            self._handle(),
            self._rng.choice(names + ["selector", "workers"] * self._world.is_study),
        )

    def _reopen(self) -> Action:
        return Action(self._handle(), "reopen", (self._rng.choice(["copy", "load"]),))

    def _check(self) -> Action:
        return Action(self._handle(), "check")

    def _wait(self) -> Action:
        return Action(0, "wait", (self._rng.choice([0.01, 3, 20, 100, 700, 2e6]),))
