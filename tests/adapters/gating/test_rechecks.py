"""Rechecks: what they show, what they cost, and that they change nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asktell
from asktell_adapters.gating.rechecks import Rechecks


class Noisy:
    """An agent whose scores differ when repeated: every other example is a coin, and prompt "0" broke on some."""

    repeatable = False

    def __init__(self, fails_on: int = -1) -> None:
        self.calls: list[tuple[str, int | None, int]] = []
        self.fails_on = fails_on

    def evaluate_batch(self, trials: Any, repeats: Any = ()) -> list[Any]:
        """Their scores, each drawn by prompt, example and number of the repeat."""
        return [
            self.one(trial, repeat)
            for trial, repeat in zip(trials, repeats, strict=True)
        ]

    def one(self, trial: Any, repeat: int) -> Any:
        self.calls.append((trial.prompt, trial.example, repeat))
        if len(self.calls) > 200 and trial.example == self.fails_on:
            return RuntimeError("no connection")
        right = (
            0.0
            if trial.prompt == "0" and trial.example % 10 == 0
            else 0.5
            if trial.example % 2
            else 1.0
        )
        seed = [int(trial.prompt), trial.example, repeat]
        return {"right": float(np.random.default_rng(seed).random() < right)}


class NoisyOneByOne:
    repeatable = False

    def __init__(self) -> None:
        self.agent = Noisy()

    async def __call__(self, trial: asktell.Trial, repeat: int = 0) -> Any:
        return self.agent.one(trial, repeat)


def noisy_pair() -> asktell.Selector:
    goal = asktell.BestFeasible(asktell.maximize("right", range=(0, 1)))
    selector = asktell.Selector(["0", "1"], goal, 200, "uniform", 100, baseline=1)
    asktell.run(selector, Noisy(), progress=False, repeatable=True)
    return selector


@pytest.mark.parametrize("agent", [Noisy(), NoisyOneByOne()])
def test_rechecks_show_what_really_broke_and_leave_the_selection_alone(
    agent: Any,
) -> None:
    selector = noisy_pair()
    before = selector.to_json()
    again = Rechecks(selector, "right", None)
    assert again.has_doubts
    first = again.comparison.regressions(1.0)
    again.run(agent, 60)
    assert again.made == 60
    assert selector.to_json() == before
    listed = {each.example for each in again.comparison.regressions()}
    broken = {example for example in range(100) if example % 10 == 0}
    assert len(listed & broken) >= 5
    assert len(listed - broken) <= 1
    calls = agent.calls if isinstance(agent, Noisy) else agent.agent.calls
    # Each repeat has a number of its own, under which it can be cached
    assert len(set(calls)) == len(calls) == 60
    assert all(repeat >= 1 for _, _, repeat in calls)
    assert {example for _, example, _ in calls} <= {
        each.example
        for each in (
            *first,
            *again.comparison.improvements(1.0),
            *again.comparison.regressions(1.0),
        )
    } | {example for example in range(100) if example % 2}


def test_a_recheck_that_fails_is_not_tried_again_and_money_ends_them() -> None:
    selector = noisy_pair()
    again = Rechecks(selector, "right", None)
    agent = Noisy(fails_on=0)
    agent.calls = [("", 0, 0)] * 200
    again.run(agent, 30)
    assert sum(example == 0 for _, example, _ in agent.calls[200:]) == 1
    assert again.made == 30
    broke = Rechecks(selector, "right", 0.0)
    broke.run(agent, 30)
    assert broke.made == 0
