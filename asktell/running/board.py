"""The trials that a run has out, and what becomes of them: what every driver of evaluations needs."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError, TellManyError
from asktell.problem.candidates import Tell, Trial
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
_FIRST_LOOK = 8  # scores told, between two looks for what is to be repeated

# What a run may not take for a prompt's or an example's own fault:
_FIRST_ALIKE = 6  # failures, if they are all that came: as many as remove a prompt with `max_failure_rate=0.5`
_PROMPTS = 3
_OF_ONE_EXAMPLE = 20  # failures, after which it is believed that other examples fail, too


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


class Held(NamedTuple):
    """A failed evaluation that does not count yet; its trial is still pending."""

    trial: Trial
    found: Finding
    is_logged: bool


class Failures:
    """The failures since the last success. They are held back until one shows that they are their prompts' own."""

    def __init__(self, limit: MaxFailures) -> None:
        self._limit = limit if limit is None or limit == "first" else whole("max_failures_in_a_row", limit, 1)
        self.held: list[Held] = []
        self._succeeded = False
        self._kind: str | None = None  # of all before the first success; empty if there are several
        self._start_again()

    def _start_again(self) -> None:
        self.n, self._prompts, self._examples = 0, set[str | int](), set[int | None]()

    @property
    def is_first(self) -> bool:
        """Whether nothing has come but failures of one kind, at no cost: what was paid got further than a wrong key."""
        return not self._succeeded and bool(self._kind)

    @property
    def are_held(self) -> bool:
        """Whether failures that come now are held back."""
        return self._limit is not None and (self._limit != "first" or (not self._succeeded and self._kind != ""))

    def succeeded(self) -> None:
        """An evaluation has succeeded."""
        self._succeeded = True
        self._start_again()

    def add(self, trial: Trial, found: Finding, n_active: int) -> None:
        """Hold one more back."""
        kind = "" if found.cost else kind_of(check_reason(found.error))  # the same apart from names and numbers
        self._kind = kind if self._kind in (None, kind) else ""
        self.held.append(Held(trial, found, is_logged=not self.n))
        self.n += 1
        self._prompts.add(trial.prompt_id)
        self._examples.add(trial.example)
        if self.is_general(n_active):
            self.check()

    def is_general(self, n_active: int) -> bool:
        """Whether they are of so many prompts and examples that it is the fault of none of them."""
        several = len(self._examples) > 1 or None in self._examples or self.n >= _OF_ONE_EXAMPLE
        return several and len(self._prompts) >= min(_PROMPTS, n_active)

    def check(self) -> None:
        """Go on only if there were few enough."""
        limit = self._limit if isinstance(self._limit, int) else _FIRST_ALIKE
        if self.n < (min(limit, _FIRST_ALIKE) if self.is_first else limit):
            return
        last = self.held[-1].found.error
        assert last is not None
        what = f"{self.n} evaluations in a row failed, the last one with"
        if self.is_first:
            what = f"The first {self.n} evaluations all failed in the same way:"
        raise EvaluatorError(
            f"{what} {in_words(last).rstrip('.')}. They count against no prompt: fix the cause and run it again, or "
            "count them with max_failures_in_a_row=None."
        ) from last


class Board:
    """The trials that a run has out, and what becomes of them.

    Failures are held back until a success shows that they are their prompts' own. If nothing else can be asked
    meanwhile, what has failed is released, and so asked again; unless one prompt or one example may be the cause: then
    the failures count.
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
        self._told: deque[Trial] = deque()  # and failed, of which `on_tell` does not know yet
        self._out: dict[int, Trial] = {}
        self._running: set[int] = set()  # those of them that are not held back, and repeats
        self._failures = failures
        self._taken: list[tuple[Trial, Finding]] = []  # scores that are not recorded yet
        self._is_together = False  # whether more are to come, to be told at once
        self._until, self._is_enough = until, False
        self.repeatable = repeatable
        self._n_repeats = 0  # whose ids are -1, -2, ...: they are no trials of the selection
        self._lost_repeats: set[int] = set()  # out, or failed
        self._n_told, self._look_at = 0, _FIRST_LOOK  # scores that this run has told, and when to look for repeats

    def ask(self, n: int) -> list[Trial]:
        """Up to n trials; none only if nothing more is to be done, or something of this run is still out."""
        while not (trials := self._repeat(n) or self._ask(n)) and not self._running:
            if self._is_enough:
                trials = self._repeat(n, late=True)
                break
            if self._failures.held and not (self._worker and self._worker.paused):
                self._retry_or_count()
            elif self._worker is None or not self._worker.wait():
                trials = self._repeat(n, late=True)
                break
        self._running.update(trial.id for trial in trials)
        return trials

    def _ask(self, n: int) -> list[Trial]:
        self._is_enough = self._is_enough or (self._until is not None and self._until(self.selector))
        trials = [] if self._is_enough else self.selector.ask(n)
        self._out.update({trial.id: trial for trial in trials})
        return trials

    def _repeat(self, n: int, late: bool = False) -> list[Trial]:
        """Up to n evaluations to repeat; see `to_repeat`."""
        if self.repeatable or not (late or self._n_told >= self._look_at):
            return []
        selector = self.selector if isinstance(self.selector, Selector) else self.selector.selector
        n = 1 if late and self._worker else n  # other workers may be about to repeat some, too
        due, trials = to_repeat(selector.state, len(self._lost_repeats), late), []
        if len(due) <= n:
            self._look_at = self._n_told + max(_FIRST_LOOK, self._n_told // 10)
        for arm, example in due[:n]:
            self._n_repeats += 1
            trials.append(selector.prompts.trial(-self._n_repeats, arm, example))
        self._lost_repeats.update(trial.id for trial in trials)
        return trials

    def repeat_of(self, trial: Trial) -> int:
        """How often its prompt was asked on its example before; see `Selector.repeat_of`."""
        return self.selector.repeat_of(trial) if trial.id >= 0 else 1

    def take(self, trial: Trial, outcome: Outcome) -> None:
        """Take the scores, or the failure; an EvaluatorError if nothing but failures came."""
        if missing := missing_extra(outcome):
            raise missing
        self._running.discard(trial.id)
        found = self._found(outcome)
        if found.error is None:
            self._taken.append((trial, found))
            self._failures.succeeded()
            self._count_failures()
            if not self._is_together:
                self._record_taken()
        elif trial.id < 0 or not self._failures.are_held:
            _log_failure(trial, found)
            self._conclude(trial, found)
        else:
            if not self._failures.n:
                _log_failure(trial, found)  # at once; the others when they count
            self._failures.add(trial, found, self.selector.n_active)
            if not self._failures.are_held:
                self._count_failures()
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
        self._running.discard(trial.id)
        if self._out.pop(trial.id, None) is not None:
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
        self._retry()
        for trial in list(self._out.values()):
            self.release(trial)

    # Failures

    def _retry_or_count(self) -> None:
        """Nothing else can be asked: have what failed asked again, or let it count.

        Before anything was ever evaluated, some selections ask for one trial at a time, which says nothing of others.
        """
        if self._failures.is_general(self.selector.n_active) or (self._failures.is_first and not self.selector.spent):
            self._failures.check()
            self._retry()
        else:
            self._count_failures()
            self._announce()

    def _retry(self) -> None:
        """Release what has failed; its cost is booked."""
        held, self._failures.held = self._failures.held, []
        for failure in held:
            if failure.trial.id in self._out:
                with contextlib.suppress(AsktellError):
                    self._book(failure.trial, failure.found)
                self.release(failure.trial)

    def _count_failures(self) -> None:
        while self._failures.held:
            failure = self._failures.held[0]
            if not failure.is_logged:
                _log_failure(failure.trial, failure.found)
            self._conclude(failure.trial, failure.found)
            del self._failures.held[0]

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
                self._lost_repeats.discard(trial.id)
            else:
                self._book(trial, found)
            return
        if found.error is not None:
            details = {} if self._worker is None else {"details": found.details}
            self.selector.fail(trial, found.error, found.cost, **details)
        self._out.pop(trial.id, None)
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
