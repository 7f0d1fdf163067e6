"""Forked children of a process whose threads are busy go on, and lose nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from asktell import Study
from tests.elsewhere import FORKING

BUSY_PARENT = """
import os, signal, sys, threading
from asktell import BestFeasible, Selector, Study

location, n_children = sys.argv[1], 3
one = Selector([f"prompt {i}" for i in range(8)], BestFeasible("a"), 10**6, "uniform", examples=10**6)
if location != "selector":
    one = Study.create(location, "s", one)
told, stop = [], threading.Event()


def ask_and_tell(told):
    trial = one.ask()
    one.tell(trial, [trial.id])
    told.append(trial.id)


def work():
    while not stop.wait(0.003):  # or the children of a study in memory would have a long log to read
        ask_and_tell(told)


def look():
    while not stop.is_set():
        one.pending, one.spent, one.result()


threads = [threading.Thread(target=target) for target in (work, work, work, look)]
for thread in threads:
    thread.start()
for _ in range(n_children):
    pid = os.fork()
    if not pid:
        signal.alarm(100)  # a child that hangs is killed
        mine = []
        for _ in range(3):
            ask_and_tell(mine)
        if location == "selector" or location.startswith("memory"):  # a copy of its own
            history = (one if location == "selector" else one.selector).state.history
            rows = zip(history.trials().tolist(), history.scores().ravel().tolist(), strict=True)
            assert all(trial == score for trial, score in rows)
            assert set(told + mine) <= set(history.trials().tolist())
        else:
            os.write(1, "".join(f"{id}\\n" for id in mine).encode())
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        os.write(2, b"a child hung or failed\\n")
        os._exit(1)
stop.set()
for thread in threads:
    thread.join()
if location != "selector":
    one.close()
os.write(1, "".join(f"{id}\\n" for id in told).encode())
"""


def told_by_parent_and_children(location: str) -> list[int]:
    command = [sys.executable, *FORKING, "-c", BUSY_PARENT, location]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(map(int, done.stdout.split()))


@pytest.mark.parametrize("location", ["selector", "memory://"])
def test_children_of_a_busy_process_have_a_copy_of_what_is_in_memory(
    location: str,
) -> None:
    assert told_by_parent_and_children(location)


def test_children_of_a_busy_process_share_its_file(tmp_path: Path) -> None:
    told = told_by_parent_and_children(str(tmp_path / "studies.db"))
    with Study.open(tmp_path / "studies.db", "s") as study:
        assert sorted(study.selector.state.history.trials().tolist()) == told
        assert (
            study.selector.state.history.scores().ravel().tolist()
            == study.selector.state.history.trials().tolist()
        )


def test_children_of_a_busy_process_share_its_server(postgresql_url: str) -> None:
    told = told_by_parent_and_children(postgresql_url)
    with Study.open(postgresql_url, "s") as study:
        assert sorted(study.selector.state.history.trials().tolist()) == told


OUTLIVE = """
import os, sys
from asktell import BestFeasible, Selector, Study

study = Study.create(sys.argv[1], "s", Selector(["x", "y"], BestFeasible("a"), 100, "uniform"))
study.tell(study.ask(), [1])
(parent_reads, child_writes), (child_reads, parent_writes) = os.pipe(), os.pipe()
pid = os.fork()
if not pid:
    study.tell(study.ask(), [1])
    os.write(child_writes, b".")
    os.read(child_reads, 1)
    for _ in range(20):
        study.tell(study.ask(), [1])
    os._exit(0)
os.read(parent_reads, 1)
study.close()
os.write(parent_writes, b".")
assert os.waitpid(pid, 0)[1] == 0
with Study.open(sys.argv[1], "s") as study:
    print(study.spent)
"""


def test_what_a_child_tells_after_its_parent_closed_is_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OUTLIVE, str(tmp_path / "studies.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "22\n"
