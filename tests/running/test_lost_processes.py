"""An evaluation that kills its process, or whose outcome cannot be read, costs only its own trial."""

import contextlib
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, EvaluatorError, Selector, Study
from asktell.studies.storages.memory import MemoryStorage

# JAX warns of a fork if another test has used it in this process
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

BAD = ("b", 3)


class Demanding(Exception):
    """Can be pickled, but not unpickled, as many errors of API clients."""

    cost = 0.25

    def __init__(self, message: str, *, response: str) -> None:
        super().__init__(message)


class DemandingScores(dict[str, float]):
    """The same as a result."""

    def __reduce__(self) -> Any:
        return DemandingScores, (1, 2, 3)


def die(how: str) -> Any:
    if how == "os._exit":
        os._exit(139)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exception":
        raise Demanding("too many requests", response="429")
    if how == "local exception":

        class LocalError(Exception):
            pass

        raise LocalError("mine")
    if how == "result":
        return DemandingScores(acc=1.0)
    if how == "lambda":
        return {"acc": lambda: 1.0}
    raise BrokenExecutor("a pool of the evaluator's own")


class Deadly:
    """Evaluates prompts, and dies in one way on one cell. It notes its calls as files."""

    def __init__(self, folder: Path, how: str) -> None:
        self.folder, self.how = folder, how

    def __call__(self, prompt: str, example: int) -> Any:
        (self.folder / f"{prompt} {example} {time.time_ns()}").touch()
        if (prompt, example) == BAD:
            return die(self.how)
        return {"acc": 0.5}

    @property
    def calls(self) -> Counter[tuple[str, int]]:
        names = [path.name.split() for path in self.folder.iterdir()]
        return Counter((name[0], int(name[1])) for name in names)


def new(where: str = "selector") -> Any:
    selector = Selector(
        {"a": "a", "b": "b", "c": "c"}, BestFeasible("acc"), 18, "uniform", examples=8
    )
    if where == "selector":
        return selector
    return Study.create(MemoryStorage(), "s", selector)


def loky_pool() -> Executor:
    loky = pytest.importorskip("joblib.externals.loky")
    pool: Executor = loky.get_reusable_executor(2)
    return pool


def check(selection: Any, evaluator: Deadly, calls_of_bad: int, *words: str) -> None:
    """Only the deadly cell failed, after so many calls."""
    result = selection.result()
    assert result.done
    assert selection.pending == []
    (group,) = result.failures
    assert (group.count, group.prompts) == (1, ["b"])
    for word in words:
        assert word in group.reason
    assert evaluator.calls[BAD] == calls_of_bad
    # No other cell was evaluated more often than beside the first death
    assert sum(evaluator.calls.values()) - calls_of_bad <= selection.spent + 1


NAMED = ("Each of 3 attempts", "(prompt 'b', example 3)")


@pytest.mark.parametrize("how", ["os._exit", "killed"])
@pytest.mark.parametrize("where", ["selector", "study"])
def test_an_evaluation_that_kills_its_process_fails_after_three_attempts(
    where: str, how: str, tmp_path: Path
) -> None:
    selection, evaluator = new(where), Deadly(tmp_path, how)
    with ProcessPoolExecutor(2) as pool:
        asktell.run(selection, evaluator, pool, progress=False)
    check(selection, evaluator, 3, *NAMED)


@pytest.mark.slow
def test_an_evaluation_that_kills_its_process_of_loky_fails_after_three_attempts(
    tmp_path: Path,
) -> None:
    selector, evaluator = new(), Deadly(tmp_path, "killed")
    with loky_pool() as pool:
        asktell.run(selector, evaluator, pool, progress=False)
    check(selector, evaluator, 3, *NAMED)


async def test_the_same_in_ones_own_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    selection, evaluator = new(), Deadly(tmp_path, "killed")
    with ProcessPoolExecutor(2) as pool, caplog.at_level(logging.WARNING):
        await asktell.run_async(selection, evaluator, pool, progress=False)
    check(selection, evaluator, 3, *NAMED)
    messages = [record.getMessage() for record in caplog.records]
    assert sum("A process of the executor died" in each for each in messages) == 2
    assert all("(prompt 'b', example 3)" in each for each in messages)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exception", "Demanding: too many requests"),
        ("local exception", "LocalError: mine"),
        ("result", "DemandingScores, which cannot be sent from its process"),
        ("lambda", "dict, which cannot be sent from its process"),
        ("pool of its own", "BrokenExecutor: a pool of the evaluator's own"),
    ],
)
def test_what_cannot_be_sent_from_a_process_fails_with_its_own_words(
    how: str, words: str, tmp_path: Path
) -> None:
    selector, evaluator = new(), Deadly(tmp_path, how)
    with ProcessPoolExecutor(2) as pool:
        asktell.run(selector, evaluator, pool, progress=False)
        assert pool.submit(abs, -1).result() == 1  # it is not broken
    check(selector, evaluator, 1, words)
    assert selector.spent_cost == (0.25 if how == "exception" else 0)


@pytest.mark.slow
def test_what_loky_cannot_read_fails_with_its_reason(tmp_path: Path) -> None:
    selector, evaluator = new(), Deadly(tmp_path, "exception")
    with loky_pool() as pool:
        asktell.run(selector, evaluator, pool, progress=False)
    check(selector, evaluator, 3, *NAMED, "argument: 'response'")


def test_of_a_batch_only_the_trial_that_kills_its_process_fails(tmp_path: Path) -> None:
    selector, deadly = new(), Deadly(tmp_path, "killed")
    with ProcessPoolExecutor(2) as pool:
        asktell.run(selector, InBatches(deadly), pool, 6, False, batch_size=3)
    assert [each.prompts for each in selector.result().failures] == [["b"]]
    assert deadly.calls[BAD] == 3


class InBatches:
    def __init__(self, evaluate: Deadly) -> None:
        self.evaluate = evaluate

    def evaluate_batch(self, trials: list[asktell.Trial]) -> list[Any]:
        return [self.evaluate(str(each.prompt), each.example or 0) for each in trials]


class OwnPool(ProcessPoolExecutor):
    """A pool whose arguments nobody knows, so that no other can be made in its place."""

    def __init__(self) -> None:
        super().__init__(2)


@pytest.mark.parametrize("where", ["selector", "study"])
def test_attempts_are_counted_in_runs_with_new_executors(
    where: str, tmp_path: Path
) -> None:
    selection, evaluator = new(where), Deadly(tmp_path, "killed")
    errors = []
    for _ in range(6):
        with OwnPool() as pool:
            try:
                asktell.run(selection, evaluator, pool, progress=False)
                break
            except EvaluatorError as error:
                errors.append(str(error))
                assert selection.pending == []
    assert len(errors) == 3
    for error in errors:
        assert "The executor broke down while it evaluated" in error
        assert "(prompt 'b', example 3)" in error
        assert "with a new executor" in error
    check(selection, evaluator, 3, *NAMED)


def test_a_pool_that_is_broken_already_is_replaced(tmp_path: Path) -> None:
    selector, evaluator = new(), Deadly(tmp_path, "killed")
    with ProcessPoolExecutor(2) as pool:
        with contextlib.suppress(BrokenExecutor):
            pool.submit(os._exit, 1).result()
        asktell.run(selector, evaluator, pool, progress=False)
    check(selector, evaluator, 3, *NAMED)


def fail_to_initialize() -> None:
    raise RuntimeError("no GPU")


@pytest.fixture
def quiet_processes(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    capfd.readouterr()


@pytest.mark.usefixtures("quiet_processes")
def test_a_pool_whose_initializer_fails_ends_the_run(tmp_path: Path) -> None:
    selector, evaluator = new(), Deadly(tmp_path, "killed")
    with (
        ProcessPoolExecutor(1, initializer=fail_to_initialize) as pool,
        pytest.raises(EvaluatorError, match=r"first 5 evaluations.*initializer"),
    ):
        asktell.run(selector, evaluator, pool, progress=False)
    assert not evaluator.calls
    assert selector.pending == []


def test_a_pool_that_an_evaluator_uses_in_its_thread_is_its_own(tmp_path: Path) -> None:
    selector, evaluator = new(), Deadly(tmp_path, "pool of its own")
    with ThreadPoolExecutor(2) as threads:
        asktell.run(selector, evaluator, threads, progress=False)
    check(selector, evaluator, 1, "a pool of the evaluator's own")
