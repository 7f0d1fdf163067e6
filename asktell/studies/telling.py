"""How a study is told: scores, those from elsewhere, and failures, by whoever has it open."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from asktell.problem.candidates import AnyPrompt, Tell, all_taken
from asktell.problem.goals import Scores
from asktell.state.lookup import AnyTrial
from asktell.studies.evaluations import encode
from asktell.studies.growing import Growable
from asktell.studies.leases import Leased, check_worker
from asktell.studies.logged import LoggedSelector
from asktell.studies.replica import Clock


class Tellable(Growable):
    """The part of a study that takes what was found out. When these return, it is on the disk."""

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Take the scores of a trial, in any order; True once they are on the disk.

        Args:
            trial: as for `Selector.tell`; of a prompt the worker's own, or its oldest.
            scores: as for `Selector.tell`.
            cost: what it cost, in any unit you keep to; summed up in the result.
            worker: who tells.
            details: what else to keep of it (the model's answer, seconds, other metrics), in JSON's types; on the disk
                together with the scores, and given back by `evaluations`.

        The same scores told twice are harmless. Scores may come after their lease has run out: of those who evaluated
        the same trial, whoever tells first is believed. False means that this was somebody else, so that these
        scores were not taken: nothing to do about, ask for the next trial.

        Raises:
            InvalidScoresError: a metric is missing, unknown, NaN, infinite or not a number; or the length is wrong.
                The trial is still out.
            InvalidArgumentError: the cost is not a finite number of at least 0, or JSON cannot hold the details.
            UnknownTrialError: the trial was never asked, or has failed.
            ConflictingTellError: the trial was told before with other scores, by the same worker or, if it was
                handed out only once, by anybody.
            StorageError: the storage cannot be used. Tell again: scores that were taken all the same do no harm.
        """
        (outcome,) = self._tell([Tell(trial, scores, cost, details)], worker)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]], *, worker: str | None = None) -> list[bool]:
        """Take several scores at once: `(trial, scores)`, `(trial, scores, cost)` or `(trial, scores, cost, details)`.

        On the disk with one wait for it, so that many cost little more than one. What is wrong with one harms none of
        the others. Of each what `tell` returns, in the order given.

        Raises:
            TellManyError: some were refused, each for one of the reasons of `tell`; all others are on the disk. Its
                `outcomes` say which, and why.
            StorageError: the storage cannot be used, and none was taken. Tell them again: it does no harm.
        """
        return all_taken(self._tell(list(tells), worker))

    def _tell(self, tells: Sequence[Any], worker: str | None) -> list[bool | Exception]:
        check_worker(worker)
        return self._replica.together([partial(self._take, tell, worker) for tell in tells]) if tells else []

    def _take(self, item: object, worker: str | None, logged: LoggedSelector, clock: Clock) -> bool:
        tell = Tell.of(item)
        text = encode(tell.details)
        vector = logged.selector.goal.vector(tell.scores)
        id_ = logged.find(tell.trial, worker)
        reissue = logged.leases.reissued.get(id_)
        if reissue is not None:
            if logged.state.open(id_) is None:
                told = logged.state.history.scores_of(id_)
                if told is None or (told != vector and (worker is None or worker != reissue.teller)):
                    return False
            elif worker is not None and worker != logged.leases.holder(id_):
                logged.note(Leased(worker, round(clock(), 3), (id_,)))  # so that it is the teller
        is_new = logged.state.open(id_) is not None
        logged.selector.tell(id_, vector, tell.cost)
        if is_new:
            self._replica.attach(id_, text)
        return True

    def observe(
        self,
        prompt: AnyPrompt,
        scores: Scores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> None:
        """Take scores from elsewhere (a warm start): they inform the estimates, and are no evaluation of the budget.

        Args:
            prompt: the prompt's id or text, or a trial of it.
            scores: as for `tell`; None if there are none and only a cost is to be booked.
            example: the example they belong to, its position or its id; it will then not be asked for this prompt.
            cost: what was paid, as for `Selector.observe`.

        Raises:
            InvalidScoresError: as for `tell`; or there are neither scores nor a cost.
            InvalidArgumentError: the prompt or the example is unknown, or the cost is not a number >= 0.
            StorageError: the storage cannot be used.
        """
        with self._replica.writing(durable=True) as (logged, _):
            logged.selector.observe(prompt, scores, example, cost)

    def fail(
        self,
        trial: AnyTrial,
        reason: str | BaseException,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record a failed evaluation, as `Selector.fail` does. `details` as for `tell`.

        False if the trial is not this worker's any more, and nothing was changed.

        Raises:
            UnknownTrialError: the trial is not out.
            InvalidArgumentError: the reason is neither text nor an exception, the cost is not a number >= 0, or JSON
                cannot hold the details.
            StorageError: the storage cannot be used.
        """
        check_worker(worker)
        text = encode(details)
        with self._replica.writing(durable=True) as (logged, _):
            id_ = logged.find(trial, worker)
            if logged.lost(id_, worker):
                return False
            logged.selector.fail(id_, reason, cost)
            self._replica.attach(id_, text)
            return True
