"""Events: one definition of each for memory, for a study's log and for a saved selector.

A decision is an event too: it is recorded when it is made, and never recomputed.

In JSON an event is a list: its tag (the letter in the definition), then its fields in
order. Fields with a default may be missing at the end, so a file stays readable when a
later version adds a field. The annotations bound each field by itself.
`asktell.state.fold.check` checks bounds that depend on the problem, such as the number
of arms, before an event is applied.
"""

import sys
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from jaxtyping import Float
from msgspec import Meta

from asktell.numerics.arrays import Floats
from asktell.problem.candidates import Candidates
from asktell.problem.checks import LARGEST

Index: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
"""The index of a trial, an arm, an example or a round, or a number of them."""
Score: TypeAlias = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Cost: TypeAlias = Annotated[float, Meta(ge=0.0, le=LARGEST)]
Estimate: TypeAlias = Annotated[
    float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)
]
"""Any finite number."""

# The status of a prompt:
ACTIVE: Final = "active"  # it may still be selected
ACCEPTED: Final = "accepted"  # it was selected
REJECTED: Final = "rejected"  # it was not selected
# It failed too often, or on every example, and no longer competes
FAILED: Final = "failed"
RETIRED: Final = "retired"  # the user retired it, and it no longer competes


class Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base of all events of a selection, and of the lease entries in the log of a study."""


class Asked(Event, frozen=True, tag="a"):
    """An evaluation was assigned to a worker. `example` is None without examples."""

    trial: Index
    arm: Index
    example: Index | None = None


class Told(Event, frozen=True, tag="t"):
    """The scores of a trial, in the order of the goal's metrics and in metric units.

    `proxies` are the scores of the problem's proxies on the same response, None for a
    missing score. Empty if there are none.
    """

    trial: Index
    scores: tuple[Score, ...]
    cost: Cost | None = None
    proxies: tuple[Score | None, ...] = ()


class Released(Event, frozen=True, tag="r"):
    """A trial was returned without evaluation. It will be assigned again with the same id."""

    trial: Index


class Failed(Event, frozen=True, tag="f"):
    """An evaluation failed. Unless failures count as scores, the next example of the arm replaces it in a round."""

    trial: Index
    reason: str
    cost: Cost | None = None


class Observed(Event, frozen=True, tag="o"):
    """Scores from elsewhere, outside the budget of evaluations.

    `scores` is None if only a cost or scores of proxies are recorded. `cost` is the
    amount paid, None if it is not recorded. `proxies` is as for `Told`.
    """

    arm: Index
    example: Index | None
    scores: tuple[Score, ...] | None
    cost: Cost | None = None
    proxies: tuple[Score | None, ...] = ()


class Pull(NamedTuple):
    """A planned or pending evaluation. `trial` is None until the evaluation is assigned for the first time."""

    trial: Index | None
    arm: Index
    example: Index | None


class Departure(NamedTuple):
    """An arm is accepted or eliminated, with its estimate at that moment (empty if there is none)."""

    arm: Index
    status: Literal["accepted", "rejected", "failed", "retired"]
    reason: str
    means: tuple[Estimate, ...] = ()
    standard_errors: tuple[Estimate | None, ...] = ()

    @classmethod
    def of(
        cls,
        arm: int,
        is_accepted: bool,
        reason: str,
        estimate: tuple[Float[Floats, " columns"], Float[Floats, " columns"]] | None,
    ) -> "Departure":
        """An accepted or rejected arm. `estimate` is the (m,) means and the (m,) standard errors, NaN if unknown."""
        status: Literal["accepted", "rejected"] = ACCEPTED if is_accepted else REJECTED
        if estimate is None:
            return cls(arm, status, reason)
        errors = tuple(None if np.isnan(x) else float(x) for x in estimate[1])
        return cls(arm, status, reason, tuple(estimate[0].tolist()), errors)


class Decided(Event, frozen=True, tag="d"):
    """A decision: the arms that depart, and the evaluations that come next.

    - `round`: the number of earlier decisions.
    - `departures`: the arms that are accepted or eliminated, with reasons.
    - `pulls`: the number of evaluations of each arm that stays, in ascending order of
      arms. One number if all arms have the same.
    - `plan`: instead of `pulls`, the evaluations themselves as pairs of arm and example
      (-1 for none), in the order of asking.
    - `finished`: True for the last decision. It has no evaluations, but an answer, and
      a departure for each remaining arm.
    - `answer`: the selected arms, best first.
    - `settled`: True if the selection ended before the budget, because it reached the
      required confidence.
    """

    round: Index
    departures: tuple[Departure, ...] = ()
    pulls: Index | tuple[Index, ...] = 0
    finished: bool = False
    answer: tuple[Index, ...] = ()
    plan: tuple[tuple[Index, int], ...] | None = None
    settled: bool = False


class Added(Event, frozen=True, tag="n"):
    """Prompts were added after the existing prompts.

    - `ids`: None if prompts are identified by their positions.
    - `key`: the idempotency key of the request, here and in the events that follow. A
      repeated request has this key.
    - `candidates`: the added candidates, if candidates have factors.
    """

    ids: tuple[str, ...] | None
    texts: tuple[str, ...]
    key: str | None = None
    candidates: Candidates | None = None


class Retired(Event, frozen=True, tag="q"):
    """The user retired an arm."""

    arm: Index
    reason: str
    key: str | None = None


class Extended(Event, frozen=True, tag="e"):
    """The budget or the examples were extended by these amounts. `ids` are the ids of the new examples."""

    evaluations: Index = 0
    cost: Cost = 0.0
    examples: Index = 0
    key: str | None = None
    ids: tuple[str, ...] | None = None


class Remarked(Event, frozen=True, tag="c"):
    """A note about the scores for results. A later remark on the same topic replaces an earlier one.

    If it is `doubtful`, no claim about the scores is certain.
    """

    topic: str
    text: str
    doubtful: bool = False


Growth: TypeAlias = Added | Retired | Extended
AnyEvent: TypeAlias = (
    Asked | Told | Released | Failed | Observed | Decided | Growth | Remarked
)
