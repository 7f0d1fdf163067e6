"""The trials that a run has out, and what becomes of them: what every driver of evaluations needs."""

import contextlib
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError, StorageError, TellManyError
from asktell.running.failures import FIRST_ALIKE, FailureLimit, HeldBack, Streak
from asktell.running.outcomes import (
    Outcome,
    cost_of_failure,
    details_of,
    failure_of,
    goal_scores,
    missing_extra,
    one_each,
)
from asktell.running.progress import Bar
from asktell.selector import Selector
from asktell.trial import Tell, Trial

if TYPE_CHECKING:
    from asktell.studies.worker import SharedStudy, Worker

OnTell: TypeAlias = Callable[[Any, Trial], None]
_Cell: TypeAlias = tuple[str | int, int | None]

_log = logging.getLogger("asktell")


@contextlib.contextmanager
def open_board(
    selector: "Selector | SharedStudy | Worker",
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: int | FailureLimit | None = FIRST_ALIKE,
) -> "Iterator[Board]":
    """What every driver of evaluations needs, for `run` and for those on clusters: see there.

    Trials that were out when it began are asked again; those that are out when the block ends are handed back.
    """
    limit = FailureLimit.of(max_failures_in_a_row)
    with contextlib.ExitStack() as stack:
        if not isinstance(selector, Selector):
            from asktell.studies.worker import Worker

            if not isinstance(selector, Worker):
                if not callable(getattr(selector, "worker", None)):
                    raise InvalidArgumentError(f"run() needs a Selector or a Study, got {type(selector).__name__}.")
                selector = selector.worker()
            stack.enter_context(selector)
        for trial in selector.pending:
            selector.release(trial)
        bar = stack.enter_context(Bar(selector, progress))
        board = Board(selector, bar, on_tell, limit)
        stack.callback(board.hand_back)
        yield board


class Board:
    """The trials this run has out, and what becomes of them.

    With a limit, failures are held back until a success shows that they are their prompts' own. If they are of several
    prompts, or nothing else can be asked, the board looks ahead meanwhile: it asks a copy of the selection, in which
    they count, so that an outage leaves no trace in this one.
    """

    def __init__(
        self, selector: "Selector | Worker", bar: Bar, on_tell: OnTell | None, limit: FailureLimit | None
    ) -> None:
        self.selector = selector
        self._bar = bar
        self._on_tell = on_tell
        self._out: dict[int, Trial] = {}
        self._batch: list[tuple[Trial, Outcome]] | None = None  # scores to be told together
        self._running: dict[int, Trial] = {}  # those of them that are not held back, and what was looked ahead to
        self._streak = None if limit is None else Streak(limit)
        self._adopted: dict[int, Trial] = {}  # what was looked ahead to, is running, and has been asked since
        self._ahead: dict[_Cell, deque[Outcome]] = defaultdict(deque)  # what came of looking ahead
        self._probes: list[int] = []  # what was looked ahead to has the ids -1, -2, ...: its numbers among its cell's

    def ask(self, n: int) -> list[Trial]:
        """Up to n trials; none only if nothing more is to be done, or something of this run is still out."""
        while not (trials := self._ask(n)) and not self._running:
            if self._streak is not None and self._streak.failures:
                if trials := self._look_ahead(self._streak, n):
                    break
                self._count_failures()
            elif isinstance(self.selector, Selector) or not self.selector.wait():
                break
        self._running.update({trial.id: trial for trial in trials})
        return trials

    def repeat_of(self, trial: Trial) -> int:
        """How often its prompt was asked on its example before; see `Selector.repeat_of`."""
        return self.selector.repeat_of(trial) if trial.id >= 0 else self._probes[-1 - trial.id]

    def take(self, trial: Trial, outcome: Outcome) -> None:
        """Take the scores, or the failure."""
        if missing := missing_extra(outcome):
            raise missing
        self._running.pop(trial.id, None)
        trial = self._adopted.pop(trial.id, trial)
        error, streak = failure_of(self.selector, outcome), self._streak
        if error is None:
            if streak is not None:
                streak.succeeded()
                self._count_failures()
            self._record(trial, outcome)
        elif streak is None:
            _log_failure(trial, error)
            self._record(trial, outcome)
        else:
            again = streak.is_first and bool(streak.failures)  # one is said at once, the others if they are to count
            if not again:
                _log_failure(trial, error)
            cost = cost_of_failure(self.selector, outcome)
            streak.add(HeldBack(trial, outcome, error, cost, not again), self.selector.n_active)
            if streak.is_over:
                self._count_failures()

    def take_batch(self, trials: list[Trial], outcomes: object) -> None:
        """Take each of a batch; a batch that failed whole, or has the wrong length, fails for each."""
        try:
            each = [outcomes] * len(trials) if isinstance(outcomes, BaseException) else one_each(trials, outcomes)
        except EvaluatorError as error:
            each = [error] * len(trials)
        with self.together():
            for i, trial in enumerate(trials):
                try:
                    self.take(trial, each[i])
                except BaseException:  # the run ends: what came with this one is not lost
                    self.rescue(trials[i + 1 :], each[i + 1 :])
                    raise

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Scores that are taken within are told at its end, at once: a study waits for its disk once."""
        if isinstance(self.selector, Selector) or self._batch is not None:
            yield
            return
        self._batch = []
        try:
            yield
        finally:
            batch, self._batch = self._batch, None
            self._tell_batch(batch)

    def release(self, trial: Trial) -> None:
        """Hand one back, unevaluated; it is asked again."""
        self._running.pop(trial.id, None)
        trial = self._adopted.pop(trial.id, trial)
        if self._out.pop(trial.id, None) is not None:
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)

    def rescue(self, trials: list[Trial], outcomes: object) -> None:
        """Tell the scores of an evaluation that came to its end while the run was being ended."""
        for trial, outcome in zip(trials, outcomes if isinstance(outcomes, Sequence) else [], strict=False):
            if failure_of(self.selector, outcome) is None:
                with contextlib.suppress(AsktellError):
                    self._record(self._adopted.pop(trial.id, trial), outcome)

    def hand_back(self) -> None:
        """Release what is still out, so that a saved selector asks it again; what is known by looking ahead is told."""
        self._on_tell = None  # it may be what has raised
        with contextlib.suppress(AsktellError):
            while any(self._ahead.values()) and (asked := self.selector.ask(len(self._probes))):
                self._out.update({trial.id: trial for trial in asked})
                if not sum([self._is_known(trial) for trial in asked]):
                    break
        for trial in self._out.values():
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)
        self._out.clear()

    def _ask(self, n: int) -> list[Trial]:
        """New trials, without those whose outcome is known from looking ahead: that is recorded."""
        if self._streak is not None and len(self._streak.prompts) > 1:
            return self._look_ahead(self._streak, n)
        trials: list[Trial] = []
        while len(trials) < n and (asked := self.selector.ask(n - len(trials))):
            self._out.update({trial.id: trial for trial in asked})
            unknown = [trial for trial in asked if not self._is_known(trial)]
            trials += unknown
            if len(unknown) == len(asked):
                break
        return trials

    def _is_known(self, trial: Trial) -> bool:
        """Whether its outcome is there from looking ahead, and is recorded now, or will be."""
        if found := self._ahead.get(_cell(trial)):
            self._record(trial, found.popleft())
            return True
        for probe in self._running.values():
            if probe.id < 0 and probe.id not in self._adopted and _cell(probe) == _cell(trial):
                self._adopted[probe.id] = trial
                return True
        return False

    def _look_ahead(self, streak: Streak, n: int) -> list[Trial]:
        """What would be asked if the failures counted; none if that is nothing, or others must be told first."""
        ahead = copy(self.selector) if isinstance(self.selector, Selector) else self.selector.selector
        known = Counter(_cell(failure.trial) for failure in streak.failures if failure.trial.id < 0)
        running = Counter(_cell(t) for t in self._running.values() if t.id < 0 and t.id not in self._adopted)
        for failure in streak.failures:
            if failure.trial.id >= 0:
                with contextlib.suppress(AsktellError):  # its lease was lost
                    ahead.fail(failure.trial.id, failure.error)
        waiting = {cell: list(outcomes) for cell, outcomes in self._ahead.items()}
        trials: list[Trial] = []
        while len(trials) < n and (trial := ahead.ask()) is not None:
            if outcomes := waiting.get(_cell(trial)):
                self._count(ahead, trial, outcomes.pop(0))
            elif known[_cell(trial)]:
                known[_cell(trial)] -= 1
                ahead.fail(trial, "failed")
            elif running[_cell(trial)]:
                running[_cell(trial)] -= 1
            else:
                self._probes.append(ahead.repeat_of(trial))
                trials.append(trial._replace(id=-len(self._probes)))
        if not trials and not self._running:
            streak.end(ahead)
        return trials

    def _count(self, ahead: Selector, trial: Trial, outcome: Outcome) -> None:
        """What came of looking ahead, in the copy."""
        error = failure_of(self.selector, outcome)
        if error is None:
            ahead.tell(trial, *goal_scores(self.selector, outcome))
        else:
            ahead.fail(trial, error)

    def _count_failures(self) -> None:
        """Count the failures that were held back."""
        if self._streak is None:
            return
        failures = self._streak.take()
        if self._streak.is_over:
            self._streak = None
        for failure in failures:
            if not failure.is_logged:
                _log_failure(failure.trial, failure.error)
            self._record(failure.trial, failure.outcome)

    def _record(self, trial: Trial, outcome: Outcome) -> None:
        """Tell or fail; what was looked ahead to waits until it is asked."""
        if trial.id < 0:
            self._ahead[_cell(trial)].append(outcome)
            return
        error = failure_of(self.selector, outcome)
        if error is None and self._batch is not None:
            self._batch.append((trial, outcome))
            return
        self._settle(trial, outcome, self._tell(trial, outcome) if error is None else error)

    def _settle(self, trial: Trial, outcome: Outcome, error: BaseException | None) -> None:
        """What was told needs no more; what failed, or was refused, counts as failed."""
        if error is not None:
            cost = cost_of_failure(self.selector, outcome)
            if isinstance(self.selector, Selector):
                self.selector.fail(trial, error, cost)
            else:
                self.selector.fail(trial, error, cost, details_of(self.selector, outcome))
        self._out.pop(trial.id, None)
        self._bar.show()
        if self._on_tell is not None:
            self._on_tell(self.selector, trial)

    def _tell_batch(self, batch: list[tuple[Trial, Outcome]]) -> None:
        assert not isinstance(self.selector, Selector)
        if len(batch) == 1:
            ((trial, outcome),) = batch
            self._settle(trial, outcome, self._tell(trial, outcome))
            return
        tells, errors = [], dict[int, Exception]()
        for trial, outcome in batch:
            scores, cost = goal_scores(self.selector, outcome)
            tells.append(Tell(trial, scores, cost, details_of(self.selector, outcome)))
        try:
            self.selector.tell_many(tells)
        except TellManyError as error:
            errors = {i: outcome for i, outcome in enumerate(error.outcomes) if isinstance(outcome, Exception)}
        for i, (trial, outcome) in enumerate(batch):
            self._settle(trial, outcome, errors.get(i))

    def _tell(self, trial: Trial, outcome: Any) -> AsktellError | None:
        """What the selector had against the scores."""
        scores, cost = goal_scores(self.selector, outcome)
        try:
            if isinstance(self.selector, Selector):
                self.selector.tell(trial, scores, cost)
            else:
                self.selector.tell(trial, scores, cost, details_of(self.selector, outcome))
        except StorageError:  # nothing is wrong with the scores
            raise
        except AsktellError as error:
            return error
        return None


def _log_failure(trial: Trial, error: BaseException) -> None:
    what = f"trial {trial.id}" if trial.id >= 0 else "what will be a trial"
    _log.warning("%s (prompt %r, example %r) failed: %r", what, trial.prompt_id, trial.example, error)


def _cell(trial: Trial) -> _Cell:
    return trial.prompt_id, trial.example
