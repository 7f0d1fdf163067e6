"""Who holds which trial, and until when, and whether more are handed out: folded from a study's log like its state.

A lease ends when its trial is told, has failed or is handed back. One that ran out is ended
by whoever asks next: the trial is `Expired`, and handed out again under the same id.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from asktell.errors import InvalidArgumentError
from asktell.numerics.intmap import IntMap
from asktell.problem.candidates import Trial
from asktell.problem.checks import check_name, check_seconds
from asktell.state import Event, Failed, Released, Told
from asktell.state.events import AnyEvent, Cost, Index

SECONDS = 600.0
"""How long a lease lasts unless it is said otherwise."""


Time: TypeAlias = Cost
"""Seconds since 1970."""


class Leased(Event, frozen=True, tag="l"):
    """A worker holds trials until `deadline`, by the storage's clock: anew, longer, or instead of another worker."""

    worker: str
    deadline: Time
    trials: tuple[Index, ...]


class Expired(Event, frozen=True, tag="x"):
    """A lease ran out; the trial's `Released` or `Failed` follows."""

    trial: Index


class Paused(Event, frozen=True, tag="p"):
    """From now on nothing is handed out; `since` by the storage's clock."""

    since: Time


class Resumed(Event, frozen=True, tag="g"):
    """It goes on."""


Entry: TypeAlias = AnyEvent | Leased | Expired | Paused | Resumed
"""What a study's log consists of."""


class Lease(NamedTuple):
    """Who holds a trial, and until when."""

    worker: str
    deadline: float


class Holding(NamedTuple):
    """A pending trial: who holds it (None: nobody in particular), for how long yet, and which attempt it is.

    `seconds_left` is None without a lease, and negative when it has run out and nobody has asked since. `wanted` is
    False once the trial's prompt was eliminated or retired: stop the evaluation and release the trial.
    """

    worker: str | None
    trial: Trial
    seconds_left: float | None
    attempt: int
    wanted: bool = True


class Reissue(NamedTuple):
    """How many leases of a trial ran out, and who told it in the end; for trials that were handed out again."""

    expired: int = 0
    teller: str | None = None


class Leases(NamedTuple):
    """Everything about leases that follows from the log so far."""

    by_trial: IntMap[Lease] = IntMap()
    by_worker: Mapping[str, IntMap[None]] = {}  # its trials
    reissued: IntMap[Reissue] = IntMap()  # by trial; kept after its end, to judge late scores
    earliest: float = math.inf  # no lease runs out before; a lower bound, since leases end early
    paused: float | None = None  # since when, by the storage's clock

    def held(self, worker: str | None) -> tuple[int, ...]:
        """The trials that a worker holds, oldest first."""
        return () if worker is None else tuple(self.by_worker.get(worker, _NONE))

    def holder(self, trial: int) -> str | None:
        """Who holds a trial."""
        lease = self.by_trial.get(trial)
        return None if lease is None else lease.worker

    def attempt(self, trial: int) -> int:
        """Number of the attempt at a trial, from 1."""
        return 1 + (self.reissued.get(trial) or Reissue()).expired

    def with_lease(self, worker: str, deadline: float, trials: tuple[int, ...]) -> "Leases":
        """The same, with those trials held by a worker and by no other."""
        leases = self
        for trial in trials:
            if trial in leases.by_trial and leases.by_trial[trial].worker != worker:
                leases = leases.without(trial)
        by_trial, held = leases.by_trial, leases.by_worker.get(worker, _NONE)
        for trial in trials:
            by_trial, held = by_trial.set(trial, Lease(worker, deadline)), held.set(trial, None)
        return leases._replace(
            by_trial=by_trial,
            by_worker={**leases.by_worker, worker: held} if trials else leases.by_worker,
            earliest=min(leases.earliest, deadline),
        )

    def without(self, trial: int) -> "Leases":
        """The same, but for the lease of a trial, if there is one."""
        lease = self.by_trial.get(trial)
        if lease is None:
            return self
        rest = self.by_worker[lease.worker].delete(trial)
        by_worker = {**self.by_worker, lease.worker: rest}
        if not rest:
            del by_worker[lease.worker]
        return self._replace(by_trial=self.by_trial.delete(trial), by_worker=by_worker)

    def tightened(self) -> "Leases":
        """The same with `earliest` exact."""
        return self._replace(earliest=min((lease.deadline for lease in self.by_trial.values()), default=math.inf))


_NONE: IntMap[None] = IntMap()


def follow(leases: Leases, entry: Entry) -> Leases:
    """The leases after an entry of the log."""
    if isinstance(entry, Leased):
        return leases.with_lease(entry.worker, entry.deadline, entry.trials)
    if isinstance(entry, Paused | Resumed):
        return leases._replace(paused=entry.since if isinstance(entry, Paused) else None)
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


def check_worker(worker: str | None) -> str | None:
    """A worker's name, if it can be one."""
    return None if worker is None else check_name("A worker", worker)


def check_lease(worker: str | None, lease: float | None) -> float:
    """Seconds for which a lease lasts, 600 by default."""
    if lease is None:
        return SECONDS
    if worker is None:
        raise InvalidArgumentError("A lease is a worker's: ask(worker=NAME, lease=SECONDS).")
    return check_seconds("lease", lease)
