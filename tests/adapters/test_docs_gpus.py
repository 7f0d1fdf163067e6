"""The Python of docs/how-to/use-vllm-and-gpus.md, with the fake vLLM; and the benchmark that it names."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from asktell_adapters.evaluators import Example
from asktell_adapters.testing.llm_server import FaultyLLMServer
from benchmarks.results import tables
from benchmarks.speed import throughput

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-vllm-and-gpus.md").read_text()


def test_the_page_runs(vllm: ModuleType, capsys: Any) -> None:
    for package in ("rouge_score", "torch", "transformers", "accelerate"):
        pytest.importorskip(package)
    with_vllm, with_transformers = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {
        "__name__": "__main__",
        "prompts": ["Summarize.", "Summarize in one sentence.", "Give the main point of the text."],
        "examples": [Example(f"Cats sleep {n} hours.", "cats sleep") for n in range(20)],
    }
    exec(compile(with_vllm, "page", "exec"), names)
    assert "(final, 60 of 500 evaluations spent" in capsys.readouterr().out
    assert vllm.engines[0].calls[0]["chat_template_kwargs"] == {"enable_thinking": False}
    exec(compile(with_transformers, "page", "exec"), names)
    assert names["large"].device_map == "auto"


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
