"""Gaps, hardness and bounds against hand computation."""

import math

import numpy as np
import pytest

from asktell.errors import InvalidArgumentError
from benchmarks.selection.theory import (
    budget_for_error,
    constrained_gaps,
    error_bound,
    hardness,
    pareto_gaps,
    pareto_hardness,
)

MEANS = np.array([[0.8, 0.7], [0.6, 0.9], [0.9, 0.4], [0.95, 0.1], [0.3, 0.2]])


def test_constrained_gaps_by_hand() -> None:
    gaps, best = constrained_gaps(MEANS, [0.5])
    assert best == 0
    # Capped by the best arm's own margin of 0.2; arm 2 misses the threshold by 0.1, arm
    # 3 by 0.4, arm 4 by 0.3.
    np.testing.assert_allclose(gaps, [0.0, 0.2, 0.1, 0.2, 0.2])
    assert hardness(gaps, best) == pytest.approx(100.0)


def test_gaps_do_not_depend_on_common_shifts() -> None:
    one, _ = constrained_gaps(MEANS, [0.5])
    other, _ = constrained_gaps(MEANS + np.array([3.0, -1.0]), [-0.5])
    np.testing.assert_allclose(one, other)


def test_any_number_of_constraints() -> None:
    means = np.column_stack((MEANS, [0.9, 0.1, 0.9, 0.9, 0.9]))
    gaps, best = constrained_gaps(means, [0.5, 0.85])
    assert best == 0
    np.testing.assert_allclose(gaps, [0.0, 0.05, 0.05, 0.05, 0.05])
    unconstrained, best = constrained_gaps(MEANS[:, :1], [])
    assert best == 3
    np.testing.assert_allclose(unconstrained, [0.15, 0.35, 0.05, 0.0, 0.65])


def test_a_best_arm_on_the_threshold_is_infinitely_hard() -> None:
    gaps, best = constrained_gaps(MEANS, [0.7])
    assert hardness(gaps, best) == math.inf


def test_refuses_what_has_no_answer() -> None:
    with pytest.raises(InvalidArgumentError, match="threshold"):
        constrained_gaps(MEANS, [2.0])
    with pytest.raises(InvalidArgumentError, match="shape"):
        constrained_gaps(MEANS, [0.1, 0.2])
    with pytest.raises(InvalidArgumentError):
        budget_for_error(0.0, 10, 2, 1.0, 1.0)


def test_the_printed_bound_and_the_examples_of_how_loose_it_is() -> None:
    n_rounds, budget, d, noise, h = 7, 500_000, 10, 0.5, 100.0
    printed = (
        48
        * n_rounds
        * math.exp(-(1 / (6 * noise**2)) / 4 * (budget // n_rounds) / (d * h))
    )
    assert error_bound(budget, 100, d, noise, h) == pytest.approx(printed)
    assert printed == pytest.approx(0.0023, rel=0.05)
    assert error_bound(100_000, 100, d, noise, h) == 1.0
    assert error_bound(45 * d * n_rounds - 1, 100, d, 1e-6, h) == 1.0
    assert error_bound(10**6, 100, d, noise, h, n_metrics=4) == pytest.approx(
        2 * error_bound(10**6, 100, d, noise, h)
    )
    assert error_bound(0, 1, d, noise, h) == 0.0


@pytest.mark.parametrize("target", [0.5, 0.05, 1e-9])
def test_the_budget_for_an_error_is_the_smallest(target: float) -> None:
    for n_arms, d, noise, h, m in (
        (100, 10, 0.5, 100.0, 2),
        (7, 3, 1.0, 4.0, 3),
        (1000, 2, 0.01, 1.0, 1),
    ):
        budget = budget_for_error(target, n_arms, d, noise, h, m)
        n_rounds = math.ceil(math.log2(n_arms))
        assert error_bound(budget, n_arms, d, noise, h, m) <= target
        assert error_bound(budget - n_rounds, n_arms, d, noise, h, m) > target


def test_pareto_gaps_and_hardness_of_known_means() -> None:
    gaps, optimal = pareto_gaps(np.array([(0.5, 0.4), (0.4, 0.6), (0.1, 0.1)]))
    np.testing.assert_allclose(gaps, [0.1, 0.1, 0.3])
    assert optimal.tolist() == [True, True, False]
    assert pareto_hardness(gaps) == pytest.approx(200.0)
    assert pareto_hardness(np.array([0.0, 1.0])) == math.inf
