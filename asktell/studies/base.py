"""The interface of `Study` and `RemoteStudy`: a stored selection that several workers share."""

import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self, overload

from asktell.errors import InvalidArgumentError
from asktell.problem.candidates import AnyTrial, Tell, Trial, all_taken
from asktell.problem.checks import (
    check_name,
    check_reason,
    check_seconds,
    check_trials,
    whole,
)
from asktell.problem.goals import Scores
from asktell.selector import Selection, SelectionWorker, Selector
from asktell.studies.details import encode
from asktell.studies.leases import SECONDS, Holding, check_lease, check_worker


class AbstractStudy(Selection):
    """A stored selection that several workers share: the interface of `Study` and `RemoteStudy`.

    It has all methods of `Selector`. When `tell`, `tell_many`, `fail`, `observe`,
    `add`, `retire`, `extend`, `remark`, `pause` or `resume` returns, its change is
    stored durably.

        >>> import asktell
        >>> prompts = {"short": "Answer in one word.", "long": "Think first."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), 20, examples=10)
        >>> with asktell.Study.create("memory://abstract", "my study", selector) as study:
        ...     trial = study.ask(worker="worker 1")
        ...     study.tell(trial, {"accuracy": 1.0}, worker="worker 1")
        ...     study.spent
        True
        1

    **Workers and leases.** `worker=` is a name of your choice. Give each worker a
    different name. A worker that asks with its name gets a lease on its trials. When
    the lease expires, the trials are given to another worker. A trial that was asked
    for without a name stays pending until it is told, failed or released.

    If several workers evaluate the same trial, the first scores are recorded. `tell`
    returns False to the others, which can simply ask for the next trial.

    **Errors.** Every method may raise a StorageError if the storage cannot be used.
    Usually nothing was changed then. Rarely, the outcome is unknown. Repeat the call in
    either case: scores that are told twice count once, and `add`, `retire` and `extend`
    take a `key` that makes them safe to repeat.
    """

    # Asking and telling

    @overload
    def ask(
        self,
        n: None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
    ) -> Trial | None: ...

    @overload
    def ask(
        self,
        n: int,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
    ) -> list[Trial]: ...

    def ask(
        self,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
    ) -> Trial | list[Trial] | None:
        """Return the next trial to evaluate or, with `n`, a list of up to n trials, grouped by prompt.

        Returns None, or an empty list, if the selection is `done`, is `paused`, or
        cannot decide before the scores of `pending` trials arrive. Never waits for
        scores.

        Args:
            n: the number of trials that the worker is to hold.
            worker: name of the worker. It first gets back the trials that it already
                holds, oldest first, and then new ones, up to n in all. So a worker that
                was restarted continues with its own trials.
            lease: seconds until the trials may be given to another worker, 600 by
                default. Requires `worker`.
            besides: ids of trials that the worker is evaluating. They are not returned,
                and do not count towards n. Requires `worker`.

        Raises:
            InvalidArgumentError: an argument is invalid, or `lease` or `besides` was
                given without `worker`.
        """
        if worker is not None:
            check_name("A worker", worker)
        wanted, busy = (
            1 if n is None else whole("n", n, 0),
            check_trials("besides", besides),
        )
        if busy and worker is None:
            raise InvalidArgumentError(
                "besides needs worker: give the name of the worker that is busy with these trials."
            )
        seconds = SECONDS if lease is None else check_lease(worker, lease)
        trials = self._ask(wanted, worker, seconds, busy)
        if n is None:
            return trials[0] if trials else None
        return trials

    @abstractmethod
    def _ask(
        self,
        n: int,
        worker: str | None = None,
        seconds: float = SECONDS,
        besides: Collection[int] = (),
    ) -> list[Trial]:
        """Return up to n trials. The arguments are valid: `ask` has checked them."""

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record the scores of a trial. Trials may be told in any order.

        Returns True if the scores were recorded. Returns False if the same scores were
        recorded before, or if another worker recorded its scores first.

        Args:
            trial: as for `Selector.tell`. If you pass a prompt, the scores go to a
                pending trial of this prompt: to one that the worker holds, or otherwise
                to the oldest.
            scores: as for `Selector.tell`.
            cost: as for `Selector.tell`.
            worker: name of the worker that evaluated the trial.
            details: more data about the evaluation, such as the response, seconds or
                other metrics, as a mapping of JSON types. It is stored with the scores,
                and returned by `evaluations`.

        Raises:
            ConflictingTellError: other scores of this trial were recorded before, by
                the same worker, or by any worker if the trial was handed out only once.
        """
        (outcome,) = self._tell(
            [Tell(trial, scores, cost, details)], check_worker(worker)
        )
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def tell_many(
        self, tells: Iterable[Tell | tuple[Any, ...]], *, worker: str | None = None
    ) -> list[bool]:
        """Record the scores of several trials at once, in little more time than those of one.

        Returns, for each tell, what `tell` would return. An error in one of them does
        not affect the others.

        Args:
            tells: tuples `(trial, scores)`, `(trial, scores, cost)` or `(trial, scores,
                cost, details)`.
            worker: name of the worker that evaluated the trials.

        Raises:
            TellManyError: some tells were refused, each for one of the reasons of
                `tell`. All others are stored. The error's `outcomes` has the result or
                the error of each.
        """
        return all_taken(self._tell(list(tells), check_worker(worker)))

    @abstractmethod
    def _tell(self, tells: Sequence[Any], worker: str | None) -> list[bool | Exception]:
        """Return the result or the error of each tell. The items are not checked yet."""

    def fail(
        self,
        trial: AnyTrial,
        reason: str | BaseException,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record a failed evaluation. See `Selector.fail`, and `tell` for `worker` and `details`.

        Also returns False if another worker holds the trial.
        """
        return self._fail(
            trial, check_reason(reason), cost, check_worker(worker), encode(details)
        )

    @abstractmethod
    def _fail(
        self,
        trial: AnyTrial,
        reason: str,
        cost: float | None,
        worker: str | None,
        details: str | None,
    ) -> bool:
        """Do what `fail` does. The arguments are valid, and `details` is JSON text."""

    @abstractmethod
    def release(self, trial: AnyTrial, *, worker: str | None = None) -> bool:
        """Return a trial unevaluated. See `Selector.release`. Also returns False if another worker holds the trial."""

    # Workers

    @abstractmethod
    def heartbeat(
        self, worker: str, trial: AnyTrial | None = None, *, lease: float | None = None
    ) -> list[Trial]:
        """Extend the leases of a worker and return the trials that it still holds, oldest first.

        A trial is missing from the returned list if it was told, or if its lease
        expired and another worker took it.

        Args:
            worker: name of the worker.
            trial: extend only the lease of this trial.
            lease: seconds from now until the leases expire, 600 by default.
        """

    @abstractmethod
    def worker(
        self, name: str | None = None, *, lease: float = 60.0, ahead: int = 0
    ) -> SelectionWorker:
        """Return this study as one worker sees it. Use it in a `with` block, which keeps extending the leases.

        Args:
            name: name of the worker, different from all others. By default it is made
                of the host, the process id and random letters. Give a name if the
                worker should continue with its own trials after a restart.
            lease: seconds after which the trials of a worker that died are given to
                other workers.
            ahead: number of trials that the worker requests in advance. Larger numbers
                need fewer transactions, so that many workers block each other less. But
                these trials are chosen before the latest scores arrive, and at the end
                of a study other workers wait for them.
        """

    @abstractmethod
    def workers(self) -> list[Holding]:
        """Return the pending trials and their workers, oldest first."""

    def wait(self, seconds: float = 1.0) -> None:
        """Sleep for some seconds, after an `ask` that returned no trial."""
        time.sleep(check_seconds("seconds", seconds))

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

    # Closing

    @abstractmethod
    def close(self) -> None:
        """Close the files and connections. Pending trials stay pending."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
