"""The joint prior of several metrics: against the formulas of Gaussians, and where it must change nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asktell
from asktell.numerics.arrays import Floats
from asktell.posterior.trade_offs import _CORRELATION, with_trade_offs


def drawn(means: Floats, covariance: Floats, n: int = 400, seed: int = 0) -> Floats:
    """(c, n, K) draws whose means (K, c) and covariance (c, c) of each prompt are exact, and which have no level."""
    rng = np.random.default_rng(seed)
    k, c = means.shape
    normals = rng.normal(size=(n, (k - 1) * c))
    normals -= normals.mean(axis=0)
    normals = normals @ np.linalg.inv(np.linalg.cholesky(normals.T @ normals / n)).T
    # Orthonormal contrasts of the prompts: their sum is 0 in every draw.
    contrasts = np.linalg.svd(np.eye(k) - 1.0 / k)[0][:, : k - 1]
    parts = normals.reshape(n, k - 1, c) @ np.linalg.cholesky(covariance).T
    scale = np.sqrt(k / (k - 1.0))
    return np.asarray(
        means.T[:, None] + scale * np.einsum("kq,nqc->cnk", contrasts, parts)
    )


MEANS = np.array([[1.0, -0.2], [-0.5, 0.6], [0.3, 0.4], [-0.8, -0.8]])
COVARIANCE = np.array([[0.5, 0.1], [0.1, 0.3]])


@pytest.mark.parametrize("directions", [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)])
def test_means_and_covariances_are_those_of_the_joint_prior(
    directions: tuple[float, float],
) -> None:
    draws, means = drawn(MEANS, COVARIANCE), MEANS.copy()
    errors = np.tile(np.sqrt(np.diag(COVARIANCE)), (4, 1))
    with_trade_offs(
        draws, means, errors, np.tile(COVARIANCE, (4, 1, 1)), np.array(directions)
    )
    # By the formulas with inverses, in the metrics' own units
    square = np.maximum(
        (MEANS**2).mean(axis=0) + np.diag(COVARIANCE), np.diag(COVARIANCE)
    )
    separate = np.diag(1.0 / square)
    prior = np.diag(square)
    prior[0, 1] = prior[1, 0] = (
        _CORRELATION * directions[0] * directions[1] * np.sqrt(square.prod())
    )
    precision = np.linalg.inv(COVARIANCE)
    after = np.linalg.inv(precision + np.linalg.inv(prior) - separate)
    expected = MEANS @ precision.T @ after.T
    assert means == pytest.approx(expected)
    assert pytest.approx(expected, abs=1e-6) == draws.mean(axis=1).T
    assert errors == pytest.approx(np.tile(np.sqrt(np.diag(after)), (4, 1)))
    for arm in range(4):
        assert np.cov(draws[:, :, arm], bias=True) == pytest.approx(after, abs=1e-6)


def test_known_means_stay_and_inform_the_other_metric() -> None:
    means = np.array([[1.0, 0.0], [-1.0, 0.0]])
    draws = drawn(means, np.diag([1e-12, 1.0]))
    draws[0] = means[:, 0]
    errors = np.array([[0.0, 1.0], [0.0, 1.0]])
    with_trade_offs(
        draws, means, errors, np.tile(np.diag([0.0, 1.0]), (2, 1, 1)), np.ones(2)
    )
    assert (draws[0] == means[:, 0]).all()
    assert (means[:, 0] == (1.0, -1.0)).all()
    assert (errors[:, 0] == 0.0).all()
    # A prompt ahead by one deviation is behind by the correlation in the other metric.
    assert means[:, 1] == pytest.approx([_CORRELATION, -_CORRELATION])
    assert errors[:, 1] == pytest.approx(np.sqrt(1.0 - _CORRELATION**2))


@pytest.mark.parametrize("directions", [(1.0, 0.0), (0.0, 0.0)])
def test_without_two_directions_nothing_changes(
    directions: tuple[float, float],
) -> None:
    draws, means, errors = drawn(MEANS, COVARIANCE), MEANS.copy(), np.ones((4, 2))
    before = draws.copy()
    with_trade_offs(
        draws, means, errors, np.tile(COVARIANCE, (4, 1, 1)), np.array(directions)
    )
    assert (draws == before).all()
    assert (means == MEANS).all()
    assert (errors == 1.0).all()


def test_a_metric_that_is_equal_for_all_prompts_changes_no_other() -> None:
    draws, means, errors = drawn(MEANS, COVARIANCE), MEANS.copy(), np.ones((4, 2))
    draws[1], means[:, 1] = 3.0, 3.0
    before = draws.copy()
    with_trade_offs(
        draws, means, errors, np.tile(np.diag([0.5, 0.0]), (4, 1, 1)), np.ones(2)
    )
    assert (draws == before).all()


@given(
    n_metrics=st.integers(2, 6),
    n_arms=st.integers(2, 12),
    seed=st.integers(0, 1000),
    width=st.floats(1e-6, 1e6),
)
def test_any_number_of_metrics_and_any_widths_give_finite_draws(
    n_metrics: int, n_arms: int, seed: int, width: float
) -> None:
    rng = np.random.default_rng(seed)
    scale = width ** rng.uniform(-1.0, 1.0, n_metrics)[:, None, None]
    draws = scale * rng.standard_t(3, (n_metrics, 64, n_arms))
    means = draws.mean(axis=1).T.copy()
    errors = draws.std(axis=1).T.copy()
    covariance = np.array([np.cov(draws[:, :, arm]) for arm in range(n_arms)])
    directions = rng.choice([-1.0, 0.0, 1.0], n_metrics)
    with_trade_offs(draws, means, errors, covariance, directions)
    assert np.isfinite(draws).all()
    assert np.isfinite(means).all()
    assert np.isfinite(errors).all()


def test_directions_of_a_goal() -> None:
    goal = asktell.BestFeasible(
        asktell.minimize("cost"),
        {
            "right": asktell.at_least(0.8),
            "cost": asktell.at_most(2.0),
            "failure_rate": asktell.at_most(0.1),
            "length": asktell.at_most(90, quantile=0.95),
        },
    )
    found = dict(zip(goal.columns, goal.directions.tolist(), strict=True))
    assert found.pop("cost") == -1.0
    assert found.pop("right") == 1.0
    assert set(found.values()) == {0.0}
    both = asktell.ParetoSet(asktell.maximize("right"), asktell.minimize("cost"))
    assert both.directions.tolist() == [1.0, -1.0]
