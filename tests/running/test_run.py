"""`asktell.run` over executors: batches, and what is lost with a worker."""

import asyncio
import concurrent.futures
import contextlib
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest

import asktell
from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.studies.storages.memory import MemoryStorage

PROMPTS = ("Answer.", "Answer briefly.", "Think, then answer.")
CELLS = {(prompt, example) for prompt in PROMPTS for example in range(4)}


@pytest.fixture
def selector() -> asktell.Selector:
    return asktell.Selector(
        PROMPTS, asktell.BestFeasible("score"), 12, "uniform", examples=4
    )


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


async def test_async_batches_of_a_size_run_side_by_side(
    selector: asktell.Selector,
) -> None:
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
    (reason,) = selector.state.failures.reasons()
    assert "the worker died" in reason


def test_after_a_lost_batch_no_two_trials_run_by_themselves_at_once(
    selector: asktell.Selector,
) -> None:
    """Dask blames every trial of a worker that died, so a trial beside the culprit would fail with it."""
    alone: list[int] = []

    class Counting(Batches):
        def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
            if len(trials) > 1:
                return super().evaluate_batch(trials)
            alone.append(1)
            time.sleep(0.02)
            n = len(alone)
            alone.clear()
            assert n == 1
            return super().evaluate_batch(trials)

    evaluator = Counting(deadly=(PROMPTS[1], 2))
    with ThreadPoolExecutor(4) as executor:
        result = asktell.run(selector, evaluator, executor, 8, False, batch_size=4)
    assert evaluator.told == CELLS - {(PROMPTS[1], 2)}
    assert [entry.failures for entry in result.prompts] == [0, 1, 0]
    assert evaluator.sizes.count(1) == 4


def test_failures_that_end_the_run_release_what_is_left_of_a_lost_batch(
    selector: asktell.Selector,
) -> None:
    class Lost(Batches):
        def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
            self.sizes.append(len(trials))
            raise ConnectionResetError("the worker died")

    evaluator = Lost()
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(EvaluatorError, match="the worker died"),
    ):
        asktell.run(selector, evaluator, executor, 12, False, max_failures_in_a_row=2)
    # Not all twelve by themselves
    assert evaluator.sizes == [12, 1, 1]
    assert selector.pending == []


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
def test_a_bad_batch_size_is_refused(
    batch_size: Any, selector: asktell.Selector
) -> None:
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        asktell.run(selector, Batches(), progress=False, batch_size=batch_size)


def test_what_refused_scores_cost_is_paid() -> None:
    selector = asktell.Selector(
        PROMPTS, asktell.BestFeasible("score"), asktell.Budget(cost=1.0), examples=4
    )
    asktell.run(
        selector,
        lambda prompt, example: {"score": math.nan, "cost": np.float32(0.25)},
        progress=False,
    )
    assert selector.state.costs.total == pytest.approx(1.0)
    assert sum(entry.failures for entry in selector.result().prompts) == 4


def test_an_async_failure_has_no_foreign_context() -> None:
    async def broken(prompt: str, example: int | None) -> dict[str, float]:
        raise ValueError("mine")

    selector = asktell.Selector(
        PROMPTS, asktell.BestFeasible("score"), 12, "uniform", examples=4
    )
    seen = []

    def on_tell(selector: Any, trial: Trial) -> None:
        raise KeyError(trial.id)

    with pytest.raises(KeyError) as caught:
        asktell.run(
            selector,
            broken,
            progress=False,
            on_tell=on_tell,
            max_failures_in_a_row=None,
        )
    error: BaseException | None = caught.value
    while error is not None:
        seen.append(type(error))
        error = error.__context__
    assert RuntimeError not in seen


EXITS = [
    SystemExit(0),
    SystemExit("enough"),
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
]


class Leaving:
    """Raises `error` on one cell, as a metric or a client may; else scores."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, prompt: str, example: int | None) -> dict[str, float]:
        if (prompt, example) == (PROMPTS[1], 2):
            raise self.error
        return {"score": len(prompt)}


class LeavingBatches(Leaving):
    def evaluate_batch(self, trials: Sequence[Trial]) -> list[dict[str, float]]:
        return [self(trial.prompt, trial.example) for trial in trials]


def asynchronous(evaluator: Leaving) -> Any:
    async def evaluate(prompt: str, example: int | None) -> dict[str, float]:
        await asyncio.sleep(0)
        return evaluator(prompt, example)

    return evaluate


def asynchronous_batches(evaluator: Leaving) -> Any:
    class Batches:
        async def evaluate_batch(
            self, trials: Sequence[Trial]
        ) -> list[dict[str, float]]:
            return [evaluator(trial.prompt, trial.example) for trial in trials]

    return Batches()


WAYS: dict[str, Any] = {
    "here": (lambda error: Leaving(error), None, 1),
    "batches": (LeavingBatches, None, 1),
    "threads": (Leaving, ThreadPoolExecutor, 1),
    "batches in threads": (LeavingBatches, ThreadPoolExecutor, 3),
    "async": (lambda error: asynchronous(Leaving(error)), None, 1),
    "async batches": (lambda error: asynchronous_batches(Leaving(error)), None, 1),
}


@pytest.mark.parametrize("error", EXITS, ids=repr)
@pytest.mark.parametrize("way", WAYS)
def test_an_exit_of_the_evaluator_is_its_trials_failure(
    way: str, error: BaseException, selector: asktell.Selector
) -> None:
    make, pool, size = WAYS[way]
    with contextlib.ExitStack() as stack:
        executor = None if pool is None else stack.enter_context(pool(2))
        result = asktell.run(selector, make(error), executor, 3, False, batch_size=size)
    assert result.done
    assert [entry.failures for entry in result.prompts] == [0, 1, 0]
    assert result.spent == 11


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_ends_the_run_and_hands_everything_back(
    way: str, selector: asktell.Selector
) -> None:
    make, pool, size = WAYS[way]
    with contextlib.ExitStack() as stack:
        executor = None if pool is None else stack.enter_context(pool(2))
        with pytest.raises(KeyboardInterrupt):
            asktell.run(
                selector, make(KeyboardInterrupt()), executor, 3, False, batch_size=size
            )
    assert not selector.pending
    assert not any(entry.failures for entry in selector.result().prompts)


def test_a_task_that_cancels_itself_has_failed(selector: asktell.Selector) -> None:
    async def evaluate(prompt: str, example: int | None) -> dict[str, float]:
        if (prompt, example) == (PROMPTS[1], 2):
            task = asyncio.current_task()
            task.cancel()
            await asyncio.sleep(0)
        return {"score": len(prompt)}

    assert asktell.run(selector, evaluate, progress=False).spent == 11


def test_an_interrupt_cancels_what_else_runs(selector: asktell.Selector) -> None:
    cancelled = 0

    async def evaluate(prompt: str, example: int | None) -> dict[str, float]:
        nonlocal cancelled
        try:
            await asyncio.sleep(0.01 if prompt == PROMPTS[0] else 60)
        except asyncio.CancelledError:
            cancelled += 1
            raise
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asktell.run(selector, evaluate, concurrency=8, progress=False)
    assert cancelled > 0
    assert not selector.pending


# Nothing but failures, in a study


def _study(n: int = 4, **options: Any) -> asktell.Study:
    prompts = {f"p{i}": f"x{i}" for i in range(n)}
    selector = asktell.Selector(
        prompts, asktell.BestFeasible("a"), 24, "csr-sh", examples=12, **options
    )
    return asktell.Study.create(MemoryStorage(), "s", selector)


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("n_prompts", [2, 6])
def test_after_an_outage_a_study_continues_with_all_prompts(
    n_prompts: int, concurrency: int
) -> None:
    study, down = _study(n_prompts), True

    async def evaluate(prompt: str, example: int) -> dict[str, float]:
        if down:
            raise ConnectionError("down")
        return {"a": len(prompt)}

    options: dict[str, Any] = {
        "progress": False,
        "concurrency": concurrency,
        "max_failures_in_a_row": 10,
    }
    with pytest.raises(
        asktell.EvaluatorError,
        match=r"first \d+ evaluations.*Fix.* ConnectionError: down",
    ):
        asktell.run(study, evaluate, **options)
    assert not list(study.evaluations())
    assert study.pending == []
    down = False
    result = asktell.run(study, evaluate, **options)
    assert not any(entry.failures for entry in result.prompts)
    assert not any(entry.status == "failed" for entry in result.prompts)


@pytest.mark.parametrize("broken", ["x2", 5])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_is_a_prompts_or_an_examples_own_fault_counts(
    broken: str | int, concurrency: int
) -> None:
    calls: list[tuple[str, int]] = []

    async def evaluate(prompt: str, example: int) -> dict[str, float]:
        calls.append((prompt, example))
        if broken in (prompt, example):
            raise ConnectionError("broken")
        return {"a": int(prompt[1:]) + example / 99}

    kept, plain = _study(), _study()
    asktell.run(
        plain, evaluate, progress=False, concurrency=concurrency, repeatable=True
    )
    # How often depends on what is under way
    counted = {e.prompt for e in plain.evaluations() if e.error}
    calls.clear()
    options: Any = {"max_failures_in_a_row": 16, "repeatable": True}
    result = asktell.run(
        kept, evaluate, progress=False, concurrency=concurrency, **options
    )
    assert {e.prompt for e in kept.evaluations() if e.error} == counted
    assert [entry.id for entry in result.selected] == [
        entry.id for entry in plain.result().selected
    ]
    assert len(calls) == len(set(calls)) == len(list(kept.evaluations()))


def test_a_missing_package_ends_a_run_and_is_no_failure() -> None:
    study = _study()

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        raise asktell.EvaluatorError("no") from asktell.MissingExtraError(
            "pip install it"
        )

    with pytest.raises(asktell.MissingExtraError, match="pip install it"):
        asktell.run(study, evaluate, progress=False)
    assert (list(study.evaluations()), study.pending) == ([], [])


def test_a_run_keeps_details_and_all_metrics() -> None:
    class Scores(dict[str, Any]):
        details: ClassVar = {"output": "yes", "object": object()}

    study = _study()
    asktell.run(
        study,
        lambda prompt, example: Scores(a=1, b=float("nan"), cost=0.5),
        progress=False,
    )
    found = list(study.evaluations())
    assert len(found) == study.spent
    assert found[0].details is not None
    left_out = found[0].details.pop("not stored")
    assert list(left_out) == ["object"]
    assert found[0].details == {
        "output": "yes",
        "scores": {"a": 1.0, "b": None, "cost": 0.5},
    }
    assert found[0].cost == 0.5
