import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.numerics.intmap import IntMap

KEYS = st.integers(0, 2000)  # several blocks
STEPS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers())), max_size=60)


@given(STEPS)
def test_it_is_a_dict_whose_earlier_versions_stay(
    steps: list[tuple[int, int | None]],
) -> None:
    found, expected = IntMap[int](), dict[int, int]()
    versions = [(found, expected)]
    for key, value in steps:
        expected = expected.copy()
        if value is not None:
            found, expected[key] = found.set(key, value), value
        elif key in expected:
            found = found.delete(key)
            del expected[key]
        versions.append((found, expected))
    for found, expected in versions:
        assert found.items() == sorted(expected.items())
        assert list(found) == sorted(expected)
        assert len(found) == len(expected)
        assert bool(found) == bool(expected)
        assert all(
            key in found and found[key] == found.get(key) == value
            for key, value in expected.items()
        )
        assert found == IntMap(expected) == pickle.loads(pickle.dumps(found))


@given(st.dictionaries(KEYS, st.integers(0, 3)), st.dictionaries(KEYS, st.integers()))
def test_an_update_is_many_sets(before: dict[int, int], items: dict[int, int]) -> None:
    found = expected = IntMap(before)
    for key, value in items.items():
        expected = expected.set(key, value)
    assert found.update(items) == expected
    assert len(found.update(items)) == len(expected)
    assert found == IntMap(before)


@given(STEPS)
def test_groups_follow_every_change(steps: list[tuple[int, int | None]]) -> None:
    found = IntMap[int]()
    for key, value in steps:
        if value is not None:
            found = found.set(key, value)
        elif key in found:
            found = found.delete(key)
        for group in (0, 1):
            expected = [key for key, value in found.items() if _parity(value) == group]
            assert list(found.of_group(group, _parity)) == expected


def _parity(value: int) -> int:
    return value % 2


def test_a_search_for_a_group_reads_only_blocks_that_changed() -> None:
    read: list[int] = []

    def group_of(value: int) -> int:
        read.append(value)
        return value

    many = IntMap(dict.fromkeys(range(100_000), 0)).set(99_999, 1)
    assert list(many.of_group(1, group_of)) == [99_999]
    read.clear()
    changed = many.delete(5).set(70_000, 1)
    assert list(changed.of_group(1, group_of)) == [70_000, 99_999]
    assert len(read) < 2 * 256
    for key in range(256):
        changed = changed.delete(key) if key in changed else changed
    assert 0 not in changed._groups  # so that memory follows the entries


def test_keys_that_are_missing() -> None:
    map_ = IntMap({3: "a"})
    assert map_.get(4) is None
    assert map_.get(4000) is None
    for key in (4, 4000):
        with pytest.raises(KeyError):
            map_[key]
        with pytest.raises(KeyError):
            map_.delete(key)
    assert map_ != IntMap({3: "b"})
    assert map_ != {3: "a"}


def test_a_change_copies_few_entries_however_many_there_are() -> None:
    many = IntMap(dict.fromkeys(range(100_000), 0))
    changed = many.set(5, 1)
    copied = [
        number
        for number, block in changed._blocks.items()
        if block is not many._blocks[number]
    ]
    assert copied == [0]
    assert len(changed._blocks[0]) == 256
