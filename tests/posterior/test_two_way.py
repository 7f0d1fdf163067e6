"""The two-way posterior against dense Gaussian conditioning and textbook formulas."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.posterior.two_way import Cells, Posterior, Variances, posterior

Matrix = npt.NDArray[np.float64]


def covariance(fit: Posterior) -> Matrix:
    return np.asarray(fit.factor @ fit.factor.T + np.diag(fit.own**2))


def dense(cells: Cells, n_arms: int, n_examples: int, v: Variances) -> tuple[Matrix, Matrix]:
    """Condition the Gaussian of all K N cells on those known, then average over the examples."""
    level = 1e6  # the variance of the flat prior
    loose = np.where(cells.examples < 0, n_examples + np.arange(len(cells.examples)), cells.examples)
    arms = np.concatenate((np.repeat(np.arange(n_arms), n_examples), cells.arms))
    examples = np.concatenate((np.tile(np.arange(n_examples), n_arms), loose))
    same_arm, same_example = arms[:, None] == arms, examples[:, None] == examples
    prior = level + v.prompt * same_arm + v.example * same_example + v.residual * (same_arm & same_example)
    g, o = slice(0, n_arms * n_examples), slice(n_arms * n_examples, None)
    y = cells.scores[:, 0]
    gain = np.linalg.solve(prior[o, o], prior[o, g]).T
    mean, cov = y.mean() + gain @ (y - y.mean()), prior[g, g] - gain @ prior[o, g]
    average = np.kron(np.eye(n_arms), np.full((1, n_examples), 1 / n_examples))
    return average @ mean, average @ cov @ average.T


def some_cells(rng: np.random.Generator, n_arms: int, n_examples: int, n: int) -> Cells:
    chosen = rng.permutation(n_arms * n_examples)[:n]
    return Cells.of(chosen // n_examples, chosen % n_examples, rng.normal(size=(n, 1)), n_examples)


@pytest.mark.parametrize(("n_arms", "n_examples", "n"), [(3, 6, 9), (7, 3, 12), (5, 5, 25), (1, 5, 3), (4, 1, 3)])
def test_it_is_dense_gaussian_conditioning(n_arms: int, n_examples: int, n: int) -> None:
    cells, v = some_cells(np.random.default_rng(1), n_arms, n_examples, n), Variances(0.3, 0.5, 0.2)
    fit = posterior(cells, 0, n_arms, n_examples, v)
    mean, cov = dense(cells, n_arms, n_examples, v)
    np.testing.assert_allclose(fit.mean, mean, atol=1e-5)
    np.testing.assert_allclose(covariance(fit), cov, atol=1e-5)
    np.testing.assert_allclose(fit.sd**2, np.diag(cov), atol=1e-5)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.integers(2, 12))
@settings(max_examples=40)
def test_scores_on_foreign_examples_inform_the_level_only(seed: int, n_arms: int, n_examples: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    known = some_cells(rng, n_arms, n_examples, min(n, n_arms * n_examples))
    foreign = rng.random(len(known.arms)) < 0.4
    cells = Cells(known.arms, np.where(foreign, -1, known.examples), known.scores)
    v = Variances(0.3, 0.5, 0.2)
    if np.std(cells.scores) == 0:
        return
    fit = posterior(cells, 0, n_arms, n_examples, v)
    mean, cov = dense(cells, n_arms, n_examples, v)
    np.testing.assert_allclose(fit.mean, mean, atol=1e-5)
    np.testing.assert_allclose(covariance(fit), cov, atol=1e-5)


def test_without_examples_it_is_the_one_way_model() -> None:
    rng = np.random.default_rng(2)
    arms = np.array([0, 0, 0, 1, 1, 2])
    y = rng.normal(size=6)
    t, s = 0.4, 0.9
    cells = Cells.of(arms, np.full(6, -1), y[:, None], None)
    fit = posterior(cells, 0, 4, None, Variances(t, 1.0, s))
    counts = np.bincount(arms, minlength=3)
    means = np.bincount(arms, y) / counts
    weights = 1 / (t + s / counts)
    level = weights @ means / weights.sum()
    shrink = t / (t + s / counts)
    np.testing.assert_allclose(fit.mean[:3], level + shrink * (means - level), atol=1e-9)
    np.testing.assert_allclose(fit.mean[3], level, atol=1e-9)
    variance = t * (1 - shrink) + (1 - shrink) ** 2 / weights.sum()
    np.testing.assert_allclose(fit.sd[:3] ** 2, variance, atol=1e-9)
    np.testing.assert_allclose(fit.sd[3] ** 2, t + 1 / weights.sum(), atol=1e-9)


def test_a_prompt_that_has_seen_everything_is_known_exactly() -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(size=(3, 5))
    arms, examples = np.array([0] * 5 + [1, 2]), np.array([0, 1, 2, 3, 4, 2, 3])
    fit = posterior(Cells.of(arms, examples, y[arms, examples][:, None], 5), 0, 3, 5)
    assert fit.mean[0] == pytest.approx(y[0].mean(), abs=1e-12)
    assert fit.sd[0] == 0.0
    assert (fit.sd[1:] > 0).all()


def test_a_cell_scored_twice_is_one_cell() -> None:
    arms, examples = np.array([0, 1, 0, 1]), np.array([0, 0, 0, 1])
    cells = Cells.of(arms, examples, np.array([[1.0], [2.0], [3.0], [5.0]]), 4)
    assert cells.arms.tolist() == [0, 1, 1]
    assert cells.scores[:, 0].tolist() == [2.0, 2.0, 5.0]


@pytest.mark.parametrize("n_arms", [40, 80])
def test_variances_are_recovered(n_arms: int) -> None:
    rng = np.random.default_rng(4)
    n_examples = 60
    v = Variances(0.5, 2.0, 1.0)
    y = (
        10
        + rng.normal(0, v.prompt**0.5, (n_arms, 1))
        + rng.normal(0, v.example**0.5, (1, n_examples))
        + rng.normal(0, v.residual**0.5, (n_arms, n_examples))
    )
    arms, examples = np.nonzero(rng.random(y.shape) < 0.3)
    fit = posterior(Cells.of(arms, examples, y[arms, examples][:, None], n_examples), 0, n_arms, n_examples)
    np.testing.assert_allclose(fit.variances, v, rtol=0.5)
    errors = (fit.mean - y.mean(axis=1)) / fit.sd
    assert 0.6 < np.sqrt((errors**2).mean()) < 1.5


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    rng = np.random.default_rng(5)
    cells = some_cells(rng, 6, 8, 30)
    one = posterior(cells, 0, 6, 8)
    other = posterior(cells._replace(scores=scale * cells.scores), 0, 6, 8)
    np.testing.assert_allclose(other.mean, scale * one.mean, rtol=1e-6)
    np.testing.assert_allclose(other.sd, scale * one.sd, rtol=1e-6)


def test_a_constant_metric_is_known() -> None:
    cells = Cells.of(np.array([0, 1, 2]), np.array([0, 1, 2]), np.full((3, 1), 0.1), 5)
    fit = posterior(cells, 0, 4, 5)
    assert fit.mean.tolist() == [0.1] * 4
    assert fit.sd.tolist() == [0.0] * 4
    assert fit.draws(np.zeros((2, fit.n_normals))).tolist() == [[0.1] * 4] * 2


def test_an_additive_metric_without_noise_is_nearly_known() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=30), rng.normal(size=20)
    y = a[:, None] + b
    arms, examples = np.nonzero(rng.random(y.shape) < 0.2)
    fit = posterior(Cells.of(arms, examples, y[arms, examples][:, None], 20), 0, 30, 20)
    contrast = (fit.mean - fit.mean.mean()) - (a - a.mean())
    assert np.abs(contrast).max() < 0.05


def test_draws_have_the_posterior_mean_and_covariance() -> None:
    rng = np.random.default_rng(7)
    fit = posterior(some_cells(rng, 5, 9, 20), 0, 5, 9)
    draws = fit.draws(rng.normal(size=(40_000, fit.n_normals)))
    np.testing.assert_allclose(draws.mean(axis=0), fit.mean, atol=5 * fit.sd.max() / 200)
    np.testing.assert_allclose(np.cov(draws.T), covariance(fit), atol=0.05 * fit.sd.max() ** 2)
