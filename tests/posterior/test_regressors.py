"""Factors in the two-way model: the exact posterior, the likelihood of their share, and what columns are worth."""

import numpy as np
import pytest

from asktell import BestFeasible, Candidates, Selector, grid
from asktell.numerics.cells import Cells
from asktell.posterior.equations import System, Variances
from asktell.posterior.regressors import Regressors, levels_of, of_factors
from asktell.posterior.two_way import posterior, reml
from tests.plays import play
from tests.seeds import Seeds

LEVEL = 1e4  # the variance of a level that is nearly flat


def unit(x: np.ndarray) -> np.ndarray:
    """Columns without a level, whose rows have a mean squared length of 1."""
    x = x - x.mean(axis=0)
    return x / np.sqrt((x**2).sum(axis=1).mean())


def exact(
    arms: np.ndarray,
    examples: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    n_examples: int,
    v: Variances,
    share: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of the prompts' means, and the log likelihood, from the joint covariance of all cells."""
    n_arms = len(z)
    effects = share * v.prompt * z @ z.T + (1 - share) * v.prompt * np.eye(n_arms)
    every_arm = np.kron(np.eye(n_arms), np.ones((n_examples, 1)))
    every_example = np.kron(np.ones((n_arms, 1)), np.eye(n_examples))
    cov = (
        every_arm @ effects @ every_arm.T
        + v.example * every_example @ every_example.T
        + LEVEL
    )
    cov += v.residual * np.eye(len(cov))
    o = arms * n_examples + examples
    mean = np.kron(np.eye(n_arms), np.ones((1, n_examples))) / n_examples
    gain = np.linalg.solve(cov[np.ix_(o, o)], cov[o]).T
    left = cov - gain @ cov[o]
    density = -0.5 * (
        np.linalg.slogdet(cov[np.ix_(o, o)])[1]
        + y @ np.linalg.solve(cov[np.ix_(o, o)], y)
    )
    return mean @ gain @ y, mean @ left @ mean.T, density


# Either effect is eliminated
@pytest.mark.parametrize(("n_arms", "n_examples"), [(6, 9), (9, 5)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_posterior_is_exact(n_arms: int, n_examples: int, share: float) -> None:
    rng = np.random.default_rng(n_arms)
    cells = np.sort(rng.permutation(n_arms * n_examples)[:22])
    # The first prompt has seen every example
    cells = np.union1d(cells, np.arange(n_examples))
    arms, examples = np.divmod(cells, n_examples)
    y, z, v = (
        rng.normal(size=len(arms)),
        unit(rng.normal(size=(n_arms, 3))),
        Variances(0.5, 0.3, 0.4),
    )
    system = System(arms, examples, y, n_arms, n_examples, Regressors.of_arms(z))
    found = system.means_by_share(v, share)
    mean, cov, _ = exact(arms, examples, y, z, n_examples, v, share)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4)
    root = found.rows @ found.root
    np.testing.assert_allclose(root @ root.T + np.diag(found.own**2), cov, atol=1e-3)
    assert found.mean[0] == pytest.approx(y[:n_examples].mean())
    assert found.variance[0] == 0.0


def test_the_likelihood_of_the_share_is_exact() -> None:
    rng = np.random.default_rng(1)
    arms, examples = np.divmod(np.sort(rng.permutation(7 * 6)[:25]), 6)
    y, z, v = (
        rng.normal(size=25),
        unit(rng.normal(size=(7, 2))),
        Variances(0.5, 0.3, 0.4),
    )
    system = System(arms, examples, y, 7, 6, Regressors.of_arms(z))
    ours = [system.density_by_share(v, share) for share in (0.0, 0.3, 0.9)]
    theirs = [exact(arms, examples, y, z, 6, v, share)[2] for share in (0.0, 0.3, 0.9)]
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), atol=2e-3)


def test_without_examples_too() -> None:
    """Endless examples: ordinary regression with random slopes and a random effect per prompt."""
    rng = np.random.default_rng(2)
    arms, z, v = (
        np.repeat(np.arange(5), 3),
        unit(rng.normal(size=(5, 2))),
        Variances(0.5, 1.0, 0.4),
    )
    y = rng.normal(size=15)
    found = System(
        arms, np.full(15, -1), y, 5, None, Regressors.of_arms(z)
    ).means_by_share(v, 0.6)
    prior = 0.6 * 0.5 * z @ z.T + 0.4 * 0.5 * np.eye(5) + LEVEL
    to_cells = np.eye(5)[arms]
    cov = to_cells @ prior @ to_cells.T + 0.4 * np.eye(15)
    np.testing.assert_allclose(
        found.mean, prior @ to_cells.T @ np.linalg.solve(cov, y), atol=1e-3
    )


def test_columns_that_tell_help_and_others_do_little_harm(seeds: Seeds) -> None:
    """40 prompts, one pull each, a third of the variance is the prompts': 30 problems."""
    errors = {"informed": [], "misled": [], "alone": []}
    for seed in seeds(30):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(40, 3))
        truth = x @ np.array([1.0, -1.0, 0.5]) / 1.5 + np.sin(2 * x[:, 0])
        truth /= truth.std()
        y = truth[:, None] + 0.7 * rng.normal(size=50) + rng.normal(size=(40, 50))
        truth = y.mean(axis=1)
        cells = Cells.of(
            np.arange(40),
            np.arange(40) // 8,
            y[np.arange(40), np.arange(40) // 8][:, None],
            50,
        )
        for name, z in (
            ("informed", Regressors.of_arms(unit(x))),
            ("misled", Regressors.of_arms(unit(rng.normal(size=(40, 3))))),
            ("alone", None),
        ):
            mean = posterior(cells, 0, 40, 50, regressors=z).mean
            errors[name].append(
                np.sqrt(np.mean((mean - truth - (mean - truth).mean()) ** 2))
            )
    informed, misled, alone = (np.mean(e) for e in errors.values())
    assert informed < 0.85 * alone
    assert misled < 1.08 * alone


@pytest.mark.parametrize("features", ["text", [[1.0], [1.0], [1.0]]])
def test_a_selection_of_models_for_one_prompt_ends_whatever_its_features(
    features: object,
) -> None:
    candidates = grid(model=["a", "b", "c"], prompt=["P"])
    selector = Selector(
        candidates, BestFeasible("accuracy"), budget=30, examples=20, features=features
    )
    scores = np.random.default_rng(0).random(30)
    play(selector, lambda trial: scores[trial.id])
    assert selector.spent == 30
    assert selector.result().best is not None


def test_a_column_for_each_level_of_the_factors_that_count() -> None:
    candidates = grid(only=["x"], model=["a", "b"], n=[1, 2, 3])
    z, *_, blocks = of_factors(candidates)  # type: ignore[misc]
    assert blocks.tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(z, [[*a, *b] for a in np.eye(2) for b in np.eye(3)])
    # A level for each candidate says nothing more
    assert of_factors(grid(prompt=["x", "y"])) is None
    many = Candidates([{"x": i % 300, "y": i % 2, "z": i % 299} for i in range(900)])
    assert [int(codes.max()) + 1 for codes in levels_of(many)] == [2, 299]


def test_how_much_each_factor_matters_is_estimated(seeds: Seeds) -> None:
    """Of three factors one matters much, one less and one not at all; the candidates' own effects are kept."""
    found, densities = [], []
    for seed in seeds(10):
        rng = np.random.default_rng(seed)
        candidates = grid(a=range(8), b=range(8), c=range(8))
        of_a, of_b = rng.normal(size=8), 0.5 * rng.normal(size=8)
        codes = levels_of(candidates)
        truth = of_a[codes[0]] + of_b[codes[1]] + 0.4 * rng.normal(size=512)
        arms = rng.permutation(512)[:200]
        y = (
            truth[arms]
            + rng.normal(size=20)[np.arange(200) // 10]
            + 0.7 * rng.normal(size=200)
        )
        system = System(
            arms,
            np.arange(200) // 10,
            (y - y.mean()) / y.std(),
            512,
            20,
            of_factors(candidates),
        )
        v = reml(system)
        found.append(system.scales[[0, 8, 16]] ** 2)
        densities.append(
            [system.density_by_share(v, share) for share in (0.0, 0.6, 0.9, 0.999)]
        )
    a, b, c = np.mean(found, axis=0)
    assert 0.6 < a < 0.9
    assert 0.1 < b < 0.35
    assert c < 0.05
    assert np.mean(densities, axis=0).argmax() == 2


def test_factors_tell_of_candidates_that_nobody_pulled() -> None:
    rng = np.random.default_rng(0)
    candidates, right, alone = grid(a=range(6), b=range(6)), [], []
    codes = levels_of(candidates)
    for _ in range(10):
        truth = rng.normal(size=6)[codes[0]] + rng.normal(size=6)[codes[1]]
        y = truth[:, None] + 0.5 * rng.normal(size=50) + rng.normal(size=(36, 50))
        arms = rng.permutation(36)[:18]
        cells = Cells.of(
            arms, np.arange(18) // 6, y[arms, np.arange(18) // 6][:, None], 50
        )
        unseen = np.setdiff1d(np.arange(36), arms)
        fit = posterior(cells, 0, 36, 50, regressors=of_factors(candidates))
        right.append(np.corrcoef(fit.mean[unseen], truth[unseen])[0, 1])
        alone.append(
            np.abs(fit.mean - y.mean(axis=1))[unseen].mean() / fit.sd[unseen].mean()
        )
    assert np.mean(right) > 0.5
    assert 0.5 < np.mean(alone) < 1.3  # mean absolute errors are .8 deviations
