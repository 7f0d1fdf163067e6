"""The short version of the attack; the long one is `python -m benchmarks.attack`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.attack import plays
from benchmarks.attack.findings import Limit
from benchmarks.attack.setups import KINDS, TAKE_MORE

FRONT = next(number for number, (_, goal, _) in enumerate(KINDS) if goal == "front")
STRUCTURED = ("lcsh", "mlp-csr", "gege", "mlp-ege")
# Of methods that JAX compiles, with one goal each
FEW = [
    number
    for number, (method, goal, _) in enumerate(KINDS)
    if (method not in TAKE_MORE or number % 5 == 0)
    and (method not in STRUCTURED or goal in ("feasible", "pareto"))
]


@pytest.mark.parametrize("number", FEW, ids=lambda number: "-".join(KINDS[number]))
def test_whatever_is_made_anew_of_a_selection_equals_it(number: int) -> None:
    report = plays.attack(number, Limit(300, 1))
    assert (report.cases, report.found) == (1, [])


def test_whatever_is_made_anew_of_a_study_in_postgresql_equals_it(
    postgresql_url: str,
) -> None:
    report = plays.attack(FRONT, Limit(300, 1), postgresql_url)
    assert (report.cases, report.found) == (1, [])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["plays", "threads", "servers", "strangers"])
def test_for_longer(family: str) -> None:
    # In a process of its own, which has limits of its own.
    command = [
        sys.executable,
        "-m",
        "benchmarks.attack",
        family,
        "--seed",
        "1000",
        "--seconds",
        "120",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert json.loads(done.stdout.splitlines()[-1])["cases"] > 0
