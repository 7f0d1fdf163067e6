"""The short version of the crash test; the long one is `python -m benchmarks.durability.crashes`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_what_returned_survives_sigkill(
    backend: str, request: pytest.FixtureRequest
) -> None:
    options = ["--kills", "8"]
    if backend == "postgresql":
        options += ["--url", request.getfixturevalue("postgresql_url")]
    # In a process of its own, because it forks.
    command = [sys.executable, "-m", "benchmarks.durability.crashes", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["kills"] for line in done.stdout.splitlines()] == [8, 8]
