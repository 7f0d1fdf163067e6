"""Evaluation by actors of a real Ray cluster, whose nodes and actors are killed."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

import asktell
from asktell import (
    BestFeasible,
    EvaluatorError,
    InvalidArgumentError,
    Selector,
    Study,
    Trial,
)
from asktell.testing.evaluator_contract import PROMPTS, good
from asktell_adapters.executors.ray import run
from tests.times import wait_for

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 4
BAD = (PROMPTS[1], 2)
ALL = {
    (prompt, example): good(prompt, example)
    for prompt in PROMPTS
    for example in range(N)
}

pytestmark = pytest.mark.usefixtures("cluster")


def new_selector(examples: int = N) -> Selector:
    return Selector(
        PROMPTS,
        BestFeasible("score"),
        len(PROMPTS) * examples,
        "uniform",
        examples=examples,
    )


def told(selector: Any) -> dict[tuple[str, int], float]:
    history = selector.state.history
    cells = zip(history.arms(), history.examples(), history.scores(), strict=True)
    return {
        (PROMPTS[arm], int(example)): float(scores[0]) for arm, example, scores in cells
    }


def only_bad_failed(selector: Selector) -> str:
    """The reason of its failure."""
    assert told(selector) == pytest.approx(
        {cell: score for cell, score in ALL.items() if cell != BAD}
    )
    assert [entry.failures for entry in selector.result().prompts] == [0, 1, 0, 0]
    (reason,) = selector.state.failures.reasons()
    return reason


def note(folder: Path, what: object) -> int:
    """Leave a mark that outlives the process; how many there are of the kind."""
    (folder / f"{what} {os.getpid()} {time.monotonic_ns()}").touch()
    return len(notes(folder, what))


def notes(folder: Path, what: object) -> list[Path]:
    return list(folder.glob(f"{what} *"))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Batches:
    """Evaluates in batches, after doing something."""

    def __init__(
        self, before: Callable[[set[tuple[str, int]]], object] = lambda cells: None
    ) -> None:
        self.before = before

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
        self.before({(trial.prompt, trial.example or 0) for trial in trials})
        return [{"score": good(trial.prompt, trial.example or 0)} for trial in trials]


class Async:
    def __init__(self) -> None:
        self.loop: Any = None

    async def __call__(self, prompt: str, example: int) -> Any:
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop()
        await asyncio.sleep(0.001)
        return {"score": good(prompt, example), "cost": 1.0}


# What an evaluator may be, and how it may fail


@pytest.mark.parametrize(
    "factory", [lambda: lambda prompt, example: [good(prompt, example)], Async, Batches]
)
def test_each_score_comes_to_its_trial(factory: Any) -> None:
    selector = new_selector()
    result = run(selector, factory, 2, batch_size=3, progress=False)
    assert result.done
    assert told(selector) == pytest.approx(ALL)


class _OwnError(Exception):
    """Cannot be read again: its arguments are not those it was made with."""

    def __init__(self, one: str, two: int) -> None:
        super().__init__(f"{one} {two}")
        self.cost = 2.5


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda: _OwnError("scripted", 7), "_OwnError: scripted 7"),
        (lambda: {"score": float("nan")}, "nan"),
        (lambda: None, "NoneType"),
        (lambda: {"score": lambda: 0}, "lambda"),
        (dict, "score"),
    ],
)
def test_one_fault_is_the_failure_of_one_trial(fault: Any, reason: str) -> None:
    def evaluate(prompt: str, example: int) -> Any:
        if (prompt, example) == BAD:
            outcome = fault()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return {
            "score": np.float32(good(prompt, example))
            if example
            else np.array([good(prompt, example)])
        }

    selector = new_selector()
    run(selector, lambda: evaluate, 2, batch_size=4, progress=False)
    assert reason in only_bad_failed(selector)
    assert (selector.result().spent_cost or 0) == (2.5 if "_OwnError" in reason else 0)


def test_a_batch_that_raises_is_tried_in_smaller_ones(tmp_path: Path) -> None:
    def before(cells: set[tuple[str, int]]) -> None:
        note(tmp_path, len(cells))
        if BAD in cells:
            raise RuntimeError("CUDA out of memory")

    selector = new_selector()
    run(selector, lambda: Batches(before), 1, batch_size=16, progress=False)
    assert "CUDA out of memory" in only_bad_failed(selector)
    assert [len(notes(tmp_path, size)) for size in (16, 4, 1)] == [1, 4, 4]


def test_an_evaluator_that_only_fails_ends_the_run() -> None:
    selector = new_selector()

    def evaluate(prompt: str, example: int) -> Any:
        raise ConnectionError("no server")

    with pytest.raises(EvaluatorError, match=r"failed.*no server"):
        run(selector, lambda: evaluate, 2, progress=False, max_failures_in_a_row=3)
    assert selector.pending == []


def test_an_interruption_hands_back_and_kills_the_actors() -> None:
    selector = new_selector()

    def interrupt(selector: Any, trial: Trial) -> None:
        if selector.spent == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(selector, Batches, 2, batch_size=4, on_tell=interrupt, progress=False)
    assert selector.pending == []
    assert selector.spent == 8  # the rest of its batch was evaluated
    wait_for(lambda: ray.available_resources().get("CPU") == 2)


# Death


def test_an_actor_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    def before(cells: set[tuple[str, int]]) -> None:
        if BAD in cells and note(tmp_path, "death") == 1:
            die()

    selector = new_selector()
    run(selector, lambda: Batches(before), 2, batch_size=3, progress=False)
    assert len(notes(tmp_path, "death")) == 2
    assert told(selector) == pytest.approx(ALL)


def test_a_trial_that_kills_its_actor_every_time_fails_alone(tmp_path: Path) -> None:
    def before(cells: set[tuple[str, int]]) -> None:
        if BAD in cells:
            note(tmp_path, "death")
            die()

    selector = new_selector()
    run(selector, lambda: Batches(before), 2, batch_size=16, progress=False)
    assert "its worker was lost" in only_bad_failed(selector)
    assert len(notes(tmp_path, "death")) == 3


def test_a_trial_that_hangs_fails_alone(tmp_path: Path) -> None:
    def before(cells: set[tuple[str, int]]) -> None:
        if BAD in cells:
            note(tmp_path, "hang")
            time.sleep(1000)

    selector = new_selector()
    run(
        selector,
        lambda: Batches(before),
        2,
        batch_size=4,
        timeout=1.0,
        max_attempts=2,
        progress=False,
    )
    assert "took more than the timeout of 1 s" in only_bad_failed(selector)
    assert len(notes(tmp_path, "hang")) == 2


def test_nodes_may_die_and_come(
    cluster: Any, add_node: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two nodes; one is killed while it evaluates; a new one takes its place; nothing is lost or counted twice."""

    def factory() -> Any:
        node = ray.get_runtime_context().get_node_id()

        def evaluate(prompt: str, example: int) -> Any:
            note(tmp_path, node)
            time.sleep(0.05)
            return {"score": PROMPTS.index(prompt) + example / 100}

        return evaluate

    nodes = [add_node(resources={"spot": 1}) for _ in range(2)]
    study = Study.create(tmp_path / "study.db", "s", new_selector(examples=60))
    at: dict[int, Callable[[], Any]] = {
        60: lambda: cluster.remove_node(nodes[0], allow_graceful=False),
        100: lambda: nodes.append(add_node(resources={"spot": 1})),
    }

    def on_tell(worker: Any, trial: Trial) -> None:
        # A batch is told at once
        for spent in [spent for spent in at if spent <= worker.spent]:
            at.pop(spent)()

    result = run(
        study,
        factory,
        3,
        resources={"spot": 1},
        batch_size=3,
        on_tell=on_tell,
        progress=False,
    )
    assert at == {}
    assert "lost a batch" in caplog.text
    assert result.done
    assert result.spent == 240
    assert sum(entry.failures for entry in result.prompts) == 0
    assert set(told(study.selector)) == {
        (prompt, example) for prompt in PROMPTS for example in range(60)
    }
    assert (
        len(
            {
                path.name.split()[0]
                for path in tmp_path.iterdir()
                if len(path.name.split()) == 3
            }
        )
        == 3
    )
    study.close()


def test_after_a_crash_of_the_driver_a_study_goes_on(
    cluster: Any, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    study = Study.create(path, "s", new_selector(examples=30))
    program = f"""
import time, ray, asktell
from asktell_adapters.executors.ray import run
from asktell.testing.evaluator_contract import PROMPTS
ray.init({cluster.address!r}, log_to_driver=False)

def factory():
    def evaluate(prompt, example):
        time.sleep(0.02)
        return {{"score": len(prompt)}}
    return evaluate

with asktell.Study.open({str(path)!r}, "s") as study:
    run(study.worker("driver"), factory, 2, batch_size=4, progress=False)
"""
    driver = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: study.spent > 20)
    driver.kill()
    driver.wait()
    before = study.spent
    assert before < 120
    result = run(
        study.worker("driver"),
        lambda: lambda prompt, example: [float(len(prompt))],
        2,
        batch_size=4,
        progress=False,
    )
    assert result.done
    assert result.spent == 120
    assert len(told(study.selector)) == 120
    study.close()


# Starting


def test_a_factory_that_fails_everywhere_ends_the_run(tmp_path: Path) -> None:
    def factory() -> Any:
        note(tmp_path, "start")
        raise FileNotFoundError("no weights")

    selector = new_selector()
    with pytest.raises(
        EvaluatorError, match=r"starts in a row failed.*FileNotFoundError: no weights"
    ):
        run(selector, factory, 2, max_restarts=1, progress=False)
    assert 2 <= len(notes(tmp_path, "start")) <= 4
    assert selector.pending == []


def test_a_node_on_which_the_factory_fails_does_no_harm(
    add_node: Any, tmp_path: Path
) -> None:
    bad = add_node(resources={"half": 1}).node_id

    def factory() -> Any:
        if ray.get_runtime_context().get_node_id() == bad:
            note(tmp_path, "start")
            raise OSError("no GPU here")
        time.sleep(1)
        return Batches(lambda cells: time.sleep(0.1))

    add_node(resources={"half": 1})
    selector = new_selector()
    run(selector, factory, 2, resources={"half": 1}, max_restarts=1, progress=False)
    assert notes(tmp_path, "start")
    assert told(selector) == pytest.approx(ALL)


def test_actors_that_have_no_room_do_not_block_and_join_when_nodes_come(
    add_node: Any, tmp_path: Path
) -> None:
    def factory() -> Any:
        node = ray.get_runtime_context().get_node_id()
        return Batches(lambda cells: (time.sleep(0.1), note(tmp_path, node)))

    first = add_node(resources={"late": 1})
    nodes = []

    def on_tell(selector: Any, trial: Trial) -> None:
        if selector.spent == 4:
            nodes.append(add_node(resources={"late": 1}).node_id)
        elif len(nodes) == 1 and not notes(tmp_path, nodes[0]):
            time.sleep(0.3)  # until the new one has come

    selector = new_selector(examples=20)
    result = run(
        selector, factory, 8, resources={"late": 1}, on_tell=on_tell, progress=False
    )
    assert result.done
    assert notes(tmp_path, first.node_id)
    assert notes(tmp_path, nodes[0])


def test_a_run_without_any_room_ends_when_others_have_done_it(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "study.db", "s", new_selector())
    evaluate = lambda prompt, example: [good(prompt, example)]  # noqa: E731
    other = threading.Timer(2.0, lambda: asktell.run(study, evaluate, progress=False))
    other.start()
    assert (
        run(study, Batches, 2, resources={"unobtainable": 1}, progress=False).spent
        == 16
    )
    other.join()
    # Already done
    assert (
        run(study, Batches, 2, resources={"unobtainable": 1}, progress=False).spent
        == 16
    )
    study.close()


def test_each_actor_has_its_gpus(add_node: Any) -> None:
    add_node(num_gpus=2)

    def factory() -> Any:
        ids = os.environ["CUDA_VISIBLE_DEVICES"]

        def evaluate(prompt: str, example: int) -> Any:
            time.sleep(0.1)
            return {"score": float(ids)}

        return evaluate

    selector = new_selector()
    run(selector, factory, 2, num_gpus=1, progress=False)
    assert set(told(selector).values()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 0}, "num_workers"),
        ({"timeout": 0}, "timeout"),
        ({"num_gpus": -1}, "Ray refuses the options.*num_gpus"),
        ({"colour": "red"}, "Ray refuses the options.*colour"),
        ({"evaluator_factory": 3}, "evaluator_factory must be a function"),
        ({"evaluator_factory": threading.Lock().acquire}, "cannot be sent"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    arguments = {
        "evaluator_factory": Batches,
        "num_workers": 1,
        "progress": False,
        **options,
    }
    with pytest.raises(InvalidArgumentError, match=message):
        run(new_selector(), **arguments)
