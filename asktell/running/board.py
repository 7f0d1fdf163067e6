"""The trials that a run is evaluating, and their outcomes: the part that all drivers of evaluations share."""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from asktell._util.log import log
from asktell.errors import (
    AsktellError,
    EvaluatorError,
    InvalidArgumentError,
    TellManyError,
)
from asktell.problem.budget import FREE
from asktell.problem.checks import check_reason, whole
from asktell.problem.prompts import ById
from asktell.problem.trials import Tell, Trial
from asktell.problem.words import cause_of, in_words
from asktell.results.entries import kind_of
from asktell.results.streak import FEWEST_ALIKE, have_common_cause
from asktell.running.evaluator import Outcome, checked_tell, fatal, one_each
from asktell.running.progress import Bar
from asktell.running.repeats import to_repeat
from asktell.selector import Selection, Selector

OnTell: TypeAlias = Callable[[Any, Trial], None]
"""The type of the argument `on_tell` of `asktell.run`: a function of the selector or study, and a trial.

It is called after the scores or the failure of the trial were recorded.
"""
Until: TypeAlias = Callable[[Any], bool]
MaxFailures: TypeAlias = int | Literal["first"] | None
"""The type of the argument `max_failures_in_a_row` of `asktell.run`.

"first": the run stops if its first evaluations all fail in the same way, or later ones that nothing but a common cause
explains. A number: it also stops after this many failures in a row. None: failures never stop it.
"""

_FIRST_LOOK = 8  # scores recorded between two searches for evaluations to repeat
_FREE = 20  # scores without a cost after which a budget of cost looks like a mistake


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
    limit = max_failures_in_a_row
    if limit is not None and limit != "first":
        limit = whole("max_failures_in_a_row", limit, 1)
    if not isinstance(selector, Selection):
        raise InvalidArgumentError(
            f"run() needs a Selector or a Study, got {type(selector).__name__}."
        )
    asked: Any = selector
    # A study without a worker's name gets one of this host and process
    if not isinstance(selector, Selector) and asked.worker_name is None:
        asked = asked.worker()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_reserved(asked, selector))
        if not isinstance(selector, Selector):
            stack.enter_context(asked)  # sends heartbeats from now on
        for trial in asked.pending:
            asked.release(trial)
        bar = Bar(asked, progress)
        stack.enter_context(bar)
        tell = None if on_tell is None else _marked(on_tell, selector)
        losses = _losses.setdefault(selector, Counter())
        board = Board(asked, bar, tell, limit, repeatable, until, waits, losses)
        stack.callback(board.hand_back)
        yield board


# Selections that a board is open on. A run releases all pending trials, so that a second
# run on the same selection would evaluate the trials of the first again.
_in_use: WeakSet[Selection] = WeakSet()
_lock = threading.Lock()
# How many times trials of a selection were lost with the process that evaluated them, so
# that the next run knows which ones to evaluate by themselves
_losses: WeakKeyDictionary[Selection, Counter[int]] = WeakKeyDictionary()
# The study whose `on_tell` is called in this context
_telling: ContextVar[Selection | None] = ContextVar("_telling", default=None)


def _marked(on_tell: OnTell, selector: Selection) -> OnTell:
    """Return `on_tell`, during whose calls no other run of the selection can start: it would wait for this run."""

    def marked(asked: Any, trial: Trial) -> None:
        token = _telling.set(selector)
        try:
            on_tell(asked, trial)
        finally:
            _telling.reset(token)

    return marked


@contextlib.contextmanager
def _reserved(asked: Selection, selector: Selection) -> Iterator[None]:
    """Reserve a selection for one run at a time.

    Args:
        asked: the selector, or the study bound to a worker's name.
        selector: what the caller passed.

    Raises:
        InvalidArgumentError: another run uses it.
    """
    with _lock:
        if asked in _in_use or _telling.get() is selector:
            if isinstance(asked, Selector):
                what = "selector"
                cure = "create a study with asktell.Study.create(url, name, selector), and pass it to each run."
            else:
                what = "study"
                cure = "pass the study without a worker's name, or with another name to each run: study.worker(name)."
            raise InvalidArgumentError(
                f"This {what} is in use by another run. A run cannot be started in its own on_tell or evaluator, "
                f"either. Wait for the end of the other run. For several runs at the same time, {cure}"
            )
        _in_use.add(asked)
    try:
        yield
    finally:
        with _lock:
            _in_use.discard(asked)


class _Streak:
    """The failures since the last success of a run, to stop the run after too many.

    Attributes:
        end_the_run: True after too many failures, on more than one example: a single
            bad example may crash every prompt.
    """

    def __init__(self, limit: MaxFailures, look: Callable[[], Selector]) -> None:
        self._limit, self._look = limit, look
        self._has_succeeded = False
        self._before: Selector | None = None
        self._clear()

    def _clear(self) -> None:
        self._kind: str | None = None
        self._differ = self.end_the_run = self._are_of_new_prompts = False
        self._failed = list[tuple[str | int, int | None]]()
        self._last: BaseException | None = None
        # As it was before the streak, because failures of the same kind are recorded
        # later
        self._before = None

    def succeeded(self) -> None:
        """An evaluation has succeeded."""
        self._has_succeeded = True
        self._clear()

    def is_like(self, error: BaseException) -> bool:
        """True if a failure is of the same kind as all others since the last success."""
        return not self._differ and kind_of(check_reason(error)) == self._kind

    def add(self, trial: Trial, error: BaseException) -> None:
        """An evaluation has failed."""
        if self._limit is None:
            return
        self._differ = self._kind is not None and not self.is_like(error)
        self._kind = kind_of(check_reason(error))
        self._failed.append((trial.prompt_id, trial.example))
        self._last = error
        self.end_the_run = self._is_over_limit or self._have_common_cause()

    @property
    def are_open(self) -> bool:
        """True if it is open whether the failures count, because they may have a cause that is not their prompts'."""
        return not (self._limit is None or self._differ or self._are_of_new_prompts)

    @property
    def are_first(self) -> bool:
        """True if all evaluations of the run failed in the same way."""
        return not self._has_succeeded and not self._differ

    @property
    def are_on_several_examples(self) -> bool:
        """True if more than one example failed, or examples are unknown."""
        examples = {example for _, example in self._failed}
        return len(examples) > 1 or None in examples

    @property
    def _is_over_limit(self) -> bool:
        return (
            isinstance(self._limit, int)
            and len(self._failed) >= self._limit
            and self.are_on_several_examples
        )

    def _have_common_cause(self) -> bool:
        """True if all failed in the same way, and the prompts are not the cause."""
        fewest = FEWEST_ALIKE
        if isinstance(self._limit, int) and self.are_first:
            fewest = min(self._limit, FEWEST_ALIKE)
        if self._differ or len(self._failed) < fewest:
            return False
        # Once per streak, unless prompts were added
        ids = [ById(id_) for id_, _ in self._failed]
        if self._before is None or self._before.prompts.find(ids[-1]) is None:
            self._before = self._look()
        arms = [self._before.prompts.arm(id_) for id_ in ids]
        examples = [example for _, example in self._failed]
        state = self._before.state
        failures = list(zip(arms, examples, strict=True))
        have = have_common_cause(
            state, failures, are_first=self.are_first, fewest=fewest
        )
        self._are_of_new_prompts = not have and all(
            arm >= state.growth.origin.n_arms and not state.history.n_asked(arm)
            for arm in arms
        )
        return have

    def stop(self) -> EvaluatorError:
        """Return the error that stops the run."""
        assert self._last is not None
        n = len(self._failed)
        if self._differ:
            what = f"{n} evaluations in a row failed."
        else:
            place = "first" if self.are_first else "last"
            what = f"The {place} {n} evaluations all failed in the same way."
        again = "" if self._differ else " These trials are then evaluated again."
        error = EvaluatorError(
            f"{what} The run has stopped. Fix the cause and run it again, or pass max_failures_in_a_row=None to "
            f"continue in spite of failures.{again} The last error was {in_words(self._last)}"
        )
        error.__cause__ = self._last
        return error


class Board:
    """Hands out the trials of a run, and records their outcomes. `open_board` makes one.

    A trial that was handed out is pending in the selection until its outcome is taken.

    The cost of a failure is recorded at once. The failure itself is recorded when an
    evaluation succeeds, when one fails in another way, or when there is nothing else to
    evaluate: until then, a wrong key may be the cause, which is no fault of a prompt.
    Until then, its trial stays pending.

    After too many failures in a row, `ask` hands out no new trial until the running
    evaluations have ended, because one of them may succeed. If none succeeds, the run
    stops, and the trials whose failures are not recorded are released.

    Attributes:
        selector: the Selector or Study.
        repeatable: as for `open_board`.
    """

    def __init__(
        self,
        selector: Selection,
        bar: Bar,
        on_tell: OnTell | None,
        limit: MaxFailures,
        repeatable: bool,
        until: Until | None,
        waits: bool = True,
        losses: Counter[int] | None = None,
    ) -> None:
        self.selector = selector
        self.losses: Counter[int] = Counter() if losses is None else losses
        """How many times each trial, by its id, was lost with the process that evaluated it."""
        # None for a Selector, which stores no details and has no other workers
        self._study: Any = None if isinstance(selector, Selector) else selector
        self._waits = waits
        self._bar = bar
        self._on_tell = on_tell
        # Told or failed, and `on_tell` not called yet
        self._told: deque[Trial] = deque()
        self._failures = _Streak(limit, self._local)
        # Failed trials whose failures are not recorded yet. Their costs are.
        self._held: dict[int, Tell] = {}
        # Scores that are not recorded yet
        self._unrecorded: list[Tell] = []
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
        steps = self.asking(n)
        try:
            next(steps)
            while True:
                steps.send(self._waits and self.selector.wait())
        except StopIteration as end:
            trials: list[Trial] = end.value
            return trials

    def asking(self, n: int) -> Generator[None, bool, list[Trial]]:
        """Ask like `ask`, for a loop that waits in its own way.

        It yields when only other workers of a study can continue. Then call
        `Selection.wait`, and send its return value.
        """
        if self._failures.end_the_run:
            if self._is_busy:
                return []
            self._give_back()
            raise self._failures.stop()
        # Repeats come first, because most of them are due soon after the first evaluation
        while not (trials := self._repeat(n) or self._ask(n)) and not self._is_busy:
            if self._held:
                # Nothing else can be evaluated before they count
                if self._is_hopeless:
                    self._give_back()
                    raise self._failures.stop()
                self._settle()
                continue
            if self._is_enough or not (yield):
                return self._repeat(n, late=True)
        return trials

    @property
    def _is_busy(self) -> bool:
        """True while evaluations of this run are running, repeated ones included."""
        return bool(self._repeats_out) or any(
            trial.id not in self._held for trial in self.selector.pending
        )

    @property
    def _is_hopeless(self) -> bool:
        """True if no prompt has a score, and all that can be evaluated has failed in the same way."""
        streak, selector = self._failures, self.selector
        # A budget of cost may be spent, or allow one evaluation at a time until a cost
        # is known
        return (
            streak.are_first
            and streak.are_on_several_examples
            and not selector.spent
            and selector.max_cost is None
        )

    def _local(self) -> Selector:
        """The selection as a Selector, to be read."""
        selector: Any = self.selector
        return selector if self._study is None else self._study.selector  # type: ignore[no-any-return]

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
        selector = self._local()
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
            EvaluatorError: the outcome is a coroutine, a future or a generator.
        """
        if (error := fatal(outcome)) is not None:
            raise error
        self._repeats_out -= trial.id < 0
        tell = self._checked(trial, outcome)
        error = tell.scores
        if not isinstance(error, BaseException):
            self._failures.succeeded()
            self._unrecorded.append(tell)
            self._settle()
            if not self._is_together:
                self._record()
        elif trial.id < 0:
            self._log_failure(trial, error)
            self._book(tell)
        elif trial.id in self.stopped or (
            self._failures.end_the_run and not self._failures.is_like(error)
        ):
            self._book(tell)
            self.release(trial)
        else:
            self._log_failure(trial, error)
            self._take_failure(tell)
        self._announce()

    def _take_failure(self, tell: Tell) -> None:
        """Record a failure, or only its cost as long as it is open whether it counts."""
        self._failures.add(tell.trial, tell.scores)
        if self._failures.are_open:
            self._book(tell)
            self._held[tell.trial.id] = tell._replace(cost=None)
            return
        self._settle()
        self._conclude(tell)

    def _settle(self) -> None:
        """Record the failures that were held back: they count."""
        while self._held:
            id_ = next(iter(self._held))
            self._conclude(self._held[id_])
            del self._held[id_]

    def _give_back(self) -> None:
        """Release the trials whose failures were held back: they do not count."""
        for tell in self._held.values():
            self.release(tell.trial)
        self._held.clear()

    def _checked(self, trial: Trial, outcome: Outcome) -> Tell:
        """Check an outcome. See `checked_tell`."""
        # Only a study stores details
        with_details = self._study is not None
        return checked_tell(self.selector, trial, outcome, with_details)

    def take_batch(self, trials: list[Trial], outcomes: object) -> None:
        """Record the outcomes of a batch.

        Args:
            trials: trials from `ask`.
            outcomes: a list with one outcome for each trial. If it is an exception, or
                its length is wrong, every trial fails.

        Raises:
            MissingExtraError: an outcome is this error.
            EvaluatorError: an outcome is a coroutine, a future or a generator.
        """
        try:
            by_trial = (
                [outcomes] * len(trials)
                if isinstance(outcomes, BaseException)
                else one_each(trials, outcomes)
            )
        except EvaluatorError as error:
            if (unfinished := fatal(outcomes)) is not None:
                raise unfinished from None
            by_trial = [error] * len(trials)
        with self.together():
            for i, trial in enumerate(trials):
                try:
                    self.take(trial, by_trial[i])
                except BaseException:
                    # The run ends, and the other outcomes of the batch must not be lost
                    self.rescue(trials[i + 1 :], by_trial[i + 1 :])
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
            self._record()
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
            if not isinstance(outcome, BaseException) and fatal(outcome) is not None:
                continue
            tell = self._checked(trial, outcome)
            with contextlib.suppress(AsktellError):
                if isinstance(tell.scores, BaseException):
                    self._book(tell)
                else:
                    self._unrecorded.append(tell)
                    self._record()

    def hand_back(self) -> None:
        """Release all pending trials, so that a saved selector can be continued."""
        self._on_tell = None  # it may have raised the error that ends the run
        with contextlib.suppress(AsktellError):
            self._record()  # an interrupt may have left some
            # So few cannot be a reason to stop
            if len(self._held) < FEWEST_ALIKE:
                self._settle()
        for trial in self.selector.pending:
            self.release(trial)

    # Telling

    def _record(self) -> None:
        """Record all scores in `_unrecorded` at once. A trial whose scores the selector refuses has failed."""
        tells = [tell for tell in self._unrecorded if tell.trial.id >= 0]
        refused: dict[int, Exception] = {}
        try:
            if tells:
                self.selector.tell_many(tells)
        except TellManyError as error:
            for tell, outcome in zip(tells, error.outcomes, strict=True):
                if isinstance(outcome, Exception):
                    refused[tell.trial.id] = outcome
        # An item leaves the list last, so that an interrupt loses no score
        while self._unrecorded:
            tell = self._unrecorded[0]
            scores = refused.get(tell.trial.id, tell.scores)
            self._conclude(tell._replace(scores=scores))
            del self._unrecorded[0]

    def _conclude(self, tell: Tell) -> None:
        """Finish a trial: record its failure, if it has failed. For a repeat, record its scores as an observation."""
        trial, scores, cost, details = tell
        has_failed = isinstance(scores, BaseException)
        if trial.id < 0:
            if has_failed:
                self._book(tell)
            else:
                self.selector.observe(trial, scores, trial.example, cost)
                self._repeats_lost -= 1
            return
        if has_failed and self._study is None:
            self.selector.fail(trial, scores, cost)
        elif has_failed:
            self._study.fail(trial, scores, cost, details=details)
        self._n_told += not has_failed
        self._told.append(trial)
        if not has_failed and self._n_told == _FREE:
            self._log_if_free()

    def _log_if_free(self) -> None:
        """Log that all evaluations were free, if the budget is a cost."""
        if self.selector.max_cost is not None and self.selector.spent_cost == 0:
            log.warning(
                "The first %d evaluations were all free, so the budget of cost %g never ends the run. %s",
                self._n_told,
                self.selector.max_cost,
                FREE,
            )

    def _book(self, tell: Tell) -> None:
        """Record the cost of a failure that does not count as one."""
        if tell.cost:
            self.selector.observe(tell.trial, None, tell.trial.example, tell.cost)

    def _announce(self) -> None:
        """Show the trials that were recorded since the last call in the bar, and call `on_tell` for each."""
        while self._told:
            trial = self._told.popleft()
            self._bar.show()
            if self._on_tell is not None:
                self._on_tell(self.selector, trial)

    def _log_failure(self, trial: Trial, error: BaseException) -> None:
        """Log the failure of a trial with its prompt and its example."""
        log.warning("%s failed: %r", self.described(trial), cause_of(error))

    def described(self, trial: Trial) -> str:
        """A trial in words, with the ids of its prompt and its example. An example without an id has its position."""
        what = f"trial {trial.id}" if trial.id >= 0 else "a repeated evaluation"
        ids, example = self.selector.example_ids, trial.example
        name = example if ids is None or example is None else ids[example]
        return f"{what} (prompt {trial.prompt_id!r}, example {name!r})"
