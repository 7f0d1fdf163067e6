from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import check_grad

import asktell
from asktell.errors import IncompatibleMethodError
from benchmarks.rivals.gaussian_process import GaussianProcess
from benchmarks.rivals.hbbops import brackets, hbbops
from benchmarks.rivals.pool import Pool
from benchmarks.rivals.triple_clst import triple_clst
from benchmarks.rivals.triple_gse import bayesian_ridge, triple_gse
from benchmarks.selection import methods
from tests.benchmarks.pools import exact, pool_of

BEST = asktell.BestFeasible("quality")
ALL = (hbbops, triple_clst, triple_gse)


def noiseless(
    quality: np.ndarray, n_examples: int, brevity: np.ndarray | None = None
) -> np.ndarray:
    """(K, N, m): every example says the same; m = 2 with brevity, else 1."""
    means = (
        quality[:, None] if brevity is None else np.stack((quality, brevity), axis=1)
    )
    return np.repeat(means[:, None], n_examples, axis=1)


def original(pool: Pool, per_arm: np.ndarray) -> np.ndarray:
    """In the table's order of prompts."""
    restored = np.empty_like(per_arm)
    restored[pool._prompts] = per_arm
    return restored


@pytest.mark.parametrize("rival", ALL)
@pytest.mark.parametrize("budget", [1, 7, 90, 400, 1000])
def test_no_cell_is_bought_twice_and_the_budget_is_spent(
    rival: Callable[..., list[int]], budget: int
) -> None:
    rng = np.random.default_rng(0)
    pool = pool_of(
        rng.normal(size=(20, 20, 2)), budget, seed=1, features=rng.normal(size=(20, 3))
    )
    answer = rival(
        pool, asktell.BestFeasible("quality", subject_to={"brevity": 0.0}), 1
    )
    assert len(answer) == 1
    assert (~np.isnan(pool.observed[:, :, 0])).sum() == pool.spent
    # A halving phase ends early where its prompts are known on every example.
    assert pool.spent == min(budget, 400) or (budget > 90 and rival is not hbbops)


def test_methods_that_need_features_say_so() -> None:
    for name in ("triple-clst", "triple-gse"):
        with pytest.raises(IncompatibleMethodError, match="needs features"):
            methods.run(name, exact("best@.5", (0.1, 0.2), (0.3, 0.4)), 10, 0)


def test_brackets_are_those_of_hyperband() -> None:
    assert brackets(80, 10, 2.0) == [
        [(8, 10), (4, 20), (2, 40), (1, 80)],
        [(6, 20), (3, 40), (1, 80)],
        [(4, 40), (2, 80)],
        [(4, 80)],
    ]
    assert brackets(5, 10, 2.0) == [[(1, 5)]]


@pytest.mark.parametrize(
    ("budget", "counts"),
    [
        # The first bracket: larger stages pay for their new examples only
        (200, [80, 40, 20, 20, 10, 10, 10, 10]),
        (100, [15, 15, 15, 15, 10, 10, 10, 10]),  # cut in its second stage
        (25, [10, 10, 5]),
    ],
)
def test_a_bracket_pays_for_new_examples_and_shares_what_is_left(
    budget: int, counts: list[int]
) -> None:
    pool = pool_of(noiseless(np.arange(40.0), 80), budget, seed=0)
    answer = hbbops(pool, BEST, 0)
    assert sorted(pool.counts[pool.counts > 0].tolist(), reverse=True) == counts
    most = (
        original(pool, pool.counts)
        if budget != 25
        else original(pool, (pool.counts == 10).astype(int))
    )
    assert answer == [max(np.flatnonzero(most == most.max()))]


def test_proposals_climb_a_smooth_function() -> None:
    x = np.linspace(-1, 1, 200)[:, None]
    found = []
    for seed in range(5):
        pool = pool_of(noiseless(-((x[:, 0] - 0.3) ** 2), 9), 20 * 9, seed, features=x)
        found += hbbops(pool, BEST, seed)
    # By chance one in fifty times
    np.testing.assert_allclose(x[found, 0], 0.3, atol=0.03)


def test_the_gradient_of_the_process_is_that_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    squares = (x[:, None] - x[None]).transpose(2, 0, 1) ** 2
    process = GaussianProcess(3)
    for _ in range(5):
        at = rng.normal(0, 0.7, 5)
        error = check_grad(
            lambda p: process.loss(p, squares, y)[0],
            lambda p: process.loss(p, squares, y)[1],
            at,
        )
        assert error < 1e-4


def test_the_process_interpolates_and_knows_where_it_knows_nothing() -> None:
    x = np.linspace(-1.7, 1.7, 12)[:, None]
    y = np.sin(2 * x[:, 0]) * np.sqrt(2)
    process = GaussianProcess(1)
    process.fit(x, y, steps=200)
    mean, deviation = process.predict(np.vstack((x, [[0.1], [1000.0]])))
    np.testing.assert_allclose(mean[:12], y, atol=0.05)
    np.testing.assert_allclose(mean[12], np.sin(0.2) * np.sqrt(2), atol=0.1)
    np.testing.assert_allclose(mean[13], 0.0, atol=1e-3)
    assert deviation[13] > 10 * deviation[12]


def test_the_worse_half_of_the_clusters_gets_a_third_of_the_budget_at_most() -> None:
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(4), 4)
    features = 10.0 * np.eye(4)[cluster] + rng.normal(0, 0.1, (16, 4))
    quality = cluster + np.tile([0.0, 0.1, 0.2, 0.3], 4)
    pool = pool_of(noiseless(quality, 50), 96, seed=0, features=features)
    assert triple_clst(pool, BEST, 0) == [15]
    spent = np.bincount(cluster, original(pool, pool.counts))
    assert spent[:2].tolist() == [8, 8]  # a third of 96 over four clusters
    assert spent.sum() == 96


def test_ridge_is_at_a_maximum_of_the_evidence() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    x -= x.mean(axis=0)
    y = x @ rng.normal(size=3) + rng.normal(size=40)
    y -= y.mean()
    slope = bayesian_ridge(x, y, steps=1000)[1]

    def evidence(shrinkage: float) -> float:
        """Of the ratio of the variances, the noise's at its best."""
        covariance = x @ x.T / shrinkage + np.eye(40)
        quadratic = y @ np.linalg.solve(covariance, y)
        return float(-20 * np.log(quadratic) - np.linalg.slogdet(covariance)[1] / 2)

    ratios = np.exp(np.linspace(-4, 6, 2001))
    best = ratios[np.argmax([evidence(ratio) for ratio in ratios])]
    np.testing.assert_allclose(
        slope, np.linalg.solve(x.T @ x + best * np.eye(3), x.T @ y), rtol=0.02
    )


def test_a_line_is_halved_to_its_end() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(64, 4))
    quality = features @ [1.0, 2.0, 0.0, -1.0]
    scores = noiseless(quality, 30) + rng.normal(0, 1.0, (64, 30, 1))
    pool = pool_of(scores, 128, seed=0, features=features)
    assert triple_gse(pool, BEST, 0) == [int(quality.argmax())]  # with two pulls each
