"""What every LLM adapter promises, whatever is behind it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asktell.testing.llm_server import FaultyLLMServer
from asktell_adapters.evaluators import (
    LLM,
    AsyncLLM,
    Completion,
    HuggingFace,
    LlamaCpp,
    OpenAIChat,
    Request,
    ScriptedLLM,
)

WORDS = ["w1", "w2 w3", "w4 w5 w6 w7", "w8"]


def scripted(request: Request) -> Completion:
    if len(request.messages[-1]["content"]) > 1000:
        raise ValueError("too long")
    return Completion(request.messages[-1]["content"], 3, 2, finish_reason="stop")


@pytest.fixture(params=["scripted", "llama.cpp", "transformers", "openai"])
def llm(request: pytest.FixtureRequest) -> Iterator[LLM]:
    if request.param == "scripted":
        yield ScriptedLLM(scripted)
    elif request.param == "llama.cpp":
        file: Path = request.getfixturevalue("smollm2_file")
        local = LlamaCpp(file, n_ctx=256, n_threads=1)
        yield local
        local.close()
    elif request.param == "transformers":
        yield HuggingFace(request.getfixturevalue("tiny_model"), device="cpu")
    else:
        pytest.importorskip("openai")
        with FaultyLLMServer(echo=True) as server, OpenAIChat("m", base_url=server.base_url) as remote:
            yield remote


def chats(limit: int = 4) -> list[Request]:
    return [Request.chat(words, max_new_tokens=limit) for words in WORDS]


def completions(answers: list[Completion | Exception]) -> list[Completion]:
    assert all(isinstance(answer, Completion) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Completion)]


def test_nothing_asked_nothing_answered(llm: LLM) -> None:
    assert isinstance(llm, LLM)
    assert llm.complete([]) == []


def test_answers_come_in_the_order_of_the_requests(llm: LLM) -> None:
    forward = completions(llm.complete(chats()))
    backward = completions(llm.complete(chats()[::-1]))
    assert [answer.text for answer in forward] == [answer.text for answer in backward[::-1]]


def test_a_completion_says_what_it_took(llm: LLM) -> None:
    for answer in completions(llm.complete(chats())):
        assert answer.prompt_tokens > 0
        assert answer.completion_tokens >= 0
        assert 0 <= answer.cached_tokens <= answer.prompt_tokens
        assert answer.latency >= 0
        assert answer.cost == 0.0
        assert answer.attempts == 1
        assert answer.finish_reason in ("stop", "length")


def test_a_failure_is_returned_in_its_place(llm: LLM) -> None:
    if isinstance(llm, OpenAIChat):
        pytest.skip("the scripted server takes texts of any length")
    before, failed, after = llm.complete([chats()[0], Request.chat("w1 " * 1000, max_new_tokens=4), chats()[1]])
    assert isinstance(failed, Exception)
    assert len(completions([before, after])) == 2


def test_threads_may_share_it(llm: LLM) -> None:
    ask: Callable[[Request], str] = lambda request: completions(llm.complete([request]))[0].text  # noqa: E731
    expected = [ask(request) for request in chats()]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, chats())) == expected


def test_its_repr_is_short(llm: LLM) -> None:
    assert type(llm).__name__ in repr(llm)
    assert len(repr(llm)) < 250


async def test_async_ones_answer_the_same(llm: LLM) -> None:
    if not isinstance(llm, AsyncLLM):
        pytest.skip("a synchronous LLM")
    (expected,) = completions(llm.complete(chats()[:1]))
    assert (await llm.acomplete(chats()[0])).text == expected.text
