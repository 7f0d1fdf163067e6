"""The Python of docs/how-to/work-with-many-workers.md runs, from top to bottom."""

import re
from pathlib import Path

import pytest

import asktell

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "work-with-many-workers.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        return {"rouge": len(prompt) / 10 + example / 100, "brevity": 1.0}

    names = {"prompts": ["a", "bb", "ccc"], "evaluate": evaluate, "asktell": asktell}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "ccc" in capsys.readouterr().out
    names["study"].close()  # type: ignore[attr-defined]
