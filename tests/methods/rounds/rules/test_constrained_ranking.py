import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.rounds.rules import ConstrainedRanking

RULE = ConstrainedRanking()
Rows = list[tuple[float, ...]]


def ranking(rows: Rows, rule: ConstrainedRanking = RULE) -> list[int]:
    return rule.ranking(np.array(rows, dtype=float)).tolist()


@pytest.mark.parametrize(
    ("values", "best_first"),
    [
        # columns: objective, then the slack of every constraint
        ([(0.5,), (0.9,), (0.1,)], [1, 0, 2]),  # no constraint: by the objective
        # Feasible first, however much better the other is
        ([(0.5, 0.1), (0.9, -0.1)], [0, 1]),
        ([(0.5, 0.1), (0.9, 0.0)], [1, 0]),  # meeting the threshold exactly is feasible
        # Infeasible ones by violation, not by objective
        ([(0.9, -0.3), (0.1, -0.1), (0.5, -0.2)], [1, 2, 0]),
        ([(0.1, -0.2), (0.5, -0.2)], [1, 0]),  # equal violations: by the objective
        # Feasible ones with equal objectives: as they came, whatever the slack
        ([(0.5, 0.1), (0.5, 0.3)], [0, 1]),
        ([(0.5, 0.3), (0.5, 0.1), (0.7, 0.0), (0.5, 0.2)], [2, 0, 1, 3]),
        # Infeasible ones, too: the largest violation counts alone
        ([(0.5, -0.1, 0.9), (0.5, 0.2, -0.1)], [0, 1]),
        ([(0.5, 0.1), (0.5, 0.1)], [0, 1]),
        # The largest violation counts
        ([(0.9, 0.5, -0.1), (0.1, -0.2, 0.9), (0.2, 0.0, 0.0)], [2, 0, 1]),
        ([(0.1, -0.1, -0.1), (0.9, -0.2, 0.9)], [0, 1]),  # and not their sum
        ([(0.3, 9.0)], [0]),
    ],
)
def test_ranking(values: Rows, best_first: list[int]) -> None:
    assert ranking(values) == best_first


def test_strict_counts_an_arm_on_the_threshold_as_infeasible() -> None:
    values = [(0.5, 0.1), (0.9, 0.0)]
    assert ranking(values, ConstrainedRanking(strict=True)) == [0, 1]
    assert ConstrainedRanking(strict=True).feasible(np.array(values)).tolist() == [
        True,
        False,
    ]


ROWS = st.integers(1, 4).flatmap(
    lambda q: st.lists(
        st.tuples(*[st.integers(-3, 3).map(lambda x: x / 2)] * q),
        min_size=1,
        max_size=8,
    )
)


@given(ROWS)
def test_ranking_is_the_sort_by_the_published_key(rows: Rows) -> None:
    def key(i: int) -> tuple[object, ...]:
        objective, *slacks = rows[i]
        least = min(slacks, default=float("inf"))
        return (least < 0, max(0.0, -least), -objective, i)

    assert ranking(rows) == sorted(range(len(rows)), key=key)


@given(ROWS)
def test_the_last_leave_first_nobody_is_accepted_and_the_first_is_the_answer(
    rows: Rows,
) -> None:
    values = np.array(rows)
    judgement = RULE.judge(values)
    assert judgement.order.tolist() == ranking(rows)[::-1]
    assert not judgement.accepted.any()
    assert RULE.answer(values).tolist() == ranking(rows)[:1]


@given(ROWS.filter(lambda rows: len(rows[0]) == 3), st.permutations(range(8)))
def test_permuting_arms_permutes_the_ranking(
    rows: Rows, permutation: list[int]
) -> None:
    order = [i for i in permutation if i < len(rows)]
    best = [rows[i] for i in ranking(rows)]
    again = [rows[order[i]] for i in ranking([rows[i] for i in order])]

    def key(row: tuple[float, ...]) -> tuple[float, float]:
        return row[0], min(0.0, *row[1:])

    assert [key(row) for row in again] == [key(row) for row in best]


def test_reasons_say_by_how_much_a_constraint_is_missed() -> None:
    values = np.array([(0.9, -0.25), (0.5, 0.1), (0.3, 0.1)])
    judgement = RULE.judge(values)
    assert RULE.reason(judgement, 0) == "ranked 3 of 3: violates a constraint by 0.25"
    assert RULE.reason(judgement, 2) == "ranked 2 of 3 by the objective, feasible"
