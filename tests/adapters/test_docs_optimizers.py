"""The Python of the pages on Optuna and on Hugging Face evaluate runs, from top to bottom."""

import re
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.evaluators import Completion, ScriptedLLM

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def run(page: str, n_blocks: int, names: dict[str, Any]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    assert len(blocks) == n_blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_optuna(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    monkeypatch.chdir(tmp_path)

    def evaluate(prompt: str, example: int) -> tuple[float, int]:
        return len(prompt) / 50 + example / 1000, 40 if "expert" in prompt else 20

    names: dict[str, Any] = {"evaluate": evaluate}
    run("use-optuna.md", 2, names)
    assert "60 of 60 evaluations spent" in capsys.readouterr().out
    assert [entry.id for entry in names["study"].sampler.result(names["study"]).selected] == ["steps"]
    assert (tmp_path / "optuna.db").exists()


def test_hugging_face_evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("evaluate", "transformers", "rouge_score"):
        pytest.importorskip(package)
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    llm = ScriptedLLM(lambda request: Completion("A cat sat."))
    names: dict[str, Any] = {
        "llm": llm,
        "pipeline": lambda texts: ["A cat sat." if "three words" in text else text for text in texts],
    }
    run("use-hugging-face-evaluate.md", 2, names)
    assert names["metrics"]["rougeL"](Completion("A cat sat."), names["rows"][0]) == 1.0
    assert "Say it in three words." in capsys.readouterr().out
