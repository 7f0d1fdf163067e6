"""A selector that follows a study's log: it folds what others did, and notes what is done through it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from asktell import records
from asktell.errors import InvalidStateError, UnknownTrialError
from asktell.methods import Method
from asktell.selector import Selector
from asktell.state import Decided, Event, State, apply, decide
from asktell.studies import log
from asktell.studies.leases import Entry, Expired, Leased, Leases, follow, without
from asktell.trial import Trial


class Mark(NamedTuple):
    """Where a follower stands, to go back to."""

    state: State
    leases: Leases


class Follower(Selector):
    """A selector with leases, whose every change is noted as entries of a log.

    Attributes:
        leases: who holds what.
        new: the entries since they were last cleared.

    It never decides when it is told: a paid score must not wait for, or be lost by, a decision. Asking decides.
    """

    def _set(self, ids: list[str] | None, texts: list[str], method: Method, state: State) -> None:
        super()._set(ids, texts, method, state)
        self.leases = Leases()
        self.new: list[Entry] = []
        self._prepared: tuple[State, Decided | None] | None = None

    def _take(self, event: Event) -> None:
        super()._take(event)
        self.leases = follow(self.leases, event)
        self.new.append(event)

    def _settle(self) -> None:
        """Leave it to asking."""

    def note(self, entry: Leased | Expired) -> None:
        """Take an entry about leases."""
        self.leases = follow(self.leases, entry)
        self.new.append(entry)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """What is done within happens whole or, after an exception, not at all."""
        before, n_entries = self.mark(), len(self.new)
        try:
            yield
        except BaseException:
            self.go_back(before)
            del self.new[n_entries:]
            raise

    # Following others

    def mark(self) -> Mark:
        """Where it stands now."""
        return Mark(self._state, self.leases)

    def go_back(self, mark: Mark) -> None:
        """Stand where the mark was made."""
        self._state, self.leases = mark

    def replay(self, line: str | bytes) -> int:
        """Fold a line of the log, whole or not at all; its number of entries.

        Raises:
            InvalidStateError: the line is malformed, or cannot have happened.
        """
        entries = log.decode(line, self._state.problem)
        before = self.mark()
        try:
            records.checked("A line of the study's log", lambda: self._fold(entries))
        except InvalidStateError:
            self.go_back(before)
            raise
        return len(entries)

    def _fold(self, entries: list[Entry]) -> None:
        for entry in entries:
            log.check(self._state, entry)
            if not isinstance(entry, Leased | Expired):
                self._state = apply(self._state, entry)
            self.leases = follow(self.leases, entry)
        # Lines of asktell 0.1.0 may end with a lease on a trial that is not out: its scores were refused after all.
        for leased in entries:
            if isinstance(leased, Leased):
                self.leases = without(self.leases, (t for t in leased.trials if t not in self._state.pending))

    # Deciding

    def prepare(self) -> None:
        """Compute the decision that is due, if one is, without taking it: it is at hand if nothing happens before."""
        state = self._state
        if self._prepared is None or self._prepared[0] is not state:
            self._prepared = state, decide(self._method, state)

    def _advance(self) -> None:
        if self._prepared is not None and self._prepared[0] is self._state:
            decided = self._prepared[1]
            if decided is None:
                return
            self._take(decided)
        self._prepared = None
        super()._advance()

    # Looking up

    def trial(self, id_: int) -> Trial:
        """A trial that is out."""
        pull = self._state.pending[id_]
        return Trial(id_, self._ids[pull.arm], self._texts[pull.arm], pull.example)

    def find(self, trial: Trial | int | str, worker: str | None = None) -> int:
        """A trial's id; of a prompt that is named, the worker's own trial comes first.

        Raises:
            UnknownTrialError: no such trial is out, or it is another prompt or example by now.
            InvalidArgumentError: it is no trial, id or prompt.
        """
        if isinstance(trial, str) and worker is not None:
            arm = self._arm_or_none(trial)
            own = [id_ for id_ in self.leases.held(worker) if self._state.pending[id_].arm == arm]
            if own:
                return min(own)
        id_ = self._trial_id(trial)
        pull = self._state.open(id_)
        if type(trial) is Trial and pull is not None:
            here = self._ids[pull.arm], pull.example
            if here != (trial.prompt_id, trial.example):
                raise UnknownTrialError(
                    f"Trial {id_} is prompt {here[0]!r} on example {here[1]}, not prompt {trial.prompt_id!r} on "
                    f"example {trial.example}: it was asked in another study, or before its machine crashed. "
                    "observe() takes its scores."
                )
        return id_

    def grouped(self, trials: list[Trial]) -> list[Trial]:
        """Those of the same prompt together, in the order of the prompts."""
        return sorted(trials, key=lambda trial: self._state.pending[trial.id].arm)

    def frozen(self) -> Selector:
        """A selector in the same state, with the decisions that are due if nothing is out; only to look at."""
        selector = Selector.__new__(Selector)
        ids = None if isinstance(self._ids, range) else list(self._ids)
        selector._set(ids, self._texts, self._method, self._state)  # type: ignore[arg-type]
        if self._state.asked and not self._state.pending:
            if self._prepared is not None and self._prepared[0] is self._state and self._prepared[1] is not None:
                selector._take(self._prepared[1])
            selector._advance()
        return selector
