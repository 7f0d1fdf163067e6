"""The Python of docs/how-to/use-gepa.md runs, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-gepa.md"
EvaluationBatch = pytest.importorskip("gepa.core.adapter").EvaluationBatch


class Adapter:
    """The longer the instruction, the better and the less brief."""

    propose_new_texts = None

    def evaluate(self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        length = len(candidate["instruction"])
        scores = [length / 100 + example / 1000 for example in batch]
        return EvaluationBatch(
            outputs=[{} for _ in batch],
            scores=scores,
            trajectories=list(batch) if capture_traces else None,
            objective_scores=[{"brevity": 1 - length / 34} for _ in batch],
        )

    def make_reflective_dataset(self, candidate: object, eval_batch: object, components_to_update: list[str]) -> Any:
        return {name: [{"Feedback": "longer"}] for name in components_to_update}


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def reflection_lm(prompt: str) -> str:
        reflection_lm.n += 5  # type: ignore[attr-defined]
        return f"```\n{'x' * reflection_lm.n}\n```"  # type: ignore[attr-defined]

    reflection_lm.n = 20  # type: ignore[attr-defined]
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {
        "trainset": list(range(20)),
        "valset": list(range(20)),
        "adapter": Adapter(),
        "reflection_lm": reflection_lm,
    }
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "{'instruction': 'xxx" in printed
    assert names["result"].selected[0].prompt == "Answer briefly."
    assert names["result"].feasible
