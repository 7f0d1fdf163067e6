"""Cells that may be asked several times, in every part."""

from typing import Any, Literal

import numpy as np
import pytest

import asktell
from asktell import Adaptive, BestFeasible, InvalidArgumentError, Race, Selector
from asktell.errors import InvalidStateError
from tests.plays import play

PROMPTS = {"x": "do x", "y": "do y", "z": "do z"}


@pytest.mark.parametrize("method", ["uniform", "race", "auto"])
def test_without_repeats_a_budget_is_left_over_that_repeats_use(method: str) -> None:
    def spent(repeats: int) -> int:
        rng = np.random.default_rng(0)
        selector = Selector(
            PROMPTS, BestFeasible("a"), 36, method, examples=4, repeats=repeats
        )
        play(selector, lambda _: [float(rng.random() < 0.5)])
        return selector.spent

    assert spent(1) <= 12
    assert spent(3) == 36


@pytest.mark.parametrize("method", ["uniform", "race"])
def test_rounds_go_through_the_examples_in_one_order(method: str) -> None:
    selector = Selector(
        ["x", "y"], BestFeasible("a"), 20, method, examples=5, repeats=2
    )
    seen: dict[str, list[int | None]] = {"x": [], "y": []}
    rng = np.random.default_rng(0)
    while trial := selector.ask():
        seen[trial.prompt].append(trial.example)
        selector.tell(trial, [rng.normal()])
    order = selector.state.problem.examples.order.tolist()
    assert seen["x"] == seen["y"] == order + order


def test_cell_means_and_standard_errors_by_hand() -> None:
    selector = Selector(["x"], BestFeasible("a"), 8, "uniform", examples=2, repeats=3)
    for example, scores in [(0, (1.0, 3.0)), (1, (4.0, 4.0))]:
        for value in scores:
            selector.observe("x", [value], example)
    tally = selector.state.current_tally()
    assert tally.counts.tolist() == [2]
    assert tally.means.tolist() == [[3.0]]
    # Cells' means 2 and 4: s² = 2. Squares within 2, of 2 degrees of freedom, beside
    # the guess s² / 2 that counts as 4.
    pooled = (2.0 + 4 * 1.0) / 6
    own = (2.0 + 4 * pooled) / 6
    # All seen: w mean(1/r) / N
    assert tally.standard_errors(2)[0, 0] ** 2 == pytest.approx(own / 2 / 2)
    assert tally.standard_errors(4)[0, 0] ** 2 == pytest.approx(
        2.0 * (1 / 2 - 1 / 4) + own / 2 / 4
    )
    assert selector.result().prompts[0].evaluations == 4


@pytest.mark.parametrize("inputs", ["new", "given"])
def test_standard_errors_are_right(inputs: Literal["new", "given"]) -> None:
    """The errors of estimates have the size that is stated, in both worlds: 19 of 20 are within 1.96 of them."""
    rng = np.random.default_rng(0)
    n, repeats, noise, errors, stated = 12, 4, 0.5, [], []
    for _ in range(150):
        p = rng.normal(size=n)
        selector = Selector(
            ["x"],
            BestFeasible("a"),
            48,
            "uniform",
            examples=n,
            repeats=repeats,
            inputs=inputs,
        )
        for trial in selector.ask(n * repeats):
            selector.tell(trial, [p[trial.example] + rng.normal(0, noise)])
        entry = selector.result().prompts[0]
        truth = p.mean() if inputs == "given" else 0.0
        stated.append(entry.standard_error["a"] or np.nan)
        errors.append(((entry.estimate["a"] or 0.0) - truth) / stated[-1])
    # Of the mean over given examples, only the noise of 48 evaluations is unknown.
    true_error = (
        noise / np.sqrt(n * repeats)
        if inputs == "given"
        else np.sqrt(1.0 / n + noise**2 / (n * repeats))
    )
    # Wider, so that 1.96 of them are enough
    assert 0.95 * true_error < np.mean(stated) < 1.35 * true_error
    assert 0.93 <= np.mean(np.abs(errors) <= 1.96) <= 0.995


def test_saved_and_checked() -> None:
    two = Selector(["x", "y"], BestFeasible("a"), 8, examples=4, repeats=2)
    assert '"repeats":2' in two.to_json()
    assert Selector.from_json(two.to_json()).state.problem.examples.repeats == 2
    unsaid = Selector.from_json(
        two.to_json().replace('"repeats":2', '"repeats":null')
    ).state.problem
    assert (unsaid.examples.repeats, unsaid.examples.exact) == (1, False)
    for wrong in ("0", "1.5", '"2"', "true", "[]"):
        with pytest.raises(InvalidStateError, match="repeats"):
            Selector.from_json(
                two.to_json().replace('"repeats":2', f'"repeats":{wrong}')
            )


@pytest.mark.parametrize("repeats", [0, 1.5, True, 10**7])
def test_repeats_are_a_whole_number(repeats: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="repeats must be a whole number"):
        Selector(["x", "y"], BestFeasible("a"), 8, examples=4, repeats=repeats)


def test_the_number_of_the_repeat() -> None:
    selector = Selector(["x"], BestFeasible("a"), 9, "uniform", examples=3, repeats=3)
    trials = selector.ask(9)
    assert [selector.repeat_of(trial) for trial in trials] == [
        0,
        0,
        0,
        1,
        1,
        1,
        2,
        2,
        2,
    ]
    for trial in reversed(trials):
        assert selector.repeat_of(trial) == trial.id // 3
        selector.tell(trial, [0.5 * trial.id])
    again = Selector.from_json(selector.to_json())
    assert [again.repeat_of(trial) for trial in trials] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    plain = Selector(["x"], BestFeasible("a"), 3, "uniform", examples=3)
    assert plain.repeat_of(plain.ask(1)[0]) == 0


def test_iid_draws_are_as_many_as_drawn() -> None:
    rng = np.random.default_rng(0)
    selector = Selector(
        ["x", "y"],
        BestFeasible("a"),
        60,
        "uniform",
        examples=3,
        repeats=2,
        sampling="iid",
    )
    play(selector, lambda _: [rng.normal()])
    assert selector.spent == 60


def test_a_race_is_never_exact_and_finds_what_it_can() -> None:
    rng = np.random.default_rng(1)
    goal = BestFeasible(asktell.maximize("a", range=(0, 1)))
    selector = Selector(
        ["good", "bad"], goal, 400, Race(confidence=0.9), examples=20, repeats=10
    )
    play(
        selector,
        lambda trial: [float(rng.random() < (0.9 if trial.prompt == "good" else 0.2))],
    )
    result = selector.result()
    assert result.stopped_early
    assert [entry.prompt for entry in result.selected] == ["good"]
    assert any(
        "is correct" in note and "90% confidence" in note for note in result.notes
    )
    tied = Selector(
        ["one", "two"], goal, 400, Race(confidence=0.9), examples=20, repeats=5
    )
    play(tied, lambda _: [float(rng.random() < 0.5)])
    assert tied.spent == 200
    assert not tied.result().stopped_early
    comparison = tied.result().compare("one", "two").differences["a"]
    assert comparison.guaranteed
    assert comparison.low is not None
    assert comparison.high is not None
    assert comparison.low < comparison.high
    assert comparison.pairs == 20


def test_words_of_a_result() -> None:
    rng = np.random.default_rng(1)
    selector = Selector(
        ["one", "two"],
        BestFeasible("a"),
        100,
        "uniform",
        examples=4,
        repeats=3,
        inputs="given",
    )
    play(selector, lambda _: [rng.normal()])
    result = selector.result()
    assert result.repeats == result.to_dict()["repeats"] == 3
    assert result.finished_early
    assert "was evaluated on every example 3 times" in " ".join(str(result).split())
    assert "Estimates are means over the given 4 examples." in str(result)


def noisy(
    seed: int, truth: Any, method: Any, repeats: int, budget: int
) -> asktell.Result:
    rng = np.random.default_rng(seed)
    goal = BestFeasible(asktell.maximize("a", range=(0, 1)))
    n_arms, n_examples = truth.shape
    names = [f"prompt {i}" for i in range(n_arms)]
    options: dict[str, Any] = {
        "examples": n_examples,
        "seed": seed,
        "repeats": repeats,
        "inputs": "given",
    }
    selector = Selector(names, goal, budget, method, **options)
    play(
        selector,
        lambda trial: [float(rng.random() < truth[trial.prompt_id, trial.example])],
    )
    return selector.result()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "uniform", "csr", "race"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_stated_errors_hold(method: str, rounds: int) -> None:
    within = []
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        odds = (
            0.5
            + rng.normal(0, 0.5, (4, 1))
            + rng.normal(0, 1.5, (1, 15))
            + rng.normal(0, 0.7, (4, 15))
        )
        truth = 1 / (1 + np.exp(-odds))
        result = noisy(seed, truth, method, 3, 60 * rounds)
        for entry, mean in zip(result.prompts, truth.mean(axis=1), strict=True):
            off = abs((entry.estimate["a"] or 0.0) - mean)
            within.append(off <= 1.96 * (entry.standard_error["a"] or 0.0))
    assert np.mean(within) >= 0.90


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [Race(confidence=0.9, block=4), Adaptive(confidence=0.9)]
)
def test_early_stops_are_right_as_often_as_they_say(method: Any) -> None:
    stops, wrong = 0, 0
    for seed in range(100):
        rng = np.random.default_rng([seed, 2])
        easy = rng.choice([0.1, 0.5, 0.9], 12)
        truth = np.array([easy, np.clip(easy + rng.choice([0.03, 0.4]), 0, 1)])
        result = noisy(seed, truth, method, 6, 144)
        stops += result.stopped_early
        wrong += result.stopped_early and result.selected[0].id != 1
    assert stops > 20
    assert wrong <= 0.1 * 100 + 2 * np.sqrt(100 * 0.1 * 0.9)
