"""Evaluations that wait to be assigned again: a first-in-first-out queue that is an immutable value."""

from collections.abc import Callable, Iterable, Iterator

from asktell.numerics.intmap import IntMap
from asktell.record.events import Pull


class Queue:
    """Evaluations in the order in which they were returned. Every step except iteration and filtering is O(log n).

    Thousands of leases may expire at once. So adding an evaluation, taking the first
    one, and removing a trial whose scores came late must all be fast for a long queue.
    """

    __slots__ = ("_end", "_first", "_places", "_pulls", "is_empty")

    def __init__(self, pulls: Iterable[Pull] = ()) -> None:
        numbered = dict(enumerate(pulls))
        self._pulls: IntMap[Pull] = IntMap(numbered)
        self._places: IntMap[int] = IntMap(
            {p.trial: i for i, p in numbered.items() if p.trial is not None}
        )
        self._first, self._end = 0, len(numbered)
        self.is_empty = not numbered

    def __len__(self) -> int:
        return len(self._pulls)

    def __iter__(self) -> Iterator[Pull]:
        return iter(list(self._pulls.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queue) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Queue({list(self)!r})"

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
        return self._with(
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
        kept = [pull for pull in self if keep(pull)]
        return self if len(kept) == len(self) else Queue(kept)

    def _without(self, place: int) -> "Queue":
        """The queue without the evaluation at a place."""
        trial = self._pulls[place].trial
        pulls, first = self._pulls.delete(place), self._first
        # Skip places in the middle that were removed earlier.
        while first < self._end and first not in pulls:
            first += 1
        places = self._places if trial is None else self._places.delete(trial)
        return self._with(pulls, places, first, self._end)

    @staticmethod
    def _with(
        pulls: IntMap[Pull], places: IntMap[int], first: int, end: int
    ) -> "Queue":
        """A queue of these parts, which are not checked."""
        queue = Queue.__new__(Queue)
        queue._pulls, queue._places, queue._first, queue._end = (
            pulls,
            places,
            first,
            end,
        )
        queue.is_empty = not pulls
        return queue
