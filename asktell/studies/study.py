"""Study: a selector whose events are kept in a storage.

Every operation that changes a study is one transaction: read the entries that others
appended, apply them, do the operation, append its entries. So two workers never get the
same trial, and the committed log is the whole state: nothing else needs to survive a
crash.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from asktell import reports
from asktell.errors import (
    ConflictingWorkerError,
    InvalidArgumentError,
    StudyExistsError,
)
from asktell.methods import AbstractMethod
from asktell.problem.budget import describe_spending
from asktell.problem.checks import check_name, needed_cost, whole
from asktell.problem.goals import Goal
from asktell.problem.prompts import AnyPrompt
from asktell.problem.scores import AnyScores
from asktell.problem.trials import AnyTrial, Tell, Trial
from asktell.problem.words import short
from asktell.record import events
from asktell.record.engine import checked_scores
from asktell.results.comparison import Comparison
from asktell.results.evaluations import Evaluations
from asktell.results.result import Result
from asktell.selector import NewPrompts, Selector, part_at
from asktell.studies import edits
from asktell.studies import export as documents
from asktell.studies.abstract import AbstractStudy
from asktell.studies.details import encode
from asktell.studies.edits import Additions, settings_that_differ
from asktell.studies.export import Document
from asktell.studies.leases import Holding, Lease, Leases, Paused, Resumed
from asktell.studies.log import evaluations
from asktell.studies.replica import Clock, Replica
from asktell.studies.storages import AbstractStorage, Location, opened
from asktell.studies.worker import Worker, held_by

_T = TypeVar("_T")
_P = ParamSpec("_P")


class Attendance(NamedTuple):
    """The pending trials at a moment, and the number of scores of each worker.

    Attributes:
        now: the moment, in seconds since 1970, by the storage's clock.
        out: a tuple `(id, (arm, example), lease, attempt)` for each pending trial,
            oldest first. The arm is the position of the prompt. The lease is None if
            the trial has none. The attempt is 1 when the trial is handed out for the
            first time.
        told: for each worker, the number of scores that it recorded. Scores from before
            the study was opened in this process may be missing. So use differences of
            two values.
    """

    now: float
    out: list[tuple[int, tuple[int, int | None], Lease | None, int]]
    told: Mapping[str, int]


class Standing(NamedTuple):
    """The progress of a study, as it is in the storage.

    A decision of the method that is due, but not in the storage yet, is not computed.
    For example, prompts that it will eliminate still count as active.

    Attributes:
        spent: number of recorded evaluations.
        budget: maximum number of evaluations.
        spent_cost: sum of all recorded costs.
        max_cost: maximum cost. None if the budget is not a cost.
        active: number of active prompts.
        pending: number of pending trials.
        failures: number of failed evaluations.
        workers: number of workers that have a lease, even an expired one.
        version: a text that changes when the study changes.
        paused: True between `pause` and `resume`.
    """

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
    """Make a property that reads the selector's property of this name from the committed state, without deciding."""

    def value(self: "Study") -> Any:
        return self._read(lambda: getattr(self._replica.selector, name))

    return property(value, doc=getattr(AbstractStudy, name).__doc__)


class Study(AbstractStudy):
    """A selector that stores every step in a file or database, for long runs, crashes and many workers.

    Make a study with `Study.create`, or open an existing study with `Study.open`. Do
    not call the class itself. Any number of processes can have the same study open at
    once. A study has the methods of `Selector`. Close it at the end, or use it in a
    `with` block.

        >>> import asktell
        >>> prompts = {"short": "Answer in one word.", "long": "Think first."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), 20, examples=10)
        >>> with asktell.Study.create("memory://docs", "my study", selector) as study:
        ...     result = asktell.run(study, lambda prompt, example: float("one" in prompt), progress=False)
        >>> result.best.id
        'short'

    "memory://docs" is the memory of this process. If you write the path of a SQLite
    file instead, such as "studies.db", the study survives the process. Then
    `Study.open("studies.db", "my study")` continues it.

    `asktell.run` evaluates the trials for you. In a loop of your own, bind the study to
    the name of a worker. Each process needs a different name.

        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), 20, examples=10)
        >>> with asktell.Study.create("memory://docs", "by hand", selector) as study:
        ...     with study.worker("gpu-1") as mine:
        ...         while trials := mine.ask(4):
        ...             told = mine.tell_many([(trial, float("one" in trial.prompt)) for trial in trials])
        ...     study.result().best.id
        'short'

    A worker with a name gets a *lease* on each trial: no other worker gets the trial
    until the lease expires. The `with` block of `study.worker` extends the leases. If
    the worker dies, its leases expire, and other workers get its trials. A trial whose
    leases expire `max_attempts` times counts as a failed evaluation.
    `asktell.extend.AbstractStudy` describes leases and errors in detail.

    A study may be used from several threads, and also in a forked process.
    """

    def __init__(
        self, replica: Replica, name: str, max_attempts: int, owned: bool
    ) -> None:
        super().__init__()
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
        """Create a study from a selector, with all evaluations that the selector has recorded.

        Args:
            location: the place of the study: the path of a SQLite file, a URL or a
                storage. `asktell.studies.storages.open_storage` lists the possible values.
            name: name of the study, printable text of at most 200 characters.
            selector: the selection to store. The study copies it, so later changes of
                `selector` do not change the study.
            max_attempts: a trial whose lease has expired this many times counts as a
                failed evaluation.
            exist_ok: True opens the study if it exists already, so that every worker
                can run the same program. If `selector` has a larger budget, or more
                prompts or examples after the existing ones, they are added to the study
                (see `grow`). Everything else must be the same: goal, method, seed,
                `max_attempts` and so on. The study keeps its own evaluations, and
                ignores those of `selector`.
            details: pairs `(trial id, details)` for trials whose scores or failures the
                selector has recorded. The details are as for `tell`.

        Raises:
            StudyExistsError: a study with this name exists. With `exist_ok`, only if it
                differs in something that cannot be added. The message has both values.
            InvalidStateError: the method, or a part of it, is your own class, and one
                of its parameters cannot be stored. A parameter must be text, a finite
                number, True, False, None, or a list of such values.
            StorageError: the storage cannot be used.
        """
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(
                "Study.create() needs a Selector, such as asktell.Selector(prompts, goal, budget), got "
                f"{short(selector)}."
            )
        document = Document(
            uuid.uuid4().hex,
            whole("max_attempts", max_attempts, 1),
            json.loads(selector.to_json()),
        )
        check_name("The name of a study", name)
        with opened(location, keep=True) as storage:
            texts = (
                (trial, text)
                for trial, value in details
                if (text := encode(value)) is not None
            )
            key, owned = None, storage is not location
            try:
                key = storage.create(name, document.to_bytes(), details=texts)
            except StudyExistsError:
                if not exist_ok:
                    raise
            if key is None:
                return cls._existing(storage, name, owned, selector, document)
            study = cls._at(storage, name, key, owned, selector.method)
            study._lease_pending()
            return study

    @classmethod
    def _existing(
        cls,
        storage: AbstractStorage,
        name: str,
        owned: bool,
        selector: Selector,
        document: Document,
    ) -> Self:
        """Return the study of this name, with what `selector`, whose document is `document`, has more of."""
        key = storage.find(name)
        first = documents.from_bytes(storage.document(key))
        differing = settings_that_differ(
            {**first.selector, "max_attempts": first.max_attempts},
            {**document.selector, "max_attempts": document.max_attempts},
        )
        # Another method may be unable to continue the study's state
        if "method" in differing:
            raise _differs(name, edits.Differences(differing, Additions()))
        study = cls._at(storage, name, key, owned, selector.method)
        study._grow(selector, differing, may_be_older=True)
        return study

    def grow(self, selector: Selector) -> list[str]:
        """Add the prompts, the budget and the examples that a selector has more of.

        If several processes do this at the same time, each addition is made once.
        `create` with `exist_ok=True` does the same.

        Args:
            selector: the wanted selection. Its evaluations are ignored. It may lack
                budget and examples that were added to the study, prompts that were
                added by `add`, and retired prompts. In `create`, it may also lack
                prompts that were added by `grow`.

        Returns:
            The additions in words, such as "100 evaluations". Empty if there are none.

        Raises:
            StudyExistsError: the study differs from the selector in something that
                cannot be added. Nothing was added. The message has both values.
        """
        document = documents.from_bytes(
            self._patiently(self._replica.storage.document, self._replica.key)
        )
        wanted = json.loads(selector.to_json())
        differing = settings_that_differ(document.selector, wanted)
        return self._grow(selector, differing, may_be_older=False)

    def _grow(
        self,
        selector: Selector,
        differing: dict[str, list[str]],
        may_be_older: bool,
    ) -> list[str]:
        """Do what `grow` does. `differing` are the settings that differ, and `may_be_older` is as for `compare`."""
        replica = self._replica

        def compared() -> Additions:
            differences = edits.compare(replica.selector, selector, may_be_older)
            if differing or differences.differing:
                raise _differs(
                    self._name,
                    differences._replace(
                        differing={**differing, **differences.differing}
                    ),
                )
            return differences.additions

        def add() -> Additions:
            # Again, because others may have added the same meanwhile
            additions = compared()
            try:
                additions.add_to(replica.engine)
            except InvalidArgumentError as error:
                raise StudyExistsError(
                    f"The study {self._name!r} was created with other values of {', '.join(additions.settings())}. "
                    f"It cannot get {' and '.join(additions.in_words())} more. {error}"
                ) from error
            return additions

        return (self._read(compared) and self._write(add)).in_words()

    def _lease_pending(self) -> None:
        """Lease the trials that were pending in the selector from which the study was made, to this object."""
        trials, worker = self._all_pending(), self._unnamed
        if not trials:
            return
        ids = [trial.id for trial in trials]
        with self._replica.writing(durable=True) as clock:
            self._replica.lease(worker.name, ids, clock(), worker.lease)
        worker.at_hand = trials
        self._ask(len(trials))  # so that they are out

    @classmethod
    def open(
        cls,
        location: Location,
        name: str,
        *,
        method: AbstractMethod | None = None,
        examples: int | Sequence[str] | None = None,
    ) -> Self:
        """Open an existing study.

        Args:
            location: as for `create`.
            name: name of the study.
            method: the study's method. Needed only if the method, or a part of it, is
                your own code. The storage holds only its class name and its parameters,
                and the method that you pass must have the same.
            examples: the number of examples, or their ids, to check that they have not
                changed since the study was created.

        Raises:
            StudyNotFoundError: the study or the whole storage does not exist.
            InvalidArgumentError: the study has other examples. The message lists the
                differences.
            MissingMethodError: the method is your own code, and `method` is None.
            InvalidStateError: `method` is another method, or the stored data is
                malformed or has an unknown version.
            StorageError: the storage cannot be used.
        """
        check_name("The name of a study", name)
        with opened(location, keep=True) as storage:
            study = cls._at(
                storage, name, storage.find(name), storage is not location, method
            )
            problem = study._replica.engine.state.problem
            problem.examples.check_same(f"The study {name!r}", examples)
            return study

    @classmethod
    def _at(
        cls,
        storage: AbstractStorage,
        name: str,
        key: int,
        owned: bool,
        method: AbstractMethod | None,
    ) -> Self:
        """Return the study with this key in a storage. `owned`: close the storage with the study."""
        document = documents.from_bytes(storage.document(key))
        return cls(
            Replica(storage, key, document.engine(method)),
            name,
            document.max_attempts,
            owned,
        )

    @classmethod
    def import_(
        cls,
        location: Location,
        path: str | Path,
        name: str | None = None,
        *,
        method: AbstractMethod | None = None,
    ) -> Self:
        """Create a study from a file that `export` wrote. After an error, no study was created.

        Args:
            location: as for `create`.
            path: path of the file.
            name: name of the new study. By default, the name of the exported study.
            method: as for `open`.

        Raises:
            StudyExistsError: a study with this name exists.
            MissingMethodError: the method is your own code, and `method` is None.
            InvalidStateError: the file is malformed, cut off, or has an unknown
                version. Or `method` is another method.
        """
        with Path(path).open("rb") as file, opened(location, keep=True) as storage:
            content = documents.read(file, method)
            new_name = check_name(
                "The name of a study", content.name if name is None else name
            )
            key = storage.create(
                new_name, content.document.to_bytes(), content.lines, content.details
            )
            return cls._at(storage, new_name, key, storage is not location, method)

    @staticmethod
    def names(location: Location) -> list[str]:
        """Return the names of all studies in a storage, oldest first.

        Args:
            location: as for `create`.

        Raises:
            StudyNotFoundError: the storage does not exist.
        """
        with opened(location) as storage:
            return storage.names()

    @staticmethod
    def delete(location: Location, name: str) -> None:
        """Remove a study and all of its evaluations.

        A process that still has the study open gets a StudyNotFoundError when it uses
        the study.

        Args:
            location: as for `create`.
            name: name of the study.

        Raises:
            StudyNotFoundError: the study or the whole storage does not exist.
        """
        with opened(location) as storage:
            storage.delete(check_name("The name of a study", name))

    def _close(self) -> None:
        if self._owned:
            self._replica.storage.close()

    def __repr__(self) -> str:
        spent = describe_spending(self._replica.selector)
        worker = "" if self._worker is None else f", worker {self._worker.name!r}"
        return f"<Study {self._name!r}: {spent}{worker}>"

    # Transactions

    def _write(
        self, operation: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Do an operation in one durable transaction, and append its entries to the log."""

        def once() -> _T:
            with self._replica.writing(durable=True):
                return operation(*args, **kwargs)

        return self._patiently(once)

    def _read(self, look: Callable[[], _T]) -> _T:
        """Look at the committed state."""

        def once() -> _T:
            with self._replica.reading():
                return look()

        return self._patiently(once)

    def _view(self) -> Selector:
        """Return a selector in the present state for reading, with the decisions that are due."""
        return self._patiently(self._replica.view)

    # Asking

    def _hand_out(self, n: int) -> list[Trial]:
        replica, worker = self._replica, self._worker or self._unnamed
        replica.prepare()
        with replica.writing(durable=False) as clock:
            # Written out, because each worker does it for each trial
            if worker.instance in replica.leases.instances.get(worker.name, ())[:-1]:
                raise _replaced(worker)
            if replica.leases.paused is not None:
                return []
            now, trials = clock(), list[Trial]()
            # 1. Extend the leases of this worker, which is alive: its machine may have
            # slept for longer than a lease. Not each time, because it may hold many.
            if not 0 <= now - worker.looked < worker.lease / 4:
                replica.extend(worker.name, now, worker.lease)
            # 2. Take back the trials of workers that died.
            if now >= replica.leases.earliest:
                replica.expire(now, self._max_attempts)
            # 3. Return what this worker holds, for example from before a restart.
            if worker.name in replica.leases.by_worker:
                idle = worker.idle(replica.leases.held(worker.name), n)
                trials += map(replica.engine.trial, idle)
            # 4. Fill up with new trials, and lease all.
            n_held = len(trials)
            trials += replica.engine.ask(n - n_held)
            if trials:
                ids = map(attrgetter("id"), trials)
                replica.lease(worker.name, ids, now, worker.lease, worker.instance)
            # The new trials are grouped by prompt already. Stable, so that a prompt's
            # examples keep their order.
            if n_held:
                pending = replica.engine.state.pending
                trials.sort(key=lambda trial: pending[trial.id].arm)
        worker.looked = now
        return trials

    # Telling. When these methods return, the scores are stored durably.

    def _tell(self, tells: Sequence[Any]) -> list[bool | Exception]:
        return self._replica.together(self._take, tells) if tells else []

    def _take(self, item: object, clock: Clock) -> bool:
        """Record one tell. The only place where its scores are checked."""
        tell = item if type(item) is Tell else Tell.of(item)
        details = None if tell.details is None else encode(tell.details)
        replica = self._replica
        engine, leases = replica.engine, replica.leases
        problem = engine.state.problem
        vector, proxies = checked_scores(problem.goal, problem.proxies, tell.scores)
        asker = (self._worker or self._unnamed).name
        worker = None if self._worker is None else asker
        id_, pull = engine.find(tell.trial, leases.by_worker.get(asker))
        lease = leases.by_trial.get(id_)
        holder = None if lease is None else lease.worker
        if lease is not None and worker in (None, holder):
            # Its holder is alive, so its other trials are not given to others yet. They
            # were often leased at the same time.
            now = clock()
            if lease.deadline <= now + lease.seconds / 2:
                replica.extend(lease.worker, now, lease.seconds)
        # A trial that was handed out once needs no more checks: the engine compares its
        # scores with recorded ones.
        reissue = leases.reissued.get(id_)
        if reissue is not None:
            if pull is None:
                # Only the worker whose scores were recorded can contradict itself.
                # Others were too late.
                recorded = engine.state.history.scores_of(id_)
                is_teller = worker is not None and worker == reissue[1]
                if recorded is None or (recorded != vector and not is_teller):
                    return False
            elif worker is not None and worker != holder:
                # So that this worker counts as the teller
                replica.lease(worker, (id_,), clock(), 0.0)
        assert vector is not None, "only observations have no vector"
        cost = needed_cost(tell.cost, problem.max_cost)
        is_new = engine.tell_checked(events.Told(id_, vector, cost, proxies), pull)
        if is_new and details is not None:
            replica.attach(id_, details)
        return is_new

    def observe(
        self,
        prompt: AnyPrompt,
        scores: AnyScores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> bool:
        observe = self._replica.engine.observe
        return self._write(observe, prompt, scores, example, cost)

    def _fail(
        self, trial: AnyTrial, reason: str, cost: float | None, details: str | None
    ) -> bool:
        replica = self._replica
        with replica.writing(durable=True):
            id_, pull = self._find(trial)
            if self._lost(id_, pull) or not replica.engine.fail(id_, reason, cost):
                return False
            if details is not None:
                replica.attach(id_, details)
            return True

    def _release(self, trial: AnyTrial) -> bool:
        with self._replica.writing(durable=False):
            id_, pull = self._find(trial)
            return not self._lost(id_, pull) and self._replica.engine.release(id_)

    def _find(self, trial: AnyTrial) -> tuple[int, events.Pull | None]:
        """Find a trial. A prompt stands for the oldest trial of it that the worker holds, or else that is pending."""
        held = self._replica.leases.by_worker.get((self._worker or self._unnamed).name)
        return self._replica.engine.find(trial, held)

    def _lost(self, id_: int, pull: events.Pull | None) -> bool:
        """True if another worker, or another process under this worker's name, holds or has ended the trial."""
        leases, worker = self._replica.leases, self.worker_name
        if _is_replaced(self._asker, leases):
            return True
        if pull is None:
            return id_ in leases.reissued
        return worker is not None and leases.holder(id_) not in (None, worker)

    # Workers

    def heartbeat(self, trial: AnyTrial | None = None) -> list[Trial]:
        replica, worker = self._replica, self._bound("heartbeat")
        with replica.writing(durable=False) as clock:
            if _is_replaced(worker, replica.leases):
                raise _replaced(worker)
            held = list(replica.leases.held(worker.name))
            if trial is not None:
                only, _ = self._find(trial)
                held = [id_ for id_ in held if id_ == only]
            if held:
                replica.lease(worker.name, held, clock(), worker.lease)
            return list(map(replica.engine.trial, held))

    def workers(self) -> list[Holding]:
        with self._replica.reading():
            state, prompts = self._replica.engine.state, self._replica.engine.prompts
            now, out, _ = self.attendance()
        return [
            Holding(
                lease and lease.worker,
                prompts.trial(id_, *cell),
                lease and lease.deadline - now,
                attempt,
                not state.left.has_eliminated(cell[0]),
                lease and now - lease.since,
            )
            for id_, cell, lease, attempt in out
        ]

    def attendance(self) -> Attendance:
        """Return the number of scores of each worker, and the data of `workers` without the prompts' texts.

        It is small, for web pages that request it again and again.
        `asktell.extend.Attendance` describes the fields.
        """
        replica = self._replica
        with replica.reading():
            leases = replica.leases
            out = [
                (
                    trial,
                    (pull.arm, pull.example),
                    leases.by_trial.get(trial),
                    leases.attempt(trial),
                )
                for trial, pull in replica.engine.state.pending.items()
            ]
            return Attendance(replica.storage.now(), out, leases.told)

    # Changing the selection

    def add(self, prompts: NewPrompts, *, key: str | None = None) -> list[str | int]:
        return self._write(self._replica.engine.add, prompts, key=self._key(key))

    def retire(
        self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None
    ) -> None:
        retire = self._replica.engine.retire
        self._write(retire, prompt, reason, key=self._key(key))

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        extend = self._replica.engine.extend
        self._write(extend, evaluations, cost, examples, key=self._key(key))

    def remark(
        self, text: str, *, topic: str = "scores", doubtful: bool = False
    ) -> None:
        remark = self._replica.engine.remark
        self._write(remark, text, topic=topic, doubtful=doubtful)

    def pause(self) -> None:
        with self._replica.writing(durable=True) as clock:
            if self._replica.leases.paused is None:
                self._replica.note(Paused(round(clock(), 3)))

    def resume(self) -> None:
        with self._replica.writing(durable=True):
            if self._replica.leases.paused is not None:
                self._replica.note(Resumed())

    # Reading. These methods read the committed state, and write nothing.

    @property
    def id(self) -> str:
        """A text that no other study has, not even a study of the same name that was deleted before.

        A study that is exported and imported keeps its id.

        Raises:
            StudyNotFoundError: the study was deleted.
        """
        document = self._replica.storage.document(self._replica.key)
        return documents.from_bytes(document).id

    name: str = part_at("_name", AbstractStudy.name)
    goal: Goal = part_at("_replica.selector.goal", AbstractStudy.goal)
    proxies: tuple[str, ...] = part_at(
        "_replica.selector.proxies", AbstractStudy.proxies
    )
    method: AbstractMethod = part_at("_replica.selector.method", AbstractStudy.method)
    spent: int = _committed("spent")
    budget: int = _committed("budget")
    spent_cost: float = _committed("spent_cost")
    example_ids: tuple[str, ...] | None = _committed("example_ids")

    def _all_pending(self) -> list[Trial]:
        return self._read(lambda: self._replica.selector.pending)

    def repeat_of(self, trial: Trial) -> int:
        selector = self._replica.selector
        if self._replica.engine.state.problem.examples.repeats == 1:
            return 0
        return self._read(lambda: selector.repeat_of(trial))

    @property
    def done(self) -> bool:
        return self._view().done

    @property
    def paused(self) -> bool:
        return self._read(lambda: self._replica.leases.paused is not None)

    @property
    def max_cost(self) -> float | None:
        # A study never gains or loses its bound on cost
        if self._replica.selector.max_cost is None:
            return None
        return self._read(lambda: self._replica.selector.max_cost)

    @property
    def n_active(self) -> int:
        def in_log() -> int | None:
            state = self._replica.engine.state
            is_due = not state.pending and state.may_decide
            return None if is_due else self._replica.selector.n_active

        n = self._read(in_log)
        return self._view().n_active if n is None else n

    @property
    def standing(self) -> Standing:
        """The progress of the study in numbers, fast to compute. `asktell.extend.Standing` describes the fields."""
        replica = self._replica
        with replica.reading():
            selector, state = replica.selector, replica.engine.state
            is_paused = replica.leases.paused is not None
            return Standing(
                selector.spent,
                selector.budget,
                selector.spent_cost,
                selector.max_cost,
                selector.n_active,
                len(state.pending),
                len(state.failures),
                len(replica.leases.by_worker),
                reports.version_of(state, is_paused),
                is_paused,
            )

    @property
    def selector(self) -> Selector:
        return copy(self._view())

    def result(self) -> Result:
        view = self._view()
        result = view.result()
        return replace(result, notes=(*result.notes, *self._reasons_to_wait(view)))

    def _reasons_to_wait(self, view: Selector) -> list[str]:
        """Return sentences on why `ask` returns no trial at the moment, although the study is not done."""
        if view.done:
            return []
        if self.paused:
            return ["The study is paused, so ask() returns no trials until resume()."]
        engine = self._replica.engine
        may_ask = engine.next_pull() is not None or (
            engine.state.may_decide and engine.next_decision() is not None
        )
        pending = [] if may_ask else self._patiently(self.workers)
        if not pending:
            return []
        return [
            f"ask() returns no trials until the pending trials are recorded: {held_by(pending, time.time())}. If a "
            "worker has died, its trials are handed out again after that time."
        ]

    def compare(
        self,
        a: AnyPrompt,
        b: AnyPrompt | None = None,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> Comparison:
        return self._view().compare(a, b, confidence, tolerance)

    def evaluations(self, after: int = 0) -> Evaluations:
        replica, after = self._replica, whole("`after`", after, 0)
        document = self._patiently(lambda: replica.storage.document(replica.key))
        first = documents.from_bytes(document).engine(self.method)
        details = partial(replica.storage.details, replica.key)
        ended = evaluations(first.state, replica.lines(), first.prompts, details, after)
        return Evaluations(ended, self.metrics)

    def report(
        self,
        path: str | Path,
        about: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        reports.write(path, self._patiently(lambda: self.report_data(about, inputs)))

    def report_data(
        self,
        about: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return the data of the page that `report` writes, as a mapping that `json.dumps` accepts.

        Args:
            about: as for `report`.
            inputs: as for `report`.

        Raises:
            InvalidArgumentError: as for `report`.
        """
        view, ended = self._view(), self.evaluations()
        return reports.document(
            view.state, view.method, view.prompts, name=self._name, evaluations=ended, about=about,
            paused=self.paused, inputs=inputs,
        )  # fmt: skip

    def export(self, path: str | Path) -> None:
        """Write the whole study to a file, from which `Study.import_` creates a study in any storage.

        Args:
            path: path of the file. It has one JSON value per line. An existing file is
                replaced.
        """
        replica = self._replica
        document = documents.from_bytes(replica.storage.document(replica.key))
        details = (
            (e.trial, text)
            for e in self.evaluations()
            if (text := encode(e.details)) is not None
        )
        documents.write(Path(path), document, self._name, replica.lines(), details)


def _is_replaced(worker: Worker, leases: Leases) -> bool:
    """True if another process has asked under the worker's name since this worker did."""
    return worker.instance in leases.instances.get(worker.name, ())[:-1]


def _replaced(worker: Worker) -> ConflictingWorkerError:
    """Return the error for a worker that `_is_replaced`."""
    return ConflictingWorkerError(
        f"Another process has started to work under the name of this worker, {worker.name!r}, and has got its trials. "
        "Give each process a different name. This worker gets no more trials, but it can still record the scores of "
        "those that it has."
    )


def _differs(name: str, found: edits.Differences) -> StudyExistsError:
    """Return the error for a study that differs from a selector."""
    return StudyExistsError(f"The study {name!r} {found.in_words()}")
