"""An immutable mapping from whole numbers, such as ids of trials, whose changed copies share most of their data."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from operator import itemgetter
from typing import Generic, Self, TypeVar

_V = TypeVar("_V")

# A changed copy copies one block of at most 2^8 entries and the list of blocks, of
# which 100,000 entries need 400: that is a few microseconds.
_BITS = 8
_KEY = itemgetter(0)


class IntMap(Generic[_V]):
    """A mapping from non-negative whole numbers that is never changed: `set` and `delete` return changed copies.

    States share it while thousands of trials are out, so that a copy must not cost more
    the more there are. Iteration is in ascending order of the keys, whatever order they
    came in: sums over the values then have the same rounding on every machine that
    reads the same log.
    """

    __slots__ = ("_blocks", "_groups", "_length")

    def __init__(self, items: Mapping[int, _V] | None = None) -> None:
        # By the number of the block. No block is empty, so that equality is easy.
        blocks: dict[int, dict[int, _V]] = {}
        for key, value in (items or {}).items():
            blocks.setdefault(key >> _BITS, {})[key] = value
        self._blocks = blocks
        self._length = sum(len(block) for block in blocks.values())
        # By the number of a block: the block, and its keys by group. See `of_group`
        self._groups: dict[int, tuple[dict[int, _V], dict[Hashable, list[int]]]] = {}

    def __len__(self) -> int:
        return self._length

    def __contains__(self, key: int) -> bool:
        block = self._blocks.get(key >> _BITS)
        return block is not None and key in block

    def __getitem__(self, key: int) -> _V:
        return self._blocks[key >> _BITS][key]

    def get(self, key: int) -> _V | None:
        """The value of a key, None if there is none."""
        block = self._blocks.get(key >> _BITS)
        return None if block is None else block.get(key)

    def __iter__(self) -> Iterator[int]:
        return iter([key for key, _ in self.items()])

    def items(self) -> list[tuple[int, _V]]:
        """The keys, ascending, with their values."""
        blocks = self._blocks
        return [
            item
            for number in sorted(blocks)
            for item in sorted(blocks[number].items(), key=_KEY)
        ]

    def values(self) -> list[_V]:
        """The values, by ascending key."""
        return [value for _, value in self.items()]

    def blocks(self) -> list[tuple[int, Mapping[int, _V]]]:
        """The blocks with their numbers, ascending. The same block in two copies is one object."""
        return sorted(self._blocks.items(), key=_KEY)

    @staticmethod
    def block_of(key: int) -> int:
        """The number of the block that a key belongs to."""
        return key >> _BITS

    def of_group(
        self, group: Hashable, group_of: Callable[[_V], Hashable]
    ) -> Iterator[int]:
        """The keys, ascending, whose values belong to a group. `group_of` must always be the same function.

        All copies share the groups of their blocks, so that a search reads only the
        blocks that changed since an earlier search.
        """
        for number, block in self.blocks():
            grouped = self._groups.get(number)
            if grouped is None or grouped[0] is not block:
                groups: dict[Hashable, list[int]] = {}
                for key in sorted(block):
                    groups.setdefault(group_of(block[key]), []).append(key)
                grouped = self._groups[number] = self._blocks[number], groups
            yield from grouped[1].get(group, ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntMap) and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IntMap({dict(self.items())!r})"

    def set(self, key: int, value: _V) -> Self:
        """A copy in which `key` has the value."""
        number = key >> _BITS
        blocks = self._blocks.copy()
        block = blocks.get(number, {})
        blocks[number] = {**block, key: value}
        changed = self.__new__(type(self))
        changed._blocks, changed._length = blocks, self._length + (key not in block)
        changed._groups = self._groups
        return changed

    def delete(self, key: int) -> Self:
        """A copy without `key`, which must be there (KeyError)."""
        number = key >> _BITS
        blocks = self._blocks.copy()
        blocks[number] = block = blocks[number].copy()
        del block[key]
        if not block:
            del blocks[number]
            self._groups.pop(number, None)  # keys of trials only grow
        changed = self.__new__(type(self))
        changed._blocks, changed._length = blocks, self._length - 1
        changed._groups = self._groups
        return changed

    def update(self, items: Mapping[int, _V]) -> Self:
        """A copy in which the keys of `items` have its values. Copies each block once."""
        blocks, length = self._blocks.copy(), self._length
        copied: set[int] = set()
        for key, value in items.items():
            number = key >> _BITS
            if number not in copied:
                copied.add(number)
                blocks[number] = blocks.get(number, {}).copy()
            length += key not in blocks[number]
            blocks[number][key] = value
        changed = self.__new__(type(self))
        changed._blocks, changed._length = blocks, length
        changed._groups = self._groups
        return changed
