"""From draws to probabilities and expected quality."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asktell.numerics import counters
from asktell.numerics.pareto import pareto_mask
from asktell.posterior import draws, membership


def test_normals_are_normal_and_repeatable() -> None:
    normals = draws.normals(3, "test", (501, 99), 7)
    assert normals.shape == (501, 99)
    assert stats.kstest(normals.ravel(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(normals[:, 0], normals[:, 1])[0, 1]) < 0.2
    assert (normals == draws.normals(3, "test", (501, 99), 7)).all()
    assert not (normals == draws.normals(3, "test", (501, 99), 8)).any()


def test_normals_are_those_of_box_and_muller() -> None:
    n = 3 * membership._BLOCK  # half of them, over several blocks
    bits = counters.bits(3, "test", 7, np.arange(n))
    radius = np.sqrt(
        -2.0 * np.log(((bits >> np.uint64(32)).astype(float) + 0.5) / 2.0**32)
    )
    angle = 2.0 * np.pi * (bits & np.uint64(2**32 - 1)).astype(float) / 2.0**32
    found = draws.normals(3, "test", (2, n), 7)
    np.testing.assert_allclose(
        found, radius * np.array([np.cos(angle), np.sin(angle)]), rtol=0, atol=1e-14
    )


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 4))
def test_members_are_the_pareto_sets_of_the_draws(seed: int, n: int, q: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (5, n, q)).astype(float)
    expected = np.array([pareto_mask(draw) for draw in values]).tolist()
    assert membership.pareto_members(values).tolist() == expected


def test_the_ranking_puts_feasible_prompts_first_and_then_the_least_violation() -> None:
    values = np.array(
        [[[5.0, -1.0], [1.0, 0.0], [2.0, 0.5]], [[5.0, -1.0], [1.0, -0.1], [2.0, -0.5]]]
    )
    merits = membership.merit(values)
    assert membership.ranking(merits).tolist() == [[2, 1], [1, 2]]


def test_quality_is_one_for_the_best_and_zero_for_the_median_and_for_the_infeasible() -> (
    None
):
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
    values = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]) + 0.01 * rng.normal(
        size=(64, 3, 2)
    )
    chosen = membership.best_set(values, membership.pareto_members(values), 0)
    assert sorted(chosen) == [0, 1]


def test_the_best_set_of_equal_prompts_is_all_of_them() -> None:
    values = np.zeros((64, 4, 3))
    assert sorted(
        membership.best_set(values, membership.pareto_members(values), 0)
    ) == [0, 1, 2, 3]


def test_the_best_feasible_prompt_is_settled_within_a_tolerance() -> None:
    values = np.array(
        [
            # The answer, 0, is best: 2 is infeasible
            [[1.0, 0.0], [0.5, 1.0], [9.0, -1.0]],
            [[1.0, 0.0], [1.1, 1.0], [0.0, 0.0]],  # 1 is better by 0.1
            [[1.0, -0.1], [0.5, 1.0], [0.0, 0.0]],  # the answer misses its bound by 0.1
            # None is feasible, 1 violates less by 0.1
            [[1.0, -0.3], [0.5, -0.2], [0.0, -1.0]],
        ]
    )
    answer = np.array([0])
    assert membership.settled(values, answer, True, 0.0).tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert membership.settled(values, answer, True, 0.15).tolist() == [
        True,
        True,
        True,
        True,
    ]


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
    assert membership.settled(values, answer, False, 0.0).tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert membership.settled(values, answer, False, 0.11).tolist() == [
        True,
        True,
        True,
        False,
    ]
    assert membership.settled(values, np.arange(3), False, 0.0).tolist() == [
        False,
        True,
        False,
        True,
    ]


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 3))
def test_the_true_pareto_set_is_always_right(seed: int, n: int, q: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (1, n, q)).astype(float)
    answer = np.flatnonzero(pareto_mask(values[0]))
    assert membership.settled(values, answer, False, 0.0).tolist() == [True]


SIZES = st.sampled_from(
    [0.0, 1e-300, 1.0, 1e100, 1e150, -1.0, -1e100, -1e150]
) | st.floats(-1e150, 1e150)


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=6))
def test_quality_of_numbers_of_any_size_is_a_part(
    rows: list[tuple[float, float]],
) -> None:
    values = np.array([rows, rows[::-1]])
    quality = membership.quality(values)  # a warning is an error
    assert ((quality >= 0) & (quality <= 1)).all()
    assert (quality.max(axis=1) == 1).all()
    np.testing.assert_array_equal(quality[0], quality[1][::-1])


# Pareto sets under constraints: two objectives, then slacks


CONSTRAINED = st.tuples(
    st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 3), st.integers(1, 2)
)


@given(CONSTRAINED)
def test_members_under_constraints_are_the_front_of_the_feasible(
    case: tuple[int, int, int, int],
) -> None:
    seed, n, p, c = case
    values = np.random.default_rng(seed).integers(-3, 4, (6, n, p + c)).astype(float)
    members = membership.pareto_members(membership.standing(values, p))
    for draw, found in zip(values, members, strict=True):
        violation = np.maximum(0.0, -draw[:, p:].min(axis=1))
        feasible = np.flatnonzero(violation == 0)
        expected = violation == violation.min()
        if len(feasible):
            expected[:] = False
            expected[feasible[pareto_mask(draw[feasible, :p])]] = True
        assert found.tolist() == expected.tolist()
        assert membership.settled(
            draw[None], np.flatnonzero(found), False, 0.0, p
        ).tolist() == [True]


def test_without_constraints_the_standing_is_the_values() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 2))
    assert np.shares_memory(membership.standing(values, 2), values)


def test_the_best_set_of_certain_values_is_the_front_of_the_feasible() -> None:
    rng = np.random.default_rng(0)
    values = np.repeat(rng.random((1, 30, 3)) - [0, 0, 0.5], 40, axis=0)
    members = membership.pareto_members(membership.standing(values, 2))
    assert (values[0, members[0], 2] >= 0).all()
    assert (
        sorted(membership.best_set(values, members, 0, 2))
        == np.flatnonzero(members[0]).tolist()
    )
    values[:, :, 2] -= 1  # nobody is feasible
    members = membership.pareto_members(membership.standing(values, 2))
    assert membership.best_set(values, members, 0, 2).tolist() == [
        values[0, :, 2].argmax()
    ]


def test_the_best_set_leaves_out_who_is_hardly_ever_feasible() -> None:
    values = np.array(
        [[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, -1.0]]] * 64
    )
    values[:2, 3, 2] = 0.0  # feasible in two of the draws
    members = membership.pareto_members(membership.standing(values, 2))
    assert sorted(membership.best_set(values, members, 0, 2)) == [0, 1]


def test_a_front_under_constraints_is_settled_within_a_tolerance() -> None:
    values = np.array(
        [
            # {0, 1}: 2 is infeasible
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 2.0, -0.1]],
            # 1 misses its bound by 0.1
            [[1.0, 0.0, 0.0], [0.0, 1.0, -0.1], [0.0, 0.0, 1.0]],
            # 2 is in it, but 1 nearly matches it
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.1, 0.9, 0.0]],
            # 2 is feasible, and dominates
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 2.0, 0.0]],
            # None is feasible, 2 violates less by 0.1
            [[1.0, 0.0, -0.3], [0.0, 1.0, -0.3], [0.0, 0.0, -0.2]],
            # None is feasible, 0 and 1 violate least
            [[1.0, 0.0, -0.2], [0.0, 1.0, -0.2], [0.0, 0.0, -0.3]],
        ]
    )
    answer = np.array([0, 1])
    assert membership.settled(values, answer, False, 0.0, 2).tolist() == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    assert membership.settled(values, answer, False, 0.11, 2).tolist() == [
        True,
        True,
        True,
        False,
        True,
        True,
    ]
