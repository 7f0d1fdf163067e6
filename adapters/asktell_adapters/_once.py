"""An LLM that answers some requests once, however many ask for them at a time."""

import asyncio
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple, final

from asktell import EvaluatorError
from asktell_adapters.cache import answer_key
from asktell_adapters.llms.base import Completion, Request


class _Claim(NamedTuple):
    key: str
    answer: "Future[Completion]"
    is_mine: bool  # to ask for


@final
class AnsweredOnce:
    """Remembers the answers to the requests with these keys; who asks while one is under way waits for it.

    An answer that is given again is `from_cache`: it was paid for. A failure is that of all who wait for it; who comes
    later asks again. Other requests pass through.

    Args:
        llm: synchronous, async or both.
        keys: of `answer_key`, with the request's `client` as identity.
    """

    def __init__(self, llm: Any, keys: Collection[str]) -> None:
        self.llm = llm
        self.keys = frozenset(keys)
        self._found: dict[str, Future[Completion]] = {}
        self._lock = threading.Lock()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        claims = [self._claim(request) for request in requests]
        mine = [i for i, claim in enumerate(claims) if claim.is_mine]
        found: Sequence[Completion | BaseException] = []
        try:
            found = self.llm.complete([requests[i] for i in mine]) if mine else []
        except BaseException as error:
            found = [error] * len(mine)
            raise
        finally:
            for i, answer in zip(mine, found, strict=True):
                self._settle(claims[i], answer)
        return [_again(claim) for claim in claims]

    async def acomplete(self, request: Request, /) -> Completion:
        claim = self._claim(request)
        if not claim.is_mine:
            return replace(await asyncio.shield(asyncio.wrap_future(claim.answer)), from_cache=True)
        try:
            answer: Completion = await self.llm.acomplete(request)
        except BaseException as error:
            self._settle(claim, error)
            raise
        self._settle(claim, answer)
        return answer

    def _claim(self, request: Request) -> _Claim:
        key = answer_key(request.client, request)
        with self._lock:
            known = self._found.get(key)
            future: Future[Completion] = known or Future()
            if known is None and key in self.keys:
                self._found[key] = future
        return _Claim(key, future, known is None)

    def _settle(self, claim: _Claim, answer: Completion | BaseException) -> None:
        if isinstance(answer, Completion):
            claim.answer.set_result(answer)
            return
        with self._lock:
            self._found.pop(claim.key, None)
        is_failure = isinstance(answer, Exception)
        claim.answer.set_exception(answer if is_failure else EvaluatorError(f"the answer was given up: {answer!r}"))

    def __getstate__(self) -> dict[str, Any]:
        done = {key: each.result() for key, each in self._found.items() if each.done() and not each.exception()}
        return {"llm": self.llm, "keys": self.keys, "_found": done}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["llm"], state["keys"])
        for key, answer in state["_found"].items():
            self._found[key] = Future()
            self._found[key].set_result(answer)


def _again(claim: _Claim) -> Completion | Exception:
    try:
        answer = claim.answer.result()
    except Exception as error:
        return error
    return answer if claim.is_mine else replace(answer, from_cache=True)
