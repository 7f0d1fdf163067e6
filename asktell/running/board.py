"""The trials that a run is evaluating, and their outcomes: the part that all drivers of evaluations share."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from asktell._util.log import log
from asktell.errors import (
    AsktellError,
    EvaluatorError,
    InvalidArgumentError,
    TellManyError,
)
from asktell.problem.candidates import Tell, Trial
from asktell.problem.checks import cause_of, check_reason, in_words, whole
from asktell.results.entries import kind_of
from asktell.running.evaluator import Finding, Outcome, missing_extra, one_each
from asktell.running.progress import Bar
from asktell.selector import Selection, Selector
from asktell.state.repeats import to_repeat

OnTell: TypeAlias = Callable[[Any, Trial], None]
"""The type of the argument `on_tell` of `asktell.run`: a function of the selector or study, and a trial.

It is called after the scores or the failure of the trial were recorded.
"""
Until: TypeAlias = Callable[[Any], bool]
MaxFailures: TypeAlias = int | Literal["first"] | None
"""The type of the argument `max_failures_in_a_row` of `asktell.run`.

A number: the run stops after this many failures in a row. "first": it stops only if its first evaluations all fail in
the same way. None: failures never stop it.
"""

_FIRST_LOOK = 8  # scores recorded between two searches for evaluations to repeat
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
    waits: bool = True,
) -> "Iterator[Board]":
    """Open a board in a `with` block, for a loop of your own that evaluates.

    Trials that are pending at the beginning are released, so that the board hands them
    out again. Trials that are pending at the end of the block are released, too. A
    study without a worker's name is bound to a new name for the block.

    Args:
        selector: a Selector or a Study.
        progress: as for `asktell.run`.
        on_tell: as for `asktell.run`.
        max_failures_in_a_row: as for `asktell.run`.
        repeatable: True if an evaluation that is repeated gives the same scores. With
            False, and `inputs="given"`, the board also hands out some evaluations a
            second time (see `n_repeats`).
        until: as for `asktell.run`.
        waits: False if `Board.ask` should return no trials, instead of waiting, when
            only other workers of a study can continue.

    Raises:
        InvalidArgumentError: `selector` is neither a Selector nor a Study, or
            `max_failures_in_a_row` is invalid.
    """
    failures = _Streak(max_failures_in_a_row)
    if not isinstance(selector, Selection):
        raise InvalidArgumentError(
            f"run() needs a Selector or a Study, got {type(selector).__name__}."
        )
    asked: Any = selector
    with contextlib.ExitStack() as stack:
        if not isinstance(selector, Selector):
            # A study without a worker's name gets one of this host and process
            if asked.worker_name is None:
                asked = asked.worker()
            stack.enter_context(asked)  # sends heartbeats from now on
        for trial in asked.pending:
            asked.release(trial)
        bar = Bar(asked, progress)
        stack.enter_context(bar)
        board = Board(asked, bar, on_tell, failures, repeatable, until, waits)
        stack.callback(board.hand_back)
        yield board


class _Streak:
    """Counts the failures since the last success of a run, to stop the run after too many."""

    def __init__(self, limit: MaxFailures) -> None:
        self._limit = (
            limit
            if limit is None or limit == "first"
            else whole("max_failures_in_a_row", limit, 1)
        )
        self._has_succeeded = False
        # Kinds of errors before the first success; "" for a failure that cost something
        self._kinds = set[str]()
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
        # Errors of one kind differ only in names and numbers. A failure that cost
        # something is not from a wrong key.
        self._kinds.add("" if found.cost else kind_of(check_reason(found.error)))
        self._n += 1
        self._examples.add(trial.example)
        self._last = found.error

    @property
    def _are_first(self) -> bool:
        """True if all evaluations of the run failed in the same way, at no cost."""
        return (
            not self._has_succeeded and len(self._kinds) == 1 and "" not in self._kinds
        )

    @property
    def end_the_run(self) -> bool:
        """True after too many failures, on more than one example: a single bad example may crash every prompt."""
        if self._limit is None or (
            len(self._examples) < 2 and None not in self._examples
        ):
            return False
        if self._are_first:
            return self._n >= (
                _FIRST_ALIKE
                if self._limit == "first"
                else min(self._limit, _FIRST_ALIKE)
            )
        return self._limit != "first" and self._n >= self._limit

    def stop(self) -> EvaluatorError:
        """Return the error that stops the run."""
        assert self._last is not None
        what = f"{self._n} evaluations in a row failed."
        if self._are_first:
            what = f"The first {self._n} evaluations all failed in the same way."
        error = EvaluatorError(
            f"{what} The run has stopped. Fix the cause and run it again, or pass max_failures_in_a_row=None to "
            f"continue in spite of failures. The last error was {in_words(self._last)}"
        )
        error.__cause__ = self._last
        return error


class Board:
    """Hands out the trials of a run, and records their outcomes. `open_board` makes one.

    A trial that was handed out is pending in the selection until its outcome is taken.

    A failure is recorded at once. After too many failures in a row, `ask` hands out no
    new trial until the running evaluations have ended, because one of them may succeed.
    If none succeeds, the run stops. Trials that fail in this time are released.

    Attributes:
        selector: the Selector or Study.
        repeatable: as for `open_board`.
    """

    def __init__(
        self,
        selector: Selection,
        bar: Bar,
        on_tell: OnTell | None,
        failures: _Streak,
        repeatable: bool,
        until: Until | None,
        waits: bool = True,
    ) -> None:
        self.selector = selector
        # None for a Selector, which stores no details and has no other workers
        self._study: Any = None if isinstance(selector, Selector) else selector
        self._waits = waits
        self._bar = bar
        self._on_tell = on_tell
        # Told or failed, and `on_tell` not called yet
        self._told: deque[Trial] = deque()
        self._failures = failures
        # Scores that are not recorded yet
        self._taken: list[tuple[Trial, Finding]] = []
        # True inside `together`: more scores will come, to be recorded at once
        self._is_together = False
        self._until, self._is_enough = until, False
        self.stopped: set[int] = set()
        """The ids of the trials that `unwanted` has returned."""
        self.repeatable = repeatable
        # Repeated evaluations are not trials of the selection. Their ids are -1, -2,
        # ...
        self._n_repeats = self._repeats_out = 0
        self._repeats_lost = 0  # running, or failed
        self._n_told = 0  # scores recorded by this run
        # The number of scores after which to search for evaluations to repeat
        self._look_at = _FIRST_LOOK

    def ask(self, n: int) -> list[Trial]:
        """Return up to n trials to evaluate.

        There are none if the run is over, or if it must first wait for the outcomes of
        its running evaluations. If only other workers of a study can continue, `ask`
        waits for them, unless the board was opened with `waits=False`.

        Raises:
            EvaluatorError: too many evaluations failed in a row, and no evaluation is
                running that could still succeed.
        """
        if self._failures.end_the_run:
            if self._is_busy:
                return []
            raise self._failures.stop()
        # Repeats come first, because most of them are due soon after the first evaluation
        while not (trials := self._repeat(n) or self._ask(n)) and not self._is_busy:
            if self._is_enough or not self._waits or not self.selector.wait():
                return self._repeat(n, late=True)
        return trials

    @property
    def _is_busy(self) -> bool:
        """True while evaluations of this run are running, repeated ones included."""
        return bool(self._repeats_out or self.selector.pending)

    def _ask(self, n: int) -> list[Trial]:
        """Ask the selection for up to n trials, unless `until` ends the run."""
        # Once it is enough, it stays enough: the running evaluations may change the
        # result of `until`.
        self._is_enough = self._is_enough or (
            self._until is not None and self._until(self.selector)
        )
        return [] if self._is_enough else self.selector.ask(n)

    def _repeat(self, n: int, late: bool = False) -> list[Trial]:
        """Return up to n evaluations to repeat. See `to_repeat`."""
        if self.repeatable or not (late or self._n_told >= self._look_at):
            return []
        selector: Any = self.selector if self._study is None else self._study.selector
        # Other workers may be repeating some at the same time
        n = 1 if late and self._study is not None else n
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
        """The number of earlier trials of the same prompt on the same example. See `Selector.repeat_of`."""
        return self.selector.repeat_of(trial) if trial.id >= 0 else 1

    def unwanted(self) -> list[Trial]:
        """Return the running trials whose prompt was eliminated or retired since the last call.

        You can stop their evaluations. From now on, their failures do not count, but
        their scores do, because they were paid for. In a study, other workers may
        eliminate prompts, too. A worker learns of this at its next heartbeat.
        """
        new = [
            trial for trial in self.selector.unwanted if trial.id not in self.stopped
        ]
        self.stopped.update(trial.id for trial in new)
        return new

    def take(self, trial: Trial, outcome: Outcome) -> None:
        """Record the scores of a trial, or its failure.

        Args:
            trial: a trial from `ask`.
            outcome: what the evaluator returned, or the exception that it raised.

        Raises:
            MissingExtraError: the outcome is this error, because the evaluator needs a
                package that is not installed.
        """
        if missing := missing_extra(outcome):
            raise missing
        self._repeats_out -= trial.id < 0
        found = self._found(outcome)
        if found.error is None:
            self._taken.append((trial, found))
            self._failures.succeeded()
            if not self._is_together:
                self._record_taken()
        elif trial.id >= 0 and not self.needs(trial):
            self._book(trial, found)
            self.release(trial)
        else:
            _log_failure(trial, found)
            self._conclude(trial, found)
            if trial.id >= 0:
                self._failures.add(trial, found)
        self._announce()

    def _found(self, outcome: Outcome) -> Finding:
        """Check an outcome."""
        # Only a study stores details
        return Finding.of(self.selector, outcome, with_details=self._study is not None)

    def take_batch(self, trials: list[Trial], outcomes: object) -> None:
        """Record the outcomes of a batch.

        Args:
            trials: trials from `ask`.
            outcomes: a list with one outcome for each trial. If it is an exception, or
                its length is wrong, every trial fails.

        Raises:
            MissingExtraError: an outcome is this error.
        """
        try:
            each = (
                [outcomes] * len(trials)
                if isinstance(outcomes, BaseException)
                else one_each(trials, outcomes)
            )
        except EvaluatorError as error:
            each = [error] * len(trials)
        with self.together():
            for i, trial in enumerate(trials):
                try:
                    self.take(trial, each[i])
                except BaseException:
                    # The run ends, and the other outcomes of the batch must not be lost
                    self.rescue(trials[i + 1 :], each[i + 1 :])
                    raise

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Record the scores that are taken in a `with` block together, at its end.

        So a study waits for its disk only once.
        """
        if self._study is None or self._is_together:
            yield
            return
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False
            self._record_taken()
        self._announce()

    def needs(self, trial: Trial) -> bool:
        """Return False if a trial need not be evaluated: its prompt is out, or failures end the run."""
        return trial.id not in self.stopped and not self._failures.end_the_run

    def release(self, trial: Trial) -> None:
        """Return a trial to the selection without evaluating it. It will be handed out again."""
        self._repeats_out -= trial.id < 0
        if trial.id >= 0:
            with contextlib.suppress(AsktellError):
                self.selector.release(trial)

    def rescue(self, trials: Sequence[Trial], outcomes: object) -> None:
        """Record scores that arrived while the run was ending, and the cost of failures.

        Args:
            trials: trials from `ask`.
            outcomes: a list with one outcome for each trial. Anything else is ignored.
        """
        self._on_tell = None  # it may have raised the error that ends the run
        for trial, outcome in zip(
            trials, outcomes if isinstance(outcomes, Sequence) else [], strict=False
        ):
            found = self._found(outcome)
            with contextlib.suppress(AsktellError):
                if found.error is None:
                    self._taken.append((trial, found))
                    self._record_taken()
                else:
                    self._book(trial, found)

    def hand_back(self) -> None:
        """Release all pending trials, so that a saved selector can be continued."""
        self._on_tell = None  # it may have raised the error that ends the run
        with contextlib.suppress(AsktellError):
            self._record_taken()  # an interrupt may have left some
        for trial in self.selector.pending:
            self.release(trial)

    # Telling

    def _record_taken(self) -> None:
        """Record all scores in `_taken` at once. A trial whose scores the selector refuses has failed."""
        tells = [
            Tell(trial, *found[1:]) for trial, found in self._taken if trial.id >= 0
        ]
        refused: dict[int, Exception] = {}
        try:
            if tells:
                self.selector.tell_many(tells)
        except TellManyError as error:
            for tell, outcome in zip(tells, error.outcomes, strict=True):
                if isinstance(outcome, Exception):
                    refused[tell.trial.id] = outcome
        # An item leaves the list last, so that an interrupt loses no score
        while self._taken:
            trial, found = self._taken[0]
            self._conclude(
                trial,
                found._replace(error=refused[trial.id])
                if trial.id in refused
                else found,
            )
            del self._taken[0]

    def _conclude(self, trial: Trial, found: Finding) -> None:
        """Finish a trial: record its failure, if it has failed. For a repeat, record its scores as an observation."""
        if trial.id < 0:
            if found.error is None:
                self.selector.observe(trial, found.scores, trial.example, found.cost)
                self._repeats_lost -= 1
            else:
                self._book(trial, found)
            return
        if found.error is not None and self._study is None:
            self.selector.fail(trial, found.error, found.cost)
        elif found.error is not None:
            self._study.fail(trial, found.error, found.cost, details=found.details)
        self._n_told += found.error is None
        self._told.append(trial)

    def _book(self, trial: Trial, found: Finding) -> None:
        """Record the cost of a failure that does not count as one."""
        if found.cost:
            self.selector.observe(trial, None, trial.example, found.cost)

    def _announce(self) -> None:
        """Show the trials that were recorded since the last call in the bar, and call `on_tell` for each."""
        while self._told:
            trial = self._told.popleft()
            self._bar.show()
            if self._on_tell is not None:
                self._on_tell(self.selector, trial)


def _log_failure(trial: Trial, found: Finding) -> None:
    """Log the failure of a trial with its prompt and its example."""
    assert found.error is not None
    what = f"trial {trial.id}" if trial.id >= 0 else "a repeated evaluation"
    log.warning(
        "%s (prompt %r, example %r) failed: %r",
        what,
        trial.prompt_id,
        trial.example,
        cause_of(found.error),
    )
