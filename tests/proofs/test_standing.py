"""The standing of prompts: out, open, or established, and a candidate against a baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector, at_least, maximize, minimize
from asktell.extend import decision_of, standing
from asktell.proofs.against import standing_against
from asktell.record import State

BEST = BestFeasible(maximize("a", range=(0, 1)))
GIVEN: dict[str, Any] = {"inputs": "given", "repeats": 1}


def state_after(scores: Any, n: int, goal: Any = BEST, **options: Any) -> State:
    """The state after the first n evaluations, in turn, of a table of prompts, examples and metrics."""
    table = np.array(scores, dtype=float)
    options = {**GIVEN, "seed": 1, **options}
    prompts = [f"p{arm}" for arm in range(len(table))]
    budget = table.shape[0] * table.shape[1]
    selector = Selector(
        prompts, goal, budget, asktell.Race(block=1), table.shape[1], **options
    )
    order = selector.state.problem.examples.order
    for turn in range(n):
        example, arm = divmod(turn, len(table))
        place = int(order[example])
        selector.observe(arm, table[arm, place].tolist(), place)
    return selector.state


def worlds(n: int = 200, **means: float) -> np.ndarray:
    """Prompts of the same difficulty per example: each is right on its share of the examples."""
    ease = np.random.default_rng(0).permutation(n) / n
    return np.stack([ease < mean for mean in means.values()]).astype(float)[..., None]


def test_a_prompt_is_open_then_out_and_then_the_best_is_established() -> None:
    scores = worlds(bad=0.1, good=0.7, better=0.8)
    seen = []
    for n in (3, 120, 600):
        now = standing(state_after(scores, n), 0.95)
        seen.append((sorted(now.out), now.open.tolist(), now.answer))
    assert seen[0] == ([], [0, 1, 2], None)
    assert seen[1] == ([0], [1, 2], None)
    assert seen[2] == ([0, 1], [2], (2,))
    assert set(now.out.values()) == {"established to be worse than another prompt"}


def test_race_ends_as_soon_as_the_standing_has_an_answer() -> None:
    scores = worlds(bad=0.1, good=0.7, better=0.8)
    race = asktell.Race(0.9)
    for n in range(3, 601, 60):
        state = state_after(scores, n)
        now, decided = standing(state, race.confidence), decision_of(race, state)
        assert decided is not None
        assert decided.settled == (now.answer is not None)
        if not decided.finished:
            assert {departure.arm for departure in decided.departures} == set(now.out)


def test_the_baseline_and_the_reference_of_a_bound_stay_open() -> None:
    scores = worlds(bad=0.1, better=0.9)
    now = standing(state_after(scores, 400, baseline="p0"), 0.95)
    assert (list(now.out), now.open.tolist(), now.answer) == ([0], [0, 1], (1,))


def test_all_prompts_are_out_where_none_satisfies_the_constraint() -> None:
    goal = BestFeasible(
        maximize("a", range=(0, 1)), {maximize("b", range=(0, 1)): at_least(0.9)}
    )
    scores = np.repeat(worlds(bad=0.1, good=0.2), 2, axis=2)
    now = standing(state_after(scores, 400, goal), 0.95)
    assert (sorted(now.out), now.open.tolist(), now.answer) == ([0, 1], [], ())


def test_the_set_of_two_objectives_is_established_as_a_whole() -> None:
    goal = ParetoSet(maximize("a", range=(0, 1)), minimize("b", range=(0, 1)))
    a, b = (
        worlds(cheap=0.4, dear=0.9, bad=0.3),
        worlds(cheap=0.1, dear=0.6, bad=0.7),
    )
    state = state_after(np.concatenate([a, b], axis=2), 600, goal)
    now = standing(state, 0.95)
    assert (sorted(now.out), now.answer) == ([2], (0, 1))


def test_a_given_answer_is_open_until_its_own_claims_are_established() -> None:
    scores = worlds(bad=0.1, good=0.7, better=0.8)
    early, late = state_after(scores, 30), state_after(scores, 600)
    assert standing(early, 0.95, answer=[2]).answer is None
    assert 2 in standing(early, 0.95, answer=[2]).open
    right = standing(late, 0.95, answer=[2])
    assert (right.out, right.open.tolist(), right.answer) == ({}, [], (2,))
    # A wrong answer is never established, and stays open beside those that are ahead.
    assert standing(late, 0.95, answer=[1]).answer is None
    assert standing(late, 0.95, answer=[1]).open.tolist() == [1, 2]


def test_doubtful_scores_establish_nothing() -> None:
    scores = worlds(bad=0.1, better=0.9)
    selector = Selector(["p0", "p1"], BEST, 400, asktell.Race(), 200, **GIVEN)
    for arm, example in np.ndindex(2, 200):
        selector.observe(arm, scores[arm, example].tolist(), example)
    assert standing(selector.state, 0.95).answer == (1,)
    selector.remark("People disagree with the judge.", doubtful=True)
    now = standing(selector.state, 0.95)
    assert (now.out, now.open.tolist(), now.answer) == ({}, [0, 1], None)
    assert set(standing_against(selector.state, 1, 0, 0.0, 0.95).values()) == {None}


@pytest.mark.parametrize(
    ("means", "margin", "expected"),
    [
        ({"new": 0.8, "old": 0.5}, -0.05, True),
        ({"new": 0.52, "old": 0.5}, -0.05, False),
        ({"new": 0.52, "old": 0.5}, 0.0, True),
        ({"new": 0.4, "old": 0.5}, 0.2, True),
        ({"new": 0.4, "old": 0.5}, 0.05, False),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_negative_margin_asks_for_a_gain(
    means: dict[str, float], margin: float, expected: bool, sign: int
) -> None:
    """A candidate that must be better, as a self-improving loop asks, is the gate with a negative margin."""
    scores = worlds(**means)
    goal = BestFeasible((maximize if sign > 0 else minimize)("a", range=(0, 1)))
    state = state_after(scores if sign > 0 else 1 - scores, 400, goal)
    established = standing_against(state, 0, 1, margin, 0.95)
    assert established["a"] is expected
    early = state_after(scores, 8)
    assert set(standing_against(early, 0, 1, margin, 0.95).values()) == {None}
