"""Tests that `make test` leaves to the night because they take long: night.txt, which `make times` writes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("night.txt")
HEADER = (
    "# Tests that take long. By day, `make test` runs the first of each that has parameters; `make night` runs the\n"
    "# rest. Written by `make times`, which measures them all.\n"
)
PER_DAY = 440.0
"""Seconds that the tests of `make test` take in all: with two processes, four minutes."""


def listed() -> frozenset[str]:
    """The functions in night.txt, such as "tests/test_selector.py::test_ask"."""
    lines = FILE.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def function_of(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


def left_out(tests: Iterable[pytest.Item], functions: frozenset[str]) -> set[str]:
    """The ids of those tests that belong to the night because they take long.

    Args:
        tests: tests in the order in which they were collected.
        functions: what `listed` returns.
    """
    ids, first = set[str](), set[str]()
    for test in tests:
        function = function_of(test.nodeid)
        if function not in functions:
            continue
        if "[" in test.nodeid and function not in first:
            first.add(function)
        else:
            ids.add(test.nodeid)
    return ids


def longest(seconds: Mapping[str, float], most: float) -> list[str]:
    """The functions whose tests take the longest, as many as leave at most `most` seconds to the day.

    Args:
        seconds: the id of a test, in the order in which they were collected -> how long
            it takes.
        most: what all tests of a day may take.
    """
    of_function, by_day = Counter[str](), defaultdict[str, float](float)
    for test, taken in seconds.items():
        function = function_of(test)
        if "[" in test:
            by_day.setdefault(function, taken)
        of_function[function] += taken
    rest, functions = of_function.total(), list[str]()
    for function, taken in of_function.most_common():
        if rest <= most:
            break
        functions.append(function)
        rest -= taken - by_day[function]
    return sorted(functions)


class Times:
    """A plug-in of pytest that writes night.txt at the end of a run of all tests."""

    def __init__(self) -> None:
        self._seconds = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a test takes, with its fixtures."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        functions = longest(self._seconds, PER_DAY)
        FILE.write_text(HEADER + "\n".join(functions) + "\n", "utf-8")
