"""Where the SDK is not installed, `asktell mcp` says what to install. What it does is tested in tests/families/mcp."""

import sys

import pytest

from asktell_adapters.cli.main import main


def test_without_the_sdk_the_command_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "asktell_adapters.cli.mcp", raising=False)
    assert main(["mcp", "sqlite:///studies.db"]) == 2
    assert "pip install 'asktell[mcp]'" in capsys.readouterr().err
