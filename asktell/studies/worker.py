"""One worker of a study, with the interface of a selector. It passes its name, and extends its leases by heartbeats."""

import contextlib
import functools
import inspect
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Event, Thread
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from asktell.errors import AsktellError, StorageError, TellManyError
from asktell.methods import Method
from asktell.problem.candidates import AnyTrial, Tell, Trial, from_json
from asktell.problem.checks import check_name, check_seconds, whole
from asktell.problem.goals import Goal, Scores
from asktell.selector import Selection, SelectionWorker, Selector
from asktell.studies.base import AbstractStudy
from asktell.studies.leases import Holding

_T = TypeVar("_T")
_P = ParamSpec("_P")
Details: TypeAlias = Mapping[str, Any]
_log = logging.getLogger("asktell")
# seconds: a worker gives up when the storage has been unreachable for so long
_PATIENCE = 60.0
_LONGEST_WAIT = 1.0  # seconds between two calls of `ask` that return nothing
# Seconds of waiting until a worker first logs what it waits for, and until it logs that
# again.
_SAID_AFTER, _SAID_AGAIN = 2.0, 60.0


def default_name() -> str:
    """Make a name that no other worker has."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:4]}"


def held_by(holdings: Sequence[Holding], now: float) -> str:
    """Describe which workers hold how many trials, and until when, in this machine's local time."""
    held: dict[str | None, list[float]] = {}
    for holding in holdings:
        held.setdefault(holding.worker, []).append(holding.seconds_left or 0.0)
    parts = []
    for worker, left in held.items():
        trials = f"{len(left)} trial{'s' if len(left) > 1 else ''}"
        if worker is None:
            parts.append(
                f"{trials} asked without a worker's name, until told, failed or released"
            )
        else:
            until = datetime.fromtimestamp(now + max(0.0, *left))
            parts.append(
                f"{trials} held by worker {worker} until {until:%H:%M:%S}, or longer if it is still running"
            )
    return "; ".join(parts)


def _of_study(name: str) -> Any:
    """Make a property that reads the study's property of this name, and retries while the storage is unreachable."""
    return property(
        lambda self: self._persist(lambda: getattr(self.study, name)),
        doc=f"See `Study.{name}`.",
    )


def _persisted(
    method: Callable[Concatenate[Any, _P], _T],
) -> Callable[Concatenate[Any, _P], _T]:
    """Make a method that calls the study's method of this name, and retries while the storage is unreachable.

    If the method takes a `key`, all attempts have the same one, so that the change is
    made once.
    """
    has_key = "key" in inspect.signature(method).parameters

    @functools.wraps(method, updated=())
    def persisted(self: "Worker", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if has_key:
            kwargs["key"] = kwargs.get("key") or uuid.uuid4().hex
        call: Callable[_P, _T] = getattr(self.study, method.__name__)
        return self._persist(lambda: call(*args, **kwargs))

    return persisted


class Worker(SelectionWorker):
    """One worker of a study. Use it in a `with` block, in which a thread extends its leases.

    Made by `Study.worker`, which describes the arguments. `asktell.run` accepts it like
    a selector.

    `pending` has the trials of this worker only, and `ask` never returns them again.
    After a restart, `ask` first returns the trials that the worker held before.

    If the storage is unreachable, the worker retries for a minute. If it becomes
    unreachable during `tell`, the scores may have been recorded by the first attempt,
    and then the retry returns False.
    """

    selector: Selector = _of_study("selector")
    goal: Goal = _of_study("goal")
    method: Method = _of_study("method")
    example_ids: tuple[str, ...] | None = _of_study("example_ids")
    done: bool = _of_study("done")
    paused: bool = _of_study("paused")
    spent: int = _of_study("spent")
    budget: int = _of_study("budget")
    spent_cost: float = _of_study("spent_cost")
    max_cost: float | None = _of_study("max_cost")
    n_active: int = _of_study("n_active")

    def __init__(
        self,
        study: AbstractStudy,
        name: str | None = None,
        lease: float = 60.0,
        ahead: int = 0,
    ) -> None:
        self.study = study
        self.name = default_name() if name is None else check_name("A worker", name)
        self.lease = check_seconds("lease", lease)
        self.ahead = whole("ahead", ahead, 0)
        # Requested in advance, and not returned by `ask` yet
        self._at_hand: list[Trial] = []
        self._out: dict[int, Trial] = {}  # returned by `ask`, and still pending; by id
        self._stop = Event()
        self._thread: Thread | None = None
        self._blocks = 0  # nested `with` blocks
        self._idle = 0.0  # seconds of the last wait
        self._quiet_until = 0.0  # no message about waiting before this time
        # True from the request for trials until they are in `_out`
        self._asking = False
        # True once the log has the message that this worker waits for the end of a
        # pause
        self._waits = False
        self._unwanted: frozenset[int] = frozenset()  # ids, as of the last heartbeat

    def __enter__(self) -> "Worker":
        self._blocks += 1
        if self._blocks == 1:
            self._stop.clear()
            self._thread = Thread(
                target=self._beat, name=f"heartbeat of {self.name}", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._blocks -= 1
        if self._blocks == 0 and self._thread is not None:
            self._stop.set()
            self._thread.join()
            if self._asking or self._at_hand:
                self._release_unseen()

    def _ask(self, n: int) -> list[Trial]:
        if len(self._at_hand) < n:
            busy = (*self._out, *(trial.id for trial in self._at_hand))
            more = n - len(self._at_hand) + self.ahead
            self._asking = True
            try:
                self._at_hand += self._persist(
                    lambda: self.study.ask(
                        more, worker=self.name, lease=self.lease, besides=busy
                    )
                )
            except AsktellError:
                self._asking = False
                raise
        trials, self._at_hand = self._at_hand[:n], self._at_hand[n:]
        self._out.update({trial.id: trial for trial in trials})
        self._asking = False
        self._waits = self._waits and not trials
        return trials

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        details: Details | None = None,
    ) -> bool:
        trial = self._own(trial)
        return self._report(
            trial,
            lambda: self.study.tell(
                trial, scores, cost, worker=self.name, details=details
            ),
        )

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        batch = list(tells)
        outcomes: Sequence[bool | Exception] = ()
        try:
            outcomes = taken = self._persist(
                lambda: self.study.tell_many(batch, worker=self.name)
            )
        except TellManyError as error:
            outcomes = error.outcomes
            raise
        finally:
            for item, outcome in zip(batch, outcomes, strict=False):
                if not isinstance(outcome, Exception):
                    self._end(item[0])
        return taken

    def fail(
        self,
        trial: AnyTrial,
        reason: str | BaseException,
        cost: float | None = None,
        *,
        details: Details | None = None,
    ) -> bool:
        trial = self._own(trial)
        return self._report(
            trial,
            lambda: self.study.fail(
                trial, reason, cost, worker=self.name, details=details
            ),
        )

    def release(self, trial: AnyTrial) -> bool:
        trial = self._own(trial)
        self._end(trial)  # no retry: the lease will expire
        return self.study.release(trial, worker=self.name)

    # An `observe` that is retried may be recorded twice: it has no key.
    observe = _persisted(Selection.observe)
    repeat_of = _persisted(Selection.repeat_of)
    add = _persisted(Selection.add)
    retire = _persisted(Selection.retire)
    extend = _persisted(Selection.extend)
    remark = _persisted(Selection.remark)
    result = _persisted(Selection.result)
    compare = _persisted(Selection.compare)
    evaluations = _persisted(Selection.evaluations)
    report = _persisted(Selection.report)

    @property
    def pending(self) -> list[Trial]:
        return sorted(self._out.values())

    @property
    def unwanted(self) -> list[Trial]:
        return [trial for trial in self.pending if trial.id in self._unwanted]

    def wait(self) -> bool:
        if self.done:
            return False
        if not self._waits and self.paused:
            self._waits = True
            _log.warning(
                "The study is paused: %s waits until it is resumed.", self.name
            )
        elif not self._waits:
            self._say_what_for()
        self._idle = min(_LONGEST_WAIT, 2 * self._idle or 0.02)
        self._persist(lambda: self.study.wait(self._idle))
        return True

    def _say_what_for(self) -> None:
        """Log which workers hold the trials that this one waits for: after a short wait, and then once a minute."""
        now = time.monotonic()
        if not self._idle:
            self._quiet_until = max(self._quiet_until, now + _SAID_AFTER)
        if now >= self._quiet_until:
            others = [
                each
                for each in self._persist(self.study.workers)
                if each.worker != self.name
            ]
            if others:
                self._quiet_until = now + _SAID_AGAIN
                _log.warning("Waiting for %s.", held_by(others, time.time()))

    def _own(self, trial: AnyTrial) -> Trial | int | str:
        """Return the trial or, for a prompt, the id of its oldest pending trial of this worker."""
        trial = from_json(trial)
        if not isinstance(trial, str):
            return trial
        own = [
            each.id
            for each in self._out.values()
            if trial in (each.prompt, str(each.prompt_id))
        ]
        return min(own, default=trial)

    def _report(self, trial: AnyTrial, operation: Callable[[], bool]) -> bool:
        taken = self._persist(operation)
        self._end(trial)
        return taken

    def _end(self, trial: AnyTrial) -> None:
        self._idle = 0.0
        id_ = getattr(trial, "id", trial)
        if isinstance(id_, int):
            self._out.pop(id_, None)

    def _persist(self, operation: Callable[[], _T]) -> _T:
        """Call the operation until the storage can be reached. It must be safe to repeat.

        Raises:
            StorageError: the storage was unreachable for a minute.
        """
        deadline, delay = time.monotonic() + _PATIENCE, 0.1
        while True:
            try:
                return operation()
            except StorageError as error:
                if time.monotonic() + delay > deadline:
                    raise
                _log.warning("%s", error)
            time.sleep(delay)
            delay = min(5.0, 2 * delay)

    def _release_unseen(self) -> None:
        """Release trials that `ask` never returned: requested in advance, or lost to a signal during the request."""
        self._asking, self._at_hand = False, []
        with contextlib.suppress(AsktellError):
            for trial in self.study.heartbeat(self.name, lease=self.lease):
                if trial.id not in self._out:
                    self.study.release(trial, worker=self.name)

    def _beat(self) -> None:
        while not self._stop.wait(self.lease / 3):
            if self._out or self._at_hand:
                try:
                    self.study.heartbeat(self.name, lease=self.lease)
                    held = [
                        each
                        for each in self.study.workers()
                        if each.worker == self.name
                    ]
                    self._unwanted = frozenset(
                        each.trial.id for each in held if not each.wanted
                    )
                except AsktellError as error:
                    # The next heartbeat may succeed, and so may a late tell
                    _log.warning("The heartbeat of %s failed: %s", self.name, error)
