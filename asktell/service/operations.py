"""The operations of the HTTP API.

Operations on a study are plain functions, which FastAPI runs in a pool of threads.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from anyio import CapacityLimiter, move_on_after, to_thread
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import PlainTextResponse

from asktell import errors, serialization
from asktell._util.terminal import safe
from asktell.problem.candidates import Tell
from asktell.problem.checks import MOST_EVALUATIONS
from asktell.selector import Selector
from asktell.service import schemas
from asktell.service.metrics import CONTENT_TYPE, Metrics
from asktell.service.open_studies import OpenStudies
from asktell.service.pages import Overview, StudyName
from asktell.service.problems import ProblemDetails, kind_of, problem_of
from asktell.studies.study import Study

_T = TypeVar("_T")
_PENDING_SHOWN = 100
_SECONDS_BETWEEN_CHECKS, _SECONDS_FOR_A_CHECK = 2.0, 5.0  # of the storage, for /health
_SECONDS_FOR_A_LOOK = 1.0  # at all studies, for /metrics; then it has what was known before
_PATIENCE = 2.0  # seconds for how the answer settled, in a report
_JSON_LINES_TYPE = "application/jsonl"
_JSON_LINES: dict[str, Any] = {"content": {_JSON_LINES_TYPE: {"schema": {"type": "string"}}}}

log = logging.getLogger("asktell.service")


def answer(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON in ASCII: any text survives, lone surrogates too."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
    return Response(body, status, headers, "application/json")


def add_health(app: FastAPI, studies: OpenStudies, metrics: Metrics, overview: Overview) -> None:
    """The service's own state."""
    check: asyncio.Future[None] | None = None
    checked = 0.0

    @app.get("/health", response_model=schemas.Health)
    async def health() -> Response:
        """Check that studies can be changed now. The storage is checked at most every two seconds."""
        nonlocal check, checked
        now = time.monotonic()
        if check is None or (check.done() and now - checked >= _SECONDS_BETWEEN_CHECKS):
            # With a limiter of its own, as all other threads may be stuck in the storage; one check at a time.
            check = asyncio.ensure_future(to_thread.run_sync(studies.check, limiter=CapacityLimiter(1)))
            checked = now
        if not check.done():
            await asyncio.wait([check], timeout=max(0.0, checked + _SECONDS_FOR_A_CHECK - now))
        if not check.done():
            raise errors.StorageBusyError(
                f"A check of the storage has been running for over {_SECONDS_FOR_A_CHECK:g} s."
            )
        check.result()
        return answer({"status": "ok"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def counts() -> Response:
        """Requests and the progress of studies, in Prometheus' format."""
        # Requests are known even if the storage is gone, or a study is busy for long.
        with suppress(errors.AsktellError), move_on_after(_SECONDS_FOR_A_LOOK):
            await to_thread.run_sync(overview.look, abandon_on_cancel=True)
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def add_studies(app: FastAPI, studies: OpenStudies) -> None:
    """Create, read and delete studies."""

    @app.get("/v1/studies", response_model=schemas.Names)
    def names() -> Response:
        """The names of all studies."""
        return answer({"studies": studies.names()})

    def created(name: str, selector: Selector, max_attempts: int, exist_ok: bool) -> Response:
        if name in (".", ".."):
            raise errors.InvalidArgumentError(
                f"A study in a service cannot be called {name!r}: in an address it gets lost."
            )
        studies.create(name, selector, max_attempts, exist_ok)
        return answer(call(studies, name, info), 201, {"Location": f"/v1/studies/{quote(name, safe='')}"})

    @app.post("/v1/studies", response_model=schemas.Info, status_code=201)
    def create(body: schemas.NewStudy) -> Response:
        """Create a study."""
        return created(body.name, body.selector(), body.max_attempts, body.exist_ok)

    @app.get("/v1/studies/{name}", response_model=schemas.Info)
    def progress(name: StudyName) -> Response:
        """A study's progress."""
        return answer(call(studies, name, info))

    @app.delete("/v1/studies/{name}", status_code=204)
    def delete(name: StudyName) -> Response:
        """Delete a study with all its evaluations."""
        studies.delete(name)
        return Response(status_code=204)

    @app.get("/v1/studies/{name}/selector", response_model=schemas.Saved)
    def selector(name: StudyName) -> Response:
        """The study's current state as a saved selector, for example as a backup."""
        return Response(call(studies, name, lambda study: study.selector.to_json()), media_type="application/json")

    @app.get("/v1/studies/{name}/export", response_class=Response, responses={200: _JSON_LINES})
    def export(name: StudyName) -> Response:
        """The complete study as JSON lines, for `asktell import`."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "study.jsonl"
            call(studies, name, lambda study: study.export(path))
            return Response(path.read_bytes(), media_type=_JSON_LINES_TYPE)

    @app.put("/v1/studies/{name}/selector", response_model=schemas.Info, status_code=201)
    def restore(
        name: StudyName,
        body: schemas.Saved,
        max_attempts: Annotated[int, Query(ge=1, le=MOST_EVALUATIONS)] = 3,
        exist_ok: bool = False,
    ) -> Response:
        """Create a study from a saved selector, in its state. An existing study is never replaced."""
        return created(name, Selector.from_json(body.model_dump()), max_attempts, exist_ok)


def add_trials(app: FastAPI, studies: OpenStudies) -> None:
    """Ask for trials, tell their scores, and release them."""

    @app.post("/v1/studies/{name}/ask", response_model=schemas.Trials)
    def ask(name: StudyName, body: schemas.Ask) -> Response:
        """Get trials to evaluate. A worker gets the trials that it holds, and new ones up to n in total."""

        def operation(study: Study) -> dict[str, Any]:
            trials = study.ask(**body.arguments())
            repeats = [study.repeat_of(trial) for trial in trials]
            asked = {"trials": [trial._asdict() for trial in trials], "done": not trials and study.done}
            if not trials and study.paused:
                asked["paused"] = True
            return {**asked, "repeats": repeats} if any(repeats) else asked

        return answer(call(studies, name, operation))

    @app.post("/v1/studies/{name}/tell", response_model=schemas.Taken)
    def tell(name: StudyName, body: schemas.Tell) -> Response:
        """Tell the scores of a trial. They are on disk when the response arrives; repeating a request is harmless."""
        return answer({"taken": done(studies, name, Study.tell, body)})

    @app.post("/v1/studies/{name}/tell-many", response_model=schemas.Outcomes)
    def tell_many(name: StudyName, body: schemas.TellMany) -> Response:
        """Tell the scores of several trials in one transaction. An error in one does not affect the others."""
        tells = [Tell(**score.arguments()) for score in body.tells]

        def operation(study: Study) -> Sequence[bool | Exception]:
            try:
                return study.tell_many(tells, worker=body.worker)
            except errors.TellManyError as error:
                return error.outcomes

        return answer({"outcomes": [_outcome(each) for each in call(studies, name, operation)]})

    @app.post("/v1/studies/{name}/observe", response_model=schemas.Taken)
    def observe(name: StudyName, body: schemas.Observe) -> Response:
        """Add scores from elsewhere: they improve the estimates and do not count towards the budget."""
        return answer({"taken": done(studies, name, Study.observe, body)})

    @app.post("/v1/studies/{name}/release", response_model=schemas.Taken)
    def release(name: StudyName, body: schemas.Release) -> Response:
        """Return a trial unevaluated; it will be asked again under the same id."""
        return answer({"taken": done(studies, name, Study.release, body)})

    @app.post("/v1/studies/{name}/fail", response_model=schemas.Taken)
    def fail(name: StudyName, body: schemas.Fail) -> Response:
        """Record a failed evaluation. A prompt that fails too often is eliminated."""
        return answer({"taken": done(studies, name, Study.fail, body)})

    @app.post("/v1/studies/{name}/heartbeat", response_model=schemas.Held)
    def heartbeat(name: StudyName, body: schemas.Heartbeat) -> Response:
        """Extend a worker's leases to `lease` seconds from now, and get the trials that it still holds."""
        return answer({"trials": [trial._asdict() for trial in done(studies, name, Study.heartbeat, body)]})


def add_growth(app: FastAPI, studies: OpenStudies) -> None:
    """Add and retire prompts, extend the budget, pause and resume."""

    def changed(name: str, change: Callable[..., None], body: schemas.StrictRequest) -> Response:
        done(studies, name, change, body)
        return answer(call(studies, name, info))

    @app.post("/v1/studies/{name}/add", response_model=schemas.Joined)
    def add(name: StudyName, body: schemas.Add) -> Response:
        """Add prompts. A study that was done continues with them while its budget lasts."""
        return answer({"ids": done(studies, name, Study.add, body)})

    @app.post("/v1/studies/{name}/retire", response_model=schemas.Info)
    def retire(name: StudyName, body: schemas.Retire) -> Response:
        """Retire a prompt: it is not asked again and cannot be the answer. Returns the study's progress."""
        return changed(name, Study.retire, body)

    @app.post("/v1/studies/{name}/extend", response_model=schemas.Info)
    def extend(name: StudyName, body: schemas.Extend) -> Response:
        """Add budget or examples. A study that was done continues. Returns the study's progress."""
        return changed(name, Study.extend, body)

    @app.post("/v1/studies/{name}/remark", response_model=schemas.Info)
    def remark(name: StudyName, body: schemas.Remark) -> Response:
        """Have results say something of the scores. Returns the study's progress."""
        return changed(name, Study.remark, body)

    @app.post("/v1/studies/{name}/pause", response_model=schemas.Info)
    def pause(name: StudyName, body: schemas.Nothing) -> Response:
        """Pause a study: no trials are handed out until it is resumed. Pending trials can still be told."""
        return changed(name, Study.pause, body)

    @app.post("/v1/studies/{name}/resume", response_model=schemas.Info)
    def resume(name: StudyName, body: schemas.Nothing) -> Response:
        """Resume a paused study."""
        return changed(name, Study.resume, body)


def add_results(app: FastAPI, studies: OpenStudies) -> None:
    """Read results."""

    @app.get("/v1/studies/{name}/examples", response_model=schemas.ExampleIds)
    def examples(name: StudyName) -> Response:
        """The ids of the examples, with which a worker can check its data set."""
        ids = call(studies, name, lambda study: study.example_ids)
        return answer({"ids": None if ids is None else list(ids)})

    @app.get("/v1/studies/{name}/workers", response_model=schemas.Workers)
    def workers(name: StudyName) -> Response:
        """The pending trials and the workers that hold them."""
        holdings = call(studies, name, lambda study: study.workers())
        return answer({"holdings": [{**holding._asdict(), "trial": holding.trial._asdict()} for holding in holdings]})

    @app.get("/v1/studies/{name}/result", response_model=schemas.ResultModel)
    def result(name: StudyName) -> Response:
        """The current answer; final if `done`."""
        found = call(studies, name, lambda study: study.result())
        return answer({**found.to_dict(), "examples": found.examples})

    @app.get("/v1/studies/{name}/evaluations", response_model=schemas.Evaluations)
    def evaluations(name: StudyName, query: Annotated[schemas.EvaluationsQuery, Query()]) -> Response:
        """Evaluations in the order in which they were told, `n` at a time."""
        found = call(studies, name, lambda study: list(islice(study.evaluations(query.after), query.n)))
        return answer({"evaluations": [each._asdict() for each in found]})

    @app.get("/v1/studies/{name}/report", response_model=schemas.Report)
    def report(name: StudyName) -> Response:
        """The data of the study's report as JSON."""
        return answer(call(studies, name, lambda study: study.report_data(patience=_PATIENCE)))

    @app.get("/v1/studies/{name}/compare", response_model=schemas.ComparisonModel)
    def compare(name: StudyName, query: Annotated[schemas.CompareQuery, Query()], request: Request) -> Response:
        """Compare prompt a with prompt b; see `asktell.Result.compare`."""
        asked = *query.with_surrogates(request.scope["query_string"]).prompts(), query.confidence, query.tolerance
        return answer(call(studies, name, lambda study: study.compare(*asked).to_dict()))


def call(studies: OpenStudies, name: str, operation: Callable[[Study], _T]) -> _T:
    """Call an operation on a study. Problems of unknown trials list the pending ones; damage is logged."""

    def attempt(study: Study) -> _T:
        try:
            return operation(study)
        except errors.UnknownTrialError as error:
            pending = [trial.id for trial in study.pending[:_PENDING_SHOWN]]
            raise problem_of(error, pending=pending) from error

    try:
        return studies.call(name, attempt)
    except errors.MissingMethodError:
        raise
    except errors.InvalidStateError as error:
        log.error("study %s: %s", safe(repr(name)), safe(str(error)))
        detail = "The study cannot be read; the service's log says why."
        raise ProblemDetails(503, detail, kind_of(errors.InvalidStateError), {"Retry-After": "60"}) from error


def done(studies: OpenStudies, name: str, method: Callable[..., _T], body: schemas.StrictRequest) -> _T:
    """Call a method of a study with what a request says."""
    arguments = body.arguments()
    return call(studies, name, lambda study: method(study, **arguments))


def info(study: Study) -> dict[str, Any]:
    """A study's progress."""
    definition = {"goal": serialization.dump_goal(study.goal), "method": serialization.dump_part(study.method)}
    selector = study.selector
    problem = selector.state.problem
    return {
        "name": study.name,
        "metrics": list(study.metrics),
        "goal": str(study.goal),
        "budget": study.budget,
        "spent_cost": study.spent_cost,
        "max_cost": study.max_cost,
        "done": study.done,
        "paused": study.paused,
        "spent": study.spent,
        "pending": len(study.pending),
        "active": study.n_active,
        "examples": problem.n_examples,
        "repeats": problem.repeats,
        "baseline": None if problem.baseline is None else selector.prompts.ids[problem.baseline],
        "definition": definition,
    }


def _outcome(outcome: bool | Exception) -> dict[str, Any]:
    if isinstance(outcome, errors.AsktellError):
        return {"taken": False, "problem": problem_of(outcome).document}
    if isinstance(outcome, Exception):
        raise outcome
    return {"taken": outcome, "problem": None}
