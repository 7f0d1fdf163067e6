"""The example of docs/how-to/use-promptfoo.md."""

import re
import shutil
from pathlib import Path

import pytest

from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

DOCS = Path(__file__).parents[3] / "docs"


def test_the_example_chooses_the_accurate_and_short_prompt(
    tmp_path: Path,
    node_modules: Path,
    node: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    example = DOCS / "examples" / "promptfoo"
    (page,) = re.findall(r"```python\n(.*?)```", (DOCS / "how-to" / "use-promptfoo.md").read_text(), re.DOTALL)
    assert page in (example / "choose.py").read_text()
    shutil.copytree(example, tmp_path / "example")
    (tmp_path / "example" / "node_modules").symlink_to(node_modules)
    monkeypatch.chdir(tmp_path / "example")
    monkeypatch.setenv("PATH", f"{Path(node).parent}:/usr/bin:/bin")
    exec(compile(page, "choose.py", "exec"), {})
    printed = capsys.readouterr().out
    assert "(final, 24 of 24 evaluations spent" in printed
    assert "reasons" not in printed.split("\n")[2], "too long"
    assert (tmp_path / "example" / "results.json").exists()
    assert PromptfooEvaluator.__doc__ is not None
