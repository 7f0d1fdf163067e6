"""The events of a selection. `apply` computes the state from them.

The same events are used in memory and in a study's log. A saved selector has the state
instead (`saved.py`). A decision is an event, too: it is recorded when it is made, and
never computed again. An *arm* is
the position of a prompt, from 0. The *example* of an event is the position of an
example, from 0.

In JSON, an event is a list: its tag (a letter), then its fields in order. Fields with a
default may be missing at the end. So a file stays readable when a later version adds a
field.
"""

import sys
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.problem.candidates import Candidates
from asktell.problem.checks import LARGEST

# The annotations bound each field by itself. `asktell.record.fold.check` checks bounds
# that depend on the problem, such as the number of arms, before an event is applied.

# The index of a trial, an arm, an example or a round, or a number of them
Index: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Score: TypeAlias = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Cost: TypeAlias = Annotated[float, Meta(ge=0.0, le=LARGEST)]
# Any finite number
Estimate: TypeAlias = Annotated[
    float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)
]


class Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base class of all events of a selection, and of the entries about leases in the log of a study."""


class Asked(Event, frozen=True, tag="a"):
    """An evaluation was assigned to a worker.

    Attributes:
        trial: the id of the trial.
        arm: the position of the prompt.
        example: the position of the example. None without examples.
    """

    trial: Index
    arm: Index
    example: Index | None = None


class Told(Event, frozen=True, tag="t"):
    """The scores of a trial were recorded.

    Attributes:
        trial: the id of the trial.
        scores: the scores in the order of `goal.columns`, in the units of the metrics.
        cost: the cost. None if none was recorded.
        proxies: the scores of the proxies on the same response, in their order. None
            stands for a missing score. Empty without proxies.
    """

    trial: Index
    scores: tuple[Score, ...]
    cost: Cost | None = None
    proxies: tuple[Score | None, ...] = ()


class Released(Event, frozen=True, tag="r"):
    """A trial was released without an evaluation. It will be assigned again with the same id.

    Attributes:
        trial: the id of the trial.
    """

    trial: Index


class Failed(Event, frozen=True, tag="f"):
    """An evaluation failed.

    If the last decision asked for a number of evaluations (`Decided.pulls`), an
    evaluation on the arm's next example replaces it, unless failures count as scores.

    Attributes:
        trial: the id of the trial.
        reason: the reason of the failure.
        cost: the cost. None if none was recorded.
    """

    trial: Index
    reason: str
    cost: Cost | None = None


class Observed(Event, frozen=True, tag="o"):
    """Scores that the selection had not asked for were recorded. They do not count as evaluations of the budget.

    Attributes:
        arm: the position of the prompt.
        example: the position of the example. None if the scores belong to no example.
        scores: as for `Told`. None if only a cost or scores of proxies are recorded.
        cost: the cost. None if none was recorded.
        proxies: as for `Told`.
    """

    arm: Index
    example: Index | None
    scores: tuple[Score, ...] | None
    cost: Cost | None = None
    proxies: tuple[Score | None, ...] = ()


class Pull(NamedTuple):
    """A planned or pending evaluation.

    Attributes:
        trial: the id of the trial. None until the evaluation is assigned for the first
            time.
        arm: the position of the prompt.
        example: the position of the example. None without examples.
    """

    trial: Index | None
    arm: Index
    example: Index | None


class Departure(NamedTuple):
    """The part of a decision that accepts or eliminates one arm.

    Attributes:
        arm: the position of the prompt.
        status: "accepted" (selected), "rejected" (eliminated, or not selected at the
            end), "undecided" (compared with the incumbent of a `Referee`, without a
            decision), "failed" (too many evaluations failed, or it has no score) or
            "retired" (by the user).
        reason: the reason, as text for the result.
        means: the arm's estimates at that moment, in the order of `goal.columns`. Empty
            if there are none.
        standard_errors: the standard error of each estimate. None if it is unknown.
    """

    arm: Index
    status: Literal["accepted", "rejected", "undecided", "failed", "retired"]
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
        """Make the record of an accepted or rejected arm.

        Args:
            arm: the position of the prompt.
            is_accepted: True for the status "accepted", False for "rejected".
            reason: the reason, as text for the result.
            estimate: the arm's means and their standard errors (NaN if unknown), two
                arrays in the order of `goal.columns`. None without an estimate.
        """
        status: Literal["accepted", "rejected"] = (
            "accepted" if is_accepted else "rejected"
        )
        if estimate is None:
            return cls(arm, status, reason)
        errors = tuple(None if np.isnan(x) else float(x) for x in estimate[1])
        return cls(arm, status, reason, tuple(estimate[0].tolist()), errors)


class Decided(Event, frozen=True, tag="d"):
    """A decision of a method: the arms that it accepts or eliminates, and the evaluations that come next.

    A decision has either `pulls` or a `plan`. The last decision has neither. It has the
    selected arms as its `answer`, and a departure for each arm that was still active.
    Only a baseline that is not selected has no departure, and candidates that the
    budget of a `Referee` did not reach.

    Attributes:
        round: the number of earlier decisions.
        departures: the arms that are accepted or eliminated, with reasons.
        pulls: the number of evaluations of each arm that stays active, in ascending
            order of arms. A single number if it is the same for all arms.
        finished: True for the last decision.
        answer: the selected arms, best first. Before the last decision, the incumbent
            after the decision if the method has an incumbent (`Referee`), and empty
            otherwise.
        plan: the evaluations themselves, in the order in which to assign them. Each is
            a pair of arm and example, or of arm and -1 without examples.
        settled: True if the selection ended before its budget was spent, because it had
            reached the required confidence.
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

    Attributes:
        ids: the ids of the prompts. None if prompts are identified by their positions.
        texts: the texts of the prompts.
        key: the idempotency key of the request. A request with the same key changes
            nothing.
        candidates: the added candidates, if candidates have factors. None otherwise.
    """

    ids: tuple[str, ...] | None
    texts: tuple[str, ...]
    key: str | None = None
    candidates: Candidates | None = None


class Retired(Event, frozen=True, tag="q"):
    """The user retired a prompt.

    Attributes:
        arm: the position of the prompt.
        reason: the reason that the user gave.
        key: as for `Added`.
    """

    arm: Index
    reason: str
    key: str | None = None


class Extended(Event, frozen=True, tag="e"):
    """The budget or the examples were extended.

    Attributes:
        evaluations: the number of additional evaluations.
        cost: the additional cost.
        examples: the number of additional examples.
        key: as for `Added`.
        ids: the ids of the additional examples. None if the examples have no ids.
    """

    evaluations: Index = 0
    cost: Cost = 0.0
    examples: Index = 0
    key: str | None = None
    ids: tuple[str, ...] | None = None


class Remarked(Event, frozen=True, tag="c"):
    """A note about the scores was added. Results show this note.

    Attributes:
        topic: a later remark on the same topic replaces this remark.
        text: the note.
        doubtful: True if the scores are not reliable. Then results have no
            probabilities, and nothing can be established.
    """

    topic: str
    text: str
    doubtful: bool = False


Growth: TypeAlias = Added | Retired | Extended
AnyEvent: TypeAlias = (
    Asked | Told | Released | Failed | Observed | Decided | Growth | Remarked
)
