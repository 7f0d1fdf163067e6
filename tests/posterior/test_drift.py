"""Steps in the residuals over the order of evaluations."""

from collections.abc import Callable

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, Selector
from asktell.posterior.drift import NumberedRows, Step, is_beyond_chance, likeliest_step
from asktell.posterior.of_state import drift, has_drifted
from tests.plays import play
from tests.seeds import Seeds


def test_the_step_is_the_generalized_least_squares_estimate() -> None:
    """Against dense matrices, with cells that were evaluated several times, more prompts than examples, and fewer."""
    rng = np.random.default_rng(0)
    for k, n in ((7, 4), (4, 7)):
        arms, examples, scores = (
            rng.integers(k, size=50),
            rng.integers(n, size=50),
            rng.normal(size=50),
        )
        examples[::9] = -1  # an example of its own
        own = np.where(examples < 0, n + np.arange(50), examples)
        prompt, example, residual, noise = 0.3, 0.7, 1.2, 0.4
        alike = (arms[:, None] == arms) & (own[:, None] == own)
        covariance = prompt * (arms[:, None] == arms) + example * (own[:, None] == own)
        covariance = (
            covariance
            + residual * (1.0 - noise) * alike
            + residual * noise * np.eye(50)
        )
        expected = []
        for after in (0.25, 0.5, 0.75):
            design = np.column_stack(
                (np.ones(50), np.arange(50) >= np.ceil(after * 50))
            )
            precision = np.linalg.inv(design.T @ np.linalg.solve(covariance, design))
            shift = (precision @ design.T @ np.linalg.solve(covariance, scores))[1]
            expected.append(Step(after, shift, shift / np.sqrt(precision[1, 1])))
        found = likeliest_step(
            NumberedRows.of(arms, examples), scores, prompt, example, residual, noise
        )
        assert found == pytest.approx(max(expected, key=lambda step: abs(step.errors)))


def test_each_segment_has_a_level_of_its_own() -> None:
    """Against dense matrices. A step where another segment begins is not found."""
    rng = np.random.default_rng(1)
    arms, examples, scores = (
        rng.integers(5, size=60),
        np.arange(60) % 12,
        rng.normal(size=60),
    )
    segments = examples // 4
    scores += 3.0 * segments
    covariance = (
        0.3 * (arms[:, None] == arms)
        + 0.7 * (examples[:, None] == examples)
        + np.eye(60)
    )
    expected = []
    for after in (0.25, 0.5, 0.75):
        design = np.column_stack(
            (segments[:, None] == np.arange(3), np.arange(60) >= after * 60)
        )
        precision = np.linalg.inv(design.T @ np.linalg.solve(covariance, design))
        shift = (precision @ design.T @ np.linalg.solve(covariance, scores))[3]
        expected.append(Step(after, shift, shift / np.sqrt(precision[3, 3])))
    rows = NumberedRows.of(arms, examples)
    step = likeliest_step(rows, scores, 0.3, 0.7, 1.0, 1.0, segments)
    assert step == pytest.approx(max(expected, key=lambda one: abs(one.errors)))
    late = (np.arange(60) >= 30).astype(int)
    rows = NumberedRows.of(arms, np.arange(60))
    step = likeliest_step(rows, 9.0 * late, 0.3, 0.7, 1.0, 1.0, late)
    assert abs(step.errors) < 1e-6


def in_segments(seed: int, fall: float = 0.0) -> Selector:
    """A selection of 60 evaluations. The goal depends on the hardest of three segments, which comes most and late."""
    labels = ["en", "de", "fr"] * 20
    bound = asktell.at_least(0.45, in_every_segment=True)
    selector = Selector(
        ["one", "two", "three"],
        BestFeasible("a", subject_to={"a": bound}),
        60,
        examples=60,
        segments=labels,
        seed=seed,
    )
    rng = np.random.default_rng(seed)
    while trial := selector.ask():
        score = 0.4 + 0.1 * int(trial.prompt_id) + 0.03 * rng.normal()
        score -= 0.1 * (labels[int(trial.example or 0)] == "fr")
        selector.tell(trial, [score - fall * (selector.spent >= 30)])
    return selector


def test_a_harder_segment_that_comes_late_is_no_drift() -> None:
    """Without levels of segments, a drift was found in three of four such selections."""
    steady = [has_drifted(in_segments(seed).state) for seed in range(12)]
    assert sum(steady) <= 2
    fallen = [has_drifted(in_segments(seed, 0.1).state) for seed in range(4)]
    assert sum(fallen) >= 3


def test_the_bound_allows_for_places_and_metrics() -> None:
    assert not is_beyond_chance([], 0.05)
    assert is_beyond_chance([Step(0.5, 1.0, -2.4)], 0.05)  # Φ(-2.394) = 0.05 / 6
    assert not is_beyond_chance([Step(0.5, 1.0, 2.38)], 0.05)
    assert not is_beyond_chance([Step(0.5, 1.0, 2.4), Step(0.5, 1.0, 0.0)], 0.05)


Score = Callable[[int, int], float]
Kind = Callable[[np.random.Generator], Score]


def binary(rng: np.random.Generator) -> Score:
    p = 1.0 / (1.0 + np.exp(-rng.normal(0.3, 0.6, (8, 1)) - rng.normal(0.0, 1.5, 100)))
    return lambda arm, example: float(rng.random() < p[arm, example])


def smooth(rng: np.random.Generator) -> Score:
    table = (
        0.2 * rng.normal(size=(8, 1))
        + 0.5 * rng.normal(size=100)
        + 0.6 * rng.normal(size=(8, 100))
    )
    return lambda arm, example: float(table[arm, example])


def selected(kind: Kind, method: str, seed: int, fall: float = 0.0) -> Selector:
    """A selection of 200 evaluations; `fall`: by how much scores are lower in its second half, of 1 more often 0."""
    rng = np.random.default_rng([seed, 7])
    score = kind(rng)
    selector = Selector(
        [f"p{i}" for i in range(8)],
        BestFeasible("a"),
        200,
        method,
        examples=100,
        seed=seed,
    )
    while trials := selector.ask(8):
        for trial in trials:
            value = score(int(trial.prompt_id), int(trial.example or 0))
            if selector.spent >= 100:
                value = (
                    value - fall if kind is smooth else value * (rng.random() >= fall)
                )
            selector.tell(trial, [value])
    return selector


@pytest.mark.parametrize("kind", [binary, smooth])
@pytest.mark.parametrize("method", ["auto", "csr-sh"])
def test_without_a_drift_few_are_found_and_with_one_most(
    seeds: Seeds, kind: Kind, method: str
) -> None:
    """Methods that evaluate the lucky again are the hard case: later scores of these are lower."""
    steady = [has_drifted(selected(kind, method, seed).state) for seed in seeds(10)]
    assert sum(steady) <= 2  # of 4% each: more in 6 of 1,000 such tests
    fallen = [selected(kind, method, seed, 0.6) for seed in seeds(4)]
    assert sum(has_drifted(selector.state) for selector in fallen) >= len(fallen) - 1
    (step,) = drift(
        next(s for s in fallen if has_drifted(s.state)).state
    ).steps.values()
    assert step.shift < 0


def drift_of(result: asktell.Result) -> asktell.Check:
    (found,) = (check for check in result.checks if check.name == "drift")
    return found


def test_what_is_said() -> None:
    steady = selected(smooth, "auto", 0).result()
    assert drift_of(steady).ok is True
    sentence = "The scores of 200 evaluations show no sign of a change during the run."
    assert drift_of(steady).sentence == sentence
    fallen = selected(smooth, "uniform", 1, fall=3.0).result()
    assert drift_of(fallen).ok is False
    assert drift_of(fallen).sentence.startswith(
        "The scores seem to have changed during the run. The cause may be the model, "
        "a judge or a rater. For the same prompts and examples, a moved by -"
    )
    assert "after about 50% of the evaluations" in drift_of(fallen).sentence
    assert drift_of(fallen).sentence in fallen.notes
    assert not fallen.compare(0, 1).guaranteed
    assert (
        steady.compare(0, 1).guaranteed
        is selected(smooth, "auto", 0).result().compare(0, 1).guaranteed
    )


def test_where_a_change_cannot_be_told_nothing_is_said() -> None:
    few = Selector(["x", "y"], BestFeasible("a"), 20, examples=20)
    play(few, lambda _: [float(few.spent >= 10)])
    assert drift_of(few.result()).ok is None
    # A finished table, sorted by difficulty
    table = np.sort(np.random.default_rng(0).normal(size=(3, 60)), axis=1)
    assert drift_of(asktell.analyze(table, BestFeasible("a"))).ok is None
    grown = selected(smooth, "auto", 1, fall=3.0)
    assert has_drifted(grown.state)
    grown.add(["a new one"])
    assert not has_drifted(grown.state)
