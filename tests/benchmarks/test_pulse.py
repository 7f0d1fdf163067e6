import numpy as np
import pytest

from benchmarks.rivals.pulse import LowRank, total_residual, weight_of


def test_the_estimate_is_unbiased_whatever_the_predictions() -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.random((7, 2)), rng.normal(3, 5, (7, 2))
    for drawn in (1, 3, 7):
        # Every example is drawn equally often
        orders = [np.roll(np.arange(7), shift) for shift in range(7)]
        totals = [
            predicted.sum(axis=0) + total_residual(truth[o][:drawn], predicted[o])
            for o in orders
        ]
        np.testing.assert_allclose(np.mean(totals, axis=0), truth.sum(axis=0))


@pytest.mark.parametrize("residual", [0.4, 2.0])
def test_the_weight_minimizes_the_expected_square(residual: float) -> None:
    predicted = np.array([[0.2], [0.5], [0.9], [0.4]])
    total = predicted.sum()
    # Each is drawn with probability 1 / 4
    variance = (1 - 1 / 4) / (1 / 4) * (predicted**2).sum()
    u = np.linspace(0, 1, 1001)
    # Of (u x total drawn - residual)^2
    expected = u**2 * (total**2 + variance) - 2 * u * total * residual
    assert weight_of(predicted, 1 / 4, np.array([residual])) == pytest.approx(
        1 - u[expected.argmin()], abs=1e-3
    )


def test_the_fit_completes_a_low_rank_table() -> None:
    rng = np.random.default_rng(0)
    table = (
        rng.normal(size=(40, 1))
        + rng.normal(size=60)
        + rng.normal(size=(40, 1)) * rng.normal(size=60)
    )
    hidden = rng.random(table.shape) < 0.4
    fitted = LowRank(40, 60, seed=0)(np.where(hidden, np.nan, table), sweeps=20)
    assert ((fitted - table)[hidden] ** 2).mean() < 0.05 * table[hidden].var()
