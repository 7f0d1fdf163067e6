"""Who holds which trial, and until when, and whether more are handed out: folded from a study's log like its state.

A lease ends when its trial is told, has failed or is handed back. One that ran out, or whose process is gone, is ended
by whoever asks next: the trial is `Expired`, and handed out again under the same id.
"""

import math
from typing import NamedTuple

from immutables import Map

from asktell.errors import InvalidArgumentError
from asktell.problem.candidates import Trial
from asktell.problem.checks import check_name, check_seconds
from asktell.state import Event, Failed, Released, Told
from asktell.studies.processes import is_gone

SECONDS = 600.0
"""How long a lease lasts unless it is said otherwise."""


class Leased(NamedTuple):
    """A worker holds trials until `deadline`, by the storage's clock: anew, longer, or instead of another worker."""

    worker: str
    deadline: float
    trials: tuple[int, ...]
    process: str | None = None  # that evaluates them, if it is known; otherwise the one that was known stays


class Expired(NamedTuple):
    """A lease ran out, or its process is gone; the trial's `Released` or `Failed` follows."""

    trial: int


class Paused(NamedTuple):
    """From now on nothing is handed out; `since` by the storage's clock."""

    since: float


class Resumed(NamedTuple):
    """It goes on."""


Entry = Event | Leased | Expired | Paused | Resumed
"""What a study's log consists of."""


class Lease(NamedTuple):
    """Who holds a trial, until when, and in which process."""

    worker: str
    deadline: float
    process: str | None = None


class Holding(NamedTuple):
    """A trial that is out: who holds it (None: nobody in particular), for how long yet, and which attempt it is.

    `seconds_left` is None without a lease, and negative when it has run out and nobody has asked since.
    """

    worker: str | None
    trial: Trial
    seconds_left: float | None
    attempt: int


class Reissue(NamedTuple):
    """How many leases of a trial ran out, and who told it in the end; for trials that were handed out again."""

    expired: int = 0
    teller: str | None = None


_NONE: "Map[int, None]" = Map()


class Leases(NamedTuple):
    """Everything about leases that follows from the log so far."""

    by_trial: "Map[int, Lease]" = Map()
    by_worker: "Map[str, Map[int, None]]" = Map()  # its trials
    reissued: "Map[int, Reissue]" = Map()  # by trial; kept after its end, to judge late scores
    earliest: float = math.inf  # no lease runs out before
    paused: float | None = None  # since when, by the storage's clock

    def held(self, worker: str) -> tuple[int, ...]:
        """The trials that a worker holds, oldest first."""
        return tuple(sorted(self.by_worker.get(worker, _NONE)))

    def holder(self, trial: int) -> str | None:
        """Who holds a trial."""
        lease = self.by_trial.get(trial)
        return None if lease is None else lease.worker

    def overdue(self, now: float) -> list[int]:
        """The trials whose leases have run out, oldest first; O(1) as long as none has."""
        if now < self.earliest:
            return []
        return sorted(trial for trial, lease in self.by_trial.items() if lease.deadline <= now)

    def gone(self, worker: str | None) -> list[int]:
        """The trials of processes that have ended for certain, but for those of this worker, oldest first."""
        known = {lease.process for lease in self.by_trial.values() if lease.process and lease.worker != worker}
        ended = {process for process in known if is_gone(process)}
        leases = self.by_trial.items() if ended else ()
        return sorted(trial for trial, lease in leases if lease.process in ended and lease.worker != worker)

    def tightened(self) -> "Leases":
        """The same with `earliest` exact: it is a lower bound, since leases end early."""
        return self._replace(earliest=min((lease.deadline for lease in self.by_trial.values()), default=math.inf))


def follow(leases: Leases, entry: Entry) -> Leases:
    """The leases after an entry of the log."""
    if isinstance(entry, Leased):
        return _leased(leases, entry)
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
    return without(leases, trial)


_ENDINGS = (Told, Released, Failed, Expired)


def _leased(leases: Leases, entry: Leased) -> Leases:
    worker, deadline, trials, process = entry
    for trial in trials:
        if leases.holder(trial) not in (None, worker):
            leases = without(leases, trial)
    by_trial, by_worker, reissued, earliest, paused = leases
    if process is None:
        known = {trial: by_trial.get(trial) for trial in trials}
        new = {trial: Lease(worker, deadline, lease and lease.process) for trial, lease in known.items()}
    else:
        new = dict.fromkeys(trials, Lease(worker, deadline, process))
    by_trial = by_trial.update(new)
    held = by_worker.get(worker, _NONE).update(dict.fromkeys(trials))
    by_worker = by_worker.set(worker, held) if held else by_worker
    return Leases(by_trial, by_worker, reissued, min(earliest, deadline), paused)


def without(leases: Leases, trial: int) -> Leases:
    """The same, but for the one on a trial, if there is one."""
    by_trial, by_worker, reissued, earliest, paused = leases
    lease = by_trial.get(trial)
    if lease is None:
        return leases
    rest = by_worker[lease.worker].delete(trial)
    by_worker = by_worker.set(lease.worker, rest) if rest else by_worker.delete(lease.worker)
    return Leases(by_trial.delete(trial), by_worker, reissued, earliest, paused)


def check_worker(worker: str | None) -> None:
    """See that a worker's name can be one."""
    if worker is not None:
        check_name("A worker", worker)


def seconds_of(worker: str | None, lease: float | None) -> float:
    """How long a lease lasts."""
    check_worker(worker)
    if lease is None:
        return SECONDS
    if worker is None:
        raise InvalidArgumentError("A lease is a worker's: ask(worker=NAME, lease=SECONDS).")
    return check_seconds("lease", lease)
