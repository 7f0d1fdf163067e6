"""Runs families of hosts, each in its own environment, and prints a line for each. CI does: `make families`.

    run.py mcp dspy ray

A family is built and tested by `make`, as a person would do it with `make test-adapters`. Two families run at the
same time: while one waits for the registry, the other is tested. If the registry does not answer, the family is
skipped, and a line says so. Everything else that goes wrong is a failure: versions that conflict, a version that no
longer exists, a test that fails or hangs, and a family without a test.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 2  # the cores of a small machine
# What uv and npm print if there is no connection, or if the registry is overloaded. An
# answer such as "not found" is not among these, nor a package called "networkx".
NO_ANSWER = re.compile(
    r"\btimed out\b|network timeout|network is unreachable|npm error network"
    r"|connection (?:error|reset|refused|closed|aborted)|error sending request|dns error|name resolution"
    r"|HTTP status server error|\(429 Too Many|\bE(?:429|50[0234])\b"
    r"|\b(?:ETIMEDOUT|ECONNRESET|ECONNREFUSED|ENOTFOUND|EAI_AGAIN)\b",
    re.IGNORECASE,
)
# The last line of a run of pytest, and the counts in it.
CLOSING = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")


class Done(NamedTuple):
    """A command that has ended. `code` is None if it took longer than its limit."""

    code: int | None
    output: str
    seconds: float


class Outcome(NamedTuple):
    """The tests of a family, or why they did not run.

    Attributes:
        line: the family in one line.
        details: the output of what failed. Empty if nothing failed.
        passed: the number of tests that passed.
        failed: the number of tests that failed. At least 1 if the family failed.
        skipped: the number of skipped tests. 1 if the family was skipped.
    """

    line: str
    details: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def make(target: str, limit: float) -> Done:
    """Run a target of the Makefile. After `limit` seconds, it is killed with all that it started."""
    start = time.monotonic()
    process = subprocess.Popen(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    running.add(process)
    code: int | None = None
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        kill(process)
        output, _ = process.communicate()
    running.discard(process)
    return Done(code, output, time.monotonic() - start)


running: set[subprocess.Popen[str]] = set()


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def stop(number: int, _: object) -> None:
    """End at a signal. The families are in sessions of their own, which Ctrl-C does not reach."""
    for process in list(running):
        kill(process)
    os._exit(128 + number)


def run_family(name: str, build_limit: float, test_limit: float) -> Outcome:
    """Build a family's environment with the newest versions, and run its tests."""
    built = make(f".venvs/{name}-newest/.made", build_limit)
    if built.code is None or (built.code and NO_ANSWER.search(built.output)):
        why = f"the registry did not answer within {built.seconds:.0f} s"
        return Outcome(f"{name}: skipped, because {why}", "", skipped=1)
    if built.code:
        line = f"{name}: failed, because its environment cannot be built"
        return Outcome(line, built.output, failed=1)
    tested = make(f"test-adapter-{name}", test_limit)
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for closing in CLOSING.findall(tested.output):
        for number, word in COUNT.findall(closing):
            kind = {"passed": "passed", "skipped": "skipped", "xfailed": "passed"}
            counts[kind.get(word, "failed")] += int(number)
    took = f"built in {built.seconds:.0f} s, tested in {tested.seconds:.0f} s"
    if tested.code == 0 and counts["passed"] and not counts["failed"]:
        return Outcome(
            f"{name}: {counts['passed']} passed, {counts['skipped']} skipped ({took})",
            "",
            **counts,
        )
    counts["failed"] = max(1, counts["failed"])
    why = f"{counts['failed']} failed, {counts['passed']} passed"
    if tested.code is None:
        why = f"failed, because its tests had not ended after {test_limit:.0f} s"
    elif not counts["passed"]:
        why = "failed, because no test passed"
    return Outcome(f"{name}: {why} ({took})", tested.output, **counts)


def main() -> int:
    """Run the families; returns 1 if anything failed.

    The last line has the numbers of tests of all families. Two further arguments set
    the limits in seconds.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="+")
    parser.add_argument("--build-limit", type=float, default=900.0)
    parser.add_argument("--test-limit", type=float, default=1800.0)
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    limits = arguments.build_limit, arguments.test_limit
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [
            pool.submit(run_family, name, *limits) for name in arguments.families
        ]
        for ended in as_completed(started):
            outcome = ended.result()
            outcomes.append(outcome)
            print(outcome.details + outcome.line, flush=True)
    passed, failed, skipped = (
        sum(getattr(each, what) for each in outcomes)
        for what in ("passed", "failed", "skipped")
    )
    print(f"families: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
