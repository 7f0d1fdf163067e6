"""The front among the prompts that keep every constraint, by every method that can look for one."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example as worked
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell import Adaptive, ParetoSet, Race, Selector, at_most, maximize, minimize
from asktell.errors import IncompatibleMethodError
from asktell.methods.rounds.rules import ConstrainedParetoGap, ParetoGap
from asktell.posterior.of_state import stated
from asktell.proofs.claims import unproven
from asktell.results.losses import _shares
from tests.methods.rounds.rules.test_constrained_pareto_gap import literal_front
from tests.plays import played
from tests.seeds import Seeds

Array = npt.NDArray[np.float64]
GOAL = ParetoSet("a", minimize("b"), subject_to={"c": at_most(0.5)})
METHODS: list[Any] = [
    "auto",
    "race",
    "uniform",
    "ege-sr",
    "ege-sh",
    Adaptive(confidence=0.9),
]
STRUCTURED = ["mlp-ege", "gege"]


def selected(selector: Selector) -> list[int]:
    return sorted(int(entry.id) for entry in selector.result().selected)


EIGHTHS = st.integers(0, 8).map(lambda x: x / 8)


@settings(max_examples=10)
@given(
    st.lists(st.tuples(EIGHTHS, EIGHTHS, EIGHTHS), min_size=2, max_size=6),
    st.booleans(),
)
# Who dominates the baseline leaves with it
@worked([(0.0, 0.125, 0.0), (0.625, 0.25, 0.0), (0.5, 0.0, 0.0)], True)
@pytest.mark.parametrize("method", METHODS)
def test_with_exact_means_every_method_returns_the_true_front(
    method: Any, rows: list[tuple[float, ...]], with_baseline: bool
) -> None:
    means = np.array(rows)
    scores = np.repeat(means[:, None], 4, axis=1)
    selector = played(
        scores,
        GOAL,
        method,
        batch=4,
        baseline=0 if with_baseline else None,
        inputs="given",
        repeats=1,
    )
    values = GOAL.values(means)
    expected, result = literal_front(values, 2), selector.result()
    assert selector.done
    if (values[expected, 2] >= 0).all():
        assert selected(selector) == expected
        assert result.feasible is True
        assert all(entry.feasible for entry in result.selected)
        assert not any(
            entry.feasible is False and entry in result.selected
            for entry in result.prompts
        )
    else:
        assert len(result.selected) == 1
        assert set(selected(selector)) <= set(expected)
        assert result.feasible is False
        assert result.verdict.action == "none"
        assert (
            "No prompt is likely to satisfy the constraint. The probability that at least one prompt does is under 1%."
        ) in str(result)


def noisy(seed: int, k: int = 14, n: int = 30) -> Array:
    rng = np.random.default_rng(seed)
    return (
        rng.uniform(0, 1, (k, 1, 3))
        + 0.1 * rng.normal(size=(1, n, 3))
        + 0.1 * rng.normal(size=(k, n, 3))
    )


@pytest.mark.parametrize("method", METHODS)
def test_with_noise_the_answer_is_nearly_the_true_front(method: Any) -> None:
    scores = noisy(0)
    selector = played(scores, GOAL, method, 14 * 20, batch=10)
    values = GOAL.values(scores.mean(axis=1))
    front, chosen = set(literal_front(values, 2)), set(selected(selector))
    assert 2 * len(front & chosen) / (len(front) + len(chosen)) > 0.6
    assert (values[sorted(chosen), 2] > -0.1).all()


@pytest.mark.parametrize("method", STRUCTURED)
def test_methods_that_use_features(method: str) -> None:
    rng = np.random.default_rng(5)
    # As many features and metrics as in tests of the presets: JAX compiles once for each
    # shape
    features = rng.normal(size=(24, 5))
    means = 0.5 + 0.2 * np.stack((features[:, 0], -features[:, 1]), axis=1)
    scores = means[:, None] + rng.normal(scale=0.05, size=(24, 20, 2))
    goal = ParetoSet("a", minimize("b"), subject_to={"a": at_most(0.6)})
    selector = played(scores, goal, method, 4 * 24, features=features, seed=3)
    front, chosen = set(literal_front(goal.values(means), 2)), set(selected(selector))
    assert selector.method.rule == ConstrainedParetoGap(2)  # type: ignore[union-attr]
    assert front & chosen
    assert (means[sorted(chosen), 0] < 0.65).all()
    again = Selector.from_json(selector.to_json())
    assert selected(again) == selected(selector)


@pytest.mark.parametrize("method", ["auto", "race", "uniform", "ege-sr"])
def test_without_a_feasible_prompt_the_least_violating_one_is_the_answer(
    method: str,
) -> None:
    scores = noisy(1)
    scores[:, :, 2] += 1.0 + 0.3 * np.arange(14)[:, None]
    result = played(scores, GOAL, method, 14 * 20).result()
    assert [entry.id for entry in result.selected] == [
        scores[:, :, 2].mean(axis=1).argmin()
    ]
    assert result.feasible is False


def test_who_was_accepted_is_not_joined_by_an_infeasible_prompt() -> None:
    """The last one left may turn out infeasible after feasible ones have left as accepted."""
    scores = np.array(
        [[[0.9, 0.1, 0.5]] * 8, [[0.1, 0.05, 0.5]] * 8, [[0.2, 0.02, 0.5]] * 8]
    )
    for last in (1, 2):
        table = scores.copy()
        table[last, 2:, 2] = 9.0  # feasible on the first examples only
        selector = played(table, GOAL, "ege-sr", 12, sampling="shared")
        feasible = [entry for entry in selector.result().selected if entry.feasible]
        assert feasible
        assert len(feasible) == len(selector.result().selected)


# The posterior


def test_the_posterior_states_who_is_feasible_and_who_is_in_the_front() -> None:
    scores = noisy(2)
    selector = played(scores, GOAL, "auto", 400, n=120)
    for entry in selector.result().prompts:
        assert entry.p_feasible is not None
        assert entry.p_best is not None
        assert 0 <= entry.p_best <= entry.p_feasible <= 1
    found = stated(selector.state)
    assert found is not None
    # Objectives and slacks
    fronts = _shares(found.values, GOAL, np.ones(14, dtype=bool)) > 0
    for values, front in zip(found.values, fronts, strict=True):
        assert np.flatnonzero(front).tolist() == literal_front(values, 2)


def test_pulls_go_to_prompts_that_may_be_feasible() -> None:
    scores = noisy(4, 12, 40)
    scores[6:, :, 2] += 2.0
    result = played(scores, GOAL, "auto", 12 * 12).result()
    pulls = [entry.evaluations for entry in result.prompts]
    assert max(pulls[6:]) < np.mean(pulls[:6])


# What is certain


def zero_one(levels: list[list[float]], n: int, seed: int = 0) -> Array:
    """Scores of 0 and 1 with nearly these means, on examples in random order."""
    rng = np.random.default_rng(seed)
    draws = rng.permuted(
        np.repeat((np.arange(n)[:, None] + 0.5) / n, 3, axis=1), axis=0
    )
    return (draws[None] < np.array(levels)[:, None]).astype(float)


UNIT = (0.0, 1.0)


def zero_one_goal(tolerance: float | None = None) -> ParetoSet:
    return ParetoSet(
        maximize("a", range=UNIT, tolerance=tolerance),
        maximize("b", range=UNIT, tolerance=tolerance),
        subject_to={minimize("c", range=UNIT, tolerance=tolerance): 0.5},
    )


ZERO_ONE = zero_one_goal()
LEVELS = [
    [0.9, 0.9, 0.9],
    [0.8, 0.2, 0.1],
    [0.2, 0.8, 0.2],
    [0.1, 0.1, 0.1],
    [0.3, 0.3, 0.8],
]


@pytest.mark.parametrize(
    ("method", "tolerance"),
    [
        (Race(), None),
        (Race(), 0.05),
        pytest.param(Adaptive(confidence=0.95), None, marks=pytest.mark.night),
    ],
)
def test_a_clear_front_under_constraints_ends_early(
    method: Any, tolerance: float | None
) -> None:
    scores = zero_one(LEVELS, 150)
    selector = played(scores, zero_one_goal(tolerance), method, batch=10)
    result = selector.result()
    assert selected(selector) == [1, 2]
    assert result.stopped_early
    assert result.spent < 500
    if isinstance(method, Race):
        assert result.prompts[0].reason == "established to violate c <= 0.5"
        assert result.prompts[4].reason == "established to violate c <= 0.5"
        if tolerance is None:
            assert (
                result.prompts[3].reason
                == "established to be dominated by another prompt"
            )
            assert not result.unresolved


@pytest.mark.parametrize("method", [Race(), Adaptive(confidence=0.95)])
def test_a_prompt_of_doubtful_feasibility_dominates_nobody_and_keeps_it_going(
    method: Any,
) -> None:
    scores = zero_one([[0.9, 0.9, 0.5], [0.5, 0.5, 0.1]], 40)
    selector = played(scores, ZERO_ONE, method, batch=8, inputs="given", repeats=1)
    # It keeps the bound exactly, which only all examples tell
    assert scores[0, :, 2].mean() == 0.5
    assert selected(selector) == [0]
    assert selector.result().prompts[0].evaluations == 40


def test_race_tells_the_least_violating_one_where_nobody_keeps_the_constraints() -> (
    None
):
    scores = zero_one([[0.9, 0.9, 0.9], [0.5, 0.5, 0.7]], 200)
    result = played(scores, ZERO_ONE, Race()).result()
    assert [entry.id for entry in result.selected] == [1]
    assert (result.stopped_early, result.feasible) == (True, False)


def test_an_infeasible_front_is_never_settled_early_by_the_posterior() -> None:
    scores = zero_one([[0.9, 0.9, 0.9], [0.5, 0.5, 0.7]], 24)
    selector = played(scores, ZERO_ONE, Adaptive(confidence=0.95), batch=4)
    assert not selector.result().stopped_early


@pytest.mark.parametrize(
    ("method", "tolerance"),
    [
        (Race(confidence=0.9), None),
        (Race(confidence=0.9), 0.05),
        pytest.param(Adaptive(confidence=0.9), None, marks=pytest.mark.slow),
    ],
)
def test_answers_that_end_early_are_rarely_wrong(
    method: Any, tolerance: float | None, seeds: Seeds
) -> None:
    goal, wrong, stopped = zero_one_goal(tolerance), 0, 0
    for seed in seeds(8):
        rng = np.random.default_rng(seed)
        scores = zero_one(rng.uniform(0.1, 0.9, (4, 3)).tolist(), 150, seed)
        selector = played(scores, goal, method, seed=seed, inputs="given", repeats=1)
        values = goal.values(scores.mean(axis=1))
        answer = np.array([int(entry.id) for entry in selector.result().selected])
        if selector.result().stopped_early:
            stopped += 1
            right = asktell.posterior.membership.settled(
                values[None], answer, False, goal.value_tolerances + 1e-9, 2
            )
            wrong += not right[0]
    assert stopped >= len(seeds(3))
    assert wrong <= 1


def test_constraints_share_the_error() -> None:
    """What is left to prove names a member whose feasibility is open, and both sides of an open comparison."""
    scores = zero_one([[0.9, 0.4, 0.1], [0.4, 0.9, 0.45], [0.05, 0.05, 0.1]], 100)
    for tolerance, expected in ((None, [1]), (0.4, [])):
        selector = Selector(
            ["x", "y", "z"],
            zero_one_goal(tolerance),
            300,
            Adaptive(confidence=0.95),
            examples=100,
            inputs="given",
            repeats=1,
        )
        for example in range(90):
            for prompt in range(3):
                selector.observe(prompt, scores[prompt, example].tolist(), example)
        means = scores[:, :90].mean(axis=1)
        assert unproven(selector.state, [0, 1], means, 0.05).tolist() == expected


# Wrong set-ups


def test_a_rule_that_does_not_fit_the_goal_is_refused() -> None:
    def method(rule: Any) -> asktell.Elimination:
        uniform = asktell.preset("uniform", GOAL)
        assert isinstance(uniform, asktell.Elimination)
        return asktell.Elimination(
            uniform.scheduler, uniform.allocator, uniform.estimator, rule
        )

    def refused(rule: Any, goal: Any, message: str) -> None:
        with pytest.raises(IncompatibleMethodError, match=message):
            Selector(["x", "y"], goal, 9, method(rule))

    words = r"does not fit the goal, a ParetoSet with constraints. This goal needs the rule .*=2\)"
    refused(ParetoGap(), GOAL, f"ParetoGap.* {words}")
    refused(
        ConstrainedParetoGap(3),
        GOAL,
        rf"ConstrainedParetoGap\(n_objectives=3\) {words}",
    )
    refused(
        ConstrainedParetoGap(1),
        asktell.BestFeasible("a", {"b": 1}),
        "needs the rule ConstrainedRanking",
    )
    refused(
        ConstrainedParetoGap(3),
        ParetoSet("a", "b"),
        r"needs the rule ConstrainedParetoGap\(n_objectives=2\)",
    )
    assert Selector(
        ["x", "y"], ParetoSet("a", "b"), 9, method(ConstrainedParetoGap(2))
    ).ask()


@pytest.mark.parametrize("name", ["csr", "lcsh", "mlp-csr"])
def test_methods_for_one_prompt_are_refused(name: str) -> None:
    with pytest.raises(
        IncompatibleMethodError,
        match="is for BestFeasible, but the goal is a ParetoSet",
    ):
        Selector(["x", "y"], GOAL, 9, name)
