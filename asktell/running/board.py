"""The trials that a run has out, and their outcomes: the part that every driver of evaluations needs."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError, TellManyError
from asktell.problem.candidates import ById, Tell, Trial
from asktell.problem.checks import cause_of, check_reason, in_words, whole
from asktell.results.entries import kind_of
from asktell.running.evaluator import Finding, Outcome, missing_extra, one_each
from asktell.running.progress import Bar
from asktell.selector import Selection, SelectionWorker, Selector
from asktell.state.repeats import to_repeat

OnTell: TypeAlias = Callable[[Any, Trial], None]
Until: TypeAlias = Callable[[Any], bool]
MaxFailures: TypeAlias = int | Literal["first"] | None
"""See `run`."""

_log = logging.getLogger("asktell")
_FIRST_LOOK = 8  # scores recorded between two looks for evaluations to repeat
_FIRST_ALIKE = 5
"""First failures that end a run. Six in six would eliminate a prompt with `max_failure_rate=0.5`: one fewer leaves
every prompt in the selection, which then continues after the fix."""


@contextlib.contextmanager
def open_board(
    selector: Selection,
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: MaxFailures = "first",
    repeatable: bool = True,
    until: Until | None = None,
) -> "Iterator[Board]":
    """What every driver of evaluations needs, for `run` and for those on clusters: see there.

    Trials that were out when it began are asked again; those that are out when the block ends are handed back.
    """
    failures = Failures(max_failures_in_a_row)
    with contextlib.ExitStack() as stack:
        worker = getattr(selector, "worker", None)
        asked: Any = worker() if callable(worker) else selector
        if isinstance(asked, SelectionWorker):
            stack.enter_context(asked)
        elif not isinstance(asked, Selector):
            raise InvalidArgumentError(f"run() needs a Selector or a Study, got {type(selector).__name__}.")
        for trial in asked.pending:
            asked.release(trial)
        bar = Bar(asked, progress)
        stack.enter_context(bar)
        board = Board(asked, bar, on_tell, failures, repeatable, until)
        stack.callback(board.hand_back)
        yield board


class Failures:
    """The failures since the last success of a run, and whether they end it."""

    def __init__(self, limit: MaxFailures) -> None:
        self._limit = limit if limit is None or limit == "first" else whole("max_failures_in_a_row", limit, 1)
        self._has_succeeded = False
        self._kinds = set[str]()  # before the first success; the empty one if something was paid
        self._n = 0
        self._examples = set[int | None]()
        self._last: BaseException | None = None

    def succeeded(self) -> None:
        """An evaluation has succeeded."""
        self._has_succeeded = True
        self._n = 0
        self._examples.clear()

    def add(self, trial: Trial, found: Finding) -> None:
        """An evaluation has failed."""
        # Errors of one kind are the same apart from names and numbers. What was paid got further than a wrong key.
        self._kinds.add("" if found.cost else kind_of(check_reason(found.error)))
        self._n += 1
        self._examples.add(trial.example)
        self._last = found.error

    @property
    def _are_first(self) -> bool:
        """Whether every evaluation of the run failed in the same way, and none cost anything."""
        return not self._has_succeeded and len(self._kinds) == 1 and "" not in self._kinds

    @property
    def end_the_run(self) -> bool:
        """Whether there are too many, of more than one example: a single bad example may crash every prompt."""
        if self._limit is None or (len(self._examples) < 2 and None not in self._examples):
            return False
        if self._are_first:
            return self._n >= (_FIRST_ALIKE if self._limit == "first" else min(self._limit, _FIRST_ALIKE))
        return self._limit != "first" and self._n >= self._limit

    def stop(self) -> EvaluatorError:
        """The error that ends the run."""
        assert self._last is not None
        what = f"{self._n} evaluations in a row failed, the last one with"
        if self._are_first:
            what = f"The first {self._n} evaluations all failed in the same way:"
        error = EvaluatorError(
            f"{what} {in_words(self._last).rstrip('.')}. The run has stopped: fix the cause and run it again, or "
            "continue in spite of failures with max_failures_in_a_row=None."
        )
        error.__cause__ = self._last
        return error


class Board:
    """The trials that a run has out, and their outcomes. Which ones are out is recorded in the selection alone.

    A failure is recorded at once. After too many in a row nothing more is asked until what is under way has ended,
    since one of these evaluations may succeed. If none does, the run stops. What fails meanwhile is handed back.
    """

    def __init__(
        self,
        selector: Selector | SelectionWorker,
        bar: Bar,
        on_tell: OnTell | None,
        failures: Failures,
        repeatable: bool,
        until: Until | None,
    ) -> None:
        self.selector = selector
        self._worker = None if isinstance(selector, Selector) else selector
        self._bar = bar
        self._on_tell = on_tell
        self._told: deque[Trial] = deque()  # and failed, for which `on_tell` was not called yet
        self._failures = failures
        self._taken: list[tuple[Trial, Finding]] = []  # scores that are not recorded yet
        self._is_together = False  # whether more are to come, to be told at once
        self._until, self._is_enough = until, False
        self.stopped: set[int] = set()
        """Ids of trials under way whose prompt was eliminated or retired since; see `unwanted`."""
        self._left: object = None  # the prompts that had left when `unwanted` was called last
        self.repeatable = repeatable
        # Repeats are no trials of the selection. Their ids are -1, -2, ...
        self._n_repeats = self._repeats_out = 0
        self._repeats_lost = 0  # out, or failed
        self._n_told, self._look_at = 0, _FIRST_LOOK  # scores recorded by this run, and when to look for repeats

    def ask(self, n: int) -> list[Trial]:
        """Up to n trials; none only if nothing more is to be done, or something of this run is still out.

        Raises:
            EvaluatorError: there were too many failures in a row, and nothing is out that may succeed.
        """
        if self._failures.end_the_run:
            if self._is_busy:
                return []
            raise self._failures.stop()
        while not (trials := self._repeat(n) or self._ask(n)) and not self._is_busy:
            if self._is_enough or self._worker is None or not self._worker.wait():
                return self._repeat(n, late=True)
        return trials

    @property
    def _is_busy(self) -> bool:
        return bool(self._repeats_out or self.selector.pending)

    def _ask(self, n: int) -> list[Trial]:
        self._is_enough = self._is_enough or (self._until is not None and self._until(self.selector))
        return [] if self._is_enough else self.selector.ask(n)

    def _repeat(self, n: int, late: bool = False) -> list[Trial]:
        """Up to n evaluations to repeat; see `to_repeat`."""
        if self.repeatable or not (late or self._n_told >= self._look_at):
            return []
        selector = self.selector if isinstance(self.selector, Selector) else self.selector.selector
        n = 1 if late and self._worker else n  # other workers may be about to repeat some, too
        due, trials = to_repeat(selector.state, self._repeats_lost, late), []
        if len(due) <= n:
            self._look_at = self._n_told + max(_FIRST_LOOK, self._n_told // 10)
        for arm, example in due[:n]:
            self._n_repeats += 1
            trials.append(selector.prompts.trial(-self._n_repeats, arm, example))
        self._repeats_out += len(trials)
        self._repeats_lost += len(trials)
        return trials

    def repeat_of(self, trial: Trial) -> int:
        """How often its prompt was asked on its example before; see `Selector.repeat_of`."""
        return self.selector.repeat_of(trial) if trial.id >= 0 else 1

    def unwanted(self) -> list[Trial]:
        """Trials under way whose prompt was eliminated or retired since, each of them once.

        From then on their failures do not count. Scores do: they were paid for. A worker of a study finds out at its
        heartbeats, since others eliminate prompts, too.
        """
        if not isinstance(self.selector, Selector):
            trials = self.selector.unwanted
        else:
            state, prompts = self.selector.state, self.selector.prompts
            if state.left is self._left:  # as at the last look: nobody has left since
                return []
            self._left = state.left
            trials = [
                trial for trial in self.selector.pending if state.is_eliminated(prompts.arm(ById(trial.prompt_id)))
            ]
        new = [trial for trial in trials if trial.id not in self.stopped]
        self.stopped.update(trial.id for trial in new)
        return new

    def take(self, trial: Trial, outcome: Outcome) -> None:
        """Record the scores, or the failure."""
        if missing := missing_extra(outcome):
            raise missing
        self._repeats_out -= trial.id < 0
        found = self._found(outcome)
        if found.error is None:
            self._taken.append((trial, found))
            self._failures.succeeded()
            if not self._is_together:
                self._record_taken()
        elif trial.id >= 0 and (trial.id in self.stopped or self._failures.end_the_run):
            self._book(trial, found)
            self.release(trial)
        else:
            _log_failure(trial, found)
            self._conclude(trial, found)
            if trial.id >= 0:
                self._failures.add(trial, found)
        self._announce()

    def _found(self, outcome: Outcome) -> Finding:
        return Finding.of(self.selector, outcome, with_details=self._worker is not None)  # which only a study keeps

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
        if self._worker is None or self._is_together:
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
        self._repeats_out -= trial.id < 0
        if trial.id >= 0:
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)

    def rescue(self, trials: Sequence[Trial], outcomes: object) -> None:
        """Take the scores that came while the run was being ended, and book what failures have cost."""
        self._on_tell = None  # it may be what has raised
        for trial, outcome in zip(trials, outcomes if isinstance(outcomes, Sequence) else [], strict=False):
            found = self._found(outcome)
            with contextlib.suppress(AsktellError):
                if found.error is None:
                    self._taken.append((trial, found))
                    self._record_taken()
                else:
                    self._book(trial, found)

    def hand_back(self) -> None:
        """Release what is still out, so that a saved selector asks it again; what failures have cost is booked."""
        self._on_tell = None  # it may be what has raised
        with contextlib.suppress(AsktellError):
            self._record_taken()  # there are some if it was interrupted
        for trial in self.selector.pending:
            self.release(trial)

    # Telling

    def _record_taken(self) -> None:
        """Tell the scores that were taken, all at once. What the selector refuses has failed."""
        tells = [Tell(trial, *found[1:]) for trial, found in self._taken if trial.id >= 0]
        refused: dict[int, Exception] = {}
        try:
            if tells:
                self.selector.tell_many(tells)
        except TellManyError as error:
            for tell, outcome in zip(tells, error.outcomes, strict=True):
                if isinstance(outcome, Exception):
                    refused[tell.trial.id] = outcome
        while self._taken:
            trial, found = self._taken[0]
            self._conclude(trial, found._replace(error=refused[trial.id]) if trial.id in refused else found)
            del self._taken[0]

    def _conclude(self, trial: Trial, found: Finding) -> None:
        """What was told needs no more, and what failed counts as failed; a repeat is observed."""
        if trial.id < 0:
            if found.error is None:
                self.selector.observe(trial, found.scores, trial.example, found.cost)
                self._repeats_lost -= 1
            else:
                self._book(trial, found)
            return
        if found.error is not None:
            details = {} if self._worker is None else {"details": found.details}
            self.selector.fail(trial, found.error, found.cost, **details)
        self._n_told += found.error is None
        self._told.append(trial)

    def _book(self, trial: Trial, found: Finding) -> None:
        """Book what a failure has cost that does not count."""
        if found.cost:
            self.selector.observe(trial, None, trial.example, found.cost)

    def _announce(self) -> None:
        while self._told:
            trial = self._told.popleft()
            self._bar.show()
            if self._on_tell is not None:
                self._on_tell(self.selector, trial)


def _log_failure(trial: Trial, found: Finding) -> None:
    assert found.error is not None
    what = f"trial {trial.id}" if trial.id >= 0 else "a repeated evaluation"
    _log.warning("%s (prompt %r, example %r) failed: %r", what, trial.prompt_id, trial.example, cause_of(found.error))
