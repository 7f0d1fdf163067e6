"""Facts, folded: what is known before the first pull, what happened, and what follows from it.

Everything here is an immutable value, and every function is pure: no clock, no I/O, no random state.

| module    | what it has                                                                              |
|-----------|------------------------------------------------------------------------------------------|
| `problem` | `Problem`: prompts, goal, budget and examples, as known before the first pull, or grown     |
| `events`  | `Asked`, `Told`, ..., `Decided`, `Added`, ...: what happened                               |
| `history` | `History`: the scores told so far, as columns; `Failures`                                |
| `tally`   | `Tally`: their sums, arm by arm                                                          |
| `queue`   | `Queue`: pulls that were handed back, and wait to be asked again                         |
| `state`   | `State`: everything that follows from the events                                         |
| `growth`  | what prompts that join or retire, and more money, do to a selection, and when they can come |
| `joining` | such an event, from what users pass in                                                      |
| `turns`   | scores in the order of all pulls of an arm                                               |
| `fold`    | `apply(state, event)`, the bookkeeping; `decide(method, state)`, which asks a method     |
"""

from asktell.state.events import (
    ACCEPTED,
    ACTIVE,
    FAILED,
    REJECTED,
    RETIRED,
    Added,
    Asked,
    Decided,
    Departure,
    Event,
    Extended,
    Failed,
    Failure,
    Growth,
    Observed,
    Released,
    Retired,
    Told,
)
from asktell.state.fold import apply, decide
from asktell.state.history import Failures, History
from asktell.state.problem import SAMPLINGS, SKIP, Problem, grown
from asktell.state.queue import Pull, Queue
from asktell.state.state import Grown, State, initial
from asktell.state.tally import Tally

__all__ = [
    "ACCEPTED",
    "ACTIVE",
    "FAILED",
    "REJECTED",
    "RETIRED",
    "SAMPLINGS",
    "SKIP",
    "Added",
    "Asked",
    "Decided",
    "Departure",
    "Event",
    "Extended",
    "Failed",
    "Failure",
    "Failures",
    "Grown",
    "Growth",
    "History",
    "Observed",
    "Problem",
    "Pull",
    "Queue",
    "Released",
    "Retired",
    "State",
    "Tally",
    "Told",
    "apply",
    "decide",
    "grown",
    "initial",
]
