"""A study's log: its entries as lines of compact JSON, and back.

A line is what one operation did, as a list of entries; an entry is a list that begins with a letter:

| entry                                 | what happened                                            |
|---------------------------------------|----------------------------------------------------------|
| `["a", trial, arm, example]`          | asked; `example` null for none                           |
| `["t", trial, scores, cost]`          | told; without `cost` if none was given                   |
| `["r", trial]`                        | released                                                 |
| `["f", trial, reason, cost]`          | failed                                                   |
| `["o", arm, example, scores, cost]`   | observed elsewhere; `scores` null where only money was   |
| `["d", decision]`                     | decided, as in a saved selector                          |
| `["l", worker, deadline, [trial, .]]` | leased; then the process, if it is known                 |
| `["x", trial]`                        | a lease ran out                                          |
| `["p", time]`                         | paused: nothing is handed out                            |
| `["g"]`                               | it goes on                                               |
| `["n", ..]`, `["q", ..]`, `["e", ..]` | it grew: see `asktell.serialization.dump_growth`       |

Plain ASCII, whatever a reason or a name contains. What is read is checked field by field; `check` says whether it can
have happened.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from asktell import serialization
from asktell.errors import InvalidStateError
from asktell.problem.checks import short
from asktell.state import (
    Added,
    Asked,
    Decided,
    Extended,
    Failed,
    Observed,
    Problem,
    Released,
    Retired,
    State,
    Told,
    grown,
)
from asktell.state.growth import check_growth
from asktell.studies.leases import Entry, Expired, Leased, Paused, Resumed
from asktell.studies.processes import is_process

GROWTH = (Added, Retired, Extended)
_MOST_TRIALS = 2**62
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(entries: Sequence[Entry]) -> str:
    """A line."""
    return _encoder.encode([_DUMP[type(entry)](entry) for entry in entries])


_DUMP: dict[type, Callable[[Any], list[Any]]] = {
    Asked: lambda e: ["a", e.trial, e.arm, e.example],
    Told: lambda e: ["t", e.trial, e.scores] if e.cost is None else ["t", e.trial, e.scores, e.cost],
    Released: lambda e: ["r", e.trial],
    Failed: lambda e: ["f", e.trial, e.reason] if e.cost is None else ["f", e.trial, e.reason, e.cost],
    Observed: lambda e: ["o", e.arm, e.example, e.scores, *([] if e.cost is None else [e.cost])],
    Decided: lambda e: ["d", serialization.dump_decided(e)],
    Leased: lambda e: ["l", e.worker, e.deadline, e.trials, *([] if e.process is None else [e.process])],
    Expired: lambda e: ["x", e.trial],
    Paused: lambda e: ["p", e.since],
    Resumed: lambda _: ["g"],
    **dict.fromkeys((Added, Retired, Extended), serialization.dump_growth),
}


def decode(line: str | bytes, problem: Problem) -> list[Entry]:
    """The entries of a line; `problem` as it was before.

    Raises:
        InvalidStateError: the line is malformed.
    """
    return serialization.checked("A line of the study's log", lambda: _decode(line, problem))


def _decode(line: str | bytes, problem: Problem) -> list[Entry]:
    items = json.loads(line)
    if type(items) is not list:
        raise InvalidStateError(f"A line of a study's log must be a list, got {line[:80]!r}.")
    entries: list[Entry] = []
    for item in items:
        entry = _load(item, problem)
        entries.append(entry)
        if isinstance(entry, GROWTH):
            problem = grown(problem, entry)
    return entries


def _load(item: Any, problem: Problem) -> Entry:
    if type(item) is not list or not item:
        raise InvalidStateError(f"An entry of a study's log must be a list, got {short(item)}.")
    kind, n = item[0], len(item)
    if kind == "a" and n == 4:
        return Asked(_trial(item[1]), _arm(item[2], problem), _example(item[3], problem))
    if kind == "t" and n in (3, 4):
        return Told(_trial(item[1]), _scores(item[2], problem), _cost(item[3]) if n == 4 else None)
    if kind == "l" and n in (4, 5):
        if type(item[1]) is not str or type(item[2]) not in (int, float) or not math.isfinite(item[2]):
            raise InvalidStateError(f"A lease must have a worker and a deadline, got {short(item)}.")
        if n == 5 and not is_process(item[4]):
            raise InvalidStateError(f"A lease's process is malformed: {short(item[4])}.")
        return Leased(item[1], float(item[2]), tuple([_trial(trial) for trial in item[3]]), *item[4:])
    if kind in ("r", "x") and n == 2:
        return (Released if kind == "r" else Expired)(_trial(item[1]))
    if kind == "f" and n in (3, 4) and type(item[2]) is str:
        return Failed(_trial(item[1]), item[2], _cost(item[3]) if n == 4 else None)
    if kind == "o" and (n == 5 or (n == 4 and item[3] is not None)):
        scores = None if item[3] is None else _scores(item[3], problem)
        return Observed(_arm(item[1], problem), _example(item[2], problem), scores, _cost(item[4]) if n == 5 else None)
    if kind == "d" and n == 2:
        return serialization.load_decided(item[1], problem)
    if kind == "p" and n == 2:
        return Paused(serialization.number("a time", item[1], 0.0))
    if kind == "g" and n == 1:
        return Resumed()
    if kind in serialization.LETTERS:
        return serialization.load_growth(item, problem)
    raise InvalidStateError(f"Unknown entry in a study's log: {short(item)}. Was it written by a newer asktell?")


def _trial(number: Any) -> int:
    return serialization.whole("a trial", number, 0, _MOST_TRIALS)


def _arm(number: Any, problem: Problem) -> int:
    return serialization.whole("an arm", number, 0, problem.n_arms - 1)


def _example(number: Any, problem: Problem) -> int | None:
    return None if number is None else serialization.whole("an example", number, 0, (problem.n_examples or 0) - 1)


def _scores(vector: Any, problem: Problem) -> tuple[float, ...]:
    n_metrics = len(problem.goal.metrics)
    return tuple([serialization.number("a score", score) for score in serialization.items("scores", vector, n_metrics)])


def _cost(number: Any) -> float:
    return serialization.number("a cost", number, 0.0)


def check(state: State, entry: Entry) -> None:
    """Refuse an entry that cannot come next.

    Raises:
        InvalidStateError: it cannot.
    """
    if isinstance(entry, Asked):
        pull = state.next_pull()
        if pull is not None and pull.trial is None:
            pull = pull._replace(trial=state.asked)
        if pull != tuple(entry):
            raise InvalidStateError(f"The log has {entry}, but what was to be asked is {pull}.")
    elif isinstance(entry, (Told, Failed)):
        if state.open(entry.trial) is None:
            raise InvalidStateError(f"The log has {short(entry)}, but this trial was not out.")
    elif isinstance(entry, (Released, Expired)):
        if entry.trial not in state.pending:
            raise InvalidStateError(f"The log has {entry}, but this trial was not out.")
    elif isinstance(entry, Leased):
        if any(state.open(trial) is None for trial in entry.trials):
            raise InvalidStateError(f"The log has {short(entry)}, but not all of these trials were out.")
    elif isinstance(entry, Decided):
        _check_decided(state, entry)
    elif isinstance(entry, GROWTH):
        check_growth(state, entry)


def _check_decided(state: State, decided: Decided) -> None:
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
