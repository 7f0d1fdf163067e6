"""RemoteStudy: a study in a service, used like a local one."""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar
from urllib.parse import urlencode

from asktell import reports
from asktell.errors import InvalidArgumentError, ServiceError
from asktell.methods import AbstractMethod
from asktell.methods.rounds.parts import dump_part, load_method, own_parts
from asktell.problem import checks
from asktell.problem.candidates import Candidates
from asktell.problem.checks import whole
from asktell.problem.examples.examples import Examples
from asktell.problem.examples.ids import ExampleIds, numbered
from asktell.problem.formats import checked, dump_goal, load_goal
from asktell.problem.goals import Goal
from asktell.problem.prompts import AnyPrompt, ById, Prompts
from asktell.problem.scores import AnyScores
from asktell.problem.trials import AnyTrial, Tell, Trial, from_json
from asktell.problem.words import short, some
from asktell.record.engine import checked_scores
from asktell.results.comparison import Comparison, Place
from asktell.results.evaluations import Evaluation, Evaluations
from asktell.results.examples import ExampleResult
from asktell.results.result import Result, loaded_result
from asktell.selector import NewPrompts, Selector, part_at
from asktell.studies.abstract import AbstractStudy
from asktell.studies.details import encode
from asktell.studies.leases import Holding
from asktell.studies.transport import Connection, error_of, path_of

_P = ParamSpec("_P")
_R = TypeVar("_R")

_TELLS_AT_ONCE = 1000
_EVALUATIONS_AT_ONCE = 1000  # responses of an LLM, among the details, may be long


def definition(study: AbstractStudy) -> dict[str, Any]:
    """A study's goal, method and proxies as JSON data. A service sends them to `RemoteStudy`."""
    return {
        "goal": dump_goal(study.goal),
        "method": dump_part(study.method),
        "proxies": list(study.proxies),
    }


def _of_info(name: str, key: str = "") -> Any:
    """Make a property whose value is read from the service's description of the study."""
    return property(
        lambda self: self._info()[key or name], doc=getattr(AbstractStudy, name).__doc__
    )


class RemoteStudy(AbstractStudy):
    """A study in a service (`asktell serve`), used like an `asktell.Study`.

    It lacks these members of `Study`: `grow`, `export`, `import_`, `report_data`,
    `attendance` and `standing`.

    Make a study with `RemoteStudy.create`, or open an existing study with
    `RemoteStudy.open`. Do not call the class itself. Close the study at the end, or use
    it in a `with` block.

        study = asktell.RemoteStudy.open("https://asktell.example.org", "my study")
        with study:
            result = asktell.run(study, evaluator)

    If the service does not respond, requests are sent again: see `retries` of `open`. A
    RemoteStudy may be used from several threads, and also in a forked process.

    Every method may raise a ServiceError if the service cannot be reached, or an
    AccessDeniedError if the token is missing, wrong or has too few rights. Arguments
    are checked before they are sent, with the same errors as in `Study`.
    """

    def __init__(
        self, connection: Connection, name: str, info: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._connection = connection
        self._name = name
        self._path = path_of(name)
        with checked("The study from the service"):
            self._goal = load_goal(info["definition"]["goal"])
            self._proxies = tuple(info["definition"].get("proxies", ()))
            self._method: AbstractMethod = load_method(
                info["definition"]["method"], None
            )
        self._is_cost_limited = info["max_cost"] is not None
        # By trial; without the first evaluations of a prompt on an example
        self._repeats: dict[int, int] = {}

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
        """Create a study in a service, from a selector and its evaluations.

        Args:
            url: as for `open`.
            name: as for `Study.create`.
            selector: as for `Study.create`.
            max_attempts: as for `Study.create`.
            exist_ok: as for `Study.create`.
            token: as for `open`.
            timeout: as for `open`.
            retries: as for `open`.

        Raises:
            StudyExistsError: a study with this name exists. With `exist_ok`, only if it
                differs in something that cannot be added. The message has both values.
            InvalidArgumentError: the method, or a part of it, is your own code, which
                cannot be sent to a service.
        """
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(
                f"RemoteStudy.create() needs a Selector, such as asktell.Selector(prompts, goal, budget), got "
                f"{short(selector)}."
            )
        if parts := own_parts(dump_part(selector.method)):
            raise InvalidArgumentError(
                f"The method has parts that are your own code, {some(parts)}. Code cannot be sent to a service. "
                "Use a storage instead, SQLite on one machine or PostgreSQL on several: call "
                "asktell.Study.create(location, name, selector) in the first worker, and "
                "asktell.Study.open(location, name, method=...) in the others."
            )
        connection = Connection(url, token, timeout, retries)
        query = f"max_attempts={whole('max_attempts', max_attempts, 1)}&exist_ok={'true' if exist_ok else 'false'}"
        info = connection.send(
            "PUT", f"{path_of(name)}/selector?{query}", json.loads(selector.to_json())
        )
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
        """Open an existing study in a service.

        Args:
            url: address of the service, such as https://example.org:8000.
            name: name of the study.
            examples: the number of examples, or their ids, to check that they have not
                changed since the study was created.
            token: the token that the service requires. By default, the value of the
                environment variable ASKTELL_TOKEN.
            timeout: seconds to wait for a response.
            retries: how often a request is sent again if the service cannot be reached
                or is overloaded. The pauses between the attempts become longer. With 8,
                a request succeeds even if the service is unreachable for about 20
                seconds. This requires that the service has responded to this object
                before. Until its first response, a request that cannot connect is sent
                again at most twice. So if no service runs at the address, the error
                usually comes after a second or two.

                The service recognizes a repeated request and carries it out only once,
                unless the service was restarted in between. After a restart, a repeated
                `tell`, `fail`, `add`, `retire` or `extend` still counts once, but a
                repeated `observe` may count twice. If the response to an `ask` was
                lost, the object gets the same trials when it asks again.

        Raises:
            StudyNotFoundError: the study does not exist.
            InvalidArgumentError: the study has other examples. The message lists the
                differences.
        """
        connection = Connection(url, token, timeout, retries)
        info = _record(
            connection.send("GET", path_of(name)), "definition", "max_cost", "examples"
        )
        study = cls(connection, name, info)
        if examples is not None:
            ids = study.example_ids
            Examples(
                info["examples"], None if ids is None else ExampleIds(ids)
            ).check_same(f"The study {name!r}", examples)
        return study

    @staticmethod
    def names(
        url: str, *, token: str | None = None, timeout: float = 90.0, retries: int = 8
    ) -> list[str]:
        """Return the names of all studies in a service, oldest first.

        Args:
            url: as for `open`.
            token: as for `open`.
            timeout: as for `open`.
            retries: as for `open`.
        """
        with closing(Connection(url, token, timeout, retries)) as connection:
            return [
                str(name) for name in connection.send("GET", "/v1/studies")["studies"]
            ]

    @staticmethod
    def delete(
        url: str,
        name: str,
        *,
        token: str | None = None,
        timeout: float = 90.0,
        retries: int = 8,
    ) -> None:
        """Remove a study and all of its evaluations.

        Args:
            url: as for `open`.
            name: name of the study.
            token: as for `open`.
            timeout: as for `open`.
            retries: as for `open`.

        Raises:
            StudyNotFoundError: the study does not exist.
        """
        with closing(Connection(url, token, timeout, retries)) as connection:
            connection.send("DELETE", path_of(name))

    def _close(self) -> None:
        self._connection.close()

    def __repr__(self) -> str:
        worker = "" if self._worker is None else f", worker {self._worker.name!r}"
        return f"<RemoteStudy {self._name!r} at {self._connection.url}{worker}>"

    # Asking and telling. Arguments are checked here first, so that an invalid one costs
    # no request.

    def _hand_out(self, n: int) -> list[Trial]:
        worker = self._asker
        data = self._post(
            "ask",
            n=n,
            worker=worker.name,
            lease=worker.lease,
            besides=worker.busy(),
            instance=worker.instance,
        )
        trials = _trials(data)
        # Missing if no trial is a repeat
        repeated = zip(trials, data.get("repeats", ()), strict=False)
        self._repeats.update({trial.id: repeat for trial, repeat in repeated if repeat})
        return trials

    def _tell_one(
        self,
        trial: AnyTrial,
        scores: AnyScores,
        cost: float | None,
        details: Mapping[str, Any] | None,
    ) -> bool:
        tell = Tell(trial, scores, cost, details)
        return self._taken("tell", **self._told(tell), worker=self.worker_name)

    def _tell(self, tells: Sequence[Any]) -> list[bool | Exception]:
        outcomes: list[bool | Exception | None] = []
        scores: list[dict[str, Any]] = []
        for item in tells:
            try:
                scores.append(self._told(Tell.of(item)))
                outcomes.append(None)
            except Exception as error:
                # Of any kind: the scores of the other tells were paid for and must be
                # sent
                outcomes.append(error)
        settled: list[bool | Exception] = []
        for start in range(0, len(scores), _TELLS_AT_ONCE):
            data = self._post(
                "tell-many",
                tells=scores[start : start + _TELLS_AT_ONCE],
                worker=self.worker_name,
            )
            for answer in _record(data, "outcomes")["outcomes"]:
                problem = answer["problem"]
                settled.append(
                    error_of(problem["status"], problem) if problem else answer["taken"]
                )
        answers = iter(settled)
        return [next(answers) if outcome is None else outcome for outcome in outcomes]

    def _told(self, tell: Tell) -> dict[str, Any]:
        """Return the fields of a request for one tell, after checking them."""
        scores = self._checked(tell.scores)
        cost = checks.check_cost(tell.cost)
        return {
            "trial": _named(self._asker.own(tell.trial)),
            "scores": scores,
            "cost": cost,
            **_kept(encode(tell.details)),
        }

    def _checked(
        self, scores: object, is_observed: bool = False
    ) -> tuple[float, ...] | dict[str, float]:
        """Return checked scores by the goal's metrics. The service computes further columns of the goal itself.

        With scores of proxies, return a mapping from metric to score.
        """
        metrics = self._goal.metrics
        vector, proxies = checked_scores(self._goal, self._proxies, scores, is_observed)
        vector = (vector or ())[: len(metrics)]
        if not proxies:
            return vector
        of_proxies = zip(self._proxies, proxies, strict=True)
        return dict(zip(metrics, vector, strict=False)) | {
            name: score for name, score in of_proxies if score is not None
        }

    def observe(
        self,
        prompt: AnyPrompt,
        scores: AnyScores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> bool:
        checked, cost = None, checks.check_cost(cost)
        if scores is not None or cost is None:
            checked = self._checked(scores, is_observed=True)
        if not isinstance(example, str | None):
            example = whole("example", example, 0)
        named = _named_prompt(prompt)
        return self._patiently(
            lambda: self._taken(
                "observe", prompt=named, scores=checked, example=example, cost=cost
            )
        )

    def _fail(
        self, trial: AnyTrial, reason: str, cost: float | None, details: str | None
    ) -> bool:
        cost = checks.check_cost(cost)
        return self._taken(
            "fail",
            trial=_named(trial),
            reason=reason,
            cost=cost,
            worker=self.worker_name,
            instance=self._asker.instance,
            **_kept(details),
        )

    def _release(self, trial: AnyTrial) -> bool:
        return self._taken(
            "release",
            trial=_named(trial),
            worker=self.worker_name,
            instance=self._asker.instance,
        )

    # Workers

    def heartbeat(self, trial: AnyTrial | None = None) -> list[Trial]:
        worker = self._bound("heartbeat")
        only = None if trial is None else _named(trial)
        return _trials(
            self._post(
                "heartbeat",
                worker=worker.name,
                trial=only,
                lease=worker.lease,
                instance=worker.instance,
            )
        )

    def workers(self) -> list[Holding]:
        path = f"{self._path}/workers"
        holdings = _record(self._connection.send("GET", path))["holdings"]
        return [
            Holding(**{**holding, "trial": Trial(**holding["trial"])})
            for holding in holdings
        ]

    # Changing the selection. Each request has a key, which is stored with the study, so
    # that a request that is sent again is done once, even if the service was restarted
    # in between.

    def add(self, prompts: NewPrompts, *, key: str | None = None) -> list[str | int]:
        named: object = (
            prompts.to_data() if isinstance(prompts, Candidates) else prompts
        )
        Prompts.of(prompts)  # refuses invalid prompts before the request
        request = {"prompts": named, "key": key or uuid.uuid4().hex}
        ids: list[str | int] = self._patiently(
            lambda: self._post("add", **request)["ids"]
        )
        return ids

    def retire(
        self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None
    ) -> None:
        request = {
            "prompt": _named_prompt(prompt),
            "reason": checks.check_reason(reason),
            "key": key or uuid.uuid4().hex,
        }
        self._patiently(lambda: self._post("retire", **request))

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        n_examples, ids = numbered(examples)
        more = {
            "evaluations": checks.plain(evaluations),
            "cost": checks.plain(cost),
            "examples": n_examples if ids is None else list(ids),
        }
        new_key = key or uuid.uuid4().hex
        self._patiently(lambda: self._post("extend", **more, key=new_key))

    def remark(
        self, text: str, *, topic: str = "scores", doubtful: bool = False
    ) -> None:
        self._patiently(
            lambda: self._post(
                "remark", text=text, topic=topic, doubtful=bool(doubtful)
            )
        )

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
    proxies: tuple[str, ...] = part_at("_proxies", AbstractStudy.proxies)
    method: AbstractMethod = part_at("_method", AbstractStudy.method)

    def _all_pending(self) -> list[Trial]:
        return [holding.trial for holding in self.workers()]

    def repeat_of(self, trial: Trial) -> int:
        """As for `Selector.repeat_of`, if this object asked for the trial. For other trials, it returns 0."""
        return self._repeats.get(trial.id, 0)

    @property
    def max_cost(self) -> float | None:
        # A study never gains or loses its bound on cost, so that without one no request
        # is needed.
        return float(self._info()["max_cost"]) if self._is_cost_limited else None

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        ids = _record(self._get("examples"), "ids")["ids"]
        return None if ids is None else tuple(ids)

    @property
    def selector(self) -> Selector:
        return Selector.from_json(self._get("selector"))

    def result(self) -> Result:
        """The selected prompts and the estimates of all prompts. Final if `done`, otherwise from the scores so far.

        The result's methods `compare` and `examples` send a request when you call them.
        So they may already include scores that were recorded after the call of `result`.
        """
        return loaded_result(
            self._get("result"),
            self._goal,
            _Asks(self._compare_places),
            _Asks(self._examples),
        )

    def _compare_places(
        self, a: Place, b: Place, confidence: float, tolerance: float | None
    ) -> Comparison:
        """Compare two prompts of a result, by their ids."""
        return self.compare(ById(a[1]), ById(b[1]), confidence, tolerance)

    def _examples(self, metric: str | None, fdr: float) -> list[ExampleResult]:
        """Analyze the examples of a result."""
        return self.selector.result().examples(metric, fdr)

    def compare(
        self,
        a: AnyPrompt,
        b: AnyPrompt | None = None,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> Comparison:
        asked: dict[str, object] = {
            "confidence": checks.check_part("The confidence", confidence)
        }
        if tolerance is not None:
            asked["tolerance"] = checks.check_number(
                "The tolerance", tolerance, 0.0, checks.LARGEST
            )
        for key, prompt in (("a", a), *((("b", b),) if b is not None else ())):
            named = _named_prompt(prompt)
            asked.update(
                {f"{key}_id": named["id"]} if isinstance(named, dict) else {key: named}
            )
        query = urlencode(asked, errors="surrogatepass")
        data = _record(self._get(f"compare?{query}"), "a", "b", "differences")
        return replace(Comparison.from_dict(data), _minimized=self._goal.minimized)

    def evaluations(self, after: int = 0) -> Evaluations:
        return Evaluations(self._evaluations(whole("`after`", after, 0)), self.metrics)

    def _evaluations(self, after: int) -> Iterator[Evaluation]:
        """Yield the evaluations. Each request gets up to 1,000."""
        while True:
            query = urlencode({"after": after, "n": _EVALUATIONS_AT_ONCE})
            page = _record(self._get(f"evaluations?{query}"), "evaluations")[
                "evaluations"
            ]
            yield from (Evaluation(**row) for row in page)
            after += len(page)
            if len(page) < _EVALUATIONS_AT_ONCE:
                return

    def report(
        self,
        path: str | Path,
        about: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        document = _record(self._get("report"), "format", "version", "made")
        if (document["format"], document["version"]) != (
            reports.FORMAT,
            reports.VERSION,
        ):
            raise ServiceError(
                f"The service's report has version {document['version']!r}, but this asktell writes version "
                f"{reports.VERSION}. Use the same version of asktell on both sides, or open the service's own page."
            )
        document["made"]["about"] = reports.plain(about)
        reports.write(path, reports.with_inputs(document, inputs))

    # Requests

    def _get(self, what: str) -> dict[str, Any]:
        """Read something about the study."""
        path = f"{self._path}/{what}"
        return _record(self._patiently(lambda: self._connection.send("GET", path)))

    def _info(self) -> dict[str, Any]:
        """Read the service's description of the study."""
        info = self._patiently(lambda: self._connection.send("GET", self._path))
        return _record(info, "definition", "budget", "max_cost")

    def _post(self, what: str, **data: object) -> Any:
        """Send a request that may change the study."""
        return self._connection.send("POST", f"{self._path}/{what}", data)

    def _taken(self, what: str, **data: object) -> bool:
        """Send a request, and return whether it recorded something."""
        return bool(_record(self._post(what, **data), "taken")["taken"])


class _Asks(Generic[_P, _R]):
    """Sends the requests of a result's methods. When the result is pickled, None takes its place."""

    def __init__(self, ask: Callable[_P, _R]) -> None:
        self._ask = ask

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._ask(*args, **kwargs)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _record(data: object, *names: str) -> dict[str, Any]:
    """Return the response if it is an object with these names.

    Raises:
        ServiceError: it is not.
    """
    if not isinstance(data, dict) or any(name not in data for name in names):
        raise ServiceError(
            f"The response does not come from an asktell service. Got {short(data)}. Check the URL, and the "
            "version of asktell of the service."
        )
    return data


def _trials(data: object) -> list[Trial]:
    """Return the trials in a response."""
    return [Trial(**trial) for trial in _record(data, "trials")["trials"]]


def _kept(details: str | None) -> dict[str, Any]:
    """Return the field of a request for details, which are JSON text."""
    return {} if details is None else {"details": json.loads(details)}


def _named(trial: object) -> int | str | dict[str, Any]:
    """Return the identification of a trial in a request. It leaves out the text, which may be long."""
    trial = from_json(trial)
    if not isinstance(trial, Trial):
        return trial
    example = None if trial.example is None else int(trial.example)
    prompt = checks.plain(trial.prompt_id)
    return {"id": trial.id, "prompt_id": prompt, "example": example}


def _named_prompt(prompt: AnyPrompt) -> str | dict[str, str | int]:
    """Return the identification of a prompt in a request: a text, which may be its id, or `{"id": ...}`."""
    prompt = checks.plain(prompt)
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Trial):
        id_: object = prompt.prompt_id
    else:
        id_ = prompt if isinstance(prompt, int) else getattr(prompt, "id", None)
    id_ = checks.plain(id_)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise InvalidArgumentError(
            f"Name a prompt by its id or its text, got {short(prompt)}."
        )
    return {"id": id_}
