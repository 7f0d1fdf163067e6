"""The short version of the attack; the long one is `python -m benchmarks.attack`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.attack.setups import KINDS


def attack(family: str, *options: str) -> None:
    # In a process of its own, which has limits of its own.
    command = [sys.executable, "-m", "benchmarks.attack", family, *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert json.loads(done.stdout.splitlines()[-1])["cases"] > 0


@pytest.mark.parametrize("backend", ["here", "postgresql"])
def test_whatever_is_made_anew_of_a_study_equals_it(backend: str, request: pytest.FixtureRequest) -> None:
    # A few; `test_for_longer` has every method with every goal and budget.
    fronts = next(number for number, (_, goal, _) in enumerate(KINDS) if goal == "front")
    if backend == "postgresql":
        url = request.getfixturevalue("postgresql_url")
        attack("plays", "--seed", str(fronts - 1), "--cases", "2", "--url", url)
    else:
        attack("plays", "--seed", "22", "--cases", "3")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["plays", "threads", "servers", "strangers"])
def test_for_longer(family: str) -> None:
    attack(family, "--seed", "1000", "--seconds", "120")
