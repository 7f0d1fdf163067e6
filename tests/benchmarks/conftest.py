"""Benchmarks and rivals are no part of what users install: they are tested at night, and when a change reaches them."""

from pathlib import Path

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return True if config.getoption("--night") == "without" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("night")
