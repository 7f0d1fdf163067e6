"""An LLM whose responses come from a function, for tests, dry runs and examples in docs."""

from collections.abc import Callable, Sequence
from typing import final

from asktell_adapters._scores import if_ready
from asktell_adapters.llms.base import Completion, Request


@final
class ScriptedLLM:
    """Responds to each request with `answer(request)`. An exception of the function is the failure of the request.

    ```python
    llm = ScriptedLLM(lambda request: Completion("yes"))
    ```

    Args:
        answer: returns the response to a request.
        name: stands for the function in the keys of a cache.

    Attributes:
        name: as above.
        requests: the requests so far, in order.
    """

    def __init__(
        self, answer: Callable[[Request], Completion], name: str = "scripted"
    ) -> None:
        self._answer = answer
        self.name = name
        self.requests: list[Request] = []

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Respond to the requests one after the other."""
        return if_ready(requests, self._asked, list)

    async def acomplete(self, request: Request, /) -> Completion:
        return self._asked(request)

    def identity(self) -> dict[str, str]:
        return {"llm": "scripted", "model": self.name}

    def _asked(self, request: Request) -> Completion:
        self.requests.append(request)
        return self._answer(request)
