"""What every LLM adapter promises, whatever is behind it; and that the contract catches who breaks it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from asktell_adapters.evaluators import (
    LLM,
    VLLM,
    Completion,
    HuggingFace,
    LlamaCpp,
    OpenAIChat,
    Request,
    ScriptedLLM,
)
from asktell_adapters.testing.llm_contract import LLMContract
from asktell_adapters.testing.llm_server import FaultyLLMServer


def scripted(request: Request) -> Completion:
    if len(request.messages[-1]["content"]) > 1000:
        raise ValueError("too long")
    return Completion(request.messages[-1]["content"], 3, 2, finish_reason="stop")


class TestScripted(LLMContract):
    @pytest.fixture
    def llm(self) -> LLM:
        return ScriptedLLM(scripted)


@pytest.fixture(scope="module")
def llama(smollm2_file: Path) -> Iterator[LLM]:
    local = LlamaCpp(smollm2_file, n_ctx=256, n_threads=1)
    yield local
    local.close()


class TestLlamaCpp(LLMContract):
    @pytest.fixture
    def llm(self, llama: LLM) -> LLM:
        return llama


class TestHuggingFace(LLMContract):
    @pytest.fixture
    def llm(self, tiny_model: Path) -> LLM:
        return HuggingFace(tiny_model, device="cpu")


class TestVLLM(LLMContract):
    @pytest.fixture
    def llm(self, vllm: ModuleType) -> LLM:
        return VLLM("some/model")


class TestOpenAI(LLMContract):
    refused: ClassVar[str | None] = None  # this server takes texts of any length
    limit: ClassVar[int] = 5  # the tokens that it always counts

    @pytest.fixture
    def llm(self) -> Iterator[LLM]:
        pytest.importorskip("openai")
        with (
            FaultyLLMServer(echo=True) as server,
            OpenAIChat("m", base_url=server.base_url) as remote,
        ):
            yield remote


class Deranged:
    """Answers in an order of its own, or lets one failure be everyone's."""

    def __init__(
        self, order: Callable[[list[Completion]], list[Completion]] = list
    ) -> None:
        self._order = order

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        return [*self._order([scripted(request) for request in requests])]


def test_it_catches_answers_in_another_order() -> None:
    with pytest.raises(AssertionError):
        LLMContract().test_answers_come_in_the_order_of_the_requests(
            Deranged(lambda answers: sorted(answers, key=lambda answer: answer.text))
        )


def test_it_catches_a_failure_that_takes_others_with_it() -> None:
    with pytest.raises(ValueError, match="too long"):
        LLMContract().test_a_failure_is_returned_in_its_place(Deranged())
