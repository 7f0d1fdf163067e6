"""The lock of an output folder: on Linux, and as Windows has it."""

import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asktell.errors import FolderBusyError
from asktell_adapters.cli.folder import RunFolder
from tests.elsewhere import WINDOWS

HOLD = """
import sys
from pathlib import Path
from asktell_adapters.cli.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.readline()
"""
TRY = """
import os, sys
from pathlib import Path
from asktell.errors import FolderBusyError
from asktell_adapters.cli.folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
print(folder.runner)
try:
    with folder.locked():
        print("mine", sys.modules.get("fcntl") is None or folder.runner == str(os.getpid()))
except FolderBusyError as error:
    print(error)
"""


def run(code: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.strip() for line in done.stdout.splitlines()]


@pytest.fixture(params=["", WINDOWS], ids=["linux", "windows"])
def preamble(request: pytest.FixtureRequest) -> str:
    """What makes a process one of the system."""
    return str(request.param)


@pytest.fixture
def holder(preamble: str, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", preamble + HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_of_two_processes_one_holds_the_folder_and_is_named(
    preamble: str, holder: Any, tmp_path: Path
) -> None:
    runner, refusal = run(preamble + TRY, tmp_path)
    assert runner == str(holder.pid)
    assert refusal.startswith(f"Another run (process {holder.pid}) is using")


def test_the_system_lets_go_when_the_holder_is_killed(
    preamble: str, holder: Any, tmp_path: Path
) -> None:
    holder.kill()
    holder.wait()
    runner, mine = run(preamble + TRY, tmp_path)
    assert runner == "None"
    assert mine == "mine True"


def test_a_refusal_leaves_no_file_open(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.locked():
        before = os.listdir("/dev/fd")
        with pytest.raises(FolderBusyError), folder.locked():
            pass
        assert os.listdir("/dev/fd") == before


def test_a_folder_that_cannot_be_renamed_is_set_aside_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, while the lock in it is held."""
    folder = RunFolder(tmp_path / "out")
    rename = Path.rename

    def files_only(path: Path, target: Path) -> Path:
        if path.is_dir():
            raise PermissionError(13, "Access is denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", files_only)
    with folder.locked():
        folder.setup_file.write_text("{}")
        aside = folder.set_aside()
    assert aside.name == "out.1"
    assert [path.name for path in aside.iterdir()] == ["run.json"]
    assert [path.name for path in folder.path.iterdir()] == ["lock"]
    with folder.locked():
        assert not folder.used


def test_a_whole_run_works_on_such_a_system(preamble: str, tmp_path: Path) -> None:
    (tmp_path / "llm.py").write_text(
        textwrap.dedent("""
        from asktell_adapters.evaluators import Completion

        class LLM:
            def complete(self, requests):
                return [Completion("word " * len(str(r.messages)), completion_tokens=3) for r in requests]
        """)
    )
    (tmp_path / "data.jsonl").write_text('{"input": "a", "reference": "word"}\n' * 4)
    (tmp_path / "a.toml").write_text(
        'output = "out"\nbudget = 6\nprompts = { texts = { a = "Be brief.", b = "Go on." } }\n'
        '[data]\nfile = "data.jsonl"\n[model]\nloader = "llm:LLM"\n[metrics]\ntoken_f1 = true\n'
        '[goal]\nmaximize = "token_f1"\n'
    )
    main = f"{preamble}\nimport sys\nfrom asktell_adapters.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", main]
    done = subprocess.run(
        [*command, "run", str(tmp_path / "a.toml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "6 of 6 evaluations" in done.stdout
    shown = subprocess.run(
        [*command, "status", str(tmp_path / "a.toml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    logging.shutdown()
