"""Least squares against numpy's solver, also where columns are dependent, constant or badly scaled.

Five features and two metrics wherever they will do: JAX compiles once for each shape,
here and for other estimators.
"""

import subprocess
import sys

import numpy as np
import pytest

from asktell.methods.rounds.estimators import Sample
from asktell.methods.rounds.estimators.least_squares import LeastSquares, least_squares
from asktell.numerics.tally import Tally

RNG = np.random.default_rng(0)


def features(kind: str, n_arms: int = 30, d: int = 5) -> np.ndarray:
    x = np.random.default_rng(1).normal(size=(n_arms, d))
    if kind == "dependent":
        x[:, 3] = 2 * x[:, 0] - x[:, 1]
    elif kind == "duplicated":
        x[:, 3:] = x[:, :2]
    elif kind == "constant":
        x[:, 2] = 7.0
    elif kind == "zero":
        x[:, 1] = 0.0
    elif kind == "badly scaled":
        x *= 10.0 ** np.array([-9, -3, 0, 5, 9])
    elif kind == "far from zero":
        x += 1e6
    return x


def reference(
    x: np.ndarray, means: np.ndarray, counts: np.ndarray, intercept: bool
) -> np.ndarray:
    """Fitted means by numpy, on centred columns of unit length."""
    if intercept:
        x = x - x.mean(axis=0)
    length = np.linalg.norm(x, axis=0)
    x = x / np.where(length > 0, length, 1.0)
    if intercept:
        x = np.column_stack((x, np.ones(len(x))))
    root = np.sqrt(counts)[:, None]
    theta, *_ = np.linalg.lstsq(
        root * x, root * np.where(counts[:, None] > 0, means, 0.0), rcond=1e-11
    )
    return x @ theta


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        "dependent",
        "duplicated",
        "constant",
        "zero",
        "badly scaled",
        "far from zero",
    ],
)
def test_agrees_with_numpy(kind: str, intercept: bool) -> None:
    x = features(kind)
    counts = np.random.default_rng(2).integers(0, 5, size=30)
    counts[:12] += 1
    means = np.random.default_rng(3).normal(size=(30, 2)) + 2
    means[counts == 0] = np.nan
    fit = least_squares(x, means, counts, intercept=intercept)
    np.testing.assert_allclose(
        fit.means, reference(x, means, counts, intercept), rtol=0, atol=1e-8
    )


def test_standard_errors_are_those_of_the_rows() -> None:
    x = features("plain", n_arms=8)
    arms = np.repeat(np.arange(8), 4)
    scores = RNG.normal(size=(32, 2))
    tally = Tally.empty(8, 2).plus(arms, scores)
    fit = least_squares(x, tally.means, tally.counts, tally.deviations)
    rows = np.column_stack((x, np.ones(8)))[arms]
    inverse = np.linalg.inv(rows.T @ rows)
    residual = scores[:, 0] - rows @ (inverse @ (rows.T @ scores[:, 0]))
    variance = residual @ residual / (32 - 6)
    points = np.column_stack((x, np.ones(8)))
    leverage = ((points @ inverse) * points).sum(axis=1)
    np.testing.assert_allclose(
        fit.standard_errors[:, 0], np.sqrt(variance * leverage), rtol=1e-10
    )


def test_a_change_of_basis_changes_nothing() -> None:
    x = features("plain")
    counts = np.full(30, 2)
    means = np.random.default_rng(4).normal(size=(30, 2))
    mixed = x @ np.random.default_rng(5).normal(size=(5, 5))
    np.testing.assert_allclose(
        least_squares(x, means, counts).means,
        least_squares(mixed, means, counts).means,
        rtol=0,
        atol=1e-8,
    )


def test_ridge_shrinks_slopes_and_never_the_constant() -> None:
    x = features("plain")
    means = x[:, :2] + 5.0
    fit = least_squares(x, means, np.ones(30, dtype=int), ridge=1e9)
    np.testing.assert_allclose(
        fit.means, means.mean(axis=0, keepdims=True).repeat(30, axis=0), atol=1e-5
    )


def test_ridge_agrees_with_the_normal_equations() -> None:
    x = features("plain")
    means = np.random.default_rng(6).normal(size=(30, 2))
    counts = np.random.default_rng(7).integers(1, 4, size=30)
    z = np.column_stack(((x - x.mean(axis=0)) / x.std(axis=0), np.ones(30)))
    penalty = 3.0 * np.diag([1.0] * 5 + [0.0])
    theta = np.linalg.solve(
        (counts[:, None] * z).T @ z + penalty, (counts[:, None] * z).T @ means
    )
    np.testing.assert_allclose(
        least_squares(x, means, counts, ridge=3.0).means, z @ theta, atol=1e-9
    )


def test_arms_outside_the_pulled_span_are_finite() -> None:
    x = np.eye(5)
    counts = np.array([3, 3, 0, 0, 0])
    means = np.array([[1.0, 0.0], [2.0, 0.0], *[[np.nan, np.nan]] * 3])
    fit = least_squares(x, means, counts, intercept=False)
    assert np.isfinite(fit.means).all()
    np.testing.assert_allclose(fit.means[:2, 0], [1.0, 2.0], atol=1e-4)


def test_shifting_the_scores_shifts_the_estimates_even_where_arms_do_not_span() -> None:
    x = features("plain")
    counts = np.zeros(30, dtype=int)
    counts[:3] = 2
    means = np.where(counts[:, None] > 0, RNG.normal(size=(30, 2)), np.nan)
    one, other = (
        least_squares(x, means, counts),
        least_squares(x, means + 100.0, counts),
    )
    np.testing.assert_allclose(one.means + 100.0, other.means, atol=1e-8)


def test_other_arms_count_as_far_as_they_lie_in_the_span() -> None:
    x = np.eye(5)[[0, 0, 0, 1]] * np.array([[1.0], [2.0], [3.0], [1.0]])
    x[3, 0] = 1.0
    means = np.array([[1.0], [2.0], [3.0], [100.0]]) * np.ones(2)
    active = np.array([True, True, False, False])
    fit = least_squares(
        x, means, np.array([1, 0, 5, 5]), active=active, intercept=False
    )
    np.testing.assert_allclose(fit.means[:2, 0], [1.0, 2.0], atol=1e-12)


def test_estimates_only_the_active_arms() -> None:
    x = features("plain")
    tally = Tally.empty(30, 2).plus(np.arange(30), RNG.normal(size=(30, 2)))
    active = np.array([3, 7, 20, 21, 22, 23, 24])
    estimates = LeastSquares().estimate(Sample(tally, active, x))
    assert estimates.means.shape == estimates.standard_errors.shape == (7, 2)


def test_rounds_do_not_recompile() -> None:
    from asktell.methods.rounds.estimators import _least_squares_jax

    x = features("plain", n_arms=50)
    tally = Tally.empty(50, 2).plus(np.arange(50), RNG.normal(size=(50, 2)))
    LeastSquares().estimate(Sample(tally, np.arange(50), x))
    before = _least_squares_jax.fit._cache_size()
    for left in (49, 25, 12, 6, 3):
        LeastSquares().estimate(Sample(tally, np.arange(left), x))
    assert _least_squares_jax.fit._cache_size() == before


def test_importing_the_structured_methods_does_not_import_jax() -> None:
    code = (
        "import sys, asktell.methods.rounds.estimators.least_squares, asktell.methods.rounds.estimators.mlp, "
        "asktell.methods.rounds.allocators.g_optimal_design, asktell.problem.features, "
        "benchmarks.selection.theory, asktell._util.jax_cache; "
        "assert not {'jax', 'flax', 'optax', 'scipy.sparse'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
