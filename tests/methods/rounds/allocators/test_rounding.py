"""Rounding keeps the budget exactly and the leverage within its guarantee."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.methods.rounds.allocators.rounding import (
    efficient_rounding,
    exchange,
    greedy_fill,
    leverages,
    reduce_support,
    round_design,
    within_capacity,
)
from asktell.methods.rounds.directions import span


def rows(n_arms: int, d: int, seed: int = 0) -> np.ndarray:
    return span(np.random.default_rng(seed).normal(size=(n_arms, d)))


@settings(deadline=None)
@given(n_arms=st.integers(1, 60), n=st.integers(0, 3000), seed=st.integers(0, 100))
def test_efficient_rounding_keeps_the_sum_and_the_proportions(
    n_arms: int, n: int, seed: int
) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.full(n_arms, 0.5))
    weights[weights < 1e-6] = 0
    weights /= weights.sum()
    support = int(np.count_nonzero(weights))
    counts = efficient_rounding(weights, n)
    assert counts.sum() == n
    assert (counts >= 0).all()
    assert not counts[weights == 0].any()
    if n >= support:
        assert (counts >= (1 - support / n) * n * weights - 1e-6).all()


@pytest.mark.parametrize(("n_arms", "d"), [(50, 2), (300, 4), (40, 3)])
def test_a_reduced_support_has_the_same_moments(n_arms: int, d: int) -> None:
    x = rows(n_arms, d)
    weights = np.random.default_rng(1).dirichlet(np.ones(n_arms))
    reduced = reduce_support(x, weights)
    assert np.count_nonzero(reduced) <= d * (d + 1) // 2 + 1
    assert reduced.sum() == pytest.approx(1.0)
    assert (reduced >= 0).all()
    np.testing.assert_allclose(
        (reduced[:, None] * x).T @ x, (weights[:, None] * x).T @ x, atol=1e-9
    )


def test_leverages_are_the_quadratic_forms_and_infinite_without_rank() -> None:
    x = rows(20, 3)
    counts = np.random.default_rng(0).integers(0, 4, size=20)
    inverse = np.linalg.inv((counts[:, None] * x).T @ x)
    np.testing.assert_allclose(
        leverages(x, counts), ((x @ inverse) * x).sum(axis=1), rtol=1e-9
    )
    assert np.isinf(leverages(x, np.eye(20)[0])).all()


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 6), n=st.integers(0, 200), seed=st.integers(0, 50))
def test_every_budget_gives_counts_that_sum_to_it_and_span(
    d: int, n: int, seed: int
) -> None:
    x = rows(30, d, seed)
    n += d
    weights = np.full(30, 1 / 30)
    counts = round_design(x, weights, n, np.full(30, 10**6), tolerance=100.0)
    assert counts.sum() == n
    assert np.isfinite(leverages(x, counts)).all()


@settings(max_examples=40, deadline=None)
@given(n=st.integers(3, 100), seed=st.integers(0, 50))
def test_capacity_is_respected_and_used(n: int, seed: int) -> None:
    x = rows(20, 3, seed)
    capacity = np.random.default_rng(seed).integers(1, 6, size=20)
    n = min(n, int(capacity.sum()))
    weights = np.random.default_rng(seed).dirichlet(np.full(20, 0.3))
    counts = round_design(x, reduce_support(x, weights), n, capacity, tolerance=100.0)
    assert counts.sum() == n
    assert (counts <= capacity).all()


def test_what_does_not_fit_goes_to_the_others_by_weight() -> None:
    counts = within_capacity(
        np.array([10, 5, 5, 0]),
        np.array([2, 100, 100, 100]),
        np.array([0.5, 0.25, 0.25, 0.0]),
    )
    assert counts.tolist() == [2, 9, 9, 0]
    assert within_capacity(
        np.array([10, 0, 0]), np.array([2, 3, 4]), np.array([1.0, 0, 0])
    ).tolist() == [2, 3, 4]


def test_exchanges_never_raise_the_largest_leverage() -> None:
    x = rows(60, 5)
    everyone = np.full(60, 100)
    for n in (5, 6, 10, 25):
        filled = greedy_fill(x, np.full(60, 1 / 60), n, everyone)
        better = exchange(x, filled, everyone)
        assert filled.sum() == better.sum() == n
        assert leverages(x, better).max() <= leverages(x, filled).max() * (1 + 1e-9)
