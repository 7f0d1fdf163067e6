"""The Python of docs/how-to/use-dspy.md runs, from top to bottom; and GEPA inside DSPy takes the policy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM

from asktell_adapters.harnesses.gepa import AsktellPolicy
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-dspy.md"
REPLY = Reply(text="[[ ## label ## ]]\nnegative\n\n[[ ## completed ## ]]", usage=(20, 2, 0))


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    with FaultyLLMServer([REPLY] * 100) as server:
        try:
            for block in blocks:
                exec(compile(block.replace("http://localhost:8080/v1", server.base_url), str(PAGE), "exec"), names)
        finally:
            dspy.configure(lm=None)
    printed = capsys.readouterr().out
    assert "maximize score (final, 9 of 9 evaluations spent" in printed
    assert "{'right': 0.66" in printed
    assert names["result"].done
    assert names["program"].signature.instructions in names["evaluator"].prompts
    assert (tmp_path / "compile.db").exists()


def test_dspys_gepa_takes_the_policy() -> None:
    class Judged(dspy.Module):
        """The longer the instruction, the better."""

        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            self.predict(question=question)
            return dspy.Prediction(answer=len(self.predict.signature.instructions) / 1000)

    def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> float:
        return float(pred.answer)

    def longer(candidate: dict[str, str], reflective_dataset: Any, components_to_update: list[str]) -> dict[str, str]:
        return {name: candidate[name] + " Think." for name in components_to_update}

    dataset = [dspy.Example(question=str(n)).with_inputs("question") for n in range(12)]
    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=60,
        instruction_proposer=longer,
        reflection_lm=DummyLM([]),
        track_stats=True,
        num_threads=1,
        use_merge=False,
        gepa_kwargs={"val_evaluation_policy": AsktellPolicy(3)},
    )
    with dspy.context(lm=DummyLM([{"answer": "a"}] * 500)):
        compiled = optimizer.compile(Judged(), trainset=dataset, valset=dataset)
    scores = compiled.detailed_results.val_subscores
    assert len(scores) > 1
    assert all(len(by_example) == 3 for by_example in scores[1:])
