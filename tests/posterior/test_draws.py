"""Metrics that never varied, held against a bound that they equal."""

import numpy as np
import pytest

from asktell import BestFeasible, Selector, analyze, at_least, at_most, maximize
from asktell.numerics.cells import Cells
from asktell.posterior import draws as joint_draws
from asktell.posterior import membership
from asktell.posterior.draws import held, is_unvarying
from asktell.posterior.of_state import stated
from asktell.posterior.statement import Statement, _near, _near_share
from asktell.posterior.two_way import chance_of_another
from asktell.problem.objectives import Constraint

N, SEEN = 60, 12
AT_PRICE = at_most(0.62)


def cells(score: float) -> Cells:
    arms, examples = np.repeat([0, 1], SEEN), np.tile(np.arange(SEEN), 2)
    return Cells.of(arms, examples, np.full((2 * SEEN, 1), score), N)


def of_costs(
    costs: list[list[float]],
    bound: Constraint = AT_PRICE,
    range_: tuple[float, float] | None = None,
) -> Statement:
    """What follows on the given examples from the costs of each prompt, on the first examples."""
    goal = BestFeasible(maximize("q"), subject_to={maximize("c", range=range_): bound})
    names = list("abc"[: len(costs)])
    selector = Selector(
        names, goal, 3 * N, "auto", examples=N, inputs="given", repeats=1
    )
    for arm, of_arm in enumerate(costs):
        for example, cost in enumerate(of_arm):
            selector.observe(arm, [0.1 * arm + 0.01 * example, cost], example=example)
    found = stated(selector.state)
    assert found is not None
    return found


def p_feasible(
    score: float,
    bound: Constraint,
    seen: int = SEEN,
    range_: tuple[float, float] | None = None,
) -> list[float]:
    found = of_costs([[score] * seen] * 2, bound, range_)
    return membership.feasible(found.values).mean(axis=0).tolist()  # type: ignore[no-any-return]


def test_a_cost_that_is_always_the_same_keeps_the_bound_that_it_equals() -> None:
    """After 24 scores of 0.37 another one is unlikely; before, half of the draws were beyond the bound."""
    for bound in (at_most(0.37), at_least(0.37)):
        assert min(p_feasible(0.37, bound)) > 0.95
    assert p_feasible(0.37, at_most(0.36)) == [0.0, 0.0]


def test_a_price_that_differs_between_prompts_keeps_the_bound_that_it_equals() -> None:
    """Before, half of the draws of a price of 0.62 were beyond a bound of 0.62."""
    prices = [[0.37] * SEEN, [0.62] * 2, [2.9]]
    for bound, expected in (
        (at_most(0.62), [True, True, False]),
        (at_least(0.62), [False, True, True]),
    ):
        found = of_costs(prices, bound)
        p = membership.feasible(found.values).mean(axis=0)
        assert (np.abs(p - expected) < 0.05).all()


def test_prompts_keep_their_price_as_often_as_no_other_price_is_expected() -> None:
    found = of_costs([[0.37] * SEEN, [0.62] * 2, [2.9]])
    m = SEEN - 1 + 2 - 1 + 1
    is_same = found.columns[1] == [0.37, 0.62, 2.9]
    assert is_same.mean() == pytest.approx((m + 0.5) / (m + 1), abs=0.01)


@pytest.mark.parametrize(
    "prices",
    [
        # One of 14 scores differs, 7 repetitions are few, and 0 and 1 agree by chance.
        [[0.37] * SEEN, [0.62, 0.63]],
        [[0.37] * 5, [0.62] * 4],
        [[1.0] * SEEN, [0.0] * SEEN],
    ],
)
def test_costs_that_may_vary_are_not_held(
    prices: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = of_costs(prices)
    monkeypatch.setattr(
        joint_draws, "_with_prices", lambda goal, cells, columns: columns
    )
    without = of_costs(prices)
    assert (found.values == without.values).all()


def test_that_all_reach_the_end_of_a_range_is_as_likely_as_the_rule_of_succession_says() -> (
    None
):
    m = 1 / chance_of_another(5.0, 2 * SEEN, np.array([SEEN]), (0.0, 5.0))[0]
    assert m == pytest.approx(((2 * SEEN + 1) * (SEEN + 1)) ** 0.5)
    assert (
        p_feasible(5.0, at_least(5), range_=(0.0, 5.0))
        == [pytest.approx(m / (m + N - SEEN), abs=0.01)] * 2
    )
    assert p_feasible(5.0, at_least(5), seen=N, range_=(0.0, 5.0)) == [1.0, 1.0]


@pytest.mark.parametrize(("score", "bound"), [(1.0, at_least(1)), (0.0, at_most(0))])
@pytest.mark.parametrize("seen", [6, SEEN, 30, 50])
def test_that_all_given_outputs_are_valid_is_about_as_likely_as_the_rule_of_succession_says(
    seen: int, score: float, bound: Constraint
) -> None:
    """The scores are drawn as log odds; that so many were valid says nothing of the others beyond them."""
    assert p_feasible(score, bound, seen=seen) == pytest.approx(
        [(seen + 1) / (N + 1)] * 2, abs=0.06
    )


@pytest.mark.parametrize(("score", "bound"), [(1.0, at_least(1)), (0.0, at_most(0))])
def test_what_was_valid_on_every_given_example_is_so_for_certain(
    score: float, bound: Constraint
) -> None:
    assert p_feasible(score, bound, seen=N) == [1.0, 1.0]


def test_draws_stay_within_a_range_and_on_the_side_that_breaks_the_bound() -> None:
    draws = np.random.default_rng(0).normal(1.0, 0.1, (400, 2))
    below = held(draws, cells(1.0), 0, N, None, at_most=False)
    assert below.max() == 1.0
    assert (
        np.sort(1.0 - below, axis=0)[-50:] == np.sort(np.abs(draws - 1.0), axis=0)[-50:]
    ).all()
    assert held(draws, cells(1.0), 0, N, None, at_most=True).min() == 1.0
    assert held(draws, cells(1.0), 0, N, (0.0, 1.0), at_most=True).max() == 1.0
    assert held(draws, cells(1.0), 0, N, (1.0, 2.0), at_most=False).min() == 1.0
    both = held(draws + 1.5, cells(2.5), 0, N, None, at_most=True)
    assert both.min() < 2.5 < both.max()
    m = 1 / chance_of_another(2.5, 2 * SEEN, np.array([SEEN]), None)[0]
    left = N - SEEN
    assert (both == 2.5).mean() == pytest.approx(
        m * (m + left + 1) / ((m + 1) * (m + left)), abs=0.01
    )


def test_one_other_score_is_enough_to_vary() -> None:
    varied = cells(1.0)._replace(
        scores=np.append(np.ones((2 * SEEN - 1, 1)), [[0.0]], axis=0)
    )
    assert is_unvarying(cells(1.0), 0)
    assert not is_unvarying(varied, 0)
    noisy = Cells.of(
        np.zeros(4, int),
        np.repeat([0, 1], 2),
        np.array([[0.0], [2.0], [1.0], [1.0]]),
        N,
        is_noisy=True,
    )
    assert not is_unvarying(noisy, 0)


def test_what_is_stated_is_so_as_often() -> None:
    """Shares of valid outputs drawn evenly from 0 to 1: among those all valid so far, how many are so to the end."""
    rng = np.random.default_rng(1)
    stated, is_so = [], []
    for _ in range(4000):
        valid = rng.random(N) < rng.random()
        if valid[:SEEN].all():
            arms = np.zeros(SEEN, dtype=np.int64)
            some = Cells.of(arms, np.arange(SEEN), np.ones((SEEN, 1)), N)
            draws = held(
                1.0 + 0.1 * rng.standard_normal((64, 1)),
                some,
                0,
                N,
                None,
                at_most=False,
            )
            stated.append((draws == 1.0).mean())
            is_so.append(valid.all())
    assert len(stated) > 200
    assert np.mean(stated) == pytest.approx(np.mean(is_so), abs=0.08)


def test_the_prior_of_a_level_is_a_density_around_the_bound() -> None:
    level = np.linspace(1e-4, 1.0 - 1e-4, 200_001)
    width = level[1] - level[0]
    for bound in (0.02, 0.5, 0.9):
        share = _near_share(bound, level)
        assert share.sum() * width == pytest.approx(1.0, abs=0.01)
        below = share[level < bound].sum() * width
        assert below == pytest.approx(0.5, abs=0.01)
        # Two thirds are within a factor of 2 of the limit's odds.
        odds = level / (1 - level) / (bound / (1 - bound))
        inside = share[np.abs(np.log(odds)) < 0.7].sum() * width
        assert inside == pytest.approx(0.683, abs=0.01)
        mean = _near(bound, 0.0, 1.0, level - bound)
        assert level[mean.argmax()] == pytest.approx(bound, abs=1e-4)
    assert (_near_share(0.02, np.array([-0.1, 0.0])) < 0.5).all()
    # A range that is tiny compared with the distance
    assert _near(0.0, 0.0, 1e-90, np.array([1e90, 1e-90])).tolist() == [0.0, 0.0]


def test_two_values_at_the_ends_of_a_range_are_as_0_and_1() -> None:
    rng = np.random.default_rng(6)
    scores = (rng.random((4, 30, 2)) < 0.6).astype(float)
    of_codings = []
    for low, high in ((0.0, 1.0), (1.0, 5.0)):
        bound = low + 0.5 * (high - low)
        goal = BestFeasible(
            maximize("q", range=(low, high)),
            {maximize("c", range=(low, high)): at_least(bound)},
        )
        result = analyze(low + (high - low) * scores, goal)
        of_codings.append(
            [
                (
                    (entry.estimate["q"] - low) / (high - low),
                    entry.standard_error["q"] / (high - low),
                    entry.p_best,
                    entry.p_feasible,
                )
                for entry in result.prompts
            ]
        )
    np.testing.assert_allclose(*of_codings, atol=1e-9)
