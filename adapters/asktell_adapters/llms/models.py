"""Several LLMs as one, which sends each request to the right LLM."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short, some
from asktell_adapters._util.scores import in_groups
from asktell_adapters.llms.base import Completion, Request


@final
class Models:
    """Several LLMs as one. Each request goes to the LLM that the candidate's factors choose.

    Evaluators make a `Models` if their argument `llm` is a mapping or a function. Each
    LLM is made once.

    ```python
    models = Models(OpenAIChat)
    llm = models.of({"model": "gpt-4o-mini"})  # OpenAIChat(model="gpt-4o-mini")
    ```

    Args:
        llms: model -> LLM, or a function that makes an LLM, such as the class of a
            client. With a mapping, the factor "model" chooses the LLM. With a function,
            the factors that are its parameters are passed to it.
        takes: the names of the factors that choose the LLM (default: all parameters of
            the function, or "model" for a mapping).

    Raises:
        InvalidArgumentError: `llms` is neither a function nor a mapping with LLMs.
    """

    def __init__(
        self,
        llms: Mapping[str, Any] | Callable[..., Any],
        takes: Iterable[str] | None = None,
    ) -> None:
        if not callable(llms) and not (isinstance(llms, Mapping) and llms):
            raise InvalidArgumentError(
                "An evaluator needs an LLM, a mapping from models' names to LLMs, or a function that turns a name "
                f"into an LLM, got {short(llms)}."
            )
        self._llms = llms
        if takes is None:
            takes = inspect.signature(llms).parameters if callable(llms) else ["model"]
        self.takes = frozenset(takes)
        self.made: dict[str, Any] = {}

    def of(self, client: Mapping[str, Any]) -> Any:
        """The LLM with these parameters. It is made if it does not exist yet.

        Args:
            client: the parameters, as factor -> value.

        Raises:
            InvalidArgumentError: there is no such model, or the LLM cannot be made with
                these parameters.
        """
        key = json.dumps(client, sort_keys=True)
        if key not in self.made:
            self.made[key] = self._make(client)
        return self.made[key]

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Send each request to its LLM, in one call per LLM. `Request.client` chooses the LLM.

        Returns:
            For each request, in order, its response, or the exception if it failed.
        """

        def ask(alike: list[Request]) -> Any:
            return self.of(alike[0].client).complete(alike)

        return in_groups(requests, lambda request: id(self.of(request.client)), ask)

    async def acomplete(self, request: Request, /) -> Completion:
        answer: Completion = await self.of(request.client).acomplete(request)
        return answer

    def load(self) -> None:
        """Load the LLMs that have been made so far, now and not at their first requests."""
        for llm in self.made.values():
            if callable(load := getattr(llm, "load", None)):
                load()

    def _make(self, client: Mapping[str, Any]) -> Any:
        """Make an LLM, or take it from the mapping.

        Raises:
            InvalidArgumentError: there is no such model, or the function refuses the factors.
        """
        if isinstance(self._llms, Mapping):
            if client.get("model") not in self._llms:
                problem = (
                    f"is {short(client['model'])}"
                    if "model" in client
                    else "is missing"
                )
                raise InvalidArgumentError(
                    f"The factor 'model' must be one of {some(list(self._llms))}, but it {problem}."
                )
            return self._llms[client["model"]]
        try:
            return self._llms(**client)
        except TypeError as error:
            raise InvalidArgumentError(
                f"Could not make an LLM with the factors {dict(client)} ({error})."
            ) from error

    def __repr__(self) -> str:
        return f"Models({self._llms!r})"


def llm_of(llm: Any, request: Request) -> Any:
    """The LLM that a request is for."""
    return llm.of(request.client) if isinstance(llm, Models) else llm
