"""The operations of the service.

Those that touch a study are plain functions, so that they run in a pool of threads; the others need none.
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
from fastapi import FastAPI, Query, Response
from fastapi.responses import PlainTextResponse

from asktell import serialization
from asktell._util.terminal import safe
from asktell.errors import (
    AsktellError,
    InvalidArgumentError,
    InvalidStateError,
    StorageBusyError,
    TellManyError,
    UnknownTrialError,
)
from asktell.problem.candidates import Tell, Trial
from asktell.problem.checks import MOST_EVALUATIONS
from asktell.selector import Selector
from asktell.service import schemas
from asktell.service.metrics import CONTENT_TYPE, Metrics
from asktell.service.open_studies import OpenStudies
from asktell.service.pages import Overview, StudyName
from asktell.service.problems import damaged, problem_of
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
        """Whether the service runs and studies can be changed now; found out at most every two seconds."""
        nonlocal check, checked
        now = time.monotonic()
        if check is None or (check.done() and now - checked >= _SECONDS_BETWEEN_CHECKS):
            # With a limiter of its own, as all other threads may be stuck in the storage; one check at a time.
            check = asyncio.ensure_future(to_thread.run_sync(studies.check, limiter=CapacityLimiter(1)))
            checked = now
        if not check.done():
            await asyncio.wait([check], timeout=max(0.0, checked + _SECONDS_FOR_A_CHECK - now))
        if not check.done():
            raise StorageBusyError(f"A check of the storage has been running for over {_SECONDS_FOR_A_CHECK:g} s.")
        check.result()
        return answer({"status": "ok"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def counts() -> Response:
        """Requests and the progress of studies, in Prometheus' format."""
        # Requests are known even if the storage is gone, or a study is busy for long.
        with suppress(AsktellError), move_on_after(_SECONDS_FOR_A_LOOK):
            await to_thread.run_sync(overview.look, abandon_on_cancel=True)
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def add_studies(app: FastAPI, studies: OpenStudies) -> None:
    """OpenStudies are made, looked at and removed."""

    @app.get("/v1/studies", response_model=schemas.Names)
    def names() -> Response:
        """The names of all studies."""
        return answer({"studies": studies.names()})

    def created(name: str, selector: Selector, max_attempts: int, exist_ok: bool) -> Response:
        if name in (".", ".."):
            raise InvalidArgumentError(f"A study in a service cannot be called {name!r}: in an address it gets lost.")
        studies.create(name, selector, max_attempts, exist_ok)
        return answer(call(studies, name, info), 201, {"Location": f"/v1/studies/{quote(name, safe='')}"})

    @app.post("/v1/studies", response_model=schemas.Info, status_code=201)
    def create(body: schemas.NewStudy) -> Response:
        """Make a study."""
        return created(body.name, body.selector(), body.max_attempts, body.exist_ok)

    @app.get("/v1/studies/{name}", response_model=schemas.Info)
    def progress(name: StudyName) -> Response:
        """How far a study is."""
        return answer(call(studies, name, info))

    @app.delete("/v1/studies/{name}", status_code=204)
    def delete(name: StudyName) -> Response:
        """Remove a study, with everything that was told."""
        studies.delete(name)
        return Response(status_code=204)

    @app.get("/v1/studies/{name}/selector", response_model=schemas.Saved)
    def selector(name: StudyName) -> Response:
        """The study's present state as a saved selector: a backup that any asktell can load."""
        return Response(call(studies, name, lambda study: study.selector.to_json()), media_type="application/json")

    @app.get("/v1/studies/{name}/export", response_class=Response, responses={200: _JSON_LINES})
    def export(name: StudyName) -> Response:
        """Everything about the study, as JSON lines that `asktell import` makes a study of."""
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
        """Make a study of a saved selector; it starts where that one stands. An existing one is never replaced."""
        return created(name, Selector.from_json(body.model_dump()), max_attempts, exist_ok)


def add_trials(app: FastAPI, studies: OpenStudies) -> None:
    """Trials are asked for, told, and handed back."""

    @app.post("/v1/studies/{name}/ask", response_model=schemas.Trials)
    def ask(name: StudyName, body: schemas.Ask) -> Response:
        """What to evaluate now. A worker gets back what it holds already, and is topped up to n."""

        def operation(study: Study) -> dict[str, Any]:
            if body.besides and body.worker is None:
                raise InvalidArgumentError("Only a worker can be busy with trials: give its name.")
            trials = study.ask(body.n, worker=body.worker, lease=body.lease, besides=body.besides, process=body.process)
            repeats = [study.repeat_of(trial) for trial in trials]
            asked = {"trials": [trial._asdict() for trial in trials], "done": not trials and study.done}
            if not trials and study.paused:
                asked["paused"] = True
            return {**asked, "repeats": repeats} if any(repeats) else asked

        return answer(call(studies, name, operation))

    @app.post("/v1/studies/{name}/tell", response_model=schemas.Taken)
    def tell(name: StudyName, body: schemas.Tell) -> Response:
        """Take the scores of a trial. When the answer comes they are on the disk; the same ones again do no harm."""
        trial, worker, details = _trial(body.trial), body.worker, body.details

        def take(study: Study) -> bool:
            return study.tell(trial, body.scores, body.cost, worker=worker, details=details)

        return answer({"taken": call(studies, name, take)})

    @app.post("/v1/studies/{name}/tell-many", response_model=schemas.Outcomes)
    def tell_many(name: StudyName, body: schemas.TellMany) -> Response:
        """Take the scores of several trials at once; what is wrong with one is no harm to the others."""
        tells = [Tell(_trial(score.trial), score.scores, score.cost, score.details) for score in body.tells]

        def operation(study: Study) -> Sequence[bool | Exception]:
            try:
                return study.tell_many(tells, worker=body.worker)
            except TellManyError as error:
                return error.outcomes

        return answer({"outcomes": [_outcome(each) for each in call(studies, name, operation)]})

    @app.post("/v1/studies/{name}/observe", response_model=schemas.Taken)
    def observe(name: StudyName, body: schemas.Observe) -> Response:
        """Take scores from elsewhere: they inform the estimates, and are no evaluation of the budget."""

        def take(study: Study) -> bool:
            return study.observe(body.prompt, body.scores, body.example, body.cost)

        return answer({"taken": call(studies, name, take)})

    @app.post("/v1/studies/{name}/release", response_model=schemas.Taken)
    def release(name: StudyName, body: schemas.Release) -> Response:
        """Hand a trial back unevaluated; it will be asked again, under the same id."""
        trial = _trial(body.trial)
        return answer({"taken": call(studies, name, lambda study: study.release(trial, worker=body.worker))})

    @app.post("/v1/studies/{name}/fail", response_model=schemas.Taken)
    def fail(name: StudyName, body: schemas.Fail) -> Response:
        """Count a failed evaluation; the prompt goes on with its next example, or leaves the race."""

        def count(study: Study) -> bool:
            return study.fail(_trial(body.trial), body.reason, body.cost, worker=body.worker, details=body.details)

        return answer({"taken": call(studies, name, count)})

    @app.post("/v1/studies/{name}/heartbeat", response_model=schemas.Held)
    def heartbeat(name: StudyName, body: schemas.Heartbeat) -> Response:
        """Extend a worker's leases to `lease` seconds from now; what it still holds."""
        trial = None if body.trial is None else _trial(body.trial)
        held = call(studies, name, lambda study: study.heartbeat(body.worker, trial, lease=body.lease))
        return answer({"trials": [trial._asdict() for trial in held]})


def add_growth(app: FastAPI, studies: OpenStudies) -> None:
    """A study goes on, or is paused: prompts join or are retired, money and examples are added."""

    @app.post("/v1/studies/{name}/add", response_model=schemas.Joined)
    def add(name: StudyName, body: schemas.Add) -> Response:
        """Let prompts join. A study that was done goes on with them, as far as its budget goes."""
        return answer({"ids": call(studies, name, lambda study: study.add(body.prompts, body.features, key=body.key))})

    @app.post("/v1/studies/{name}/retire", response_model=schemas.Info)
    def retire(name: StudyName, body: schemas.Retire) -> Response:
        """Take a prompt out: it is asked for no more, and is no answer. How far the study is then."""
        call(studies, name, lambda study: study.retire(body.prompt, body.reason, key=body.key))
        return answer(call(studies, name, info))

    @app.post("/v1/studies/{name}/extend", response_model=schemas.Info)
    def extend(name: StudyName, body: schemas.Extend) -> Response:
        """More budget, or more examples. A study that was done goes on. How far it is then."""
        call(studies, name, lambda study: study.extend(body.evaluations, body.cost, body.examples, key=body.key))
        return answer(call(studies, name, info))

    @app.post("/v1/studies/{name}/pause", response_model=schemas.Info)
    def pause(name: StudyName, body: schemas.Nothing) -> Response:
        """Hand nothing out until it is resumed; scores of what is out are taken. Paused twice it is paused once."""
        call(studies, name, lambda study: study.pause())
        return answer(call(studies, name, info))

    @app.post("/v1/studies/{name}/resume", response_model=schemas.Info)
    def resume(name: StudyName, body: schemas.Nothing) -> Response:
        """Hand trials out again."""
        call(studies, name, lambda study: study.resume())
        return answer(call(studies, name, info))


def add_results(app: FastAPI, studies: OpenStudies) -> None:
    """What a study knows, and what it found."""

    @app.get("/v1/studies/{name}/examples", response_model=schemas.ExampleIds)
    def examples(name: StudyName) -> Response:
        """The examples' ids, for a worker to see that its data set is the study's."""
        ids = call(studies, name, lambda study: study.example_ids)
        return answer({"ids": None if ids is None else list(ids)})

    @app.get("/v1/studies/{name}/workers", response_model=schemas.Workers)
    def workers(name: StudyName) -> Response:
        """The trials that are out, and who holds them."""
        holdings = call(studies, name, lambda study: study.workers())
        return answer({"holdings": [{**holding._asdict(), "trial": holding.trial._asdict()} for holding in holdings]})

    @app.get("/v1/studies/{name}/result", response_model=schemas.ResultModel)
    def result(name: StudyName) -> Response:
        """The answer so far, final if `done`."""
        found = call(studies, name, lambda study: study.result())
        return answer({**found.to_dict(), "examples": found.examples})

    @app.get("/v1/studies/{name}/evaluations", response_model=schemas.Evaluations)
    def evaluations(name: StudyName, query: Annotated[schemas.EvaluationsQuery, Query()]) -> Response:
        """What was told of each evaluation, the first first, as many as are wanted."""
        found = call(studies, name, lambda study: list(islice(study.evaluations(query.after), query.n)))
        return answer({"evaluations": [each._asdict() for each in found]})

    @app.get("/v1/studies/{name}/report", response_model=schemas.Report)
    def report(name: StudyName) -> Response:
        """What the study's page shows, as JSON."""
        return answer(call(studies, name, lambda study: study.report_data(patience=_PATIENCE)))

    @app.get("/v1/studies/{name}/compare", response_model=schemas.ComparisonModel)
    def compare(name: StudyName, query: Annotated[schemas.CompareQuery, Query()]) -> Response:
        """How far prompt a is ahead of prompt b, and how sure that is; see `asktell.Result.compare`."""
        asked = *query.prompts(), query.confidence, query.tolerance
        return answer(call(studies, name, lambda study: study.compare(*asked).to_dict()))


def call(studies: OpenStudies, name: str, operation: Callable[[Study], _T]) -> _T:
    """Do something with a study. An unknown trial is a problem that names those out, and what is damaged is logged."""

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


def info(study: Study) -> dict[str, Any]:
    """How far a study is."""
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


def _trial(trial: int | str | schemas.TrialReference) -> Trial | int | str:
    return trial.trial() if isinstance(trial, schemas.TrialReference) else trial


def _outcome(outcome: bool | Exception) -> dict[str, Any]:
    if isinstance(outcome, AsktellError):
        return {"taken": False, "problem": problem_of(outcome).document}
    if isinstance(outcome, Exception):
        raise outcome
    return {"taken": outcome, "problem": None}
