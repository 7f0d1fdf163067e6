"""Pages for browsers: the list of studies, and each study's report, live.

The pages are frames without content: their scripts poll for it, and put it on the
screen as text only.
"""

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path as FilePath
from threading import Lock
from typing import Annotated, Any
from urllib.parse import quote, unquote

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Path, Request, Response
from pydantic import AfterValidator

from asktell import Study, StudyNotFoundError
from asktell.extend import Standing, describe_spending, reports
from asktell_adapters.server.auth import Role
from asktell_adapters.server.open_studies import OpenStudies
from asktell_adapters.server.problems import ProblemDetails
from asktell_adapters.server.watching import LiveReport

ROLE = "asktell.role"
"""Key of a request's role in its scope."""

StudyName = Annotated[
    str,
    Path(
        description="The study's name, percent-encoded: `a/b` is `a%2Fb`.", min_length=1
    ),
    AfterValidator(partial(unquote, errors="strict")),
]

_LIST = FilePath(__file__).parent / "studies.js"
_JSON = "application/json"
# Of the pages together, apart from those of the operations: viewers must not slow down
# workers
_THREADS = 4
_MOST_LIVE = 32
_LARGE = 10_000  # characters
# Seconds for a look at all studies, and the time of the study it ends with
_MOST_LOOK = 0.25
_STALE = 2.0  # seconds
_ANSWERS_NAMED = 3


@cache
def list_script() -> str:
    """The script of the list of studies."""
    return reports.script_of("text.js", "table.js", _LIST)


def add_pages(app: FastAPI, studies: OpenStudies, overview: "Overview") -> None:
    """Add the pages to an application."""
    # One for all viewers of a study, as long as the study stays open
    live = lru_cache(_MOST_LIVE)(LiveReport)
    finding_live = Lock()
    limiter = CapacityLimiter(_THREADS)

    # Its policy is in it, except for what only a header can say
    def html(content: str) -> Response:
        return Response(
            content,
            200,
            {"Content-Security-Policy": "frame-ancestors 'none'"},
            "text/html",
        )

    @app.get("/", include_in_schema=False)
    async def home(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            raise ProblemDetails(
                404,
                "There is nothing at this address but a page for browsers; the API is at /v1.",
            )
        return html(reports.frame("Studies", list_script()))

    @app.get("/studies", include_in_schema=False)
    async def list_studies() -> Response:
        rows = await to_thread.run_sync(
            partial(overview.look, answers=True), limiter=limiter
        )
        listed = {"n": overview.n_studies, "studies": [_shown(row) for row in rows]}
        return Response(json.dumps(listed, separators=(",", ":")), media_type=_JSON)

    @app.get("/studies/{name}", include_in_schema=False)
    def study(name: StudyName, request: Request) -> Response:
        if name not in studies.names():
            raise StudyNotFoundError(f"There is no study {name!r}.")
        quoted = quote(name, safe="")
        change = f"../v1/studies/{quoted}" if request.scope[ROLE] is Role.WRITE else ""
        return html(
            reports.render_live(name, f"{quoted}/data", home="../", change=change)
        )

    @app.get("/studies/{name}/data", include_in_schema=False)
    async def data(name: StudyName, request: Request) -> Response:
        def newest(study: Study) -> str:
            # Or two viewers who come at once would each have one made
            with finding_live:
                report = live(study)
            return report.text()

        def answer() -> Response:
            text = studies.call(name, newest)
            if len(text) < _LARGE or "gzip" not in request.headers.get(
                "accept-encoding", ""
            ):
                return Response(text, media_type=_JSON)
            return Response(
                _compressed(text),
                headers={"Content-Encoding": "gzip"},
                media_type=_JSON,
            )

        return await to_thread.run_sync(answer, limiter=limiter)


@lru_cache(maxsize=8)
def _compressed(text: str) -> bytes:
    """A report's data by gzip, once for all viewers; the middleware would do it for each, in the event loop."""
    return gzip.compress(text.encode(), 5)


@dataclass(frozen=True)
class Row:
    """A study in the list."""

    name: str
    standing: Standing | None  # None if it cannot be read
    looked: float  # time of the look that found it
    answer: tuple[str, ...] | None = None  # ids of its answer; None if not wanted yet
    done: bool = False  # whether the answer is final
    answered: str | None = None  # version whose answer that is


class Overview:
    """All studies, for the list and for Prometheus; for several threads.

    However many there are, a look takes little time: it renews the oldest rows, and
    keeps the others.
    """

    def __init__(
        self, studies: OpenStudies, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._studies, self._clock = studies, clock
        self._rows: dict[str, Row] = {}  # in the order in which the studies were made
        self._lock = Lock()
        self.n_studies = 0

    def rows(self) -> list[Row]:
        """The rows known so far, the newest study last."""
        return list(self._rows.values())

    def look(self, answers: bool = False) -> list[Row]:
        """Renew the oldest rows, with their answers if they are wanted, as far as the time goes."""
        with self._lock:
            until, names, before = (
                self._clock() + _MOST_LOOK,
                self._studies.names(),
                self._rows,
            )
            found = dict(before)
            for name in sorted(
                names, key=lambda name: before[name].looked if name in before else -1.0
            ):
                now, row = self._clock(), before.get(name)
                if now >= until:
                    break
                if (
                    row is None
                    or now - row.looked >= _STALE
                    or (answers and row.standing and row.answered is None)
                ):
                    found[name] = self._renewed(
                        name, row or Row(name, None, now), answers
                    )
            self.n_studies = len(names)
            self._rows = {name: found[name] for name in names if name in found}
            return self.rows()

    def _renewed(self, name: str, row: Row, answers: bool) -> Row:
        try:
            standing = self._studies.call(
                name, lambda study: study.standing, keep=False
            )
            row = replace(row, standing=standing, looked=self._clock())
            if answers and row.answered != standing.version:
                result = self._studies.call(
                    name, lambda study: study.result(), keep=False
                )
                ids = [str(prompt.id) for prompt in result.selected]
                more = (
                    (f"and {len(ids) - _ANSWERS_NAMED} more",)
                    if len(ids) > _ANSWERS_NAMED
                    else ()
                )
                answer = (*ids[:_ANSWERS_NAMED], *more)
                row = replace(
                    row, answer=answer, done=result.done, answered=standing.version
                )
            return row
        except Exception:
            # Of any kind: the others are still listed; the log has it once the study
            # itself is asked for
            return Row(name, None, self._clock())


def _shown(row: Row) -> dict[str, Any]:
    standing = row.standing
    if standing is None:
        return {
            "name": row.name,
            "state": "cannot be read",
            "part": 0.0,
            "spending": "",
            "answer": "",
            "failures": 0,
        }
    return {
        "name": row.name,
        "state": "done"
        if row.done
        else "paused"
        if standing.paused
        else "at work"
        if standing.pending
        else "waits",
        "part": standing.spent / standing.budget,
        "spending": describe_spending(standing),
        "answer": ", ".join(row.answer or ()),
        "workers": standing.workers,
        "failures": standing.failures,
    }
