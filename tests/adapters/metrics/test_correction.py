"""Correcting a judge by a few human labels: right on average, however biased it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asktell.errors import InvalidArgumentError
from asktell_adapters.metrics import corrected_mean

LABELS, JUDGED, OTHERS = (
    [1.0, 2.0, 3.0, 4.0, 5.0],
    [2.0, 2.0, 4.0, 4.0, 5.0],
    [2.0, 3.0, 4.0, 5.0],
)


def test_the_papers_estimate_and_its_error_by_hand() -> None:
    found = corrected_mean(LABELS, JUDGED, OTHERS, weight=1)
    # The judge on the others, less its bias on the labelled
    assert found.mean == pytest.approx(3.5 - 0.4)
    assert found.bias == pytest.approx(0.4)
    assert found.standard_error == pytest.approx((0.3 / 5 + (5 / 3) / 4) ** 0.5)
    assert found.judge_alone == pytest.approx(31 / 9)
    low, high = found.interval
    assert low + high == pytest.approx(2 * found.mean)


def test_a_judge_that_is_not_listened_to_leaves_the_humans_mean() -> None:
    found = corrected_mean(LABELS, JUDGED, OTHERS, weight=0)
    assert found.mean == found.humans_alone == 3.0
    assert found.standard_error == pytest.approx((2.5 / 5) ** 0.5)
    # Student's t of 4 degrees of freedom
    assert found.interval[1] == pytest.approx(3.0 + 2.7764451 * 0.5**0.5)


def test_a_judge_who_says_always_the_same_counts_for_nothing() -> None:
    found = corrected_mean(LABELS, [3.0] * 5, [3.0] * 100)
    assert (found.weight, found.mean) == (0.0, 3.0)


def test_the_weight_is_the_slope_on_the_labelled_answers_drawn_towards_1() -> None:
    near, far = np.array(JUDGED), np.array(OTHERS)
    human = np.array([3.0, 2.0, 3.0, 3.0, 4.0])
    agreed = 2.0 * np.concatenate([near, far]).var(ddof=1)
    off = near - near.mean()
    expected = (off @ human + agreed) / (off @ off + agreed)
    found = corrected_mean(human, near, far)
    assert found.weight == pytest.approx(expected)
    assert found.mean == pytest.approx(
        expected * far.mean() + np.mean(human - expected * near)
    )
    assert off @ human / (off @ off) < expected < 1


@pytest.mark.parametrize("judge", ["perfect", "good", "bad"])
@pytest.mark.parametrize("n", [10, 20, 50, 100])
@pytest.mark.parametrize(
    "shares", [(0.03, 0.0, 0.02, 0.15, 0.8), (0.05, 0.0, 0.0, 0.0, 0.95)]
)
def test_the_interval_holds_where_bad_grades_are_rare(
    shares: tuple[float, ...], n: int, judge: str
) -> None:
    """`benchmarks.selection.judge_correction`. With a weight by all of the judge's scores it held in 8 to 92 %."""
    rng, grades = np.random.default_rng([n, *judge.encode()]), np.arange(1.0, 6.0)
    runs, held, truth = 200, 0, float(np.arange(1.0, 6.0) @ shares)
    for _ in range(runs):
        human = rng.choice(grades, n + 300, p=shares)
        judged = human if judge == "perfect" else rng.choice(grades, n + 300)
        if judge == "good":
            judged = np.clip(np.rint(human + 0.5 * rng.normal(size=n + 300)), 1, 5)
        low, high = corrected_mean(human[:n], judged[:n], judged[n:]).interval
        held += low - 1e-9 <= truth <= high + 1e-9
    assert held / runs > 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5


def test_a_perfect_judge_is_listened_to_though_no_label_is_of_a_bad_answer() -> None:
    labels, others = [5.0] * 10, [5.0] * 285 + [1.0] * 15
    found = corrected_mean(labels, labels, others)
    assert (found.weight, found.mean) == (1.0, pytest.approx(np.mean(others)))
    assert found.interval[0] < 4.8 < found.interval[1]


def test_a_perfect_judge_counts_in_full_where_there_are_many_other_answers() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=10_020)
    found = corrected_mean(truth[:20], truth[:20], truth[20:])
    assert found.weight == pytest.approx(1, abs=0.3)
    assert (
        found.standard_error
        < 0.1
        < corrected_mean(truth[:20], truth[:20], truth[20:], weight=0).standard_error
    )


@pytest.mark.parametrize("bias", [0.0, 1.0, -2.0])
def test_the_interval_holds_the_humans_mean_where_the_judges_does_not(
    bias: float,
) -> None:
    rng = np.random.default_rng(7)
    runs, n, n_others, truth = 400, 20, 300, 3.0
    held, off = 0, []
    for _ in range(runs):
        humans = truth + rng.normal(size=n + n_others)
        judged = humans + bias + 0.5 * rng.normal(size=n + n_others)
        found = corrected_mean(humans[:n], judged[:n], judged[n:])
        held += found.interval[0] <= truth <= found.interval[1]
        off.append(found.mean - truth)
    assert held / runs > 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5
    assert abs(np.mean(off)) < 4 * np.std(off) / runs**0.5


@pytest.mark.parametrize("agreement", [0.5, 1.0])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [10, 50, 200])
def test_the_interval_holds_the_share_that_humans_accept(
    n: int, p: float, agreement: float
) -> None:
    """See the table in docs/how-to/use-a-judge.md; Student's t alone covers 0 to 95 % here."""
    rng = np.random.default_rng([n, int(100 * p), int(10 * agreement)])
    runs, held, widths = 300, 0, []
    for _ in range(runs):
        humans = (rng.random(n + 300) < p).astype(float)
        judged = np.where(rng.random(n + 300) < agreement, humans, 1 - humans)
        found = corrected_mean(humans[:n], judged[:n], judged[n:])
        held += found.interval[0] <= p <= found.interval[1]
        widths.append(found.interval[1] - found.interval[0])
    assert held / runs > 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5
    assert min(widths) > 0


def test_the_interval_of_a_difference_of_two_prompts_holds_it() -> None:
    rng = np.random.default_rng(3)
    runs, n, held = 300, 20, 0
    for _ in range(runs):
        a, b = (
            (rng.random(n + 300) < 0.99).astype(float),
            (rng.random(n + 300) < 0.97).astype(float),
        )
        difference = a - b
        low, high = corrected_mean(
            difference[:n], difference[:n], difference[n:]
        ).interval
        held += low <= 0.02 <= high
    assert held / runs > 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((LABELS[:4], JUDGED[:4], OTHERS), "labels has 4"),
        ((LABELS, JUDGED, [1.0]), "others has 1"),
        ((LABELS, JUDGED[:4], OTHERS), "have the same length"),
        ((LABELS, [*JUDGED[:4], float("nan")], OTHERS), "must be finite"),
        (([LABELS], [JUDGED], OTHERS), "must be flat"),
    ],
)
def test_what_cannot_be_corrected_is_said(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        corrected_mean(*arguments)
