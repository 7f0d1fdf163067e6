"""`asktell.run` over executors: batches, and what is lost with a worker."""

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import EvaluatorError, InvalidArgumentError, Trial

PROMPTS = ("Answer.", "Answer briefly.", "Think, then answer.")
CELLS = {(prompt, example) for prompt in PROMPTS for example in range(4)}


@pytest.fixture
def selector() -> asktell.Selector:
    return asktell.Selector(PROMPTS, asktell.BestFeasible("score"), 12, "uniform", examples=4)


class Batches:
    """Says which batches came; loses those with `deadly` in them."""

    def __init__(self, deadly: tuple[str, int] | None = None) -> None:
        self.sizes: list[int] = []
        self.told: set[tuple[str, int | None]] = set()
        self.deadly = deadly

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
        self.sizes.append(len(trials))
        cells = {(trial.prompt, trial.example) for trial in trials}
        if self.deadly in cells:
            raise ConnectionResetError("the worker died")
        self.told |= cells
        return [{"score": len(trial.prompt)} for trial in trials]


def test_batches_of_a_size_run_side_by_side(selector: asktell.Selector) -> None:
    evaluator = Batches()
    with ThreadPoolExecutor(1) as executor:
        asktell.run(selector, evaluator, executor, 12, False, batch_size=5)
    assert evaluator.sizes == [5, 5, 2]
    assert evaluator.told == CELLS


async def test_async_batches_of_a_size_run_side_by_side(selector: asktell.Selector) -> None:
    plain = Batches()

    class Async:
        async def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
            return plain.evaluate_batch(trials)

    asktell.run(selector, Async(), concurrency=12, progress=False, batch_size=4)
    assert plain.sizes == [4, 4, 4]
    assert plain.told == CELLS


def test_a_batch_is_no_larger_than_the_concurrency(selector: asktell.Selector) -> None:
    evaluator = Batches()
    asktell.run(selector, evaluator, concurrency=6, progress=False, batch_size=100)
    assert evaluator.sizes == [6, 6]


def test_of_a_lost_batch_only_the_culprit_fails(selector: asktell.Selector) -> None:
    evaluator = Batches(deadly=(PROMPTS[1], 2))
    with ThreadPoolExecutor(2) as executor:
        result = asktell.run(selector, evaluator, executor, 6, False)
    assert evaluator.told == CELLS - {(PROMPTS[1], 2)}
    assert [entry.failures for entry in result.prompts] == [0, 1, 0]
    (failures,) = selector.state.failures.values()
    assert "the worker died" in failures[0].reason


def test_an_executor_that_gives_up_ends_the_run(selector: asktell.Selector) -> None:
    class GivesUp(ThreadPoolExecutor):
        def submit(self, *args: Any, **options: Any) -> "Future[Any]":
            future: Future[Any] = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with GivesUp() as executor, pytest.raises(EvaluatorError, match="broke down"):
        asktell.run(selector, Batches(), executor, progress=False)
    assert selector.pending == []
    assert selector.spent == 0


@pytest.mark.parametrize("batch_size", [0, -1, 1.5])
def test_a_bad_batch_size_is_refused(batch_size: Any, selector: asktell.Selector) -> None:
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        asktell.run(selector, Batches(), progress=False, batch_size=batch_size)


def test_what_refused_scores_cost_is_paid() -> None:
    selector = asktell.Selector(PROMPTS, asktell.BestFeasible("score"), asktell.Budget(cost=1.0), examples=4)
    asktell.run(selector, lambda prompt, example: {"score": math.nan, "cost": np.float32(0.25)}, progress=False)
    assert selector.state.cost == pytest.approx(1.0)
    assert sum(entry.failures for entry in selector.result().prompts) == 4


def test_an_async_failure_has_no_foreign_context() -> None:
    async def broken(prompt: str, example: int | None) -> dict[str, float]:
        raise ValueError("mine")

    selector = asktell.Selector(PROMPTS, asktell.BestFeasible("score"), 12, "uniform", examples=4)
    seen = []

    def on_tell(selector: Any, trial: Trial) -> None:
        raise KeyError(trial.id)

    with pytest.raises(KeyError) as caught:
        asktell.run(selector, broken, progress=False, on_tell=on_tell)
    error: BaseException | None = caught.value
    while error is not None:
        seen.append(type(error))
        error = error.__context__
    assert RuntimeError not in seen
