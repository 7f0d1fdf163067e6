"""An immutable mapping from whole numbers, such as ids of trials, whose changed copies share most of their data."""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Generic, TypeVar

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

    __slots__ = ("_blocks", "_length")

    def __init__(self, items: Mapping[int, _V] | None = None) -> None:
        # By the number of the block. No block is empty, so that equality is easy.
        blocks: dict[int, dict[int, _V]] = {}
        for key, value in (items or {}).items():
            blocks.setdefault(key >> _BITS, {})[key] = value
        self._blocks = blocks
        self._length = sum(len(block) for block in blocks.values())

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntMap) and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IntMap({dict(self.items())!r})"

    def set(self, key: int, value: _V) -> "IntMap[_V]":
        """A copy in which `key` has the value."""
        number = key >> _BITS
        blocks = self._blocks.copy()
        block = blocks.get(number, {})
        blocks[number] = {**block, key: value}
        changed: IntMap[_V] = IntMap.__new__(IntMap)
        changed._blocks, changed._length = blocks, self._length + (key not in block)
        return changed

    def delete(self, key: int) -> "IntMap[_V]":
        """A copy without `key`, which must be there (KeyError)."""
        number = key >> _BITS
        blocks = self._blocks.copy()
        blocks[number] = block = blocks[number].copy()
        del block[key]
        if not block:
            del blocks[number]
        changed: IntMap[_V] = IntMap.__new__(IntMap)
        changed._blocks, changed._length = blocks, self._length - 1
        return changed
