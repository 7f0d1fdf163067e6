"""The page on which people label responses, and the requests that it sends.

The page is a frame without content, as all pages are. What it is sent has no id of a
prompt, an example or a trial: an item is known by a digest that only this server can make.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Annotated, Any
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from asktell.extend import reports
from asktell_adapters.server.labeling import Labeling
from asktell_adapters.server.pages import StudyName, json_response, page_response
from asktell_adapters.server.problems import ProblemDetails
from asktell_adapters.server.requests import StrictRequest

_SCRIPT = FilePath(__file__).parent / "label.js"
# Raters wait for each other no longer than for an item.
_THREADS = 32
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class _FromRater(StrictRequest):
    """A request of a rater."""

    rater: _Text


class _AboutItem(_FromRater):
    """A request about one item."""

    item: _Text


class _OfLabel(_AboutItem):
    """A label."""

    choice: Annotated[int, Field(ge=0, le=100)]
    """Position among the labels on the page."""
    seconds: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Time that the rater took."""


@cache
def label_script() -> str:
    """The script of the label page."""
    return reports.script_of("text.js", _SCRIPT)


def add_labels(
    app: FastAPI, labelings: Mapping[str, Labeling], home: bool = False
) -> None:
    """Add the label pages to an application.

    Args:
        app: the application.
        labelings: the raters of each study, by the study's name.
        home: whether the application has nothing else, so that its home is the page.
    """
    limiter = CapacityLimiter(_THREADS)

    def labeling_of(name: str) -> Labeling:
        labeling = labelings.get(name)
        if labeling is None:
            raise ProblemDetails(
                404,
                "Nothing is to be labeled in this study. To let people label it, start the service with --label "
                "CONFIG.toml.",
            )
        return labeling

    async def answer(call: Callable[[], dict[str, Any]]) -> Response:
        return json_response(await to_thread.run_sync(call, limiter=limiter))

    if home:

        @app.get("/", include_in_schema=False)
        async def first() -> Response:
            [name] = labelings
            return RedirectResponse(f"studies/{quote(name, safe='')}/label")

    @app.get("/studies/{name}/label", include_in_schema=False)
    async def page(name: StudyName) -> Response:
        task = labeling_of(name).task
        data = {
            "question": task.question,
            "labels": task.choices,
            "comparison": task.is_comparison,
        }
        return page_response(
            reports.frame("Labels", label_script(), reports.encode(data)),
        )

    @app.post("/studies/{name}/label/next", include_in_schema=False)
    async def look(name: StudyName, body: _FromRater) -> Response:
        return await answer(lambda: labeling_of(name).next(body.rater))

    @app.post("/studies/{name}/label/tell", include_in_schema=False)
    async def label(name: StudyName, body: _OfLabel) -> Response:
        return await answer(
            lambda: labeling_of(name).label(
                body.rater, body.item, body.choice, body.seconds
            )
        )

    @app.post("/studies/{name}/label/skip", include_in_schema=False)
    async def skip(name: StudyName, body: _AboutItem) -> Response:
        return await answer(lambda: labeling_of(name).skip(body.rater, body.item))

    @app.post("/studies/{name}/label/undo", include_in_schema=False)
    async def undo(name: StudyName, body: _FromRater) -> Response:
        return await answer(lambda: labeling_of(name).undo(body.rater))

    @app.post("/studies/{name}/label/again", include_in_schema=False)
    async def again(name: StudyName, body: _FromRater) -> Response:
        return await answer(lambda: labeling_of(name).again(body.rater))
