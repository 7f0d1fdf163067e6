import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.rounds.elimination import rule_of
from asktell.methods.rounds.rules import (
    ConstrainedParetoGap,
    ConstrainedRanking,
    ParetoGap,
)
from asktell.problem.goals import BestFeasible, ParetoSet

Rows = list[tuple[float, ...]]


@pytest.mark.parametrize(
    ("values", "first_to_leave_first", "accepted", "answer"),
    [
        # columns: two objectives, then the slack of every constraint
        # The infeasible one first, however good it is
        ([(0.9, 0.9, -0.1), (0.1, 0.1, 0.0)], [0, 1], [1], [1]),
        # By violation
        ([(0.9, 0.1, -0.3), (0.1, 0.9, -0.1), (0.5, 0.5, -0.2)], [0, 2, 1], [], [1]),
        # The largest, not the sum
        (
            [(0, 1, 0.5, -0.2), (1, 0, -0.1, -0.1), (0.5, 0.5, 9, 0)],
            [0, 1, 2],
            [2],
            [2],
        ),
        # Feasible: gaps .2, .1, .1 among themselves; with the infeasible one, all would
        # be dominated.
        (
            [(2, 2, -1), (0.5, 0.4, 0), (0.4, 0.6, 0), (0.2, 0.2, 0)],
            [0, 3, 1, 2],
            [1, 2],
            [1, 2],
        ),
        # Equally violating: the one farthest below the front of all first, and those on
        # it last, as they came.
        (
            [(0, 0, -0.5), (0.2, 0.2, -0.5), (1, 0.1, -0.5), (0.1, 1, -0.5)],
            [0, 1, 2, 3],
            [],
            [3],
        ),
        ([(0.3, 0.4, -0.1)], [0], [], [0]),
        ([(0.3, 0.4, 0.0)], [0], [0], [0]),
        # More slack is no better
        ([(0.5, 0.5, 1), (0.5, 0.5, 0), (0.4, 0.4, 0)], [2, 0, 1], [0, 1], [0, 1]),
    ],
)
def test_by_hand(
    values: Rows,
    first_to_leave_first: list[int],
    accepted: list[int],
    answer: list[int],
) -> None:
    judgement = ConstrainedParetoGap(2).judge(np.array(values, dtype=float))
    assert judgement.order.tolist() == first_to_leave_first
    assert np.flatnonzero(judgement.accepted).tolist() == accepted
    assert (
        sorted(ConstrainedParetoGap(2).answer(np.array(values, dtype=float)).tolist())
        == answer
    )


def test_reasons_name_the_violation_or_the_gap_among_the_feasible() -> None:
    rule = ConstrainedParetoGap(2)
    judgement = rule.judge(np.array([(9, 9, -0.25), (0.5, 0.5, 0.0), (0.25, 0.25, 1)]))
    assert rule.reason(judgement, 0) == "violates a constraint by 0.25; 2 of 3 feasible"
    assert rule.reason(judgement, 1) == "in the Pareto set of 2 feasible, gap 0.25"
    assert rule.reason(judgement, 2) == "dominated of 2 feasible, gap 0.25"


# Eighths: their sums and differences are exact, and ties are frequent.
def rows(
    n_objectives: st.SearchStrategy[int], n_slacks: st.SearchStrategy[int]
) -> st.SearchStrategy[tuple[int, Rows]]:
    def of(widths: tuple[int, int]) -> st.SearchStrategy[tuple[int, Rows]]:
        objective, slack = (st.integers(low, 5).map(lambda x: x / 8) for low in (0, -3))
        row = st.tuples(*[objective] * widths[0], *[slack] * widths[1])
        return st.tuples(st.just(widths[0]), st.lists(row, min_size=1, max_size=8))

    return st.tuples(n_objectives, n_slacks).flatmap(of)


def literal_front(values: npt.NDArray[np.float64], p: int) -> list[int]:
    """The feasible rows that no feasible row dominates; without any, those of the least violation."""
    feasible = [i for i, row in enumerate(values) if all(row[p:] >= 0)]
    if not feasible:
        violations = [max(-row[p:]) for row in values]
        return [
            i for i, violation in enumerate(violations) if violation == min(violations)
        ]

    def dominates(j: int, i: int) -> bool:
        a, b = values[j, :p], values[i, :p]
        return bool((a >= b).all() and (a > b).any())

    return [i for i in feasible if not any(dominates(j, i) for j in feasible)]


@given(rows(st.integers(1, 3), st.integers(0, 3)))
def test_the_answer_is_the_front_among_the_feasible(case: tuple[int, Rows]) -> None:
    p, values = case[0], np.array(case[1])
    answer, expected = (
        ConstrainedParetoGap(p).answer(values).tolist(),
        literal_front(values, p),
    )
    if (values[expected, p:] >= 0).all():
        assert answer == sorted(expected, key=lambda i: (-values[i, 0], i))
    else:
        assert len(answer) == 1
        assert set(answer) <= set(expected)


@given(rows(st.integers(1, 4), st.just(0)))
def test_without_constraints_it_is_the_pareto_gap(case: tuple[int, Rows]) -> None:
    values = np.array(case[1])
    found, expected = (
        ConstrainedParetoGap(case[0]).judge(values),
        ParetoGap().judge(values),
    )
    for one, other in zip(found, expected, strict=True):
        assert one.tolist() == other.tolist()
    assert (
        ConstrainedParetoGap(case[0]).answer(values).tolist()
        == ParetoGap().answer(values).tolist()
    )
    for position in range(len(values)):
        words = ParetoGap().reason(expected, position)
        of = f"of {len(values)}"
        assert ConstrainedParetoGap(case[0]).reason(found, position) == words.replace(
            of, f"{of} feasible"
        )


@given(rows(st.just(1), st.integers(0, 3)))
def test_with_one_objective_it_is_constrained_ranking_up_to_equals(
    case: tuple[int, Rows],
) -> None:
    values = np.array(case[1])

    def key(i: int) -> tuple[float, float]:
        """What constrained ranking sorts by: equal for equals, whose order is left to chance."""
        return min(0.0, *values[i, 1:], 0.0), values[i, 0]

    order, known = (
        rule.judge(values).order.tolist()
        for rule in (ConstrainedParetoGap(1), ConstrainedRanking())
    )
    assert [key(i) for i in order] == [key(i) for i in known]
    best = ConstrainedRanking().answer(values)[0]
    assert {key(i) for i in ConstrainedParetoGap(1).answer(values)} == {key(best)}


@given(rows(st.integers(1, 3), st.integers(1, 2)))
def test_nobody_feasible_leaves_before_an_infeasible_one_or_one_it_dominates(
    case: tuple[int, Rows],
) -> None:
    p, values = case[0], np.array(case[1])
    judgement = ConstrainedParetoGap(p).judge(values)
    place = np.argsort(judgement.order)
    keeps = (values[:, p:] >= 0).all(axis=1)
    assert place[keeps].min(initial=99) > place[~keeps].max(initial=-1)
    for i in np.flatnonzero(judgement.accepted):
        better = (values[i, :p] >= values[:, :p]).all(axis=1) & (
            values[i, :p] > values[:, :p]
        ).any(axis=1)
        assert (place[i] > place[keeps & better]).all()
    assert np.flatnonzero(judgement.accepted).tolist() == (
        [] if not keeps.any() else literal_front(values, p)
    )


def test_each_goal_has_its_rule() -> None:
    assert rule_of(BestFeasible("a", {"b": 1})) == ConstrainedRanking()
    assert rule_of(ParetoSet("a", "b")) == ParetoGap()
    assert rule_of(ParetoSet("a", "b", subject_to={"c": 1})) == ConstrainedParetoGap(2)
