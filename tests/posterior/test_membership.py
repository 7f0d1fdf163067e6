"""From draws to probabilities and expected quality."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asktell.numerics.pareto import pareto_mask
from asktell.posterior import membership


def test_normals_are_normal_and_repeatable() -> None:
    normals = membership.normals(3, "test", (501, 99), 7)
    assert normals.shape == (501, 99)
    assert stats.kstest(normals.ravel(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(normals[:, 0], normals[:, 1])[0, 1]) < 0.2
    assert (normals == membership.normals(3, "test", (501, 99), 7)).all()
    assert not (normals == membership.normals(3, "test", (501, 99), 8)).any()


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 4))
def test_members_are_the_pareto_sets_of_the_draws(seed: int, n: int, q: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (5, n, q)).astype(float)
    expected = np.array([pareto_mask(draw) for draw in values]).tolist()
    assert membership.pareto_members(values).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membership, "_MANY", 0)
        assert membership.pareto_members(values).tolist() == expected


def test_the_ranking_puts_feasible_prompts_first_and_then_the_least_violation() -> None:
    values = np.array([[[5.0, -1.0], [1.0, 0.0], [2.0, 0.5]], [[5.0, -1.0], [1.0, -0.1], [2.0, -0.5]]])
    assert membership.ranking(values).tolist() == [[2, 1], [1, 2]]


def test_quality_is_one_for_the_best_and_zero_for_the_median_and_for_the_infeasible() -> None:
    values = np.array([[[4.0, 0.0], [3.0, 1.0], [2.0, 0.0], [1.0, 0.0], [9.0, -1.0]]])
    expected = [1 - 0 / 1.5, 1 - 1 / 1.5, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(membership.quality(values)[0], expected)


def test_without_a_feasible_prompt_quality_is_about_violations() -> None:
    values = np.array([[[4.0, -3.0], [3.0, -1.0], [2.0, -2.0]]])
    np.testing.assert_allclose(membership.quality(values)[0], [0.0, 1.0, 0.0])


def test_equal_prompts_are_equally_good() -> None:
    assert membership.quality(np.zeros((2, 3, 2))).tolist() == [[1.0] * 3] * 2


def test_the_best_set_of_certain_values_is_their_pareto_set() -> None:
    values = np.repeat(np.random.default_rng(0).random((1, 30, 2)), 40, axis=0)
    members = membership.pareto_members(values)
    chosen = membership.best_set(values, members, 0)
    assert sorted(chosen) == np.flatnonzero(members[0]).tolist()


def test_the_best_set_leaves_out_what_is_unlikely_and_adds_nothing() -> None:
    rng = np.random.default_rng(1)
    values = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]) + 0.01 * rng.normal(size=(64, 3, 2))
    chosen = membership.best_set(values, membership.pareto_members(values), 0)
    assert sorted(chosen) == [0, 1]


def test_the_best_set_of_equal_prompts_is_all_of_them() -> None:
    values = np.zeros((64, 4, 3))
    assert sorted(membership.best_set(values, membership.pareto_members(values), 0)) == [0, 1, 2, 3]


def test_the_best_feasible_prompt_is_settled_within_a_tolerance() -> None:
    values = np.array(
        [
            [[1.0, 0.0], [0.5, 1.0], [9.0, -1.0]],  # the answer, 0, is best: 2 is infeasible
            [[1.0, 0.0], [1.1, 1.0], [0.0, 0.0]],  # 1 is better by 0.1
            [[1.0, -0.1], [0.5, 1.0], [0.0, 0.0]],  # the answer misses its bound by 0.1
            [[1.0, -0.3], [0.5, -0.2], [0.0, -1.0]],  # none is feasible, 1 violates less by 0.1
        ]
    )
    answer = np.array([0])
    assert membership.settled(values, answer, True, 0.0).tolist() == [True, False, False, False]
    assert membership.settled(values, answer, True, 0.15).tolist() == [True, True, True, True]


def test_a_pareto_set_is_settled_within_a_tolerance() -> None:
    values = np.array(
        [
            [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]],  # {0, 1} is the set
            [[1.0, 0.0], [0.0, 1.0], [0.1, 0.9]],  # 2 is in it, but 1 nearly matches it
            [[1.0, 0.0], [0.0, 1.0], [0.05, 1.05]],  # 2 dominates 1, by 0.05
            [[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]],  # 2 is in it
        ]
    )
    answer = np.array([0, 1])
    assert membership.settled(values, answer, False, 0.0).tolist() == [True, False, False, False]
    assert membership.settled(values, answer, False, 0.11).tolist() == [True, True, True, False]
    assert membership.settled(values, np.arange(3), False, 0.0).tolist() == [False, True, False, True]


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 3))
def test_the_true_pareto_set_is_always_right(seed: int, n: int, q: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (1, n, q)).astype(float)
    answer = np.flatnonzero(pareto_mask(values[0]))
    assert membership.settled(values, answer, False, 0.0).tolist() == [True]


SIZES = st.sampled_from([0.0, 1e-300, 1.0, 1e100, 1e150, -1.0, -1e100, -1e150]) | st.floats(-1e150, 1e150)


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=6))
def test_quality_of_numbers_of_any_size_is_a_part(rows: list[tuple[float, float]]) -> None:
    values = np.array([rows, rows[::-1]])
    quality = membership.quality(values)  # a warning is an error
    assert ((quality >= 0) & (quality <= 1)).all()
    assert (quality.max(axis=1) == 1).all()
    np.testing.assert_array_equal(quality[0], quality[1][::-1])
