"""Evaluations whose prompt has left meanwhile are stopped, and their cost is booked; what came first counts."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, InvalidArgumentError, Selector, Study, Trial
from asktell.studies.storages.memory import MemoryStorage

WORSE, BETTER = "worse", "better"


def new(budget: int = 24) -> Selector:
    return Selector(
        {WORSE: "x0", BETTER: "x1"}, BestFeasible("a"), budget, "uniform", examples=12
    )


class Killed(Exception):
    cost = 0.25


class Stoppable:
    """One that waits on the prompt `x0` until it is cancelled; `ending` says how it ends then."""

    def __init__(self, retire: Callable[[], None], ending: str = "raises") -> None:
        self.retire, self.ending = retire, ending
        self.waiting, self.cancelled = threading.Event(), threading.Event()
        self.trials: list[Trial] = []  # that were cancelled

    def evaluate(self, trial: Trial) -> dict[str, float]:
        if trial.prompt == "x0":
            self.waiting.set()
            assert self.cancelled.wait(30)
            if self.ending == "raises":
                raise Killed("stopped")
            return {"a": 0.5, "cost": 0.25}
        assert self.waiting.wait(30)
        if trial.example is not None and self.retire is not None:
            self.retire()
        return {"a": 1.0, "cost": 1.0}

    def cancel(self, trial: Trial) -> None:
        self.trials.append(trial)
        self.cancelled.set()
        if self.ending == "cancel raises":
            raise LookupError("cancel is broken")


def retiring(selection: Any) -> Callable[[], None]:
    """Retire the worse prompt, the first time."""

    def retire() -> None:
        if WORSE not in [
            entry.id
            for entry in selection.result().prompts
            if entry.status == "retired"
        ]:
            selection.retire(WORSE, "not wanted")

    return retire


def check(selector: Any, evaluator: Stoppable, result: asktell.Result) -> None:
    """What became of a run with two evaluations at once, the first of which was stopped."""
    assert [trial.prompt_id for trial in evaluator.trials] == [WORSE]
    worse, better = result.prompts
    assert (worse.failures, better.evaluations) == (0, 12)
    # What returned scores was paid for
    assert worse.evaluations == (0 if evaluator.ending == "raises" else 1)
    assert result.spent_cost == 12 + 0.25
    assert selector.pending == []
    assert result.done


@pytest.mark.parametrize("ending", ["raises", "returns", "cancel raises"])
def test_an_evaluator_that_offers_cancel_is_told_of_a_trial_whose_prompt_was_retired(
    ending: str, caplog: Any
) -> None:
    selector = new()
    evaluator = Stoppable(retiring(selector), ending)
    with ThreadPoolExecutor(2) as threads, caplog.at_level(logging.WARNING):
        result = asktell.run(
            selector, evaluator, threads, 2, progress=False, repeatable=True
        )
    check(selector, evaluator, result)
    said = [record.getMessage() for record in caplog.records]
    assert said == (["cancel() failed, so the evaluation of trial 0 continues: LookupError('cancel is broken')"]
                    if ending == "cancel raises" else [])  # fmt: skip


def test_one_that_nobody_runs_side_by_side_is_stopped_too() -> None:
    selector = new()
    evaluator = Stoppable(lambda: None)

    def retire() -> None:
        assert evaluator.waiting.wait(30)
        retiring(selector)()

    other = threading.Thread(target=retire)
    other.start()
    check(
        selector,
        evaluator,
        asktell.run(selector, evaluator, progress=False, repeatable=True),
    )
    other.join()


def test_a_worker_finds_out_at_its_heartbeat_that_another_one_eliminated_its_prompt() -> (
    None
):
    study = Study.create(MemoryStorage(), "s", new())
    evaluator = Stoppable(lambda: None)

    def retire() -> None:
        assert evaluator.waiting.wait(30)
        assert [each.wanted for each in study.workers()] == [True]
        retiring(study)()
        assert [each.wanted for each in study.workers()] == [False]

    other = threading.Thread(target=retire)
    other.start()
    with study.worker("w", lease=0.3) as worker:
        check(
            study,
            evaluator,
            asktell.run(worker, evaluator, progress=False, repeatable=True),
        )
    other.join()
    assert not [each for each in study.evaluations() if each.error]


def test_an_interrupt_stops_what_is_under_way() -> None:
    selector = new()

    class Interrupted(Stoppable):
        def evaluate(self, trial: Trial) -> dict[str, float]:
            if trial.prompt == "x1":
                assert self.waiting.wait(30)
                raise KeyboardInterrupt
            return super().evaluate(trial)

    evaluator = Interrupted(lambda: None)
    with ThreadPoolExecutor(2) as threads, pytest.raises(KeyboardInterrupt):
        asktell.run(selector, evaluator, threads, 2, progress=False)
    assert [trial.prompt_id for trial in evaluator.trials] == [WORSE]
    assert (selector.spent, selector.spent_cost, selector.pending) == (0, 0.25, [])


def test_what_an_executor_has_not_begun_is_taken_back() -> None:
    selector = new(8)
    asked: list[str] = []

    def evaluate(prompt: str, example: int) -> float:
        asked.append(prompt)
        if prompt == "x0" and len(asked) == 1:
            selector.retire(WORSE, "not wanted")
        time.sleep(0.05)
        return 1.0

    with ThreadPoolExecutor(1) as thread:
        result = asktell.run(
            selector, evaluate, thread, 8, progress=False, repeatable=True
        )
    # Another one may have begun before the first was taken
    assert asked.count("x0") <= 2
    assert result.prompts[0].evaluations == asked.count("x0")
    assert selector.pending == []


# Async evaluators are cancelled by their task


async def test_the_task_of_an_async_evaluator_is_cancelled_and_its_cost_is_booked() -> (
    None
):
    selector = new()
    cancelled: list[str] = []

    async def evaluate(prompt: str, example: int) -> dict[str, float]:
        if prompt == "x0":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError as error:
                cancelled.append(prompt)
                error.cost = 0.25  # type: ignore[attr-defined]
                raise
        retiring(selector)()
        return {"a": 1.0, "cost": 1.0}

    result = asktell.run(
        selector, evaluate, concurrency=2, progress=False, repeatable=True
    )
    # The prompt leaves with the first evaluation of the other one
    assert len(cancelled) in (1, 2)
    assert (result.prompts[0].evaluations, result.prompts[0].failures) == (0, 0)
    assert result.spent_cost == 12 + 0.25 * len(cancelled)
    assert selector.pending == []


@pytest.mark.parametrize("says", [True, False])
async def test_one_that_cannot_be_stopped_says_so_and_is_waited_for(says: bool) -> None:
    selector = new()
    gate = asyncio.Event

    class Evaluator:
        def __init__(self) -> None:
            self.open: asyncio.Event | None = None
            if says:
                self.cancel = None

        async def evaluate(self, prompt: str, example: int) -> float:
            self.open = self.open or gate()
            if prompt == "x0":
                await self.open.wait()
                return 0.0
            retiring(selector)()
            await asyncio.sleep(0)
            if selector.spent >= 3:
                self.open.set()
            return 1.0

    result = asktell.run(
        selector, Evaluator(), concurrency=4, progress=False, repeatable=True
    )
    assert result.prompts[1].evaluations == 12
    assert bool(result.prompts[0].evaluations) == says
    assert selector.pending == []


async def test_scores_that_came_first_count() -> None:
    """The prompt leaves by a tell of the very batch of outcomes in which another one of its trials has ended."""
    selector = new()
    ended = asyncio.Event

    class Evaluator:
        def __init__(self) -> None:
            self.both: asyncio.Event | None = None

        async def evaluate(self, prompt: str, example: int) -> float:
            self.both = self.both or ended()
            if prompt == "x0":
                self.both.set()
                return 0.25
            await self.both.wait()
            return 1.0

    def on_tell(selector: Any, trial: Trial) -> None:
        retiring(selector)()

    result = asktell.run(
        selector,
        Evaluator(),
        concurrency=2,
        progress=False,
        on_tell=on_tell,
        repeatable=True,
    )
    assert result.prompts[0].evaluations >= 1


async def test_a_batch_is_stopped_when_none_of_its_trials_is_wanted() -> None:
    selector = new()
    batches: list[tuple[set[str], bool]] = []

    class Evaluator:
        async def evaluate_batch(self, trials: Sequence[Trial]) -> list[float]:
            prompts = {trial.prompt for trial in trials}
            try:
                if "x0" in prompts:
                    await asyncio.sleep(1.0 if len(prompts) > 1 else 60)
                else:
                    retiring(selector)()
            except asyncio.CancelledError:
                batches.append((prompts, True))
                raise
            batches.append((prompts, False))
            return [1.0] * len(trials)

    # Grouped by prompt: three of x0 and one of them with two of x1.
    result = asktell.run(
        selector,
        Evaluator(),
        concurrency=8,
        batch_size=3,
        progress=False,
        repeatable=True,
    )
    assert ({"x0"}, True) in batches
    assert ({"x0", "x1"}, False) in batches
    assert ({"x0", "x1"}, True) not in batches
    assert result.prompts[0].failures == 0
    assert selector.pending == []


async def test_what_hangs_is_stopped_when_the_other_evaluations_of_its_prompt_have_failed() -> (
    None
):
    selector = new()
    hung: list[int] = []
    stopped: list[int] = []

    async def evaluate(prompt: str, example: int) -> float:
        if prompt == "x1":
            return 1.0
        if hung:
            raise ValueError("no such tool")
        hung.append(example)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(example)
            raise
        return 1.0

    result = asktell.run(
        selector, evaluate, concurrency=4, progress=False, repeatable=True
    )
    assert len(hung) == 1
    assert stopped == hung
    assert [(entry.status, entry.failures) for entry in result.prompts] == [
        ("failed", 6),
        ("accepted", 0),
    ]
    assert (result.spent, selector.pending) == (12, [])


@pytest.mark.parametrize("cancel", [lambda: None, lambda trial, reason: None, "cancel"])
def test_a_cancel_that_takes_no_trial_is_refused(cancel: Any) -> None:
    class Evaluator:
        def evaluate(self, prompt: str, example: int) -> float:
            return 1.0

    evaluator: Any = Evaluator()
    evaluator.cancel = cancel
    with pytest.raises(
        InvalidArgumentError, match=r"cancel\(trial\).*set cancel = None"
    ):
        asktell.run(new(), evaluator, progress=False)
