"""`tests/families/run.py`, which CI runs, with a `make` of our own in the place of the real one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Run: TypeAlias = Callable[..., tuple[int, str]]

RUN = Path(__file__).parents[1] / "families" / "run.py"

MAKE = """#!/usr/bin/env bash
case "$2" in
.venvs/slow-newest/.made) sleep 60 ;;
.venvs/down-newest/.made)
    echo "error: Request failed after 3 retries"
    echo "  Caused by: Failed to fetch: 'https://registry.invalid/simple/dspy/'"
    echo "  Caused by: error sending request for url: dns error: Name or service not known"
    exit 2 ;;
.venvs/busy-newest/.made) echo "  Caused by: HTTP status server error (503 Service Unavailable)"; exit 2 ;;
.venvs/npm-newest/.made) echo "npm error code ETIMEDOUT"; exit 2 ;;
.venvs/conflict-newest/.made)
    echo "  × No solution found when resolving dependencies:"
    echo "  ╰─▶ Because pytest-timeout==500 depends on networkx<1 and you require networkx==1, they are unsatisfiable."
    exit 2 ;;
.venvs/gone-newest/.made) echo "HTTP status client error (404 Not Found) for url (...)"; exit 2 ;;
test-adapter-green) echo "== 3 passed, 1 skipped in 2.50s =="; echo "12 deselected in 0.10s" ;;
test-adapter-red)
    echo "FAILED tests/families/red/test_red.py::test_red - ConnectionError: timed out"
    echo "== 2 failed, 5 passed, 3 warnings in 61.00s (0:01:01) =="
    exit 2 ;;
test-adapter-broken) echo "ImportError while loading conftest"; exit 2 ;;
test-adapter-error) echo "== 4 passed, 1 error in 1.00s =="; exit 2 ;;
test-adapter-empty) echo "no tests ran in 0.01s" ;;
test-adapter-hangs) echo "before it hangs"; sleep 60 ;;
esac
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "make").write_text(MAKE)
    (tmp_path / "make").chmod(0o755)

    def run(*families: str) -> tuple[int, str]:
        limits = ["--build-limit", "3", "--test-limit", "3"]
        done = subprocess.run(
            [sys.executable, str(RUN), *limits, *families],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not done.stderr
        return done.returncode, done.stdout

    return run


def test_a_family_that_passes(run: Run) -> None:
    code, said = run("green")
    line, closing = said.splitlines()
    assert code == 0
    assert line.startswith("green: 3 passed, 1 skipped (built in ")
    assert closing == "families: 3 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize("family", ["slow", "down", "busy", "npm"])
def test_a_registry_that_does_not_answer_skips_its_family_alone(
    run: Run, family: str
) -> None:
    code, said = run(family, "green")
    assert code == 0
    assert f"{family}: skipped, because the registry did not answer within " in said
    assert said.splitlines()[-1] == "families: 3 passed, 0 failed, 2 skipped"


@pytest.mark.parametrize(
    ("family", "reason", "details", "counts"),
    [
        ("conflict", "cannot be built", "unsatisfiable", "0 passed, 1 failed"),
        ("gone", "cannot be built", "404 Not Found", "0 passed, 1 failed"),
        ("red", "2 failed, 5 passed", "::test_red", "5 passed, 2 failed"),
        ("error", "1 failed, 4 passed", "1 error", "4 passed, 1 failed"),
        ("broken", "no test passed", "ImportError", "0 passed, 1 failed"),
        ("empty", "no test passed", "no tests ran", "0 passed, 1 failed"),
        ("hangs", "had not ended", "before it hangs", "0 passed, 1 failed"),
    ],
)
def test_everything_else_is_a_failure_and_is_shown(
    run: Run, family: str, reason: str, details: str, counts: str
) -> None:
    code, said = run(family)
    assert code == 1
    *output, line, closing = said.splitlines()
    assert any(details in each for each in output)
    assert line.startswith(f"{family}: ")
    assert reason in line
    assert closing == f"families: {counts}, 0 skipped"
