"""A run on given examples repeats a few evaluations, to see whether scores differ when they are asked again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asktell
from asktell import Adaptive, BestFeasible, Budget, Race, Selector, Study, maximize
from asktell.record.repeated import Repeated
from asktell.running.repeats import n_repeats, to_repeat
from asktell.studies.storages.memory import MemoryStorage

GOAL = BestFeasible(maximize("a", range=(0, 1)))
PROMPTS = ["p0", "p1", "p2"]
LEVELS = np.array([[0.5], [0.6], [0.9]])


class Table:
    """Scores of 0 and 1 that flip with a probability, or altogether after so many calls."""

    def __init__(
        self,
        flips: float = 0.0,
        change: float = np.inf,
        n: int = 60,
        cost: float | None = None,
    ) -> None:
        self.scores = (np.random.default_rng(1).random((3, n)) < LEVELS).astype(float)
        self.rng, self.flips, self.change, self.cost = (
            np.random.default_rng(2),
            flips,
            change,
            cost,
        )
        self.calls: list[tuple[str, int, int]] = []

    def evaluate(self, prompt: str, example: int, repeat: int) -> dict[str, float]:
        flipped = (len(self.calls) >= self.change) ^ (self.rng.random() < self.flips)
        self.calls.append((prompt, example, repeat))
        score = abs(self.scores[int(prompt[1:]), example] - flipped)
        return {"a": score} if self.cost is None else {"a": score, "cost": self.cost}


def selector(
    method: Any = "auto", budget: Any = 120, n: int = 60, **options: Any
) -> Selector:
    return Selector(
        PROMPTS, GOAL, budget, method, examples=n, **{"inputs": "given", **options}
    )


def check_of(result: asktell.Result, name: str) -> asktell.Check:
    (found,) = (check for check in result.checks if check.name == name)
    return found


@pytest.mark.parametrize("method", ["auto", "race", "uniform", "csr-sh"])
def test_on_new_inputs_nothing_is_repeated(method: str) -> None:
    plain, checked = Table(), Table()
    without = asktell.run(
        selector(method, inputs="new"), plain, progress=False, repeatable=True
    )
    result = asktell.run(selector(method, inputs="new"), checked, progress=False)
    assert checked.calls == plain.calls
    assert len(checked.calls) == result.spent
    assert str(result) == str(without)
    # A new input is evaluated once, with whatever noise there is
    assert check_of(result, "noise").ok
    assert check_of(result, "noise").sentence.startswith("No evaluation was repeated.")


@pytest.mark.parametrize("method", ["auto", "race", "uniform", "csr-sh"])
def test_repeats_that_agree_change_no_evaluation_and_are_said(method: str) -> None:
    plain, checked, chosen = Table(), Table(), selector(method)
    without = asktell.run(selector(method), plain, progress=False, repeatable=True)
    result = asktell.run(chosen, checked, progress=False)
    again = [call for call in checked.calls if call[2]]
    assert len(plain.calls) == result.spent
    assert len(again) == n_repeats(result.spent) == 6 if result.spent == 120 else 4
    if method != "auto":  # which estimates the noise as it goes
        assert [call for call in checked.calls if not call[2]] == plain.calls
    assert {call[:2] for call in again} <= {
        call[:2] for call in checked.calls if not call[2]
    }
    assert (result.spent, result.selected[0].id) == (
        without.spent,
        without.selected[0].id,
    )
    agreed = f"{len(again)} of {len(again)} repeated evaluations agree."
    assert check_of(result, "noise").sentence.startswith(agreed)
    assert check_of(result, "noise").ok is None  # so few show little
    compared = result.compare("p2", "p0")
    assert compared.guaranteed is not compared.looks_once
    if method in ("auto", "race"):
        chosen.extend(1)
        assert chosen.compare("p2", "p0").guaranteed


def test_an_evaluator_may_say_that_it_is_repeatable() -> None:
    table = Table()
    table.repeatable = True  # type: ignore[attr-defined]
    asktell.run(selector(), table, progress=False)
    assert len(table.calls) == 120


@pytest.mark.parametrize(
    ("options", "budget"),
    [({"repeats": 2}, 12), ({}, 15), ({"n": None, "inputs": "new"}, 40)],
)
def test_what_is_gone_through_again_anyway_or_is_too_little_is_not_repeated(
    options: Any, budget: int
) -> None:
    calls = []

    def evaluate(prompt: str, example: int | None) -> float:
        calls.append((prompt, example))
        return 1.0

    asktell.run(selector(budget=budget, **options), evaluate, progress=False)
    assert len(calls) == budget


SUITE: dict[str, Any] = {"repeats": 1}


def test_scores_that_differ_count_as_noisy_though_they_were_said_to_agree() -> None:
    chosen = selector("uniform", 180, **SUITE)
    table = Table(flips=0.2)
    result = asktell.run(chosen, table, progress=False)
    assert len(table.calls) == 180 + n_repeats(180)
    (note,) = result.notes
    assert (check_of(result, "noise").ok, check_of(result, "noise").sentence) == (
        False,
        note,
    )
    assert note.startswith("Repeated evaluations differ (")
    assert "`repeats` above 1" in note
    found = result.compare("p2", "p0")
    each = found.differences["a"]
    assert each.pairs == 60  # every example was seen, and yet it is not known exactly
    assert each.low is not None
    assert each.high is not None
    assert each.high - each.low > 0.2
    assert chosen.state.seen.examples.is_noisy
    assert not chosen.state.problem.examples.is_noisy
    assert found.looks_once
    assert not found.guaranteed


def test_a_race_of_scores_that_differ_is_not_over_when_every_example_was_seen_once() -> (
    None
):
    close = Table(flips=0.5)
    close.scores[2] = close.scores[1]
    chosen = selector(Race(), 180)
    asktell.run(chosen, close, progress=False)
    assert chosen.state.seen.examples.is_noisy
    assert not chosen.state.decisions[-1][1].settled
    exact = selector(Race(), 180, **SUITE)
    close.flips, close.calls = 0.0, []
    assert asktell.run(exact, close, progress=False).stopped_early


@pytest.mark.parametrize("method", [Race(), Adaptive(confidence=0.95)])
def test_a_change_on_the_way_is_said_of_a_run_that_stopped_early(method: Any) -> None:
    table = Table(change=30, n=200)
    table.scores[2] = 1.0
    table.scores[:2] = 0.0
    chosen = selector(method, 600, 200, **SUITE)
    chosen_by_hand = selector(method, 600, 200)

    def evaluate(prompt: str, example: int, repeat: int = 0) -> float:
        score = table.scores[int(prompt[1:]), example]
        table.calls.append((prompt, example, repeat))
        return float(
            score if len(table.calls) <= 18 else 0.5 if prompt != "p2" else 1.0
        )

    result = asktell.run(chosen, evaluate, progress=False)
    assert result.stopped_early
    assert "This confidence does not hold." in result.notes[0]
    assert "late" in result.notes[1]
    table.calls.clear()
    while trial := chosen_by_hand.ask():
        chosen_by_hand.tell(trial, evaluate(trial.prompt, trial.example or 0))
    by_hand = chosen_by_hand.result()  # nothing was repeated, but the residuals show it
    assert (
        "the scores seem to have changed. This confidence does not hold."
        in by_hand.notes[0]
    )
    assert check_of(by_hand, "drift").sentence.startswith(
        "The scores seem to have changed during the run. The cause may be the model, "
        "a judge or a rater. For the same prompts and examples, a moved by +"
    )


def test_a_drift_is_told_from_noise_by_late_repeats() -> None:
    def observed(flips: float, fall: float, seed: int) -> Any:
        chosen = selector(budget=180)
        rng = np.random.default_rng(seed)
        cells = [(prompt, example) for example in range(60) for prompt in PROMPTS]
        score = {cell: float(rng.random() < 0.7) for cell in cells}

        def now(cell: Any, fall: float) -> float:
            return (
                0.0
                if rng.random() < fall
                else abs(score[cell] - (rng.random() < flips))
            )

        for i, cell in enumerate(cells):
            chosen.observe(cell[0], now(cell, 0.0), cell[1])
            if i % 20 == 10:
                chosen.observe(cells[i - 3][0], now(cells[i - 3], 0.0), cells[i - 3][1])
        for cell in cells[::9][:12]:
            chosen.observe(cell[0], now(cell, fall), cell[1])
        return Repeated.of(chosen.state.problem, chosen.state.history)

    steady = [observed(0.1, 0.0, seed).has_drifted for seed in range(40)]
    fallen = [observed(0.1, 0.9, seed).has_drifted for seed in range(20)]
    assert np.mean(steady) <= 0.05
    assert np.mean(fallen) > 0.5
    found = observed(0.0, 1.0, 1)
    assert found.late == 12
    assert 9 + 12 - 2 <= found.times <= 9 + 12  # some by chance both soon and late
    assert found.changed == found.late_changed == int((found.moved < 0).sum())


def test_what_a_repeat_costs_is_booked_and_none_is_made_that_cannot_be_paid() -> None:
    table = Table(cost=1.0)
    result = asktell.run(
        selector(budget=Budget(evaluations=60, cost=63.0)), table, progress=False
    )
    assert result.spent_cost == len(table.calls) <= 63
    assert result.spent <= 60


def test_a_repeat_that_fails_is_neither_counted_nor_tried_again() -> None:
    table = Table(cost=0.5)

    def evaluate(prompt: str, example: int, repeat: int) -> Any:
        if repeat:
            table.calls.append((prompt, example, repeat))
            error = ConnectionError("no")
            error.cost = 2.0  # type: ignore[attr-defined]
            raise error
        return table.evaluate(prompt, example, repeat)

    result = asktell.run(
        selector("uniform"), evaluate, progress=False, max_failures_in_a_row=None
    )
    assert sum(call[2] for call in table.calls) == n_repeats(120)
    assert sum(entry.failures for entry in result.prompts) == 0
    assert result.spent_cost == 120 * 0.5 + n_repeats(120) * 2.0


def test_workers_share_the_repeats_and_a_run_goes_on_where_it_was() -> None:
    study = Study.create(MemoryStorage(), "s", selector("uniform"))
    table = Table()
    for worker in ("x", "y"):
        seen = len(table.calls)

        def stop(worker: Any, before: int = seen) -> bool:
            return len(table.calls) - before >= 60

        asktell.run(
            study.worker(worker),
            table,
            progress=False,
            until=stop if worker == "x" else None,
        )
    assert study.done
    assert len(table.calls) == 120 + n_repeats(120)
    state = study.selector.state
    assert Repeated.of(state.problem, state.history).times == n_repeats(120)
    assert to_repeat(state, 0, late=True) == []
    # It is done, and nothing is repeated once more
    asktell.run(study, table, progress=False)
    assert len(table.calls) == 120 + n_repeats(120)


def test_a_run_ends_when_it_is_said_to() -> None:
    table = Table()
    result = asktell.run(
        selector(), table, progress=False, until=lambda chosen: chosen.spent >= 40
    )
    assert (result.spent, result.done) == (40, False)
    assert len(table.calls) == 40 + n_repeats(40)


def test_repeats_are_of_few_soon_and_of_the_first_late() -> None:
    table = Table(n=400)
    chosen = selector("uniform", 1200, 400)
    asktell.run(chosen, table, progress=False)
    numbered = {call[:2]: i for i, call in reversed(list(enumerate(table.calls)))}
    gaps = [i - numbered[call[:2]] for i, call in enumerate(table.calls) if call[2]]
    assert len(gaps) == n_repeats(1200) == 60
    soon = [gap for gap in gaps if gap < 300]
    assert gaps[: len(soon)] == soon
    assert 25 <= len(soon) <= 30
    assert min(gaps[len(soon) :]) > 900
    assert n_repeats(10**6) == 200
