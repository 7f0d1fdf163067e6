"""Races: the best of many is lost no more often than stated, at every look, whoever is ahead on the way."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.racing import certainly_worse

Floats = npt.NDArray[np.float64]
UNIT = (-1.0, 1.0)  # of a difference


def race(
    scores: Floats,
    error: float,
    population: int | None,
    n: int | None = None,
    **given: list[int],
) -> list[int]:
    """After how many of the first n examples each is certainly worse; all are known unless it is said."""
    scores = scores[:, :n]
    k, n = scores.shape
    known, joined = (
        np.array(given.get(name, [at] * k))
        for name, at in (("known", n), ("joined", 0))
    )
    stays = np.array(given.get("stays", [True] * k), dtype=bool)
    return certainly_worse(
        Betting(*UNIT, population), scores, known, joined, stays, error
    ).tolist()


def by_hand(scores: Floats, error: float) -> list[int]:
    """Example by example, with the one bet that is sized for up to 16 examples, each with its formula."""
    k, n = scores.shape
    found, capital, leads = [n + 1] * k, [1.0] * k, [[] for _ in range(k)]  # type: list[int], list[float], list[list]
    for t in range(n):
        left = [i for i in range(k) if found[i] > t]
        sums = scores[:, :t].sum(axis=1)
        ahead = sorted(left, key=lambda i: -sums[i] / max(t, 1))
        for i in range(k):
            rivals = [r for r in ahead if r != i]
            if not rivals or found[i] <= t:
                continue
            lead = scores[rivals[0]] - scores[i]
            m = -lead[:t].sum() / (n - t)
            y = [(x + 1) / 2 for x in leads[i]]  # differences in units of their range
            variance = (sum((v - np.mean(y)) ** 2 for v in y) + 2 * 0.05) / (len(y) + 2)
            price = (m + 1) / 2
            rate = min(
                math.sqrt(8 / (16 * variance)) * n / (n - t), 0.95 / max(price, 1e-9)
            )
            # It cannot be the best
            capital[i] *= 1 + rate * (lead[t] - m) / 2 if price > -1e-9 else math.inf
            leads[i].append(lead[t])
        for i in left:
            if capital[i] >= 1 / error:
                found[i] = t + 1
    if max(found) > n:
        means = scores.mean(axis=1)
        return [
            min(f, n) if means[i] < means.max() else n + 1 for i, f in enumerate(found)
        ]
    return found


def test_two_bets_by_hand() -> None:
    # Nobody is ahead at first, so that 1 and 2 bet on 0, and 0 on 1. The variance is
    # taken for .05: a rate of sqrt(8 / (16 * .05)), which is above the most, .95 / .5.
    # Scores of 1 and 0: 1 + 1.9 * (1 - 0) / 2 = 1.95. Then 0 is ahead by 1 of 10: the
    # others' price is (0 - 1) / 9, (1 - 1 / 9) / 2 in units of the range, a second
    # difference of 1 has moved y to 1, and the variance is .1 / 3: a rate of
    # min(sqrt(15) * 10 / 9, .95 / .444).
    scores = np.zeros((3, 10))
    scores[0] = 1.0
    second = 1.95 * (1 + 0.95 / (4 / 9) * (1 + 1 / 9) / 2)
    assert second == pytest.approx(4.265625)
    assert race(scores, 1 / 1.94, 10, 1) == [2, 1, 1]
    assert race(scores, 1 / 1.96, 10, 1) == [2, 2, 2]
    assert race(scores, 1 / 4.26, 10, 2) == [3, 2, 2]
    assert race(scores, 1 / 4.27, 10, 2) == [3, 3, 3]


@given(
    st.integers(0, 10**6),
    st.integers(2, 5),
    st.integers(1, 14),
    st.sampled_from([0.02, 0.1, 0.3, 0.6]),
)
def test_all_examples_at_once_are_one_after_the_other(
    seed: int, k: int, n: int, error: float
) -> None:
    # Means that differ by less than a rounding error may stand in either order: halves
    # and quarters have none.
    scores = np.random.default_rng(seed).integers(0, 5, (k, n)) / 4
    assert race(scores, error, n) == by_hand(scores, error)


@pytest.mark.parametrize("error", [0.15, 0.3, 0.5])
@pytest.mark.parametrize(
    "table",
    [
        [[1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1], [1, 0, 1, 0, 1, 0]],
        [[1, 1, 0, 1, 0, 0], [1, 0, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0]],
        [
            [0.2, 0.9, 0.5, 0.4, 1, 0],
            [0.6, 0.5, 0.5, 0.5, 0.4, 0.5],
            [1, 1, 1, 0, 0, 0],
        ],
    ],
)
def test_over_all_orders_the_best_is_lost_as_often_as_stated_at_most(
    table: list[list[float]], error: float
) -> None:
    scores = np.array(table)
    best = int(scores.sum(axis=1).argmax())  # one of them, where several are
    orders = list(itertools.permutations(range(6)))
    lost = sum(race(scores[:, order], error, 6, 5)[best] <= 5 for order in orders)
    assert lost <= error * len(orders)


@pytest.mark.parametrize("population", [60, None])
@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("failing", [0.0, 0.2])
def test_in_many_races_of_equals_one_is_lost_as_often_as_stated_at_most(
    population: int | None, k: int, failing: float
) -> None:
    rng, error, lost = np.random.default_rng(k), 0.2, 0
    for _ in range(250):
        if population is None:
            scores = (rng.random((k, 60)) < 0.6).astype(float)
        else:  # as many right of each, but for the first, which has one more
            scores = (np.argsort(rng.random((k, 60)), axis=1) < 30).astype(float)
            scores[0, np.flatnonzero(scores[0] == 0)[0]] = 1.0
            scores = (
                rng.permuted(scores, axis=1)
                if rng.random() < 0.5
                else scores[:, rng.permutation(60)]
            )
        scores[rng.random(scores.shape) < failing] = np.nan
        lost += race(scores, error, population, 59)[0] <= 59
    # 250 at .2: more than 70 would be a chance of one in a thousand.
    assert lost <= 70


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_what_was_found_never_changes_as_more_scores_come_in(
    seed: int, n: int, finite: bool
) -> None:
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.2, 0.8, (4, 1))
    scores = (rng.random((4, 41)) < level).astype(float)
    scores[rng.random(scores.shape) < 0.1] = np.nan
    population, error = 41 if finite else None, 0.3
    whole = race(scores, error, population, 40)
    so_far = race(scores, error, population, n)
    assert so_far == [at if at <= n else n + 1 for at in whole]
    # Who joins is a rival from then on, and no sooner.
    joined = np.vstack((scores, np.ones(41)))
    later = race(joined, error, population, 40, joined=[0, 0, 0, 0, n])
    assert [at if at <= n else n + 1 for at in later[:4]] == so_far
    # Scores behind one that is not known yet count for nobody who meets it.
    some = scores.copy()
    waiting = whole.index(max(whole))
    some[waiting, min(n, whole[waiting] - 1) :] = np.nan
    known = [40] * 4
    known[waiting] = min(n, whole[waiting] - 1)
    assert race(some, error, population, 40, known=known) == [
        at if at <= known[waiting] else 41 for at in whole
    ]


def test_who_joined_is_not_waited_for_on_what_others_had_seen() -> None:
    scores = np.tile([[1.0], [0.0], [np.nan]], (1, 20))
    assert race(scores, 0.05, 20, known=[20, 20, 0], joined=[0, 0, 20])[:2] == [21, 5]
    assert race(scores, 0.05, 20, known=[20, 20, 0]) == [21, 21, 21]


def test_who_has_left_is_a_rival_as_far_as_it_went() -> None:
    scores = np.tile([[1.0], [0.0], [0.9]], (1, 20))
    scores[0, 8:] = np.nan
    found = race(scores, 0.05, 40, known=[8, 20, 20], stays=[False, True, True])
    assert found[1] <= 8 < found[2] == 21


def test_in_the_end_it_is_exact() -> None:
    scores = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0]])
    assert race(scores, 1e-9, 4) == [5, 5, 4]
    assert race(scores, 1e-9, None) == [5, 5, 5]
    assert race(scores[:, :0], 0.05, 4) == [1, 1, 1]
