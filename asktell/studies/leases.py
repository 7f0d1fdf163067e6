"""Leases: which worker holds which trial, until when, and whether the study is paused. They follow from its log.

A lease ends when its trial is told, fails or is released. A lease that ran out stays
until the next worker asks. Then the log gets an `Expired`, and the trial is handed out
again with the same id.

An *instance* is one bound worker in one process. Normally a name has one instance at a
time: after a restart, the new instance replaces the old one, and gets its trials. An
instance that was replaced and still asks shows that two processes use the same name.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from asktell.numerics.intmap import IntMap
from asktell.problem.trials import Trial
from asktell.record import events

Time: TypeAlias = events.Cost
"""Seconds since 1970."""


class Leased(events.Event, frozen=True, tag="l"):
    """A worker holds trials. Replaces the earlier leases of these trials. Times are by the storage's clock.

    Attributes:
        worker: the worker's name.
        deadline: the time until which it holds the trials.
        trials: their ids.
        seconds: the duration of the leases, from now to the deadline.
        instance: the worker's instance, if another one used its name before. Empty if
            it is the same, or unknown.
    """

    worker: str
    deadline: Time
    trials: tuple[events.Index, ...]
    seconds: Time = 0.0
    instance: str = ""


class Expired(events.Event, frozen=True, tag="x"):
    """A lease expired. The trial's `Released` or `Failed` follows."""

    trial: events.Index


class Paused(events.Event, frozen=True, tag="p"):
    """No trials are handed out from now on. `since` is by the storage's clock."""

    since: Time


class Resumed(events.Event, frozen=True, tag="g"):
    """Trials are handed out again."""


Entry: TypeAlias = events.AnyEvent | Leased | Expired | Paused | Resumed
"""An entry of a study's log."""


class Lease(NamedTuple):
    """The worker that holds a trial, and how long. Times are in seconds since 1970, by the storage's clock.

    Attributes:
        worker: the worker's name.
        deadline: the time at which the lease expires.
        since: the time since which the worker has held the trial.
        seconds: the duration of the lease, from its start or its latest extension.
    """

    worker: str
    deadline: float
    since: float
    seconds: float


class Holding(NamedTuple):
    """A pending trial, and the worker that holds it.

    Attributes:
        worker: name of the worker. For a trial that was asked for without a worker's
            name, it is made of the host, the process id and random characters. None if
            the trial has no lease.
        trial: the trial.
        seconds_left: seconds until the lease expires. None without a lease. Negative if
            the lease has expired, but no other worker has taken the trial yet.
        attempt: 1 when the trial is handed out for the first time, 2 when it is handed
            out again because its lease expired, and so on.
        wanted: False once the trial's prompt is eliminated or retired. Then stop the
            evaluation and release the trial.
        seconds_held: seconds since the worker got the trial. None without a lease.
    """

    worker: str | None
    trial: Trial
    seconds_left: float | None
    attempt: int
    wanted: bool = True
    seconds_held: float | None = None


class Leases(NamedTuple):
    """All leases after the entries of the log so far. Immutable."""

    by_trial: IntMap[Lease] = IntMap()
    by_worker: Mapping[str, IntMap[None]] = {}  # the ids of the worker's trials
    # By worker, its latest instances, the present one last. Kept when the worker holds
    # nothing, so that an instance that was replaced is recognized.
    instances: Mapping[str, tuple[str, ...]] = {}
    # For each trial that was handed out again: the number of leases that expired, and the
    # worker that told it. Kept after the trial's end, because scores may come late
    reissued: IntMap[tuple[int, str | None]] = IntMap()
    # No lease expires before this time; a lower bound, because leases can end early
    earliest: float = math.inf
    paused: float | None = None  # the time of the pause, by the storage's clock
    # By worker, the number of scores that it told. A snapshot does not have it
    told: Mapping[str, int] = {}

    def held(self, worker: str) -> IntMap[None]:
        """Return the ids of the trials that a worker holds, oldest first."""
        return self.by_worker.get(worker, _NONE)

    def holder(self, trial: int) -> str | None:
        """Return the name of the worker that holds a trial, None if no worker does."""
        lease = self.by_trial.get(trial)
        return None if lease is None else lease.worker

    def attempt(self, trial: int) -> int:
        """Return the number of the present attempt at a trial, from 1."""
        expired, _ = self.reissued.get(trial) or _ONCE
        return 1 + expired

    def with_lease(self, entry: Leased) -> "Leases":
        """Return these leases with trials that the worker holds from now on, in the place of other workers."""
        leases, worker, trials = self, entry.worker, entry.trials
        since = entry.deadline - entry.seconds
        new = Lease(worker, entry.deadline, since, entry.seconds)
        by_trial = dict.fromkeys(trials, new)
        for trial in trials:
            lease = leases.by_trial.get(trial)
            if lease is not None and lease.worker != worker:
                leases = leases.without(trial)
            elif lease is not None:
                by_trial[trial] = new._replace(since=lease.since)
        by_worker, instances = leases.by_worker, leases.instances
        if trials:
            held = by_worker.get(worker, _NONE).update(dict.fromkeys(trials))
            by_worker = {**by_worker, worker: held}
        if entry.instance:
            past = [
                name for name in instances.get(worker, ()) if name != entry.instance
            ]
            latest = (*past[1 - _INSTANCES :], entry.instance)
            instances = {**instances, worker: latest}
        return leases._replace(
            by_trial=leases.by_trial.update(by_trial),
            by_worker=by_worker,
            instances=instances,
            earliest=min(leases.earliest, entry.deadline),
        )

    def without(self, trial: int, is_told: bool = False) -> "Leases":
        """Return these leases without the lease of a trial. `is_told`: its worker has told the scores."""
        lease = self.by_trial.get(trial)
        if lease is None:
            return self
        worker, counts = lease.worker, self.told
        rest = self.by_worker[worker].delete(trial)
        by_worker = {**self.by_worker, worker: rest}
        if not rest:
            del by_worker[worker]
        if is_told:
            counts = {**counts, worker: counts.get(worker, 0) + 1}
        by_trial = self.by_trial.delete(trial)
        return self._replace(by_trial=by_trial, by_worker=by_worker, told=counts)

    def tightened(self) -> "Leases":
        """Return these leases with the exact `earliest`."""
        return self._replace(
            earliest=min(
                (lease.deadline for lease in self.by_trial.values()), default=math.inf
            )
        )


_NONE: IntMap[None] = IntMap()
_ONCE = 0, None  # as `reissued` has it, for a trial of which no lease has expired
# Instances kept for each worker. An agent may have a new one for each request.
_INSTANCES = 16


def follow(leases: Leases, entry: Entry) -> Leases:
    """Return the leases after an entry of the log."""
    if isinstance(entry, Leased):
        return leases.with_lease(entry)
    if isinstance(entry, Paused | Resumed):
        return leases._replace(
            paused=entry.since if isinstance(entry, Paused) else None
        )
    if not isinstance(entry, _ENDINGS):
        return leases
    trial, is_told = entry.trial, isinstance(entry, events.Told)
    reissue = leases.reissued.get(trial)
    if isinstance(entry, Expired):
        expired, _ = reissue or _ONCE
        reissue = expired + 1, None
    elif isinstance(entry, events.Released):
        reissue = reissue or _ONCE
    elif is_told and reissue is not None:
        reissue = reissue[0], leases.holder(trial)
    if reissue is not None:
        leases = leases._replace(reissued=leases.reissued.set(trial, reissue))
    return leases.without(trial, is_told)


_ENDINGS = (events.Told, events.Released, events.Failed, Expired)
