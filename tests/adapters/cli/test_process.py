"""Signals that end a run, on systems that have others."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.cli import process
from tests.adapters.cli.test_cli import Project

# SIGUSR2 plays Ctrl-Break, which Linux lacks.
RUN = """
import os, signal, sys, time
signal.SIGBREAK = signal.SIGUSR2
from asktell_adapters.cli.process import Terminated, signals
ending = getattr(signal, sys.argv[1])
before = signal.getsignal(ending)
try:
    with signals():
        os.kill(os.getpid(), ending)
        time.sleep(30)
except Terminated:
    print("saved", signal.getsignal(ending) == before)
"""


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGBREAK"])
def test_ctrl_break_ends_a_run_as_sigterm_does(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, ending], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "saved True\n", done.stderr


IN_A_LOOP = """
import asyncio, os, signal, time
from asktell_adapters.cli.process import Terminated, signals

def callback():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)

async def work():
    asyncio.get_running_loop().call_soon(callback)
    await asyncio.sleep(0.3)
    print("went on")

try:
    with signals():
        asyncio.run(work())
except Terminated:
    print("ended")
"""


def test_a_signal_in_a_callback_of_an_event_loop_ends_a_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_LOOP], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_another_thread_may_not_and_runs_all_the_same() -> None:
    ran: list[object] = []

    def run() -> None:
        with process.signals():
            ran.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ran == [before]


COMMAND = """
import os, sys
from asktell_adapters.cli.process import confirmed
code = int(sys.argv[1])
def run():
    os._exit(code) if sys.argv[2] == "exits" else None
    return code
sys.exit(confirmed([], run))
"""


@pytest.mark.parametrize(
    ("code", "how", "expected"),
    [(0, "ends", 0), (3, "ends", 3), (0, "exits", 2), (3, "exits", 2)],
)
def test_an_exit_code_counts_only_if_its_end_was_reached(
    code: int, how: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "command.py"
    command.write_text(COMMAND)
    starts = subprocess.Popen

    def start(words: list[str], **options: Any) -> Any:
        return starts([sys.executable, str(command), str(code), how], **options)

    monkeypatch.setattr(process.subprocess, "Popen", start)
    assert process.confirmed([], lambda: 99) == expected


IN_A_FILE = """
import os, signal, sys
from asktell._util import files
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.main import main

def replace(name, path):
    os.kill(os.getpid(), signal.SIGTERM)
    os.replace(name, path)

write = RunFolder.write
def written(*args):
    files._replace = replace
    write(*args)

RunFolder.write = written
sys.exit(main(sys.argv[1:]))
"""


def test_sigterm_while_the_result_is_written_leaves_no_part_of_a_file(
    project: Project,
) -> None:
    command = [sys.executable, "-c", IN_A_FILE, "run", str(project.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 143, done.stderr
    assert not [path for path in project.folder.path.iterdir() if path.name[0] == "."]
    project.run()
    assert len(project.paid) == 24


EARLY = """
import os, signal, subprocess, sys, tempfile, time
from asktell_adapters.cli import process

class Popen(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__([sys.executable, "-c", "import time; time.sleep(30)"], **options)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

subprocess.Popen = Popen
sys.exit(process.confirmed([], lambda: 0))
"""


def test_a_signal_while_the_second_process_starts_ends_both(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 2
    assert "exit code -15" in done.stderr
    assert not list(tmp_path.iterdir())
