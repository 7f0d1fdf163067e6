"""The process of a meter: a proxy on the loopback interface between agents and the APIs of their LLMs.

`Meter` runs this file. It reads lines of JSON from stdin, and writes one line to stdout for each:

- The first line has the upstreams: name -> the real address of an API. The reply is the port.
- `["open", SECRET]` lets requests to `/SECRET/UPSTREAM/...` through.
- `["close", SECRET]` ends them. The reply has the calls that were counted, or is null if this process did not open it.

The process serves until stdin is closed, which also happens when the process that started it dies. It passes
requests on to the upstreams of the first line and nowhere else, follows no redirects, and neither stores nor logs
anything. Bodies pass through unchanged.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final
from urllib.parse import unquote

import httpx2
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from asktell_adapters.llms._remote import without_secrets
from asktell_adapters.llms.metering import Call, refused
from asktell_adapters.llms.usage import CUT, BodyReader

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_MOST_REQUEST_BYTES = 256 * 2**20  # a request may have images and long documents
_SECONDS_TO_CONNECT = 30.0
# A company's proxy, which HTTP_PROXY names, cannot reach them
_OF_THIS_MACHINE = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_SECONDS_IDLE = 600  # clients keep their connections for longer than uvicorn's 5 s
# Of one connection to the next, not of end-to-end messages (RFC 9110, 7.6.1)
_HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
_READABLE = ("gzip", "deflate")
# The last part of the paths that cost tokens. Other requests, such as for a list of
# models or a count of tokens, are passed on, and are no calls.
_PAID = frozenset(
    {
        "completions", "responses", "messages", "embeddings", "rerank", "compact", "generations", "edits", "variations",
        "speech", "transcriptions", "translations", "videos", "batches",
    }
)  # fmt: skip
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@final
class _Evaluation:
    """The calls of one evaluation, and the tasks of the requests in progress."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.tasks: set[asyncio.Task[Any]] = set()


@final
class Proxy:
    """The application, and the evaluations that may use it.

    Args:
        upstreams: name -> the real address of an API.
    """

    def __init__(self, upstreams: Mapping[str, str]) -> None:
        self._upstreams = {name: httpx2.URL(url) for name, url in upstreams.items()}
        self._evaluations: dict[str, _Evaluation] = {}
        self._client = httpx2.AsyncClient(
            # The client of the agent limits the time of a call
            timeout=httpx2.Timeout(None, connect=_SECONDS_TO_CONNECT),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=100, keepalive_expiry=30
            ),
            mounts=dict.fromkeys(_OF_THIS_MACHINE),
            follow_redirects=False,
        )
        self.app = Starlette(
            routes=[
                Route(
                    "/{secret}/{upstream}/{rest:path}", self._forward, methods=_METHODS
                )
            ]
        )

    def open(self, secret: str) -> None:
        """Let the requests of an evaluation through."""
        self._evaluations[secret] = _Evaluation()

    async def close(self, secret: str) -> list[Call] | None:
        """End the requests of an evaluation that are in progress, and return its calls. None if it is not open here."""
        evaluation = self._evaluations.pop(secret, None)
        if evaluation is None:
            return None
        for task in evaluation.tasks:
            task.cancel()
        # Each adds its call to the list when it ends
        await asyncio.gather(*evaluation.tasks, return_exceptions=True)
        return evaluation.calls

    async def _forward(self, request: Request) -> Response:
        """Pass a request on to its upstream."""
        evaluation = self._evaluations.get(request.path_params["secret"])
        base = self._upstreams.get(request.path_params["upstream"])
        if evaluation is None or base is None:
            return _error(404, "asktell's meter has no such address")
        raw: bytes = request.scope["raw_path"]
        rest = raw.split(b"/", 3)[3]
        if _leaves(rest):
            return _error(400, "asktell's meter passes on no path with '..' in it")
        path = base.raw_path.rstrip(b"/") + b"/" + rest
        if query := request.scope["query_string"]:
            path += b"?" + query
        try:
            target = base.copy_with(raw_path=path)
        except httpx2.InvalidURL:
            return _error(400, "asktell's meter got a path that is not valid")
        task = asyncio.current_task()
        assert task is not None, "Starlette runs in a task"
        evaluation.tasks.add(task)
        task.add_done_callback(evaluation.tasks.discard)
        return await self._send(request, target, evaluation.calls, task)

    async def _send(
        self,
        request: Request,
        target: httpx2.URL,
        calls: list[Call],
        task: "asyncio.Task[Any]",
    ) -> Response:
        """Send a request to its upstream, and return the response when its headers are there."""
        start = time.perf_counter()
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _MOST_REQUEST_BYTES:
                return _error(
                    413,
                    f"asktell's meter passes on at most {_MOST_REQUEST_BYTES} bytes",
                )
        last = target.path.rstrip("/").rpartition("/")[2]
        is_paid = request.method == "POST" and last in _PAID
        counted = _Counted(calls, _model(body) if is_paid else None, start, is_paid)
        message = httpx2.Request(
            request.method,
            target,
            headers=[*_passed_on(request.scope["headers"])],
            content=bytes(body),
        )
        # A server would write to the end for an agent that has given up
        leaving = asyncio.ensure_future(_left(request.receive))
        leaving.add_done_callback(lambda done: done.cancelled() or task.cancel())
        try:
            response = await self._client.send(message, stream=True)
        except httpx2.TransportError as error:
            leaving.cancel()
            counted.refused()
            address = without_secrets(str(target.copy_with(raw_path=b"/")))
            # Other messages may repeat a header
            is_unconnected = isinstance(error, httpx2.ConnectError)
            why = f": {error}" if is_unconnected and str(error) else ""
            failed = "cannot reach" if is_unconnected else "got no response from"
            return _error(
                502,
                f"asktell's meter {failed} {address} ({type(error).__name__}{why})",
            )
        except BaseException:
            leaving.cancel()
            counted.cut()
            raise
        return _Passing(response, counted, leaving)


@final
class _Counted:
    """Counts one request, once, when it has ended."""

    def __init__(
        self, calls: list[Call], model: str | None, start: float, is_paid: bool
    ) -> None:
        self._calls = calls
        self._model = model
        self._start = start
        self._is_paid = is_paid

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._start

    def refused(self) -> None:
        """The API refused the request, or could not be reached."""
        if self._is_paid:
            self._calls.append(refused(self._model, self._seconds))

    def cut(self) -> None:
        """The agent gave up before there was a response."""
        if self._is_paid:
            call = Call(self._model, None, self._seconds, False, None, False, CUT)
            self._calls.append(call)

    def ended(self, reader: BodyReader, *, is_complete: bool, is_broken: bool) -> None:
        """The response has ended: by itself, or because the upstream broke off or the agent gave up."""
        reader.end(is_complete=is_complete)
        # A response with usage was paid for, whatever its path
        if not self._is_paid and reader.usage is None:
            return
        self._calls.append(
            Call(
                self._model,
                reader.model,
                self._seconds,
                is_broken,
                reader.usage,
                reader.is_whole,
                reader.problem,
            )
        )


@final
class _Passing(Response):
    """A response of the upstream, which is passed on byte for byte, and counted at its end."""

    def __init__(
        self,
        response: httpx2.Response,
        counted: _Counted,
        leaving: "asyncio.Future[None]",
    ) -> None:
        self._response = response
        self._counted = counted
        self._leaving = leaving
        self.status_code = response.status_code
        self.background = None
        self.raw_headers = [
            (name.lower(), value)
            for name, value in response.headers.raw
            if name.lower() not in _HOP_BY_HOP
        ]

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        reader = BodyReader(self._response.headers)
        is_complete = is_broken = False
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            try:
                async for part in self._response.aiter_raw():
                    message = {"type": "http.response.body", "body": part}
                    await send({**message, "more_body": True})
                    reader.feed(part)
            except httpx2.TransportError:
                is_broken = True
                raise
            is_complete = True
            # The end of the response looks like a client that leaves
            self._leaving.cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._leaving.cancel()
            if self.status_code >= 300:
                self._counted.refused()
            else:
                self._counted.ended(
                    reader, is_complete=is_complete, is_broken=is_broken
                )
            await self._response.aclose()


def _leaves(rest: bytes) -> bool:
    """Whether a path goes up, also if a server decodes it several times."""
    path = rest.decode("latin-1")
    while (decoded := unquote(path)) != path:
        path = decoded
    return any(part in (".", "..") for part in path.replace("\\", "/").split("/"))


async def _left(receive: "Receive") -> None:
    """Wait until the client closes its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _passed_on(
    headers: Sequence[tuple[bytes, bytes]],
) -> Iterator[tuple[bytes, bytes]]:
    """The headers of a request that are not for the proxy."""
    named = {
        name.strip().lower()
        for key, value in headers
        if key == b"connection"
        for name in value.split(b",")
    }
    for name, value in headers:
        if name == b"accept-encoding":
            # Others cannot be read here
            offered = value.decode("latin-1").lower().replace(" ", "").split(",")
            readable = [word for word in offered if word.split(";")[0] in _READABLE]
            yield name, ", ".join(readable or ["identity"]).encode()
        elif name not in _HOP_BY_HOP | named | {b"host", b"expect"}:
            yield name, value


class _Named(msgspec.Struct):
    """The part of a request that is read."""

    model: Any = None


_request_decoder = msgspec.json.Decoder(_Named)


def _model(body: bytes | bytearray) -> str | None:
    """The model that a request names. None if it names none, or is no JSON."""
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        model = _request_decoder.decode(body).model
        return model[:200] if isinstance(model, str) else None
    return None


def _error(status: int, message: str) -> Response:
    """An error as OpenAI's and Anthropic's APIs send it, so that every client can show it."""
    error = {"type": "api_error", "code": "asktell_meter", "message": message}
    return JSONResponse({"type": "error", "error": error}, status)


async def _serve(upstreams: Mapping[str, str], replies: Any) -> None:
    """Serve until stdin is closed."""
    proxy = Proxy(upstreams)
    config = uvicorn.Config(
        proxy.app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_SECONDS_IDLE,
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    # Connections inherit it. Otherwise a body waits 40 ms for the receipt of its headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    serving = asyncio.ensure_future(uvicorn.Server(config).serve([listener]))
    print(json.dumps(listener.getsockname()[1]), file=replies, flush=True)
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    while line := await orders.readline():
        what, secret = json.loads(line)
        if what == "open":
            proxy.open(secret)
            print("null", file=replies, flush=True)
        else:
            calls = msgspec.json.encode(await proxy.close(secret))
            print(calls.decode(), file=replies, flush=True)
    serving.cancel()


def main() -> None:
    """Serve until the process that started this one closes the pipe or ends."""
    # Nothing of a request may reach a log
    logging.disable()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    upstreams = json.loads(sys.stdin.readline())
    parent = os.getppid()

    def watch() -> None:
        # The pipe is not enough: a forked copy of a killed parent may hold it open
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    asyncio.run(_serve(upstreams, replies))
    os._exit(0)


if __name__ == "__main__":
    main()
