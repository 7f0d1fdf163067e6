"""Leases: which worker holds which trial, until when, and whether the study is paused. They follow from its log.

A lease ends when its trial is told, fails or is released. A lease that ran out stays
until the next worker asks. Then the log gets an `Expired`, and the trial is handed out
again with the same id.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from asktell.numerics.intmap import IntMap
from asktell.problem.candidates import Trial
from asktell.state import Event, Failed, Released, Told
from asktell.state.events import AnyEvent, Cost, Index

Time: TypeAlias = Cost
"""Seconds since 1970."""


class Leased(Event, frozen=True, tag="l"):
    """A worker holds trials until `deadline`, by the storage's clock. Replaces the earlier leases of these trials."""

    worker: str
    deadline: Time
    trials: tuple[Index, ...]


class Expired(Event, frozen=True, tag="x"):
    """A lease expired. The trial's `Released` or `Failed` follows."""

    trial: Index


class Paused(Event, frozen=True, tag="p"):
    """No trials are handed out from now on. `since` is by the storage's clock."""

    since: Time


class Resumed(Event, frozen=True, tag="g"):
    """Trials are handed out again."""


Entry: TypeAlias = AnyEvent | Leased | Expired | Paused | Resumed
"""An entry of a study's log."""


class Lease(NamedTuple):
    """The worker that holds a trial, until `deadline` in seconds since 1970, by the storage's clock."""

    worker: str
    deadline: float


class Holding(NamedTuple):
    """A pending trial, and the worker that holds it.

    Attributes:
        worker: name of the worker. None for a trial that was asked for without a name.
        trial: the trial.
        seconds_left: seconds until the lease expires. None without a lease. Negative if
            the lease has expired, but no other worker has taken the trial yet.
        attempt: 1 when the trial is handed out for the first time, 2 when it is handed
            out again because its lease expired, and so on.
        wanted: False once the trial's prompt is eliminated or retired. Then stop the
            evaluation and release the trial.
    """

    worker: str | None
    trial: Trial
    seconds_left: float | None
    attempt: int
    wanted: bool = True


class Reissue(NamedTuple):
    """For a trial that was handed out again: the number of leases that expired, and the worker that told it."""

    expired: int = 0
    teller: str | None = None


class Leases(NamedTuple):
    """All leases after the entries of the log so far. Immutable."""

    by_trial: IntMap[Lease] = IntMap()
    by_worker: Mapping[str, IntMap[None]] = {}  # the ids of the worker's trials
    # By trial; kept after the trial's end, because scores may come late
    reissued: IntMap[Reissue] = IntMap()
    # No lease expires before this time; a lower bound, because leases can end early
    earliest: float = math.inf
    paused: float | None = None  # the time of the pause, by the storage's clock

    def held(self, worker: str) -> IntMap[None]:
        """Return the ids of the trials that a worker holds, oldest first."""
        return self.by_worker.get(worker, _NONE)

    def holder(self, trial: int) -> str | None:
        """Return the name of the worker that holds a trial, None if no worker does."""
        lease = self.by_trial.get(trial)
        return None if lease is None else lease.worker

    def attempt(self, trial: int) -> int:
        """Return the number of the present attempt at a trial, from 1."""
        return 1 + (self.reissued.get(trial) or Reissue()).expired

    def with_lease(
        self, worker: str, deadline: float, trials: tuple[int, ...]
    ) -> "Leases":
        """Return these leases with trials that the worker holds from now on, in the place of other workers."""
        leases = self
        for trial in trials:
            if trial in leases.by_trial and leases.by_trial[trial].worker != worker:
                leases = leases.without(trial)
        held = leases.by_worker.get(worker, _NONE)
        return leases._replace(
            by_trial=leases.by_trial.update(
                dict.fromkeys(trials, Lease(worker, deadline))
            ),
            by_worker={
                **leases.by_worker,
                worker: held.update(dict.fromkeys(trials)),
            }
            if trials
            else leases.by_worker,
            earliest=min(leases.earliest, deadline),
        )

    def without(self, trial: int) -> "Leases":
        """Return these leases without the lease of a trial."""
        lease = self.by_trial.get(trial)
        if lease is None:
            return self
        rest = self.by_worker[lease.worker].delete(trial)
        by_worker = {**self.by_worker, lease.worker: rest}
        if not rest:
            del by_worker[lease.worker]
        return self._replace(by_trial=self.by_trial.delete(trial), by_worker=by_worker)

    def tightened(self) -> "Leases":
        """Return these leases with the exact `earliest`."""
        return self._replace(
            earliest=min(
                (lease.deadline for lease in self.by_trial.values()), default=math.inf
            )
        )


_NONE: IntMap[None] = IntMap()


def follow(leases: Leases, entry: Entry) -> Leases:
    """Return the leases after an entry of the log."""
    if isinstance(entry, Leased):
        return leases.with_lease(entry.worker, entry.deadline, entry.trials)
    if isinstance(entry, Paused | Resumed):
        return leases._replace(
            paused=entry.since if isinstance(entry, Paused) else None
        )
    if not isinstance(entry, _ENDINGS):
        return leases
    trial = entry.trial
    known = leases.reissued.get(trial)
    if isinstance(entry, Expired):
        known = Reissue((known or Reissue()).expired + 1)
    elif isinstance(entry, Released):
        known = known or Reissue()
    elif isinstance(entry, Told) and known is not None:
        known = known._replace(teller=leases.holder(trial))
    if known is not None:
        leases = leases._replace(reissued=leases.reissued.set(trial, known))
    return leases.without(trial)


_ENDINGS = (Told, Released, Failed, Expired)
