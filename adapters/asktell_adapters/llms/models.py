"""Several LLMs as one, which sends each request to its own."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short, some
from asktell_adapters._scores import in_groups
from asktell_adapters.llms.base import Completion, Request


@final
class Models:
    """LLMs for candidates with a factor "model", or other factors that a client is made with. Each is made once.

    Args:
        llms: model -> LLM; or a function that makes one, such as the class of a client: a candidate's factors that are
            parameters of it are passed to it, as `OpenAIChat(model="gpt-4o-mini")`.
        takes: the names of these parameters, where the function's signature does not say them.
    """

    def __init__(self, llms: Mapping[str, Any] | Callable[..., Any], takes: Iterable[str] | None = None) -> None:
        if not callable(llms) and not (isinstance(llms, Mapping) and llms):
            raise InvalidArgumentError(
                "An evaluator needs an LLM, a mapping from model to LLM, or a function that makes the LLM of a model; "
                f"got {short(llms)}."
            )
        self._llms = llms
        if takes is None:
            takes = inspect.signature(llms).parameters if callable(llms) else ["model"]
        self.takes = frozenset(takes)
        self.made: dict[str, Any] = {}

    def of(self, client: Mapping[str, Any]) -> Any:
        key = json.dumps(client, sort_keys=True)
        if key not in self.made:
            self.made[key] = self._make(client)
        return self.made[key]

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        def ask(alike: list[Request]) -> Any:
            return self.of(alike[0].client).complete(alike)

        return in_groups(requests, lambda request: id(self.of(request.client)), ask)

    async def acomplete(self, request: Request, /) -> Completion:
        answer: Completion = await self.of(request.client).acomplete(request)
        return answer

    def load(self) -> None:
        for llm in self.made.values():
            if callable(load := getattr(llm, "load", None)):
                load()

    def _make(self, client: Mapping[str, Any]) -> Any:
        if isinstance(self._llms, Mapping):
            if client.get("model") not in self._llms:
                got = f"it is {short(client['model'])}" if "model" in client else "there is none"
                raise InvalidArgumentError(
                    f"The factor 'model' must say which LLM answers, one of {some(list(self._llms))}; {got}."
                )
            return self._llms[client["model"]]
        try:
            return self._llms(**client)
        except TypeError as error:
            raise InvalidArgumentError(
                f"An LLM is made with the factors {dict(client)}, and that failed: {error}."
            ) from error

    def __repr__(self) -> str:
        return f"Models({self._llms!r})"


def llm_of(llm: Any, request: Request) -> Any:
    """The LLM that a request is for."""
    return llm.of(request.client) if isinstance(llm, Models) else llm
