"""The throughput of an LLM, measured on a server on this machine."""

import sys
from typing import Any

import pytest

from asktell_adapters.testing.llm_server import FaultyLLMServer
from benchmarks.results import tables
from benchmarks.speed import throughput


def test_the_throughput_of_any_llm_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pytest.importorskip("openai")
    with FaultyLLMServer() as server:
        options = f'{{"base_url": "{server.base_url}"}}'
        work = ["--sizes", "2", "4", "--prompts", "2", "--examples", "3", "--options", options]
        monkeypatch.setattr(sys, "argv", ["throughput", "openai", "small", *work])
        throughput.main()
        asked = len(server.requests)
    assert asked == 2 * 6 + 2 + 4  # two sizes, and what warms each up
    shown = capsys.readouterr().out
    assert [row[0] for row in tables(shown)[0]] == ["batch", "2", "4"]
    assert "2 prompts of 150 words on 3 examples of 50 words" in shown
