"""A study's log: its entries as lines of compact JSON, `LoggedSelector`, which follows it, and the evaluations in it.

A line is what one operation did, as a list of entries; an entry is a list that begins with a letter. Each is defined
once, in `asktell.state.events` or, where it is about leases, in `asktell.studies.leases`:

| entry                                               | what happened                                          |
|-----------------------------------------------------|--------------------------------------------------------|
| `["a", trial, arm, example]`                        | asked; `example` null for none                         |
| `["t", trial, scores, cost]`                        | told; `cost` null if none was given                    |
| `["r", trial]`                                      | released                                               |
| `["f", trial, reason, cost]`                        | failed                                                 |
| `["o", arm, example, scores, cost]`                 | observed elsewhere; `scores` null for a cost alone     |
| `["d", round, departures, pulls, finished, ..]`     | decided                                                |
| `["n", ids, texts, features, key, candidates]`      | prompts joined                                         |
| `["q", arm, reason, key]`                           | a prompt was retired                                   |
| `["e", evaluations, cost, examples, key, ids]`      | budget or examples were added                          |
| `["c", topic, text, doubtful]`                      | remarked                                               |
| `["l", worker, deadline, [trial, ..]]`              | leased                                                 |
| `["x", trial]`                                      | a lease ran out                                        |
| `["p", time]`                                       | paused: nothing is handed out                          |
| `["g"]`                                             | resumed                                                |

Fields with a default may be missing at the end. Lines are plain ASCII, whatever a reason or a name contains. What is
read is checked twice: `decode` says whether it can be an entry at all, `check` whether it can have happened here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeAlias

from asktell import serialization
from asktell import state as states
from asktell.errors import InvalidStateError
from asktell.methods import Method
from asktell.problem.candidates import AnyTrial, Prompts, Trial
from asktell.problem.checks import short
from asktell.results.evaluations import Evaluation, evaluations_of, id_of_example
from asktell.selector import Selector
from asktell.state import State, apply, decide, events, grown
from asktell.state.growth import prompts_after
from asktell.state.lookup import trial_id
from asktell.studies.leases import Entry, Expired, Leased, Leases, Paused, Resumed, follow

_ABOUT_LEASES = (Leased, Expired, Paused, Resumed)
_DETAILS_AT_ONCE = 500  # answers may be long


encode = serialization.encode
"""A line of entries."""

decode = serialization.Decoder[tuple[Entry, ...]]("A line of the study's log", tuple[Entry, ...]).decode
"""The entries of a line."""


def check(state: State, entry: Entry) -> None:
    """Refuse an entry that cannot come next."""
    if isinstance(entry, Expired):
        if entry.trial not in state.pending:
            raise InvalidStateError(f"The log has {entry}, but this trial was not pending.")
    elif isinstance(entry, Leased):
        if any(state.open(trial) is None for trial in entry.trials):
            raise InvalidStateError(f"The log has {short(entry)}, but not all of these trials were pending.")
    elif not isinstance(entry, _ABOUT_LEASES):
        states.check(state, entry)


Mark: TypeAlias = tuple[State, Leases]
"""Where a selector stands, to go back to."""


class LoggedSelector:
    """A selector with leases, whose every change is noted as entries of a log; it decides only when it is asked.

    `new` are the entries since they were last cleared; `told`, how many scores this object saw each worker tell.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.leases = Leases()
        self.new: list[Entry] = []
        self.told: Counter[str] = Counter()
        self._prepared: tuple[State, events.Decided | None] | None = None
        selector._sink, selector._decide = self.note, self._decide

    @property
    def state(self) -> State:
        """The selector's state."""
        return self.selector._state

    def note(self, entry: Entry) -> None:
        """Take an entry, of an event that the selector has taken, or about leases."""
        if not isinstance(entry, events.Asked):
            if isinstance(entry, events.Told):
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
        return self.selector._state, self.leases

    def go_back(self, mark: Mark) -> None:
        """Stand where the mark was made."""
        self.selector._state, self.leases = mark

    def replay(self, lines: Iterable[str | bytes]) -> int:
        """Fold lines of the log, whole or not at all; their number of entries."""
        told: Counter[str] = Counter()
        with serialization.checked("A line of the study's log"):
            state, leases, n_entries = self._folded(lines, told)
        self.told.update(told)
        self.go_back((state, leases))
        return n_entries

    def _folded(self, lines: Iterable[str | bytes], told: "Counter[str]") -> tuple[State, Leases, int]:
        """What follows from the lines; `told` gets who told how many."""
        state, leases, prompts, n_entries = self.state, self.leases, self.selector.prompts, 0
        for line in lines:
            entries = decode(line)
            leased: list[Leased] = []
            for entry in entries:
                check(state, entry)
                if isinstance(entry, Leased):
                    leased.append(entry)
                elif not isinstance(entry, _ABOUT_LEASES):
                    if isinstance(entry, events.Growth):
                        self.selector.method.check_growth(entry)
                        prompts = prompts_after(prompts, entry)
                    state = apply(state, entry)
                _count(told, leases, entry)
                leases = follow(leases, entry)
            for trial in (trial for each in leased for trial in each.trials):
                if leases.holder(trial) is not None and trial not in state.pending:
                    raise InvalidStateError(f"The log has a lease on trial {trial}, which was not pending.")
            n_entries += len(entries)
        return state, leases, n_entries

    # Deciding

    def prepare(self) -> None:
        """Compute the decision that is due, if one is, without taking it: it is at hand if nothing happens before."""
        state = self.state
        if self._prepared is None or self._prepared[0] is not state:
            self._prepared = state, decide(self.selector.method, state)

    def _decide(self, method: Method, state: State) -> events.Decided | None:
        prepared = self._prepared
        return prepared[1] if prepared is not None and prepared[0] is state else decide(method, state)

    def view(self) -> Selector:
        """A selector in the same state, with the decisions that are due if nothing is pending; only to look at."""
        selector = self.selector._at(self.selector.state)
        selector._decide = self._decide
        return selector

    # Looking up

    def trial(self, id_: int) -> Trial:
        """A pending trial."""
        pull = self.state.pending[id_]
        return self.selector.prompts.trial(id_, pull.arm, pull.example)

    def find(self, trial: AnyTrial, worker: str | None = None) -> int:
        """A trial's id; of a prompt that is named, the worker's own trial comes first."""
        if isinstance(trial, str) and worker is not None:
            arm = self.selector.prompts.find(trial)
            own = [id_ for id_ in self.leases.held(worker) if self.state.pending[id_].arm == arm]
            if own:
                return min(own)
        return trial_id(self.state, self.selector.prompts, trial)

    # Leases

    def expire(self, now: float, max_attempts: int) -> None:
        """End the leases that have run out: their trials are asked again, or fail after so many attempts."""
        for id_ in sorted(trial for trial, lease in self.leases.by_trial.items() if lease.deadline <= now):
            worker = self.leases.holder(id_)
            self.note(Expired(id_))
            expired = self.leases.reissued[id_].expired
            if expired >= max_attempts:
                self.selector.fail(id_, f"{expired} leases of it ran out, the last one held by {worker}")
            else:
                self.selector.release(id_)
        self.leases = self.leases.tightened()

    def lost(self, id_: int, worker: str | None) -> bool:
        """Whether a trial was given to another worker, or was brought to its end by one."""
        if self.state.open(id_) is None:
            return id_ in self.leases.reissued
        return worker is not None and self.leases.holder(id_) not in (None, worker)


def _count(told: "Counter[str]", leases: Leases, entry: Entry) -> None:
    """Count for whom held it what was told."""
    if isinstance(entry, events.Told) and (worker := leases.holder(entry.trial)) is not None:
        told[worker] += 1


def evaluations(
    base: State,
    lines: Iterable[str],
    prompts: Prompts,
    find: Callable[[Sequence[int]], Mapping[int, str]],
    after: int = 0,
) -> Iterator[Evaluation]:
    """What a study was told that began at `base` with these prompts, but for the first `after`; with details as found.

    What had been told by then comes first, the failures of that time last.
    """
    told = islice(_evaluations(base, lines, prompts), after, None)
    while group := list(islice(told, _DETAILS_AT_ONCE)):
        details = find([evaluation.trial for evaluation in group])
        for evaluation in group:
            if (text := details.get(evaluation.trial)) is not None:
                evaluation = evaluation._replace(details=serialization.parse(text, "What is kept of a trial"))
            yield evaluation


def _evaluations(base: State, lines: Iterable[str], prompts: Prompts) -> Iterator[Evaluation]:
    problem = base.problem
    counted = problem.on_failure if isinstance(problem.on_failure, dict) else None
    yield from evaluations_of(base, prompts.ids)
    out = {t: (pull.arm, pull.example) for t in range(base.asked) if (pull := base.open(t)) is not None}
    for line in lines:
        for entry in decode(line):
            if isinstance(entry, events.Growth):
                problem, prompts = grown(problem, entry), prompts_after(prompts, entry)
            elif isinstance(entry, events.Asked):
                out[entry.trial] = entry.arm, entry.example
            elif isinstance(entry, events.Told | events.Failed):
                arm, example = out.pop(entry.trial)
                scores, reason = counted, None
                if isinstance(entry, events.Told):
                    scores = dict(zip(problem.goal.metrics, entry.scores, strict=False))
                else:
                    reason = entry.reason
                id_ = id_of_example(problem, example)
                yield Evaluation(entry.trial, prompts.ids[arm], example, scores, entry.cost, reason, example_id=id_)
