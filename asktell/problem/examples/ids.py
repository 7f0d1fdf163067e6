"""The ids of examples, and the differences between two lists of them."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import MOST_EXAMPLES, as_integer, plain, whole
from asktell.problem.words import nearest, short, some

_SHOWN = 5


@final
class ExampleIds(tuple[str, ...]):
    """The ids of a selection's N examples, by position. They identify an example in every process and every study."""

    _positions: dict[str, int]

    def __new__(cls, ids: Sequence[str]) -> "ExampleIds":
        """The same ids, checked: texts that are distinct and not empty."""
        if isinstance(ids, str | bytes):
            raise InvalidArgumentError(
                f"The ids of examples must be a list of texts, got a single text, {short(ids)}."
            )
        checked = super().__new__(cls, [plain(id_) for id_ in ids])
        for position, id_ in enumerate(checked):
            if not isinstance(id_, str) or not id_:
                raise InvalidArgumentError(
                    f"examples must be a number or a list of ids, which are texts that are not empty. The id at "
                    f"position {position} is {short(id_)}. Pass len(dataset), or [str(id), ...]."
                )
        if not 1 <= len(checked) <= MOST_EXAMPLES:
            raise InvalidArgumentError(
                f"examples must be 1 to {MOST_EXAMPLES:,} ids, got {len(checked):,}."
            )
        last = {id_: position for position, id_ in enumerate(checked)}
        checked._positions = last
        if len(last) < len(checked):
            again = [i for i, id_ in enumerate(checked) if last[id_] != i]
            listed = "; ".join(
                f"{short(checked[i])} at the positions {i} and {last[checked[i]]}"
                for i in again[:_SHOWN]
            )
            raise InvalidArgumentError(
                f"The ids of examples must be distinct, but some occur more than once: {listed}. Give each example its "
                "own id."
            )
        return checked

    def with_more(self, ids: Sequence[str]) -> "ExampleIds":
        """The ids, followed by more ids."""
        return ExampleIds((*self, *ExampleIds(ids)))

    def position(self, id_: str) -> int:
        """The position of the example with an id."""
        position = self._positions.get(id_)
        if position is None:
            raise InvalidArgumentError(
                f"There is no example {short(id_)}{nearest(id_, self)}. Name an example by its position, or by its "
                f"id: {some(self)}."
            )
        return position


def numbered(examples: object) -> tuple[int | None, ExampleIds | None]:
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
        ids = ExampleIds(examples)
        return len(ids), ids
    if as_integer(examples) is None:
        raise InvalidArgumentError(
            f"examples must be a number, or a list of distinct ids (texts), got {short(examples)}."
            + (" Put a single id into a list." if isinstance(examples, str) else "")
        )
    return whole("examples", examples, 1, MOST_EXAMPLES), None


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
    stays = set[int]()
    place = places[-1] if places else -1
    while place >= 0:
        stays.add(place)
        place = previous[place]
    return stays
