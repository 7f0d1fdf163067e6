"""Distances to the lead, and the shares of track-and-stop, against closed forms."""

import numpy as np
import pytest

import asktell
from asktell.simulation.replay import Replay
from benchmarks.rivals.gaps import leads
from benchmarks.rivals.pool import Pool
from benchmarks.rivals.track_and_stop import shares, track_and_stop

GOAL = asktell.BestFeasible("a", subject_to={"b": asktell.at_least(0.5)})


def pulled(scores: np.ndarray, goal: asktell.BestFeasible) -> Pool:
    """Every prompt on every example; the pool's order of prompts is its own."""
    pool = Pool(Replay(scores, goal, scores.shape[0] * scores.shape[1], 0), 0)
    for arm in np.repeat(np.arange(len(scores)), scores.shape[1]):
        pool.pull(int(arm))
    return pool


@pytest.mark.parametrize("k", [2, 5, 17])
def test_equal_gaps_give_the_leader_the_root_of_the_others_number(k: int) -> None:
    found = shares(np.concatenate(([0.0], np.ones(k - 1))), np.ones(k), 0)
    root = np.sqrt(k - 1)
    assert found == pytest.approx(
        np.concatenate(([1 / (1 + root)], np.full(k - 1, 1 / (root + k - 1))))
    )


def test_two_arms_are_pulled_by_their_deviations() -> None:
    assert shares(np.array([0.0, 1.0]), np.array([4.0, 1.0]), 0) == pytest.approx(
        [2 / 3, 1 / 3]
    )


def test_the_shares_make_all_evidence_equal() -> None:
    gaps, variances = np.array([0.3, 0.0, 0.7, 1.2]), np.array([1.0, 0.5, 2.0, 1.0])
    w = shares(gaps, variances, 1)
    evidence = np.delete(gaps**2 / (variances[1] / w[1] + variances / w), 1)
    assert w.sum() == pytest.approx(1.0)
    assert evidence == pytest.approx(np.full(3, evidence[0]))


def test_a_prompt_that_misses_a_bound_is_as_far_as_what_it_misses() -> None:
    # Noise of +-.1 in both: deviations are .1 in each metric (up to the freedom), means
    # as named.
    means = np.array([[0.9, 0.2], [0.6, 0.6], [0.4, 0.7]])
    scores = means[:, None] + np.array([0.1, -0.1])[:, None]
    pool = pulled(scores, GOAL)
    leader, gap = leads(pool, GOAL)
    by_mean = {round(float(a), 1): i for i, a in enumerate(pool.means[:, 0])}
    unit = pool.deviation[0]
    assert leader == by_mean[0.6]
    assert gap[[by_mean[0.9], by_mean[0.6], by_mean[0.4]]] == pytest.approx(
        [0.3 / unit, 0.0, 0.2 / unit]
    )


def test_track_and_stop_stops_once_it_is_sure() -> None:
    goal = asktell.BestFeasible("a")
    rng = np.random.default_rng(0)
    scores = np.array([0.2, 0.8])[:, None, None] + 0.1 * rng.normal(size=(2, 500, 1))
    replay = Replay(scores, goal, 1000, 0)
    assert track_and_stop(Pool(replay, 0), goal, 0, delta=0.05, fewest=10) == [1]
    assert 20 <= replay.spent < 40
