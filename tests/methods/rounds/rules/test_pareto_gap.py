import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.rounds.rules import ParetoGap
from asktell.methods.rounds.rules.gaps import pareto_gaps

INF = float("inf")
Points = list[tuple[float, ...]]


def literal_gaps(values: npt.NDArray[np.float64]) -> tuple[list[float], list[bool]]:
    """The gaps as Kone, Kaufmann & Richert (2024) define them, with delta+ and delta- and no shortcut."""
    arms = range(len(values))

    def m(i: int, j: int) -> float:
        return float(min(values[j] - values[i]))

    def M(i: int, j: int) -> float:
        return float(max(values[i] - values[j]))

    def dominates(j: int, i: int) -> bool:
        return bool((values[j] >= values[i]).all() and (values[j] > values[i]).any())

    optimal = [not any(dominates(j, i) for j in arms) for i in arms]
    front = [i for i in arms if optimal[i]]
    delta_star = {i: max(m(i, j) for j in front) for i in arms if not optimal[i]}
    gaps = []
    for i in arms:
        if not optimal[i]:
            gaps.append(delta_star[i])
            continue
        delta_plus = min((min(M(i, j), M(j, i)) for j in front if j != i), default=INF)
        delta_minus = min(
            (max(M(j, i), 0.0) + max(delta_star[j], 0.0) for j in delta_star),
            default=INF,
        )
        gaps.append(min(delta_plus, delta_minus))
    return gaps, optimal


GOLDEN = [
    (
        [(0.9, 0.1), (0.6, 0.6), (0.1, 0.9), (0.5, 0.5), (0.6, 0.3), (0.2, 0.2)],
        [0.2, 0, 0.3, 0.1, 0, 0.4],
        [True, True, True, False, False, False],
    ),
    ([(0.5, 0.5), (0.4, 0.4)], [0.1, 0.1], [True, False]),
    ([(0.5, 0.4), (0.4, 0.6)], [0.1, 0.1], [True, True]),
    ([(0.5, 0.5), (0.5, 0.5), (0.4, 0.4)], [0, 0, 0.1], [True, True, False]),
    ([(0.5, 1.0), (0.7, 1.0), (0.2, 1.0)], [0, 0, 0], [False, True, False]),
    ([(0.3, 0.4)], [INF], [True]),
    ([(0.3,), (0.9,), (0.9,), (0.5,)], [0.6, 0, 0, 0.4], [False, True, True, False]),
]


@pytest.mark.parametrize(("values", "gaps", "optimal"), GOLDEN)
def test_worked_examples(
    values: Points, gaps: list[float], optimal: list[bool]
) -> None:
    found, front = pareto_gaps(np.array(values))
    np.testing.assert_allclose(found, gaps, atol=1e-12)
    assert front.tolist() == optimal


@pytest.mark.parametrize(("values", "gaps", "optimal"), GOLDEN)
def test_the_literal_definition_gives_the_worked_examples_too(
    values: Points, gaps: list[float], optimal: list[bool]
) -> None:
    assert literal_gaps(np.array(values)) == (pytest.approx(gaps), optimal)


# Eighths: their sums and differences are exact, and ties are frequent.
POINTS = st.integers(1, 4).flatmap(
    lambda q: st.lists(
        st.tuples(*[st.integers(0, 5).map(lambda x: x / 8)] * q), min_size=1, max_size=7
    )
)


@pytest.mark.parametrize("n_metrics", [1, 2, 3, 4])
def test_equals_the_literal_definition_on_a_thousand_random_cases_each(
    n_metrics: int,
) -> None:
    rng = np.random.default_rng(n_metrics)
    for _ in range(1000):
        values = (
            rng.integers(0, rng.integers(2, 12), (rng.integers(1, 9), n_metrics)) / 8
        )
        gaps, optimal = pareto_gaps(values)
        assert (gaps.tolist(), optimal.tolist()) == literal_gaps(values), values


@given(POINTS)
def test_equals_the_literal_definition(points: Points) -> None:
    values = np.array(points)
    gaps, optimal = pareto_gaps(values)
    assert (gaps.tolist(), optimal.tolist()) == literal_gaps(values)


@given(POINTS)
def test_an_optimal_arm_leaves_after_every_arm_it_dominates(points: Points) -> None:
    values = np.array(points)
    gaps, optimal = pareto_gaps(values)
    place = np.argsort(ParetoGap().judge(values).order)
    for i in np.flatnonzero(optimal):
        dominated = (values[i] >= values).all(axis=1) & (values[i] > values).any(axis=1)
        assert (gaps[i] <= gaps[dominated]).all()
        assert (place[i] > place[dominated]).all()


@given(POINTS)
def test_leaves_by_gap_then_sub_optimal_first_then_as_they_came(points: Points) -> None:
    values = np.array(points)
    gaps, optimal = literal_gaps(values)
    judgement = ParetoGap().judge(values)
    assert judgement.order.tolist() == sorted(
        range(len(points)), key=lambda i: (-gaps[i], optimal[i], i)
    )
    assert judgement.accepted.tolist() == optimal
    assert judgement.measure.tolist() == gaps


@given(POINTS)
def test_the_answer_is_the_front_by_the_first_objective(points: Points) -> None:
    values = np.array(points)
    _, optimal = literal_gaps(values)
    front = [i for i in range(len(points)) if optimal[i]]
    assert ParetoGap().answer(values).tolist() == sorted(
        front, key=lambda i: (-values[i, 0], i)
    )


@given(POINTS, st.sampled_from([0.25, 2.0, 8.0]), st.integers(-8, 8))
def test_gaps_scale_with_the_values_and_do_not_see_a_shift(
    points: Points, scale: float, shift: int
) -> None:
    values = np.array(points)
    gaps, optimal = pareto_gaps(values)
    scaled, same = pareto_gaps(values * scale + shift)
    assert scaled.tolist() == (gaps * scale).tolist()
    assert same.tolist() == optimal.tolist()


@given(POINTS, st.permutations(range(7)))
def test_permuting_arms_permutes_the_gaps(
    points: Points, permutation: list[int]
) -> None:
    order = [i for i in permutation if i < len(points)]
    values = np.array(points)
    assert (
        pareto_gaps(values[order])[0].tolist() == pareto_gaps(values)[0][order].tolist()
    )


def test_a_pool_larger_than_a_block_of_pairs_gives_the_same_gaps() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1000, (300, 3)) / 1024
    whole = pareto_gaps(values)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asktell.methods.rounds.rules.gaps._BLOCK", 1000)
        assert pareto_gaps(values)[0].tolist() == whole.tolist()


def test_reasons_name_the_front_and_the_gap() -> None:
    judgement = ParetoGap().judge(np.array([(0.5, 0.5), (0.25, 0.25)]))
    assert ParetoGap().reason(judgement, 0) == "in the Pareto set of 2, gap 0.25"
    assert ParetoGap().reason(judgement, 1) == "dominated of 2, gap 0.25"
