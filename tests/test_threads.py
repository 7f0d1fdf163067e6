"""Decisions take one BLAS thread, and leave the user's own number as it was."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import pytest
import scipy.linalg
import threadpoolctl

import asktell
from asktell._util.threads import undisturbed
from asktell.methods import Adaptive
from asktell.record import Decided, State
from tests.plays import play


def n_threads() -> set[int]:
    return {
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    }


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    np.linalg.inv(scipy.linalg.inv(np.eye(3)))
    limits = threadpoolctl.ThreadpoolController().limit(limits=2)
    threadpoolctl.OpenBLASController.clear_controlling_thread()
    if n_threads() != {2}:
        pytest.skip("this BLAS has no number of threads to set")
    yield
    limits.restore_original_limits()
    threadpoolctl.OpenBLASController.clear_controlling_thread()


def test_blocks_within_blocks_and_errors_leave_the_number_as_it_was() -> None:
    with undisturbed:
        with undisturbed:
            assert n_threads() == {1}
        assert n_threads() == {1}
    assert n_threads() == {2}
    with pytest.raises(ZeroDivisionError), undisturbed:
        raise ZeroDivisionError
    assert n_threads() == {2}


def test_the_last_of_several_threads_restores_it() -> None:
    inside, leave = threading.Barrier(3), threading.Event()

    def work() -> None:
        with undisturbed:
            inside.wait()
            leave.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    with undisturbed:
        pass
    assert n_threads() == {1}
    leave.set()
    for thread in threads:
        thread.join()
    assert n_threads() == {2}


_FORK = """
import os
from asktell._util.threads import undisturbed
with undisturbed:
    child = os.fork()
    if not child:
        with undisturbed:
            pass
        os._exit(undisturbed._inside)
    assert os.waitpid(child, 0)[1] == 0
    assert undisturbed._inside == 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_in_a_block_has_the_block_to_itself() -> None:
    subprocess.run([sys.executable, "-c", _FORK], check=True, timeout=60)


def test_a_limit_that_another_thread_holds_stands() -> None:
    with threadpoolctl.threadpool_limits(2):
        thread = threading.Thread(target=lambda: undisturbed(lambda: None)())
        thread.start()
        thread.join()
        assert n_threads() == {2}
    assert n_threads() == {2}


def test_decisions_and_results_take_one_thread() -> None:
    seen: list[set[int]] = []

    @final
    @dataclass(frozen=True)
    class Watched(Adaptive):  # type: ignore[misc]  # which is final
        def decide(self, state: State) -> Decided:
            seen.append(n_threads())
            return super().decide(state)

        def answer(self, state: State) -> list[int]:
            seen.append(n_threads())
            return super().answer(state)

    selector = asktell.Selector(["a", "b"], asktell.BestFeasible("x"), 8, Watched(), 6)
    play(selector, lambda trial: trial.id % 2, n=4)
    selector.result()
    assert len(seen) > 1
    assert seen == [{1}] * len(seen)
    assert n_threads() == {2}


def test_an_interrupt_at_the_beginning_of_a_block_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    fresh = type(undisturbed)()
    before = np.seterr(all="raise")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(threadpoolctl.ThreadpoolController, "__init__", interrupt)
            with pytest.raises(KeyboardInterrupt), fresh:
                pass
        assert set(np.geterr().values()) == {"raise"}
        with fresh:
            assert n_threads() == {1}
        assert n_threads() == {2}
    finally:
        np.seterr(**before)
