"""One factor per metric: sums that add up, and what is read from them."""

import numpy as np
import pytest

from asktell.problem.examples.profile_factor import Sums, expected, fitted, learned


def simulated(
    seed: int, n_arms: int, n_examples: int, share: float, loading: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Cells of a one-factor table with a deviation of 1 in abilities, .5 in levels and .5 in residuals."""
    rng = np.random.default_rng(seed)
    table = 0.5 * rng.normal(size=n_examples) + np.outer(
        rng.normal(size=n_arms), loading
    )
    table += 0.5 * rng.normal(size=table.shape)
    arms, examples = np.nonzero(rng.random(table.shape) < share)
    return arms, examples, table[arms, examples], table


def test_loadings_of_a_full_table_are_the_slopes_on_the_prompts_means() -> None:
    rng = np.random.default_rng(1)
    loading = rng.uniform(0.0, 2.0, size=60)
    arms, examples, y, table = simulated(2, 200, 60, 1.1, loading)
    sums, ability = fitted(arms, examples, y, 200, 60, binary=False)
    found = learned(sums, binary=False)
    means = table.mean(axis=1) - table.mean()
    slopes = (table * means[:, None]).mean(axis=0) / (means**2).mean()
    np.testing.assert_allclose(found.loading, slopes, atol=0.03)
    np.testing.assert_allclose(found.level, table.mean(axis=0), atol=0.01)
    assert ability == pytest.approx((means**2).mean(), rel=0.05)
    assert np.sqrt(found.residual) == pytest.approx(np.full(60, 0.5), abs=0.15)


def test_few_cells_leave_what_is_expected() -> None:
    rng = np.random.default_rng(3)
    loading = rng.uniform(0.0, 2.0, size=60)
    few, many = (simulated(4, 40, 60, share, loading) for share in (0.05, 0.8))
    off = []
    for arms, examples, y, _ in (few, many):
        found = learned(
            fitted(arms, examples, y, 40, 60, binary=False)[0], binary=False
        )
        off.append(np.abs(found.loading - 1.0).mean())
    assert off[0] < 0.3 * off[1]


def test_an_example_without_cells_is_as_expected_of_any() -> None:
    arms, examples, y, _ = simulated(5, 30, 20, 1.1, np.ones(20))
    sums, _ = fitted(arms, examples, y, 30, 21, binary=False)
    found, prior = learned(sums, binary=False), expected(sums, binary=False)
    assert found.level[20] == pytest.approx(prior.mean)
    assert found.level_variance[20] == pytest.approx(prior.between)
    assert found.loading[20] == pytest.approx(prior.loading[20])


def test_right_and_wrong_in_halves_divides_most() -> None:
    # Ten prompts; the j-th example is right for j of them, by no ability.
    table = np.array(
        [[(i * 7 + j * 3) % 10 < j for j in range(11)] for i in range(10)], dtype=float
    )
    arms, examples = np.divmod(np.arange(110), 11)
    prior = expected(
        fitted(arms, examples, table.ravel(), 10, 11, binary=True)[0], binary=True
    )
    assert prior.loading.argmax() == 5
    np.testing.assert_allclose(
        prior.loading / prior.residual, (prior.loading / prior.residual)[0]
    )
    # By hand: E p (1 - p) of a Beta with as many right and wrong, and the prior's.
    size = 0.25 / prior.between - 1.0
    p, q = np.arange(11) + 0.5 * size, 10 - np.arange(11) + 0.5 * size
    by_hand = p * q / ((10 + size) * (11 + size))
    np.testing.assert_allclose(prior.loading, by_hand / by_hand.mean())


def test_sums_of_two_halves_add_up_to_those_of_all() -> None:
    rng = np.random.default_rng(6)
    examples, y, a, v = (
        rng.integers(0, 5, 40),
        rng.normal(size=40),
        rng.normal(size=40),
        rng.random(40),
    )
    halves = [
        Sums.of(examples[half], y[half], a[half], v[half], 5)
        for half in (slice(0, 20), slice(20, 40))
    ]
    np.testing.assert_allclose(halves[0].plus(halves[1]), Sums.of(examples, y, a, v, 5))


def test_units_of_scores_do_not_matter() -> None:
    rng = np.random.default_rng(7)
    arms, examples, y, _ = simulated(8, 40, 30, 0.5, rng.uniform(0, 2, size=30))
    one = learned(fitted(arms, examples, y, 40, 30, binary=False)[0], binary=False)
    other = learned(
        fitted(arms, examples, 1000.0 * y + 5.0, 40, 30, binary=False)[0], binary=False
    )
    np.testing.assert_allclose(other.loading, one.loading, rtol=1e-6)
    np.testing.assert_allclose(other.level, 1000.0 * one.level + 5.0, rtol=1e-6)
    np.testing.assert_allclose(other.residual, 1e6 * one.residual, rtol=1e-6)


def test_rounded_twice_is_rounded_once() -> None:
    rng = np.random.default_rng(9)
    sums = Sums(
        *(rng.normal(size=(6, 1000)) * 10.0 ** rng.integers(-9, 9, size=(6, 1000)))
    ).rounded()
    assert all(np.array_equal(a, b) for a, b in zip(sums, sums.rounded(), strict=True))
