"""The Python and the commands of docs/how-to/use-the-batch-api.md, run from top to bottom."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asktell import Study
from asktell_adapters.cli import main as cli
from asktell_adapters.evaluators import Example
from asktell_adapters.testing.batch_server import BatchServer
from asktell_adapters.testing.llm_server import Reply

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-the-batch-api.md").read_text()
PROMPTS = ["Summarize.", "Summarize in one sentence.", "Give the main point."]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with BatchServer(
        lambda body: Reply(text=f"cats sleep {'a lot ' * (len(body['messages'][-1]['content']) % 9)}")
    ) as it:
        monkeypatch.setenv("OPENAI_BASE_URL", it.base_url)
        yield it


def test_the_page_runs(server: BatchServer, capsys: Any) -> None:
    pytest.importorskip("rouge_score")
    submit, collect = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    examples = [Example(f"Cats sleep {n} hours a day.", "cats sleep a lot") for n in range(20)]
    names: dict[str, Any] = {"prompts": PROMPTS, "examples": examples}
    exec(compile(submit, "page", "exec"), names)
    for night in range(4):
        server.end()
        exec(compile(collect, "page", "exec"), names)
        out = capsys.readouterr().out
        assert ("20 told" if night < 3 else "0 told") in out
    assert "(final, 60 of 60 evaluations spent" in out
    assert len(server.batches) == 3


def test_the_commands_run(server: BatchServer, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "rows.jsonl").write_text('{"input": "Cats sleep.", "reference": "cats sleep"}\n' * 5)
    (tmp_path / "summarize.toml").write_text(
        'budget = 15\nmethod = "uniform"\n'
        f"[prompts]\ntexts = {PROMPTS}\n"
        '[data]\nfile = "rows.jsonl"\n'
        '[model]\ntype = "openai"\nmodel = "m"\nprice = { input = 1000, output = 1000 }\n'
        "[metrics]\ntoken_f1 = true\n"
        '[goal]\nmaximize = "token_f1"\n'
    )
    submit, collect = re.findall(r"^asktell (batch .*)$", PAGE, re.MULTILINE)
    for nonsense in ("0", "-5"):  # and not all that can be asked
        assert cli.main([*submit.split(), "--evaluations", nonsense]) == 2
        assert "n must be" in capsys.readouterr().err
    assert not server.batches
    assert cli.main(submit.split()) == 0
    assert capsys.readouterr().out == "batch-0\n"
    assert cli.main(submit.split()) == 0
    assert "Nothing to submit" in capsys.readouterr().out
    assert cli.main(collect.split()) == 0
    assert "batch-0: in_progress, 0 of 15\nsummarize: 0 of 15 evaluations, 15 out" in capsys.readouterr().out
    server.end()
    assert cli.main(collect.split()) == 0
    assert capsys.readouterr().out.startswith("15 told, 0 failed, 0 handed back, cost 0.1125\n")
    with Study.open("sqlite:///summarize.db", "summarize") as study:
        assert study.done


def test_only_an_api_has_batches(server: BatchServer, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "other.py").write_text("class Other:\n    def complete(self, requests):\n        return []\n")
    (tmp_path / "rows.jsonl").write_text('{"input": "a", "reference": "b"}\n')
    (tmp_path / "a.toml").write_text(
        'budget = 3\n[prompts]\ntexts = ["a", "b"]\n[data]\nfile = "rows.jsonl"\n'
        '[model]\nloader = "other:Other"\n[metrics]\ntoken_f1 = true\n[goal]\nmaximize = "token_f1"\n'
    )
    assert cli.main(["batch", "submit", "a.toml", "--study", "x.db"]) == 2
    assert "OpenAIBatch needs an evaluator of an OpenAIChat" in capsys.readouterr().err
