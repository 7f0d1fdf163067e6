"""A study in a service, used like one that is here."""

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload
from urllib.parse import urlencode

from asktell import serialization
from asktell.errors import InvalidArgumentError
from asktell.methods import Method
from asktell.problem.candidates import AnyPrompt, ById, Tell, Trial, all_taken
from asktell.problem.checks import check_cost, check_name, check_reason, check_seconds, short, whole
from asktell.problem.examples import Examples, check_examples
from asktell.problem.goals import Goal, Scores
from asktell.results import Comparison, Result
from asktell.results.comparison import Place
from asktell.selector import Selector
from asktell.service.growing import Growable
from asktell.service.replies import holdings_of, outcomes_of, record, result_of, trials_of
from asktell.service.reported import Reported
from asktell.service.sent import kept, named, named_prompt, score
from asktell.service.transport import Connection, path_of
from asktell.state.lookup import AnyTrial
from asktell.studies.leases import Holding, check_worker
from asktell.studies.worker import Worker

_Self = TypeVar("_Self", bound="RemoteStudy")
_TELLS_AT_ONCE = 1000


class RemoteStudy(Growable, Reported):
    """A study that a service keeps (`asktell serve`), with the methods of `asktell.Study`.

    Args:
        url: of the service, as https://example.org:8000.
        name: of the study.
        examples: their number or their ids, to be sure that they are the study's own.
        token: for the service; by default that of ASKTELL_TOKEN in the environment.
        timeout: seconds to wait for an answer.
        retries: how often a request is sent again that was not answered, or was asked to come again. With 8, a service
            may be away for some 20 seconds, once it has answered; that an address is wrong is known after a second or
            so. What is sent again is not done again, as long as the service was not restarted in between; after that,
            too, what was told is counted once, and a worker that asks with its name gets back the trials that it holds.

    Every method may raise a ServiceError, when the service cannot be reached, or an AccessDeniedError, when it refuses
    the token. May be used from several threads, and goes on in a forked process.

    Raises:
        StudyNotFoundError: there is no study of this name.
        ServiceError: the service cannot be reached.
        AccessDeniedError: it refuses the token.
        InvalidArgumentError: an argument cannot be used, or the examples are others; the message says which.
        MissingExtraError: urllib3 is missing.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        examples: int | Sequence[str] | None = None,
        token: str | None = None,
        timeout: float = 90.0,
        retries: int = 8,
    ) -> None:
        self._connection = Connection(url, token, timeout, retries)
        self._name = name
        self._path = path_of(name)
        self._repeats: dict[int, int] = {}  # by trial, beside those that are the first of their cell
        self._read(self._info())
        if examples is not None:
            ids = self.example_ids
            n = self.selector.state.problem.n_examples if ids is None else len(ids)
            check_examples(f"The study {name!r}", n, None if ids is None else Examples(ids), examples)

    def _read(self, info: Mapping[str, Any]) -> None:
        definition = info["definition"]
        self._goal = serialization.load_goal(definition["goal"])
        self._method: Method = serialization.load_part(definition["method"])
        self._max_cost = info["max_cost"]

    @classmethod
    def create(
        cls: type[_Self],
        url: str,
        name: str,
        selector: Selector,
        *,
        max_attempts: int = 3,
        exist_ok: bool = False,
        token: str | None = None,
        timeout: float = 90.0,
        retries: int = 8,
    ) -> _Self:
        """Make a study that starts where a selector stands; see `Study.create`.

        Raises:
            StudyExistsError: there is a study of this name, or, with `exist_ok`, one of something else.
            InvalidStateError: the method has parts that are not asktell's own, which no file can hold.
        """
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(f"A study is made of a Selector, got {short(selector)}.")
        study = cls.__new__(cls)
        study._repeats = {}
        study._connection = Connection(url, token, timeout, retries)
        study._name, study._path = name, path_of(name)
        query = f"max_attempts={whole('max_attempts', max_attempts, 1)}&exist_ok={'true' if exist_ok else 'false'}"
        path = f"{study._path}/selector?{query}"
        info = study._connection.send("PUT", path, json.loads(selector.to_json()))
        study._read(record(info, "definition", "budget", "max_cost"))
        return study

    @staticmethod
    def names(url: str, *, token: str | None = None, timeout: float = 90.0, retries: int = 8) -> list[str]:
        """The names of all studies of a service, in the order in which they were made."""
        connection = Connection(url, token, timeout, retries)
        try:
            return [str(name) for name in connection.send("GET", "/v1/studies")["studies"]]
        finally:
            connection.close()

    @staticmethod
    def delete(url: str, name: str, *, token: str | None = None, timeout: float = 90.0, retries: int = 8) -> None:
        """Remove a study, with everything that was told.

        Raises:
            StudyNotFoundError: there is no study of this name.
        """
        connection = Connection(url, token, timeout, retries)
        try:
            connection.send("DELETE", path_of(name))
        finally:
            connection.close()

    def close(self) -> None:
        """Let go of the connections. What is out stays out."""
        self._connection.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStudy {self._name!r} at {self._connection.url}>"

    # Asking and telling

    @overload
    def ask(
        self,
        n: None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
        process: str | None = None,
    ) -> Trial | None: ...

    @overload
    def ask(
        self,
        n: int,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
        process: str | None = None,
    ) -> list[Trial]: ...

    def ask(
        self,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        besides: Collection[int] = (),
        process: str | None = None,
    ) -> Trial | list[Trial] | None:
        """What to evaluate now; see `Study.ask`."""
        count = 1 if n is None else whole("n", n, 0)
        data = self._post("ask", n=count, worker=worker, lease=lease, besides=list(besides), process=process)
        trials = trials_of(data)
        repeated = zip(trials, data.get("repeats", ()), strict=False)  # an older service does not say
        self._repeats.update({trial.id: repeat for trial, repeat in repeated if repeat})
        if n is None:
            return trials[0] if trials else None
        return trials

    def repeat_of(self, trial: Trial) -> int:
        """How often the prompt of a trial that was asked here was asked on its example before: see `Selector`."""
        return self._repeats.get(trial.id, 0)

    def wait(self, seconds: float = 1.0) -> None:
        """Let so many seconds pass, in which others may do something; see `Study.wait`."""
        time.sleep(check_seconds("seconds", seconds))

    def worker(self, name: str | None = None, *, lease: float = 60.0, ahead: int = 0) -> Worker:
        """This study for one worker; see `Study.worker`."""
        return Worker(self, name, lease, ahead)

    def tell(
        self,
        trial: AnyTrial,
        scores: Scores,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Take the scores of a trial; see `Study.tell`."""
        return self._taken("tell", **score(Tell(trial, scores, cost, details), self._goal), worker=worker)

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]], *, worker: str | None = None) -> list[bool]:
        """Take several scores at once; see `Study.tell_many`. Of very many, so many as fit into a request at a time."""
        check_worker(worker)
        outcomes: list[bool | Exception | None] = []
        scores: list[dict[str, Any]] = []
        for item in tells:
            try:
                scores.append(score(Tell.of(item), self._goal))
                outcomes.append(None)
            except Exception as error:  # whatever it is: the next one's scores were paid for, too
                outcomes.append(error)
        settled = iter(
            outcome
            for start in range(0, len(scores), _TELLS_AT_ONCE)
            for outcome in outcomes_of(
                self._post("tell-many", tells=scores[start : start + _TELLS_AT_ONCE], worker=worker)
            )
        )
        return all_taken([next(settled) if outcome is None else outcome for outcome in outcomes])

    def observe(
        self,
        prompt: AnyPrompt,
        scores: Scores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> None:
        """Take scores from elsewhere; see `Study.observe`."""
        vector = None if scores is None and cost is not None else self._goal.vector(scores)
        paid = {} if cost is None else {"cost": check_cost(cost)}
        if not isinstance(example, str | None):
            example = whole("example", example, 0)
        self._post("observe", prompt=named_prompt(prompt), scores=vector, example=example, **paid)

    def release(self, trial: AnyTrial, *, worker: str | None = None) -> bool:
        """Hand a trial back unevaluated; see `Study.release`."""
        return self._taken("release", trial=named(trial), worker=worker)

    def fail(
        self,
        trial: AnyTrial,
        reason: str | BaseException,
        cost: float | None = None,
        *,
        worker: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> bool:
        """Count a failed evaluation; see `Study.fail`."""
        reason = check_reason(reason)
        cost = None if cost is None else check_cost(cost)
        return self._taken("fail", trial=named(trial), reason=reason, cost=cost, worker=worker, **kept(details))

    def heartbeat(self, worker: str, trial: AnyTrial | None = None, *, lease: float | None = None) -> list[Trial]:
        """Extend a worker's leases; see `Study.heartbeat`."""
        only = None if trial is None else named(trial)
        return trials_of(self._post("heartbeat", worker=check_name("A worker", worker), trial=only, lease=lease))

    # Reading

    @property
    def name(self) -> str:
        """The study's name."""
        return self._name

    @property
    def pending(self) -> list[Trial]:
        """The trials that are out, oldest first."""
        return [holding.trial for holding in self.workers()]

    def workers(self) -> list[Holding]:
        """The trials that are out, oldest first, and who holds them."""
        return holdings_of(self._get("workers"))

    @property
    def done(self) -> bool:
        """Whether the last decision has been made: nothing will be asked again."""
        return bool(self._info()["done"])

    @property
    def paused(self) -> bool:
        """Whether nothing is handed out until somebody resumes it."""
        return bool(self._info().get("paused", False))  # an older service knows no pause

    @property
    def spent(self) -> int:
        """Evaluations told so far, those of `observe` not counted."""
        return int(self._info()["spent"])

    @property
    def spent_cost(self) -> float:
        """What was told to have been spent, in the unit of `tell(..., cost=...)`, on failures too."""
        return float(self._info()["spent_cost"])

    @property
    def n_active(self) -> int:
        """How many prompts are still in the race."""
        return int(self._info()["active"])

    @property
    def budget(self) -> int:
        """Evaluations allowed."""
        return int(self._info()["budget"])

    @property
    def max_cost(self) -> float | None:
        """Cost allowed, None if any."""
        return None if self._max_cost is None else float(self._info()["max_cost"])  # there always is one, or never

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        """The examples' ids by position (`trial.example`); None if there are none."""
        ids = record(self._get("examples"), "ids")["ids"]
        return None if ids is None else tuple(ids)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics in the order of score vectors."""
        return self._goal.metrics

    @property
    def goal(self) -> Goal:
        """What is looked for."""
        return self._goal

    @property
    def method(self) -> Method:
        """How it is looked for."""
        return self._method

    @property
    def selector(self) -> Selector:
        """A selector in the study's present state, independent of it from now on."""
        return Selector.from_json(self._get("selector"))

    def result(self) -> Result:
        """The answer so far: final if `done`, otherwise the best that can be said now.

        Its `compare` asks the service, about the study as it stands by then.
        """
        return result_of(self._get("result"), self._goal, _AskService(self))

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        """How far prompt a is ahead of prompt b, and how sure that is; see `Result.compare`."""
        asked: dict[str, object] = {"confidence": confidence, "tolerance": tolerance}
        for key, prompt in (("a", a), *((("b", b),) if b is not None else ())):
            found = named_prompt(prompt)
            asked.update({f"{key}_id": found["id"]} if isinstance(found, dict) else {key: found})
        query = urlencode(asked, errors="surrogatepass")
        return Comparison.from_dict(record(self._get(f"compare?{query}"), "a", "b", "differences"))

    # Requests

    def _get(self, what: str) -> dict[str, Any]:
        return record(self._connection.send("GET", f"{self._path}/{what}"))

    def _info(self) -> dict[str, Any]:
        return record(self._connection.send("GET", self._path), "definition", "budget", "max_cost")

    def _post(self, what: str, **data: object) -> Any:
        return self._connection.send("POST", f"{self._path}/{what}", data)

    def _taken(self, what: str, **data: object) -> bool:
        return bool(record(self._post(what, **data), "taken")["taken"])


class _AskService:
    """Compares prompts of a result by asking; a copy of the result in another process cannot."""

    def __init__(self, study: RemoteStudy) -> None:
        self._study = study

    def __call__(self, a: Place, b: Place, confidence: float, tolerance: float) -> Comparison:
        return self._study.compare(ById(a[1]), ById(b[1]), confidence, tolerance)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()
