"""A study's log: its entries as lines of compact JSON, `LoggedSelector`, which follows it, and the evaluations in it.

A line is what one operation did, as a list of entries; an entry is a list that begins with a letter:

| entry                                 | what happened                                            |
|---------------------------------------|----------------------------------------------------------|
| `["a", trial, arm, example]`          | asked; `example` null for none                           |
| `["t", trial, scores, cost]`          | told; without `cost` if none was given                   |
| `["r", trial]`                        | released                                                 |
| `["f", trial, reason, cost]`          | failed                                                   |
| `["o", arm, example, scores, cost]`   | observed elsewhere; `scores` null where only money was   |
| `["d", decision]`                     | decided, as in a saved selector                          |
| `["l", worker, deadline, [trial, .]]` | leased; a process that follows is not looked at          |
| `["x", trial]`                        | a lease ran out                                          |
| `["p", time]`                         | paused: nothing is handed out                            |
| `["g"]`                               | it goes on                                               |
| `["n", ..]`, `["q", ..]`, `["e", ..]` | it grew: see `asktell.serialization.dump_growth`       |

Plain ASCII, whatever a reason or a name contains. What is read is checked field by field; `check` says whether it can
have happened.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeAlias

from asktell import serialization
from asktell.errors import InvalidStateError
from asktell.methods import Method, check_method
from asktell.problem.candidates import AnyTrial, Prompts, Trial
from asktell.problem.checks import LARGEST, check_cost, check_number, short, whole
from asktell.results.evaluations import Evaluation, evaluations_of, id_of_example
from asktell.selector import Selector
from asktell.state import Problem, State, apply, decide, events, grown
from asktell.state.growth import check_growth, prompts_after
from asktell.state.lookup import trial_id
from asktell.studies.leases import Entry, Expired, Leased, Leases, Paused, Resumed, follow

GROWTH = (events.Added, events.Retired, events.Extended)
_MOST_TRIALS = 2**62
_DETAILS_AT_ONCE = 500  # answers may be long
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(entries: Sequence[Entry]) -> str:
    """A line."""
    return _encoder.encode([_DUMP[type(entry)](entry) for entry in entries])


_DUMP: dict[type, Callable[[Any], list[Any]]] = {
    events.Asked: lambda e: ["a", e.trial, e.arm, e.example],
    events.Told: lambda e: ["t", e.trial, e.scores] if e.cost is None else ["t", e.trial, e.scores, e.cost],
    events.Released: lambda e: ["r", e.trial],
    events.Failed: lambda e: ["f", e.trial, e.reason] if e.cost is None else ["f", e.trial, e.reason, e.cost],
    events.Observed: lambda e: ["o", e.arm, e.example, e.scores, *([] if e.cost is None else [e.cost])],
    events.Decided: lambda e: ["d", e._asdict()],
    Leased: lambda e: ["l", *e],
    Expired: lambda e: ["x", e.trial],
    Paused: lambda e: ["p", e.since],
    Resumed: lambda _: ["g"],
    events.Remarked: lambda e: ["c", *e],
    **dict.fromkeys((events.Added, events.Retired, events.Extended), serialization.dump_growth),
}


def _decode(line: str | bytes, problem: Problem) -> list[Entry]:
    """The entries of a line; `problem` as it was before."""
    entries: list[Entry] = []
    for item in serialization.items("A line of a study's log", json.loads(line)):
        entry = _load(item, problem)
        entries.append(entry)
        if isinstance(entry, GROWTH):
            problem = grown(problem, entry)
    return entries


decode = serialization.checked("A line of the study's log")(_decode)


def _load(item: Any, problem: Problem) -> Entry:
    if type(item) is not list or not item:
        raise InvalidStateError(f"An entry of a study's log must be a list, got {short(item)}.")
    kind, n = item[0], len(item)
    if kind == "a" and n == 4:
        return events.Asked(_trial(item[1]), _arm(item[2], problem), _example(item[3], problem))
    if kind == "t" and n in (3, 4):
        return events.Told(_trial(item[1]), _scores(item[2], problem), _cost(item[3]) if n == 4 else None)
    if kind == "l" and n in (4, 5):
        if type(item[1]) is not str or type(item[2]) not in (int, float) or not math.isfinite(item[2]):
            raise InvalidStateError(f"A lease must have a worker and a deadline, got {short(item)}.")
        return Leased(item[1], float(item[2]), tuple([_trial(trial) for trial in item[3]]))
    if kind in ("r", "x") and n == 2:
        return (events.Released if kind == "r" else Expired)(_trial(item[1]))
    if kind == "f" and n in (3, 4) and type(item[2]) is str:
        return events.Failed(_trial(item[1]), item[2], _cost(item[3]) if n == 4 else None)
    if kind == "o" and (n == 5 or (n == 4 and item[3] is not None)):
        scores = None if item[3] is None else _scores(item[3], problem)
        return events.Observed(
            _arm(item[1], problem), _example(item[2], problem), scores, _cost(item[4]) if n == 5 else None
        )
    if kind == "d" and n == 2:
        return serialization.load_decided(item[1], problem)
    if kind == "p" and n == 2:
        return Paused(check_number("a time", item[1], 0.0, LARGEST))
    if kind == "g" and n == 1:
        return Resumed()
    if kind == "c":
        return serialization.load_remark(item[1:])
    if kind in serialization.LETTERS:
        return serialization.load_growth(item, problem)
    raise InvalidStateError(f"Unknown entry in a study's log: {short(item)}. Was it written by a newer asktell?")


def _trial(number: Any) -> int:
    return whole("a trial", number, 0, _MOST_TRIALS)


def _arm(number: Any, problem: Problem) -> int:
    return whole("an arm", number, 0, problem.n_arms - 1)


def _example(number: Any, problem: Problem) -> int | None:
    return None if number is None else whole("an example", number, 0, (problem.n_examples or 0) - 1)


def _scores(vector: Any, problem: Problem) -> tuple[float, ...]:
    n_metrics = len(problem.goal.columns)
    return tuple([serialization.number("a score", score) for score in serialization.items("scores", vector, n_metrics)])


def _cost(number: Any) -> float:
    return check_cost(check_number("a cost", number, 0.0, LARGEST))


def check(state: State, entry: Entry) -> None:
    """Refuse an entry that cannot come next."""
    if isinstance(entry, events.Asked):
        pull = state.next_pull()
        if pull is not None and pull.trial is None:
            pull = pull._replace(trial=state.asked)
        if pull != tuple(entry):
            raise InvalidStateError(f"The log has {entry}, but what was to be asked is {pull}.")
    elif isinstance(entry, (events.Told, events.Failed, events.Released, Expired)):
        may_be_returned = isinstance(entry, (events.Told, events.Failed))
        if entry.trial not in state.pending and not (may_be_returned and state.open(entry.trial)):
            raise InvalidStateError(f"The log has {short(entry)}, but this trial was not pending.")
    elif isinstance(entry, Leased):
        if any(state.open(trial) is None for trial in entry.trials):
            raise InvalidStateError(f"The log has {short(entry)}, but not all of these trials were pending.")
    elif isinstance(entry, events.Decided):
        _check_decided(state, entry)
    elif isinstance(entry, GROWTH):
        check_growth(state, entry)


def _check_decided(state: State, decided: events.Decided) -> None:
    if not state.may_decide or decided.round != len(state.decisions):
        raise InvalidStateError(f"Decision {decided.round} is not due: {len(state.decisions)} were made.")
    if decided.plan is not None:
        n_planned = len(decided.plan)
    elif isinstance(decided.pulls, int):
        n_planned = decided.pulls * (len(state.active) - len(decided.departures))
    else:
        n_planned = sum(decided.pulls)
    if n_planned > state.problem.budget - state.spent - len(state.pending):
        raise InvalidStateError(f"Decision {decided.round} plans {n_planned} pulls, more than the budget allows.")


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
            entries = _decode(line, state.problem)
            leased: list[Leased] = []
            for entry in entries:
                check(state, entry)
                if isinstance(entry, Leased):
                    leased.append(entry)
                elif isinstance(entry, events.Event):
                    if isinstance(entry, events.Growth):
                        check_method(self.selector.method, entry)
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
        for entry in decode(line, problem):
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
