"""The Python of docs/how-to/let-a-study-go-on.md runs, from top to bottom; its commands are such."""

import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell_adapters.cli.arguments import make_parser

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "let-a-study-go-on.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)

    def evaluate(prompt: str, example: int | None) -> dict[str, float]:
        return {"rouge": len(prompt) / 50 + (example or 0) / 100, "brevity": 0.9 - len(prompt) / 500}

    names: dict[str, Any] = {"evaluate": evaluate}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    assert "30 of 30 evaluations" in out
    assert "50 of 50 evaluations" in out
    assert "[3]" in out
    assert len(names["result"].prompts) == 4
    with asktell.Study.open("sqlite:///summaries.db", "first") as study:
        assert (study.spent, study.done, study.paused) == (35, True, False)


def test_its_commands_are_those_of_the_command_line() -> None:
    commands: Any = defaultdict(lambda: None)
    for line in "".join(blocks("sh")).splitlines():
        make_parser(commands).parse_args(shlex.split(line, comments=True)[1:])
