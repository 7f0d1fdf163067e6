"""Idempotency keys. A request that is sent again with its key gets the first response, and has no further effect."""

import asyncio
import hashlib
import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, get_type_hints

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from asktell_adapters.server.auth import ROLE
from asktell_adapters.server.problems import ProblemDetails

_LONGEST_KEY = 200
_CHANGING = ("POST", "PUT", "DELETE")
_Answer: TypeAlias = "tuple[bytes, asyncio.Task[Response]]"
_Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class Answers:
    """The latest successful responses by key, in memory, for one event loop.

    Args:
        most: the most responses to keep.
        most_bytes: the most bytes that the bodies of these responses may take.
    """

    def __init__(self, most: int = 10_000, most_bytes: int = 2**26) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._running: dict[str, _Answer] = {}
        self._kept: OrderedDict[str, _Answer] = OrderedDict()

    async def get(
        self, key: str, digest: bytes, make: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Return the response under this key, and make it if there is none.

        Args:
            key: the idempotency key.
            digest: digest of the request, which must be the same at each use of the key.
            make: makes the response.

        Raises:
            ProblemDetails: the key was used for another request.
        """
        stored = self._running.get(key) or self._kept.get(key)
        if stored is None:
            stored = self._running[key] = digest, asyncio.create_task(make())
            stored[1].add_done_callback(lambda _: self._settle(key))
        if stored[0] != digest:
            raise ProblemDetails(
                422,
                "This Idempotency-Key was used for another request. Use a new key.",
                "invalid-argument",
            )
        # Other requests may wait for it, too.
        answer = await asyncio.shield(stored[1])
        copy = Response(answer.body, answer.status_code)
        # Middleware changes the list
        copy.raw_headers = list(answer.raw_headers)
        return copy

    def _settle(self, key: str) -> None:
        """Move a response that is ready to the kept responses, and evict the oldest beyond the limits."""
        answer = self._running.pop(key)
        task = answer[1]
        if task.cancelled() or task.exception() is not None:
            # A failed request changed nothing, so a retry may run.
            return
        self._kept[key] = answer
        self._bytes += len(task.result().body)
        while len(self._kept) > self._most or self._bytes > self._most_bytes:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._bytes -= len(oldest.result().body)


def _direct(endpoint: Callable[..., Any], handle: _Handler) -> _Handler:
    """A shorter way to a function of a study's name and a body than FastAPI's `handle`.

    It reads the two arguments and calls the function in a thread. `handle` gets the invalid
    requests, to make their errors, and the requests to all other functions, such as
    coroutines.
    """
    hints = get_type_hints(endpoint, include_extras=True)
    hints.pop("return", None)
    if list(hints) != ["name", "body"] or inspect.iscoroutinefunction(endpoint):
        return handle
    read_name, read_body = (
        TypeAdapter[Any](hint).validate_python for hint in hints.values()
    )

    async def direct(request: Request) -> Response:
        try:
            name = read_name(request.path_params["name"])
            body = read_body(json.loads(await request.body()))
        except (ValueError, RecursionError):
            return await handle(request)
        return await run_in_threadpool(endpoint, name=name, body=body)

    return direct


class IdempotentRoute(APIRoute):
    """A route of an application whose `state.answers` are `Answers` by role, and by whether the route is of the API.

    So the requests of raters, who may all have the same token, evict no response to a worker.
    """

    def get_route_handler(self) -> _Handler:
        """Wrap FastAPI's handler, so that it is called once for each key."""
        handle = _direct(self.endpoint, super().get_route_handler())

        async def answer(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if key is None or request.method not in _CHANGING:
                return await handle(request)
            if not 0 < len(key) <= _LONGEST_KEY:
                text = f"An Idempotency-Key must have 1 to {_LONGEST_KEY} characters, got {len(key)}."
                raise ProblemDetails(422, text, "invalid-argument")
            parts = (
                request.method.encode(),
                request.scope["raw_path"],
                request.scope["query_string"],
            )
            # A digest is enough to recognize the same request, and does not keep its
            # body.
            digest = hashlib.sha256(b"\n".join((*parts, await request.body()))).digest()
            kind = request.scope[ROLE], self.path.startswith("/v1/")
            answers: Answers = request.app.state.answers[kind]
            return await answers.get(key, digest, lambda: handle(request))

        return answer
