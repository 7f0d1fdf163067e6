"""Tests that every LLM for `LLMEvaluator` must pass. Derive a class from `LLMContract`, and define the fixture `llm`.

    class TestMyLLM(LLMContract):
        @pytest.fixture
        def llm(self):
            return MyLLM()

The tests need pytest and asktell_adapters.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from asktell_adapters.llms.base import LLM, AsyncLLM, Completion, Request


class LLMContract:
    """Tests of a synchronous LLM, and of its async method `acomplete` if it has one.

    Attributes:
        texts: the texts of at least two requests. They are so short that the LLM can
            respond to each.
        refused: the text of a request that the LLM must refuse, such as a text that is
            longer than its context. None if the LLM accepts every request.
        limit: the largest number of tokens of a response, for all requests.
    """

    texts: ClassVar[tuple[str, ...]] = ("w1", "w2 w3", "w4 w5 w6 w7", "w8")
    refused: ClassVar[str | None] = "w1 " * 1000
    limit: ClassVar[int] = 4

    @pytest.fixture
    def llm(self) -> LLM:
        """The LLM to test. Override this fixture."""
        raise NotImplementedError

    def chats(self) -> list[Request]:
        """Return one request for each text in `texts`."""
        return [Request.chat(text, max_new_tokens=self.limit) for text in self.texts]

    def test_nothing_asked_nothing_answered(self, llm: LLM) -> None:
        """For an empty list of requests, the LLM returns an empty list."""
        assert isinstance(llm, LLM)
        assert llm.complete([]) == []

    def test_answers_come_in_the_order_of_the_requests(self, llm: LLM) -> None:
        """The responses are in the order of the requests, even if the LLM sorts requests by length."""
        forward = completions(llm.complete(self.chats()))
        backward = completions(llm.complete(self.chats()[::-1]))
        assert [answer.text for answer in forward] == [
            answer.text for answer in backward[::-1]
        ]
        assert [answer.prompt_tokens for answer in forward] == [
            answer.prompt_tokens for answer in backward[::-1]
        ]

    def test_a_completion_says_what_it_took(self, llm: LLM) -> None:
        """The numbers of tokens, the time, the cost and the finish reason of a response are plausible."""
        for answer in completions(llm.complete(self.chats())):
            assert answer.prompt_tokens > 0
            assert 0 <= answer.completion_tokens <= self.limit
            assert 0 <= answer.cached_tokens <= answer.prompt_tokens
            assert answer.latency >= 0
            assert answer.cost >= 0
            assert answer.attempts == 1
            assert answer.finish_reason in ("stop", "length")

    def test_a_failure_is_returned_in_its_place(self, llm: LLM) -> None:
        """A refused request does not affect the others. In its place, the LLM returns an exception with a message."""
        if self.refused is None:
            pytest.skip("it takes everything")
        first, second, *_ = self.chats()
        before, failed, after = llm.complete(
            [first, Request.chat(self.refused, max_new_tokens=self.limit), second]
        )
        assert isinstance(failed, Exception)
        assert str(failed), "a failure needs a message"
        assert len(completions([before, after])) == 2

    def test_threads_may_share_it(self, llm: LLM) -> None:
        """Several threads get the same responses as one thread."""
        ask: Callable[[Request], str] = lambda request: (  # noqa: E731
            completions(llm.complete([request]))[0].text
        )
        expected = [ask(request) for request in self.chats()]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, self.chats())) == expected

    def test_its_repr_is_short(self, llm: LLM) -> None:
        """The repr has the name of the class, and fewer than 250 characters."""
        assert type(llm).__name__ in repr(llm)
        assert len(repr(llm)) < 250

    async def test_an_async_one_answers_the_same(self, llm: LLM) -> None:
        """`acomplete` returns a response with the same text as `complete`."""
        if not isinstance(llm, AsyncLLM):
            pytest.skip("a synchronous LLM")
        (expected,) = completions(llm.complete(self.chats()[:1]))
        assert (await llm.acomplete(self.chats()[0])).text == expected.text


def completions(answers: list[Completion | Exception]) -> list[Completion]:
    """Check that no response is an exception, and return the responses.

    Args:
        answers: the return value of `LLM.complete`.
    """
    assert all(isinstance(answer, Completion) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Completion)]
