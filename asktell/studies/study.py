"""Study: a selection that outlives its processes. A selector and a storage of its events.

Every operation that changes something is one transaction: read what others appended, fold it, do it, append. So two
workers never get the same pull, and what was committed is all there is: nothing else needs to survive.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

from asktell import reports
from asktell.errors import InvalidArgumentError, StudyExistsError
from asktell.methods import Method
from asktell.problem.budget import describe_spending
from asktell.problem.candidates import AnyPrompt, AnyTrial, Tell, Trial
from asktell.problem.checks import check_name, short, whole
from asktell.problem.examples import check_examples
from asktell.problem.goals import Goal, Scores
from asktell.results import Comparison, Result
from asktell.results.evaluations import Evaluations
from asktell.selector import Features, NewPrompts, Selector, part_at
from asktell.storages import AbstractStorage, Location, opened
from asktell.studies import export as documents
from asktell.studies.base import AbstractStudy
from asktell.studies.details import encode
from asktell.studies.export import Document
from asktell.studies.leases import SECONDS, Holding, Lease, Leased, Paused, Resumed, check_lease, check_worker
from asktell.studies.log import LoggedSelector, evaluations
from asktell.studies.replica import Clock, Replica
from asktell.studies.worker import Worker


class Attendance(NamedTuple):
    """Who holds what at a moment, and how many scores each worker told.

    `now`: by the storage's clock. `out`: trial, (arm, example), lease, attempt, the oldest first. `told`: by worker,
    as far as this object saw it come.
    """

    now: float
    out: list[tuple[int, tuple[int, int | None], Lease | None, int]]
    told: Mapping[str, int]


class Standing(NamedTuple):
    """How far a study is, as it was logged: decisions that are due are not computed. `version` changes with it."""

    spent: int
    budget: int
    spent_cost: float
    max_cost: float | None
    active: int
    pending: int
    failures: int
    workers: int
    version: str
    paused: bool = False


def _committed(name: str) -> Any:
    """A property of the selector, with everything that was committed by now; nothing is decided for it."""

    def read(self: "Study") -> Any:
        with self._replica.reading() as logged:
            return getattr(logged.selector, name)

    return property(read, doc=getattr(AbstractStudy, name).__doc__)


class Study(AbstractStudy):
    """A selector whose every step is kept in a storage, for long runs, many workers, and crashes.

    Made by `Study.create` or `Study.open`, in any number of processes at once. Its methods are the Selector's own, with
    workers and leases added. A trial whose lease runs out `max_attempts` times counts as failed.

    May be used from several threads, and goes on in a forked process. Close it, or use it in a `with` block.
    """

    def __init__(self, replica: Replica, name: str, max_attempts: int, owned: bool) -> None:
        self._replica = replica
        self._name = name
        self._max_attempts = max_attempts
        self._owned = owned  # whether its storage is to be closed with it

    # Making, opening, removing

    @classmethod
    def create(
        cls,
        location: Location,
        name: str,
        selector: Selector,
        *,
        max_attempts: int = 3,
        exist_ok: bool = False,
        details: Iterable[tuple[int, Mapping[str, Any]]] = (),
    ) -> Self:
        """Make a study that starts where a selector stands.

        Args:
            location: a URL, the path of a SQLite file, or a storage: see `asktell.storages.open_storage`.
            name: of the study; printable text of at most 200 characters.
            selector: what to select, by which method; it is copied.
            max_attempts: a trial whose lease has run out this many times counts as a failed evaluation.
            exist_ok: open the study of this name if there is one, so that every worker may run the same program. It
                must have been made of the same prompts, goal, budget, method and so on.
            details: of trials that the selector was told already.

        Raises:
            StudyExistsError: there is a study of this name, or, with `exist_ok`, one of something else.
            InvalidStateError: a part of a method of your own has a parameter that is no plain value.
        """
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(f"A study is made of a Selector, got {short(selector)}.")
        document = Document(whole("max_attempts", max_attempts, 1), json.loads(selector.to_json()))
        check_name("The name of a study", name)
        with opened(location, keep=True) as storage:
            try:
                texts = ((trial, text) for trial, each in details if (text := encode(each)) is not None)
                key = storage.create(name, document.to_bytes(), details=texts)
            except StudyExistsError:
                if not exist_ok:
                    raise
                key = storage.find(name)
                documents.from_bytes(storage.document(key)).refuse_others(document, name)
            return cls._at(storage, name, key, storage is not location, selector.method)

    @classmethod
    def open(
        cls,
        location: Location,
        name: str,
        *,
        method: Method | None = None,
        examples: int | Sequence[str] | None = None,
    ) -> Self:
        """The study of this name, as it stands.

        Args:
            location: as for `create`.
            name: of the study.
            method: the study's method, where the whole method or a part of it is code of your own: a storage holds
                its class name and its parameters, which must be the same.
            examples: their number or their ids, to be sure that they are the same as then.

        Raises:
            StudyNotFoundError: there is no study of this name, or nothing at all at this place.
            InvalidArgumentError: the examples are others; the message says which.
            InvalidStateError: what is there is not a study, or of an unknown version; or the method is another one, or
                is needed and was not given.
        """
        check_name("The name of a study", name)
        with opened(location, keep=True) as storage:
            study = cls._at(storage, name, storage.find(name), storage is not location, method)
            problem = study._replica.logged.state.problem
            check_examples(f"The study {name!r}", problem.n_examples, problem.examples, examples)
            return study

    @classmethod
    def _at(cls, storage: AbstractStorage, name: str, key: int, owned: bool, method: Method | None) -> Self:
        document = documents.from_bytes(storage.document(key))
        return cls(Replica(storage, key, document.logged(method)), name, document.max_attempts, owned)

    @classmethod
    def import_(
        cls, location: Location, path: str | Path, name: str | None = None, *, method: Method | None = None
    ) -> Self:
        """Make a study of a file that `export` wrote, under the name it had unless one is given; whole, or not at all.

        `method`: as for `open`.

        Raises:
            StudyExistsError: there is a study of this name.
            InvalidStateError: the file is malformed, cut off, or of an unknown version.
        """
        with Path(path).open("rb") as file, opened(location, keep=True) as storage:
            content = documents.read(file, method)
            new_name = check_name("The name of a study", content.name if name is None else name)
            key = storage.create(new_name, content.document.to_bytes(), content.lines, content.details)
            return cls._at(storage, new_name, key, storage is not location, method)

    @staticmethod
    def names(location: Location) -> list[str]:
        """The names of all studies at a place, in the order in which they were made.

        Raises:
            StudyNotFoundError: there is nothing at this place.
        """
        with opened(location) as storage:
            return storage.names()

    @staticmethod
    def delete(location: Location, name: str) -> None:
        """Remove a study, with everything that was told; whoever has it open gets a StudyNotFoundError.

        Raises:
            StudyNotFoundError: there is no study of this name.
        """
        with opened(location) as storage:
            storage.delete(check_name("The name of a study", name))

    def close(self) -> None:
        if self._owned:
            self._replica.storage.close()

    def __repr__(self) -> str:
        return f"<Study {self._name!r}: {describe_spending(self._replica.logged.selector)}>"

    # Asking

    def _ask(
        self, n: int, worker: str | None = None, seconds: float = SECONDS, besides: Collection[int] = ()
    ) -> list[Trial]:
        self._replica.prepare()
        with self._replica.writing(durable=False) as (logged, clock):
            if logged.leases.paused is not None:
                return []
            now, trials = clock(), list[Trial]()
            if now >= logged.leases.earliest:
                logged.expire(now, self._max_attempts)
            if worker in logged.leases.by_worker:
                ids = [id_ for id_ in logged.leases.held(worker) if id_ not in besides][:n]
                trials = [logged.trial(id_) for id_ in ids]
            held = len(trials)
            trials += logged.selector._ask(n - held)
            if worker is not None and trials:
                logged.note(Leased(worker, round(now + seconds, 3), tuple(map(attrgetter("id"), trials))))
            return sorted(trials, key=lambda trial: logged.state.pending[trial.id].arm) if held else trials

    # Telling. When these return, what they took is on the disk.

    def _tell(self, tells: Sequence[Any], worker: str | None) -> list[bool | Exception]:
        return self._replica.together([partial(self._take, tell, worker) for tell in tells]) if tells else []

    def _take(self, item: object, worker: str | None, logged: LoggedSelector, clock: Clock) -> bool:
        tell = Tell.of(item)
        text = encode(tell.details)
        vector = logged.selector.goal.vector(tell.scores)
        id_ = logged.find(tell.trial, worker)
        reissue = logged.leases.reissued.get(id_)
        if reissue is not None:
            if logged.state.open(id_) is None:
                told = logged.state.history.scores_of(id_)
                if told is None or (told != vector and (worker is None or worker != reissue.teller)):
                    return False
            elif worker is not None and worker != logged.leases.holder(id_):
                logged.note(Leased(worker, round(clock(), 3), (id_,)))  # so that it is the teller
        is_new = logged.selector.tell(id_, tell.scores, tell.cost)
        if is_new:
            self._replica.attach(id_, text)
        return is_new

    def observe(
        self, prompt: AnyPrompt, scores: Scores | None, example: int | str | None = None, cost: float | None = None
    ) -> bool:
        with self._replica.writing(durable=True) as (logged, _):
            return logged.selector.observe(prompt, scores, example, cost)

    def _fail(self, trial: AnyTrial, reason: str, cost: float | None, worker: str | None, details: str | None) -> bool:
        with self._replica.writing(durable=True) as (logged, _):
            id_ = logged.find(trial, worker)
            if logged.lost(id_, worker) or not logged.selector.fail(id_, reason, cost):
                return False
            self._replica.attach(id_, details)
            return True

    def release(self, trial: AnyTrial, *, worker: str | None = None) -> bool:
        check_worker(worker)
        with self._replica.writing(durable=False) as (logged, _):
            id_ = logged.find(trial, worker)
            return not logged.lost(id_, worker) and logged.selector.release(id_)

    # Workers

    def worker(self, name: str | None = None, *, lease: float = 60.0, ahead: int = 0) -> Worker:
        return Worker(self, name, lease, ahead)

    def heartbeat(self, worker: str, trial: AnyTrial | None = None, *, lease: float | None = None) -> list[Trial]:
        seconds = check_lease(check_name("A worker", worker), lease)
        with self._replica.writing(durable=False) as (logged, clock):
            held = logged.leases.held(worker)
            if trial is not None:
                id_ = logged.find(trial, worker)
                held = tuple(other for other in held if other == id_)
            if held:
                logged.note(Leased(worker, round(clock() + seconds, 3), held))
            return [logged.trial(id_) for id_ in held]

    def workers(self) -> list[Holding]:
        with self._replica.reading() as logged:
            prompts, (now, out, _) = logged.selector.prompts, self.attendance()
            state = logged.state
        return [
            Holding(
                lease and lease.worker,
                prompts.trial(id_, *cell),
                lease and lease.deadline - now,
                attempt,
                wanted=not state.is_eliminated(cell[0]),
            )
            for id_, cell, lease, attempt in out
        ]

    def attendance(self) -> Attendance:
        """Who holds what, as `workers`, and how much each has told; for pages that poll."""
        with self._replica.reading() as logged:
            leases = logged.leases
            out = [
                (trial, (pull.arm, pull.example), leases.by_trial.get(trial), leases.attempt(trial))
                for trial, pull in sorted(logged.state.pending.items())
            ]
            return Attendance(self._replica.storage.now(), out, dict(logged.told))

    # Going on

    def add(self, prompts: NewPrompts, features: Features = None, *, key: str | None = None) -> list[str | int]:
        with self._replica.writing(durable=True) as (logged, _):
            return logged.selector.add(prompts, features, key=key)

    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        with self._replica.writing(durable=True) as (logged, _):
            logged.selector.retire(prompt, reason, key=key)

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        with self._replica.writing(durable=True) as (logged, _):
            logged.selector.extend(evaluations, cost, examples, key=key)

    def remark(self, text: str, *, topic: str = "scores", doubtful: bool = False) -> None:
        with self._replica.writing(durable=True) as (logged, _):
            logged.selector.remark(text, topic=topic, doubtful=doubtful)

    def pause(self) -> None:
        with self._replica.writing(durable=True) as (logged, clock):
            if logged.leases.paused is None:
                logged.note(Paused(round(clock(), 3)))

    def resume(self) -> None:
        with self._replica.writing(durable=True) as (logged, _):
            if logged.leases.paused is not None:
                logged.note(Resumed())

    # Reading: what was committed by now, and nothing is written

    name: str = part_at("_name", AbstractStudy.name)
    goal: Goal = part_at("_replica.logged.selector.goal", AbstractStudy.goal)
    method: Method = part_at("_replica.logged.selector.method", AbstractStudy.method)
    pending: list[Trial] = _committed("pending")
    spent: int = _committed("spent")
    budget: int = _committed("budget")
    spent_cost: float = _committed("spent_cost")
    example_ids: tuple[str, ...] | None = _committed("example_ids")

    def repeat_of(self, trial: Trial) -> int:
        if self._replica.logged.state.problem.repeats == 1:
            return 0
        with self._replica.reading() as logged:
            return logged.selector.repeat_of(trial)

    @property
    def done(self) -> bool:
        return self._replica.view().done

    @property
    def paused(self) -> bool:
        with self._replica.reading() as logged:
            return logged.leases.paused is not None

    @property
    def max_cost(self) -> float | None:
        if self._replica.logged.selector.max_cost is None:  # there always is one, or never
            return None
        with self._replica.reading() as logged:
            return logged.selector.max_cost

    @property
    def n_active(self) -> int:
        with self._replica.reading() as logged:
            if logged.state.pending or not logged.state.may_decide:
                return logged.selector.n_active
        return self._replica.view().n_active

    @property
    def standing(self) -> Standing:
        """How far it is; cheap. `workers` are those that hold trials by a lease, also by one that has run out."""
        with self._replica.reading() as logged:
            selector, state, paused = logged.selector, logged.state, logged.leases.paused is not None
            return Standing(
                selector.spent,
                selector.budget,
                selector.spent_cost,
                selector.max_cost,
                selector.n_active,
                len(state.pending),
                len(state.failures),
                len({lease.worker for lease in logged.leases.by_trial.values()}),
                reports.version_of(state, paused),
                paused,
            )

    @property
    def selector(self) -> Selector:
        return copy(self._replica.view())

    def result(self) -> Result:
        return self._replica.view().result()

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        return self._replica.view().compare(a, b, confidence, tolerance)

    def evaluations(self, after: int = 0) -> Evaluations:
        replica, after = self._replica, whole("after", after, 0)
        base = documents.from_bytes(replica.storage.document(replica.key)).logged(self.method)
        prompts = base.selector.prompts
        found = evaluations(base.state, replica.lines(), prompts, partial(replica.storage.details, replica.key), after)
        return Evaluations(found, self.metrics)

    def report(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        reports.write(path, self.report_data(about))

    def report_data(self, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What `report` shows, as JSON-ready data."""
        view, told = self._replica.view(), self.evaluations()
        return reports.document(
            view.state, view.method, view.prompts, name=self._name, evaluations=told, about=about,
            paused=self.paused,
        )  # fmt: skip

    def export(self, path: str | Path) -> None:
        """Write everything to a file of JSON lines, from which `Study.import_` makes a study, in any storage."""
        replica = self._replica
        document = documents.from_bytes(replica.storage.document(replica.key))
        details = ((e.trial, text) for e in self.evaluations() if (text := encode(e.details)) is not None)
        documents.write(Path(path), document, self._name, replica.lines(), details)
