"""Tests against packages that do not fit into one environment: `make test-adapters` runs each family in its own."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """The warnings of the packages under test are theirs."""
    config.addinivalue_line("filterwarnings", "default")
