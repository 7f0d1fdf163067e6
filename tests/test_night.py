"""The list of the tests that take long."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.night import left_out, listed, longest


def test_every_function_of_the_list_is_there() -> None:
    root = Path(__file__).parents[1]
    for function in listed():
        file, *_, name = function.split("::")
        text = (root / file).read_text("utf-8")
        if file != "tests/docs/test_pages.py":  # made of pages
            assert re.search(rf"\bdef {name}\(", text) or "::Test" in function, function


def test_a_day_has_the_first_of_the_parameters() -> None:
    ids = ["a.py::f[1]", "a.py::f[2]", "a.py::g", "a.py::h[x]", "a.py::f[3]"]
    tests: list[Any] = [SimpleNamespace(nodeid=id_) for id_ in ids]
    functions = frozenset({"a.py::f", "a.py::g"})
    assert left_out(tests, functions) == {"a.py::f[2]", "a.py::f[3]", "a.py::g"}


def test_the_longest_go_until_the_rest_is_short() -> None:
    seconds = {"a::f[1]": 1.0, "a::f[2]": 3.0, "a::g": 2.0, "a::h": 1.0}
    assert longest(seconds, 7.0) == []
    assert longest(seconds, 4.0) == ["a::f"]
    assert longest(seconds, 3.5) == ["a::f", "a::g"]
    assert longest(seconds, 0.0) == ["a::f", "a::g", "a::h"]
