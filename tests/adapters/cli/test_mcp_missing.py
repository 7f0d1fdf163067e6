"""Where the SDK is not installed, `asktell mcp` says what to install. What it does is tested in tests/families/mcp."""

import sys

import pytest

from tests.command_line import cli


def test_without_the_sdk_the_command_names_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "asktell_adapters.cli.mcp", raising=False)
    assert "pip install 'asktell[mcp]'" in cli("mcp sqlite:///studies.db", code=2).err
