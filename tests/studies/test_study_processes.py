"""Many processes at one study, a third of them killed at random: benchmarks/durability/hammer.py checks what."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def url(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if where == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path / 'studies.db'}"


def hammer(url: str, *options: str) -> dict[str, Any]:
    # In a process of its own, because it forks.
    command = [sys.executable, "-m", "benchmarks.durability.hammer", url, *options]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_ten_processes_a_third_of_them_killed(url: str) -> None:
    seen = hammer(
        url, "--processes", "10", "--killed", "3", "--budget", "300", "--lease", "1"
    )
    assert seen["killed"] == 3
    assert seen["spent"] == 300


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_sixteen_processes_for_longer(url: str) -> None:
    for seed in range(10):
        options = [
            "--processes",
            "16",
            "--killed",
            "5",
            "--budget",
            "5000",
            "--lease",
            "2",
            "--seed",
            str(seed),
        ]
        seen = hammer(url, *options)
        assert seen["spent"] == 5000
