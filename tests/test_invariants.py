"""What holds for every preset, schedule and way of sampling."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell import BestFeasible, ParetoSet, Selector, Trial, at_least
from asktell.testing.fakes import Table
from tests.plays import new_selector, play, random_table
from tests.presets import FRONTS, PRESETS

METHODS = [
    (preset, schedule)
    for preset in (*PRESETS, *FRONTS)
    for schedule in ("default", "published")
]
PARETO = [
    case for case in METHODS if not case[0].startswith("csr") and case[0] not in FRONTS
]
CASES = [
    (preset, schedule, sampling)
    for preset, schedule in METHODS
    for sampling in ("shared", "iid")
]


def ids(selector: Selector) -> list[Any]:
    return [entry.id for entry in selector.result().selected]


@pytest.mark.parametrize(("preset", "schedule", "sampling"), CASES)
def test_the_same_seed_and_answers_give_the_same_asks_whatever_the_batches_and_the_order_of_answers(
    preset: str, schedule: str, sampling: str
) -> None:
    table = random_table(9, 20, seed=3)
    rng = random.Random(0)

    def shuffled(trials: list[Trial]) -> list[Trial]:
        return rng.sample(trials, len(trials))

    plays = []
    for batch, order in [(1, list), (100, shuffled), (7, reversed)]:
        selector = new_selector(
            table, preset, budget=45, schedule=schedule, sampling=sampling, seed=8
        )
        asked = sorted(play(selector, table, batch, order=order))
        plays.append((asked, selector.result().to_dict()))
    for asked, result in plays[1:]:
        assert asked == plays[0][0]
        assert result == plays[0][1]


@pytest.mark.parametrize(("preset", "schedule"), METHODS)
def test_permuting_prompts_permutes_the_answer(preset: str, schedule: str) -> None:
    # 48 pulls on 8 prompts leave no remainder in any round of any schedule but the
    # published successive rejects', which pull all active prompts alike anyhow.
    # Remainders would go to prompts by a seeded order of positions.
    table = random_table(8, 50, seed=0)
    selector = new_selector(table, preset, budget=48, schedule=schedule)
    play(selector, table)
    order = np.random.default_rng(0).permutation(8)
    permuted = Table(table.scores[order], prompts=[table.prompts[k] for k in order])
    again = new_selector(
        permuted, preset, budget=48, schedule=schedule, goal=selector.goal
    )
    play(again, permuted)
    assert [e.prompt for e in again.result().selected] == [
        e.prompt for e in selector.result().selected
    ]
    permuted_entries = {entry.prompt: entry for entry in again.result().prompts}
    for entry in selector.result().prompts:
        other = permuted_entries[entry.prompt]
        assert (other.evaluations, other.round) == (entry.evaluations, entry.round)
        for metric, mean in entry.estimate.items():
            # Draws, whose numbers go by position, say where a level near a bound is;
            # all else is exact.
            noise = (
                0.2 * (entry.standard_error[metric] or 0.0)
                if selector.goal.is_constrained
                else 1e-9
            )
            assert other.estimate[metric] == pytest.approx(mean, abs=noise)


@pytest.mark.parametrize(("preset", "schedule"), PARETO)
@pytest.mark.parametrize(
    ("scale", "shift"), [(1, (3.0, -40.0)), (0.125, (0, 0)), (1000.0, (-1.0, 7.0))]
)
def test_shifting_a_metric_or_scaling_all_leaves_the_pareto_set(
    preset: str, schedule: str, scale: float, shift: tuple[float, float]
) -> None:
    table = random_table(10, 30, seed=0)
    moved = Table(table.scores * scale + np.array(shift))
    answers = []
    for scores in (table, moved):
        selector = new_selector(
            scores, preset, budget=50, schedule=schedule, goal=ParetoSet("a", "b")
        )
        asked = play(selector, scores)
        answers.append((asked, ids(selector)))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("preset", "schedule"),
    [
        case
        for case in METHODS
        if not case[0].startswith("ege") and case[0] not in FRONTS
    ],
)
def test_shifting_a_metric_and_its_threshold_together_leaves_the_constrained_answer(
    preset: str, schedule: str
) -> None:
    for seed in range(3):
        table = random_table(10, 30, 3, seed=seed)
        shift = np.array([0.0, 5.0, -100.0])
        answers = []
        for scores, by in ((table, np.zeros(3)), (Table(table.scores + shift), shift)):
            goal = BestFeasible(
                "a", {"b": at_least(0.5 + by[1]), "c": at_least(0.3 + by[2])}
            )
            selector = new_selector(
                scores, preset, budget=50, schedule=schedule, goal=goal
            )
            asked = play(selector, scores)
            answers.append((asked, ids(selector), selector.result().feasible))
        assert answers[0] == answers[1]


@pytest.mark.parametrize(("preset", "schedule"), PARETO)
@pytest.mark.parametrize("n_metrics", [1, 2, 3])
def test_minimizing_is_maximizing_the_negative(
    preset: str, schedule: str, n_metrics: int
) -> None:
    table = random_table(9, 20, n_metrics, seed=4)
    up = new_selector(
        table, preset, budget=40, schedule=schedule, goal=ParetoSet(*table.metrics)
    )
    down_goal = ParetoSet(*[asktell.minimize(metric) for metric in table.metrics])
    negative = Table(-table.scores)
    down = new_selector(negative, preset, budget=40, schedule=schedule, goal=down_goal)
    assert play(up, table) == play(down, negative)
    assert ids(up) == ids(down)


def dominated(means: Any) -> list[bool]:
    return [
        any((other >= own).all() and (other > own).any() for other in means)
        for own in means
    ]


@settings(max_examples=30)
@given(
    method=st.sampled_from(METHODS),
    sampling=st.sampled_from(["shared", "iid"]),
    n_prompts=st.integers(2, 12),
    n_metrics=st.integers(1, 4),
    extra=st.integers(1, 30),
    seed=st.integers(0, 10**6),
)
def test_without_noise_the_answer_is_exact_and_feasibility_is_known_away_from_the_bounds(
    method: tuple[str, str],
    sampling: str,
    n_prompts: int,
    n_metrics: int,
    extra: int,
    seed: int,
) -> None:
    preset, schedule = method
    means = (
        np.random.default_rng(seed)
        .permuted(np.tile(np.arange(n_prompts) / 16, (n_metrics, 1)), axis=1)
        .T
    )
    table = Table(np.repeat(means[:, None, :], 40, axis=1))
    # Published sequential halving may not reach every prompt in its first round, and
    # then cannot know.
    budget = (
        n_prompts * 5
        if schedule == "published" and "-sh" in preset
        else n_prompts + extra
    )
    selector = new_selector(
        table, preset, budget=budget, schedule=schedule, sampling=sampling
    )
    play(selector, table)
    goal = selector.goal
    if isinstance(goal, BestFeasible):
        feasible = [
            k
            for k in range(n_prompts)
            if all(means[k, j + 1] >= c.bound for j, c in enumerate(goal.constraints))
        ]
        if feasible:
            assert ids(selector) == [max(feasible, key=lambda k: means[k, 0])]
        else:
            bounds = np.array([c.bound for c in goal.constraints])
            violation = (bounds - means[:, 1:]).max(axis=1)
            best = min(range(n_prompts), key=lambda k: (violation[k], -means[k, 0]))
            assert ids(selector) == [best]
        bounds = np.array([c.bound for c in goal.constraints])
        slacks = (means[:, 1:] - bounds).min(axis=1, initial=np.inf)
        feasibility_is_known(selector, slacks)
    elif goal.is_constrained:
        bound = goal.constraints[0].bound  # the median, which some prompt keeps
        feasible = [k for k in range(n_prompts) if means[k, -1] >= bound]
        out = dominated(means[feasible, : len(goal.objectives)])
        front = [k for k, is_out in zip(feasible, out, strict=True) if not is_out]
        assert sorted(ids(selector)) == front
        in_order(selector)
        feasibility_is_known(selector, means[:, -1] - bound)
    else:
        front = [k for k, out in enumerate(dominated(means)) if not out]
        assert sorted(ids(selector)) == front
        in_order(selector)


def in_order(selector: Selector) -> None:
    """The selected prompts come feasible ones first, then by the first objective's estimates."""
    result = selector.result()
    first = result.goal.objectives[0].metric
    places = [
        (entry.feasible is False, -(entry.estimate[first] or 0.0))
        for entry in result.selected
    ]
    assert places == sorted(places)


def feasibility_is_known(selector: Selector, slacks: np.ndarray) -> None:
    """Of every prompt with a few scores, unless its mean lies on a bound: then it stays in doubt."""
    goal = selector.goal
    for entry, slack in zip(selector.result().prompts, slacks, strict=True):
        if not goal.is_constrained:
            assert (entry.feasible, entry.p_feasible) == (None, None)
        elif entry.evaluations >= 4 and slack != 0.0:
            assert entry.feasible is bool(slack > 0.0)
            assert entry.p_feasible == pytest.approx(float(slack > 0.0), abs=0.15)


@pytest.mark.parametrize(("preset", "schedule"), METHODS)
def test_the_recorded_rounds_are_the_schedule(preset: str, schedule: str) -> None:
    table = random_table(12, 200)
    selector = new_selector(table, preset, budget=60, schedule=schedule)
    play(selector, table)
    rounds = selector.method.scheduler.rounds(12, 60)
    active = 12
    for (_, decided), round_ in zip(selector.state.decisions, rounds, strict=False):
        pulls = (
            decided.pulls * active
            if isinstance(decided.pulls, int)
            else sum(decided.pulls)
        )
        assert pulls == round_.pulls
        counts = [decided.pulls] if isinstance(decided.pulls, int) else decided.pulls
        assert max(counts) - min(counts) <= 1
        active = round_.keep
    assert selector.state.decisions[-1][1].finished
    assert len(selector.state.decisions) == len(rounds) + 1
    assert selector.spent == sum(round_.pulls for round_ in rounds)
