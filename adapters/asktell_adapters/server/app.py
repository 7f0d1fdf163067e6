"""The application. It connects operations and pages, checks every request, and turns errors into responses."""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asktell import AsktellError, StorageError
from asktell.extend import safe, short
from asktell_adapters.server.answers import InvalidPart
from asktell_adapters.server.auth import ROLE, Guard, Tokens
from asktell_adapters.server.idempotency import Answers, IdempotentRoute
from asktell_adapters.server.label_pages import add_labels
from asktell_adapters.server.labeling import Labeling
from asktell_adapters.server.metrics import Metrics
from asktell_adapters.server.open_studies import OpenStudies
from asktell_adapters.server.openapi import describe
from asktell_adapters.server.operations import (
    add_growth,
    add_health,
    add_results,
    add_studies,
    add_trials,
)
from asktell_adapters.server.pages import Overview, add_pages
from asktell_adapters.server.problems import MEDIA_TYPE, ProblemDetails, problem_of

_SECONDS_FOR_A_BODY = 30.0
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Pages have a policy of their own
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

_EXPECTED = {
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "an object",
    "string": "a text",
}
"""What pydantic misses, by the first word of its error's type."""

log = logging.getLogger("asktell_adapters.server")


def make_app(
    studies: OpenStudies,
    tokens: Tokens | None = None,
    *,
    most_bytes: int = 2**26,
    labelings: Mapping[str, Labeling] | None = None,
    only_labels: bool = False,
) -> FastAPI:
    """Make the service as an ASGI application.

    Args:
        studies: the studies to serve.
        tokens: the tokens (default: none, so that only this machine may use the service).
        most_bytes: the most bytes of a request's body.
        labelings: for studies that people label, their raters, by the study's name.
        only_labels: serve nothing but the label pages, so that raters see no prompt.
    """
    tokens = tokens or Tokens()
    overview = Overview(studies)
    metrics = Metrics(lambda: len(studies), overview.rows)
    app = FastAPI(
        title="asktell",
        version=version("asktell"),
        openapi_url=None,  # see `describe`
    )
    # IdempotentRoute finds them here.
    app.state.answers = defaultdict(Answers)
    app.router.route_class = IdempotentRoute
    if not only_labels:
        add_health(app, studies, metrics, overview)
        add_studies(app, studies)
        add_trials(app, studies)
        add_growth(app, studies)
        add_results(app, studies)
        add_pages(app, studies, overview)
    add_labels(app, labelings or {}, home=only_labels)
    app.add_exception_handler(ProblemDetails, _on_error)
    app.add_exception_handler(AsktellError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(
        Door, guard=Guard(tokens), metrics=metrics, most_bytes=most_bytes
    )
    describe(app, bool(tokens))
    return app


class Door:
    """Middleware around everything. It admits requests, limits their bodies, counts them, and responds if code fails.

    A body is read only after its request was admitted. FastAPI's own security would come
    after reading the body.

    Args:
        app: the application inside.
        guard: checks the tokens.
        metrics: counts the requests.
        most_bytes: the most bytes of a body.
    """

    def __init__(
        self, app: ASGIApp, guard: Guard, metrics: Metrics, most_bytes: int
    ) -> None:
        self._app = app
        self._guard = guard
        self._metrics = metrics
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, whatever happens inside.

        Args:
            scope: the request's ASGI scope.
            receive: returns the next part of the body.
            send: sends a part of the response.
        """
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            # The service has no web sockets.
            return
        # Route by the encoded path, because the name of a study may have an encoded slash,
        # which must not divide the path.
        scope = dict(scope, path=quote(scope["raw_path"], safe="/%:@!$&'()*+,;=~"))
        started, status = time.perf_counter(), 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # Every response gets the security headers, also errors of the
                # framework.
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        async def refuse(problem: ProblemDetails) -> None:
            await problem_response(problem)(scope, receive, send_on)

        with self._metrics.running.track_inprogress():
            try:
                await self._admitted(scope, receive, send_on)
            except ProblemDetails as problem:
                await refuse(problem)
            except ClientDisconnect:
                pass
            except asyncio.CancelledError:
                # The server ends, and does not wait any longer.
                await refuse(
                    ProblemDetails(
                        503,
                        "The service is ending, and this request took too long to wait for. The request may have been "
                        "done. Send it again.",
                        "service",
                        {"Retry-After": "1"},
                        title="The service ends",
                    )
                )
            except Exception:
                log.exception("An error of the service")
                if status == 0:
                    await refuse(
                        ProblemDetails(
                            500,
                            "The service failed. Its log has the error. Recorded scores are not lost.",
                        )
                    )
        operation = getattr(scope.get("route"), "name", None) or "other"
        self._metrics.count(operation, status, time.perf_counter() - started)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on with a limit on the size and the time of its body.

        Raises:
            ProblemDetails: the request is not allowed, is no JSON, or is too large.
            HTTPException: the body becomes too large or takes too long. FastAPI turns only this
                class into a response while it reads the body.
        """
        headers = Headers(scope=scope)
        address = scope["client"][0] if scope.get("client") else ""
        scope[ROLE] = self._guard.admit(
            scope["method"], scope["path"], headers, address
        )
        length = headers.get("content-length", "0")
        has_body = "transfer-encoding" in headers or length.strip("0") != ""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (
            has_body
            and scope["method"] in ("POST", "PUT", "DELETE", "PATCH")
            and kind != "application/json"
        ):
            raise ProblemDetails(
                415,
                "The body must be JSON. Send the header `Content-Type: application/json` with it.",
            )
        too_large = f"A request may have at most {self._most_bytes} bytes. Send less, or raise --max-mb of the service."
        if length.isdecimal() and int(length[:20]) > self._most_bytes:
            raise ProblemDetails(413, too_large)
        size, until = 0, asyncio.get_running_loop().time() + _SECONDS_FOR_A_BODY

        async def receive_on() -> Message:
            nonlocal size
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408,
                    f"The body did not come within {_SECONDS_FOR_A_BODY:g} s. Send the request again.",
                ) from None
            size += len(message.get("body", b""))
            if size > self._most_bytes:
                raise HTTPException(413, too_large)
            return message

        await self._app(scope, receive_on, send)


# Errors


def problem_response(problem: ProblemDetails) -> Response:
    """A problem as a response, in ASCII."""
    return Response(
        json.dumps(problem.document), problem.status, problem.headers, MEDIA_TYPE
    )


async def _on_error(request: Request, error: Any) -> Response:
    """Respond to an error of asktell.

    Errors of the storage also go to the log, because their response hides the details.
    """
    if isinstance(error, StorageError):
        log.error("%s", safe(str(error)))
    return problem_response(
        error if isinstance(error, ProblemDetails) else problem_of(error)
    )


async def _on_invalid(request: Request, error: Any) -> Response:
    """Respond to a request that does not fit its schema. All alternatives at one place become one part."""
    errors = error.errors()[:50]
    if any(e["type"] == "json_invalid" for e in errors):
        return problem_response(ProblemDetails(400, "The body is not JSON."))
    expected_at: dict[str, dict[str, list[str]]] = {}
    for e in errors:
        # Behind the place in the request, pydantic lists the types that it tried.
        where = ".".join(
            str(part) for part in e["loc"][: 4 if "tells" in e["loc"] else 2]
        )
        expected = _EXPECTED.get(e["type"].partition("_")[0])
        got = f", got {short(e['input'])}" if expected else ""
        words = "is missing" if e["type"] == "missing" else e["msg"]
        expected_at.setdefault(where, {}).setdefault(got, []).append(
            expected
            or words.removeprefix("Value error, ").replace("Input should", "must")
        )
    listed: list[InvalidPart] = [
        {
            "where": where,
            "what": "; or ".join(
                f"must be {' or '.join(dict.fromkeys(words))}{got}"
                if got
                else "; or ".join(dict.fromkeys(words))
                for got, words in parts.items()
            ),
        }
        for where, parts in expected_at.items()
    ]
    # Clients that show only the detail must see every invalid part.
    detail = "; ".join(f"{item['where']}: {item['what']}" for item in listed)
    return problem_response(
        ProblemDetails(422, f"{detail}.", "invalid-argument", errors=listed)
    )


async def _on_http(request: Request, error: Any) -> Response:
    """Respond to errors of the framework, such as an unknown address, in asktell's words."""
    details = {
        400: "The body is not JSON.",
        404: "The service has no such address.",
        405: "This address does not allow this method. The header Allow has the allowed methods.",
    }
    headers = dict(error.headers or {})
    # Starlette lists the methods of the first operation at this address only.
    if error.status_code == 405:
        routes = [
            route
            for route in request.app.routes
            if route.matches(request.scope)[0] is not Match.NONE
        ]
        headers["Allow"] = ", ".join(
            sorted(set().union(*(route.methods for route in routes)))
        )
    detail = details.get(error.status_code, error.detail)
    return problem_response(ProblemDetails(error.status_code, detail, headers=headers))
