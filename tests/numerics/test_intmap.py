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
