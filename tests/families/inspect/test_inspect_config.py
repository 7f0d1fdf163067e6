"""A configuration that `asktell init` wrote for an Inspect task, checked and run with Inspect."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

from asktell_adapters.config import load_config
from tests.command_line import cli
from tests.words import lacking


class _Sums(ModelAPI):
    """Adds, if the system prompt wants one word."""

    async def generate(
        self,
        input: list[Any],  # noqa: A002
        tools: Any,
        tool_choice: Any,
        config: Any,
    ) -> ModelOutput:
        number = int(input[-1].text.split()[2])
        wanted = any("in one word." in message.text for message in input[:-1])
        output = ModelOutput.from_content(
            self.model_name, str(2 * number) if wanted else "no idea"
        )
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output


@modelapi(name="sums")
def _sums() -> type[ModelAPI]:
    return _Sums


def test_what_init_writes_is_checked_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    cli("init a.toml --kind inspect --model sums/model")
    assert len(load_config(tmp_path / "a.toml").dataset) == 20
    assert re.search(r"^includes +1$", cli("check a.toml").out, re.MULTILINE)
    said = cli("run a.toml --no-progress").out
    assert "(final, " in said
    assert not lacking(said, "Answer the question in one word.")
    assert any((tmp_path / "logs").iterdir())
