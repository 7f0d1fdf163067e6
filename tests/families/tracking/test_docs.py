"""The Python of docs/how-to/track-runs.md runs, from top to bottom."""

import io
import logging
import re
from pathlib import Path

import pytest

import asktell

mlflow = pytest.importorskip("mlflow")
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "track-runs.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        return {"rouge": len(prompt) / 10 + example / 100}

    names = {"prompts": ["a", "bb", "ccc"], "evaluate": evaluate, "asktell": asktell}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    said = io.StringIO()
    handler = logging.StreamHandler(said)  # of its own, since MLflow takes away what listens to all loggers
    logger = logging.getLogger("asktell.tracking")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    finally:
        logger.removeHandler(handler)
    assert "(final, 30 of 30 evaluations spent" in said.getvalue()
    (run,) = mlflow.search_runs(experiment_names=["asktell"], output_format="list")
    assert run.data.metrics["progress/evaluations"] == 30
