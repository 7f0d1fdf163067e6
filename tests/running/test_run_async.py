"""`asktell.run_async`: a run in one's own event loop; and the caller's context, which reaches every evaluator."""

import asyncio
import decimal
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, InvalidArgumentError, Selector, Study, Trial
from asktell.studies.storages.memory import MemoryStorage

TRACE: ContextVar[str] = ContextVar("TRACE", default="lost")


def new() -> Selector:
    return Selector(["a", "b", "c"], BestFeasible("acc"), 12, "uniform", examples=8)


class Client:
    """Only good for the loop in which it was first used, as many async clients are."""

    def __init__(self) -> None:
        self.loop: Any = None
        self.open = self.most = 0

    async def complete(self) -> float:
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop()
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.005)
        self.open -= 1
        return 0.5


async def test_two_runs_share_a_client_and_run_side_by_side() -> None:
    client = Client()

    async def evaluate(prompt: str, example: int) -> float:
        return await client.complete()

    results = await asyncio.gather(
        asktell.run_async(new(), evaluate, concurrency=2, progress=False),
        asktell.run_async(new(), evaluate, concurrency=2, progress=False),
    )
    assert [result.spent for result in results] == [12, 12]
    assert client.most == 4
    # The loop and the client are still usable
    assert await client.complete() == 0.5


async def test_it_gives_what_run_gives() -> None:
    async def evaluate(prompt: str, example: int) -> float:
        return example / 10 + (prompt == "b")

    here, there = new(), new()
    result = await asktell.run_async(here, evaluate, concurrency=3, progress=False)
    same = await asyncio.to_thread(asktell.run, there, evaluate, None, 3, False)
    assert str(result) == str(same)
    assert here.to_json() == there.to_json()


async def test_an_evaluator_that_is_not_async_does_not_block_the_loop() -> None:
    ticks, release = 0, threading.Event()

    def evaluate(prompt: str, example: int) -> float:
        assert threading.current_thread() is not threading.main_thread()
        assert release.wait(10)
        return 0.5

    async def tick() -> None:
        nonlocal ticks
        for _ in range(5):
            await asyncio.sleep(0.001)
            ticks += 1
        release.set()

    result, _ = await asyncio.gather(
        asktell.run_async(new(), evaluate, progress=False), tick()
    )
    assert (result.spent, ticks) == (12, 5)


async def test_batches_and_an_executor_run_as_in_run() -> None:
    sizes: list[int] = []

    class Batches:
        def evaluate_batch(self, trials: Sequence[Trial]) -> list[float]:
            sizes.append(len(trials))
            return [0.5] * len(trials)

    await asktell.run_async(new(), Batches(), concurrency=4, progress=False)
    assert sizes == [4, 4, 4]
    sizes.clear()
    with ThreadPoolExecutor(2) as threads:
        await asktell.run_async(new(), Batches(), threads, 6, False, batch_size=3)
    assert sizes == [3, 3, 3, 3]


async def test_an_executor_is_refused_for_an_async_evaluator() -> None:
    async def evaluate(prompt: str, example: int) -> float:
        return 0.5

    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(InvalidArgumentError, match="Leave out executor="),
    ):
        await asktell.run_async(new(), evaluate, threads)


async def test_waiting_for_other_workers_does_not_block_the_loop() -> None:
    study = Study.create(MemoryStorage(), "s", new())
    other = study.worker("other", lease=60)
    held = other.ask(2)
    assert len(held) == 2

    async def evaluate(prompt: str, example: int) -> float:
        return 0.5

    async def tell() -> None:
        while study.spent < 10:
            await asyncio.sleep(0.001)
        for trial in held:
            other.tell(trial, 0.5)

    result, _ = await asyncio.gather(
        asktell.run_async(study, evaluate, progress=False), tell()
    )
    assert (result.done, result.spent) == (True, 12)


async def test_a_failure_ends_it_as_it_ends_run() -> None:
    async def evaluate(prompt: str, example: int) -> float:
        raise ConnectionError("no")

    selector = new()
    with pytest.raises(asktell.EvaluatorError, match=r"first 8 .*ConnectionError: no"):
        await asktell.run_async(selector, evaluate, progress=False)
    assert selector.pending == []


# The context of the caller


class Seeing:
    """Notes the context variable, and how many digits decimals have."""

    def __init__(self) -> None:
        self.contexts = set[tuple[str, int]]()

    def __call__(self, prompt: str, example: int) -> float:
        self.contexts.add((TRACE.get(), decimal.getcontext().prec))
        return 0.5


def as_way(way: str, seeing: Seeing) -> Any:
    class Stoppable:
        def evaluate(self, prompt: str, example: int) -> float:
            return seeing(prompt, example)

        def cancel(self, trial: Trial) -> None:
            raise NotImplementedError

    async def evaluate(prompt: str, example: int) -> float:
        await asyncio.sleep(0)
        return seeing(prompt, example)

    return {"cancel": Stoppable(), "async": evaluate}.get(way, seeing)


@pytest.mark.parametrize("way", ["here", "cancel", "threads", "async"])
@pytest.mark.parametrize("face", ["script", "cell", "own loop"])
def test_the_callers_context_reaches_the_evaluator(face: str, way: str) -> None:
    seeing = Seeing()
    evaluator = as_way(way, seeing)

    def script(executor: Executor | None) -> None:
        asktell.run(new(), evaluator, executor, 3, False)

    async def cell(executor: Executor | None) -> None:
        script(executor)

    async def own(executor: Executor | None) -> None:
        await asktell.run_async(new(), evaluator, executor, 3, False)

    token = TRACE.set("trace 42")
    try:
        with decimal.localcontext(prec=7), ThreadPoolExecutor(2) as threads:
            executor = threads if way == "threads" else None
            if face == "script":
                script(executor)
            else:
                asyncio.run(cell(executor) if face == "cell" else own(executor))
    finally:
        TRACE.reset(token)
    assert seeing.contexts == {("trace 42", 7)}


# Two runs of one selection


def test_a_second_run_of_a_selector_is_refused_at_once() -> None:
    selector, begun, go_on = new(), threading.Event(), threading.Event()
    calls: list[tuple[str, int]] = []

    def evaluate(prompt: str, example: int) -> float:
        calls.append((prompt, example))
        begun.set()
        assert go_on.wait(10)
        return 0.5

    thread = threading.Thread(
        target=asktell.run, args=(selector, evaluate), kwargs={"progress": False}
    )
    thread.start()
    assert begun.wait(10)
    with pytest.raises(InvalidArgumentError, match=r"in use by another run.*Study"):
        asktell.run(selector, evaluate, progress=False)
    # A copy is a selection of its own, and reading is free
    copy = Selector.from_json(selector.to_json())
    go_on.set()
    thread.join()
    assert len(calls) == selector.spent == 12
    assert asktell.run(copy, evaluate, progress=False).spent == 12
    # When it has ended, another one may begin
    assert asktell.run(selector, evaluate, progress=False).spent == 12


async def test_a_second_run_in_the_same_loop_is_refused() -> None:
    selector = new()

    async def evaluate(prompt: str, example: int) -> float:
        await asyncio.sleep(0.001)
        return 0.5

    results = await asyncio.gather(
        asktell.run_async(selector, evaluate, progress=False),
        asktell.run_async(selector, evaluate, progress=False),
        return_exceptions=True,
    )
    assert isinstance(results[1], InvalidArgumentError)
    assert not isinstance(results[0], BaseException)
    assert results[0].spent == 12


@pytest.mark.parametrize("kind", ["selector", "study", "worker"])
def test_a_run_in_its_own_on_tell_is_refused(kind: str) -> None:
    selection: Any = new()
    if kind != "selector":
        selection = Study.create(MemoryStorage(), "s", selection)
    if kind == "worker":
        selection = selection.worker("w")

    def evaluate(prompt: str, example: int) -> float:
        return 0.5

    def on_tell(told: Any, trial: Trial) -> None:
        asktell.run(selection, evaluate, progress=False)

    with pytest.raises(InvalidArgumentError, match="in its own on_tell"):
        asktell.run(selection, evaluate, progress=False, on_tell=on_tell)
    assert selection.pending == []
    # After a run that ended with an error, the selection continues
    assert asktell.run(selection, evaluate, progress=False).done


def test_on_tell_may_run_another_selection() -> None:
    def evaluate(prompt: str, example: int) -> float:
        return 0.5

    inner: list[int] = []

    def on_tell(selector: Any, trial: Trial) -> None:
        inner.append(asktell.run(new(), evaluate, progress=False).spent)

    asktell.run(new(), evaluate, progress=False, on_tell=on_tell)
    assert inner == [12] * 12


def test_workers_of_a_study_may_run_side_by_side() -> None:
    study = Study.create(MemoryStorage(), "s", new())
    calls: list[tuple[str, int]] = []

    def evaluate(prompt: str, example: int) -> float:
        calls.append((prompt, example))
        return 0.5

    threads = [
        threading.Thread(
            target=asktell.run, args=(study, evaluate), kwargs={"progress": False}
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == study.spent == 12
