"""Study: a selection that outlives its processes. A selector and a storage of its events.

Every operation that changes something is one transaction: read what others appended, fold it, do it, append. So two
workers never get the same pull, and what was committed is all there is: nothing else needs to survive.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from asktell.errors import InvalidArgumentError, StudyExistsError
from asktell.problem.budget import describe_spending
from asktell.problem.candidates import Trial
from asktell.problem.checks import check_name, check_trials, short, whole
from asktell.problem.examples import check_examples
from asktell.selector import Selector
from asktell.state.lookup import AnyTrial
from asktell.storages import AbstractStorage, Location, opened, opening
from asktell.studies import export as documents
from asktell.studies.evaluations import encode
from asktell.studies.export import Document
from asktell.studies.leases import Leased, check_worker, seconds_of
from asktell.studies.processes import is_process
from asktell.studies.replica import Replica
from asktell.studies.telling import Tellable
from asktell.studies.worker import Worker

_Self = TypeVar("_Self", bound="Study")


class Study(Tellable):
    """A selector whose every step is kept in a storage, for long runs, many workers, and crashes.

    Made by `Study.create` or `Study.open`, in any number of processes at once. Its methods are the Selector's own, with
    workers and leases added; `tell`, `fail` and `observe` return when what they took is on the disk.

    A worker that asks with its name gets a lease: its trials are asked again from somebody else once the lease has run
    out. A trial whose lease runs out `max_attempts` times counts as failed. Scores that come late are taken, from
    whoever tells first. Without a name there is no lease, and a trial stays out until it is told, failed or released.

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
        cls: type[_Self],
        location: Location,
        name: str,
        selector: Selector,
        *,
        max_attempts: int = 3,
        exist_ok: bool = False,
        details: Iterable[tuple[int, Mapping[str, Any]]] = (),
    ) -> _Self:
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
            InvalidStateError: the method has parts that are not asktell's own, which no file can hold.
            StorageError: the storage cannot be used.
        """
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(f"A study is made of a Selector, got {short(selector)}.")
        document = Document(whole("max_attempts", max_attempts, 1), selector.to_json())
        check_name("The name of a study", name)
        with opening(location) as storage:
            try:
                texts = ((trial, text) for trial, each in details if (text := encode(each)) is not None)
                key = storage.create(name, document.to_bytes(), details=texts)
            except StudyExistsError:
                if not exist_ok:
                    raise
                key = storage.find(name)
                documents.from_bytes(storage.document(key)).refuse_others(document, name)
            return cls._at(storage, name, key, storage is not location)

    @classmethod
    def open(cls: type[_Self], location: Location, name: str, *, examples: int | Sequence[str] | None = None) -> _Self:
        """The study of this name, as it stands. Its examples must be those that are given, by number or ids, if any.

        Raises:
            StudyNotFoundError: there is no study of this name, or nothing at all at this place.
            InvalidArgumentError: the examples are others; the message says which.
            InvalidStateError: what is there is not a study, or of an unknown version.
            StorageError: the storage cannot be used.
        """
        check_name("The name of a study", name)
        with opening(location) as storage:
            study = cls._at(storage, name, storage.find(name), storage is not location)
            problem = study._replica.logged.state.problem
            check_examples(f"The study {name!r}", problem.n_examples, problem.examples, examples)
            return study

    @classmethod
    def _at(cls: type[_Self], storage: AbstractStorage, name: str, key: int, owned: bool) -> _Self:
        document = documents.from_bytes(storage.document(key))
        return cls(Replica(storage, key, document.logged()), name, document.max_attempts, owned)

    @classmethod
    def import_(cls: type[_Self], location: Location, path: str | Path, name: str | None = None) -> _Self:
        """Make a study of a file that `export` wrote; whole, or not at all.

        Args:
            location: where to, as for `create`.
            path: the file.
            name: of the new study; by default the one it had.

        Raises:
            StudyExistsError: there is a study of this name.
            InvalidStateError: the file is malformed, cut off, or of an unknown version.
            StorageError: the storage cannot be used.
        """
        with Path(path).open("rb") as file, opening(location) as storage:
            document, old_name, content = documents.read(file)
            new_name = check_name("The name of a study", old_name if name is None else name)
            key = storage.create(new_name, document.to_bytes(), content.lines(), content.details())
            return cls._at(storage, new_name, key, storage is not location)

    @staticmethod
    def names(location: Location) -> list[str]:
        """The names of all studies at a place, in the order in which they were made.

        Raises:
            StudyNotFoundError: there is nothing at this place.
            StorageError: the storage cannot be used.
        """
        with opened(location) as storage:
            return storage.names()

    @staticmethod
    def delete(location: Location, name: str) -> None:
        """Remove a study, with everything that was told; whoever has it open gets a StudyNotFoundError.

        Raises:
            StudyNotFoundError: there is no study of this name.
            StorageError: the storage cannot be used.
        """
        with opened(location) as storage:
            storage.delete(check_name("The name of a study", name))

    def close(self) -> None:
        """Let go of the storage's files and connections. What is out stays out."""
        if self._owned:
            self._replica.storage.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Study {self._name!r}: {describe_spending(self._replica.logged.selector)}>"

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
        """What to evaluate now: a trial, or with `n` a list of up to n, those of the same prompt together.

        A worker gets back first what it holds already, oldest first, and is topped up to n: one that was restarted
        goes on with its own trials. Each comes with a new lease.

        Args:
            n: how many to hold.
            worker: a name of your choice, a different one for each worker.
            lease: seconds until the trials may be given to somebody else; 600 if only `worker` is given.
            besides: ids of trials that the worker is busy with; n others are wanted.
            process: the one that evaluates them, as `asktell.studies.processes.this_process` names it: when it is
                gone, they are given to others at once, where that can be known. A `Worker` says it by itself.

        None, or an empty list, means that the selection is `done`, is `paused`, or waits for the scores of trials
        that are `pending`. Never waits for scores.

        Raises:
            InvalidArgumentError: an argument cannot be used.
            StorageError: the storage cannot be used; nothing was handed out.
        """
        count = 1 if n is None else whole("n", n, 0)
        besides = check_trials("besides", besides)
        if process is not None and not is_process(process):
            raise InvalidArgumentError(f"process must be what this_process() gave, got {short(process)}.")
        trials = self._ask(count, worker, seconds_of(worker, lease), besides, process)
        if n is None:
            return trials[0] if trials else None
        return trials

    def _ask(
        self, n: int, worker: str | None, seconds: float, besides: Collection[int], process: str | None
    ) -> list[Trial]:
        self._replica.prepare()
        with self._replica.writing(durable=False) as (logged, clock):
            if logged.leases.paused is not None:
                return []
            now = clock()
            logged.expire(now, self._max_attempts)
            held = () if worker is None else logged.leases.held(worker)
            ids = [id_ for id_ in held if id_ not in besides][:n]
            trials = [logged.trial(id_) for id_ in ids]
            trials += logged.selector.ask(n - len(trials))
            if len(trials) < n and logged.expire_gone(worker, self._max_attempts):
                trials += logged.selector.ask(n - len(trials))
            if worker is not None and trials:
                logged.note(Leased(worker, round(now + seconds, 3), tuple(trial.id for trial in trials), process))
            return logged.grouped(trials)

    def worker(self, name: str | None = None, *, lease: float = 60.0, ahead: int = 0) -> Worker:
        """This study for one worker: a `with` block in which its leases are extended, in the Selector's own words.

        Args:
            name: a different one for each worker; by default of the host, the process and some random letters. Give
                one if the worker, after a restart, is to go on with its own trials.
            lease: seconds after which its trials are given to others when it dies.
            ahead: trials that it asks for beyond those that it needs now, to be at hand for the next ask. With so many
                fewer transactions many workers keep out of each other's way; but what one has at hand was chosen
                without what is told meanwhile, and at the end others wait for it.
        """
        return Worker(self, name, lease, ahead)

    def release(self, trial: AnyTrial, *, worker: str | None = None) -> bool:
        """Hand a trial back unevaluated; it will be asked again, under the same id.

        False if it is not this worker's any more, and nothing was changed.

        Raises:
            UnknownTrialError: the trial is not out.
            StorageError: the storage cannot be used.
        """
        check_worker(worker)
        with self._replica.writing(durable=False) as (logged, _):
            id_ = logged.find(trial, worker)
            if logged.lost(id_, worker) or (id_ not in logged.state.pending and id_ in logged.leases.reissued):
                return False
            logged.selector.release(id_)
            return True

    def heartbeat(self, worker: str, trial: AnyTrial | None = None, *, lease: float | None = None) -> list[Trial]:
        """Extend a worker's leases to `lease` seconds from now (600 by default); what it still holds, oldest first.

        Args:
            worker: its name.
            trial: only this one; by default all that it holds.
            lease: seconds.

        A trial that is missing from the answer was told, or its lease had run out and somebody asked since.

        Raises:
            InvalidArgumentError: an argument cannot be used.
            StorageError: the storage cannot be used.
        """
        seconds = seconds_of(check_name("A worker", worker), lease)
        with self._replica.writing(durable=False) as (logged, clock):
            held = logged.leases.held(worker)
            if trial is not None:
                id_ = logged.find(trial, worker)
                held = tuple(other for other in held if other == id_)
            if held:
                logged.note(Leased(worker, round(clock() + seconds, 3), held))
            return [logged.trial(id_) for id_ in held]
