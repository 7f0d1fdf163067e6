"""What a browser sees: the studies, each with the panels of its report, live; and where it logs in.

The pages are frames without content: their scripts ask for it, and put it on the screen as text only.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path as FilePath
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import AfterValidator

from asktell.errors import StudyNotFoundError
from asktell.reports import page
from asktell.service.feeds import Feeds, Kept
from asktell.service.overview import Overview, Row
from asktell.service.problems import ProblemDetails
from asktell.service.studies import Studies
from asktell.service.tokens import Role
from asktell.service.visitors import VISITOR, Visitor

_FOLDER = FilePath(__file__).parent / "page"
_JSON = "application/json"
LOOK = "Asktell-Look"
"""The header with the number of a look at who works on a study: `look=` is the last that a page has had, -1: none."""
PACE = "Asktell-Pace"
"""The header that tells a page how many seconds to wait before it looks again."""

StudyName = Annotated[
    str,
    Path(description="The study's name, percent-encoded: `a/b` is `a%2Fb`.", min_length=1),
    AfterValidator(partial(unquote, errors="strict")),
]


@cache
def script(kind: str) -> str:
    """The script of a kind of page: the report's own, or ours with what it needs of that."""
    if kind == "study":
        return page.assets()[1]
    names = ("text.js", "table.js", "session.js") if kind == "studies" else ("text.js",)
    return page.script_of(*(page.FOLDER / name for name in names), _FOLDER / f"{kind}.js")


def html_response(
    kind: str, title: str, attributes: Mapping[str, str], status: int = 200, summary: str = ""
) -> Response:
    """A page; the summary is for who runs no scripts."""
    code = script(kind)
    policy = f"{page.policy(code, True)}; frame-ancestors 'none'"
    headers = {"Content-Security-Policy": policy}
    return Response(page.frame(title, code, summary=summary, attributes=attributes), status, headers, "text/html")


def wants_html(accept: str) -> bool:
    """Whether it is a browser that asks for a page."""
    return "text/html" in accept


def problem_page(path: str, problem: Mapping[str, Any]) -> Response:
    """What went wrong at a path, for people."""
    title, detail, status = problem["title"], problem["detail"], problem["status"]
    home = "../" * (path.count("/") - 1) or "./"
    attributes = {"status": str(status), "title": title, "detail": detail, "home": home}
    return html_response("problem", title, attributes, status, f"{title}\n{detail}")


def add_pages(app: FastAPI, studies: Studies, feeds: Feeds, overview: Overview) -> None:
    """Let an application answer browsers, too."""
    listed: Kept[list[Row]] = Kept(lambda before: overview.look(answers=True))

    @app.get("/", include_in_schema=False)
    async def home(request: Request) -> Response:
        if not wants_html(request.headers.get("accept", "")):
            raise ProblemDetails(404, "There is nothing at this address but a page for browsers; the API is at /v1.")
        return html_response("studies", "Studies", _of(request, "."))

    @app.get("/studies", include_in_schema=False)
    async def list_studies() -> Response:
        content = json.dumps(overview.document(await listed.get()), separators=(",", ":"))
        return Response(content, media_type=_JSON)

    @app.get("/studies/{name}", include_in_schema=False)
    def study(name: StudyName, request: Request) -> Response:
        if name not in studies.names():
            raise StudyNotFoundError(f"There is no study {name!r}.")
        quoted = quote(name, safe="")
        visitor: Visitor = request.scope[VISITOR]
        change = quoted if visitor.role is Role.WRITE else ""
        return html_response("study", name, {"live": f"{quoted}/data", "change": change, **_of(request, "..")})

    @app.get("/studies/{name}/data", include_in_schema=False)
    async def data(
        name: StudyName,
        request: Request,
        version: Annotated[str | None, Query(max_length=200)] = None,
        look: int | None = None,
    ) -> Response:
        newer = await feeds.newer(name, version, look)
        headers = {PACE: f"{feeds.pace.seconds:.1f}"}
        if newer is None:
            return Response(status_code=204, headers=headers)
        headers[LOOK] = str(newer.look)
        if not newer.whole:
            return Response(newer.content, headers=headers, media_type=_JSON)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(newer.content, headers={**headers, "Content-Encoding": "gzip"}, media_type=_JSON)
        return Response(gzip.decompress(newer.content), headers=headers, media_type=_JSON)


def _of(request: Request, up: str) -> dict[str, str]:
    visitor: Visitor = request.scope[VISITOR]
    return {"home": f"{up}/", "logout": f"{up}/logout" if visitor.session else ""}
