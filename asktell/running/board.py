"""The trials that a run has out, and what becomes of them: what every driver of evaluations needs."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError, StorageError, TellManyError
from asktell.problem.candidates import Tell, Trial
from asktell.problem.checks import cause_of
from asktell.running.again import to_repeat
from asktell.running.ahead import Ahead
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
from asktell.running.progress import Bar, progress_of
from asktell.selector import Selector

if TYPE_CHECKING:
    from asktell.running.cell import Cell
    from asktell.studies.base import AbstractStudy
    from asktell.studies.worker import Worker

OnTell: TypeAlias = Callable[[Any, Trial], None]
Until: TypeAlias = Callable[[Any], bool]
_Cell: TypeAlias = tuple[str | int, int | None]

_log = logging.getLogger("asktell")
_FIRST_LOOK = 8  # scores told, between two looks for what is to be repeated


@contextlib.contextmanager
def open_board(
    selector: "Selector | AbstractStudy | Worker",
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: int | FailureLimit | None = FIRST_ALIKE,
    repeatable: bool = True,
    until: Until | None = None,
) -> "Iterator[Board]":
    """What every driver of evaluations needs, for `run` and for those on clusters: see there.

    Trials that were out when it began are asked again; those that are out when the block ends are handed back.
    """
    limit = FailureLimit.of(max_failures_in_a_row)
    with contextlib.ExitStack() as stack:
        if not isinstance(selector, Selector):
            from asktell.studies.base import AbstractStudy
            from asktell.studies.worker import Worker

            if not isinstance(selector, Worker):
                if not isinstance(selector, AbstractStudy):
                    raise InvalidArgumentError(f"run() needs a Selector or a Study, got {type(selector).__name__}.")
                selector = Worker(selector)
            stack.enter_context(selector)
        for trial in selector.pending:
            selector.release(trial)
        bar = progress_of(selector, progress)
        stack.enter_context(bar)
        board = Board(selector, bar, on_tell, limit, repeatable, until)
        stack.callback(board.hand_back)
        yield board


class Board:
    """The trials this run has out, and what becomes of them.

    With a limit, failures are held back until a success shows that they are their prompts' own. If nothing else can be
    asked meanwhile, the board looks ahead: it evaluates what a copy of the selection asks for, in which they count.
    With the first success they count here too, and the selection is asked for the same. Where it asks for something
    else (it has changed meanwhile), what comes of looking ahead is observed, and its cost is booked.
    """

    def __init__(
        self,
        selector: "Selector | Worker",
        bar: "Bar | Cell",
        on_tell: OnTell | None,
        limit: FailureLimit | None,
        repeatable: bool,
        until: Until | None,
    ) -> None:
        self.selector = selector
        self._bar = bar
        self._on_tell = on_tell
        self._told: deque[Trial] = deque()  # and failed, of which `on_tell` does not know yet
        self._out: dict[int, Trial] = {}
        self._running: set[int] = set()  # those of them that are not held back, and probes
        self._new: list[Trial] = []  # asked, and not yet given to be evaluated
        self._streak = None if limit is None else Streak(limit)
        self._ahead: Ahead | None = None
        self._repeats: list[int] = []  # of probes, whose ids are -1, -2, ...: their numbers among their cells'
        self._astray: dict[int, Trial] = {}  # probes that the selection should have asked for, and has not yet
        self._adopted: dict[int, Trial] = {}  # what it has asked for, by the probe's id
        self._taken: list[tuple[Trial, Outcome]] = []  # scores that are not recorded yet
        self._is_together = False  # whether more are to come, to be told at once
        self._until, self._is_enough = until, False
        self._again: set[int] | None = None if repeatable else set()  # probes that repeat: out, or failed
        self._n_told, self._look_at = 0, _FIRST_LOOK  # scores that this run has told, and when to look for repeats

    def ask(self, n: int) -> list[Trial]:
        """Up to n trials; none only if nothing more is to be done, or something of this run is still out."""
        while not (trials := self._repeat(n) or self._ask(n)) and not self._running:
            if self._is_enough:
                trials = self._repeat(n, late=True)
                break
            if self._streak is not None and self._streak.failures and not self._is_paused:
                if trials := self._look_ahead(self._streak, n):
                    break
                self._count_failures()
                self._announce()
            elif isinstance(self.selector, Selector) or not self.selector.wait():
                trials = self._repeat(n, late=True)
                break
        self._running.update(trial.id for trial in trials)
        return trials

    def _repeat(self, n: int, late: bool = False) -> list[Trial]:
        """Up to n evaluations to repeat, as probes; see `asktell.running.again`."""
        if self._again is None or not (late or self._n_told >= self._look_at):
            return []
        selector = self.selector if isinstance(self.selector, Selector) else self.selector.selector
        n = 1 if late and selector is not self.selector else n  # other workers may be about to repeat some, too
        due, probes = to_repeat(selector.state, len(self._again), late), []
        if len(due) <= n:
            self._look_at = self._n_told + max(_FIRST_LOOK, self._n_told // 10)
        for arm, example in due[:n]:
            self._repeats.append(1)
            probes.append(selector.prompts.trial(-len(self._repeats), arm, example))
        self._again.update(probe.id for probe in probes)
        return probes

    @property
    def _is_paused(self) -> bool:
        return not isinstance(self.selector, Selector) and self.selector.paused

    def repeat_of(self, trial: Trial) -> int:
        """How often its prompt was asked on its example before; see `Selector.repeat_of`."""
        return self.selector.repeat_of(trial) if trial.id >= 0 else self._repeats[-1 - trial.id]

    def take(self, trial: Trial, outcome: Outcome) -> None:
        """Take the scores, or the failure."""
        if missing := missing_extra(outcome):
            raise missing
        self._running.discard(trial.id)
        error, streak = failure_of(self.selector, outcome), self._streak
        if error is None:
            self._taken.append((trial, outcome))
            if streak is not None:
                streak.succeeded()
                self._count_failures()
            if not self._is_together:
                self._record_taken()
        elif streak is None:
            _log_failure(trial, error)
            self._record(trial, outcome)
        else:
            trial = self._adopted.pop(trial.id, trial)
            again = streak.is_first and bool(streak.failures)  # one is said at once, the others if they are to count
            if not again:
                _log_failure(trial, error)
            failure = HeldBack(trial, outcome, error, cost_of_failure(self.selector, outcome), not again)
            if self._ahead is not None and trial in self._ahead:
                self._ahead.fail(failure)
            streak.add(failure, self.selector.n_active)
            if streak.is_over:
                self._count_failures()
        self._announce()

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
        if isinstance(self.selector, Selector) or self._is_together:
            yield
            return
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False
            self._record_taken()
        self._announce()

    def release(self, trial: Trial) -> None:
        """Hand one back, unevaluated; it is asked again."""
        self._running.discard(trial.id)
        if self._ahead is not None and trial in self._ahead:
            self._ahead.release(trial)
        self._astray.pop(trial.id, None)
        trial = self._adopted.pop(trial.id, trial)
        if self._out.pop(trial.id, None) is not None:
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)

    def rescue(self, trials: Sequence[Trial], outcomes: object) -> None:
        """Take the scores that came while the run was being ended, and book what failures have cost."""
        self._on_tell = None  # it may be what has raised
        for trial, outcome in zip(trials, outcomes if isinstance(outcomes, Sequence) else [], strict=False):
            with contextlib.suppress(AsktellError):
                if failure_of(self.selector, outcome) is None:
                    self._record(trial, outcome)
                else:
                    self._observe(trial, outcome)

    def hand_back(self) -> None:
        """Release what is still out, so that a saved selector asks it again; what failures have cost is booked."""
        taken, self._taken = self._taken, []  # not empty if it was interrupted
        for trial, outcome in taken:
            self.rescue([trial], [outcome])
        for failure in () if self._streak is None else self._streak.failures:
            if failure.trial.id < 0 or failure.trial.id in self._out:
                with contextlib.suppress(AsktellError):
                    self._observe(failure.trial, failure.outcome)
        for trial in self._out.values():
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)
        self._out.clear()

    def _ask(self, n: int) -> list[Trial]:
        """New trials, without those that are being evaluated already."""
        self._is_enough = self._is_enough or (self._until is not None and self._until(self.selector))
        if self._is_enough:
            return []
        if len(self._new) < n:
            self._ask_for(n - len(self._new))
        trials, self._new = self._new[:n], self._new[n:]
        return trials

    def _ask_for(self, n: int) -> None:
        """Ask for so many more; those that were looked ahead to are the probes' from now on."""
        for trial in self.selector.ask(n):
            self._out[trial.id] = trial
            probe = next((id_ for id_, probe in self._astray.items() if _cell(probe) == _cell(trial)), None)
            if probe is None:
                self._new.append(trial)
            else:
                del self._astray[probe]
                self._adopted[probe] = trial

    def _look_ahead(self, streak: Streak, n: int) -> list[Trial]:
        """What would be asked if the failures counted; none if that is nothing, or others must be told first."""
        if self._ahead is None:
            now = copy(self.selector) if isinstance(self.selector, Selector) else self.selector.selector
            self._ahead = Ahead(now, streak.failures, self._repeats)
        probes = self._ahead.ask(n)
        if not probes:
            streak.end(self._ahead.selector)
        return probes

    def _count_failures(self) -> None:
        """Count the failures that were held back, and repeat here what was looked ahead to."""
        streak, ahead = self._streak, self._ahead
        if streak is None:
            return
        self._ahead = None
        for failure in [held for held in streak.failures if ahead is None or held.trial not in ahead]:
            self._settle(streak, failure)
        for step in () if ahead is None else ahead.steps:
            if isinstance(step, HeldBack):
                self._settle(streak, step)
            else:
                self._astray.update(step.probes)
                self._ask_for(step.n)
        if streak.is_over:
            self._streak = None

    def _settle(self, streak: Streak, failure: HeldBack) -> None:
        if not failure.is_logged:
            _log_failure(failure.trial, failure.error)
        self._record(failure.trial, failure.outcome)
        streak.settle(failure)

    def _record(self, trial: Trial, outcome: Outcome) -> None:
        """Tell or fail; what the selection has not asked for is observed."""
        trial = self._adopted.get(trial.id, trial)
        if trial.id < 0:
            self._observe(trial, outcome)
            return
        error = failure_of(self.selector, outcome)
        self._conclude(trial, outcome, self._tell(trial, outcome) if error is None else error)

    def _record_taken(self) -> None:
        """Tell the scores that were taken, several at once."""
        if len(self._taken) > 1 and not isinstance(self.selector, Selector):
            self._tell_many(self.selector)
        while self._taken:
            self._record(*self._taken[0])
            del self._taken[0]

    def _tell_many(self, worker: "Worker") -> None:
        asked = [(self._adopted.get(trial.id, trial), outcome) for trial, outcome in self._taken]
        asked = [(trial, outcome) for trial, outcome in asked if trial.id >= 0]
        tells, errors = [], dict[int, Exception]()
        for trial, outcome in asked:
            scores, cost = goal_scores(worker, outcome)
            tells.append(Tell(trial, scores, cost, details_of(worker, outcome)))
        try:
            worker.tell_many(tells)
        except TellManyError as error:
            errors = {i: outcome for i, outcome in enumerate(error.outcomes) if isinstance(outcome, Exception)}
        self._taken = [(trial, outcome) for trial, outcome in self._taken if self._adopted.get(trial.id, trial).id < 0]
        for i, (trial, outcome) in enumerate(asked):
            self._conclude(trial, outcome, errors.get(i))

    def _conclude(self, trial: Trial, outcome: Outcome, error: BaseException | None) -> None:
        """What was told needs no more; what failed, or was refused, counts as failed."""
        if error is not None:
            cost = cost_of_failure(self.selector, outcome)
            if isinstance(self.selector, Selector):
                self.selector.fail(trial, error, cost)
            else:
                self.selector.fail(trial, error, cost, details=details_of(self.selector, outcome))
        self._out.pop(trial.id, None)
        self._n_told += error is None
        self._told.append(trial)

    def _tell(self, trial: Trial, outcome: Any) -> AsktellError | None:
        """What the selector had against the scores."""
        scores, cost = goal_scores(self.selector, outcome)
        try:
            if isinstance(self.selector, Selector):
                self.selector.tell(trial, scores, cost)
            else:
                self.selector.tell(trial, scores, cost, details=details_of(self.selector, outcome))
        except StorageError:  # nothing is wrong with the scores
            raise
        except AsktellError as error:
            return error
        return None

    def _observe(self, trial: Trial, outcome: Outcome) -> None:
        """What was paid for beside the selection's own trials: the scores and the cost, or the cost of a failure."""
        self._astray.pop(trial.id, None)
        if failure_of(self.selector, outcome) is None:
            scores, cost = goal_scores(self.selector, outcome)
            self.selector.observe(trial, scores, trial.example, cost)
            if self._again:
                self._again.discard(trial.id)
        elif cost := cost_of_failure(self.selector, outcome):
            self.selector.observe(trial, None, trial.example, cost)

    def _announce(self) -> None:
        """Say what was told."""
        while self._told:
            trial = self._told.popleft()
            self._bar.show()
            if self._on_tell is not None:
                self._on_tell(self.selector, trial)


def _log_failure(trial: Trial, error: BaseException) -> None:
    what = f"trial {trial.id}" if trial.id >= 0 else "an evaluation beside the selection's trials"
    _log.warning("%s (prompt %r, example %r) failed: %r", what, trial.prompt_id, trial.example, cause_of(error))


def _cell(trial: Trial) -> _Cell:
    return trial.prompt_id, trial.example
