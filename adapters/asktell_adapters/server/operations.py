"""The operations of the HTTP API.

Operations on a study are plain functions, which FastAPI runs in a pool of threads. The
docstring of an operation is its description in the OpenAPI document.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar, get_type_hints
from urllib.parse import quote

from anyio import CapacityLimiter, move_on_after, to_thread
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import PlainTextResponse

import asktell
from asktell import Selector, Study, Tell
from asktell.extend import definition, safe
from asktell_adapters.server import answers, requests
from asktell_adapters.server.metrics import CONTENT_TYPE, Metrics
from asktell_adapters.server.open_studies import OpenStudies
from asktell_adapters.server.pages import Overview, StudyName
from asktell_adapters.server.problems import ProblemDetails, kind_of, problem_of

_T = TypeVar("_T")
_Operation = TypeVar("_Operation", bound=Callable[..., Any])
_PENDING_SHOWN = 100
_SECONDS_BETWEEN_CHECKS, _SECONDS_FOR_A_CHECK = 2.0, 5.0  # of the storage, for /health
# Time for reading all studies for /metrics. After that, metrics have the earlier values.
_SECONDS_FOR_A_LOOK = 1.0
_JSON_LINES_TYPE = "application/jsonl"
_JSON_LINES: dict[str, Any] = {
    "content": {_JSON_LINES_TYPE: {"schema": {"type": "string"}}}
}

log = logging.getLogger("asktell_adapters.server")


def answer(
    content: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Make a response of JSON in ASCII. So any text survives, even with lone surrogates."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
    return Response(body, status, headers, "application/json")


def _operation(
    app: FastAPI, method: str, path: str
) -> Callable[[_Operation], _Operation]:
    """Add a function as an operation.

    The response is the value that the function returns. The function's return type
    describes it in the OpenAPI document.
    """

    def add(operation: _Operation) -> _Operation:
        @wraps(operation)
        def answered(*arguments: Any, **named: Any) -> Response:
            return answer(operation(*arguments, **named))

        returned = get_type_hints(operation, include_extras=True)["return"]
        app.add_api_route(path, answered, methods=[method], response_model=returned)
        return operation

    return add


def add_health(
    app: FastAPI, studies: OpenStudies, metrics: Metrics, overview: Overview
) -> None:
    """Add the operations on the service itself."""
    check: asyncio.Future[None] | None = None
    checked = 0.0

    @app.get("/health", response_model=answers.Health)
    async def health() -> Response:
        """Check that studies can be changed now. The storage is checked at most every two seconds."""
        nonlocal check, checked
        now = time.monotonic()
        if check is None or (check.done() and now - checked >= _SECONDS_BETWEEN_CHECKS):
            # The check has a limiter of its own, because all other threads may hang in
            # the storage. Only one check runs at a time.
            check = asyncio.ensure_future(
                to_thread.run_sync(studies.check, limiter=CapacityLimiter(1))
            )
            checked = now
        if not check.done():
            await asyncio.wait(
                [check], timeout=max(0.0, checked + _SECONDS_FOR_A_CHECK - now)
            )
        if not check.done():
            raise asktell.StorageBusyError(
                f"The storage has not responded for over {_SECONDS_FOR_A_CHECK:g} s. Try again. If this persists, "
                "check the database."
            )
        check.result()
        return answer({"status": "ok"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def counts() -> Response:
        """Get counts of requests and the progress of all studies, in the text format of Prometheus."""
        # The counts of requests are valid even if the storage is gone or busy.
        with suppress(asktell.AsktellError), move_on_after(_SECONDS_FOR_A_LOOK):
            await to_thread.run_sync(overview.look, abandon_on_cancel=True)
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def add_studies(app: FastAPI, studies: OpenStudies) -> None:
    """Add the operations that create, read and delete studies."""

    @_operation(app, "GET", "/v1/studies")
    def names() -> answers.Names:
        """Get the names of all studies."""
        return {"studies": studies.names()}

    def created(
        name: str, selector: Selector, max_attempts: int, exist_ok: bool
    ) -> Response:
        # Browsers and proxies remove these parts of a path (RFC 3986, section 5.2.4).
        if name in (".", ".."):
            raise asktell.InvalidArgumentError(
                f"{name!r} is not a valid study name here, because it would be removed from the URL. Choose another "
                "name."
            )
        studies.create(name, selector, max_attempts, exist_ok)
        return answer(
            call(studies, name, info),
            201,
            {"Location": f"/v1/studies/{quote(name, safe='')}"},
        )

    @app.post("/v1/studies", response_model=answers.Info, status_code=201)
    def create(body: requests.NewStudy) -> Response:
        """Create a study."""
        return created(body.name, body.selector(), body.max_attempts, body.exist_ok)

    @_operation(app, "GET", "/v1/studies/{name}")
    def progress(name: StudyName) -> answers.Info:
        """Get a study's progress."""
        return call(studies, name, info)

    @app.delete("/v1/studies/{name}", status_code=204)
    def delete(name: StudyName) -> Response:
        """Delete a study with all its evaluations."""
        studies.delete(name)
        return Response(status_code=204)

    @app.get("/v1/studies/{name}/selector", response_model=requests.Saved)
    def selector(name: StudyName) -> Response:
        """Get the study's current state as a saved selector, for example as a backup."""
        return Response(
            call(studies, name, lambda study: study.selector.to_json()),
            media_type="application/json",
        )

    @app.get(
        "/v1/studies/{name}/export",
        response_class=Response,
        responses={200: _JSON_LINES},
    )
    def export(name: StudyName) -> Response:
        """Get the complete study as JSON lines, which the command `asktell import` can read."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "study.jsonl"
            call(studies, name, lambda study: study.export(path))
            return Response(path.read_bytes(), media_type=_JSON_LINES_TYPE)

    @app.put(
        "/v1/studies/{name}/selector", response_model=answers.Info, status_code=201
    )
    def restore(
        name: StudyName,
        body: requests.Saved,
        max_attempts: Annotated[
            int,
            Query(
                ge=1,
                description="A trial fails when its lease has expired this many times.",
            ),
        ] = 3,
        exist_ok: Annotated[
            bool,
            Query(
                description="Whether to use an existing study of this name with the same definition. "
                "Otherwise, an existing study of this name is an error (409)."
            ),
        ] = False,
    ) -> Response:
        """Create a study that continues from a saved selector. An existing study is never replaced."""
        return created(
            name, Selector.from_json(body.model_dump()), max_attempts, exist_ok
        )


def add_trials(app: FastAPI, studies: OpenStudies) -> None:
    """Add the operations that ask for trials, tell their scores, and release them."""

    @_operation(app, "POST", "/v1/studies/{name}/ask")
    def ask(name: StudyName, body: requests.Ask) -> answers.Trials:
        """Get up to `n` trials to evaluate: first the trials that the worker holds already, then new trials.

        Without a `worker`, the trials are leased to a new name for 600 seconds. Each `tell` of one of them extends
        the leases of the others.
        """

        def operation(study: Study) -> answers.Trials:
            worker = study.worker() if body.worker is None else study
            trials = bound(worker, body).ask(body.n)
            asked: answers.Trials = {
                "trials": [trial._asdict() for trial in trials],
                "done": not trials and study.done,
            }
            if not trials and study.paused:
                asked["paused"] = True
            repeats = [study.repeat_of(trial) for trial in trials]
            if any(repeats):
                asked["repeats"] = repeats
            return asked

        return call(studies, name, operation)

    @_operation(app, "POST", "/v1/studies/{name}/tell")
    def tell(name: StudyName, body: requests.Tell) -> answers.Taken:
        """Record the scores of a trial. The service stores them, then responds. Repeating a request is harmless."""
        return {"taken": done(studies, name, Study.tell, body)}

    @_operation(app, "POST", "/v1/studies/{name}/tell-many")
    def tell_many(name: StudyName, body: requests.TellMany) -> answers.Outcomes:
        """Record the scores of several trials at once. An error in one trial does not affect the others."""
        tells = [Tell(**score.arguments()) for score in body.tells]

        def operation(study: Study) -> Sequence[bool | Exception]:
            try:
                return bound(study, body).tell_many(tells)
            except asktell.TellManyError as error:
                return error.outcomes

        return {
            "outcomes": [
                _outcome(outcome) for outcome in call(studies, name, operation)
            ]
        }

    @_operation(app, "POST", "/v1/studies/{name}/observe")
    def observe(name: StudyName, body: requests.Observe) -> answers.Taken:
        """Add scores from elsewhere. They improve the estimates, and do not count against a budget in evaluations.

        If a `cost` is sent, it is added to the study's `spent_cost`.
        """
        return {"taken": done(studies, name, Study.observe, body)}

    @_operation(app, "POST", "/v1/studies/{name}/release")
    def release(name: StudyName, body: requests.Release) -> answers.Taken:
        """Return a trial unevaluated. A later `ask` hands it out again, with the same id."""
        return {"taken": done(studies, name, Study.release, body)}

    @_operation(app, "POST", "/v1/studies/{name}/fail")
    def fail(name: StudyName, body: requests.Fail) -> answers.Taken:
        """Record a failed evaluation. A prompt that fails too often is eliminated."""
        return {"taken": done(studies, name, Study.fail, body)}

    @_operation(app, "POST", "/v1/studies/{name}/heartbeat")
    def heartbeat(name: StudyName, body: requests.Heartbeat) -> answers.HeldTrials:
        """Extend a worker's leases to `lease` seconds from now, and get the trials that the worker still holds."""
        return {
            "trials": [
                trial._asdict() for trial in done(studies, name, Study.heartbeat, body)
            ]
        }


def add_growth(app: FastAPI, studies: OpenStudies) -> None:
    """Add the operations that add and retire prompts, extend the budget, pause and resume."""

    def changed(
        name: str, change: Callable[..., None], body: requests.StrictRequest
    ) -> answers.Info:
        done(studies, name, change, body)
        return call(studies, name, info)

    @_operation(app, "POST", "/v1/studies/{name}/add")
    def add(name: StudyName, body: requests.Add) -> answers.Joined:
        """Add prompts. A study that was done continues with them while its budget lasts.

        Send a list of texts only if the study was created with a list of texts.
        """
        return {"ids": done(studies, name, Study.add, body)}

    @_operation(app, "POST", "/v1/studies/{name}/retire")
    def retire(name: StudyName, body: requests.Retire) -> answers.Info:
        """Retire a prompt, so that it is not evaluated again and cannot be selected."""
        return changed(name, Study.retire, body)

    @_operation(app, "POST", "/v1/studies/{name}/extend")
    def extend(name: StudyName, body: requests.Extend) -> answers.Info:
        """Add to the budget or to the examples. A study that was done continues."""
        return changed(name, Study.extend, body)

    @_operation(app, "POST", "/v1/studies/{name}/remark")
    def remark(name: StudyName, body: requests.Remark) -> answers.Info:
        """Add a remark about the scores, which results will show."""
        return changed(name, Study.remark, body)

    @_operation(app, "POST", "/v1/studies/{name}/pause")
    def pause(name: StudyName, body: requests.Nothing) -> answers.Info:
        """Pause a study. Workers get no trials until it is resumed. Scores of pending trials are still accepted."""
        return changed(name, Study.pause, body)

    @_operation(app, "POST", "/v1/studies/{name}/resume")
    def resume(name: StudyName, body: requests.Nothing) -> answers.Info:
        """Resume a paused study."""
        return changed(name, Study.resume, body)


def add_results(app: FastAPI, studies: OpenStudies) -> None:
    """Add the operations that read results."""

    @_operation(app, "GET", "/v1/studies/{name}/examples")
    def examples(name: StudyName) -> answers.ExampleIds:
        """Get the ids of the examples, which a worker can compare with its dataset."""
        ids = call(studies, name, lambda study: study.example_ids)
        return {"ids": None if ids is None else list(ids)}

    @_operation(app, "GET", "/v1/studies/{name}/workers")
    def workers(name: StudyName) -> answers.Workers:
        """Get the pending trials and the workers that hold them."""
        holdings = call(studies, name, lambda study: study.workers())
        return {
            "holdings": [
                {**holding._asdict(), "trial": holding.trial._asdict()}
                for holding in holdings
            ]
        }

    @_operation(app, "GET", "/v1/studies/{name}/result")
    def result(name: StudyName) -> answers.Result:
        """Get the current result. It is final if `done` is true."""
        current = call(studies, name, lambda study: study.result())
        return {**current.to_dict(), "n_examples": current.n_examples}

    @_operation(app, "GET", "/v1/studies/{name}/evaluations")
    def evaluations(
        name: StudyName, query: Annotated[requests.EvaluationsQuery, Query()]
    ) -> answers.Evaluations:
        """Get evaluations in the order in which they were recorded, at most `n` at a time."""
        page = call(
            studies,
            name,
            lambda study: list(islice(study.evaluations(query.after), query.n)),
        )
        return {"evaluations": [evaluation._asdict() for evaluation in page]}

    @_operation(app, "GET", "/v1/studies/{name}/report")
    def report(name: StudyName) -> answers.ReportData:
        """Get the data of the study's report."""
        return call(studies, name, lambda study: study.report_data())

    @_operation(app, "GET", "/v1/studies/{name}/compare")
    def compare(
        name: StudyName,
        query: Annotated[requests.CompareQuery, Query()],
        request: Request,
    ) -> answers.Comparison:
        """Compare prompt a with prompt b in every metric."""
        asked = (
            *query.with_surrogates(request.scope["query_string"]).prompts(),
            query.confidence,
            query.tolerance,
        )
        return call(studies, name, lambda study: study.compare(*asked).to_dict())


def call(studies: OpenStudies, name: str, operation: Callable[[Study], _T]) -> _T:
    """Call an operation on a study.

    Raises:
        ProblemDetails: the trial is unknown (then with the ids of pending trials), or the
            stored study is damaged, which also goes to the log.
    """

    def attempt(study: Study) -> _T:
        try:
            return operation(study)
        except asktell.UnknownTrialError as error:
            pending = [trial.id for trial in study.pending[:_PENDING_SHOWN]]
            raise problem_of(error, pending=pending) from error

    try:
        return studies.call(name, attempt)
    except asktell.MissingMethodError:
        raise
    except asktell.InvalidStateError as error:
        log.error("study %s: %s", safe(repr(name)), safe(str(error)))
        detail = "The study cannot be read. The service's log has the reason."
        raise ProblemDetails(
            503, detail, kind_of(asktell.InvalidStateError), {"Retry-After": "60"}
        ) from error


def done(
    studies: OpenStudies,
    name: str,
    method: Callable[..., _T],
    body: requests.StrictRequest,
) -> _T:
    """Call a method of a study with the fields of a request as arguments."""
    arguments = body.arguments()
    for option in _OF_WORKERS:
        arguments.pop(option, None)
    return call(studies, name, lambda study: method(bound(study, body), **arguments))


_OF_WORKERS = ("worker", "instance", "lease", "besides")


def bound(study: Study, body: requests.StrictRequest) -> Study:
    """The study, bound to the name of the request's worker if it has one."""
    binding = {
        name: value
        for name in _OF_WORKERS
        if (value := getattr(body, name, None)) not in (None, [])
    }
    worker, instance = binding.pop("worker", None), binding.pop("instance", "")
    if worker is None and binding:
        raise asktell.InvalidArgumentError(
            f"{' and '.join(binding)} can be given for a worker only. Give the name of the `worker`, too."
        )
    return (
        study if worker is None else study.worker(worker, instance=instance, **binding)
    )


def info(study: Study) -> answers.Info:
    """A study's progress."""
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
        "examples": problem.examples.n,
        "repeats": problem.examples.repeats,
        "baseline": None
        if problem.baseline is None
        else selector.prompts.ids[problem.baseline],
        "definition": definition(study),
    }


def _outcome(outcome: bool | Exception) -> answers.Outcome:
    """The outcome of one trial of a request.

    An error that is not asktell's is raised, because it is a fault of the service.
    """
    if isinstance(outcome, asktell.AsktellError):
        return {"taken": False, "problem": problem_of(outcome).document}
    if isinstance(outcome, Exception):
        raise outcome
    return {"taken": outcome, "problem": None}
