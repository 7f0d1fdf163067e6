"""The two-way posterior against dense Gaussian conditioning and textbook formulas."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.numerics.cells import Cells
from asktell.posterior import equations, two_way
from asktell.posterior.equations import System
from asktell.posterior.two_way import Posterior, Variances, posterior
from tests.seeds import Seeds

Matrix = npt.NDArray[np.float64]


def covariance(fit: Posterior) -> Matrix:
    linear = fit.draws(np.eye(fit.n_normals)) - fit.mean
    return np.asarray(linear.T @ linear)


def dense(
    cells: Cells, n_arms: int, n_examples: int, v: Variances
) -> tuple[Matrix, Matrix]:
    """Condition the Gaussian of all K N cells on those known, then average over the examples."""
    level = 1e6  # the variance of the flat prior
    loose = np.where(
        cells.examples < 0, n_examples + np.arange(len(cells.examples)), cells.examples
    )
    arms = np.concatenate((np.repeat(np.arange(n_arms), n_examples), cells.arms))
    examples = np.concatenate((np.tile(np.arange(n_examples), n_arms), loose))
    same_arm, same_example = arms[:, None] == arms, examples[:, None] == examples
    prior = (
        level
        + v.prompt * same_arm
        + v.example * same_example
        + v.residual * (same_arm & same_example)
    )
    g, o = slice(0, n_arms * n_examples), slice(n_arms * n_examples, None)
    y = cells.scores[:, 0]
    gain = np.linalg.solve(prior[o, o], prior[o, g]).T
    mean, cov = y.mean() + gain @ (y - y.mean()), prior[g, g] - gain @ prior[o, g]
    average = np.kron(np.eye(n_arms), np.full((1, n_examples), 1 / n_examples))
    return average @ mean, average @ cov @ average.T


def dense_with_noise(
    arms: Matrix,
    examples: Matrix,
    y: Matrix,
    n_arms: int,
    n_examples: int,
    v: Variances,
    noise: float,
) -> tuple[Matrix, Matrix]:
    """The same from single scores: a cell's own part of the residual is common to its scores, the noise is not."""
    level, n = 1e6, n_arms * n_examples
    all_arms = np.concatenate((np.repeat(np.arange(n_arms), n_examples), arms))
    all_examples = np.concatenate((np.tile(np.arange(n_examples), n_arms), examples))
    same_arm, same_example = (
        all_arms[:, None] == all_arms,
        all_examples[:, None] == all_examples,
    )
    own = (1.0 - noise) * v.residual
    prior = (
        level
        + v.prompt * same_arm
        + v.example * same_example
        + own * (same_arm & same_example)
    )
    g, o = slice(0, n), slice(n, None)
    gain = np.linalg.solve(
        prior[o, o] + noise * v.residual * np.eye(len(y)), prior[o, g]
    ).T
    mean, cov = y.mean() + gain @ (y - y.mean()), prior[g, g] - gain @ prior[o, g]
    average = np.kron(np.eye(n_arms), np.full((1, n_examples), 1 / n_examples))
    return average @ mean, average @ cov @ average.T


def some_cells(rng: np.random.Generator, n_arms: int, n_examples: int, n: int) -> Cells:
    chosen = rng.permutation(n_arms * n_examples)[:n]
    return Cells.of(
        chosen // n_examples, chosen % n_examples, rng.normal(size=(n, 1)), n_examples
    )


def given_variances(
    cells: Cells, n_arms: int, n_examples: int | None, v: Variances
) -> Posterior:
    """The posterior with these variances instead of the most likely ones."""
    spread = cells.scores.std() ** 2
    if cells.is_noisy:
        spread += (cells.squares[:, 0] / cells.asks).mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            two_way, "reml", lambda *_: Variances(*(part / spread for part in v))
        )
        return posterior(cells, 0, n_arms, n_examples, averaged=False)


@pytest.mark.parametrize(
    ("n_arms", "n_examples", "n"),
    [(3, 6, 9), (7, 3, 12), (5, 5, 25), (1, 5, 3), (4, 1, 3)],
)
def test_it_is_dense_gaussian_conditioning(
    n_arms: int, n_examples: int, n: int
) -> None:
    cells, v = (
        some_cells(np.random.default_rng(1), n_arms, n_examples, n),
        Variances(0.3, 0.5, 0.2),
    )
    fit = given_variances(cells, n_arms, n_examples, v)
    mean, cov = dense(cells, n_arms, n_examples, v)
    np.testing.assert_allclose(fit.mean, mean, atol=1e-5)
    np.testing.assert_allclose(covariance(fit), cov, atol=1e-5)
    np.testing.assert_allclose(fit.sd**2, np.diag(cov), atol=1e-5)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.integers(2, 12))
@settings(max_examples=40)
def test_scores_on_foreign_examples_inform_the_level_only(
    seed: int, n_arms: int, n_examples: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    known = some_cells(rng, n_arms, n_examples, min(n, n_arms * n_examples))
    foreign = rng.random(len(known.arms)) < 0.4
    cells = Cells.single(
        known.arms, np.where(foreign, -1, known.examples), known.scores
    )
    v = Variances(0.3, 0.5, 0.2)
    if np.std(cells.scores) == 0:
        return
    fit = given_variances(cells, n_arms, n_examples, v)
    mean, cov = dense(cells, n_arms, n_examples, v)
    np.testing.assert_allclose(fit.mean, mean, atol=1e-5)
    np.testing.assert_allclose(covariance(fit), cov, atol=1e-5)


@pytest.mark.parametrize(
    ("n_arms", "n_examples", "n"), [(3, 6, 20), (7, 3, 40), (2, 4, 30), (4, 1, 9)]
)
@pytest.mark.parametrize("foreign", [False, True])
def test_with_noise_it_is_dense_conditioning_on_single_scores(
    n_arms: int, n_examples: int, n: int, foreign: bool
) -> None:
    rng, v = np.random.default_rng(1), Variances(0.3, 0.5, 0.2)
    arms, examples, y = (
        rng.integers(0, n_arms, n),
        rng.integers(0, n_examples, n),
        rng.normal(size=n),
    )
    named = examples
    if foreign:
        examples = np.where(np.arange(n) < 4, -1, examples)
        named = np.where(examples < 0, n_examples + np.arange(n), examples)
    cells = Cells.of(arms, examples, y[:, None], n_examples, is_noisy=True)
    fit = given_variances(cells, n_arms, n_examples, v)
    assert 0.0 < fit.noise <= 0.999
    mean, cov = dense_with_noise(arms, named, y, n_arms, n_examples, v, fit.noise)
    np.testing.assert_allclose(fit.mean, mean, atol=1e-5)
    np.testing.assert_allclose(covariance(fit), cov, atol=1e-5)


def test_noise_is_recovered_and_no_prompt_is_known_exactly() -> None:
    rng = np.random.default_rng(5)
    n_arms, n_examples, v, noise = 8, 40, Variances(0.5, 2.0, 1.0), 0.6
    truth = (
        rng.normal(0, v.prompt**0.5, (n_arms, 1))
        + rng.normal(0, v.example**0.5, (1, n_examples))
        + rng.normal(0, ((1 - noise) * v.residual) ** 0.5, (n_arms, n_examples))
    )
    cells = np.arange(n_arms * n_examples)
    cells = np.concatenate((cells, cells, cells[rng.random(len(cells)) < 0.5]))
    arms, examples = np.divmod(cells, n_examples)
    y = truth[arms, examples] + rng.normal(0, (noise * v.residual) ** 0.5, len(arms))
    fit = posterior(
        Cells.of(arms, examples, y[:, None], n_examples, is_noisy=True),
        0,
        n_arms,
        n_examples,
    )
    assert fit.noise == pytest.approx(noise, abs=0.15)
    assert fit.variances[2] == pytest.approx(v.residual, rel=0.3)
    assert (fit.sd > 0.03).all()  # sqrt(.6 / 100) at least, about
    assert (np.abs(fit.mean - truth.mean(axis=1)) < 4 * fit.sd).all()


def test_scores_that_differ_in_a_cell_are_noise_even_where_none_was_expected() -> None:
    rng = np.random.default_rng(6)
    arms, examples = np.divmod(np.tile(np.arange(12), 2), 4)
    base = rng.normal(size=12)
    same = Cells.of(arms, examples, np.tile(base, 2)[:, None], 4)
    assert not same.is_noisy
    assert (posterior(same, 0, 3, 4).sd == 0.0).all()
    differ = Cells.of(
        arms, examples, (np.tile(base, 2) + rng.normal(0, 0.3, 24))[:, None], 4
    )
    assert (posterior(differ, 0, 3, 4).sd > 0.0).all()


def test_equal_scores_of_noisy_cells_are_not_certain_of_the_next() -> None:
    arms, examples = np.divmod(np.arange(8), 4)
    cells = Cells.of(arms, examples, np.ones((8, 1)), 4, is_noisy=True)
    fit = posterior(cells, 0, 2, 4, limits=(0.0, 1.0))
    np.testing.assert_allclose(fit.sd, np.sqrt(1 / (9 * 5)))
    assert (
        posterior(
            Cells.of(arms, examples, np.ones((8, 1)), 4), 0, 2, 4, limits=(0.0, 1.0)
        ).sd
        == 0.0
    ).all()


def test_without_examples_it_is_the_one_way_model() -> None:
    rng = np.random.default_rng(2)
    arms = np.array([0, 0, 0, 1, 1, 2])
    y = rng.normal(size=6)
    t, s = 0.4, 0.9
    cells = Cells.of(arms, np.full(6, -1), y[:, None], None)
    fit = given_variances(cells, 4, None, Variances(t, 1.0, s))
    counts = np.bincount(arms, minlength=3)
    means = np.bincount(arms, y) / counts
    weights = 1 / (t + s / counts)
    level = weights @ means / weights.sum()
    shrink = t / (t + s / counts)
    np.testing.assert_allclose(
        fit.mean[:3], level + shrink * (means - level), atol=1e-9
    )
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
    fit = posterior(
        Cells.of(arms, examples, y[arms, examples][:, None], n_examples),
        0,
        n_arms,
        n_examples,
    )
    np.testing.assert_allclose(fit.variances, v, rtol=0.5)
    errors = (fit.mean - y.mean(axis=1)) / fit.sd
    assert 0.6 < np.sqrt((errors**2).mean()) < 1.5


@pytest.mark.parametrize(
    ("n_arms", "n_examples", "part"),
    [(30, 20, 0.1), (30, 90, 0.05), (12, 40, 0.6), (90, 8, 0.5)],
)
def test_the_variances_are_those_where_em_ends(
    n_arms: int, n_examples: int, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n_examples)
    arms, examples = np.nonzero(rng.random((n_arms, n_examples)) < part)
    y = (
        rng.normal(size=n_arms)[arms]
        + rng.normal(size=n_examples)[examples]
        + rng.normal(size=len(arms))
    )
    system = System(arms, examples, (y - y.mean()) / y.std(), n_arms, n_examples)
    solved = []
    monkeypatch.setattr(
        System,
        "solve",
        lambda s, v, solve=System.solve: solved.append(v) or solve(s, v),
    )
    found = two_way.reml(system)
    assert len(solved) <= 12
    for name, number in {"_STEPS": 2000, "_NEAR": 0.0, "_CONVERGED": 1e-9}.items():
        monkeypatch.setattr(two_way, name, number)
    np.testing.assert_allclose(found, two_way.reml(system), rtol=0.02)


@pytest.mark.parametrize("rates", [(0.5,), (0.9, 0.2), (0.95, 0.6, 0.1)])
def test_a_linear_fixed_point_is_found_in_fewer_steps_than_by_iteration(
    rates: tuple[float, ...],
) -> None:
    end, slopes, calls = np.linspace(-0.5, 0.3, len(rates)), np.array(rates), []

    def step(at: Matrix) -> Matrix:
        calls.append(at)
        return end + slopes * (at - end)

    found = two_way.fixed_point(step, end + 1.0)
    assert len(calls) <= 16
    off = np.abs(found - end).max()
    assert off < 0.05
    # Plain iteration shrinks the slowest part by the largest rate per call.
    assert off < max(rates) ** len(calls) + 1e-9


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    rng = np.random.default_rng(5)
    cells = some_cells(rng, 6, 8, 30)
    one = posterior(cells, 0, 6, 8)
    other = posterior(cells._replace(scores=scale * cells.scores), 0, 6, 8)
    np.testing.assert_allclose(other.mean, scale * one.mean, rtol=1e-6)
    np.testing.assert_allclose(other.sd, scale * one.sd, rtol=1e-6)


def test_a_constant_metric_may_yet_change() -> None:
    cells = Cells.of(
        np.array([0, 1, 2, 2]), np.array([0, 1, 2, 3]), np.full((4, 1), -0.5), 4
    )
    fit = posterior(cells, 0, 4, 4)
    assert fit.mean.tolist() == [-0.5] * 4
    # 4 cells in all; 1, 1, 2 and 0 of them the prompt's, so 3/4, 3/4, 1/2 and all of
    # the examples are unknown.
    expected = 0.5 * np.sqrt([0.75 / (5 * 2), 0.75 / (5 * 2), 0.5 / (5 * 3), 1 / 5])
    np.testing.assert_allclose(fit.sd, expected)
    np.testing.assert_allclose(
        posterior(cells, 0, 4, 4, limits=(-1.0, 1.0)).sd, 4 * expected
    )
    normals = np.random.default_rng(0).normal(size=(4000, fit.n_normals))
    np.testing.assert_allclose(fit.draws(normals).std(axis=0), expected, rtol=0.05)
    decides = posterior(cells, 0, 4, 4, averaged=False)
    # Equals, among which chance decides
    assert decides.draws(normals[:2]).tolist() == [[-0.5] * 4] * 2


def test_scores_of_no_simple_value_that_agree_are_of_a_metric_without_noise() -> None:
    """A fixed cost is known after a few evaluations; answers that were all right so far have only agreed."""
    arms, examples = np.repeat([0, 1, 2], 4), np.tile(np.arange(4), 3)
    cost, right, top = (
        posterior(
            Cells.of(arms, examples, np.full((12, 1), score), 60),
            0,
            3,
            60,
            limits=limits,
        ).sd
        / score
        for score, limits in ((8e-5, None), (1.0, None), (0.9, (0.0, 0.9)))
    )
    assert cost.max() < 0.02
    assert right.min() > 0.1
    assert top.min() > 0.1


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("n", [5, 20])
def test_errors_of_few_prompts_follow_from_their_scores(k: int, n: int) -> None:
    """And not from how far the prompts are apart: scores without noise once had errors of a third of that."""
    off, stated = [], []
    for seed in range(20):
        y = 0.5 + 0.1 * np.random.default_rng(seed).normal(size=(k, 1))
        y = y + 0.003 * np.random.default_rng(seed + 100).normal(size=(k, 50))
        arms, examples = np.repeat(np.arange(k), n), np.tile(np.arange(n), k)
        fit = posterior(
            Cells.of(arms, examples, y[arms, examples][:, None], 50), 0, k, 50
        )
        off.append(np.abs(fit.mean - y.mean(axis=1)))
        stated.append(fit.sd)
    assert np.max(stated) < 0.02
    assert np.mean(np.array(off) <= 1.96 * np.array(stated)) > 0.9


def test_the_error_of_a_constant_metric_falls_with_the_evaluations_and_ends_at_zero() -> (
    None
):
    errors = []
    for n in range(2, 11):
        cells = Cells.of(np.zeros(n, dtype=int), np.arange(n), np.ones((n, 1)), 10)
        errors.append(posterior(cells, 0, 1, 10).sd[0])
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == 0.0 < errors[-2]
    endless = Cells.of(np.zeros(19, dtype=int), np.full(19, -1), np.ones((19, 1)), None)
    # About the chance of another score next
    assert posterior(endless, 0, 1, None).sd[0] == pytest.approx(1 / 20)


@pytest.mark.parametrize("score", [0.0, 3.0])
def test_no_error_where_nothing_supports_one(score: float) -> None:
    # The same cell, twice
    one = Cells.of(np.array([1, 1]), np.array([2, 2]), np.full((2, 1), score), 5)
    assert np.isnan(posterior(one, 0, 3, 5).sd).all()
    zeros = Cells.of(np.array([0, 1]), np.array([2, 2]), np.zeros((2, 1)), 5)
    # Of what size would another score be?
    assert np.isnan(posterior(zeros, 0, 3, 5).sd).all()
    assert np.isfinite(posterior(zeros, 0, 3, 5, limits=(0.0, 1.0)).sd).all()
    assert (
        posterior(
            Cells.of(np.array([1]), np.array([0]), np.ones((1, 1)), 1), 0, 3, 1
        ).sd[1]
        == 0.0
    )


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
    cells = some_cells(rng, 5, 9, 20)
    fit = given_variances(cells, 5, 9, Variances(0.2, 0.5, 0.4))
    draws = fit.draws(rng.normal(size=(40_000, fit.n_normals)))
    np.testing.assert_allclose(
        draws.mean(axis=0), fit.mean, atol=5 * fit.sd.max() / 200
    )
    np.testing.assert_allclose(
        np.cov(draws.T), covariance(fit), atol=0.05 * fit.sd.max() ** 2
    )


@pytest.mark.parametrize("n_arms", [5, 200])
def test_draws_of_a_mixture_have_its_mean_and_deviation(n_arms: int) -> None:
    rng = np.random.default_rng(8)
    fit = posterior(some_cells(rng, n_arms, 9, 3 * n_arms), 0, n_arms, 9)
    assert len(fit.parts) > 1
    draws = fit.draws(rng.normal(size=(40_000, fit.n_normals)))
    np.testing.assert_allclose(
        draws.mean(axis=0), fit.mean, atol=5 * fit.sd.max() / 200
    )
    np.testing.assert_allclose(draws.std(axis=0), fit.sd, rtol=0.05)
    # Every part has its share of few draws too
    few = fit.draws(rng.normal(size=(64, fit.n_normals)))
    np.testing.assert_allclose(few.mean(axis=0), fit.mean, atol=5 * fit.sd.max() / 8)


@pytest.mark.parametrize(
    ("n_arms", "n_pulls", "share", "shares"),
    [
        # One pull each: nothing tells the prompt's effect from the residual
        (100, 1, 8, (0.05, 0.6, 0.35)),
        (100, 1, 8, (0.35, 0.15, 0.5)),
        # All on one example: nothing tells how much examples differ
        (100, 1, 100, (0.05, 0.6, 0.35)),
        (100, 3, 8, (0.01, 0.4, 0.59)),
        (10, 1, 5, (0.05, 0.6, 0.35)),
        (3, 2, 3, (0.35, 0.15, 0.5)),
    ],
)
def test_intervals_cover_the_truth_from_the_start(
    seeds: Seeds,
    n_arms: int,
    n_pulls: int,
    share: int,
    shares: tuple[float, float, float],
) -> None:
    covered = []
    for seed in seeds(40):
        rng = np.random.default_rng(seed)
        a, b, e = np.sqrt(shares)
        y = (
            a * rng.normal(size=(n_arms, 1))
            + b * rng.normal(size=(1, 300))
            + e * rng.normal(size=(n_arms, 300))
        )
        used = max(n_pulls, n_arms * n_pulls // share)
        arms = np.repeat(np.arange(n_arms), n_pulls)
        examples = (arms + np.tile(np.arange(n_pulls), n_arms)) % used
        fit = posterior(
            Cells.of(arms, examples, y[arms, examples][:, None], 300), 0, n_arms, 300
        )
        covered.append(
            np.abs(y.mean(axis=1) - fit.mean)[:, None] <= fit.sd[:, None] * [1.0, 1.96]
        )
    within = np.mean(covered, axis=(0, 1))
    wide = np.sqrt(40 / len(covered))
    assert within[0] > 0.68 - 0.13 * wide
    assert within[1] > 0.95 - 0.09 * wide


@pytest.mark.parametrize("foreign", [False, True])
def test_large_and_sparse_tables_give_the_same(
    monkeypatch: pytest.MonkeyPatch, foreign: bool
) -> None:
    rng = np.random.default_rng(9)
    cells = some_cells(rng, 30, 12, 60)
    if foreign:
        cells = cells._replace(
            examples=np.where(np.arange(len(cells.arms)) < 3, -1, cells.examples)
        )
    dense_fit = posterior(cells, 0, 30, 12)
    monkeypatch.setattr(equations, "_LARGE", 1)
    monkeypatch.setattr(equations, "_LAPACK_FROM", 1)
    fit = posterior(cells, 0, 30, 12)
    np.testing.assert_allclose(fit.mean, dense_fit.mean, atol=1e-8)
    np.testing.assert_allclose(fit.sd, dense_fit.sd, rtol=1e-6)
    normals = rng.normal(size=(50, fit.n_normals))
    np.testing.assert_allclose(fit.draws(normals), dense_fit.draws(normals), atol=1e-5)


def test_two_different_scores_of_a_single_cell_have_an_error() -> None:
    arms, examples, scores = (
        np.array([0, 0]),
        np.array([0, 0]),
        np.array([[0.0], [1.0]]),
    )
    fit = posterior(Cells.of(arms, examples, scores, 3), 0, 2, 3)
    assert np.isfinite(fit.sd).all()
    assert (fit.sd > 0).all()
    assert fit.mean[0] == pytest.approx(0.5)


@pytest.mark.parametrize("averaged", [False, True])
def test_errors_are_those_of_the_samples_where_no_example_is_common(
    averaged: bool,
) -> None:
    rng = np.random.default_rng(0)
    means, per_arm, n_examples = np.array([0.0, 5.0, 5.0, -1.0]), 20, 1000
    arms = np.repeat(np.arange(4), per_arm)
    examples = rng.permutation(n_examples)[: len(arms)]
    y = means[arms] + 0.1 * rng.normal(size=len(arms))
    fit = posterior(
        Cells.of(arms, examples, y[:, None], n_examples, False),
        0,
        4,
        n_examples,
        None,
        averaged,
    )
    textbook = 0.1 / np.sqrt(per_arm)
    assert (0.5 * textbook < fit.sd).all()
    # Variances are guessed, and the level is common
    assert (fit.sd < 3.0 * textbook).all()


def test_arms_without_a_cell_change_nothing_of_the_others() -> None:
    rng = np.random.default_rng(3)
    arms, examples = np.repeat([4, 1, 7], 6), np.tile(np.arange(6), 3)
    cells = Cells.single(arms, examples, rng.normal(size=(18, 1)))
    few = Cells.single(np.repeat([1, 0, 2], 6), examples, cells.scores)
    many, alone = two_way.posterior(cells, 0, 50, 20), two_way.posterior(few, 0, 3, 20)
    np.testing.assert_allclose(many.variances, alone.variances, rtol=1e-6)
    np.testing.assert_allclose(many.mean[[1, 4, 7]], alone.mean, rtol=1e-6)


def test_errors_of_few_cells_are_never_multiples_of_the_scores() -> None:
    """Where cells do not separate the residual from the effects, a variance of a million residuals is no guess."""
    rng = np.random.default_rng(4)
    for _ in range(150):
        n_arms, n_examples = int(rng.integers(2, 5)), int(rng.integers(3, 6))
        n = int(rng.integers(4, n_arms * n_examples))
        cell = rng.permutation(n_arms * n_examples)[:n]
        scores = rng.integers(0, 2, (n, 1)).astype(float)
        arms, examples = cell // n_examples, cell % n_examples
        some = Cells.of(arms, examples, scores, n_examples)
        for size in (n_examples, equations.ENDLESS):
            sd = posterior(some, 0, n_arms, size).sd
            assert np.nanmax(sd, initial=0.0) < 1.0
