"""What a study bound to a worker's name keeps in this process: trials at hand, heartbeats, and how it waits.

The log of the study decides which worker holds a trial. A `Worker` only remembers which
trials `ask` returned in this process, so that it returns no trial twice.
"""

import math
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from threading import Event, Lock, Thread
from typing import TypeVar

from asktell._util.forks import fresh_after_fork
from asktell._util.log import log
from asktell.errors import AsktellError, InvalidArgumentError, StorageError
from asktell.numerics.intmap import IntMap
from asktell.problem.checks import as_integer, check_name, check_number, whole
from asktell.problem.trials import AnyTrial, Trial, from_json
from asktell.problem.words import short
from asktell.studies.leases import Holding

_T = TypeVar("_T")
# Seconds of a lease by default. Heartbeats extend it within a `with` block. Without
# them, it must last longer than most evaluations.
_LEASE, _LEASE_WITHOUT_HEARTBEATS = 60.0, 600.0
# Seconds until `patiently` gives up
_PATIENCE = 60.0
# Seconds of the first and of the longest wait for the trials of other workers
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
# Seconds of waiting until a worker first logs what it waits for, and until it logs that
# again.
_SAID_AFTER, _SAID_AGAIN = 2.0, 60.0
_TRIALS_SHOWN = 3  # of each worker, in messages


def default_name() -> str:
    """Make a name that no other worker has."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def patiently(operation: Callable[[], _T]) -> _T:
    """Repeat an operation until the storage can be reached. It must be safe to repeat.

    Raises:
        StorageError: the storage was unreachable for a minute.
    """
    deadline, delay, logged = time.monotonic() + _PATIENCE, 0.1, ""
    while True:
        try:
            return operation()
        except StorageError as error:
            if time.monotonic() + delay > deadline:
                raise
            # Not the same at every attempt
            if str(error) != logged:
                logged = str(error)
                log.warning("The storage failed, and is tried again. %s", logged)
        time.sleep(delay)
        delay = min(5.0, 2 * delay)


class Worker:
    """One worker of a study in this process.

    Attributes:
        name: the worker's name.
        instance: text that tells this worker from others of the same name. Empty if the
            name was made here, so that no other worker has it.
        lease: seconds until a lease expires.
        ahead: number of trials to request in advance.
        out: trials that `ask` returned and that are still pending, by id.
        at_hand: trials that were requested in advance, and not returned by `ask` yet.
        is_asking: True from a request for trials until they are in `out` or `at_hand`.
            A signal may lose them meanwhile.
        has_heartbeats: True inside a `with` block.
        unwanted: ids of pending trials whose prompts were eliminated or retired, as of
            the last heartbeat.
        looked: the time, by the storage's clock, at which the study last extended the
            leases that were in their second half.
    """

    def __init__(
        self,
        name: str | None,
        lease: float | None,
        ahead: int,
        besides: Collection[int],
        instance: str | None = None,
    ) -> None:
        self.name = (
            default_name() if name is None else check_name("The name of a worker", name)
        )
        if instance is None:
            instance = "" if name is None else uuid.uuid4().hex[:8]
        self.instance = instance
        self._lease = None if lease is None else check_seconds("lease", lease)
        self.lease = self._lease or _LEASE_WITHOUT_HEARTBEATS
        self.ahead = whole("`ahead`", ahead, 0)
        self._besides = check_trials("`besides`", besides)
        self.out: dict[int, Trial] = {}
        # The ids of `out` by the text and by the id of their prompt
        self._out_of: dict[str, set[int]] = {}
        # Blocks of trials that this worker holds and is busy with. See `idle`
        self._busy_blocks: dict[int, Mapping[int, None]] = {}
        self.at_hand: list[Trial] = []
        self.is_asking = False
        self.unwanted: frozenset[int] = frozenset()
        self.has_heartbeats = False
        self._blocks = 0  # nested `with` blocks
        self._stop = Event()
        self._thread: Thread | None = None
        self._idle = 0.0  # seconds of the last wait
        self._quiet_until = 0.0  # no message about waiting before this time
        # True once the log has the message that this worker waits for the end of a
        # pause
        self._waits_for_resume = False
        self.looked = -math.inf
        self._asking = Lock()
        fresh_after_fork(self, Worker._renew)

    def _renew(self) -> None:
        """Begin again in a forked process. A thread of the parent may hold the lock, and the parent has the name."""
        self._asking = Lock()
        if self.instance:
            self.instance = uuid.uuid4().hex[:8]

    # Trials

    def busy(self) -> list[int]:
        """Ids of trials that the study must not return to this worker again."""
        busy = [*map(int, self._besides), *self.out]
        for trial in self.at_hand:
            busy.append(trial.id)
        return busy

    def idle(self, held: IntMap[None], n: int) -> list[int]:
        """Return up to n of the trials that this worker holds and is not busy with, oldest first.

        Reads only the blocks that changed since all of their trials were busy.
        """
        at_hand = set(map(attrgetter("id"), self.at_hand))
        ids: list[int] = []
        for number, block in held.blocks():
            if self._busy_blocks.get(number) is block:
                continue
            idle = [
                id_
                for id_ in block
                if not (id_ in self.out or id_ in at_hand or id_ in self._besides)
            ]
            if not idle:
                self._busy_blocks[number] = block
            ids += sorted(idle)
            if len(ids) >= n:
                break
        return ids[:n]

    def ask(self, n: int, hand_out: Callable[[int], list[Trial]]) -> list[Trial]:
        """Return up to n trials at hand, which are out from now on. Calls `hand_out` if there are too few."""
        # One thread at a time. The study hands out again what this worker holds and is
        # not busy with, so two threads could otherwise get the same trial.
        with self._asking:
            return self._ask(n, hand_out)

    def _ask(self, n: int, hand_out: Callable[[int], list[Trial]]) -> list[Trial]:
        if len(self.at_hand) < n:
            more = n - len(self.at_hand) + self.ahead
            self.is_asking = True
            try:
                self.at_hand += self.repeated(hand_out, more)
            except AsktellError:
                self.is_asking = False
                raise
        trials, self.at_hand = self.at_hand[:n], self.at_hand[n:]
        for trial in trials:
            self.out[trial.id] = trial
            for name in (trial.prompt, str(trial.prompt_id)):
                self._out_of.setdefault(name, set()).add(trial.id)
        self.is_asking = False
        self._waits_for_resume = self._waits_for_resume and not trials
        return trials

    def own(self, trial: AnyTrial) -> Trial | int | str:
        """Return the trial or, for a prompt, the id of the oldest trial of it that is out."""
        if isinstance(trial, Trial):
            return trial
        trial_or_prompt = from_json(trial)
        if not isinstance(trial_or_prompt, str):
            return trial_or_prompt
        return min(
            tuple(self._out_of.get(trial_or_prompt, ())), default=trial_or_prompt
        )

    def finish(
        self, operation: Callable[..., bool], trial: AnyTrial, *args: object
    ) -> bool:
        """Do an operation that ends a trial, with more arguments. Repeat it like `repeated`."""
        if type(trial) is not Trial:
            trial = self.own(trial)
        is_new = (
            operation(trial, *args)
            if not self.has_heartbeats
            else patiently(lambda: operation(trial, *args))
        )
        self.ended(trial)
        return is_new

    def ended(self, trial: AnyTrial) -> None:
        """The trial was recorded, has failed or was released."""
        self._idle = 0.0
        if not isinstance(trial, Trial):
            trial = self.own(trial)
        id_ = trial.id if isinstance(trial, Trial) else trial
        if not isinstance(id_, int):  # a prompt without a trial that is out
            return
        trial_out = self.out.pop(id_, None)
        if self._busy_blocks:
            self._busy_blocks.pop(IntMap.block_of(id_), None)
        if trial_out is not None:
            for name in (trial_out.prompt, str(trial_out.prompt_id)):
                self._out_of[name].discard(id_)

    # Heartbeats

    def begin(self, beat: Callable[[], None]) -> None:
        """Enter a `with` block. The outermost one calls `beat` three times per lease, in a thread."""
        self._blocks += 1
        self.has_heartbeats = True
        self.lease = self._lease or _LEASE
        if self._blocks > 1:
            return
        self._stop = Event()
        self._thread = Thread(
            target=self._beat,
            args=(beat, self._stop),
            name=f"heartbeat of {self.name}",
            daemon=True,
        )
        try:
            self._thread.start()
        except BaseException:
            # The block is not entered, so nothing else would end the thread
            self._stop.set()
            self._blocks, self.has_heartbeats = 0, False
            raise

    def end(self) -> bool:
        """Leave a `with` block. Returns True if trials may be held that `ask` never returned."""
        if self._blocks == 0:
            return False
        self._blocks -= 1
        if self._blocks or self._thread is None:
            return False
        self.has_heartbeats = False
        self.lease = self._lease or _LEASE_WITHOUT_HEARTBEATS
        self._stop.set()
        self._thread.join()
        has_unseen = self.is_asking or bool(self.at_hand)
        self.is_asking, self.at_hand = False, []
        self._busy_blocks.clear()
        return has_unseen

    def repeated(self, operation: Callable[..., _T], *args: object) -> _T:
        """Call an operation. Inside a `with` block, repeat it while the storage is unreachable. See `patiently`."""
        if not self.has_heartbeats:
            return operation(*args)
        return patiently(lambda: operation(*args))

    def _beat(self, beat: Callable[[], None], stop: Event) -> None:
        """Call `beat` three times per lease, while this worker has trials."""
        while not stop.wait(self.lease / 3):
            if self.out or self.at_hand:
                beat()

    # Waiting

    def next_wait(self) -> float:
        """Return the seconds of the next wait: longer each time, until a trial ends."""
        self._idle = min(_LONGEST_WAIT, 2 * self._idle or _FIRST_WAIT)
        return self._idle

    def log_wait(
        self, is_paused: Callable[[], bool], workers: Callable[[], list[Holding]]
    ) -> None:
        """Log the end of a pause, or the workers, that this worker waits for.

        It logs a pause once, and workers after a short wait and then once a minute.
        """
        if self._waits_for_resume:
            return
        if is_paused():
            self._waits_for_resume = True
            log.warning(
                "The study is paused. Worker %s waits until it is resumed.", self.name
            )
            return
        now = time.monotonic()
        if not self._idle:
            self._quiet_until = max(self._quiet_until, now + _SAID_AFTER)
        if now >= self._quiet_until:
            held_elsewhere = [
                holding for holding in workers() if holding.worker != self.name
            ]
            if held_elsewhere:
                self._quiet_until = now + _SAID_AGAIN
                log.warning("Waiting for %s.", held_by(held_elsewhere, time.time()))


def held_by(holdings: Sequence[Holding], now: float) -> str:
    """Describe which workers hold which trials, since when and until when, in this machine's local time."""
    held: dict[str | None, list[Holding]] = {}
    for holding in holdings:
        held.setdefault(holding.worker, []).append(holding)
    parts = []
    for worker, held_trials in held.items():
        trials = f"{len(held_trials)} trial{'s' if len(held_trials) > 1 else ''}"
        if worker is None:
            parts.append(
                f"{trials} without a lease, until a score or failure is recorded or it is released"
            )
        else:
            until = now + max(
                0.0, *(holding.seconds_left or 0.0 for holding in held_trials)
            )
            shown = [
                f"trial {holding.trial.id} since {_clock(now - (holding.seconds_held or 0.0))}"
                for holding in held_trials[:_TRIALS_SHOWN]
            ]
            more = ", ..." if len(held_trials) > _TRIALS_SHOWN else ""
            parts.append(
                f"{trials} held by worker {worker} until {_clock(until)}, or longer if it is still running "
                f"({', '.join(shown)}{more})"
            )
    return "; ".join(parts)


def _clock(seconds: float) -> str:
    """Return a time, in seconds since 1970, as this machine's local time of day."""
    return f"{datetime.fromtimestamp(seconds):%H:%M:%S}"


def check_seconds(name: str, number: object) -> float:
    """Return a time as finite seconds above 0."""
    return check_number(f"{name}, in seconds,", number, 0.0, 1e9, above=True)


def check_trials(what: str, trials: object) -> frozenset[int]:
    """Return the ids of trials in any collection."""
    if not isinstance(trials, Collection) or isinstance(trials, (str, bytes)):
        raise InvalidArgumentError(
            f"{what} must be a collection of the ids of trials, got {short(trials)}."
        )
    ids = [as_integer(trial) for trial in trials]
    for trial, id_ in zip(trials, ids, strict=True):
        if id_ is None:
            raise InvalidArgumentError(
                f"{what} must contain ids of trials, which are whole numbers. Got {short(trial)}."
            )
    return frozenset(id_ for id_ in ids if id_ is not None)
