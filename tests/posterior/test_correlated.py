"""Draws of several metrics: the correlations of levels, prompts and errors."""

import numpy as np
import pytest

import asktell
from asktell.numerics.cells import Cells
from asktell.posterior.correlation import (
    _correlations,
    _effects,
    join,
    of_scores,
)
from asktell.posterior.of_state import stated


def cells(scores: np.ndarray, n_examples: int) -> Cells:
    arms, examples = (x.ravel() for x in np.indices((len(scores), n_examples)))
    return Cells.single(arms, examples, scores.reshape(-1, scores.shape[2]))


def test_the_correlation_is_that_within_prompts_shrunk_to_independence() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 6, 2))
    # The other way round between prompts
    scores[:, :, 1] = -2 * scores[:, :, 0] + 100 * np.arange(4)[:, None]
    found = of_scores(cells(scores, 6), 4)[0]
    np.testing.assert_allclose(found, [[1, -20 / 30], [-20 / 30, 1]])


def test_what_does_not_vary_and_single_scores_are_independent() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 6, 3))
    scores[:, :, 1] = 0.1
    np.testing.assert_array_equal(of_scores(cells(scores, 6), 4)[0][1], [0, 1, 0])
    np.testing.assert_array_equal(of_scores(cells(scores[:, :1], 1), 4)[0], np.eye(3))
    np.testing.assert_array_equal(
        of_scores(cells(scores[:, :, :1], 6), 4)[0], np.eye(1)
    )


def test_the_correlation_of_errors_is_without_effects_of_prompts_and_examples() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(5, 9, 2))
    scores[:, :, 1] = -2 * scores[:, :, 0]
    scores += 50 * rng.normal(size=(5, 1, 1)) + 50 * rng.normal(size=(1, 9, 1))
    freedom = (5 - 1) * (9 - 1)
    off = -freedom / (freedom + 10)
    found = of_scores(cells(scores, 9), 5)[1]
    np.testing.assert_allclose(found, [[1, off], [off, 1]])
    # Without examples, an error is what a score is off its prompt's mean.
    new = cells(scores, 9)._replace(examples=np.full(45, -1))
    np.testing.assert_array_equal(*of_scores(new, 5))
    single = cells(scores[:, :1], 1)
    np.testing.assert_array_equal(of_scores(single, 5)[1], np.eye(2))


def observations(rho: float, noise: float, n: int, seed: int) -> np.ndarray:
    """(2, n) effects of deviation 1 and correlation rho, observed with errors."""
    rng = np.random.default_rng(seed)
    effects = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n).T
    return np.asarray(effects + np.sqrt(noise) * rng.normal(size=(2, n)))


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_rho_is_the_prior_without_scores_and_the_truth_with_many(
    signs: tuple[int, int],
) -> None:
    direction, eye = float(np.prod(signs)), np.eye(2)
    noise = np.full((2, 300), 49.0)
    unknown = _correlations(0 * noise, noise, eye, np.array(signs), 0)[:, 0, 1]
    assert np.median(direction * unknown) == pytest.approx(np.tanh(-0.4), abs=0.01)
    assert np.std(np.arctanh(unknown)) == pytest.approx(0.5, abs=0.1)
    for rho in (-0.8, 0.0, 0.5):
        seen = observations(direction * rho, 0.5, 300, seed=1)
        noise = np.full((2, 300), 0.5)
        learned = _correlations(seen, noise, eye, np.array(signs), 0)[:, 0, 1]
        assert direction * learned.mean() == pytest.approx(rho, abs=0.12)
        assert learned.std() < 0.2


def test_correlations_of_three_metrics_are_a_correlation_matrix() -> None:
    noise = np.full((3, 4), 49.0)
    found = _correlations(0 * noise, noise, np.eye(3), np.ones(3), 0)
    assert np.linalg.eigvalsh(found).min() > 0.04
    np.testing.assert_array_equal(np.diagonal(found, axis1=1, axis2=2), 1.0)
    assert (np.triu(found, 1).sum(axis=(1, 2)) < 0).mean() > 0.6


def test_effects_have_the_posterior_of_a_normal_mean() -> None:
    rng = np.random.default_rng(2)
    x, noise, of_errors = rng.normal(size=(2, 3)), rng.random((2, 3)), 0.4
    errors, rho = np.array([[1, of_errors], [of_errors, 1]]), -0.7
    prior = np.array([[1, rho], [rho, 1]])
    means, roots = _effects(x, noise, errors, prior[None])
    for arm in range(3):
        own = errors * np.sqrt(np.outer(noise[:, arm], noise[:, arm]))
        precision = np.linalg.inv(prior) + np.linalg.inv(own)
        after = np.linalg.inv(precision)
        wanted = after @ np.linalg.inv(own) @ x[:, arm]
        np.testing.assert_allclose(means[0, arm], wanted)
        np.testing.assert_allclose(roots[0, arm] @ roots[0, arm].T, after, atol=1e-9)


def test_what_is_known_stays_and_what_is_unknown_follows_rho() -> None:
    """Of 40 prompts, the first metric is known, and the second of the last 20 has no score."""
    rng = np.random.default_rng(3)
    effects, n_draws = rng.normal(size=40), 400
    means = np.stack([effects, np.where(np.arange(40) < 20, -effects, 0.0)], axis=1)
    errors = np.zeros((40, 2))
    errors[20:, 1] = 1.0
    draws = means.T[:, None] + errors.T[:, None] * rng.normal(size=(2, n_draws, 40))
    before = draws.copy()
    some = cells(rng.normal(size=(40, 2, 2)), 2)
    join(draws, errors, some, np.ones(2), False, 0)
    np.testing.assert_array_equal(draws[0], before[0])
    np.testing.assert_array_equal(draws[1, :, :20], before[1, :, :20])
    slope = np.polyfit(effects[20:], draws[1, :, 20:].mean(axis=0), 1)[0]
    assert -1.1 < slope < -0.6
    assert (draws[1, :, 20:].std(axis=0) < 0.8).all()


def test_the_probability_that_both_metrics_are_good_is_calibrated() -> None:
    """Effects with a trade-off: independent metrics state a probability that is too high."""
    said, before, true = [], [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rho = np.tanh(-0.6 + 0.3 * rng.normal())
        effects = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 20)
        # One observation with the variance 1
        observed = effects + rng.normal(size=(20, 2))
        means, errors = observed / 2, np.full((20, 2), np.sqrt(0.5))
        draws = means.T[:, None] + np.sqrt(0.5) * rng.normal(size=(2, 600, 20))
        before.append(((draws > 0.5).all(axis=0)).mean(axis=0))
        some = cells(rng.normal(size=(20, 2, 2)), 2)
        join(draws, errors, some, np.ones(2), True, seed)
        said.append(((draws > 0.5).all(axis=0)).mean(axis=0))
        true.append((effects > 0.5).all(axis=1))
    off, off_before = np.mean(said) - np.mean(true), np.mean(before) - np.mean(true)
    assert abs(off) < 0.02 < off_before
    brier, brier_before = ((np.array(p) - true) ** 2 for p in (said, before))
    assert brier.mean() < brier_before.mean()


@pytest.mark.parametrize("sign", [-1, 1])
def test_metrics_that_go_together_are_stated_to(sign: int) -> None:
    rng = np.random.default_rng(2)
    selector = asktell.Selector(
        list("abcde"), asktell.ParetoSet("x", "y"), 100, examples=50
    )
    for prompt in "abcde":
        for example, x in enumerate(rng.normal(size=20)):
            selector.observe(
                prompt, [x, sign * x + 0.1 * rng.normal()], example=example
            )
    found = stated(selector.state)
    assert found is not None
    values = found.values - found.values.mean(axis=0)
    correlation = np.corrcoef(values[:, :, 0].ravel(), values[:, :, 1].ravel())[0, 1]
    assert sign * correlation > 0.5
