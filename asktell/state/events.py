"""Events as plain data. A decision is an event too: recorded when it is made, and never recomputed."""

from typing import NamedTuple, TypeAlias

import numpy as np

from asktell.numerics.arrays import Vector
from asktell.problem.candidates import Candidates

# What a prompt is or became:
ACTIVE = "active"  # still in question
ACCEPTED = "accepted"  # it left as one of the answer
REJECTED = "rejected"  # it left as no part of the answer
FAILED = "failed"  # it failed too often, or on every example, and is no rival any more
RETIRED = "retired"  # it was taken out, and is no rival any more


class Asked(NamedTuple):
    """A pull was handed out."""

    trial: int
    arm: int
    example: int | None


class Told(NamedTuple):
    """Scores of a trial, in the goal's order and metric units."""

    trial: int
    scores: tuple[float, ...]
    cost: float | None = None


class Released(NamedTuple):
    """A trial was handed back unevaluated; it will be asked again under the same id."""

    trial: int


class Failed(NamedTuple):
    """An evaluation failed; unless it counts as scores, its arm's next example takes its place in a round."""

    trial: int
    reason: str
    cost: float | None = None


class Observed(NamedTuple):
    """Scores from elsewhere, or none; they are no evaluation of the budget. `cost`: what was paid, if it is booked."""

    arm: int
    example: int | None
    scores: tuple[float, ...] | None
    cost: float | None = None


class Pull(NamedTuple):
    """An evaluation that was planned or is pending: `trial` None until it is asked for the first time."""

    trial: int | None
    arm: int
    example: int | None


class Departure(NamedTuple):
    """An arm leaves the race, with its estimate at that moment (empty where there is none)."""

    arm: int
    status: str
    reason: str
    means: tuple[float, ...] = ()
    standard_errors: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, arm: int, is_accepted: bool, reason: str, estimate: tuple[Vector, Vector] | None) -> "Departure":
        """As accepted or rejected; of the estimate's (m,) means and errors, NaN is an unknown error."""
        status = ACCEPTED if is_accepted else REJECTED
        if estimate is None:
            return cls(arm, status, reason)
        errors = tuple(None if np.isnan(x) else float(x) for x in estimate[1])
        return cls(arm, status, reason, tuple(estimate[0].tolist()), errors)


class Decided(NamedTuple):
    """The end of a round: who leaves and why, and the pulls of the next round.

    `pulls`: per arm that stays, ascending; one number if all have the same. `plan`: the very pulls instead, as pairs
    of arm and example (-1 for none), in the order of asking. `finished` decisions have neither but an `answer`, best
    first, and a departure for every arm that was left. `settled`: it ended before the budget, because the answer was
    certain enough.
    """

    round: int
    departures: tuple[Departure, ...] = ()
    pulls: int | tuple[int, ...] = 0
    finished: bool = False
    answer: tuple[int, ...] = ()
    plan: tuple[tuple[int, int], ...] | None = None
    settled: bool = False


class Added(NamedTuple):
    """Prompts joined, behind those there were. `ids` None: their positions. `features`: a row each, if there are any.

    `candidates`: they themselves, where there are factors. `key`, here and in the events that follow: the name of the
    request, so that one that is sent again is known.
    """

    ids: tuple[str, ...] | None
    texts: tuple[str, ...]
    features: tuple[tuple[float, ...], ...] | None = None
    key: str | None = None
    candidates: Candidates | None = None


class Retired(NamedTuple):
    """Somebody took an arm out."""

    arm: int
    reason: str
    key: str | None = None


class Extended(NamedTuple):
    """So much more may be spent, and so many more examples are there, behind those there were; `ids` are theirs."""

    evaluations: int = 0
    cost: float = 0.0
    examples: int = 0
    key: str | None = None
    ids: tuple[str, ...] | None = None


class Remarked(NamedTuple):
    """What a result has to say of its scores. `doubtful`: nothing is certain then. The last one on a topic counts."""

    topic: str
    text: str
    doubtful: bool = False


Growth: TypeAlias = Added | Retired | Extended
Event: TypeAlias = Asked | Told | Released | Failed | Observed | Decided | Growth | Remarked


class Failure(NamedTuple):
    """A failed evaluation and its reason."""

    trial: int
    arm: int
    example: int | None
    reason: str
