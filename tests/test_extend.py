"""`asktell.extend`: what adapters, methods and storages of others may rely on."""

import re
import subprocess
import sys

import pytest

from asktell import extend


@pytest.mark.parametrize("name", extend.__all__)
def test_every_name_is_there_and_described(name: str) -> None:
    assert getattr(extend, name) is not None
    assert re.search(rf"(?m)^    (.*, )?{name}\b.*: ", extend.__doc__ or "")


def test_nothing_else_is_there() -> None:
    described = re.findall(r"(?m)^    (.*?): ", extend.__doc__ or "")
    names = [
        name
        for line in described
        for name in re.findall(r"(\w+)(?:\([^)]*\))?(?:, |$)", line)
    ]
    assert sorted(names) == sorted(extend.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Selector'"):
        extend.Selector  # noqa: B018


def test_importing_it_loads_nothing_more() -> None:
    code = "import sys, asktell; a = set(sys.modules); import asktell.extend; print(sorted(set(sys.modules) - a))"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert found.strip() == "['asktell.extend']"
