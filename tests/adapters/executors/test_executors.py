"""Evaluators of any kind as batches for other processes; over Dask, whose workers are killed."""

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    EvaluatorError,
    MissingExtraError,
    Selector,
    Study,
    Trial,
)
from asktell.running.evaluator import Evaluator
from asktell.testing.evaluator_contract import PROMPTS, EvaluatorContract, Script, good
from asktell_adapters.executors import per_process
from asktell_adapters.executors.per_process import BatchEvaluation
from asktell_adapters.executors.ray import run as run_on_ray
from tests.plays import told

cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 4
BAD = (PROMPTS[1], 2)
ALL = {
    (prompt, example): good(prompt, example)
    for prompt in PROMPTS
    for example in range(N)
}
TRIALS = [Trial(i, i, prompt, i) for i, prompt in enumerate(PROMPTS)]


def new_selector() -> Selector:
    return Selector(
        PROMPTS, BestFeasible("score"), len(PROMPTS) * N, "uniform", examples=N
    )


def evaluate(prompt: str, example: int) -> dict[str, float]:
    return {"score": good(prompt, example)}


def evaluate_or_die(prompt: str, example: int) -> dict[str, float]:
    if (prompt, example) == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(prompt, example)


def only_bad_failed(selector: Selector) -> str:
    """The reason of its failure."""
    assert told(selector, PROMPTS) == pytest.approx(
        {cell: score for cell, score in ALL.items() if cell != BAD}
    )
    (reason,) = selector.state.failures.reasons()
    return reason


@pytest.fixture(scope="module", autouse=True)
def little_to_collect() -> Iterator[None]:
    """A process collects its garbage when an evaluator goes, which takes half a second beside all packages."""
    gc.freeze()
    yield
    gc.unfreeze()


# Any evaluator in batches


class TestPerProcess(EvaluatorContract):
    @pytest.fixture
    def make(self) -> Callable[[Script], Evaluator]:
        def make(script: Script) -> Evaluator:
            def evaluate(prompt: str, example: int) -> Any:
                match script(prompt, example):
                    case "raises":
                        raise ConnectionError("scripted")
                    case "times out":
                        raise TimeoutError("scripted")
                    case "no score":
                        return {}
                    case "nan":
                        return {"score": float("nan")}
                    case score:
                        return {"score": np.float64(score)}

            return per_process(lambda: evaluate)

        return make


class AsyncEvaluator:
    """Only good for one loop, as clients are."""

    def __init__(self) -> None:
        self.loops: set[Any] = set()

    async def evaluate_batch(self, trials: list[Trial]) -> list[Any]:
        self.loops.add(asyncio.get_running_loop())
        assert len(self.loops) == 1
        return [
            ValueError("no") if trial.example == 1 else (trial.example,)
            for trial in trials
        ]


def test_an_async_evaluator_keeps_its_loop() -> None:
    evaluation = BatchEvaluation(AsyncEvaluator())
    for _ in range(2):
        first, second, *_ = evaluation(TRIALS)
        assert first == [0]
        assert isinstance(second, EvaluatorError)
        assert str(second) == "ValueError: no"


def test_errors_travel_with_their_cost() -> None:
    class Refused(Exception):
        cost = 0.25

    def refuse(prompt: str, example: int) -> Any:
        raise Refused("by the server")

    (error,) = BatchEvaluation(refuse)(TRIALS[:1])
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == "Refused: by the server"
    assert copy.cost == 0.25


def leave(*_: object) -> Any:
    raise SystemExit(0)


class Leaving:
    def evaluate_batch(self, trials: list[Trial]) -> Any:
        leave()


class Cancelled:
    async def evaluate(self, prompt: str, example: int) -> Any:
        raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("evaluator", "name"), [(leave, "SystemExit: 0"), (Cancelled(), "CancelledError")]
)
def test_an_exit_is_an_error_of_its_trial(evaluator: Any, name: str) -> None:
    outcomes = BatchEvaluation(evaluator)(TRIALS)
    assert [(type(outcome), str(outcome)) for outcome in outcomes] == [
        (EvaluatorError, name)
    ] * len(TRIALS)


@pytest.mark.parametrize("factory", [leave, Leaving])
def test_an_exit_does_not_end_the_process_of_a_worker(factory: Any) -> None:
    with pytest.raises(EvaluatorError, match="SystemExit: 0"):
        per_process(factory).evaluate_batch(TRIALS)


def counting_factory(folder: Path) -> Callable[[], Evaluator]:
    def factory() -> Evaluator:
        (folder / f"{os.getpid()}-{len(list(folder.iterdir()))}").touch()
        return evaluate

    return factory


def test_a_process_makes_one_evaluator_and_keeps_the_last(tmp_path: Path) -> None:
    one = per_process(counting_factory(tmp_path), key="one")
    for _ in range(3):
        cloudpickle.loads(cloudpickle.dumps(one)).evaluate_batch(TRIALS)
    assert len(list(tmp_path.iterdir())) == 1
    per_process(counting_factory(tmp_path)).evaluate_batch(TRIALS)
    one.evaluate_batch(TRIALS)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_packages_are_imported_late(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = "asktell_adapters.executors, asktell_adapters.executors.ray"
    code = f"import sys, {modules}; print([m for m in ('ray', 'distributed', 'dask') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'asktell\[ray\]'"):
        run_on_ray(new_selector(), lambda: evaluate, 1)


# Dask


@pytest.fixture(scope="module")
def dask_client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    import dask

    # Without the second, what waits behind the trial that kills the worker is blamed
    # with it.
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.scheduler.worker-saturation": 1.0,
    }
    with (
        dask.config.set(settings),
        local_cluster(n_workers=2) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def local_cluster(**options: Any) -> Any:
    import distributed

    return distributed.LocalCluster(
        threads_per_worker=1, dashboard_address=":0", silence_logs=50, **options
    )


def test_dask_evaluates_a_study_with_one_evaluator_per_process(
    dask_client: Any, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    study = Study.create(tmp_path / "study.db", "s", new_selector())
    evaluator = per_process(counting_factory(calls))
    result = asktell.run(
        study, evaluator, dask_client.get_executor(), 6, False, batch_size=3
    )
    assert result.done
    assert told(study.selector, PROMPTS) == pytest.approx(ALL)
    assert 1 <= len(list(calls.iterdir())) <= 2
    study.close()


def test_a_dask_worker_that_dies_costs_only_the_trial_that_kills_it(
    dask_client: Any,
) -> None:
    selector = new_selector()
    evaluator = per_process(lambda: evaluate_or_die)
    asktell.run(selector, evaluator, dask_client.get_executor(), 8, False, batch_size=4)
    assert "KilledWorker" in only_bad_failed(selector)


def test_a_dask_cluster_that_goes_away_ends_the_run() -> None:
    distributed = pytest.importorskip("distributed")
    selector = new_selector()
    with (
        local_cluster(n_workers=1, processes=False) as cluster,
        distributed.Client(cluster) as client,
    ):

        def on_tell(selector: Selector, trial: Trial) -> None:
            if selector.spent == 3:
                client.close()

        with pytest.raises(EvaluatorError, match="broke down"):
            asktell.run(
                selector, evaluate, client.get_executor(), 2, False, on_tell=on_tell
            )
    assert selector.pending == []
    assert selector.spent >= 3
