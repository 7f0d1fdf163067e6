import numpy as np
import pytest

from asktell import ParetoSet
from asktell.numerics.pareto import pareto_mask
from benchmarks.rivals.psips import AdaHedge, Noise, disagreeing, psips
from tests.benchmarks.pools import pool_of


def test_adahedge_begins_uniform_and_its_first_rate_is_the_first_mixability_gap() -> (
    None
):
    learner = AdaHedge(3)
    np.testing.assert_allclose(learner.weights(), 1 / 3)
    losses = np.array([0.0, 1.0, 2.0])
    learner.update(losses)
    expected = np.exp(-np.log(3) / (losses.mean() - losses.min()) * losses)
    np.testing.assert_allclose(learner.weights(), expected / expected.sum())


def test_adahedge_keeps_its_regret_bound() -> None:
    rng = np.random.default_rng(0)
    learner, losses = AdaHedge(5), rng.uniform(size=(500, 5))
    losses[:, 3] -= 0.1
    suffered = 0.0
    for row in losses:
        suffered += float(learner.weights() @ row)
        learner.update(row)
    assert learner.weights().argmax() == 3
    # Corollary 9 of de Rooij et al.: losses within a range of s, T rounds.
    best, s, t = losses.sum(axis=0).min(), 1.1, 500
    assert suffered - best <= np.sqrt(np.log(5) * t) * s / 2 + s * (
        4 / 3 * np.log(5) + 2
    )


def test_the_noise_is_the_pooled_covariance_with_one_more_degree_at_the_bound() -> None:
    rng = np.random.default_rng(1)
    noise, products, degrees = Noise(2), 0.25 * np.eye(2), 1
    for count in (2, 5, 1):
        rows = rng.normal(size=(count, 2))
        for n in range(2, count + 1):
            noise.update(rows[n - 1] - rows[: n - 1].mean(axis=0), n)
        away = rows - rows.mean(axis=0)
        products, degrees = products + away.T @ away, degrees + count - 1
    root = noise.root()
    np.testing.assert_allclose(root @ root.T, products / degrees)


@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_the_adversary_finds_means_with_another_pareto_set(spread: float) -> None:
    means = np.array([[0.1, 0.9], [0.9, 0.1], [0.3, 0.3]])
    rng = np.random.default_rng(0)
    errors = disagreeing(means, np.full(3, spread), np.eye(2), rng)
    assert (pareto_mask(means + spread * errors) != pareto_mask(means)).any()


def test_a_prompt_evaluated_in_full_is_left_alone() -> None:
    scores = np.random.default_rng(2).uniform(size=(3, 4, 2))
    pool = pool_of(scores, 100, seed=0)
    answer = psips(pool, ParetoSet("a", "b"), 0)
    assert pool.counts.tolist() == [4, 4, 4]
    assert sorted(answer) == np.flatnonzero(pareto_mask(scores.mean(axis=1))).tolist()
