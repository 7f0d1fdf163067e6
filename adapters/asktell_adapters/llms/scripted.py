"""An LLM that answers with a function: for tests, dry runs and examples in docs."""

from collections.abc import Callable, Sequence
from typing import final

from asktell.extend import attempt
from asktell_adapters.llms.base import Completion, Request


@final
class ScriptedLLM:
    """Answers each request with `answer(request)`; what that raises is the request's failure.

    `name` stands for the function in the keys of a cache; `requests` is what was asked, in order.
    """

    def __init__(self, answer: Callable[[Request], Completion], name: str = "scripted") -> None:
        self._answer = answer
        self.name = name
        self.requests: list[Request] = []

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        self.requests += requests
        return [attempt(self._answer, request) for request in requests]

    async def acomplete(self, request: Request, /) -> Completion:
        self.requests.append(request)
        return self._answer(request)

    def identity(self) -> dict[str, str]:
        return {"llm": "scripted", "model": self.name}
