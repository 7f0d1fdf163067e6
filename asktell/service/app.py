"""The application: its operations, its pages, and what it answers when something goes wrong."""

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from asktell._util.extras import own_version
from asktell._util.terminal import safe
from asktell.errors import AsktellError, StorageError
from asktell.service.feeds import Feeds
from asktell.service.health import Health
from asktell.service.metrics import Metrics
from asktell.service.openapi import describe
from asktell.service.operations import add_growth, add_health, add_results, add_studies, add_trials
from asktell.service.overview import Overview
from asktell.service.pages import add_pages
from asktell.service.problems import MEDIA_TYPE, ProblemDetails, problem_of
from asktell.service.studies import Studies

log = logging.getLogger("asktell.service")


def make_app(studies: Studies, metrics: Metrics, with_tokens: bool, storage: Health | None = None) -> FastAPI:
    """The operations on these studies, behind nothing: see `asktell.service.gate`.

    Args:
        studies: that it serves.
        metrics: that it shows.
        with_tokens: whether its document tells of tokens.
        storage: what /health asks; by default whether the studies can be changed.
    """
    storage = storage or Health(studies.check)
    feeds, overview = Feeds(studies), Overview(studies)
    app = FastAPI(title="asktell", version=own_version(), docs_url=None, redoc_url=None)
    add_health(app, metrics, storage, overview)
    add_studies(app, studies, feeds)
    add_trials(app, studies)
    add_growth(app, studies)
    add_results(app, studies)
    add_pages(app, studies, feeds, overview)
    app.add_exception_handler(ProblemDetails, _on_problem)
    app.add_exception_handler(AsktellError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_bug)
    describe(app, with_tokens)
    return app


# What goes wrong


def problem_response(problem: ProblemDetails) -> Response:
    """A problem as an answer."""
    return Response(problem.body(), problem.status, problem.headers, MEDIA_TYPE)


async def _on_problem(request: Request, error: Any) -> Response:
    return problem_response(error)


async def _on_error(request: Request, error: Any) -> Response:
    if isinstance(error, StorageError):
        log.error("%s", safe(str(error)))
    return problem_response(problem_of(error))


async def _on_invalid(request: Request, error: Any) -> Response:
    errors = error.errors()[:50]
    if any(e["type"] == "json_invalid" for e in errors):
        return problem_response(ProblemDetails(400, "The body is not JSON."))
    found: dict[str, list[str]] = {}
    for e in errors:
        # What follows names the alternatives that were tried.
        where = ".".join(str(part) for part in e["loc"][: 4 if "tells" in e["loc"] else 2])
        found.setdefault(where, []).append(e["msg"].removeprefix("Value error, "))
    listed = [{"where": where, "what": " / ".join(dict.fromkeys(what))} for where, what in found.items()]
    detail = "; ".join(f"{item['where']}: {item['what']}" for item in listed)
    return problem_response(ProblemDetails(422, f"{detail}.", "invalid-argument", errors=listed))


async def _on_http(request: Request, error: Any) -> Response:
    detail = {404: "There is nothing at this address.", 405: "This address does not know this method."}
    text = detail.get(error.status_code, "The body cannot be read as JSON.")
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the framework names the methods of the first operation only
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        headers["Allow"] = ", ".join(sorted(set().union(*(route.methods for route in routes))))
    return problem_response(ProblemDetails(error.status_code, text, headers=headers))


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("An error of the service", exc_info=error)
    return problem_response(ProblemDetails(500, "An error of the service; its log says more."))
