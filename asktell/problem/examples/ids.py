"""The examples of a selection, by position and by id."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import MOST_EXAMPLES, as_integer, plain, whole
from asktell.problem.words import nearest, short, some

_SHOWN = 5


@final
class Examples:
    """The ids of a selection's N examples, by position. They identify an example in every process and every study."""

    def __init__(self, ids: Sequence[str]) -> None:
        if isinstance(ids, str | bytes):
            raise InvalidArgumentError(
                f"The ids of examples must be a list of texts, got a single text, {short(ids)}."
            )
        self.ids = tuple([plain(id_) for id_ in ids])
        for position, id_ in enumerate(self.ids):
            if not isinstance(id_, str) or not id_:
                raise InvalidArgumentError(
                    f"examples must be a number or a list of ids, which are texts that are not empty. The id at "
                    f"position {position} is {short(id_)}. Pass len(dataset), or [str(id), ...]."
                )
        if not 1 <= len(self.ids) <= MOST_EXAMPLES:
            raise InvalidArgumentError(
                f"examples must be 1 to {MOST_EXAMPLES:,} ids, got {len(self.ids):,}."
            )
        self._positions = {id_: position for position, id_ in enumerate(self.ids)}
        if len(self._positions) < len(self.ids):
            again = [i for i, id_ in enumerate(self.ids) if self._positions[id_] != i]
            last = self._positions
            listed = "; ".join(
                f"{short(self.ids[i])} at the positions {i} and {last[self.ids[i]]}"
                for i in again[:_SHOWN]
            )
            raise InvalidArgumentError(
                f"The ids of examples must be distinct, but some occur more than once: {listed}. Give each example its "
                "own id."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def with_more(self, ids: Sequence[str]) -> "Examples":
        """The examples, followed by more examples."""
        return Examples((*self.ids, *Examples(ids).ids))

    def position(self, id_: str) -> int:
        """The position of the example with an id."""
        found = self._positions.get(id_)
        if found is None:
            raise InvalidArgumentError(
                f"There is no example {short(id_)}{nearest(id_, self.ids)}. Name an example by its position, or by its "
                f"id: {some(self.ids)}."
            )
        return found


def numbered(examples: object) -> tuple[int | None, Examples | None]:
    """Return the number of examples and their ids, from a number, a list of ids, or None."""
    if examples is None:
        return None, None
    # An array of numpy, or a column of a data frame.
    if (
        callable(getattr(examples, "tolist", None))
        and getattr(examples, "ndim", 0) == 1
    ):
        examples = examples.tolist()  # type: ignore[attr-defined]
    if isinstance(examples, Sequence) and not isinstance(examples, str | bytes):
        ids = Examples(examples)
        return len(ids), ids
    if as_integer(examples) is None:
        raise InvalidArgumentError(
            f"examples must be a number, or a list of distinct ids (texts), got {short(examples)}."
            + (" Put a single id into a list." if isinstance(examples, str) else "")
        )
    return whole("examples", examples, 1, MOST_EXAMPLES), None


def check_examples(
    what: str, n: int | None, ids: Examples | None, given: object
) -> None:
    """Check that `given` examples are the `n` examples of a selection, with its `ids` if it has ids. None fits any."""
    if given is None:
        return
    n_given, given_ids = numbered(given)
    if ids is not None and given_ids is not None:
        changed = str(changes(ids.ids, given_ids.ids))
    else:
        changed = "" if n == n_given else f"{n or 0:,} then, {n_given:,} now"
    if changed:
        raise InvalidArgumentError(
            f"{what} was made with other examples. Compared with those, your examples have these changes: {changed}. "
            f"Pass the same examples in the same order.{_how_to_add(n, ids, n_given, given_ids)}"
        )


def _how_to_add(
    n: int | None, ids: Examples | None, n_given: int | None, given_ids: Examples | None
) -> str:
    """Return a sentence on how to add the given examples, if they are the existing ones and more."""
    if n is None or n_given is None or n_given <= n:
        return ""
    more: int | list[str] = n_given - n
    if ids is not None:
        if given_ids is None or given_ids.ids[:n] != ids.ids:
            return ""
        more = list(given_ids.ids[n:])
    return f" To add the new ones, call extend(examples={short(more)}) first, if the method allows it."


class Changes(NamedTuple):
    """The ids of the examples that differ between two lists.

    Attributes:
        edited: examples with the same id and another content. `changes` compares only
            ids, so it leaves this empty.
        moved: examples in another order.
        added: examples that only the later list has.
        missing: examples that only the earlier list has.
    """

    edited: Sequence[str] = ()
    moved: Sequence[str] = ()
    added: Sequence[str] = ()
    missing: Sequence[str] = ()

    def __bool__(self) -> bool:
        return any(self[:])

    def __str__(self) -> str:
        return self.in_words(short)

    def in_words(self, name: Callable[[str], str]) -> str:
        """Return the number of examples of each kind of change, and the `name` of a few of them."""
        return "; ".join(
            f"{len(ids)} {what} ({', '.join(map(name, ids[:_SHOWN]))}{', ...' if len(ids) > _SHOWN else ''})"
            for what, ids in zip(self._fields, self, strict=True)
            if ids
        )


def changes(before: Sequence[str], after: Sequence[str]) -> Changes:
    """Compare two lists of distinct ids.

    The result has the ids that were `moved`, `added` or are `missing`. As few ids as
    possible count as moved. The result is false, as a bool, if nothing differs.
    `str(result)` describes it.

        >>> from asktell.extend import changes
        >>> found = changes(["a", "b", "c"], ["c", "a", "d"])
        >>> found.moved, found.added, found.missing
        (['c'], ['d'], ['b'])
        >>> print(found)
        1 moved ('c'); 1 added ('d'); 1 missing ('b')
    """
    was = {id_: position for position, id_ in enumerate(before)}
    common = [id_ for id_ in after if id_ in was]
    stay = _longest_rising([was[id_] for id_ in common])
    remains = set(common)
    return Changes(
        moved=[id_ for place, id_ in enumerate(common) if place not in stay],
        added=[id_ for id_ in after if id_ not in was],
        missing=[id_ for id_ in before if id_ not in remains],
    )


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Return the places of a longest rising subsequence of distinct numbers (patience sorting)."""
    tops: list[int] = []
    places: list[int] = []  # the place of each top
    # For each number, the place of the top of the pile before, -1 for none
    previous: list[int] = []
    for place, number in enumerate(numbers):
        pile = bisect_left(tops, number)
        tops[pile : pile + 1] = [number]
        places[pile : pile + 1] = [place]
        previous.append(places[pile - 1] if pile else -1)
    found = set[int]()
    place = places[-1] if places else -1
    while place >= 0:
        found.add(place)
        place = previous[place]
    return found
