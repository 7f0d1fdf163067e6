"""The plan: which evaluations are assigned next, and which are in progress. An immutable value."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from asktell.numerics.arrays import Ints
from asktell.numerics.intmap import IntMap
from asktell.numerics.shapes import Int
from asktell.record.events import Pull

_ARM = attrgetter("arm")


class Queue:
    """Evaluations in the order in which they were returned: a first-in-first-out queue that is an immutable value.

    Every step except iteration and filtering is O(log n).
    Thousands of leases may expire at once. So adding an evaluation, taking the first
    one, and removing a trial whose scores came late must all be fast for a long queue.
    """

    __slots__ = ("_end", "_first", "_places", "_pulls", "is_empty")

    def __init__(
        self,
        pulls: IntMap[Pull] = IntMap(),  # noqa: B008
        places: IntMap[int] = IntMap(),  # noqa: B008
        first: int = 0,
        end: int = 0,
    ) -> None:
        # By place, and the place of each trial. Places in the middle may be empty.
        self._pulls, self._places = pulls, places
        self._first, self._end = first, end
        self.is_empty = not pulls

    @classmethod
    def of(cls, pulls: Iterable[Pull]) -> "Queue":
        """The queue of these evaluations."""
        numbered = dict(enumerate(pulls))
        places = {p.trial: i for i, p in numbered.items() if p.trial is not None}
        return cls(IntMap(numbered), IntMap(places), end=len(numbered))

    def __len__(self) -> int:
        return len(self._pulls)

    def __iter__(self) -> Iterator[Pull]:
        return iter(self._pulls.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queue) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def front(self) -> Pull:
        """The first evaluation. The queue must not be empty."""
        return self._pulls[self._first]

    def find(self, trial: int) -> Pull | None:
        """The evaluation of a trial. None if the trial is not in the queue."""
        place = self._places.get(trial)
        return None if place is None else self._pulls[place]

    def append(self, pull: Pull) -> "Queue":
        """The queue with one more evaluation at the end."""
        places = (
            self._places
            if pull.trial is None
            else self._places.set(pull.trial, self._end)
        )
        return Queue(
            self._pulls.set(self._end, pull), places, self._first, self._end + 1
        )

    def without_front(self) -> "Queue":
        """The queue without the first evaluation."""
        return self._without(self._first)

    def without(self, trial: int) -> "Queue":
        """The queue without a trial, which must be in the queue."""
        return self._without(self._places[trial])

    def where(self, keep: Callable[[Pull], bool]) -> "Queue":
        """The queue of only the evaluations for which `keep` returns True."""
        pulls = [pull for pull in self if keep(pull)]
        return self if len(pulls) == len(self) else Queue.of(pulls)

    def _without(self, place: int) -> "Queue":
        """The queue without the evaluation at a place."""
        trial = self._pulls[place].trial
        pulls, first = self._pulls.delete(place), self._first
        # Skip places in the middle that were removed earlier.
        while first < self._end and first not in pulls:
            first += 1
        places = self._places if trial is None else self._places.delete(trial)
        return Queue(pulls, places, first, self._end)


class Plan(NamedTuple):
    """The evaluations that come next, and those that are in progress.

    Returned evaluations are assigned first, then the rest of what the last decision
    asked for. An arm *draws* an example when an evaluation of the arm on this example
    becomes part of the plan, or replaces a failed evaluation.

    Attributes:
        draws: for each arm the number of examples that it has drawn, including the
            whole plan, but without `redraws`.
        redraws: arm -> the number of examples that it drew to replace failed
            evaluations, and that are not in `draws` yet.
        arms: the arm of each evaluation that the last decision asked for.
        examples: the example of each of these evaluations. -1 without examples.
        position: the index of the next of these evaluations.
        returned: the evaluations that were released, and those that replace failed
            evaluations.
        pending: trial -> its evaluation, for each pending trial.
        asked: the id of the next new trial.
        reserve: the expected cost of the pending trials. None: not computed yet.
    """

    draws: Int[Ints, " arms"]
    redraws: Mapping[int, int] = {}
    arms: tuple[int, ...] = ()
    examples: tuple[int, ...] = ()
    position: int = 0
    returned: Queue = Queue()
    pending: IntMap[Pull] = IntMap()
    asked: int = 0
    reserve: float | None = None

    @property
    def is_empty(self) -> bool:
        """True if every evaluation of the plan was assigned, and none was returned."""
        return self.position == len(self.arms) and self.returned.is_empty

    @property
    def in_progress(self) -> list[Pull]:
        """The evaluations of the pending trials, and the returned evaluations, which nobody works on at the moment."""
        return [*self.pending.values(), *self.returned]

    @property
    def rest(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The arms and the examples of the evaluations that were not assigned yet, without returned ones."""
        return self.arms[self.position :], self.examples[self.position :]

    def next(self) -> Pull | None:
        """The next evaluation to assign. None if a decision or a score must come first."""
        if not self.returned.is_empty:
            return self.returned.front
        if self.position < len(self.arms):
            example = self.examples[self.position]
            return Pull(
                None, self.arms[self.position], None if example < 0 else example
            )
        return None

    def open(self, trial: int) -> Pull | None:
        """The evaluation of a pending or released trial. None for any other trial."""
        return self.pending.get(trial) or self.returned.find(trial)

    def pending_of(self, arm: int) -> Iterator[int]:
        """The ids of an arm's pending trials, oldest first."""
        return self.pending.of_group(arm, _ARM)

    def drawn(self) -> Int[Ints, " arms"]:
        """For each arm the number of examples that it has drawn, for plans and to replace failed evaluations."""
        drawn = self.draws.copy()
        for arm, extra in self.redraws.items():
            drawn[arm] += extra
        return drawn

    def examples_ahead(self, arm: int) -> list[int]:
        """The examples of an arm's evaluations that were not assigned yet, without returned ones."""
        return [example for a, example in zip(*self.rest, strict=True) if a == arm]

    def assign(self, trial: int, pull: Pull, reserve: float | None) -> "Plan":
        """The plan after the next evaluation was assigned as a trial. `reserve` is that of all pending trials then."""
        is_new = self.returned.is_empty
        return Plan(
            self.draws,
            self.redraws,
            self.arms,
            self.examples,
            self.position + is_new,
            self.returned if is_new else self.returned.without_front(),
            self.pending.set(trial, pull),
            # A released trial keeps its id.
            max(self.asked, trial + 1),
            reserve,
        )

    def close(self, trial: int) -> tuple[Pull, "Plan"]:
        """The evaluation of a pending or returned trial, and the plan without the trial."""
        pending, returned = self.pending, self.returned
        pull = pending.get(trial)
        if pull is not None:
            pending = pending.delete(trial)
        else:
            pull = returned.find(trial)
            assert pull is not None, "the caller has checked the event"
            returned = returned.without(trial)
        # The reserve was for the trials that were pending until now.
        return pull, Plan(
            self.draws,
            self.redraws,
            self.arms,
            self.examples,
            self.position,
            returned,
            pending,
            self.asked,
        )

    def put_back(self, pull: Pull) -> "Plan":
        """The plan that assigns an evaluation after those that were returned before."""
        return self._replace(returned=self.returned.append(pull))

    def redraw(self, pull: Pull) -> "Plan":
        """The plan with an evaluation on a newly drawn example, which replaces a failed one."""
        redraws = {**self.redraws, pull.arm: self.redraws.get(pull.arm, 0) + 1}
        return self.put_back(pull)._replace(redraws=redraws)

    def replaced(self, cell: Pull, another: Callable[[], Pull | None]) -> "Plan":
        """The plan in which a cell that was not assigned yet gives way to another one of the same arm.

        Args:
            cell: the evaluation, without a trial.
            another: returns what is evaluated instead, or None if nothing is left. It
                is called only if the cell waits.
        """
        cells: list[Any] = list(zip(*self.rest, strict=True))
        returned = list(self.returned)
        if cell[1:] in cells:
            i, pull = cells.index(cell[1:]), another()
            cells[i : i + 1] = [] if pull is None else [(pull.arm, pull.example)]
            return self._of(cells)
        if cell in returned:
            i, pull = returned.index(cell), another()
            returned[i : i + 1] = [] if pull is None else [pull]
            return self._replace(returned=Queue.of(returned))
        return self

    def without(self, gone: Collection[int]) -> "Plan":
        """The plan without the evaluations of some arms that were not assigned yet."""
        cells = [cell for cell in zip(*self.rest, strict=True) if cell[0] not in gone]
        returned = self.returned.where(lambda pull: pull.arm not in gone)
        return self._of(cells)._replace(returned=returned)

    def of_cells(
        self, cells: Sequence[tuple[int, int]], fits: Callable[[int], bool]
    ) -> "Plan":
        """The plan of a decision that lists its cells: pairs of arm and example.

        Returned evaluations of arms that no longer fit the budget of cost are dropped.
        """
        plan = self._of(cells)
        return plan._replace(
            returned=self.returned.where(lambda pull: fits(pull.arm)),
            draws=self.draws + np.bincount(plan.arms, minlength=len(self.draws)),
        )

    def of_round(
        self,
        arms: Int[Ints, " pulls"],
        examples: Int[Ints, " pulls"],
    ) -> "Plan":
        """The plan of a decision that gives each arm a number of evaluations."""
        return self._replace(
            arms=tuple(arms.tolist()),
            examples=tuple(examples.tolist()),
            position=0,
            draws=self.drawn() + np.bincount(arms, minlength=len(self.draws)),
            redraws={},
        )

    def ended(self) -> "Plan":
        """The plan after the last decision. Pending trials stay, since their scores are paid for."""
        return self._replace(arms=(), examples=(), position=0, returned=Queue())

    def wider(self, n_more: int) -> "Plan":
        """The plan with more arms, which have drawn nothing."""
        return self._replace(
            draws=np.concatenate((self.draws, np.zeros(n_more, dtype=np.int64)))
        )

    def _of(self, cells: Sequence[tuple[int, Any]]) -> "Plan":
        """The plan with these cells instead of those that were not assigned yet, besides the returned ones."""
        arms = tuple(int(arm) for arm, _ in cells)
        examples = tuple(example for _, example in cells)
        return self._replace(arms=arms, examples=examples, position=0)
