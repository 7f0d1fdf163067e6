"""Events: one definition of each for memory, for a study's log and for a saved selector.

A decision is an event too: it is recorded when it is made, and never recomputed.

In JSON an event is a list: its tag (the letter in the definition), then its fields in order. Fields with a default
may be missing at the end, so that a field that is added later makes no older file unreadable. The annotations bound
what each field may hold by itself. Bounds that depend on the problem (is there such an arm?) are checked by
`asktell.state.fold.check` before an event is applied.
"""

import sys
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from asktell.numerics.arrays import Vector
from asktell.problem.candidates import Candidates
from asktell.problem.checks import LARGEST

Index: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
"""Of a trial, an arm, an example or a round; also a number of them."""
Score: TypeAlias = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Cost: TypeAlias = Annotated[float, Meta(ge=0.0, le=LARGEST)]
Estimate: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""Any finite number."""

# What a prompt is or became:
ACTIVE: Final = "active"  # still in question
ACCEPTED: Final = "accepted"  # it left as one of the answer
REJECTED: Final = "rejected"  # it left as no part of the answer
FAILED: Final = "failed"  # it failed too often, or on every example, and is no rival any more
RETIRED: Final = "retired"  # it was taken out, and is no rival any more


class Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base of everything that happens to a selection, and of what a study's log says of leases."""


class Asked(Event, frozen=True, tag="a"):
    """A pull was handed out; `example` None for none."""

    trial: Index
    arm: Index
    example: Index | None = None


class Told(Event, frozen=True, tag="t"):
    """Scores of a trial, in the goal's order and metric units."""

    trial: Index
    scores: tuple[Score, ...]
    cost: Cost | None = None


class Released(Event, frozen=True, tag="r"):
    """A trial was handed back unevaluated; it will be asked again under the same id."""

    trial: Index


class Failed(Event, frozen=True, tag="f"):
    """An evaluation failed; unless it counts as scores, its arm's next example takes its place in a round."""

    trial: Index
    reason: str
    cost: Cost | None = None


class Observed(Event, frozen=True, tag="o"):
    """Scores from elsewhere, or none; they are no evaluation of the budget. `cost`: what was paid, if it is booked."""

    arm: Index
    example: Index | None
    scores: tuple[Score, ...] | None
    cost: Cost | None = None


class Pull(NamedTuple):
    """An evaluation that was planned or is pending: `trial` None until it is asked for the first time."""

    trial: Index | None
    arm: Index
    example: Index | None


class Departure(NamedTuple):
    """An arm leaves the race, with its estimate at that moment (empty where there is none)."""

    arm: Index
    status: Literal["accepted", "rejected", "failed", "retired"]
    reason: str
    means: tuple[Estimate, ...] = ()
    standard_errors: tuple[Estimate | None, ...] = ()

    @classmethod
    def of(cls, arm: int, is_accepted: bool, reason: str, estimate: tuple[Vector, Vector] | None) -> "Departure":
        """As accepted or rejected; of the estimate's (m,) means and errors, NaN is an unknown error."""
        status: Literal["accepted", "rejected"] = ACCEPTED if is_accepted else REJECTED
        if estimate is None:
            return cls(arm, status, reason)
        errors = tuple(None if np.isnan(x) else float(x) for x in estimate[1])
        return cls(arm, status, reason, tuple(estimate[0].tolist()), errors)


class Decided(Event, frozen=True, tag="d"):
    """The end of a round: who leaves and why, and the pulls of the next round.

    `pulls`: per arm that stays, ascending; one number if all have the same. `plan`: the very pulls instead, as pairs
    of arm and example (-1 for none), in the order of asking. `finished` decisions have neither but an `answer`, best
    first, and a departure for every arm that was left. `settled`: it ended before the budget, because the answer was
    certain enough.
    """

    round: Index
    departures: tuple[Departure, ...] = ()
    pulls: Index | tuple[Index, ...] = 0
    finished: bool = False
    answer: tuple[Index, ...] = ()
    plan: tuple[tuple[Index, int], ...] | None = None
    settled: bool = False


class Added(Event, frozen=True, tag="n"):
    """Prompts joined, behind those there were. `ids` None: their positions. `features`: a row each, if there are any.

    `candidates`: they themselves, where there are factors. `key`, here and in the events that follow: the name of the
    request, so that one that is sent again is known.
    """

    ids: tuple[str, ...] | None
    texts: tuple[str, ...]
    features: tuple[tuple[Score, ...], ...] | None = None
    key: str | None = None
    candidates: Candidates | None = None


class Retired(Event, frozen=True, tag="q"):
    """Somebody took an arm out."""

    arm: Index
    reason: str
    key: str | None = None


class Extended(Event, frozen=True, tag="e"):
    """So much more may be spent, and so many more examples are there, behind those there were; `ids` are theirs."""

    evaluations: Index = 0
    cost: Cost = 0.0
    examples: Index = 0
    key: str | None = None
    ids: tuple[str, ...] | None = None


class Remarked(Event, frozen=True, tag="c"):
    """What a result has to say of its scores. `doubtful`: nothing is certain then. The last one on a topic counts."""

    topic: str
    text: str
    doubtful: bool = False


Growth: TypeAlias = Added | Retired | Extended
AnyEvent: TypeAlias = Asked | Told | Released | Failed | Observed | Decided | Growth | Remarked


class Failure(NamedTuple):
    """A failed evaluation and its reason."""

    trial: Index
    arm: Index
    example: Index | None
    reason: str
