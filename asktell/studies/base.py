"""The interface of `Study` and `RemoteStudy`: a stored selection that several workers share."""

import contextlib
import logging
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self, TypeVar

from asktell.errors import AsktellError, InvalidArgumentError
from asktell.problem.candidates import AnyTrial, Tell, Trial, all_taken
from asktell.problem.checks import check_reason, check_seconds
from asktell.problem.goals import Scores
from asktell.selector import Selection, Selector
from asktell.studies.details import encode
from asktell.studies.leases import Holding
from asktell.studies.worker import Worker

_T = TypeVar("_T")
_log = logging.getLogger("asktell")
_WAIT = 1.0  # seconds that a study without a worker's name waits by default


class AbstractStudy(Selection):
    """A stored selection that several workers share: the interface of `Study` and `RemoteStudy`.

    It has all methods of `Selector`. When `tell`, `tell_many`, `fail`, `observe`,
    `add`, `retire`, `extend`, `remark`, `pause` or `resume` returns, its change is
    stored durably.

    **Workers and leases.** `study.worker(name)` is the same study, bound to the name of
    a worker. Give each worker a different name. A bound study gets a lease on each
    trial that it asks for. When the lease expires, the trial is given to another
    worker. A `with` block around a bound study keeps extending its leases. A trial that
    was asked for without a name stays pending until it is told, failed or released.

        >>> import asktell
        >>> prompts = {"short": "Answer in one word.", "long": "Think first."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), 20, examples=10)
        >>> study = asktell.Study.create("memory://abstract", "my study", selector)
        >>> with study.worker("gpu-1") as mine:
        ...     trial = mine.ask()
        ...     [holding.worker for holding in study.workers()]
        ...     mine.tell(trial, {"accuracy": 1.0})
        ['gpu-1']
        True
        >>> study.spent
        1

    If several workers evaluate the same trial, the first scores are recorded. `tell`
    returns False to the others, which can simply ask for the next trial.

    **Errors.** Every method may raise a StorageError if the storage cannot be used.
    Usually nothing was changed then. Rarely, the outcome is unknown. Repeat the call in
    either case. Scores that are told twice count once, and `add`, `retire` and `extend`
    take a `key` that makes them safe to repeat. Inside the `with` block of a bound
    study, calls are repeated for a minute. `release` and `heartbeat` are not. An
    `observe` that is repeated may be recorded twice.
    """

    _worker: Worker | None = None  # None: not bound to a worker's name

    # Asking and telling

    def _ask(self, n: int) -> list[Trial]:
        worker = self._worker
        if worker is None:
            return self._hand_out(n)
        return worker.ask(n, self._hand_out)

    @abstractmethod
    def _hand_out(self, n: int) -> list[Trial]:
        """Return up to n trials: first those that the worker holds and is not busy with, and then new ones."""

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record the scores of a trial. Trials may be told in any order.

        Returns True if the scores were recorded. Returns False if the same scores were
        recorded before, or if another worker recorded its scores first.

        Args:
            trial: as for `Selector.tell`. If you pass a prompt, the scores go to a
                pending trial of this prompt: to one that this worker holds, or
                otherwise to the oldest.
            scores: as for `Selector.tell`.
            cost: as for `Selector.tell`.
            details: more data about the evaluation, such as the response, seconds or
                other metrics, as a mapping of JSON types. It is stored with the scores,
                and returned by `evaluations`.

        Raises:
            ConflictingTellError: other scores of this trial were recorded before, by
                the same worker, or by any worker if the trial was handed out only once.
        """
        worker = self._worker
        if worker is None:
            return self._tell_one(Tell(trial, scores, cost, details))
        tell = Tell(worker.own(trial), scores, cost, details)
        taken = worker.repeated(self._tell_one, tell)
        worker.ended(tell.trial)
        return taken

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        """Record the scores of several trials at once, in little more time than one `tell` takes.

        Returns, for each tell, what `tell` would return. An error in one of them does
        not affect the others.

        Args:
            tells: tuples `(trial, scores)`, `(trial, scores, cost)` or `(trial, scores,
                cost, details)`.

        Raises:
            TellManyError: some tells were refused, each for one of the reasons of
                `tell`. All others are stored. The error's `outcomes` has the result or
                the error of each.
        """
        batch, worker = list(tells), self._worker
        outcomes = self._patiently(self._tell, batch)
        if worker is not None:
            for item, outcome in zip(batch, outcomes, strict=True):
                if not isinstance(outcome, Exception):
                    worker.ended(item[0])
        return all_taken(outcomes)

    def _tell_one(self, tell: Tell) -> bool:
        """Record one tell."""
        (outcome,) = self._tell([tell])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @abstractmethod
    def _tell(self, tells: Sequence[Any]) -> list[bool | Exception]:
        """Return the result or the error of each tell. The items are not checked yet."""

    def fail(
        self,
        trial: AnyTrial,
        reason: str | BaseException,
        cost: float | None = None,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record a failed evaluation. See `Selector.fail`, and `tell` for `details`.

        Also returns False if another worker holds the trial.
        """
        worker, why, text = self._worker, check_reason(reason), encode(details)
        if worker is None:
            return self._fail(trial, why, cost, text)
        own = worker.own(trial)
        taken = worker.repeated(self._fail, own, why, cost, text)
        worker.ended(own)
        return taken

    @abstractmethod
    def _fail(
        self, trial: AnyTrial, reason: str, cost: float | None, details: str | None
    ) -> bool:
        """Do what `fail` does. `reason` is valid, and `details` is JSON text."""

    def release(self, trial: AnyTrial) -> bool:
        """Return a trial unevaluated. See `Selector.release`. Also returns False if another worker holds the trial."""
        if self._worker is not None:
            trial = self._worker.own(trial)
            self._worker.ended(trial)
        # Not repeated if the storage is unreachable: the lease will expire
        return self._release(trial)

    @abstractmethod
    def _release(self, trial: AnyTrial) -> bool:
        """Do what `release` does."""

    # Workers

    def worker(
        self,
        name: str | None = None,
        *,
        lease: float | None = None,
        ahead: int = 0,
        besides: Collection[int] = (),
    ) -> Self:
        """Return this study, bound to the name of a worker.

        `ask` of a bound study first returns the trials that the worker holds, oldest
        first, and then new ones. So a worker that was restarted continues with its own
        trials. It returns no trial twice, and `pending` has the trials that it returned.

        Use it in a `with` block, which extends the leases in a thread, repeats calls
        for a minute while the storage cannot be reached, and releases trials that
        `ask` never returned. The block does not close the study. A forked process does
        not inherit the thread: bind the study again there.

        Args:
            name: name of the worker, different from all others. By default it is made
                of the host, the process id and random letters. Give a name if the
                worker should continue with its own trials after a restart.
            lease: seconds after which the trials of a worker that died are given to
                other workers. By default 60 in a `with` block, and 600 otherwise.
            ahead: number of trials that the worker requests in advance. Larger numbers
                need fewer transactions, so that many workers block each other less. But
                these trials are chosen before the latest scores arrive, and at the end
                of a study other workers wait for them.
            besides: ids of trials that the worker is already evaluating, which `ask`
                does not return.
        """
        bound = copy(self)
        bound._worker = Worker(name, lease, ahead, besides)
        return bound

    @property
    def worker_name(self) -> str | None:
        """The name of the worker that this study is bound to. None for a study that is not bound. See `worker`."""
        return None if self._worker is None else self._worker.name

    @abstractmethod
    def heartbeat(self, trial: AnyTrial | None = None) -> list[Trial]:
        """Extend the leases of this worker, and return the trials that it still holds, oldest first.

        A trial is missing from the returned list if it was told, or if its lease
        expired and another worker took it.

        Args:
            trial: extend only the lease of this trial.

        Raises:
            InvalidArgumentError: the study is not bound to a worker's name.
        """

    @abstractmethod
    def workers(self) -> list[Holding]:
        """Return the pending trials and their workers, oldest first."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for scores of other workers, or for the end of a pause, after an `ask` that returned no trial.

        Args:
            seconds: how long to wait, by default 1. A worker waits for up to 1 second
                by default, briefly at first, and logs which workers it waits for.

        Returns:
            False if the study is done. Then `wait` returns at once.
        """
        if seconds is not None:
            check_seconds("seconds", seconds)
        if self.done:
            return False
        worker = self._worker
        if worker is not None:
            worker.log_wait(lambda: self.paused, lambda: self._patiently(self.workers))
            seconds = seconds or worker.next_wait()
        time.sleep(seconds or _WAIT)
        return True

    @abstractmethod
    def pause(self) -> None:
        """Stop handing out trials until `resume`. Has no effect on a study that is paused already.

        Workers keep their pending trials, and their scores are recorded. Workers wait
        instead of ending. A worker that is restarted during the pause gets its trials
        back afterwards, unless their lease has expired by then.
        """

    @abstractmethod
    def resume(self) -> None:
        """Hand out trials again. Has no effect on a study that is not paused."""

    # Reading

    @property
    @abstractmethod
    def name(self) -> str:
        """The study's name."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """True from `pause` to `resume`, while no trials are handed out."""

    @property
    @abstractmethod
    def selector(self) -> Selector:
        """A copy of the selection as a Selector. Later changes of the study do not affect it."""

    @property
    def pending(self) -> list[Trial]:
        """Trials whose scores or failure are not recorded yet, and that were not released, oldest first.

        For a study bound to a worker's name, the trials among them that its `ask`
        returned.
        """
        if self._worker is None:
            return self._all_pending()
        return sorted(self._worker.out.values())

    @abstractmethod
    def _all_pending(self) -> list[Trial]:
        """Return the pending trials of all workers, oldest first."""

    @property
    def unwanted(self) -> list[Trial]:
        """Pending trials to stop, because their prompts were eliminated or retired.

        For a study bound to a worker's name, this is as of its last heartbeat.
        """
        worker = self._worker
        if worker is None:
            return [each.trial for each in self.workers() if not each.wanted]
        return [trial for trial in self.pending if trial.id in worker.unwanted]

    # Closing

    def close(self) -> None:
        """Close the files and connections. Pending trials stay pending. Has no effect on a bound study."""
        if self._worker is None:
            self._close()

    @abstractmethod
    def _close(self) -> None:
        """Do what `close` does."""

    def __enter__(self) -> Self:
        if self._worker is not None:
            self._worker.begin(self._beat)
        return self

    def __exit__(self, *exc_info: object) -> None:
        worker = self._worker
        if worker is None:
            self.close()
        elif worker.end():
            # Trials that `ask` never returned: requested in advance, or lost to a
            # signal during the request
            with contextlib.suppress(AsktellError):
                for trial in self.heartbeat():
                    if trial.id not in worker.out:
                        self._release(trial)

    # Of a bound study

    def _bound(self, method: str) -> Worker:
        """Return the worker.

        Raises:
            InvalidArgumentError: the study is not bound to a worker's name.
        """
        if self._worker is None:
            raise InvalidArgumentError(
                f"{method}() is for a worker, but this study is not bound to a worker's name. Call it on "
                "study.worker(NAME)."
            )
        return self._worker

    def _beat(self) -> None:
        """Send one heartbeat, and learn which trials are not wanted any more."""
        worker = self._bound("heartbeat")
        try:
            self.heartbeat()
            worker.unwanted = frozenset(
                each.trial.id
                for each in self.workers()
                if each.worker == worker.name and not each.wanted
            )
        except AsktellError as error:
            # The next heartbeat may succeed, and so may a late tell
            _log.warning(
                "A heartbeat of worker %s failed. The next one may succeed. %s",
                worker.name,
                error,
            )

    def _patiently(self, operation: Callable[..., _T], *args: object) -> _T:
        """Call an operation. Inside the `with` block of a bound study, repeat it while the storage is unreachable."""
        if self._worker is None:
            return operation(*args)
        return self._worker.repeated(operation, *args)

    def _key(self, key: str | None) -> str | None:
        """Return the key of a request. One that may be repeated gets a new key, so that the change is made once."""
        if key is None and self._worker is not None and self._worker.has_heartbeats:
            return uuid.uuid4().hex
        return key
