import numpy as np

import asktell
from benchmarks.rivals.ucb_e_lrf import complete, ucb_e_lrf
from tests.benchmarks.pools import pool_of


def test_a_table_of_rank_one_is_completed() -> None:
    rng = np.random.default_rng(0)
    truth = np.outer(rng.uniform(0.3, 1, 12), rng.uniform(0.3, 1, 20))
    seen = rng.random(truth.shape) < 0.6
    completed = complete(np.where(seen, truth, np.nan), rng)
    np.testing.assert_array_equal(completed.scores[seen], truth[seen])
    np.testing.assert_array_equal(completed.deviation[seen], 0)
    np.testing.assert_allclose(completed.scores[~seen], truth[~seen], atol=0.1)
    assert (completed.deviation[~seen] > 0).all()


def test_a_cell_is_evaluated_once_and_all_can_be() -> None:
    scores = np.random.default_rng(0).random((6, 10, 1))
    pool = pool_of(scores, 60, seed=1)
    answer = ucb_e_lrf(pool, asktell.BestFeasible("quality"), 1)
    assert pool.counts.tolist() == [10] * 6
    assert np.isfinite(pool.observed).all()
    assert answer == [int(scores.mean(axis=(1, 2)).argmax())]
