"""Tools that a prompt offers: every LLM is told of them, and what it calls comes back."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from asktell_adapters.evaluators import (
    VLLM,
    Completion,
    HuggingFace,
    LlamaCpp,
    OpenAIChat,
    Request,
    ScriptedLLM,
)
from asktell_adapters.llms.cache import AnswerCache, CachedLLM, answer_key
from asktell_adapters.llms.chat_api import ChatAPI
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply, content

TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "w1 w2",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    },
}
PLAIN = Request.chat("w3", max_new_tokens=4)
ASKED = Request.chat("w3", max_new_tokens=4, tools=(TOOL,))
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "x", "k": 1}'},
}


def reply(message: dict[str, Any]) -> dict[str, Any]:
    body = json.loads(json.dumps(content(Reply(), "m")))
    body["choices"][0]["message"] = {"role": "assistant", "content": None, **message}
    return body


def test_an_api_is_told_of_them_and_its_calls_are_the_answer() -> None:
    pytest.importorskip("openai")
    with (
        FaultyLLMServer(
            [Reply(body=json.dumps(reply({"tool_calls": [CALL]})).encode()), Reply()]
        ) as server,
        OpenAIChat("m", base_url=server.base_url) as llm,
    ):
        called, plain = llm.complete([ASKED])[0], llm.complete([PLAIN])[0]
    assert isinstance(called, Completion)
    assert isinstance(plain, Completion)
    assert called.tool_calls == (
        {"name": "search", "arguments": {"query": "x", "k": 1}},
    )
    assert called.text == '[{"arguments": {"k": 1, "query": "x"}, "name": "search"}]'
    assert (plain.text, plain.tool_calls) == ("ok", ())
    assert [body.get("tools") for body in server.requests] == [[TOOL], None]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [("{not JSON", "{not JSON"), ("", {}), (None, {}), ({"a": 1}, {"a": 1})],
)
def test_arguments_that_are_no_json_are_kept_as_they_came(
    given: Any, arguments: Any
) -> None:
    call = {"function": {"name": "search", "arguments": given}}
    answer = ChatAPI("m", "max_tokens").completion(reply({"tool_calls": [call]}), "it")
    assert answer.tool_calls == ({"name": "search", "arguments": arguments},)


@pytest.mark.parametrize("levels", [500, 900, 100_000])
def test_arguments_that_are_nested_too_deeply_are_kept_as_they_came(
    levels: int,
) -> None:
    deep = "[" * levels + "]" * levels
    answer = ChatAPI("m", "max_tokens").completion(
        reply({"tool_calls": [{"function": {"name": "f", "arguments": deep}}]}), "it"
    )
    assert answer.tool_calls == ({"name": "f", "arguments": deep},)
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"a": nested}
    for message in (
        {"tool_calls": [{"function": {"name": "f", "arguments": nested}}]},
        {"content": nested},
    ):
        body = reply({})
        body["choices"][0]["message"] = message
        with pytest.raises(Exception, match="a response that cannot be read"):
            ChatAPI("m", "max_tokens").completion(body, "it")


@pytest.mark.parametrize(
    "calls",
    ["x", [1], [{}], [{"function": {"name": 3}}], [{"function": {"arguments": "{}"}}]],
)
def test_malformed_calls_are_a_malformed_answer(calls: Any) -> None:
    with pytest.raises(Exception, match="a response that cannot be read"):
        ChatAPI("m", "max_tokens").completion(reply({"tool_calls": calls}), "it")


def test_vllm_is_told_of_them_in_a_call_of_their_own(vllm: ModuleType) -> None:
    llm = VLLM("some/model")
    answers = llm.complete([PLAIN, ASKED, PLAIN])
    assert all(isinstance(answer, Completion) for answer in answers)
    (engine,) = vllm.engines
    assert sorted(
        (len(call["messages"]), call.get("tools")) for call in engine.calls
    ) == [(1, [TOOL]), (2, None)]


def test_transformers_templates_are_told_of_them(tiny_model: Path) -> None:
    llm = HuggingFace(tiny_model, device="cpu")
    llm.load()
    llm._tokenizer.chat_template = (
        "{% for t in tools or [] %}{{ t['function']['description'] }} {% endfor %}w9"
    )
    assert llm.count_tokens([PLAIN, ASKED]) == [1, 3]
    assert isinstance(llm.complete([ASKED])[0], Completion)


def test_llama_cpp_takes_them(smollm2_file: Path) -> None:
    llm = LlamaCpp(smollm2_file, n_ctx=1024, n_threads=1)
    try:
        (answer,) = llm.complete([ASKED])
        assert isinstance(answer, Completion)
        assert llm.count_tokens([ASKED])[0] >= llm.count_tokens([PLAIN])[0]
    finally:
        llm.close()


def test_a_cache_keeps_calls_and_knows_tools(tmp_path: Path) -> None:
    calls = ({"name": "search", "arguments": {"query": "x"}},)
    cached = CachedLLM(
        ScriptedLLM(lambda request: Completion("t", tool_calls=calls)),
        AnswerCache(tmp_path / "a.db"),
    )
    first, again = cached.complete([ASKED])[0], cached.complete([ASKED])[0]
    assert isinstance(again, Completion)
    assert (first.tool_calls, again.tool_calls, again.from_cache) == (
        calls,
        calls,
        True,
    )  # type: ignore[union-attr]
    assert answer_key({}, ASKED) != answer_key({}, PLAIN)
