"""What a `Study` and a `RemoteStudy` have in common: a selection that several workers share."""

import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self, overload

from asktell.errors import InvalidArgumentError
from asktell.problem.candidates import AnyTrial, Tell, Trial, all_taken
from asktell.problem.checks import check_name, check_reason, check_seconds, check_trials, whole
from asktell.problem.goals import Scores
from asktell.selector import Selection, SelectionWorker, Selector
from asktell.studies.details import encode
from asktell.studies.leases import SECONDS, Holding, check_lease, check_worker


class AbstractStudy(Selection):
    """A selection that several workers share. Everything that changes it is on the disk when it returns.

    `worker` is a name of your choice, a different one for each worker. A worker that asks with its name gets a lease:
    once that has run out, its trials are asked again from somebody else. Of those who evaluated the same trial, whoever
    tells first is believed; the others get False, which is nothing to do about: ask for the next trial. A trial that
    was asked without a name stays pending until it is told, failed or released.

    Every method may raise a StorageError, when the storage cannot be used; then nothing has changed, or, rarely, it is
    not known. Do it again: what was told twice counts once, and `add`, `retire` and `extend` take a key.
    """

    # Asking and telling

    @overload
    def ask(
        self, n: None = None, *, worker: str | None = None, lease: float | None = None, besides: Collection[int] = ()
    ) -> Trial | None: ...

    @overload
    def ask(
        self, n: int, *, worker: str | None = None, lease: float | None = None, besides: Collection[int] = ()
    ) -> list[Trial]: ...

    def ask(
        self,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
    ) -> Trial | list[Trial] | None:
        """What to evaluate now: a trial, or with `n` a list of up to n, grouped by prompt.

        None, or an empty list, means that the selection is `done`, is `paused`, or waits for the scores of `pending`
        trials. Never waits for scores.

        Args:
            n: how many to hold.
            worker: who asks. It gets back first the trials that it holds, oldest first, so that a worker that was
                restarted goes on with its own, and is topped up to n.
            lease: seconds until the trials may be given to somebody else; 600 by default. Needs a worker.
            besides: ids of trials that the worker is busy with; n others are wanted. Needs a worker.
        """
        if worker is not None:
            check_name("A worker", worker)
        wanted, busy = 1 if n is None else whole("n", n, 0), check_trials("besides", besides)
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
        self, n: int, worker: str | None = None, seconds: float = SECONDS, besides: Collection[int] = ()
    ) -> list[Trial]:
        """Up to n trials; all arguments are checked."""

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record the scores of a trial, in any order; arguments and errors of `Selector.tell`, and more.

        False if the same scores were told before, or another worker told first. Of a prompt that is named, the worker's
        own trial comes before its oldest. `details` are what else to keep of it (the model's answer, seconds, other
        metrics), in JSON's types; stored together with the scores, and given back by `evaluations`.

        Raises:
            ConflictingTellError: the trial was told before with other scores, by the same worker or, if it was handed
                out only once, by anybody.
        """
        (outcome,) = self._tell([Tell(trial, scores, cost, details)], check_worker(worker))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]], *, worker: str | None = None) -> list[bool]:
        """Record several scores at once: `(trial, scores)`, with a `cost` and `details` behind them if there are any.

        Many cost little more time than one. An error in one of them affects none of the others.

        Raises:
            TellManyError: some were refused, each for one of the reasons of `tell`; all others are on the disk. Its
                `outcomes` say which, and why.
        """
        return all_taken(self._tell(list(tells), check_worker(worker)))

    @abstractmethod
    def _tell(self, tells: Sequence[Any], worker: str | None) -> list[bool | Exception]:
        """What became of each; they are what `tell_many` got."""

    def fail(
        self,
        trial: AnyTrial,
        reason: str | BaseException,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record a failed evaluation; see `Selector.fail`, and `tell` for `worker` and `details`.

        Also False if another worker has the trial.
        """
        return self._fail(trial, check_reason(reason), cost, check_worker(worker), encode(details))

    @abstractmethod
    def _fail(self, trial: AnyTrial, reason: str, cost: float | None, worker: str | None, details: str | None) -> bool:
        """What `fail` returns; `details` as JSON."""

    @abstractmethod
    def release(self, trial: AnyTrial, *, worker: str | None = None) -> bool:
        """Hand a trial back unevaluated; see `Selector.release`. Also False if another worker has it."""

    # Workers

    @abstractmethod
    def heartbeat(self, worker: str, trial: AnyTrial | None = None, *, lease: float | None = None) -> list[Trial]:
        """Extend a worker's leases, or that of one trial; returns the trials that it still holds, oldest first.

        They last `lease` seconds from now, 600 by default. A trial that is missing from the answer was told, or its
        lease had run out and somebody asked since.
        """

    @abstractmethod
    def worker(self, name: str | None = None, *, lease: float = 60.0, ahead: int = 0) -> SelectionWorker:
        """This study for one worker: a `with` block in which its leases are extended.

        Args:
            name: a different one for each worker; by default of the host, the process and some random letters. Give
                one if the worker, after a restart, is to go on with its own trials.
            lease: seconds after which its trials are given to others when it dies.
            ahead: number of trials that it asks for beyond those that it needs now. With so many fewer transactions
                many workers keep out of each other's way; but these trials were chosen without what is told meanwhile,
                and at the end others wait for them.
        """

    @abstractmethod
    def workers(self) -> list[Holding]:
        """The pending trials, oldest first, and who holds them."""

    def wait(self, seconds: float = 1.0) -> None:
        """Let so many seconds pass, for whoever asked and got nothing."""
        time.sleep(check_seconds("seconds", seconds))

    @abstractmethod
    def pause(self) -> None:
        """Hand nothing out until `resume`; a study that is paused stays paused.

        Pending trials stay with who holds them, and their scores are taken. Workers wait, rather than end. What a
        worker held when it was restarted it gets back after the pause, if its lease has not run out by then.
        """

    @abstractmethod
    def resume(self) -> None:
        """Hand trials out again; a study that is not paused goes on as it is."""

    # Reading

    @property
    @abstractmethod
    def name(self) -> str:
        """The study's name."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """True while nothing is handed out, until somebody resumes it."""

    @property
    @abstractmethod
    def selector(self) -> Selector:
        """A selector in the study's present state, independent of it from now on."""

    # Closing

    @abstractmethod
    def close(self) -> None:
        """Close the files and connections. Pending trials stay pending."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
