"""The interface of `Study` and `RemoteStudy`: a stored selection that several workers share."""

import contextlib
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self, TypeVar

from asktell._util.forks import fresh_after_fork
from asktell._util.log import log
from asktell.errors import (
    AsktellError,
    ConflictingWorkerError,
    InvalidArgumentError,
)
from asktell.problem.checks import check_reason
from asktell.problem.scores import AnyScores
from asktell.problem.trials import AnyTrial, Tell, Trial, all_taken
from asktell.selector import Selection, Selector
from asktell.studies.details import encode
from asktell.studies.leases import Holding
from asktell.studies.worker import Worker, check_seconds, default_name

_T = TypeVar("_T")
_WAIT = 1.0  # seconds that a study without a worker's name waits by default


class AbstractStudy(Selection):
    """A stored selection that several workers share: the interface of `Study` and `RemoteStudy`.

    It has the methods of `Selector`, except `to_json`, `state` and `prompts`. For
    these, `study.selector` returns a copy of the selection as a Selector.

    When one of these methods returns, its change is on the disk: `tell`, `tell_many`,
    `fail`, `observe`, `add`, `retire`, `extend`, `remark`, `pause` and `resume`.

    **Workers and leases.** A worker is a process that evaluates trials.
    `study.worker(name)` returns the same study, bound to the name of a worker. Each
    worker needs a different name. The worker gets a *lease* on each trial that its
    `ask` returns. Until the lease expires, no other worker gets the trial. After that,
    the next worker that asks gets it. A `with` block around a bound study keeps
    extending its leases. Without the block, `ask`, `tell` and `heartbeat` extend them.

    A study that is not bound acts as a worker, too, whose name is new for each object.
    Its leases last 600 seconds, and each `ask` and `tell` extends those that are in
    their second half. After a crash, its trials are handed out again when their leases
    have expired.

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

    If several workers evaluate the same trial, the scores that arrive first are
    recorded. For the other workers, `tell` returns False, and they can simply ask for
    the next trial.

    **Errors.** Every method may raise a StorageError if the storage cannot be used.
    Usually nothing was changed then. In rare cases, it is unknown whether the change was
    stored. Repeat the call in both cases:

    - A `tell` or `fail` that is repeated counts once.
    - An `add`, `retire` or `extend` that is repeated counts once if each call has the
      same `key`.
    - An `observe` that is repeated may count twice.

    Inside the `with` block of a bound study, most calls repeat themselves for up to a
    minute before they raise the error. `release`, `heartbeat`, `pause`, `resume` and
    `workers` raise it at once.
    """

    _worker: Worker | None = None  # None: not bound to a worker's name

    def __init__(self) -> None:
        # Asks if this object is not bound to a worker's name
        self._unnamed = Worker(None, None, 0, ())
        fresh_after_fork(self, AbstractStudy._rename)

    def _rename(self) -> None:
        """Take a new name in a forked process, where the parent still uses the old one."""
        self._unnamed.name = default_name()

    @property
    def _asker(self) -> Worker:
        """The worker that asks: the one to whose name this study is bound, or its own."""
        return self._worker or self._unnamed

    # Asking and telling

    def _ask(self, n: int) -> list[Trial]:
        return (self._worker or self._unnamed).ask(n, self._hand_out)

    @abstractmethod
    def _hand_out(self, n: int) -> list[Trial]:
        """Return up to n trials: first those that the worker holds and is not busy with, and then new ones."""

    def tell(
        self,
        trial: AnyTrial,
        scores: AnyScores,
        cost: float | None = None,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record the scores of a trial. The order of the trials does not matter.

        Args:
            trial: as for `Selector.tell`. If you pass the id or the text of a prompt,
                the scores go to the oldest pending trial of this prompt that `ask` of
                this worker, or of this object, returned. If there is none, they go to
                the oldest pending trial of the prompt.
            scores: as for `Selector.tell`.
            cost: as for `Selector.tell`.
            details: more data about the evaluation, such as the response, its duration
                or other metrics. Pass a mapping from text to JSON values. It is stored
                with the scores, and `evaluations` returns it. Scalars and arrays of
                numpy, paths and dates are converted. Any other value that JSON cannot
                hold is left out, and named under the key "not stored".

        Returns:
            True if the scores were recorded. False if the same scores of the trial were
            recorded before. A trial may be handed out again: after its lease has
            expired, or after it was released. `tell` then also returns False if another
            worker was the first to record scores or a failure of the trial.

        Raises:
            InvalidScoresError: as for `Selector.tell`.
            UnknownTrialError: as for `Selector.tell`.
            ConflictingTellError: other scores of this trial were recorded before. If
                the trial was handed out several times, only one worker's scores were
                recorded. This worker gets the error if it tells other scores later. For
                the other workers, `tell` returns False.
        """
        worker = self._worker or self._unnamed
        return worker.finish(self._tell_one, trial, scores, cost, details)

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        """Record the scores of several trials at once. This takes little more time than one `tell`.

        An error in one tuple does not affect the others.

        Args:
            tells: tuples `(trial, scores)`, `(trial, scores, cost)` or `(trial, scores,
                cost, details)`, or `asktell.Tell` objects.

        Returns:
            The return value of `tell` for each tuple, in order.

        Raises:
            TellManyError: `tell` would raise an error for some tuples. The scores of
                all others are recorded. `outcomes` of the error has the return value or
                the error of each tuple, in order.
        """
        batch, worker = list(tells), self._asker
        outcomes = self._patiently(self._tell, batch)
        for item, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, Exception):
                worker.ended(item[0])
        return all_taken(outcomes)

    def _tell_one(
        self,
        trial: AnyTrial,
        scores: AnyScores,
        cost: float | None,
        details: Mapping[str, Any] | None,
    ) -> bool:
        """Do what `tell` does."""
        (outcome,) = self._tell([Tell(trial, scores, cost, details)])
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
        """Record a failed evaluation. `Selector.fail` describes the consequences for the prompt.

        Args:
            trial: as for `tell`.
            reason: text or an exception.
            cost: the cost of the evaluation, 0 by default.
            details: as for `tell`.

        Returns:
            True if the failure was recorded. False if the trial is no longer pending. A
            bound study also returns False if another worker holds the trial.

        Raises:
            UnknownTrialError: the trial was never asked.
        """
        why, text = check_reason(reason), encode(details)
        return self._asker.finish(self._fail, trial, why, cost, text)

    @abstractmethod
    def _fail(
        self, trial: AnyTrial, reason: str, cost: float | None, details: str | None
    ) -> bool:
        """Do what `fail` does. `reason` is valid, and `details` is JSON text."""

    def release(self, trial: AnyTrial) -> bool:
        """Return a trial without evaluating it. It will be handed out again under the same id.

        Args:
            trial: as for `tell`.

        Returns:
            True if the trial was released. False if the trial is no longer pending. A
            bound study also returns False if another worker holds the trial.

        Raises:
            UnknownTrialError: the trial was never asked.
        """
        trial = self._asker.own(trial)
        self._asker.ended(trial)
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
        instance: str | None = None,
    ) -> Self:
        """Return this study, bound to the name of a worker.

        The bound study has the same methods. Its `ask` first returns the trials on
        which the worker holds a lease, oldest first, and then new trials. So a worker
        that was restarted under its name continues with its own trials. The `ask` of
        one bound study returns no trial twice. Its `pending` has the trials that its
        `ask` returned.

        Use the bound study in a `with` block. During the block, a background thread
        extends the leases, and calls that cannot reach the storage or the service are
        repeated for up to a minute. At the end of the block, trials that were requested
        in advance (see `ahead`) and that `ask` has not returned are released. The block
        does not close the study.

        A forked process does not inherit the thread. Bind the study again there.

        Args:
            name: name of the worker, different from all other workers. By default, the
                name is made of the host, the process id and random characters. Pass a
                name if the worker should continue with its own trials after a restart.
                If two processes use the same name at the same time, the one that asked
                first gets a ConflictingWorkerError at its next `ask` or `heartbeat`.
            lease: seconds until a lease expires, unless it is extended. By default 60
                in a `with` block, which extends it, and 600 otherwise. `ask` and `tell`
                extend leases that are in their second half.
            ahead: number of trials that `ask` requests in addition, for its next calls.
                A larger number needs fewer transactions, so that many workers block
                each other less. But these trials are chosen without the latest scores.
                At the end of a study, other workers may have to wait for them.
            besides: ids of trials that the worker is already evaluating. `ask` does not
                return these trials.
            instance: for services that act for workers: a text that is the same in all
                calls of one process, and different in every other process. By default,
                a new one. With "", it is not checked whether others use the name.
        """
        bound = copy(self)
        bound._worker = Worker(name, lease, ahead, besides, instance)
        return bound

    @property
    def worker_name(self) -> str | None:
        """The name of the worker that this study is bound to (see `worker`). None if it is not bound."""
        return None if self._worker is None else self._worker.name

    @abstractmethod
    def heartbeat(self, trial: AnyTrial | None = None) -> list[Trial]:
        """Extend the leases of this worker. A `with` block of a bound study does this by itself.

        Args:
            trial: extend only the lease of this trial.

        Returns:
            The trials whose leases were extended, oldest first. A trial is missing if
            its scores or its failure were recorded, or if it was released. It is also
            missing if its lease had expired, and any worker called `ask` after that:
            `ask` ends expired leases, so that the trials can be handed out again.

        Raises:
            InvalidArgumentError: the study is not bound to a worker's name.
            ConflictingWorkerError: another process has asked under the worker's name
                since this worker did.
        """

    @abstractmethod
    def workers(self) -> list[Holding]:
        """Return the pending trials, oldest first, each with its worker and the rest of its lease.

        `asktell.extend.Holding` describes the fields.
        """

    def wait(self, seconds: float | None = None) -> bool:
        """After an `ask` that returned no trial, wait for a moment before you ask again.

        There may be new trials when other workers have recorded scores, or when a pause
        has ended. `wait` does not return earlier if this happens. A study that is bound
        to a worker's name logs why it waits: because the study is paused, or because
        other workers hold trials. The message has the names of these workers.

        Args:
            seconds: how long to wait. By default, a study that is not bound waits for 1
                second. A bound study waits for 0.02 seconds in its first call, and then
                twice as long in each call, up to 1 second. It starts again at 0.02
                seconds after it has recorded a trial.

        Returns:
            True after waiting. False, at once, if the study is done.
        """
        if seconds is not None:
            seconds = check_seconds("seconds", seconds)
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
        """Stop handing out trials until `resume` is called. A study that is paused already stays paused.

        During the pause, `ask` returns no trials. Scores of pending trials are still
        recorded. `asktell.run` waits for the end of the pause. If a worker is restarted
        during the pause, it gets its trials back after the pause, unless their leases
        have expired by then.
        """

    @abstractmethod
    def resume(self) -> None:
        """Hand out trials again. A study that is not paused stays as it is."""

    # Reading

    @property
    @abstractmethod
    def name(self) -> str:
        """The study's name."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """True between `pause` and `resume`. During this time, `ask` returns no trials."""

    @property
    @abstractmethod
    def selector(self) -> Selector:
        """A copy of the selection, as a Selector. It does not change when the study changes later."""

    @property
    def pending(self) -> list[Trial]:
        """Trials that `ask` returned and that are still open, oldest first.

        A trial is open until its scores or its failure are recorded, or until it is
        released. A study that is bound to a worker's name lists only the trials that
        its own `ask` returned. A study that is not bound lists the trials of all
        workers.
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

        A study that is not bound to a worker's name lists such trials of all workers. A
        bound study lists only such trials that its own `ask` returned, and only in a
        `with` block. Each heartbeat of the block renews the list. Without the block,
        the list of a bound study is empty. Then use `workers()`: the field `wanted` of
        an entry is False if its trial should be stopped.
        """
        worker = self._worker
        if worker is None:
            return [holding.trial for holding in self.workers() if not holding.wanted]
        return [trial for trial in self.pending if trial.id in worker.unwanted]

    # Closing

    def close(self) -> None:
        """Close the connections to the storage or the service. Pending trials stay pending.

        A storage object that you passed to `Study.create` or `Study.open` stays open. On
        a bound study, `close` has no effect.
        """
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
                holding.trial.id
                for holding in self.workers()
                if holding.worker == worker.name and not holding.wanted
            )
        except ConflictingWorkerError as error:
            log.warning("%s", error)  # The next `ask` raises it
        except AsktellError as error:
            # The next heartbeat may succeed, and so may a late tell
            log.warning(
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
