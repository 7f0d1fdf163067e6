"""Which examples come next."""

import numpy as np
import pytest

from asktell.posterior.design import next_examples

NONE = np.zeros(0, dtype=np.int64)


def fill(n_arms: int, n_examples: int, pulls: int, share: float) -> np.ndarray:
    order = np.random.default_rng(0).permutation(n_examples)
    arms, examples = NONE, NONE
    for _ in range(pulls):
        more, on = next_examples(np.arange(n_arms), arms, examples, order, share)
        arms, examples = np.concatenate((arms, more)), np.concatenate((examples, on))
    table = np.zeros((n_arms, n_examples), dtype=int)
    np.add.at(table, (arms, examples), 1)
    return table


@pytest.mark.parametrize("share", [1.0, 4.0, 10.0])
def test_every_example_is_used_by_about_so_many_prompts(share: float) -> None:
    table = fill(20, 500, 3, share)
    assert table.max() == 1
    assert (table.sum(axis=1) == 3).all()
    uses = table.sum(axis=0)
    assert uses[uses > 0].mean() == pytest.approx(share, rel=0.2)
    assert uses.max() <= share + 1


def test_sharing_fully_gives_every_prompt_the_same_examples() -> None:
    table = fill(20, 500, 3, 20.0)
    assert sorted(table.sum(axis=0))[-3:] == [20] * 3
    assert table.sum() == 60


def test_a_prompt_never_sees_an_example_twice_and_stops_when_it_has_seen_all() -> None:
    table = fill(4, 5, 7, 2.0)
    assert (table == 1).all()
    order = np.arange(5)
    arms, examples = np.nonzero(table)
    assert not len(next_examples(np.arange(4), arms, examples, order, 2.0)[0])


def test_a_prompt_beyond_the_pool_goes_on() -> None:
    arms, examples = np.zeros(6, dtype=np.int64), np.arange(6)
    more, on = next_examples(np.array([0, 1]), arms, examples, np.arange(10), 100.0)
    assert more.tolist() == [0, 1]
    assert on.tolist() == [6, 0]
