import numpy as np

import asktell
from benchmarks.rivals.pool import Array
from benchmarks.rivals.prompteval import predict, prompteval
from tests.benchmarks.pools import pool_of


def _rasch(ability: Array, ease: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-ability[:, None] - ease)))


def test_a_fit_has_the_observed_sums_of_prompts_and_examples() -> None:
    """The likelihood's equations, which the wide prior hardly moves."""
    rng = np.random.default_rng(0)
    truth = _rasch(rng.normal(size=12), rng.normal(size=20))
    observed = np.where(
        rng.random(truth.shape) < 0.7, rng.random(truth.shape) < truth, np.nan
    )
    residual = np.nan_to_num(observed - predict(observed, np.eye(12)))
    np.testing.assert_allclose(residual.sum(axis=1), 0, atol=0.1)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=0.1)


def test_scores_between_0_and_1_are_modelled_as_they_are_whatever_their_unit() -> None:
    rng = np.random.default_rng(0)
    truth = _rasch(np.linspace(-1, 1, 8), np.linspace(-1, 1, 15))
    unit = (truth - truth.min()) / np.ptp(truth)
    seen = rng.random(truth.shape) < 0.8
    seen[[0, -1], [0, -1]] = True  # the least and the largest score
    predicted = predict(np.where(seen, unit, np.nan), np.eye(8))
    np.testing.assert_allclose(predicted, unit, atol=0.05)
    np.testing.assert_allclose(
        predict(np.where(seen, 7 - 3 * unit, np.nan), np.eye(8)),
        7 - 3 * predicted,
        atol=1e-3,
    )


def test_the_sample_is_balanced_over_prompts_and_examples() -> None:
    pool = pool_of(np.random.default_rng(0).random((6, 10, 1)), 25, seed=1)
    prompteval(pool, asktell.BestFeasible("quality"), 1)
    seen = np.isfinite(pool.observed[:, :, 0])
    assert seen.sum() == 25  # no cell twice
    assert np.ptp(seen.sum(axis=1)) == 1
    assert np.ptp(seen.sum(axis=0)) <= 2
