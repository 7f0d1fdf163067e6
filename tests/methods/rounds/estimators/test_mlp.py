"""The MLP learns as well as a reference regressor, is deterministic, and compiles once for all rounds.

Five features, two metrics and at most 64 arms wherever they will do: JAX compiles once
for each shape.
"""

import numpy as np
import pytest

from asktell.methods.rounds.estimators import Sample
from asktell.methods.rounds.estimators.mlp import MLP
from asktell.numerics.tally import Tally


def smooth_problem(
    n_arms: int, pulls: int, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, Tally]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_arms, 5)) * np.array([1.0, 10.0, 0.1, 1.0, 1.0]) + 3
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    truth = np.column_stack(
        (np.sin(z[:, 0]) + 0.5 * z[:, 1] ** 2, 100 + 20 * np.tanh(z[:, 2]))
    )
    arms = np.repeat(np.arange(n_arms), pulls)
    scores = truth[arms] + noise * truth.std(axis=0) * rng.normal(size=(len(arms), 2))
    return x, truth, Tally.empty(n_arms, 2).plus(arms, scores)


@pytest.mark.night
def test_is_as_accurate_as_a_reference_regressor() -> None:
    neural_network = pytest.importorskip("sklearn.neural_network")
    x, truth, tally = smooth_problem(60, pulls=4, noise=0.6)
    everyone = np.arange(60)
    ours = MLP().estimate(Sample(tally, everyone, x)).means
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    centre, unit = tally.means.mean(axis=0), tally.means.std(axis=0)
    members = [
        neural_network.MLPRegressor(
            hidden_layer_sizes=(30,),
            solver="lbfgs",
            alpha=1e-3 * 60 / 2,
            max_iter=2000,
            random_state=seed,
        ).fit(z, (tally.means - centre) / unit)
        for seed in range(5)
    ]
    theirs = np.mean([member.predict(z) for member in members], axis=0) * unit + centre

    def error(means: np.ndarray) -> np.ndarray:
        return np.sqrt(((means - truth) ** 2).mean(axis=0)) / truth.std(axis=0)

    assert (error(ours) < 1.15 * error(theirs)).all()
    assert (error(ours) < error(tally.means)).all()
    assert (error(ours) < 0.3).all()


def test_is_deterministic_under_the_seed() -> None:
    x, _, tally = smooth_problem(30, pulls=2, noise=0.3)
    sample = [Sample(tally, np.arange(30), x, seed=seed) for seed in (1, 1, 2**63 - 1)]
    one, same, other = (MLP(steps=50).estimate(e).means for e in sample)
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_compiles_once_for_all_rounds_and_seeds() -> None:
    from asktell.methods.rounds.estimators import _mlp_jax

    x, _, tally = smooth_problem(60, pulls=2, noise=0.3)
    method = MLP(steps=20)
    method.estimate(Sample(tally, np.arange(60), x))
    before = _mlp_jax.fit_predict._cache_size()
    for left in (59, 30, 15, 2):
        method.estimate(Sample(tally, np.arange(left), x, seed=left))
    assert _mlp_jax.fit_predict._cache_size() == before


def test_unpulled_arms_are_predicted() -> None:
    x, truth, _ = smooth_problem(60, pulls=1, noise=0.0, seed=1)
    arms = np.arange(0, 60, 2)
    tally = Tally.empty(60, 2).plus(arms, truth[arms])
    estimates = MLP().estimate(Sample(tally, np.arange(60), x))
    unseen = np.arange(60) % 2 == 1
    error = np.sqrt(((estimates.means - truth)[unseen] ** 2).mean(axis=0)) / truth.std(
        axis=0
    )
    assert (error < 0.6).all()
    assert np.isfinite(estimates.standard_errors).all()


def test_a_constant_metric_stays_constant() -> None:
    x, truth, _ = smooth_problem(20, pulls=1, noise=0.0)
    scores = np.column_stack((truth[:, 0], np.full(20, 0.3)))
    estimates = MLP(steps=20).estimate(
        Sample(Tally.empty(20, 2).plus(np.arange(20), scores), np.arange(20), x)
    )
    np.testing.assert_allclose(estimates.means[:, 1], 0.3, rtol=1e-12)
    np.testing.assert_array_equal(estimates.standard_errors[:, 1], 0.0)


@pytest.mark.parametrize("pulls", [1, 4])
def test_standard_errors_cover_the_error_that_noise_makes(pulls: int) -> None:
    """The truth is flat, so everything that the networks find is noise; 4 data sets of 60 arms and 2 metrics."""
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        arms = np.repeat(np.arange(60), pulls)
        tally = Tally.empty(60, 2).plus(arms, rng.normal(size=(len(arms), 2)))
        estimates = MLP().estimate(
            Sample(tally, np.arange(60), rng.normal(size=(60, 5)), seed=seed)
        )
        ratios.append(estimates.means / estimates.standard_errors)
    assert 0.6 < (np.abs(np.concatenate(ratios)) < 1).mean() < 0.85
    assert (np.abs(np.concatenate(ratios)) < 1.96).mean() > 0.9


def test_standard_errors_know_that_examples_run_out() -> None:
    """Half of the examples seen: half of the noise's variance is left."""
    x = np.random.default_rng(0).normal(size=(30, 5))
    arms = np.repeat(np.arange(30), 10)
    tally = Tally.empty(30, 2).plus(
        arms, np.random.default_rng(1).normal(size=(300, 2))
    )
    method = MLP()
    endless, half, all_ = (
        method.estimate(Sample(tally, np.arange(30), x, population)).standard_errors
        for population in (None, 20, 10)
    )
    assert 0.6 < np.median(half / endless) < 0.85
    assert (all_ < half).all()


def test_pulls_are_weights() -> None:
    """Many pulls of an arm weigh as much as many arms with the same features and the same mean."""
    x = np.random.default_rng(0).normal(size=(12, 5))
    y = np.abs(x[:, :2])
    counts = np.arange(1, 13)
    tally = Tally(counts, y, np.zeros_like(y), np.zeros_like(y))
    doubled = Tally(2 * counts, y, np.zeros_like(y), np.zeros_like(y))
    one, two = (
        MLP(steps=100).estimate(Sample(t, np.arange(12), x)).means
        for t in (tally, doubled)
    )
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
