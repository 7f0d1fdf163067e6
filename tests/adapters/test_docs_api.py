"""The code and the files of docs/how-to/use-an-api.md and write-prompts.md, run against scripted servers."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.config import load_config
from asktell_adapters.config.model import _OPTIONS
from asktell_adapters.datasets import load_prompts
from asktell_adapters.estimate import Estimate
from asktell_adapters.evaluators import Completion, LiteLLM, Request, ScriptedLLM
from asktell_adapters.metrics import Spent
from asktell_adapters.prompts import chat_of
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
API, PROMPTS = HOW_TO / "use-an-api.md", HOW_TO / "write-prompts.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


class Server(FaultyLLMServer):
    """Judges where it is asked for a schema, and answers otherwise."""

    def _begin(self, body: dict[str, Any], token: str) -> Reply:
        super()._begin(body, token)
        return Reply('{"reason": "", "grades": {"helpful": 4}}' if "response_format" in body else "ok")


# Use an API


def test_the_page_on_apis_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none of yours")
    first, selection, *_ = blocks(API, "python")
    names: dict[str, Any] = {"texts": [f"mail {i}" for i in range(10)], "prompts": ["Answer.", "Be short.", "Think."]}
    with Server() as server:
        exec(compile(first.replace("http://localhost:11434/v1", server.base_url), str(API), "exec"), names)
        assert names["answer"].text == "ok"
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names["llm"].close()
        exec(compile(selection, str(API), "exec"), names)
        names["llm"].close()
    shown = capsys.readouterr().out
    assert "money          about" in shown
    assert "Spent(requests=" in shown
    assert isinstance(names["judge"].spent, Spent)
    assert names["selector"].done
    assert names["selector"].result().cost > 0
    assert isinstance(names["estimate"](names["evaluator"], names["selector"]), Estimate)


def test_the_file_on_apis_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKTELL_CACHE", str(tmp_path))
    (file, _) = blocks(API, "toml")
    (tmp_path / "a.toml").write_text(file)
    (tmp_path / "prompts.txt").write_text("Answer.\nBe short.\n")
    (tmp_path / "mails.csv").write_text("mail,from\nHello?,me\nHow much?,you\n")
    config = load_config(tmp_path / "a.toml")
    assert (config.concurrency, config.confirm_above, config.selector.max_cost) == (16, 0.25, 0.5)
    assert set(config.metrics) == {"brevity", "quality"}


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("litellm") is None:
        path = Path(__file__).with_name("fake_litellm.py")
        spec = importlib.util.spec_from_file_location("fake_litellm", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setitem(sys.modules, "litellm", module.fake_litellm())


@pytest.mark.usefixtures("litellm")
def test_the_code_on_litellm_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    _, _, one, routed = blocks(API, "python")
    exec(compile(one, str(API), "exec"), names)
    assert capsys.readouterr().out.strip()
    exec(compile(routed, str(API), "exec"), names)
    llm = names["llm"]
    assert isinstance(llm, LiteLLM)
    _, table = blocks(API, "toml")
    model = tomllib.loads(table)["model"]
    assert model["router"] == llm.deployments
    assert set(model) <= {"type", "model", *_OPTIONS["litellm"]}


def test_what_the_page_says_of_errors_is_what_they_say() -> None:
    source = "".join(
        (Path(sys.modules[name].__file__ or "")).read_text()
        for name in ("asktell_adapters.llms.openai", "asktell_adapters.llms._remote", "asktell_adapters.llms.chat_api")
    )
    for words in (
        "no API key: set the environment variable",
        "check the address, and that the server runs",
        "and not as an API does; base_url must be its root, ending in /v1",
        "sent an empty completion (finish_reason",
        "did not answer within",
        "insufficient_quota",
    ):
        assert words in source
        assert words in API.read_text()


# Write prompts


def town(request: Request) -> Completion:
    """Knows where towns are if it is told; calls the tool that is described at length."""
    said = "\n".join(turn["content"] for turn in request.messages)
    if request.tools:
        called = "Call it" in request.tools[0]["function"]["description"]
        name = re.search(r"Where is (\w+)", said)
        assert name is not None
        call = {"name": "find", "arguments": {"town": name[1]}}
        return Completion("", tool_calls=(call,) if called else ())
    known = {"Ulm": "Germany", "Pau": "France"}
    asked = re.findall(r"Where is (\w+)", said)[-1]
    return Completion(known[asked] if "lies in" in said or "Graz" in said else "Somewhere")


def test_the_page_on_prompts_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"llm": ScriptedLLM(town)}
    fields, chats, tools, scored = blocks(PROMPTS, "python")
    exec(compile(fields, str(PROMPTS), "exec"), names)
    assert names["llm"].requests[0].messages[-1]["content"].startswith(("Ulm lies", "Pau lies", "Q: Where is"))
    assert names["selector"].result().selected[0].estimate["right"] == 1.0
    exec(compile(chats, str(PROMPTS), "exec"), names)
    assert [entry.id for entry in names["selector"].result().selected] == ["shown how"]
    assert "[user] Where is Graz? [assistant] Austria [user] {input}" in capsys.readouterr().out
    exec(compile(tools, str(PROMPTS), "exec"), names)
    exec(compile(scored, str(PROMPTS), "exec"), names)
    assert [entry.id for entry in names["selector"].result().selected] == ["long"]


def test_the_files_on_prompts_are_read(tmp_path: Path) -> None:
    (in_json,) = blocks(PROMPTS, "json")
    (tmp_path / "prompts.json").write_text(in_json)
    prompts = load_prompts(tmp_path / "prompts.json")
    assert isinstance(prompts, dict)
    assert [chat_of(prompt) is None for prompt in prompts.values()] == [True, False]
    rest = '[model]\nloader = "x:y"\n[metrics]\nexact_match = true\n[goal]\nmaximize = "exact_match"\n'
    fields, chats, _ = blocks(PROMPTS, "toml")
    data = fields.partition("[data]")[2]
    (tmp_path / "questions.csv").write_text("question,context,answer\nq,c,a\n")
    for text in (f"budget = 2\n{fields}{rest}", f"budget = 2\n{chats}[data]{data}{rest}"):
        (tmp_path / "a.toml").write_text(text)
        config = load_config(tmp_path / "a.toml")
        assert len(config.selector.prompts) == 2
    assert json.loads(config.selector.prompts.texts[1])[1]["content"] == "{question}"
