"""Bounds for noisy scores of a finite data set."""

import numpy as np
import numpy.typing as npt
import pytest

from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.noisy import NoisyBetting, bounded

Floats = npt.NDArray[np.float64]


def rounds(rng: np.random.Generator, p: Floats, runs: int, repeats: int) -> Floats:
    """(runs, N * repeats) scores of 0 and 1 in an order of each run's own, the same in every round."""
    orders = np.array([rng.permutation(len(p)) for _ in range(runs)])
    return (rng.random((runs, len(p) * repeats)) < np.tile(p[orders], repeats)).astype(
        float
    )


def test_looks_share_the_error_and_the_last_is_at_the_end() -> None:
    assert NoisyBetting(0, 1, 20, 3).looks == [8, 12, 18, 27, 41, 60]
    assert NoisyBetting(0, 1, 3, 2).looks == [6]
    assert NoisyBetting(0, 1, 8, 1).looks == [8]


def test_a_bound_by_hand() -> None:
    # One look at 8 scores, all 1: the average capital of the five bets against m is 1 /
    # error at the bound.
    m = float(NoisyBetting(0, 1, 8, 1).lower(np.ones(8), 0.05))
    rates = np.minimum(np.sqrt(13.0 / (8 * 0.25 / 4.0 ** np.arange(5))), 0.95 / m)
    assert ((1 + rates * (1 - m)) ** 8).mean() == pytest.approx(20.0, rel=1e-3)


def test_bounds_move_at_looks_only_never_widen_and_mirror() -> None:
    rng = np.random.default_rng(0)
    sequence, scores = NoisyBetting(-1.0, 2.0, 10, 5), rng.uniform(-1, 2, 50)
    lows = [float(sequence.lower(scores[:n], 0.1)) for n in range(51)]
    assert (np.diff(lows) >= -1e-6).all()
    assert {n for n in range(1, 51) if lows[n] > lows[n - 1] + 1e-6} <= set(
        sequence.looks
    )
    assert lows[7] == -1.0
    low, high = sequence.interval(scores, 0.2)
    assert float(high) == -float(NoisyBetting(-2.0, 1.0, 10, 5).lower(-scores, 0.1))
    assert float(low) == pytest.approx(lows[-1], abs=1e-6)
    assert float(low) < scores.mean() < float(high)


def test_what_is_refuted_is_what_is_below_the_bound() -> None:
    scores = rounds(np.random.default_rng(1), np.array([0.9, 1.0, 0.8, 0.9]), 6, 20)
    sequence = NoisyBetting(0, 1, 4, 20)
    lows = sequence.lower(scores, 0.1)
    for claim in (-0.5, 0.0, 0.3, 0.6, 0.7, 0.9, 1.0):
        np.testing.assert_array_equal(
            sequence.refutes(scores, claim, 0.1), claim < lows - 1e-6
        )


@pytest.mark.parametrize(
    "p",
    [
        np.full(40, 0.5),
        np.repeat([0.02, 0.98], 20),
        np.append(np.zeros(36), np.ones(4)),
        np.linspace(0, 1, 40),
    ],
)
def test_it_is_wrong_at_any_look_with_the_error_at_most(p: Floats) -> None:
    scores = rounds(np.random.default_rng(2), p, 400, 3)
    low, high = NoisyBetting(0, 1, len(p), 3).interval(scores, 0.1)
    # Bounds never widen: the last one is the tightest of all looks
    wrong = (low > p.mean()) | (high < p.mean())
    assert wrong.mean() <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 400)


@pytest.mark.parametrize("lead", [0.0, 0.1])
def test_differences_of_two_prompts_are_right_at_any_look(lead: float) -> None:
    rng = np.random.default_rng(4)
    easy = np.repeat([0.05, 0.5, 0.85], 14)
    one, other = np.clip(easy + lead + rng.normal(0, 0.05, 42), 0, 1), easy
    orders = np.array([rng.permutation(42) for _ in range(400)])
    scores = [
        (rng.random((400, 126)) < np.tile(p[orders], 3)).astype(float)
        for p in (one, other)
    ]
    low, high = NoisyBetting(-1, 1, 42, 3).interval(scores[0] - scores[1], 0.1)
    truth = (one - other).mean()
    assert ((low > truth) | (high < truth)).mean() <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 400)
    # The mean of the last round alone, taken for exact, would be wrong nearly always.
    assert (
        np.abs((scores[0] - scores[1])[:, 84:].mean(axis=1) - truth) > 1e-6
    ).mean() > 0.9


def test_seeing_every_example_once_is_not_certainty() -> None:
    p = np.full(30, 0.5)
    scores = rounds(np.random.default_rng(3), p, 200, 1)
    low, high = NoisyBetting(0, 1, 30, 4).interval(scores, 0.1)
    assert (low < high - 0.1).all()
    # What is exact without noise is wrong nearly always.
    exact = Betting(0, 1, 30).certain(scores)
    assert ((exact.low > 0.5 + 1e-9) | (exact.high < 0.5 - 1e-9)).mean() > 0.7


def test_which_sequence_it_takes() -> None:
    assert bounded(0, 1, 10) == Betting(0, 1, 10)
    assert bounded(0, 1, None, 3) == Betting(0, 1, None)
    assert bounded(0, 1, 10, 3) == NoisyBetting(0, 1, 10, 3)
