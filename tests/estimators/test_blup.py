"""BLUP against the dense formulas, against what it interpolates between, and its approximation for many arms.

Five features and two metrics wherever they will do: JAX compiles once for each shape.
"""

import numpy as np
import pytest

from asktell.estimators import Sample
from asktell.estimators.blup import BLUP, _relative_noise
from asktell.estimators.least_squares import LeastSquares
from asktell.numerics.tally import Tally


def problem(
    n_arms: int, pulls: int, *, smooth: float, own: float, noise: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, Tally]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_arms, 5))
    truth = smooth * (np.sin(x[:, :2]) + 0.5 * x[:, 1:3]) + own * rng.normal(size=(n_arms, 2))
    arms = np.repeat(np.arange(n_arms), pulls)
    return x, truth, Tally.empty(n_arms, 2).plus(arms, truth[arms] + noise * rng.normal(size=(len(arms), 2)))


def error(means: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(((means - truth) ** 2).mean()))


@pytest.mark.parametrize(("smooth", "own"), [(1.0, 0.0), (0.0, 0.5), (1.0, 0.5), (0.0, 0.0)])
def test_is_at_least_as_good_as_sample_means_and_as_the_linear_model(smooth: float, own: float) -> None:
    blup, mean, linear = [], [], []
    for seed in range(3):
        x, truth, tally = problem(60, 3, smooth=smooth, own=own, seed=seed)
        sample = Sample(tally, np.arange(60), x)
        blup.append(error(BLUP().estimate(sample).means, truth))
        mean.append(error(tally.means, truth))
        linear.append(error(LeastSquares().estimate(sample).means, truth))
    assert np.mean(blup) < 0.95 * np.mean(mean)
    assert np.mean(blup) < 1.1 * np.mean(linear)


def test_means_and_errors_are_the_dense_formula_at_the_variances_found() -> None:
    x, _, tally = problem(40, 3, smooth=1.0, own=0.3)
    counts = tally.counts.copy()
    prediction = BLUP().predict(tally, x)
    smooth, slope, own, noise = prediction.variances[0]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    squared = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    median = np.median(squared[np.triu_indices(40, 1)])
    prior = smooth * np.exp(-0.5 * squared / median) + slope * z @ z.T / 5 + own * np.eye(40)
    inverse = np.linalg.inv(prior + np.diag(noise * _relative_noise(tally)[:, 0] / counts))
    y, ones = tally.means[:, 0], np.ones(40)
    level = (ones @ inverse @ y) / (ones @ inverse @ ones)
    mean = level + prior @ inverse @ (y - level)
    missing = 1 - prior @ inverse @ ones
    variance = np.diag(prior - prior @ inverse @ prior) + missing**2 / (ones @ inverse @ ones)
    np.testing.assert_allclose(prediction.means[:, 0], mean, atol=1e-6)
    np.testing.assert_allclose(prediction.standard_errors[:, 0], np.sqrt(variance), atol=1e-6)


def test_the_gradient_written_out_is_that_of_the_loss() -> None:
    import jax
    import jax.numpy as jnp

    from asktell.estimators import _blup_jax

    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x = jnp.asarray(rng.normal(size=(12, 2)))
        y = jnp.asarray(rng.normal(size=12)) * jnp.append(jnp.ones(10), jnp.zeros(2))
        left = jnp.asarray(1 / rng.integers(1, 5, size=12))
        present = jnp.append(jnp.ones(10), jnp.zeros(2))
        rbf, linear = _blup_jax.kernels(x, x, jnp.asarray(2.0))
        noise = _blup_jax.Noise(*map(jnp.asarray, (-0.5, 0.7, 0.8, 9.0)))
        prior = jnp.array([[-1.0, -2.0, -0.5, 0.0], [0.3, 0.2, 1.0, 0.0]])

        @jax.jit  # else each of its operations is compiled
        def found(at: jax.Array) -> _blup_jax.Objective:
            return _blup_jax.objective(at, rbf, linear, y, left, present, noise, prior)

        at = jnp.array([-0.3, -1.2, 0.4, 0.1])
        gradient = jax.jit(jax.grad(lambda point: found(point).loss))(at)
        np.testing.assert_allclose(found(at).gradient, gradient, rtol=1e-7)
        assert (np.linalg.eigvalsh(found(at).curvature) > 0).all()


def test_variances_are_recovered() -> None:
    x, _, tally = problem(400, 4, smooth=0.0, own=0.7, noise=1.0)
    variances = BLUP().predict(tally, x).variances[0]
    assert variances[:2].sum() < 0.1
    assert variances[2] == pytest.approx(0.49, rel=0.25)
    assert variances[3] == pytest.approx(1.0, rel=0.1)


def test_without_features_sample_means_are_shrunk_to_the_average() -> None:
    rng = np.random.default_rng(0)
    truth = 0.3 * rng.normal(size=(60, 2))
    arms = np.repeat(np.arange(60), 3)
    # Noise of the means, and the same sample variance for every arm.
    scores = (truth + np.sqrt(1 / 3) * rng.normal(size=(60, 2)))[arms] + np.tile([-1.0, 0.0, 1.0], 60)[:, None]
    tally = Tally.empty(60, 2).plus(arms, scores)
    estimates = BLUP().estimate(Sample(tally, np.arange(60), np.zeros((60, 5))))
    ratio = (estimates.means - tally.means.mean(axis=0)) / (tally.means - tally.means.mean(axis=0))
    np.testing.assert_allclose(ratio, ratio[:1].repeat(60, axis=0), rtol=1e-6)
    assert ((ratio[0] > 0) & (ratio[0] < 1)).all()
    assert error(estimates.means, truth) < error(tally.means, truth)


def test_an_arm_that_has_seen_every_example_is_known_exactly() -> None:
    x, _, tally = problem(30, 5, smooth=1.0, own=0.3)
    estimates = BLUP().estimate(Sample(tally, np.arange(30), x, population=5))
    np.testing.assert_allclose(estimates.means, tally.means, atol=1e-6)
    np.testing.assert_allclose(estimates.standard_errors, 0.0, atol=1e-3)


def test_unpulled_arms_are_predicted_with_larger_errors() -> None:
    x, truth, _ = problem(64, 1, smooth=1.0, own=0.0)
    arms = np.repeat(np.arange(50), 4)
    noise = 0.3 * np.random.default_rng(1).normal(size=(len(arms), 2))
    tally = Tally.empty(64, 2).plus(arms, truth[arms] + noise)
    estimates = BLUP().estimate(Sample(tally, np.arange(64), x))
    assert estimates.standard_errors[50:].mean() > estimates.standard_errors[:50].mean()
    assert error(estimates.means[50:], truth[50:]) < 0.6 * truth[50:].std()


@pytest.mark.parametrize("pulls", [1, 4])
def test_standard_errors_are_calibrated(pulls: int) -> None:
    scores = []
    for seed in range(6):
        x, truth, tally = problem(60, pulls, smooth=1.0, own=0.3, seed=seed)
        prediction = BLUP().predict(tally, x)
        scores.append((((prediction.means - truth) / prediction.standard_errors) ** 2).mean())
    assert 0.6 < np.mean(scores) < 1.6


def noisy(noise: np.ndarray, pulls: int, seed: int = 0) -> Tally:
    arms = np.repeat(np.arange(len(noise)), pulls)
    return Tally.empty(len(noise), 1).plus(arms, np.random.default_rng(seed).normal(0, noise[arms])[:, None])


def test_arms_that_differ_in_noise_are_told_apart_as_far_as_their_scores_allow() -> None:
    noise = np.repeat([0.1, 1.0, 2.0], 30)
    for pulls, closeness in ((3, 0.7), (30, 0.15)):
        found = np.sqrt(_relative_noise(noisy(noise, pulls))[:, 0].reshape(3, 30).mean(axis=1))
        true = np.array([0.1, 1.0, 2.0]) / np.sqrt((noise**2).mean())
        assert np.abs(np.log(found[1:] / true[1:])).max() < closeness
        assert found[0] < found[1] < found[2]
    equal = np.mean([_relative_noise(noisy(np.ones(90), 3, seed)).std() for seed in range(20)])
    assert equal < 0.25  # sample variances of three scores have a deviation of 1


def test_the_credibility_of_sample_variances_by_hand() -> None:
    # Sample variances 0 and 8 of three scores each: pooled 4, spread 16, of that 2 * 16 / 2 by chance, so none between.
    arms = np.repeat(np.arange(10), 3)
    pattern = np.tile([0.0, 2.0], 5)[arms] * np.tile([-np.sqrt(2), 0.0, np.sqrt(2)], 10)
    assert np.all(_relative_noise(Tally.empty(10, 1).plus(arms, pattern[:, None])) == 1.0)
    # With nine scores each, pooled 4 again, chance is 1 / 4: between (16 - 4) / 1.25 = 9.6, trust 9.6 / 16.
    arms = np.repeat(np.arange(10), 9)
    pattern = np.tile([0.0, np.sqrt(8)], 5)[arms] * np.tile(np.array([-1.0] * 4 + [0.0] + [1.0] * 4), 10)
    found = _relative_noise(Tally.empty(10, 1).plus(arms, pattern[:, None]))
    np.testing.assert_allclose(found[:, 0], np.tile([0.4, 1.6], 5))


@pytest.mark.parametrize("score", [lambda rng: rng.random(300) < 0.95, lambda rng: np.full(300, 0.3)])
def test_of_scores_of_0_and_1_and_of_constants_every_arm_has_the_same_noise(score: object) -> None:
    scores = np.asarray(score(np.random.default_rng(0)), dtype=float)[:, None]  # type: ignore[operator]
    assert np.all(_relative_noise(Tally.empty(100, 1).plus(np.repeat(np.arange(100), 3), scores)) == 1.0)


def test_arms_without_noise_are_shrunk_less() -> None:
    truth = np.tile([-0.3, 0.3], 30)
    quiet = noisy(np.repeat([0.0, 2.0], 30), 10)
    tally = Tally(quiet.counts, quiet.first + truth[:, None], quiet.sums, quiet.squares)
    means = BLUP().predict(tally, np.zeros((60, 5))).means[:, 0]
    kept = (means[1:30:2] - means[0:30:2]) / 0.6
    assert kept.min() > 0.45  # .25 if all arms had the same noise
    assert np.std(means[30:]) < 0.7 * np.std(tally.means[30:, 0])


def test_low_rank_agrees_with_exact() -> None:
    x, _, tally = problem(150, 2, smooth=1.0, own=0.3)
    exact = BLUP().predict(tally, x)
    landmarks_everywhere = BLUP(max_exact=1).predict(tally, x)
    np.testing.assert_allclose(landmarks_everywhere.means, exact.means, atol=1e-4)
    np.testing.assert_allclose(landmarks_everywhere.standard_errors, exact.standard_errors, rtol=1e-3)
    few = BLUP(max_fit=100, max_exact=1).predict(tally, x)
    assert error(few.means, exact.means) < 0.1 * exact.means.std()


@pytest.mark.parametrize("value", [0.0, 0.3, 1e6])
def test_a_constant_metric_stays_constant(value: float) -> None:
    x, _, _ = problem(20, 1, smooth=1.0, own=0.0)
    tally = Tally.empty(20, 2).plus(np.repeat(np.arange(20), 2), np.full((40, 2), value))
    estimates = BLUP().estimate(Sample(tally, np.arange(20), x))
    np.testing.assert_allclose(estimates.means, value, rtol=1e-12)
    np.testing.assert_array_equal(estimates.standard_errors, 0.0)


def test_units_and_shifts_of_a_metric_do_not_matter() -> None:
    x, _, tally = problem(40, 3, smooth=1.0, own=0.3)
    moved = Tally(tally.counts, 1000 * tally.first + 5, 1000 * tally.sums, 1e6 * tally.squares)
    one, other = BLUP().predict(tally, x), BLUP().predict(moved, x)
    np.testing.assert_allclose(1000 * one.means + 5, other.means, rtol=1e-4)
    np.testing.assert_allclose(1000 * one.standard_errors, other.standard_errors, rtol=1e-3)


def test_one_pull_is_enough() -> None:
    tally = Tally.empty(5, 2).plus(np.array([3]), np.array([[0.4, 7.0]]))
    estimates = BLUP().estimate(Sample(tally, np.arange(5), np.eye(5)))
    np.testing.assert_allclose(estimates.means, [[0.4, 7.0]] * 5, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100, -1e100])
def test_relative_noise_has_no_units(scale: float) -> None:
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(20), 4)
    scores = rng.normal(size=(80, 1)) * np.repeat(rng.uniform(0.1, 3.0, 20), 4)[:, None]
    unit, scaled = (_relative_noise(Tally.empty(20, 1).plus(arms, scores * by)) for by in (1.0, scale))
    np.testing.assert_allclose(scaled, unit)
    assert unit.std() > 0.1
