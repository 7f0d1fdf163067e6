"""Bounds at an end of the scale, such as outputs that must always be valid: who has kept one is no violator."""

import itertools
from typing import Any

import numpy as np
import pytest

from asktell import (
    BestFeasible,
    ParetoSet,
    Result,
    Selector,
    at_least,
    at_most,
    maximize,
)
from asktell.posterior.draws import at_an_end
from asktell.reports import document
from tests.seeds import Seeds

N_PROMPTS, N = 6, 40
STRUCTURED = ["lcsh", "mlp-csr"]
METHODS = ["auto", "race", "csr", "csr-sh", "uniform", *STRUCTURED]
# Metric, bound, kept and broken scores, examples
SCENES: dict[str, tuple[Any, Any, float, float, int | None]] = {
    "valid": ("valid", at_least(1.0), 1.0, 0.0, N),
    "within a range": (maximize("valid", range=(0, 1)), at_least(1.0), 1.0, 0.4, N),
    "nothing": ("valid", at_most(0), 0.0, 1.0, N),
    "without examples": ("valid", at_least(1.0), 1.0, 0.0, None),
    "the best score seen": ("valid", at_least(0.7), 0.7, 0.4, N),
}


def play(
    method: str, scene: str, seed: int, misses: float, n_bad: int = 3, repeats: int = 1
) -> Selector:
    """A run in which the last prompts break the bound on so large a part of the examples, and the others never do."""
    metric, bound, kept, broken, examples = SCENES[scene]
    random = np.random.default_rng(seed)
    level = random.uniform(0.3, 0.8, N_PROMPTS)
    quality = level[:, None] + random.normal(0.0, 0.2, (N_PROMPTS, N))
    valid = np.full((N_PROMPTS, N), kept)
    valid[N_PROMPTS - n_bad :][random.random((n_bad, N)) < misses] = broken
    features = random.normal(size=(N_PROMPTS, 5)) if method in STRUCTURED else None
    goal, texts = (
        BestFeasible("q", {metric: bound}),
        [f"p{i}" for i in range(N_PROMPTS)],
    )
    selector = Selector(
        texts, goal, 42, method, examples, features, seed, repeats=repeats
    )
    drawn = [0] * N_PROMPTS
    while trials := selector.ask(3):
        for trial in trials:
            arm = int(trial.prompt_id)
            example = drawn[arm] if trial.example is None else trial.example
            drawn[arm] = (drawn[arm] + 1) % N
            selector.tell(trial, [quality[arm, example], valid[arm, example]])
    return selector


def keepers(selector: Selector, scene: str) -> set[int]:
    history, kept = selector.state.history, SCENES[scene][2]
    broken = set(history.arms()[history.scores()[:, 1] != kept].tolist())
    return set(history.arms().tolist()) - broken


def check_agreement(selector: Selector, seed: int = 0) -> Result:
    """See that all that is said of the constraints is the same."""
    result = selector.result()
    answer = result.selected[0]
    assert answer.feasible is result.feasible is result.to_dict()["feasible"]
    none = not any(entry.feasible for entry in result.prompts)
    assert (result.verdict.action == "none") == none
    assert ("No prompt is likely to satisfy the constraint" in str(result)) == none
    if seed > 1:
        return result
    page = document(selector.state, selector.method, selector.prompts)
    assert (
        "No prompt is likely to satisfy the constraint" in str(page["words"])
    ) == none
    assert page["feasible"] is result.feasible
    return result


@pytest.mark.parametrize(
    ("method", "scene"),
    [
        # What estimates is no matter of the scene
        pytest.param(method, scene, marks=pytest.mark.night)
        if method in STRUCTURED and scene != "valid"
        else (method, scene)
        for method in METHODS
        for scene in SCENES
    ],
)
def test_who_has_always_kept_the_bound_is_no_violator(
    seeds: Seeds, method: str, scene: str
) -> None:
    for seed in seeds(3) if scene == "valid" else range(1):
        selector = play(method, scene, seed, misses=0.3)
        result, kept = check_agreement(selector, seed), keepers(selector, scene)
        assert result.feasible
        assert result.selected[0].id in kept
        assert {
            entry.id for entry in result.prompts if entry.feasible and entry.evaluations
        } == kept


@pytest.mark.parametrize("method", METHODS)
def test_where_all_violate_it_is_said(seeds: Seeds, method: str) -> None:
    for seed in seeds(3):
        result = check_agreement(
            play(method, "valid", seed, misses=0.9, n_bad=N_PROMPTS), seed
        )
        assert result.feasible is False
        assert result.best is not None


def test_scores_of_noisy_cells_too(seeds: Seeds) -> None:
    for seed in seeds(5):
        selector = play("auto", "valid", seed, misses=0.3, repeats=3)
        assert check_agreement(selector).selected[0].id in keepers(selector, "valid")


def test_a_front_is_as_without_a_bound_that_all_keep(seeds: Seeds) -> None:
    differing = []
    for examples, seed in itertools.product((30, 1000, None), seeds(4)):
        fronts = []
        for subject_to in ({}, {"valid": at_least(1)}):
            goal, random = (
                ParetoSet("a", "b", subject_to=subject_to),
                np.random.default_rng(seed),
            )
            selector = Selector(
                [f"p{i}" for i in range(8)], goal, 40, examples=examples, seed=seed
            )
            while trial := selector.ask():
                a = int(trial.prompt_id) / 8
                scores = random.normal([a, 1 - a**2], 0.1)
                selector.tell(trial, [*scores, *([1.0] if subject_to else [])])
            fronts.append({entry.id for entry in selector.result().selected})
            assert selector.result().feasible is (True if subject_to else None)
        assert len(fronts[0]) > 1
        differing.append(len(fronts[0] ^ fronts[1]))
    # One that belongs to the set with a probability of about a half may differ.
    assert max(differing) <= 1
    assert sum(differing) <= 3


def test_of_a_proven_violator_nothing_else_is_likely() -> None:
    selector = play("auto", "valid", 0, misses=0.3)
    kept = keepers(selector, "valid")
    entries = [entry for entry in selector.result().prompts if entry.evaluations]
    assert {entry.p_feasible for entry in entries if entry.id not in kept} == {0.0}
    assert all(entry.p_feasible for entry in entries if entry.id in kept)


def test_ends_that_are_known_and_ends_that_are_seen() -> None:
    arms, scores = (
        np.array([0, 0, 1, 1, 3]),
        np.array([[1.0], [1.0], [1.0], [0.0], [0.0]]),
    )
    for goal, known in (
        (BestFeasible("x", {"x": at_least(1)}), True),
        (BestFeasible("x", {maximize("x", range=(0, 1)): at_least(1)}), True),
        (BestFeasible("x", {maximize("x", range=(0, 2)): at_least(1)}), None),
        (BestFeasible("x", {"x": at_least(0.5)}), None),
        (BestFeasible("x", {"x": at_least(1.5)}), False),
    ):
        bound = goal.constraints[0].bound
        kept, broken = at_an_end(goal, arms, scores, 4)
        assert kept[:, 0].tolist() == [
            known is not None and bound == 1.0,
            False,
            False,
            False,
        ]
        assert broken[:, 0].tolist() == [False, bool(known), False, bool(known)]


@pytest.mark.parametrize("bound", [0.7, 0.1, 1234.5])
def test_scores_in_single_precision_keep_the_bound_that_they_equal(
    bound: float,
) -> None:
    for threshold in (at_least(bound), at_most(bound)):
        selector = Selector(
            ["a", "b"], BestFeasible("x", {"y": threshold}), 8, "uniform", examples=4
        )
        while trial := selector.ask():
            selector.tell(trial, {"x": np.float32(0.5), "y": np.float32(bound)})
        assert selector.result().feasible
