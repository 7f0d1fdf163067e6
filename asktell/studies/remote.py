"""RemoteStudy: a study in a service, used like one that is here."""

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar
from urllib.parse import urlencode

import numpy as np

from asktell import reports, serialization
from asktell.errors import InvalidArgumentError, ServiceError
from asktell.methods import Method
from asktell.problem import checks
from asktell.problem.candidates import AnyPrompt, AnyTrial, ById, Candidates, Prompts, Tell, Trial, from_json
from asktell.problem.checks import short, some, whole
from asktell.problem.examples import Examples, check_examples, numbered
from asktell.problem.goals import Goal, Scores
from asktell.results import Check, Comparison, ExampleResult, PromptResult, Result, Verdict
from asktell.results.comparison import Place
from asktell.results.entries import FailureGroup
from asktell.results.evaluations import Evaluation, Evaluations
from asktell.selector import Features, NewPrompts, Selector, part_at
from asktell.studies.base import AbstractStudy
from asktell.studies.details import encode
from asktell.studies.leases import SECONDS, Holding, check_lease
from asktell.studies.transport import Connection, error_of, path_of
from asktell.studies.worker import Worker

_P = ParamSpec("_P")
_R = TypeVar("_R")

_TELLS_AT_ONCE = 1000
_EVALUATIONS_AT_ONCE = 1000  # answers may be long
_OF_A_RESULT = (
    "spent", "budget", "spent_cost", "max_cost", "done", "stopped_early", "finished_early", "feasible", "repeats",
    "inputs",
)  # fmt: skip


def definition(study: AbstractStudy) -> dict[str, Any]:
    """A study's goal and method as JSON; a service sends them, and `RemoteStudy` reads them again."""
    return {"goal": serialization.dump_goal(study.goal), "method": serialization.dump_part(study.method)}


def _of_info(name: str, key: str = "") -> Any:
    """A property that the service says."""
    return property(lambda self: self._info()[key or name], doc=getattr(AbstractStudy, name).__doc__)


class RemoteStudy(AbstractStudy):
    """A study that a service keeps (`asktell serve`), with the methods of `asktell.Study`.

    Made by `RemoteStudy.create` or `RemoteStudy.open`. Every method may raise a ServiceError, when the service cannot
    be reached, or an AccessDeniedError, when it refuses the token. May be used from several threads, and goes on in a
    forked process.
    """

    def __init__(self, connection: Connection, name: str, info: Mapping[str, Any]) -> None:
        self._connection = connection
        self._name = name
        self._path = path_of(name)
        self._goal = serialization.load_goal(info["definition"]["goal"])
        self._method: Method = serialization.load_part(info["definition"]["method"])
        self._is_cost_limited = info["max_cost"] is not None
        self._repeats: dict[int, int] = {}  # by trial, beside those that are the first of their cell

    # Making, opening, removing

    @classmethod
    def create(
        cls,
        url: str,
        name: str,
        selector: Selector,
        *,
        max_attempts: int = 3,
        exist_ok: bool = False,
        token: str | None = None,
        timeout: float = 90.0,
        retries: int = 8,
    ) -> Self:
        """Make a study that starts where a selector stands; see `Study.create`, and `open` for the other arguments.

        Raises:
            StudyExistsError: there is a study of this name, or, with `exist_ok`, one of something else.
            InvalidArgumentError: the method has parts of your own: code cannot be sent to a service.
        """
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(f"A study is made of a Selector, got {short(selector)}.")
        if own := serialization.own_parts(serialization.dump_part(selector.method)):
            raise InvalidArgumentError(
                f"The method has parts of your own, {some(own)}, and code cannot be sent to a service. Give all "
                "workers the method and a storage: asktell.Study.create(location, name, selector), and in the others "
                "asktell.Study.open(location, name, method=...), with SQLite on one machine or PostgreSQL on several."
            )
        connection = Connection(url, token, timeout, retries)
        query = f"max_attempts={whole('max_attempts', max_attempts, 1)}&exist_ok={'true' if exist_ok else 'false'}"
        info = connection.send("PUT", f"{path_of(name)}/selector?{query}", json.loads(selector.to_json()))
        return cls(connection, name, _record(info, "definition", "max_cost"))

    @classmethod
    def open(
        cls,
        url: str,
        name: str,
        *,
        examples: int | Sequence[str] | None = None,
        token: str | None = None,
        timeout: float = 90.0,
        retries: int = 8,
    ) -> Self:
        """The study of this name, as it stands.

        Args:
            url: of the service, as https://example.org:8000.
            name: of the study.
            examples: their number or their ids, to be sure that they are the study's own.
            token: for the service; by default that of ASKTELL_TOKEN in the environment.
            timeout: seconds to wait for an answer.
            retries: how often a request is sent again that was not answered, or was asked to come again. With 8, a
                service may be away for some 20 seconds, once it has answered; that an address is wrong is known after a
                second or so. A request that is sent again is not done again, as long as the service was not restarted
                in between; after that, too, what was told is counted once, and a worker that asks with its name gets
                back the trials that it holds.

        Raises:
            StudyNotFoundError: there is no study of this name.
        """
        connection = Connection(url, token, timeout, retries)
        info = _record(connection.send("GET", path_of(name)), "definition", "max_cost", "examples")
        study = cls(connection, name, info)
        if examples is not None:
            ids = study.example_ids
            check_examples(f"The study {name!r}", info["examples"], None if ids is None else Examples(ids), examples)
        return study

    @staticmethod
    def names(url: str, *, token: str | None = None, timeout: float = 90.0, retries: int = 8) -> list[str]:
        """The names of all studies of a service, in the order in which they were made."""
        with closing(Connection(url, token, timeout, retries)) as connection:
            return [str(name) for name in connection.send("GET", "/v1/studies")["studies"]]

    @staticmethod
    def delete(url: str, name: str, *, token: str | None = None, timeout: float = 90.0, retries: int = 8) -> None:
        """Remove a study, with everything that was told.

        Raises:
            StudyNotFoundError: there is no study of this name.
        """
        with closing(Connection(url, token, timeout, retries)) as connection:
            connection.send("DELETE", path_of(name))

    def close(self) -> None:
        self._connection.close()

    def __repr__(self) -> str:
        return f"<RemoteStudy {self._name!r} at {self._connection.url}>"

    # Asking and telling. What is sent is checked here first, so that a mistake is known before it travels.

    def _ask(
        self, n: int, worker: str | None = None, seconds: float = SECONDS, besides: Collection[int] = ()
    ) -> list[Trial]:
        lease = None if worker is None else seconds
        data = self._post("ask", n=n, worker=worker, lease=lease, besides=[*map(int, besides)])
        trials = _trials(data)
        repeated = zip(trials, data.get("repeats", ()), strict=False)  # left out if none was
        self._repeats.update({trial.id: repeat for trial, repeat in repeated if repeat})
        return trials

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        return self._taken("tell", **self._told(Tell(trial, scores, cost, details)), worker=worker)

    def _tell(self, tells: Sequence[Any], worker: str | None) -> list[bool | Exception]:
        outcomes: list[bool | Exception | None] = []
        scores: list[dict[str, Any]] = []
        for item in tells:
            try:
                scores.append(self._told(Tell.of(item)))
                outcomes.append(None)
            except Exception as error:  # whatever it is: the next one's scores were paid for, too
                outcomes.append(error)
        settled: list[bool | Exception] = []
        for start in range(0, len(scores), _TELLS_AT_ONCE):
            data = self._post("tell-many", tells=scores[start : start + _TELLS_AT_ONCE], worker=worker)
            for each in _record(data, "outcomes")["outcomes"]:
                problem = each["problem"]
                settled.append(error_of(problem["status"], problem) if problem else each["taken"])
        found = iter(settled)
        return [next(found) if outcome is None else outcome for outcome in outcomes]

    def _told(self, tell: Tell) -> dict[str, Any]:
        vector = self._vector(tell.scores)
        cost = None if tell.cost is None else checks.check_cost(tell.cost)
        return {"trial": _named(tell.trial), "scores": vector, "cost": cost, **_kept(encode(tell.details))}

    def _vector(self, scores: object) -> tuple[float, ...]:
        return self._goal.vector(scores)[: len(self._goal.metrics)]

    def observe(
        self, prompt: AnyPrompt, scores: Scores | None, example: int | str | None = None, cost: float | None = None
    ) -> bool:
        vector = None if scores is None and cost is not None else self._vector(scores)
        cost = None if cost is None else checks.check_cost(cost)
        if not isinstance(example, str | None):
            example = whole("example", example, 0)
        return self._taken("observe", prompt=_named_prompt(prompt), scores=vector, example=example, cost=cost)

    def _fail(self, trial: AnyTrial, reason: str, cost: float | None, worker: str | None, details: str | None) -> bool:
        cost = None if cost is None else checks.check_cost(cost)
        return self._taken("fail", trial=_named(trial), reason=reason, cost=cost, worker=worker, **_kept(details))

    def release(self, trial: AnyTrial, *, worker: str | None = None) -> bool:
        return self._taken("release", trial=_named(trial), worker=worker)

    # Workers

    def worker(self, name: str | None = None, *, lease: float = 60.0, ahead: int = 0) -> Worker:
        return Worker(self, name, lease, ahead)

    def heartbeat(self, worker: str, trial: AnyTrial | None = None, *, lease: float | None = None) -> list[Trial]:
        seconds = check_lease(checks.check_name("A worker", worker), lease)
        only = None if trial is None else _named(trial)
        return _trials(self._post("heartbeat", worker=worker, trial=only, lease=seconds))

    def workers(self) -> list[Holding]:
        holdings = self._get("workers")["holdings"]
        return [Holding(**{**holding, "trial": Trial(**holding["trial"])}) for holding in holdings]

    # Going on. Each request has a key, which is kept with the study: sent again, even after the service was restarted,
    # it is done once.

    def add(self, prompts: NewPrompts, features: Features = None, *, key: str | None = None) -> list[str | int]:
        named: object = prompts.to_data() if isinstance(prompts, Candidates) else prompts
        n_prompts, rows = len(Prompts.of(prompts)), features
        if features is not None and not isinstance(features, str):
            rows = checks.check_features(features, n_prompts).tolist()
        found: list[str | int] = self._post("add", prompts=named, features=rows, key=key or uuid.uuid4().hex)["ids"]
        return found

    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        self._post(
            "retire", prompt=_named_prompt(prompt), reason=checks.check_reason(reason), key=key or uuid.uuid4().hex
        )

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        n_examples, ids = numbered(examples)
        given = {"evaluations": evaluations, "cost": cost, "examples": n_examples if ids is None else list(ids.ids)}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        self._post("extend", **plain, key=key or uuid.uuid4().hex)

    def remark(self, text: str, *, topic: str = "scores", doubtful: bool = False) -> None:
        self._post("remark", text=text, topic=topic, doubtful=doubtful)

    def pause(self) -> None:
        self._post("pause")

    def resume(self) -> None:
        self._post("resume")

    # Reading

    done: bool = _of_info("done")
    paused: bool = _of_info("paused")
    spent: int = _of_info("spent")
    budget: int = _of_info("budget")
    spent_cost: float = _of_info("spent_cost")
    n_active: int = _of_info("n_active", "active")

    name: str = part_at("_name", AbstractStudy.name)
    goal: Goal = part_at("_goal", AbstractStudy.goal)
    method: Method = part_at("_method", AbstractStudy.method)

    @property
    def pending(self) -> list[Trial]:
        return [holding.trial for holding in self.workers()]

    def repeat_of(self, trial: Trial) -> int:
        return self._repeats.get(trial.id, 0)  # of a trial that was asked here

    @property
    def max_cost(self) -> float | None:
        return float(self._info()["max_cost"]) if self._is_cost_limited else None  # it always is, or never

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        ids = _record(self._get("examples"), "ids")["ids"]
        return None if ids is None else tuple(ids)

    @property
    def selector(self) -> Selector:
        return Selector.from_json(self._get("selector"))

    def result(self) -> Result:
        """The answer so far; its `compare` and `examples` ask the service, about the study as it stands by then."""
        data = self._get("result")
        prompts = {entry["id"]: PromptResult.from_dict(entry) for entry in data["prompts"]}
        ids, comparison = data.get("example_ids"), data["comparison"]
        return Result(
            goal=self._goal,
            selected=[prompts[entry["id"]] for entry in data["selected"]],
            prompts=list(prompts.values()),
            verdict=Verdict.from_dict(data["verdict"]),
            notes=tuple(data["notes"]),
            checks=tuple(Check(**check) for check in data["checks"]),
            baseline=data["baseline"],
            _comparer=_Asks(self._compare_places),
            _analyzed=_Asks(self._examples),
            _factors={
                factor: {
                    level: {m: (mean, error) for m, (mean, error) in means.items()} for level, means in own.items()
                }
                for factor, own in data.get("factors", {}).items()
            },
            example_ids=None if ids is None else tuple(ids),
            failures=[FailureGroup(**group) for group in data["failures"]],
            _comparison=None if comparison is None else Comparison.from_dict(comparison),
            n_examples=data["n_examples"],
            **{name: data[name] for name in _OF_A_RESULT},
        )

    def _compare_places(self, a: Place, b: Place, confidence: float, tolerance: float) -> Comparison:
        return self.compare(ById(a[1]), ById(b[1]), confidence, tolerance)

    def _examples(self, metric: str | None, fdr: float) -> list[ExampleResult]:
        return self.selector.result().examples(metric, fdr)

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        asked: dict[str, object] = {"confidence": confidence, "tolerance": tolerance}
        for key, prompt in (("a", a), *((("b", b),) if b is not None else ())):
            found = _named_prompt(prompt)
            asked.update({f"{key}_id": found["id"]} if isinstance(found, dict) else {key: found})
        query = urlencode(asked, errors="surrogatepass")
        return Comparison.from_dict(_record(self._get(f"compare?{query}"), "a", "b", "differences"))

    def evaluations(self, after: int = 0) -> Evaluations:
        return Evaluations(self._evaluations(whole("after", after, 0)), self.metrics)

    def _evaluations(self, after: int) -> Iterator[Evaluation]:
        while True:
            query = urlencode({"after": after, "n": _EVALUATIONS_AT_ONCE})
            found = _record(self._get(f"evaluations?{query}"), "evaluations")["evaluations"]
            yield from (Evaluation(**each) for each in found)
            after += len(found)
            if len(found) < _EVALUATIONS_AT_ONCE:
                return

    def report(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        document = _record(self._get("report"), "format", "version", "made")
        if (document["format"], document["version"]) != (reports.FORMAT, reports.VERSION):
            raise ServiceError(
                f"The service's report is of version {document['version']!r}, and this asktell writes version "
                f"{reports.VERSION}: use the same asktell here and there, or the page that the service shows."
            )
        document["made"]["about"] = reports.plain(about)
        reports.write(path, document)

    # Requests

    def _get(self, what: str) -> dict[str, Any]:
        return _record(self._connection.send("GET", f"{self._path}/{what}"))

    def _info(self) -> dict[str, Any]:
        return _record(self._connection.send("GET", self._path), "definition", "budget", "max_cost")

    def _post(self, what: str, **data: object) -> Any:
        return self._connection.send("POST", f"{self._path}/{what}", data)

    def _taken(self, what: str, **data: object) -> bool:
        return bool(_record(self._post(what, **data), "taken")["taken"])


class _Asks(Generic[_P, _R]):
    """Asks the service for a result of this process; a copy of the result in another process cannot."""

    def __init__(self, ask: Callable[_P, _R]) -> None:
        self._ask = ask

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._ask(*args, **kwargs)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _record(data: object, *names: str) -> dict[str, Any]:
    """The answer, if it has these names."""
    if not isinstance(data, dict) or any(name not in data for name in names):
        raise ServiceError(f"The service answered {short(data)}, and not as asktell's does. Is the address right?")
    return data


def _trials(data: object) -> list[Trial]:
    return [Trial(**trial) for trial in _record(data, "trials")["trials"]]


def _kept(details: str | None) -> dict[str, Any]:
    return {} if details is None else {"details": json.loads(details)}


def _named(trial: object) -> int | str | dict[str, Any]:
    """A trial for the service; its text need not travel."""
    trial = from_json(trial)
    if not isinstance(trial, Trial):
        return trial
    example = None if trial.example is None else int(trial.example)
    return {"id": trial.id, "prompt_id": trial.prompt_id, "example": example}


def _named_prompt(prompt: AnyPrompt) -> str | dict[str, str | int]:
    """A prompt for the service: text may be an id or a text there, `{"id": ...}` is an id."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Trial):
        id_: object = prompt.prompt_id
    else:
        id_ = prompt if isinstance(prompt, int) else getattr(prompt, "id", None)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise InvalidArgumentError(f"A prompt is named by its id or text, got {short(prompt)}.")
    return {"id": id_}
