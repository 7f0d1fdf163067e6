"""The design is certified, rounded within its guarantee, and every request gets counts that sum to its pulls."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.methods.rounds.allocators import PullsToShare, Uniform
from asktell.methods.rounds.allocators.g_optimal_design import (
    GOptimalDesign,
    optimal_design,
)
from asktell.methods.rounds.allocators.rounding import leverages, round_design
from asktell.methods.rounds.directions import span, with_intercept


def to_share(
    features: np.ndarray | None,
    n_pulls: int,
    capacity: np.ndarray | int = 10**6,
    n_arms: int = 0,
) -> PullsToShare:
    n = n_arms if features is None else len(features)
    zeros = np.zeros(n, dtype=np.int64)
    return PullsToShare(
        n_pulls,
        zeros,
        zeros + capacity,
        np.random.default_rng(0).permutation(n),
        features,
    )


@pytest.mark.parametrize("tolerance", [0.1, 0.01, 0.001])
@pytest.mark.parametrize(("n_arms", "d"), [(5, 5), (40, 3), (200, 10)])
def test_the_certificate_holds(n_arms: int, d: int, tolerance: float) -> None:
    x = span(np.random.default_rng(0).normal(size=(n_arms, d)))
    weights = optimal_design(x, tolerance)
    lever = leverages(x, weights)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights @ lever) == pytest.approx(d)
    assert d * (1 - 1e-9) <= lever.max() <= (1 + tolerance) * d
    assert np.count_nonzero(weights) <= d * (d + 1) // 2 + 1


def test_known_optimum_a_quadratic_on_the_interval() -> None:
    """For 1, t, t^2 on [-1, 1] the optimum puts a third on each of -1, 0 and 1."""
    t = np.linspace(-1, 1, 21)
    weights = optimal_design(
        span(np.column_stack((np.ones(21), t, t**2))), tolerance=1e-4
    )
    np.testing.assert_allclose(weights[[0, 10, 20]], 1 / 3, atol=0.01)


@cache
def designed(n_arms: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    x = span(np.random.default_rng(d).normal(size=(n_arms, d)))
    return x, optimal_design(x, 0.01)


@pytest.mark.parametrize("factor", [1.05, 1.5, 3, 10, 45])
@pytest.mark.parametrize(("n_arms", "d"), [(30, 2), (100, 6), (100, 10)])
def test_rounding_keeps_the_guarantee(n_arms: int, d: int, factor: float) -> None:
    x, weights = designed(n_arms, d)
    support = int(np.count_nonzero(weights))
    n = int(factor * support) + 1
    counts = round_design(x, weights, n, np.full(n_arms, 10**6), 0.01)
    assert counts.sum() == n
    assert leverages(x, counts).max() <= 1.01 * d / (n - support) * (1 + 1e-9)


def test_from_45_pulls_per_dimension_on_the_leverage_is_within_three_times_the_ideal() -> (
    None
):
    x = span(np.random.default_rng(3).normal(size=(200, 8)))
    n = 45 * 8
    counts = round_design(x, optimal_design(x), n, np.full(200, n), 0.01)
    assert leverages(x, counts).max() <= 3 * 1.01 * 8 / n


@settings(max_examples=30, deadline=None)
@given(n_pulls=st.integers(0, 150), full=st.integers(0, 30), seed=st.integers(0, 20))
def test_counts_always_sum_to_the_pulls_or_the_capacity(
    n_pulls: int, full: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(30, 4))
    capacity = rng.integers(1, 8, size=30)
    capacity[:full] = 0
    counts = GOptimalDesign().allocate(to_share(features, n_pulls, capacity))
    assert counts.sum() == min(n_pulls, capacity.sum())
    assert (counts >= 0).all()
    assert (counts <= capacity).all()


@pytest.mark.parametrize(
    "kind", ["zero", "constant", "duplicated", "one arm", "more features than arms"]
)
def test_degenerate_features(kind: str) -> None:
    rng = np.random.default_rng(0)
    features = {
        "zero": np.zeros((10, 3)),
        "constant": np.full((10, 3), 4.2),
        "duplicated": np.repeat(rng.normal(size=(2, 3)), 5, axis=0),
        "one arm": rng.normal(size=(1, 3)),
        "more features than arms": rng.normal(size=(6, 20)),
    }[kind]
    for intercept in (True, False):
        counts = GOptimalDesign(intercept=intercept).allocate(to_share(features, 25))
        assert counts.sum() == 25


def test_fewer_pulls_than_dimensions_are_shared_evenly() -> None:
    asked = to_share(np.random.default_rng(0).normal(size=(20, 10)), 7)
    np.testing.assert_array_equal(
        GOptimalDesign().allocate(asked), Uniform().allocate(asked)
    )


def test_is_better_than_uniform_where_arms_are_unequal() -> None:
    rng = np.random.default_rng(0)
    features = (
        rng.normal(size=(100, 5)) * np.where(np.arange(100) < 5, 5.0, 0.3)[:, None]
    )
    asked = to_share(features, 120)
    x = span(with_intercept(features))
    ours, even = (
        leverages(x, method.allocate(asked)).max()
        for method in (GOptimalDesign(), Uniform())
    )
    assert ours < 0.3 * even


def test_units_of_the_features_do_not_matter() -> None:
    features = np.random.default_rng(0).normal(size=(40, 3))
    one = GOptimalDesign().allocate(to_share(features, 100))
    other = GOptimalDesign().allocate(
        to_share(features * np.array([1e-6, 1.0, 1e6]), 100)
    )
    np.testing.assert_array_equal(one, other)


def test_rounds_do_not_recompile() -> None:
    from asktell.methods.rounds.allocators import _design_jax

    features = np.random.default_rng(0).normal(size=(60, 10))
    GOptimalDesign().allocate(to_share(features, 90))
    before = _design_jax.mirror_ascent._cache_size()
    for left in (59, 30, 15, 8, 4, 2):
        GOptimalDesign().allocate(to_share(features[:left], 90))
    assert _design_jax.mirror_ascent._cache_size() == before
