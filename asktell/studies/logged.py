"""A selector that follows a study's log: it folds what others did, and notes what is done through it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from asktell import serialization
from asktell.errors import InvalidStateError
from asktell.methods import Method, check_method
from asktell.problem.candidates import Trial
from asktell.selector import Selector
from asktell.state import Decided, Event, Growth, State, Told, apply, decide
from asktell.state.growth import prompts_after
from asktell.state.lookup import AnyTrial, check_match, trial_id
from asktell.studies import log
from asktell.studies.leases import Entry, Expired, Leased, Leases, follow


class Mark(NamedTuple):
    """Where it stands, to go back to."""

    state: State
    leases: Leases


class LoggedSelector:
    """A selector with leases, whose every change is noted as entries of a log.

    Attributes:
        selector: to ask and tell. It decides only when it is asked.
        leases: who holds what.
        new: the entries since they were last cleared.
        told: how many scores each worker told, as far as this object saw it.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.leases = Leases()
        self.new: list[Entry] = []
        self.told: Counter[str] = Counter()
        self._prepared: tuple[State, Decided | None] | None = None
        selector._sink, selector._decide = self.note, self._decide

    @property
    def state(self) -> State:
        """The selector's state."""
        return self.selector._state

    def note(self, entry: Entry) -> None:
        """Take an entry, of an event that the selector has taken, or about leases."""
        _count(self.told, self.leases, entry)
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
        """The place to which `go_back` returns: where it stands now."""
        return Mark(self.state, self.leases)

    def go_back(self, mark: Mark) -> None:
        """Stand where the mark was made."""
        self.selector._state = mark.state
        self.leases = mark.leases

    def replay(self, lines: Iterable[str | bytes]) -> int:
        """Fold lines of the log, whole or not at all; their number of entries.

        Raises:
            InvalidStateError: a line is malformed, or cannot have happened.
        """
        told: Counter[str] = Counter()
        state, leases, n_entries = serialization.checked("A line of the study's log", lambda: self._folded(lines, told))
        self.told.update(told)
        self.selector._state = state
        self.leases = leases
        return n_entries

    def _folded(self, lines: Iterable[str | bytes], told: "Counter[str]") -> tuple[State, Leases, int]:
        """What follows from the lines; `told` gets who told how many."""
        state, leases, prompts, n_entries = self.state, self.leases, self.selector.prompts, 0
        for line in lines:
            entries = log.decode(line, state.problem)
            leased: list[Leased] = []
            for entry in entries:
                log.check(state, entry)
                if isinstance(entry, Leased):
                    leased.append(entry)
                elif isinstance(entry, Event):
                    if isinstance(entry, Growth):
                        check_method(self.selector.method, entry)
                        prompts = prompts_after(prompts, entry)
                    state = apply(state, entry)
                _count(told, leases, entry)
                leases = follow(leases, entry)
            for trial in (trial for each in leased for trial in each.trials):
                if leases.holder(trial) is not None and trial not in state.pending:
                    raise InvalidStateError(f"The log has a lease on trial {trial}, which was not out.")
            n_entries += len(entries)
        return state, leases, n_entries

    # Deciding

    def prepare(self) -> None:
        """Compute the decision that is due, if one is, without taking it: it is at hand if nothing happens before."""
        state = self.state
        if self._prepared is None or self._prepared[0] is not state:
            self._prepared = state, decide(self.selector.method, state)

    def _decide(self, method: Method, state: State) -> Decided | None:
        prepared = self._prepared
        return prepared[1] if prepared is not None and prepared[0] is state else decide(method, state)

    def view(self) -> Selector:
        """A selector in the same state, with the decisions that are due if nothing is out; only to look at."""
        selector = self.selector._at(self.selector.state)
        selector._decide = self._decide
        return selector

    # Looking up

    def trial(self, id_: int) -> Trial:
        """A trial that is out."""
        pull = self.state.pending[id_]
        return self.selector.prompts.trial(id_, pull.arm, pull.example)

    def find(self, trial: AnyTrial, worker: str | None = None) -> int:
        """A trial's id; of a prompt that is named, the worker's own trial comes first.

        Raises:
            UnknownTrialError: no such trial is out, or it is another prompt or example by now.
            InvalidArgumentError: it is no trial, id or prompt.
        """
        if isinstance(trial, str) and worker is not None:
            arm = self.selector.prompts.find(trial)
            own = [id_ for id_ in self.leases.held(worker) if self.state.pending[id_].arm == arm]
            if own:
                return min(own)
        id_ = trial_id(self.state, self.selector.prompts, trial)
        if type(trial) is Trial:
            check_match(self.state, self.selector.prompts, trial._replace(prompt=""))
        return id_

    def grouped(self, trials: list[Trial]) -> list[Trial]:
        """The trials with those of the same prompt together, in the order of the prompts."""
        return sorted(trials, key=lambda trial: self.state.pending[trial.id].arm)

    # Leases

    def expire(self, now: float, max_attempts: int) -> None:
        """End the leases that have run out: their trials are asked again, or fail after so many attempts."""
        self._end(self.leases.overdue(now), max_attempts)
        if now >= self.leases.earliest:
            self.leases = self.leases.tightened()

    def expire_gone(self, asking: str | None, max_attempts: int) -> bool:
        """The same with the leases of processes that are gone; whether there were any.

        What the worker that asks held before a restart is its own, and not an attempt that failed.
        """
        gone = self.leases.gone(asking)
        self._end(gone, max_attempts)
        return bool(gone)

    def _end(self, trials: Iterable[int], max_attempts: int) -> None:
        for id_ in trials:
            worker = self.leases.holder(id_)
            self.note(Expired(id_))
            expired = self.leases.reissued[id_].expired
            if expired >= max_attempts:
                self.selector.fail(id_, f"{expired} leases of it ran out, the last one held by {worker}")
            else:
                self.selector.release(id_)

    def lost(self, id_: int, worker: str | None) -> bool:
        """Whether a trial was given to another worker, or was brought to its end by one."""
        if self.state.open(id_) is None:
            return id_ in self.leases.reissued
        return worker is not None and self.leases.holder(id_) not in (None, worker)


def _count(told: "Counter[str]", leases: Leases, entry: Entry) -> None:
    """Count for whom held it what was told."""
    if isinstance(entry, Told) and (worker := leases.holder(entry.trial)) is not None:
        told[worker] += 1
