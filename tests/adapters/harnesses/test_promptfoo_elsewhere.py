"""promptfoo's process where there are no groups of processes, as on Windows."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.harnesses.promptfoo.node import NodeWorker


@pytest.mark.parametrize("there", [True, False])
def test_what_node_has_started_is_ended_by_taskkill(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **options: Any) -> None:
        asked.append(command)
        if not there:
            raise FileNotFoundError(2, "taskkill")

    # A stand-in for Node: what it runs does not matter
    worker = NodeWorker(sys.executable, tmp_path, tmp_path)
    process = worker._start()
    monkeypatch.delattr(os, "killpg")
    monkeypatch.setattr(subprocess, "run", run)
    worker.close()
    assert asked == [["taskkill", "/F", "/T", "/PID", str(process.pid)]]
    assert process.returncode is not None
