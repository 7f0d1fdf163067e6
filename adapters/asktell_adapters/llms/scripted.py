"""An LLM whose responses come from a function, for tests, dry runs and examples in docs."""

from collections.abc import Callable, Sequence
from typing import final

from asktell_adapters._util.scores import if_ready
from asktell_adapters.llms.base import Completion, Request


@final
class ScriptedLLM:
    """An LLM for tests: its response to a request is the return value of the function `answer`.

    ```python
    llm = ScriptedLLM(lambda request: Completion("yes"))
    ```

    Args:
        answer: a function of a request that returns the response. If it raises an
            exception, the request fails with this exception.
        name: the name of the function for a cache. Responses under another name are not
            used, so choose another name when you change the function.

    Attributes:
        name: the name that was passed.
        requests: all requests so far, in order.
    """

    def __init__(
        self, answer: Callable[[Request], Completion], name: str = "scripted"
    ) -> None:
        self._answer = answer
        self.name = name
        self.requests: list[Request] = []

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Respond to the requests one after the other.

        Returns:
            For each request, in order, its response, or the exception if it failed.
        """
        return if_ready(requests, self._asked, list)

    async def acomplete(self, request: Request, /) -> Completion:
        return self._asked(request)

    def identity(self) -> dict[str, str]:
        return {"llm": "scripted", "model": self.name}

    def _asked(self, request: Request) -> Completion:
        self.requests.append(request)
        return self._answer(request)
