import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asktell.methods.rounds.estimators import Sample, SampleMean
from asktell.numerics.tally import Tally


def tally(rows: list[tuple[int, float]], n_arms: int = 3) -> Tally:
    arms = np.array([arm for arm, _ in rows], dtype=np.int64)
    scores = np.array([[score] for _, score in rows]).reshape(-1, 1)
    return Tally.empty(n_arms, 1).plus(arms, scores)


def assert_equal(left: Tally, right: Tally) -> None:
    for name in ("counts", "first", "sums", "squares"):
        np.testing.assert_array_equal(
            getattr(left, name), getattr(right, name), err_msg=name
        )


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e15 + 0.1, -7.3e-9])
def test_the_mean_of_a_constant_metric_is_exact_and_its_error_is_zero(
    constant: float,
) -> None:
    pulled = tally([(0, constant)] * 1001)
    assert pulled.means[0, 0] == constant
    assert pulled.standard_errors(None)[0, 0] == 0.0


def test_means_and_errors_by_hand() -> None:
    rows = [(0, 1.0), (1, 5.0), (0, 2.0), (0, 6.0), (1, 5.5)]
    pulled = tally(rows)
    assert pulled.counts.tolist() == [3, 2, 0]
    np.testing.assert_allclose(pulled.means[:, 0], [3.0, 5.25, np.nan])
    # Variances 7 and 1/8 over 3 and 2 pulls; of 10 examples, 7/10 and 8/10 are not
    # seen.
    np.testing.assert_allclose(
        pulled.standard_errors(None)[:, 0], [np.sqrt(7 / 3), np.sqrt(1 / 16), np.nan]
    )
    np.testing.assert_allclose(
        pulled.standard_errors(10)[:, 0],
        [np.sqrt(7 / 3 * 0.7), np.sqrt(0.8 / 16), np.nan],
    )
    np.testing.assert_allclose(pulled.pooled_variance, [(14 + 1 / 8) / 3])


def test_an_arm_pulled_once_borrows_the_pooled_variance() -> None:
    pulled = tally([(0, 1.0), (0, 3.0), (1, 9.0)])
    np.testing.assert_allclose(
        pulled.standard_errors(None)[:, 0], [1.0, np.sqrt(2.0), np.nan]
    )


def test_nothing_is_known_of_the_error_if_no_arm_was_pulled_twice() -> None:
    assert np.isnan(tally([(0, 1.0), (1, 3.0)]).standard_errors(10)).all()
    assert np.isnan(tally([]).standard_errors(None)).all()


def test_the_error_is_zero_once_every_example_was_seen_even_if_there_is_just_one() -> (
    None
):
    assert tally([(0, 1.0), (0, 3.0), (1, 9.0)]).standard_errors(2)[0, 0] == 0.0
    assert tally([(0, 1.0), (1, 9.0)]).standard_errors(1)[:2, 0].tolist() == [0.0, 0.0]


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.floats(-1e6, 1e6, width=32)), max_size=40
)


@given(ROWS)
def test_agrees_with_numpy(rows: list[tuple[int, float]]) -> None:
    pulled = tally(rows)
    for arm in range(3):
        own = np.array([score for a, score in rows if a == arm])
        assert pulled.counts[arm] == len(own)
        if len(own):
            np.testing.assert_allclose(
                pulled.means[arm, 0], own.mean(), rtol=1e-9, atol=1e-6
            )
        if len(own) >= 2:
            wanted = np.std(own, ddof=1) * np.sqrt((1 - len(own) / 50) / len(own))
            np.testing.assert_allclose(
                pulled.standard_errors(50)[arm, 0], wanted, rtol=1e-4, atol=1e-3
            )


@given(ROWS, st.integers(0, 40))
def test_adding_rows_in_two_parts_is_the_same_in_every_bit_as_at_once(
    rows: list[tuple[int, float]], cut: int
) -> None:
    arms = np.array([arm for arm, _ in rows], dtype=np.int64)
    scores = np.array([[score] for _, score in rows]).reshape(-1, 1)
    empty = Tally.empty(3, 1)
    assert_equal(
        empty.plus(arms[:cut], scores[:cut]).plus(arms[cut:], scores[cut:]),
        empty.plus(arms, scores),
    )


@given(ROWS, ROWS)
def test_adding_rows_leaves_the_tally_before_it_as_it_was(
    rows: list[tuple[int, float]], more: list[tuple[int, float]]
) -> None:
    before, again = tally(rows), tally(rows)
    arms = np.array([arm for arm, _ in more], dtype=np.int64)
    before.plus(arms, np.array([[score] for _, score in more]).reshape(-1, 1))
    assert_equal(before, again)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(2, 8), st.integers(1, 4)),
        elements=st.floats(-1e3, 1e3),
    )
)
def test_every_metric_is_summed_by_itself(scores: npt.NDArray[np.float64]) -> None:
    arms = np.zeros(len(scores), dtype=np.int64)
    together = Tally.empty(1, scores.shape[1]).plus(arms, scores)
    for j in range(scores.shape[1]):
        alone = Tally.empty(1, 1).plus(arms, scores[:, [j]])
        assert together.means[0, j] == alone.means[0, 0]
        assert together.standard_errors(None)[0, j] == alone.standard_errors(None)[0, 0]


def test_an_arm_without_a_pull_gets_the_mean_over_the_pulled_active_arms() -> None:
    pulled = tally([(0, 1.0), (1, 3.0), (1, 5.0), (3, 100.0)], n_arms=4)
    estimates = SampleMean().estimate(Sample(pulled, np.array([0, 1, 2])))
    # Arm 3 is not active
    np.testing.assert_allclose(estimates.means[:, 0], [1.0, 4.0, 2.5])
    assert np.isfinite(estimates.means).all()


def test_estimates_are_those_of_the_active_arms_in_their_order() -> None:
    pulled = tally([(0, 1.0), (1, 2.0), (2, 3.0)])
    estimates = SampleMean().estimate(Sample(pulled, np.array([0, 2])))
    assert estimates.means[:, 0].tolist() == [1.0, 3.0]
