"""Ctrl-C, a signal handler and a cancelled task end every kind of run, and nothing new is evaluated then."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study, Trial
from asktell.extend import outside_of_loops
from asktell.running import loop
from asktell.studies.storages.memory import MemoryStorage

# JAX warns of a fork if another test has used it in this process
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

AT_ONCE = 3
THE_CALL = 7  # during which the signal comes


def new(where: str = "selector") -> Any:
    selector = Selector(
        ["a", "b", "c"], BestFeasible("acc"), 60, "uniform", examples=40
    )
    if where == "selector":
        return selector
    return Study.create(MemoryStorage(), "s", selector)


class Play:
    """Evaluations that take a moment. During one of them, `strike` is called once."""

    def __init__(self, strike: Callable[[], object]) -> None:
        self.strike = strike
        self.lock = threading.Lock()
        self.calls = self.ended = self.struck_at = 0
        self.stopped = threading.Event()

    def start(self) -> None:
        with self.lock:
            self.calls += 1
            is_the_call = self.calls == THE_CALL
        if is_the_call:
            self.struck_at = self.calls
            self.strike()

    def end(self) -> dict[str, float]:
        with self.lock:
            self.ended += 1
        return {"acc": 0.5}

    def __call__(self, prompt: str, example: int) -> dict[str, float]:
        self.start()
        time.sleep(0.02)
        return self.end()

    def batch(self, trials: Sequence[Trial]) -> list[dict[str, float]]:
        return [self(trial.prompt, trial.example or 0) for trial in trials]

    async def later(self, prompt: str, example: int) -> dict[str, float]:
        self.start()
        await asyncio.sleep(0.02)
        return self.end()

    def as_way(self, way: str) -> Any:
        play = self

        class Batches:
            def evaluate_batch(self, trials: Sequence[Trial]) -> Any:
                return play.batch(trials)

        class AsyncBatches:
            async def evaluate_batch(self, trials: Sequence[Trial]) -> Any:
                return [await play.later(each.prompt, 0) for each in trials]

        class Stoppable:
            def evaluate(self, prompt: str, example: int) -> Any:
                play.start()
                if play.stopped.wait(0.02):
                    raise RuntimeError("stopped")
                return play.end()

            def cancel(self, trial: Trial) -> None:
                play.stopped.set()

        async def evaluate(prompt: str, example: int) -> Any:
            return await play.later(prompt, example)

        return {
            "batches": Batches,
            "async": lambda: evaluate,
            "async batches": AsyncBatches,
            "cancel": Stoppable,
        }.get(way, lambda: play)()


WAYS = ["here", "batches", "threads", "async", "async batches", "cancel"]


@contextlib.contextmanager
def executor_of(way: str) -> Iterator[Executor | None]:
    if way != "threads":
        yield None
        return
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield threads


@pytest.fixture(autouse=True)
def is_interrupted_by_sigint() -> Iterator[None]:
    """A background job of a shell ignores SIGINT, and so would the tests in it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def exits_on_sigterm() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    yield
    signal.signal(signal.SIGTERM, before)


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def check(play: Play, selection: Any) -> None:
    """Nothing was begun after the signal, but what ran beside it, and all that ended was recorded."""
    calls = play.calls
    time.sleep(0.1)
    assert play.calls == calls
    assert play.struck_at <= calls < play.struck_at + AT_ONCE
    assert selection.spent == play.ended
    assert selection.pending == []
    assert selection.result().failures == []


SIGNALS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}


@pytest.mark.parametrize("number", SIGNALS, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("where", ["selector", "study"])
@pytest.mark.parametrize("face", ["script", "cell", "own loop"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("exits_on_sigterm")
def test_a_signal_ends_a_run(
    way: str, face: str, where: str, number: signal.Signals
) -> None:
    play, selection = Play(send(number)), new(where)

    async def cell() -> None:
        asktell.run(selection, play.as_way(way), executor, AT_ONCE, False)

    async def own() -> None:
        await asktell.run_async(selection, play.as_way(way), executor, AT_ONCE, False)

    def script() -> None:
        asktell.run(selection, play.as_way(way), executor, AT_ONCE, False)

    faces = {
        "script": script,
        "cell": lambda: asyncio.run(cell()),
        "own loop": lambda: asyncio.run(own()),
    }
    with executor_of(way) as executor, pytest.raises(SIGNALS[number]):
        faces[face]()
    check(play, selection)
    # The same selection continues
    play.stopped.clear()
    asktell.run(selection, play, progress=False, until=lambda it: it.spent > 20)
    assert selection.spent > 20


# In other processes


def evaluate_in_process(prompt: str, example: int) -> dict[str, float]:
    folder = Path(os.environ["ASKTELL_TEST_CALLS"])
    (folder / f"call {os.getpid()} {time.time_ns()}").touch()
    if len(list(folder.glob("call*"))) >= THE_CALL:
        with contextlib.suppress(FileExistsError):
            (folder / "sent").touch(exist_ok=False)
            os.kill(os.getppid(), int(os.environ["ASKTELL_TEST_SIGNAL"]))
    time.sleep(0.05)
    return {"acc": 0.5}


@pytest.mark.parametrize("face", ["script", "own loop"])
@pytest.mark.parametrize("number", SIGNALS, ids=["SIGINT", "SIGTERM"])
@pytest.mark.usefixtures("exits_on_sigterm")
def test_a_signal_ends_a_run_in_processes(
    number: signal.Signals, face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKTELL_TEST_CALLS", str(tmp_path))
    monkeypatch.setenv("ASKTELL_TEST_SIGNAL", str(int(number)))
    selector = new()

    async def own() -> None:
        await asktell.run_async(selector, evaluate_in_process, pool, progress=False)

    def script() -> None:
        asktell.run(selector, evaluate_in_process, pool, progress=False)

    with ProcessPoolExecutor(2) as pool, pytest.raises(SIGNALS[number]):
        script() if face == "script" else asyncio.run(own())
    n = len(list(tmp_path.glob("call*")))
    # No more calls are given to the pool than it has processes
    assert n <= THE_CALL + 2
    assert selector.spent == n
    assert selector.pending == []


# What is not a signal's


@pytest.mark.parametrize("way", ["here", "threads", "async"])
def test_an_exit_of_the_evaluator_itself_is_its_failure(way: str) -> None:
    play, selector = Play(lambda: sys.exit(3)), new()
    with executor_of(way) as executor:
        result = asktell.run(selector, play.as_way(way), executor, AT_ONCE, False)
    assert [(each.count, each.reason) for each in result.failures] == [
        (1, "SystemExit: 3")
    ]


def test_a_time_limit_of_the_evaluators_own_is_its_failure() -> None:
    def too_late(number: int, frame: object) -> None:
        raise TimeoutError("too late")

    def strike() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        time.sleep(1)

    before = signal.signal(signal.SIGALRM, too_late)
    try:
        result = asktell.run(new(), Play(strike), progress=False)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert [each.reason for each in result.failures] == ["TimeoutError: too late"]


def handlers() -> dict[str, Callable[..., None]]:
    class Handler:
        def method(self, number: int, frame: object) -> None:
            raise RuntimeError("the deadline of the job")

        def __call__(self, number: int, frame: object) -> None:
            raise RuntimeError("the deadline of the job")

    def function(*given: object) -> None:
        raise RuntimeError("the deadline of the job")

    return {"method": Handler().method, "object": Handler(), "function": function}


@pytest.mark.parametrize("kind", handlers())
def test_any_exception_of_a_signal_handler_ends_a_run(kind: str) -> None:
    play, selector = Play(send(signal.SIGUSR1)), new()
    before = signal.signal(signal.SIGUSR1, handlers()[kind])
    try:
        with pytest.raises(RuntimeError, match="deadline"):
            asktell.run(selector, play, progress=False)
    finally:
        signal.signal(signal.SIGUSR1, before)
    check(play, selector)


@pytest.mark.usefixtures("exits_on_sigterm")
def test_an_evaluator_that_wraps_the_exit_does_not_hide_it() -> None:
    play, selector = Play(send(signal.SIGTERM)), new()

    def evaluate(prompt: str, example: int) -> Any:
        try:
            return play(prompt, example)
        except BaseException as error:
            raise asktell.EvaluatorError("the metric failed") from error

    with pytest.raises(SystemExit):
        asktell.run(selector, evaluate, progress=False)
    check(play, selector)


async def test_a_cancelled_task_ends_a_run_in_ones_own_loop() -> None:
    selector, task = new(), asyncio.current_task()
    assert task is not None
    play = Play(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await asktell.run_async(selector, play.as_way("async"), None, AT_ONCE, False)
    task.uncancel()
    check(play, selector)


async def test_a_cancellation_that_the_evaluator_raises_is_its_failure() -> None:
    def strike() -> None:
        raise asyncio.CancelledError

    play, selector = Play(strike), new()
    result = await asktell.run_async(
        selector, play.as_way("async"), None, AT_ONCE, False
    )
    assert result.done
    assert [each.reason for each in result.failures] == ["CancelledError"]


class SlowToStart(threading.Thread):
    """A thread whose work begins, and is interrupted, before the thread that started it goes on."""

    def start(self) -> None:
        super().start()
        time.sleep(0.2)


@pytest.mark.parametrize("thread_class", [threading.Thread, SlowToStart])
@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_work_outside_of_a_loop_ends_with_an_interrupt(
    kind: str,
    thread_class: type[threading.Thread],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "Thread", thread_class)
    begun, ended = threading.Event(), threading.Event()
    uninterrupted = threading.Event()

    async def sleep() -> None:
        begun.set()
        try:
            for _ in range(3000):
                await asyncio.sleep(0.01)
            uninterrupted.set()
        finally:
            ended.set()

    def loop_of_its_own() -> None:
        asyncio.run(sleep())

    def strike() -> None:
        assert begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    async def cell() -> None:
        call: Any = sleep if kind == "coroutine" else loop_of_its_own
        outside_of_loops(call)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    thread.join()
    assert ended.is_set()
    assert not uninterrupted.is_set()


def test_the_stop_button_of_a_cell_with_await_ends_a_run() -> None:
    """The kernel's handler of SIGINT cancels the cell as soon as its loop is free, which it is not during `run`."""
    received: list[int] = []

    def handle_sigint(number: int, frame: object) -> None:
        received.append(number)

    handle_sigint.__module__ = "ipykernel.ipkernel"
    play, selector = Play(send(signal.SIGINT)), new()

    async def cell() -> None:
        before = signal.signal(signal.SIGINT, handle_sigint)
        try:
            with pytest.raises(KeyboardInterrupt):
                asktell.run(selector, play, progress=False)
            assert signal.getsignal(signal.SIGINT) is handle_sigint
        finally:
            signal.signal(signal.SIGINT, before)

    asyncio.run(cell())
    assert received == [signal.SIGINT]
    check(play, selector)


class Beginning:
    """An evaluator that gets SIGINT before its first evaluation."""

    calls = 0

    def check_selection(self, selector: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    def __call__(self, prompt: str, example: int) -> float:
        self.calls += 1
        return 1.0


def test_an_interrupt_before_the_first_evaluation_ends_a_run() -> None:
    evaluator, selector = Beginning(), new()

    async def cell() -> None:
        asktell.run(selector, evaluator, progress=False)

    # Ctrl-C only cancels the task of the loop
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    assert (evaluator.calls, selector.result().spent) == (0, 0)


class InterruptedAtStart(threading.Thread):
    """A thread that runs already when SIGINT comes, while `start` still waits for it."""

    def start(self) -> None:
        super().start()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)


def own_loop() -> contextlib.closing[asyncio.AbstractEventLoop]:
    """A loop as that of a notebook, which leaves it to Python to raise the KeyboardInterrupt."""
    return contextlib.closing(asyncio.new_event_loop())


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_an_interrupt_while_a_thread_starts_ends_what_it_does(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "Thread", InterruptedAtStart)
    went_on = threading.Event()

    async def sleep() -> None:
        for _ in range(20):
            await asyncio.sleep(0.01)
        went_on.set()

    def wait() -> None:
        for _ in range(20):
            time.sleep(0.01)
        went_on.set()

    async def cell() -> None:
        outside_of_loops(sleep if kind == "coroutine" else wait)

    with own_loop() as own, pytest.raises(KeyboardInterrupt):
        own.run_until_complete(cell())
    assert not went_on.wait(0.4)
    assert "asktell" not in {thread.name for thread in threading.enumerate()}


def test_a_thread_that_an_interrupt_ends_too_early_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Outcome(loop.Future[Any]):
        def set_result(self, result: Any) -> None:
            raise KeyboardInterrupt

        set_exception = set_result

    monkeypatch.setattr(loop, "Future", Outcome)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    begun = threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.1)

    async def cell() -> None:
        outside_of_loops(work)

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with own_loop() as own, pytest.raises(KeyboardInterrupt):
        own.run_until_complete(cell())
    thread.join()


class InterruptedAtSubmit(ThreadPoolExecutor):
    """A pool that begins its first evaluation before SIGINT comes within `submit`."""

    n_calls = 0

    def submit(self, *args: Any, **options: Any) -> Any:
        future = super().submit(*args, **options)
        self.n_calls += 1
        if self.n_calls == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return future


def test_an_interrupt_while_threads_start_loses_no_evaluation() -> None:
    play, selector = Play(lambda: None), new()
    play.struck_at = 1
    with InterruptedAtSubmit(AT_ONCE) as executor, pytest.raises(KeyboardInterrupt):
        asktell.run(selector, play, executor, AT_ONCE, False)
    assert play.calls == 1
    check(play, selector)


def test_an_interrupt_before_the_loop_of_another_thread_begins_ends_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, run = threading.Event(), asyncio.run

    def late(coroutine: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return run(coroutine)

    async def work() -> None:
        begun.set()

    async def cell() -> None:
        outside_of_loops(work)

    monkeypatch.setattr(asyncio, "run", late)
    with own_loop() as own, pytest.raises(KeyboardInterrupt):
        own.run_until_complete(cell())
    assert not begun.is_set()


@pytest.mark.parametrize("way", ["threads", "async"])
async def test_a_time_limit_of_anyio_loses_no_evaluation(way: str) -> None:
    anyio = pytest.importorskip("anyio")
    play, selector = Play(lambda: None), new()
    evaluator = play.as_way(way)
    with executor_of(way) as executor, anyio.move_on_after(0.05) as scope:
        await asktell.run_async(selector, evaluator, executor, AT_ONCE, False)
    assert scope.cancelled_caught
    play.struck_at = play.calls
    check(play, selector)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.usefixtures("exits_on_sigterm")
def test_a_signal_while_processes_start_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = multiprocessing.get_context("fork")
    start, before = fork.Process.start, set(multiprocessing.active_children())

    def interrupted(process: Any) -> None:
        start(process)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

    monkeypatch.setattr(fork.Process, "start", interrupted)
    monkeypatch.setenv("ASKTELL_TEST_CALLS", str(tmp_path))
    selector = new()
    try:
        with ProcessPoolExecutor(2, fork) as pool, pytest.raises(SystemExit):
            asktell.run(selector, evaluate_in_process, pool, progress=False)
        left = set(multiprocessing.active_children()) - before
    finally:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
    assert not left
    assert (selector.spent, selector.pending) == (len(list(tmp_path.iterdir())), [])
