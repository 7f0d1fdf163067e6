import numpy as np
import pytest

from asktell import BestFeasible
from benchmarks.rivals.poes import PRIOR, OnePL, choose, poes
from tests.benchmarks.pools import pool_of


def _responses(arms: int, examples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    ability, difficulty = rng.normal(0, 1, arms), rng.normal(-1, 2, examples)
    solved = rng.random((arms, examples)) < 1 / (
        1 + np.exp(difficulty - ability[:, None])
    )
    return ability, difficulty, solved.astype(float)


def test_the_model_finds_abilities_and_difficulties() -> None:
    ability, difficulty, scores = _responses(60, 80)
    scores[np.random.default_rng(1).random(scores.shape) < 0.5] = np.nan
    model = OnePL(scores)
    logits = np.log(model.expected / (1 - model.expected))
    assert np.corrcoef(logits.mean(axis=1), ability)[0, 1] > 0.9
    assert np.corrcoef(logits.mean(axis=0), -difficulty)[0, 1] > 0.9


def test_the_model_is_at_the_top_of_its_posterior() -> None:
    *_, scores = _responses(8, 6)
    scores[:4, 2] = scores[3:, 4] = np.nan
    model = OnePL(scores, sweeps=200)
    residual = np.where(np.isnan(scores), 0.0, scores - model.expected)
    np.testing.assert_allclose(residual.sum(axis=1), model.ability, atol=1e-6)
    centred = model.difficulty - model.difficulty.mean()
    np.testing.assert_allclose(-residual.sum(axis=0), centred / PRIOR, atol=1e-6)


def test_discrimination_first_when_exploiting_and_coverage_when_exploring() -> None:
    information = np.array([[0.25, 0.24, 0.1]] * 2)
    # The first two are alike
    similarity = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    unseen = np.ones((2, 3), dtype=bool)
    assert choose(information, unseen, similarity, w=0.0, cells=4) == [0, 1]
    assert choose(information, unseen, similarity, w=1.0, cells=4) == [0, 2]
    unseen[:, 0] = False  # a warm start: the second resembles what is chosen already
    assert choose(information, unseen, similarity, w=1.0, cells=2) == [2]


@pytest.mark.parametrize("budget", [50, 100, 159, 160, 200])
def test_the_budget_goes_to_cells_not_yet_evaluated(budget: int) -> None:
    *_, scores = _responses(16, 10)
    pool = pool_of(scores[:, :, None], budget, seed=0)
    assert len(poes(pool, BestFeasible("quality"), seed=0)) == 1
    assert pool.spent == (~np.isnan(pool.observed)).sum() >= 0.95 * min(budget, 160)
