"""A run that the command line starts."""

from pathlib import Path

import pytest

from tests.adapters.cli.test_cli import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
