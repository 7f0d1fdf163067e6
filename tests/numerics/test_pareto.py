"""Dominance and gaps against the plain definition, on golden cases and on thousands of random ones with ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from asktell.methods.rounds.rules.gaps import pareto_gaps
from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.pareto import pareto_mask


def plain_mask(values: Floats) -> Bools:
    better = values[:, None, :] >= values[None, :, :]
    strictly = values[:, None, :] > values[None, :, :]
    return ~(better.all(axis=2) & strictly.any(axis=2)).any(axis=0)


def plain_gaps(values: Floats) -> Floats:
    """The definition, over all pairs."""
    m = (values[None, :, :] - values[:, None, :]).min(axis=2)
    np.fill_diagonal(m, -np.inf)
    best = m.max(axis=1)
    terms = np.minimum(-m, np.maximum(-m.T, 0.0) + np.maximum(best, 0.0))
    np.fill_diagonal(terms, np.inf)
    return np.where(plain_mask(values), terms.min(axis=1), best)


@pytest.mark.parametrize(
    ("values", "gaps", "optimal"),
    [
        (
            [(0.9, 0.1), (0.6, 0.6), (0.1, 0.9), (0.5, 0.5), (0.6, 0.3), (0.2, 0.2)],
            [0.2, 0.0, 0.3, 0.1, 0.0, 0.4],
            [True, True, True, False, False, False],
        ),
        ([(0.5, 0.5), (0.4, 0.4)], [0.1, 0.1], [True, False]),
        ([(0.5, 0.4), (0.4, 0.6)], [0.1, 0.1], [True, True]),
        ([(0.5, 0.5), (0.5, 0.5), (0.4, 0.4)], [0.0, 0.0, 0.1], [True, True, False]),
        ([(0.5, 1.0), (0.7, 1.0), (0.2, 1.0)], [0.0, 0.0, 0.0], [False, True, False]),
        ([(0.3,), (0.7,), (0.7,)], [0.4, 0.0, 0.0], [False, True, True]),
        ([(0.3, 0.2)], [np.inf], [True]),
    ],
)
def test_golden_cases(
    values: list[tuple[float, ...]], gaps: list[float], optimal: list[bool]
) -> None:
    found, mask = pareto_gaps(np.array(values))
    np.testing.assert_allclose(found, gaps, atol=1e-12)
    assert mask.tolist() == optimal


@pytest.mark.parametrize("n_metrics", [1, 2, 3, 4, 5])
def test_equals_the_plain_definition_on_random_cases(n_metrics: int) -> None:
    rng = np.random.default_rng(n_metrics)
    for case in range(1000):
        n = int(rng.integers(1, 40))
        values = (
            rng.integers(0, rng.integers(2, 17), size=(n, n_metrics)) / 16
            if case % 4
            else rng.random((n, n_metrics))
        )
        if case % 5 == 0:
            values = values[rng.integers(0, n, size=n)]
        gaps, optimal = pareto_gaps(values)
        np.testing.assert_array_equal(optimal, plain_mask(values))
        np.testing.assert_array_equal(optimal, pareto_mask(values))
        if case % 4:  # sixteenths are exact
            np.testing.assert_array_equal(gaps, plain_gaps(values))
        else:
            np.testing.assert_allclose(gaps, plain_gaps(values), rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_metrics", [2, 3, 5])
@pytest.mark.parametrize("kind", ["cube", "simplex", "dominated", "decimals"])
def test_equals_the_plain_definition_on_larger_cases(n_metrics: int, kind: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.random((700, n_metrics))
    if kind == "simplex":  # everything is on the front
        values /= values.sum(axis=1, keepdims=True)
    elif kind == "dominated":
        values[0] = 2.0
    elif kind == "decimals":
        values = values.round(1)
    gaps, optimal = pareto_gaps(values)
    np.testing.assert_array_equal(optimal, plain_mask(values))
    np.testing.assert_allclose(gaps, plain_gaps(values), rtol=0, atol=1e-14)


@settings(max_examples=100, deadline=None)
@given(
    arrays(
        float,
        st.tuples(st.integers(1, 12), st.integers(1, 3)),
        elements=st.integers(0, 10).map(lambda v: v / 10),
    )
)
def test_an_optimal_arm_has_no_larger_gap_than_one_it_dominates(values: Floats) -> None:
    gaps, optimal = pareto_gaps(values)
    for i in np.flatnonzero(optimal):
        dominated = (values[i] >= values).all(axis=1) & (values[i] > values).any(axis=1)
        assert (gaps[i] <= gaps[dominated]).all()


def test_no_rows_are_no_front() -> None:
    assert pareto_mask(np.empty((0, 2))).shape == (0,)
    assert pareto_gaps(np.empty((0, 3)))[0].shape == (0,)


def test_a_shift_leaves_gaps_and_a_scale_scales_them() -> None:
    values = np.random.default_rng(0).integers(0, 64, size=(50, 3)) / 64
    gaps, _ = pareto_gaps(values)
    np.testing.assert_array_equal(
        pareto_gaps(values + np.array([1.0, -2.0, 4.0]))[0], gaps
    )
    np.testing.assert_array_equal(pareto_gaps(4 * values)[0], 4 * gaps)


def test_three_columns_with_nan_come_to_an_end() -> None:
    values = np.array(
        [[1.0, 2.0, 3.0], [np.nan, 9.0, 9.0], [0.0, 1.0, 2.0], [np.nan, np.nan, np.nan]]
    )
    assert pareto_mask(values).tolist()[0:3:2] == [True, False]


@pytest.mark.parametrize("n_metrics", [2, 3, 4])
def test_what_one_row_dominates_may_be_dropped_beforehand(
    n_metrics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 60):
        for values in (
            rng.integers(0, 4, (n, n_metrics)).astype(float),
            rng.normal(size=(n, n_metrics)) * 1e100,
        ):
            expected = pareto_mask(values)
            with monkeypatch.context() as patch:
                patch.setattr("asktell.numerics.pareto._MANY", 0)
                assert pareto_mask(values).tolist() == expected.tolist()


@pytest.mark.parametrize("n_metrics", [2, 3])
def test_many_rows_with_nan_come_to_an_end(n_metrics: int) -> None:
    values = np.random.default_rng(0).normal(size=(3000, n_metrics))
    values[5] = np.nan
    assert len(pareto_mask(values)) == 3000
