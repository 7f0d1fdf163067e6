"""docs/how-to/from-a-csv-to-a-choice.md, command by command, and the code of docs/how-to/read-your-data.md."""

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.cli.main import main
from asktell_adapters.config.data import read_examples
from asktell_adapters.config.tables import KEYS, Table
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
PAGE, DATA = DOCS / "from-a-csv-to-a-choice.md", DOCS / "read-your-data.md"
TICKETS = "nr;ticket;product\n1;Où est mon colis ?;shop\n2;Help;app\n3;Hello;app\n4;Charged twice;billing\n"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


class Clerk(FaultyLLMServer):
    """Answers as friendly as the prompt asks, and judges that."""

    def _begin(self, body: dict[str, Any], token: str) -> Reply:
        super()._begin(body, token)
        text = body["messages"][-1]["content"]
        if "response_format" not in body:
            return Reply("Gladly! Tomorrow." if "friendly" in text else "No idea.", usage=(40, 6, 0))
        grade = 5 if "Gladly" in text else 2
        said = {"reason": f"That is a {grade}.", "grades": {"helpful": grade, "friendly": grade}}
        return Reply(json.dumps(said), usage=(300, 30, 0))


def test_three_commands_lead_from_a_csv_to_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "tickets.csv").write_text(blocks(PAGE, "csv")[0])
    (tmp_path / "prompts.txt").write_text(blocks(PAGE, "text")[0])
    install, *commands = [block.replace("\\\n", " ").strip().split("\n") for block in blocks(PAGE, "sh")]
    assert [line.partition("  #")[0] for line in install] == [
        "pip install 'asktell[openai]'",
        "export OPENAI_API_KEY=...",
    ]
    said = {}
    with Clerk(api_key="k") as server:
        for line in (line for block in commands for line in block):
            program, *words = shlex.split(line)
            more = ["--base-url", server.base_url] if words[0] == "init" else []
            assert program == "asktell"
            assert main([*words, *more]) == 0, capsys.readouterr().err
            said[" ".join([words[0], *words[2:]])] = capsys.readouterr().out
        n_requests = len(server.requests)
        assert main(["compare", "support.toml", "2", "0"]) == 0
        assert len(server.requests) == n_requests
    checked = said["check"]
    assert "My parcel has been on its way for two weeks." in checked
    assert re.search(r"quality +2   \(helpful 2, friendly 2\)  That is a 2\.", checked)
    assert f"cost: {(340 * 0.15 + 36 * 0.6) / 1e6:.4g}" in checked
    estimated = said["run --estimate 3"]
    assert "evaluations    24" in estimated
    assert re.search(r"judge quality +2\d calls, about [\d,]+ tokens read, about \d+, at most", estimated)
    assert re.search(r"money +about 0\.00\d+, at most 0\.0\d+ \(judges: 0\.00\d+, at most 0\.0", estimated)
    assert "* 2" in said["run"] or re.search(r"^2 ", said["run"], re.MULTILINE)
    assert "You are a friendly clerk" in said["run"]
    assert "You are a friendly clerk" in (tmp_path / "support.html").read_text()
    # The cache has answered again what the check and the estimate had asked.
    assert "were answered by the cache" in said["run"]


def test_the_page_on_data_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    import tomllib

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickets.csv").write_bytes(TICKETS.encode("cp1252"))
    book = openpyxl.Workbook()
    for row in (["id", "prompt"], ["a", "Answer."], ["b", "Reply."]):
        book.active.append(row)
    book.save("prompts.xlsx")
    (python,), (toml,) = blocks(DATA, "python"), blocks(DATA, "toml")
    names: dict[str, Any] = {}
    exec(compile(python, str(DATA), "exec"), names)
    found = read_examples(Table(tmp_path / "a.toml", "data", tomllib.loads(toml)["data"], KEYS["data"]))
    assert list(found.examples) == names["examples"]
    assert found.names == tuple(example.id for example in names["examples"])
    assert names["prompts"] == {"a": "Answer.", "b": "Reply."}
    assert capsys.readouterr().out.startswith("3 ")
