import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from asktell import BestFeasible
from benchmarks.rivals import gittins
from tests.benchmarks.pools import pool_of


def test_the_last_evaluation_is_worth_its_expected_improvement() -> None:
    n, noise = 4, 0.25
    variance = 1 / (1 / gittins.PRIOR_VARIANCE + (n - 1) / noise)
    step = (
        (1 + noise / (n * gittins.PRIOR_VARIANCE))
        * variance
        / np.sqrt(variance + noise)
    )
    gain = brentq(
        lambda s: s * norm.cdf(s / step) + step * norm.pdf(s / step) - gittins.COST,
        -1.0,
        0.0,
    )
    roots = gittins.walk_roots(n, noise)
    assert roots[n] == 0
    assert roots[n - 1] == pytest.approx(gain, abs=2e-3)


def test_the_first_of_two_evaluations_looks_ahead() -> None:
    noise = 0.25
    steps = []
    for n in range(2):
        variance = 1 / (1 / gittins.PRIOR_VARIANCE + n / noise)
        steps.append(
            (1 + noise / (2 * gittins.PRIOR_VARIANCE))
            * variance
            / np.sqrt(variance + noise)
        )
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()

    def worth(s: float, n: int) -> float:
        if n == 1:
            return (
                s * norm.cdf(s / steps[1])
                + steps[1] * norm.pdf(s / steps[1])
                - gittins.COST
            )
        return (
            sum(
                w * max(worth(s + steps[0] * z, 1), 0.0)
                for z, w in zip(nodes, weights, strict=True)
            )
            - gittins.COST
        )

    assert gittins.walk_roots(2, noise)[0] == pytest.approx(
        brentq(worth, -1.5, 0.0, args=(0,)), abs=1e-2
    )


def test_optimism_falls_with_every_evaluation_and_rises_with_the_noise_of_what_is_left() -> (
    None
):
    roots = gittins.walk_roots(50, 0.25)
    assert (np.diff(roots) > 0).all()
    # A prompt that nobody has seen could still be very good
    assert roots[0] < -2 * np.sqrt(gittins.PRIOR_VARIANCE)


def test_posterior_means_shrink_to_the_prior_and_are_exact_in_the_end() -> None:
    scores = np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])[:, :, None]
    pool = pool_of(scores, 5, seed=0)
    for _ in range(4):
        pool.pull(0)
    means = gittins.posterior_means(pool)[:, 0]
    assert means[0] == pytest.approx(pool.means[0, 0])
    assert means[1] == gittins.PRIOR_MEAN


def test_a_prompt_evaluated_in_full_is_left_alone() -> None:
    scores = np.array([[1.0] * 3, [0.2] * 3])[:, :, None]
    pool = pool_of(scores, 100, seed=0)
    assert gittins.gittins(pool, BestFeasible("quality"), 0) == [0]
    assert pool.counts.tolist() == [3, 3]
