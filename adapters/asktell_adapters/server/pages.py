"""Pages for browsers, with the list of studies and the live report of each study.

The pages are frames without content. Their scripts poll for the content, and put it on
the screen as text only, so that no prompt can become HTML.
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
from asktell_adapters.server.auth import ROLE, Role
from asktell_adapters.server.open_studies import OpenStudies
from asktell_adapters.server.problems import ProblemDetails
from asktell_adapters.server.watching import LiveReport

StudyName = Annotated[
    str,
    Path(
        description="The study's name, percent-encoded: `a/b` is `a%2Fb`.", min_length=1
    ),
    AfterValidator(partial(unquote, errors="strict")),
]

_LIST = FilePath(__file__).parent / "studies.js"
_JSON = "application/json"
# Threads of all pages together. Operations have their own threads, so that viewers do
# not slow down workers.
_THREADS = 4
_MOST_LIVE = 32
_LARGE = 10_000  # characters, from which on a report is compressed
# Seconds for a look at all studies. The study that is being read at the end is finished.
_MOST_LOOK = 0.25
_STALE = 2.0  # seconds after which a row is read again
_ANSWERS_NAMED = 3


def page_response(content: str) -> Response:
    """A page. Its policy is in its HTML, except for the part that only a header can have."""
    headers = {"Content-Security-Policy": "frame-ancestors 'none'"}
    return Response(content, 200, headers, "text/html")


def json_response(content: object) -> Response:
    """Data for the script of a page, in ASCII. So any text survives."""
    return Response(json.dumps(content, separators=(",", ":")), media_type=_JSON)


@cache
def list_script() -> str:
    """The script of the list of studies."""
    return reports.script_of("text.js", "table.js", _LIST)


def add_pages(app: FastAPI, studies: OpenStudies, overview: "Overview") -> None:
    """Add the pages to an application.

    Args:
        app: the application.
        studies: the studies.
        overview: rows of the list of studies.
    """
    # All viewers of a study share one report, as long as the study stays open.
    live = lru_cache(_MOST_LIVE)(LiveReport)
    finding_live = Lock()
    limiter = CapacityLimiter(_THREADS)

    @app.get("/", include_in_schema=False)
    async def home(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            raise ProblemDetails(
                404,
                "This address has a page for browsers only. The API is at /v1.",
            )
        return page_response(reports.frame("Studies", list_script()))

    @app.get("/studies", include_in_schema=False)
    async def list_studies() -> Response:
        rows = await to_thread.run_sync(
            partial(overview.look, answers=True), limiter=limiter
        )
        listed = {"n": overview.n_studies, "studies": [_shown(row) for row in rows]}
        return json_response(listed)

    @app.get("/studies/{name}", include_in_schema=False)
    def study(name: StudyName, request: Request) -> Response:
        if name not in studies.names():
            raise StudyNotFoundError(f"The study {name!r} does not exist.")
        quoted = quote(name, safe="")
        change = f"../v1/studies/{quoted}" if request.scope[ROLE] is Role.WRITE else ""
        return page_response(
            reports.render_live(name, f"{quoted}/data", home="../", change=change)
        )

    @app.get("/studies/{name}/data", include_in_schema=False)
    async def data(name: StudyName, request: Request) -> Response:
        def newest(study: Study) -> str:
            # Without the lock, two viewers who come at once would each make a report.
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
    """Compress the data of a report once for all viewers.

    The middleware would compress it for each viewer, in the event loop.
    """
    return gzip.compress(text.encode(), 5)


@dataclass(frozen=True)
class StudyRow:
    """A study in the list.

    Attributes:
        name: the study's name.
        standing: the study's progress, or None if the study cannot be read.
        looked: time at which the study was read.
        answer: ids of the selected prompts, or None if they were not asked for yet.
        done: whether the selection has ended.
        answered: version of the study that `answer` belongs to.
    """

    name: str
    standing: Standing | None
    looked: float
    answer: tuple[str, ...] | None = None
    done: bool = False
    answered: str | None = None


class Overview:
    """All studies, for the list and for Prometheus. Thread-safe.

    A look takes little time for any number of studies, because it renews the oldest rows
    and keeps the others.

    Args:
        studies: the studies.
        clock: returns seconds.

    Attributes:
        n_studies: number of studies in the storage at the latest look.
    """

    def __init__(
        self, studies: OpenStudies, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._studies, self._clock = studies, clock
        # In the order in which the studies were made.
        self._rows: dict[str, StudyRow] = {}
        self._lock = Lock()
        self.n_studies = 0

    def rows(self) -> list[StudyRow]:
        """The rows as last read. The newest study comes last."""
        return list(self._rows.values())

    def look(self, answers: bool = False) -> list[StudyRow]:
        """Renew the oldest rows for a quarter of a second, and return all rows.

        Args:
            answers: also find the selected prompts, which takes longer.
        """
        with self._lock:
            until = self._clock() + _MOST_LOOK
            names = self._studies.names()
            before = self._rows
            rows = dict(before)
            # The oldest rows come first. A study that was never read is older than any
            # other.
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
                    rows[name] = self._renewed(
                        name, row or StudyRow(name, None, now), answers
                    )
            self.n_studies = len(names)
            self._rows = {name: rows[name] for name in names if name in rows}
            return self.rows()

    def _renewed(self, name: str, row: StudyRow, answers: bool) -> StudyRow:
        """Read one study. Find its selected prompts only if its version has changed since."""
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
            # Whatever the error, list the other studies. A request for this study puts
            # its error into the log.
            return StudyRow(name, None, self._clock())


def _part_over(standing: Standing) -> float:
    """The part of a run that is over: by the evaluations or by the money, whichever ends it first."""
    of_evaluations = standing.spent / standing.budget
    of_money = standing.spent_cost / standing.max_cost if standing.max_cost else 0.0
    return min(1.0, max(of_evaluations, of_money))


def _shown(row: StudyRow) -> dict[str, Any]:
    """A row as the JSON that the list's script shows."""
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
        "part": 1.0 if row.done else _part_over(standing),
        "spending": describe_spending(standing),
        "answer": ", ".join(row.answer or ()),
        "workers": standing.workers,
        "failures": standing.failures,
    }
