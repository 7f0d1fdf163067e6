"""The command `asktell batch` refuses what cannot work; docs/how-to/use-the-batch-api.md runs what can."""

from pathlib import Path

import pytest

from asktell_adapters.cli import main as cli

REST = """
[prompts]
texts = ["a", "b"]
[data]
file = "rows.jsonl"
[metrics]
token_f1 = true
[goal]
maximize = "token_f1"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    Path("rows.jsonl").write_text('{"input": "a", "reference": "b"}\n')


@pytest.mark.parametrize("n", ["0", "-5"])
def test_a_batch_has_at_least_one_evaluation(n: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai")
    Path("a.toml").write_text(f'budget = 3\nmodel = {{ type = "openai", model = "m" }}\n{REST}')
    assert cli.main(["batch", "submit", "a.toml", "--study", "sqlite:///x.db", "--evaluations", n]) == 2
    assert "n must be" in capsys.readouterr().err


def test_only_an_api_has_batches(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.py").write_text("class Other:\n    def complete(self, requests):\n        return []\n")
    Path("a.toml").write_text(f'budget = 3\nmodel = {{ loader = "other:Other" }}\n{REST}')
    assert cli.main(["batch", "submit", "a.toml", "--study", "x.db"]) == 2
    assert "OpenAIBatch needs an evaluator of an OpenAIChat" in capsys.readouterr().err
