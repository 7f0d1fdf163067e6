"""The Python of docs/how-to/use-lm-evaluation-harness.md runs, with its task, against a scripted server."""

import re
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-lm-evaluation-harness.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    (task,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    Path("capitals.yaml").write_text(task)
    Path("capitals.jsonl").write_text('{"country": "Peru", "capital": "Lima"}\n' * 3)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    with FaultyLLMServer([Reply(text="lima.")] * 9) as server:
        exec(compile(code.replace("http://127.0.0.1:8000/v1", server.base_url), str(PAGE), "exec"), names)
    written = capsys.readouterr().out
    assert "(final, 9 of 9 evaluations spent)" in written
    assert names["selector"].result().selected[0].estimate == {"exact_match": 1.0, "output_tokens": 1.0}
