"""Proxies in the posterior: their parts, the regression on them, and how much they may say."""

import numpy as np
import numpy.typing as npt
import pytest

from asktell.numerics.cells import Cells
from asktell.posterior.equations import ENDLESS, System, Variances
from asktell.posterior.proxies import CellScores, ProxyParts
from asktell.posterior.regressors import Regressors
from asktell.posterior.two_way import posterior
from tests.seeds import Seeds

Matrix = npt.NDArray[np.float64]
V = Variances(0.3, 0.5, 0.2)


def cells_of(table: Matrix) -> CellScores:
    """The cells of a table (K, N) that are not NaN."""
    arms, examples = np.nonzero(~np.isnan(table))
    return CellScores.of(arms, examples, table[arms, examples], *table.shape)


def table_of(scores: CellScores) -> Matrix:
    """The table (K, N) of scores, 0 where a cell has none."""
    arms, examples = np.indices((scores.n_arms, scores.n_examples))
    return scores.at(arms.ravel(), examples.ravel()).reshape(arms.shape)


def test_the_parts_of_a_complete_proxy_are_its_means_by_prompt_and_by_example() -> None:
    #       level 4, arm effects -1 and 1, example effects -2, 0 and 2, one residual pair
    table = np.array([[1.0, 3.0, 5.0], [3.0, 5.0, 7.0]])
    table[:, 0] += [0.5, -0.5]
    table[:, 2] += [-0.5, 0.5]
    parts = ProxyParts.of([cells_of(table), cells_of(np.full((2, 3), 7.0))])
    assert parts is not None
    np.testing.assert_allclose(parts.arms[:, 0], [-1.0, 1.0])
    by_example = np.array([-2.0, 0.0, 2.0])
    np.testing.assert_allclose(
        parts.examples[:, 0], by_example / np.sqrt((by_example**2).mean())
    )
    residual = np.array([[0.5, 0.0, -0.5], [-0.5, 0.0, 0.5]])
    np.testing.assert_allclose(
        table_of(parts.residuals[0]),
        residual / np.sqrt((residual**2).mean()),
        atol=1e-12,
    )
    # A proxy that does not vary has no parts
    assert not parts.arms[:, 1].any()
    assert not parts.residuals[1].values.any()
    assert ProxyParts.of([cells_of(np.full((2, 3), np.nan))]) is None


def test_a_missing_score_has_no_residual_and_few_scores_little_effect() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 8)) + np.arange(6.0)[:, None]
    table[5, 1:] = np.nan
    table[4] = np.nan
    parts = ProxyParts.of([cells_of(table)])
    assert parts is not None
    residuals = table_of(parts.residuals[0])
    assert not residuals[4].any()
    assert not residuals[5, 1:].any()
    assert parts.arms[4, 0] == pytest.approx(0.0, abs=1e-9)
    # Eight scores say more of a prompt than one
    assert 0.0 < parts.arms[5, 0] < 2.0 * parts.arms[3, 0]


def some_system(
    n_arms: int, n_examples: int, n: int, endless: bool
) -> tuple[System, Matrix, Regressors]:
    """A system with two regressors of the cells, of known scales, the scores, and the regressors."""
    rng = np.random.default_rng([n_arms, n_examples, n])
    cells = rng.permutation(n_arms * n_examples)[:n]
    arms, examples = np.divmod(cells, n_examples)
    x = rng.normal(size=(n_arms, n_examples, 2))
    means = x.mean(axis=1)
    none = np.zeros(2)
    levels = rng.normal(size=(n_arms, 2))
    regressors = Regressors(
        levels,
        x[arms, examples],
        means,
        none,
        np.zeros_like(means),
        np.array([0, 0, 1, 2]),
    )
    system = System(
        arms,
        examples,
        rng.normal(size=n),
        n_arms,
        ENDLESS if endless else n_examples,
        regressors,
    )
    system.scales[-2:] = [0.7, 1.6]
    return system, x, regressors


def dense(
    system: System, x: Matrix, n_examples: int, endless: bool, share: float
) -> tuple[Matrix, Matrix, float]:
    """Condition the Gaussian of the arms' means on the cells. Also the log density of contrasts of the scores."""
    level, n_arms = 1e6, system.n_arms
    own, z = (1.0 - share) * V.prompt, system.regressors.arms
    arms = np.concatenate((np.repeat(np.arange(n_arms), n_examples), system.arms))
    seen = np.unique(system.design.columns)
    assert len(seen) == system.n_columns
    named = x_columns(system, x)
    examples = np.concatenate((np.tile(np.arange(n_examples), n_arms), named))
    same_arm, same_example = arms[:, None] == arms, examples[:, None] == examples
    columns = np.concatenate((x.reshape(-1, 2), system.regressors.cells))
    slopes = V.residual * system.scales[-2:] ** 2
    of_levels = share * V.prompt * (z @ z.T)[np.ix_(arms, arms)]
    prior = level + own * same_arm + of_levels + (columns * slopes) @ columns.T
    prior += V.example * same_example + V.residual * (same_arm & same_example)
    g, o = slice(0, n_arms * n_examples), slice(n_arms * n_examples, None)
    if endless:
        # New inputs have neither a seen example nor a seen residual
        to_seen = level + own * same_arm + of_levels + (columns * slopes) @ columns.T
        for rows, row_columns in ((g, o), (o, g), (g, g)):
            prior[rows, row_columns] = to_seen[rows, row_columns]
    y = system.y
    gain = np.linalg.solve(prior[o, o], prior[o, g]).T
    mean, cov = y.mean() + gain @ (y - y.mean()), prior[g, g] - gain @ prior[o, g]
    average = np.kron(np.eye(n_arms), np.full((1, n_examples), 1 / n_examples))
    contrasts = np.linalg.qr(np.column_stack((np.ones(len(y)), np.eye(len(y))[:, 1:])))[
        0
    ][:, 1:]
    inner = contrasts.T @ prior[o, o] @ contrasts
    part = contrasts.T @ y
    density = -0.5 * (
        float(part @ np.linalg.solve(inner, part)) + float(np.linalg.slogdet(inner)[1])
    )
    return average @ mean, average @ cov @ average.T, density


def x_columns(system: System, x: Matrix) -> npt.NDArray[np.int64]:
    """The example of each cell, from its regressors."""
    numbers = system.regressors.cells[:, None]
    return (x[system.arms] == numbers).all(axis=2).argmax(axis=1)


@pytest.mark.parametrize("endless", [False, True], ids=["given", "new"])
@pytest.mark.parametrize("share", [0.0, 0.6])
@pytest.mark.parametrize(
    ("n_arms", "n_examples", "n"), [(3, 6, 11), (7, 4, 14), (4, 4, 16)]
)
def test_the_regression_is_dense_gaussian_conditioning(
    n_arms: int, n_examples: int, n: int, share: float, endless: bool
) -> None:
    system, x, _ = some_system(n_arms, n_examples, n, endless)
    found = system.means_by_share(V, share)
    mean, cov, _ = dense(system, x, n_examples, endless, share)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4)
    np.testing.assert_allclose(found.variance, np.diag(cov), atol=1e-4)


def test_densities_differ_as_those_of_the_dense_gaussian() -> None:
    system, x, _ = some_system(4, 5, 13, endless=False)
    found, expected = [], []
    for share in (0.0, 0.3, 0.9):
        found.append(system.density_by_share(V, share))
        expected.append(dense(system, x, 5, False, share)[2])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-4)
    log_det, squares = system.likelihood(V)
    assert -0.5 * (log_det + squares / V.residual) == pytest.approx(found[0])


def test_means_over_a_sample_of_inputs_have_an_error() -> None:
    system, _, regressors = some_system(3, 6, 11, endless=True)
    without = system.means_by_share(V, 0.0)
    system.regressors = regressors._replace(
        shared_error=np.array([0.5, 0.0]), arm_error=np.full((3, 2), [0.0, 0.3])
    )
    found = system.means_by_share(V, 0.0)
    np.testing.assert_allclose(found.mean, without.mean)
    added = found.variance - without.variance
    np.testing.assert_allclose(added, added[0])
    assert added[0] > 0.0


def world(
    rng: np.random.Generator, correlation: float, n_arms: int = 12, n_examples: int = 40
) -> tuple[Matrix, ProxyParts]:
    """Scores (K, N), and the parts of a proxy that correlates with them as much in each part."""

    def like(part: Matrix) -> Matrix:
        noise = rng.normal(size=part.shape)
        return correlation * part + np.sqrt(1.0 - correlation**2) * noise

    shapes = ((n_arms, 1), (1, n_examples), (n_arms, n_examples))
    parts = [rng.normal(size=shape) for shape in shapes]
    y = 0.5 * parts[0] + parts[1] + parts[2]
    x = 0.5 * like(parts[0]) + like(parts[1]) + like(parts[2])
    proxies = ProxyParts.of([cells_of(x)])
    assert proxies is not None
    return y, proxies


def some_cells(y: Matrix, n_each: int, rng: np.random.Generator) -> Cells:
    n_arms, n_examples = y.shape
    arms = np.repeat(np.arange(n_arms), n_each)
    examples = np.concatenate(
        [rng.permutation(n_examples)[:n_each] for _ in range(n_arms)]
    )
    return Cells.of(arms, examples, y[arms, examples][:, None], n_examples)


def errors_of(correlation: float, n_each: int, seeds: range) -> tuple[float, float]:
    """The root mean square errors of differences between prompts, without and with a proxy."""
    squares = np.zeros(2)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        y, proxies = world(rng, correlation)
        cells = some_cells(y, n_each, rng)
        truth = y.mean(axis=1) - y.mean()
        for i, given in enumerate((None, proxies)):
            mean = posterior(cells, 0, *y.shape, proxies=given).mean
            squares[i] += ((mean - mean.mean() - truth) ** 2).mean()
    without, with_proxies = np.sqrt(squares / len(seeds))
    return float(without), float(with_proxies)


def test_a_perfect_proxy_gives_the_truth_after_a_few_scores(seeds: Seeds) -> None:
    without, with_proxies = errors_of(1.0, 2, seeds(10))
    assert with_proxies < 0.25 * without


def test_a_useless_proxy_costs_next_to_nothing_and_a_good_one_helps(
    seeds: Seeds,
) -> None:
    without, with_proxies = errors_of(0.0, 3, seeds(30))
    assert with_proxies < 1.04 * without
    without, with_proxies = errors_of(0.8, 3, seeds(10))
    assert with_proxies < 0.75 * without


def test_the_same_scores_without_variation_are_constant_whatever_a_proxy_says() -> None:
    rng = np.random.default_rng(0)
    y, proxies = world(rng, 0.9)
    cells = some_cells(np.ones(y.shape), 2, rng)
    with_proxies = posterior(cells, 0, *y.shape, proxies=proxies)
    np.testing.assert_array_equal(with_proxies.mean, np.ones(len(y)))
