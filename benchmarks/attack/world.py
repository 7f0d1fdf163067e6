"""A selector, or a study with its handles, and what must be so by everything that its operations returned."""

import math
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from asktell import AsktellError, Selector, Study, Trial
from asktell.errors import InvalidStateError, StorageError
from asktell.studies.storages import AbstractStorage
from asktell.studies.storages.memory import MemoryStorage
from asktell.studies.storages.sqlite import SQLiteStorage
from benchmarks.attack.copies import (
    check_copies,
    check_saved,
    current,
    difference,
)
from benchmarks.attack.findings import BrokenPromiseError, promised
from benchmarks.attack.said import check_said
from benchmarks.attack.setups import Setup, good_cost, good_scores

NAME = "play"
START = 1.8e9
MAX_ATTEMPTS = 3


class Action(NamedTuple):
    """A call of a method, or a property, of one of the handles."""

    handle: int
    name: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    good: bool = True  # its arguments make sense by themselves

    def __str__(self) -> str:
        arguments = [
            *map(_short, self.args),
            *(f"{name}={_short(value)}" for name, value in self.options.items()),
        ]
        return f"handle {self.handle}: {self.name}({', '.join(arguments)})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


class World:
    """A selector, or a study with its handles, and what must be so by everything that returned."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self.now = START
        self.storages: list[AbstractStorage] = []
        self.handles: list[Any] = []
        self.known: dict[int, Trial] = {}  # all that were ever handed out
        self.worker_of: dict[int, str | None] = {}  # who got them last
        # Of those that must be out, with the deadline
        self.holders: dict[int, tuple[str | None, float]] = {}
        self.again: set[int] = set()  # handed back, or run out, at least once
        self.told: dict[int, tuple[float, ...]] = {}
        self.cost = 0.0
        # The number of a trial among those of its cell, when it was handed out
        self.repeats: dict[int, int] = {}
        self.joined: list[str] = []
        # By key: what was given to add(), and what it gave
        self.requests: dict[str, tuple[tuple[Any, ...], Any]] = {}
        self._memory = MemoryStorage(clock=lambda: self.now)
        self._folder = folder
        if setup.backend == "selector":
            self.handles.append(setup.selector())
            return
        self.handles.append(
            Study.create(
                self.storage(), NAME, setup.selector(), max_attempts=MAX_ATTEMPTS
            )
        )
        self.handles += [
            Study.open(self.storage(), NAME) for _ in range(setup.handles - 1)
        ]

    @property
    def is_study(self) -> bool:
        """Whether it is no mere selector."""
        return self.setup.backend != "selector"

    def storage(self) -> AbstractStorage:
        """A new object of the same storage."""
        if self.setup.backend == "memory":
            return self._memory
        if self.setup.backend == "sqlite":
            storage: AbstractStorage = SQLiteStorage(
                self._folder / "studies.db", clock=lambda: self.now
            )
        else:
            # Its client need not be there
            from asktell.studies.storages.postgresql import PostgreSQLStorage

            storage = PostgreSQLStorage(self.setup.backend, clock=lambda: self.now)
        self.storages.append(storage)
        return storage

    def close(self) -> None:
        """Let go of everything."""
        if self.storages and self.setup.backend != "sqlite":
            Study.delete(self.storages[0], NAME)
        for storage in self.storages:
            storage.close()

    # Acting

    def perform(self, action: Action) -> None:
        """Do it, and see that it did what it promises.

        Raises:
            BrokenPromiseError: it did not.
        """
        if action.name == "wait":
            self.now += action.args[0]
        elif action.name == "check":
            self.check(action.handle)
        elif action.name == "reopen":
            self._reopen(action)
        else:
            self._call(action)

    def _call(self, action: Action) -> None:
        handle = self.handles[action.handle]
        with promised("reading what was written"):
            before = self._seen(action)
        options = dict(action.options)
        args = action.args
        try:
            # A study is bound to the worker's name for one call, as by a process that
            # was restarted.
            binding = {
                name: options.pop(name)
                for name in ("worker", "lease", "besides")
                if name in options
            }
            if action.name == "heartbeat":
                binding["worker"], *args = args
            if binding:
                handle = handle.worker(binding.pop("worker", None), **binding)
            returned = getattr(handle, action.name)
            if callable(returned):
                returned = returned(*args, **options)
        except AsktellError as error:
            text = f"{action.name} raised {type(error).__name__}: {error}"
            if isinstance(
                error, InvalidStateError | StorageError
            ) or self._must_succeed(action):
                raise BrokenPromiseError(text) from error
            with promised("reading after an error"):
                after = self._seen(action)
            if after != before:
                changed = next(
                    difference(a, b)
                    for a, b in zip(after, before, strict=True)
                    if a != b
                )
                raise BrokenPromiseError(
                    f"{text} And yet it left a trace: {changed}"
                ) from error
        except Exception as error:
            raise BrokenPromiseError(
                f"{action.name} raised a bare {type(error).__name__}: {error}"
            ) from error
        else:
            getattr(self, f"_after_{action.name}", lambda *_: None)(action, returned)

    def _seen(self, action: Action) -> tuple[Any, ...]:
        """Everything, by one of the handles."""
        handle = self.handles[action.handle]
        if not self.is_study:
            return (handle.to_json(),)
        facts = current(handle)
        return (handle._replica._position, *facts)

    def _reopen(self, action: Action) -> None:
        with promised("opening it again"):
            if self.is_study:
                self.handles[action.handle] = Study.open(self.storage(), NAME)
            elif action.args[0] == "copy":
                self.handles[0] = self.handles[0].__copy__()
            else:
                self.handles[0] = Selector.from_json(self.handles[0].to_json())

    def _must_succeed(self, action: Action) -> bool:
        if not action.good:
            return False
        if action.name in ("tell", "fail", "release"):
            return self._is_held(action)
        return True

    def _is_held(self, action: Action) -> bool:
        """Whether who calls surely holds the trial."""
        id_ = id_of(action.args[0])
        if id_ not in self.holders:
            return False
        worker, deadline = self.holders[id_]
        return worker == action.options.get("worker") and self.now < deadline

    # What must be so afterwards

    def _after_ask(self, action: Action, found: Any) -> None:
        trials = [
            trial
            for trial in (found if isinstance(found, list) else [found])
            if trial is not None
        ]
        for id_ in [
            id_ for id_, (_, deadline) in self.holders.items() if deadline <= self.now
        ]:
            del self.holders[id_]
            self.again.add(id_)
        worker, lease = action.options.get("worker"), action.options.get("lease")
        deadline = (
            math.inf
            if not self.is_study
            else round(self.now + (600.0 if lease is None else lease), 3)
        )
        for trial in trials:
            if self.known.setdefault(trial.id, trial) != trial:
                raise BrokenPromiseError(f"trial {trial.id} was another one before")
            if trial.id in self.told:
                raise BrokenPromiseError(
                    f"trial {trial.id} was handed out again after its scores were taken"
                )
            holder = self.holders.get(trial.id, (worker, 0.0))[0]
            if trial.id in self.holders and (holder != worker or worker is None):
                raise BrokenPromiseError(
                    f"trial {trial.id} of {holder!r} was handed to {worker!r} before its lease ran out"
                )
            self.holders[trial.id] = worker, deadline
            self.worker_of[trial.id] = worker
            with promised("numbering a repeat"):
                self.repeats.setdefault(
                    trial.id, self.handles[action.handle].repeat_of(trial)
                )

    def _after_tell(self, action: Action, found: Any) -> None:
        if found is False:
            if self._is_held(action):
                raise BrokenPromiseError(
                    "the scores of who holds the trial were not taken"
                )
            id_ = id_of(action.args[0])
            # Told before, they are known already
            if id_ is not None and id_ not in self.again | self.told.keys():
                raise BrokenPromiseError(
                    "the scores of a trial that was handed out once were not taken"
                )
            return
        history = self._state(action).history
        id_ = id_of(action.args[0])
        id_ = int(history.trials()[-1]) if id_ is None else id_
        scores = history.scores_of(id_)
        if id_ in self.told:
            raise BrokenPromiseError(f"trial {id_} was told twice")
        self.told[id_] = scores
        self.cost += float(_cost(action, 2) or 0.0)
        self.holders.pop(id_, None)

    def _after_fail(self, action: Action, found: Any) -> None:
        if found is False:
            if self._is_held(action):
                raise BrokenPromiseError(
                    "the failure of who holds the trial was not taken"
                )
            return
        self.cost += float(_cost(action, 2) or 0.0)
        self._let_go(action)

    def _after_release(self, action: Action, found: Any) -> None:
        if found is not False:
            self._let_go(action)

    def _let_go(self, action: Action) -> None:
        """A trial, by whatever name, is out no more."""
        state = self._state(action)
        self.again |= {id_ for id_ in self.holders if id_ not in state.pending}
        self.holders = {
            id_: holder for id_, holder in self.holders.items() if id_ in state.pending
        }
        if (id_ := id_of(action.args[0])) is not None:
            self.again.add(id_)

    def _after_add(self, action: Action, found: Any) -> None:
        if list(found) != list(action.args[0]):
            raise BrokenPromiseError(
                f"add gave the ids {found} for {list(action.args[0])}"
            )
        self.joined += [id_ for id_ in found if id_ not in self.joined]
        if (key := action.options.get("key")) is not None:
            self.requests[key] = action.args, found

    def _after_heartbeat(self, action: Action, found: Any) -> None:
        lease = action.options.get("lease")
        for trial in found:
            if self.holders.get(trial.id, (action.args[0], 0))[0] != action.args[0]:
                raise BrokenPromiseError(
                    f"a heartbeat of {action.args[0]!r} extended trial {trial.id} of another"
                )
            self.holders[trial.id] = (
                action.args[0],
                round(self.now + (600.0 if lease is None else lease), 3),
            )

    def _state(self, action: Action) -> Any:
        handle = self.handles[action.handle]
        return handle._replica.engine.state if self.is_study else handle.state

    def check(self, number: int) -> None:
        """Compare everything with everything.

        Raises:
            BrokenPromiseError: it differs.
        """
        handle = self.handles[number]
        if self.is_study:
            fresh = self.storage()
            try:
                check_copies(handle, fresh)
            finally:
                if fresh is not self._memory:
                    fresh.close()
                    self.storages.remove(fresh)
            handle = handle.selector
        else:
            check_saved(handle)
        state = handle.state
        history = state.history
        rows = zip(
            history.trials().tolist(),
            map(tuple, history.scores().tolist()),
            strict=True,
        )
        asked = [(trial, scores) for trial, scores in rows if trial >= 0]
        failed = [(trial, scores) for trial, scores in asked if trial in state.failures]
        counted = (
            []
            if (worst := state.problem.failure_scores) is None
            else state.failures.pulls.trials().tolist()
        )
        if failed != [(trial, worst) for trial in counted]:
            raise BrokenPromiseError(
                f"failures count as {worst}, and what is there of {counted} is {failed}"
            )
        there = [
            (trial, scores) for trial, scores in asked if trial not in state.failures
        ]
        if sorted(there) != sorted(self.told.items()):
            raise BrokenPromiseError(
                f"what was told is not what is there: {difference(sorted(there), sorted(self.told.items()))}"
            )
        if state.spent != len(asked) or state.spent > handle.budget:
            raise BrokenPromiseError(
                f"{len(asked)} evaluations were told, {state.spent} are counted, {handle.budget} are allowed"
            )
        planned = len(state.plan.rest[0]) + len(state.plan.returned)
        if state.spent + len(state.pending) + planned > handle.budget:
            raise BrokenPromiseError(
                f"{planned} evaluations are planned, and {handle.budget} are allowed"
            )
        n_examples = state.problem.examples.n
        if n_examples is not None and sorted(state.problem.examples.order) != list(
            range(n_examples)
        ):
            raise BrokenPromiseError(
                "the order of the examples is no permutation of them"
            )
        if not math.isclose(state.costs.total, self.cost, rel_tol=1e-9, abs_tol=1e-9):
            raise BrokenPromiseError(
                f"a cost of {self.cost:g} was told, and {state.costs.total:g} is counted"
            )
        if (
            self.setup.budget == "bounded cost"
            and state.costs.total > state.problem.max_cost * (1 + 1e-9)
        ):
            raise BrokenPromiseError(
                f"a cost of {state.costs.total:g} was spent, {state.problem.max_cost:g} is allowed"
            )
        numbers = Counter(
            (self.known[id_].prompt_id, self.known[id_].example, self.repeats[id_])
            for id_ in self.told
        )
        if state.problem.examples.is_noisy and (
            again := [number for number, times in numbers.items() if times > 1]
        ):
            raise BrokenPromiseError(
                f"two evaluations were asked for under the same number: {again[0]}"
            )
        with promised("what a result says"):
            check_said(handle)
        if missing := [id_ for id_ in self.holders if id_ not in state.pending]:
            raise BrokenPromiseError(
                f"trial {missing[0]} is out, by all that was done, and the selector does not know of it"
            )

    def finish(self, rng: random.Random) -> None:
        """Go on in good order until it is done; and again with more of everything, where that can be.

        Raises:
            BrokenPromiseError: that does not end, or something on the way is not as
                promised.
        """
        self._to_the_end(rng)
        money = "evaluations" if self.setup.budget == "evaluations" else "cost"
        for number in range(2 if self.setup.takes_more else 0):
            name = f"late {number}"
            self.perform(Action(0, "add", ({name: f"prompt {name}"},), {"key": name}))
            self.perform(Action(0, "extend", (), {money: 5}))
            self._to_the_end(rng)

    def _to_the_end(self, rng: random.Random) -> None:
        options = {"worker": "last", "lease": 1e6} if self.is_study else {}
        for _ in range(500):
            self.now += 2e6
            self.perform(Action(0, "ask", (4,), options))
            handle = self.handles[0]
            with promised("reading what is out"):
                pending = handle.pending
            for trial in pending:
                cost = good_cost(rng, self.setup)
                self.perform(
                    Action(
                        0,
                        "tell",
                        (trial, good_scores(rng, self.setup), cost),
                        _only(options, "worker"),
                    )
                )
            with promised("asking whether it is done"):
                if handle.done:
                    break
        else:
            raise BrokenPromiseError("it does not come to its end")
        self.check(0)
        with promised("the last result"):
            if not self.handles[0].result().done:
                raise BrokenPromiseError("it is done, and its result is not")


def _only(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def id_of(trial: object) -> int | None:
    if type(trial) is Trial:
        trial = trial.id
    return (
        int(trial)
        if isinstance(trial, int | np.integer) and not isinstance(trial, bool)
        else None
    )


def _cost(action: Action, place: int) -> Any:
    """The cost in an action's arguments. NaN stands for an unknown cost, as None does."""
    cost = action.args[place] if len(action.args) > place else None
    is_nan = isinstance(cost, float | np.floating) and math.isnan(cost)
    return None if is_nan else cost
