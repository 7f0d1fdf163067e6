"""The operations of the service.

Those that touch a study are plain functions, so that they run in a pool of threads; the others need none.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from asktell import records
from asktell.arguments import MOST_EVALUATIONS
from asktell.errors import AsktellError, InvalidArgumentError, InvalidStateError, StorageError, UnknownTrialError
from asktell.selector import Selector
from asktell.service import growth_models, models
from asktell.service.feeds import Feeds, Kept
from asktell.service.health import Health
from asktell.service.metrics import CONTENT_TYPE, Metrics
from asktell.service.openapi import describe
from asktell.service.overview import Overview, Row
from asktell.service.pages import StudyName, add_pages
from asktell.service.problems import MEDIA_TYPE, ProblemDetails, damaged, problem_of
from asktell.service.studies import Studies
from asktell.studies.study import Study
from asktell.terminal import safe
from asktell.trial import Trial

_T = TypeVar("_T")
_PENDING_SHOWN = 100
_SECONDS_FOR_A_LOOK = 1.0  # at all studies, for /metrics; then it has what was known before
_JSON_LINES_TYPE = "application/jsonl"
_JSON_LINES: dict[str, Any] = {"content": {_JSON_LINES_TYPE: {"schema": {"type": "string"}}}}

log = logging.getLogger("asktell.service")


def answer(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON in ASCII: any text survives, lone surrogates too."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
    return Response(body, status, headers, "application/json")


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
    looks: Kept[list[Row]] = Kept(lambda before: overview.look())
    metrics.show(overview.rows)
    app = FastAPI(title="asktell", version=version("asktell"), docs_url=None, redoc_url=None)

    def call(name: str, operation: Callable[[Study], _T]) -> _T:
        def attempt(study: Study) -> _T:
            try:
                return operation(study)
            except UnknownTrialError as error:
                pending = [trial.id for trial in study.pending[:_PENDING_SHOWN]]
                raise problem_of(error, pending=pending) from error

        try:
            return studies.call(name, attempt)
        except InvalidStateError as error:
            log.error("study %s: %s", safe(repr(name)), safe(str(error)))
            raise damaged(error) from error

    @app.get("/health", response_model=models.Health)
    async def health() -> Response:
        """Whether the service runs and studies can be changed now; found out at most every two seconds."""
        await storage.confirm()
        return answer({"status": "ok"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def counts() -> Response:
        """What was counted and measured, and how far the studies are, in Prometheus' format."""
        # What was counted is known even if the storage is gone, or a study is busy for long.
        with suppress(AsktellError, TimeoutError):
            await asyncio.wait_for(looks.get(wait=True), _SECONDS_FOR_A_LOOK)
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/v1/studies", response_model=models.Names)
    def names() -> Response:
        """The names of all studies."""
        return answer({"studies": studies.names()})

    def created(name: str, selector: Selector, max_attempts: int, exist_ok: bool) -> Response:
        if name in (".", ".."):
            raise InvalidArgumentError(f"A study in a service cannot be called {name!r}: in an address it gets lost.")
        studies.create(name, selector, max_attempts, exist_ok)
        return answer(call(name, info), 201, {"Location": f"/v1/studies/{quote(name, safe='')}"})

    @app.post("/v1/studies", response_model=models.Info, status_code=201)
    def create(body: models.NewStudy) -> Response:
        """Make a study."""
        return created(body.name, body.selector(), body.max_attempts, body.exist_ok)

    @app.get("/v1/studies/{name}", response_model=models.Info)
    def progress(name: StudyName) -> Response:
        """How far a study is."""
        return answer(call(name, info))

    @app.delete("/v1/studies/{name}", status_code=204)
    def delete(name: StudyName) -> Response:
        """Remove a study, with everything that was told."""
        studies.delete(name)
        feeds.forget(name)
        return Response(status_code=204)

    @app.get("/v1/studies/{name}/selector", response_model=models.Saved)
    def selector(name: StudyName) -> Response:
        """The study's present state as a saved selector: a backup that any asktell can load."""
        return Response(call(name, lambda study: study.selector.to_json()), media_type="application/json")

    @app.get("/v1/studies/{name}/export", response_class=Response, responses={200: _JSON_LINES})
    def export(name: StudyName) -> Response:
        """Everything about the study, as JSON lines that `asktell import` makes a study of."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "study.jsonl"
            call(name, lambda study: study.export(path))
            return Response(path.read_bytes(), media_type=_JSON_LINES_TYPE)

    @app.put("/v1/studies/{name}/selector", response_model=models.Info, status_code=201)
    def restore(
        name: StudyName,
        body: models.Saved,
        max_attempts: Annotated[int, Query(ge=1, le=MOST_EVALUATIONS)] = 3,
        exist_ok: bool = False,
    ) -> Response:
        """Make a study of a saved selector; it starts where that one stands. An existing one is never replaced."""
        return created(name, Selector.from_data(body.model_dump()), max_attempts, exist_ok)

    @app.post("/v1/studies/{name}/ask", response_model=models.Trials)
    def ask(name: StudyName, body: models.Ask) -> Response:
        """What to evaluate now. A worker gets back what it holds already, and is topped up to n."""

        def operation(study: Study) -> dict[str, Any]:
            if body.besides and body.worker is None:
                raise InvalidArgumentError("Only a worker can be busy with trials: give its name.")
            trials = study.ask(body.n, worker=body.worker, lease=body.lease, besides=body.besides)
            repeats = [study.repeat_of(trial) for trial in trials]
            asked = {"trials": [trial._asdict() for trial in trials], "done": not trials and study.done}
            return {**asked, "repeats": repeats} if any(repeats) else asked

        return answer(call(name, operation))

    @app.post("/v1/studies/{name}/tell", response_model=models.Taken)
    def tell(name: StudyName, body: models.Tell) -> Response:
        """Take the scores of a trial. When the answer comes they are on the disk; the same ones again do no harm."""
        return answer({"taken": call(name, lambda study: _tell(study, body, body.worker))})

    @app.post("/v1/studies/{name}/tell-many", response_model=models.Outcomes)
    def tell_many(name: StudyName, body: models.TellMany) -> Response:
        """Take the scores of several trials, each by itself: what is wrong with one is no harm to the others."""

        def operation(study: Study) -> list[dict[str, Any]]:
            outcomes: list[dict[str, Any]] = []
            for score in body.tells:
                try:
                    outcomes.append({"taken": _tell(study, score, body.worker), "problem": None})
                except StorageError:
                    raise
                except AsktellError as error:
                    outcomes.append({"taken": False, "problem": problem_of(error).document})
            return outcomes

        return answer({"outcomes": call(name, operation)})

    @app.post("/v1/studies/{name}/observe", status_code=204)
    def observe(name: StudyName, body: models.Observe) -> Response:
        """Take scores from elsewhere: they inform the estimates, and are no evaluation of the budget."""
        call(name, lambda study: study.observe(body.prompt, body.scores, body.example, body.cost))
        return Response(status_code=204)

    @app.post("/v1/studies/{name}/release", response_model=models.Taken)
    def release(name: StudyName, body: models.Release) -> Response:
        """Hand a trial back unevaluated; it will be asked again, under the same id."""
        return answer({"taken": call(name, lambda study: study.release(_trial(body.trial), worker=body.worker))})

    @app.post("/v1/studies/{name}/fail", response_model=models.Taken)
    def fail(name: StudyName, body: models.Fail) -> Response:
        """Count a failed evaluation; the prompt goes on with its next example, or leaves the race."""

        def count(study: Study) -> bool:
            return study.fail(_trial(body.trial), body.reason, body.cost, worker=body.worker, details=body.details)

        taken = call(name, count)
        return answer({"taken": taken})

    @app.post("/studies/{name}/add", include_in_schema=False)
    @app.post("/v1/studies/{name}/add", response_model=growth_models.Joined)
    def add(name: StudyName, body: growth_models.Add) -> Response:
        """Let prompts join. A study that was done goes on with them, as far as its budget goes."""
        return answer({"ids": call(name, lambda study: study.add(body.prompts, body.features, key=body.key))})

    @app.post("/studies/{name}/retire", include_in_schema=False)
    @app.post("/v1/studies/{name}/retire", response_model=models.Info)
    def retire(name: StudyName, body: growth_models.Retire) -> Response:
        """Take a prompt out: it is asked for no more, and is no answer. How far the study is then."""
        call(name, lambda study: study.retire(body.prompt, body.reason, key=body.key))
        return answer(call(name, info))

    @app.post("/studies/{name}/extend", include_in_schema=False)
    @app.post("/v1/studies/{name}/extend", response_model=models.Info)
    def extend(name: StudyName, body: growth_models.Extend) -> Response:
        """More budget, or more examples. A study that was done goes on. How far it is then."""
        call(name, lambda study: study.extend(body.evaluations, body.cost, body.examples, key=body.key))
        return answer(call(name, info))

    @app.post("/v1/studies/{name}/heartbeat", response_model=models.Held)
    def heartbeat(name: StudyName, body: models.Heartbeat) -> Response:
        """Extend a worker's leases to `lease` seconds from now; what it still holds."""
        trial = None if body.trial is None else _trial(body.trial)
        held = call(name, lambda study: study.heartbeat(body.worker, trial, lease=body.lease))
        return answer({"trials": [trial._asdict() for trial in held]})

    @app.get("/v1/studies/{name}/examples", response_model=models.ExampleIds)
    def examples(name: StudyName) -> Response:
        """The examples' ids, for a worker to see that its data set is the study's."""
        ids = call(name, lambda study: study.example_ids)
        return answer({"ids": None if ids is None else list(ids)})

    @app.get("/v1/studies/{name}/workers", response_model=models.Workers)
    def workers(name: StudyName) -> Response:
        """The trials that are out, and who holds them."""
        holdings = call(name, lambda study: study.workers())
        return answer({"holdings": [{**holding._asdict(), "trial": holding.trial._asdict()} for holding in holdings]})

    @app.get("/v1/studies/{name}/result", response_model=models.ResultModel)
    def result(name: StudyName) -> Response:
        """The answer so far, final if `done`."""
        found = call(name, lambda study: study.result())
        return answer({**found.to_dict(), "examples": found.examples})

    @app.get("/v1/studies/{name}/compare", response_model=models.ComparisonModel)
    def compare(name: StudyName, query: Annotated[models.Compare, Query()]) -> Response:
        """How far prompt a is ahead of prompt b, and how sure that is; see `asktell.Result.compare`."""
        asked = query.a, query.b, query.confidence, query.tolerance
        return answer(call(name, lambda study: study.compare(*asked).to_dict()))

    add_pages(app, feeds, overview)
    app.add_exception_handler(ProblemDetails, _on_problem)
    app.add_exception_handler(AsktellError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_bug)
    describe(app, with_tokens)
    return app


def info(study: Study) -> dict[str, Any]:
    """How far a study is."""
    definition = {"goal": records.dump_goal(study.goal), "method": records.dump_part(study.method)}
    return {
        "name": study.name,
        "metrics": list(study.metrics),
        "goal": str(study.goal),
        "budget": study.budget,
        "cost": study.cost,
        "max_cost": study.max_cost,
        "spending": study.spending,
        "done": study.done,
        "spent": study.spent,
        "pending": len(study.pending),
        "active": study.n_active,
        "definition": definition,
    }


def _trial(trial: int | str | models.TrialReference) -> Trial | int | str:
    return trial.trial() if isinstance(trial, models.TrialReference) else trial


def _tell(study: Study, score: models.Score, worker: str | None) -> bool:
    return study.tell(_trial(score.trial), score.scores, score.cost, worker=worker, details=score.details)


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
