"""What a study says to whoever looks. Nothing here writes."""

from collections.abc import Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from asktell import reports
from asktell.methods import Method
from asktell.problem.candidates import AnyPrompt, Trial
from asktell.problem.checks import check_seconds, whole
from asktell.problem.goals import Goal
from asktell.results import Comparison, Result
from asktell.results.evaluations import Evaluations
from asktell.selector import Selector
from asktell.studies import export as documents
from asktell.studies.evaluations import encode, evaluations
from asktell.studies.leases import Holding, Lease
from asktell.studies.logged import LoggedSelector
from asktell.studies.replica import Replica


class Attendance(NamedTuple):
    """Who holds what at a moment, and how many scores each worker told.

    `now`: by the storage's clock. `out`: trial, (arm, example), lease, attempt, the oldest first. `told`: by worker,
    as far as this object saw it come.
    """

    now: float
    out: list[tuple[int, tuple[int, int | None], Lease | None, int]]
    told: Mapping[str, int]


class Standing(NamedTuple):
    """How far a study is, as it was logged: decisions that are due are not computed."""

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


def _version(logged: LoggedSelector) -> str:
    return reports.version_of(logged.state, logged.leases.paused is not None)


class Readable:
    """The part of a study that only reads."""

    _replica: Replica
    _name: str

    @property
    def name(self) -> str:
        """The study's name."""
        return self._name

    @property
    def pending(self) -> list[Trial]:
        """The trials that are out, oldest first."""
        with self._replica.reading() as logged:
            return logged.selector.pending

    def repeat_of(self, trial: Trial) -> int:
        """How often its prompt was asked on its example before; see `Selector.repeat_of`."""
        if not self._replica.logged.state.problem.is_noisy:
            return 0
        with self._replica.reading() as logged:
            return logged.selector.repeat_of(trial)

    def workers(self) -> list[Holding]:
        """The trials that are out, oldest first, and who holds them."""
        with self._replica.reading() as logged:
            now = self._replica.storage.now()
            holdings = []
            for trial in logged.selector.pending:
                lease = logged.leases.by_trial.get(trial.id)
                reissue = logged.leases.reissued.get(trial.id)
                attempt = 1 + (0 if reissue is None else reissue.expired)
                if lease is None:
                    holdings.append(Holding(None, trial, None, attempt))
                else:
                    holdings.append(Holding(lease.worker, trial, lease.deadline - now, attempt))
            return holdings

    def attendance(self) -> Attendance:
        """Who holds what, as `workers`, and how much each has told; for who looks again and again."""
        with self._replica.reading() as logged:
            out = []
            for trial, pull in sorted(logged.state.pending.items()):
                reissue = logged.leases.reissued.get(trial)
                attempt = 1 + (0 if reissue is None else reissue.expired)
                out.append((trial, (pull.arm, pull.example), logged.leases.by_trial.get(trial), attempt))
            return Attendance(self._replica.storage.now(), out, dict(logged.told))

    @property
    def standing(self) -> Standing:
        """How far it is; cheap. `workers` are those that hold trials by a lease, also by one that has run out."""
        with self._replica.reading() as logged:
            selector, state = logged.selector, logged.state
            return Standing(
                selector.spent,
                selector.budget,
                selector.spent_cost,
                selector.max_cost,
                selector.n_active,
                len(state.pending),
                len(state.failures),
                len({lease.worker for lease in logged.leases.by_trial.values()}),
                _version(logged),
                logged.leases.paused is not None,
            )

    def wait(self, seconds: float = 1.0) -> None:
        """Wait until others have done something, or so many seconds: for whoever asked and got nothing.

        With PostgreSQL the server says when; elsewhere the time passes.

        Raises:
            InvalidArgumentError: the seconds are no number above 0.
            StorageError: the storage cannot be used.
        """
        self._replica.wait(check_seconds("seconds", seconds))

    def evaluations(self, after: int = 0) -> Evaluations:
        """Every evaluation that was told or failed, in that order, with its details; `.to_dataframe()` is a table.

        Args:
            after: leave out the first so many, which somebody has already.

        Raises:
            InvalidArgumentError: `after` is no number of at least 0.
            StorageError: the storage cannot be used.
        """
        replica, after = self._replica, whole("after", after, 0)
        base = documents.from_bytes(replica.storage.document(replica.key)).logged()
        prompts = base.selector.prompts
        found = evaluations(base.state, replica.lines(), prompts, partial(replica.storage.details, replica.key), after)
        return Evaluations(found, self.metrics)

    def export(self, path: str | Path) -> None:
        """Write everything to a file of JSON lines, which `Study.import_` makes a study of, in any storage.

        Raises:
            OSError: the file cannot be written.
            StorageError: the storage cannot be used.
        """
        replica = self._replica
        document = documents.from_bytes(replica.storage.document(replica.key))
        details = ((e.trial, text) for e in self.evaluations() if (text := encode(e.details)) is not None)
        documents.write(Path(path), document, self._name, replica.lines(), details)

    @property
    def done(self) -> bool:
        """Whether the last decision has been made: nothing will be asked again, unless prompts or money come."""
        return self._replica.view().done

    @property
    def paused(self) -> bool:
        """Whether nothing is handed out until somebody resumes it."""
        with self._replica.reading() as logged:
            return logged.leases.paused is not None

    @property
    def spent(self) -> int:
        """Evaluations told so far, those of `observe` not counted."""
        with self._replica.reading() as logged:
            return logged.selector.spent

    @property
    def budget(self) -> int:
        """Evaluations allowed."""
        with self._replica.reading() as logged:
            return logged.selector.budget

    @property
    def spent_cost(self) -> float:
        """What was told to have been spent, in the unit of `tell(..., cost=...)`, on failures too."""
        with self._replica.reading() as logged:
            return logged.selector.spent_cost

    @property
    def max_cost(self) -> float | None:
        """Cost allowed, None if any."""
        if self._replica.logged.selector.max_cost is None:  # there always is one, or never
            return None
        with self._replica.reading() as logged:
            return logged.selector.max_cost

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        """The examples' ids by position (`trial.example`); None if there are none."""
        return self._replica.logged.selector.example_ids

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics in the order of score vectors."""
        return self._replica.logged.selector.metrics

    @property
    def goal(self) -> Goal:
        """What is looked for."""
        return self._replica.logged.selector.goal

    @property
    def method(self) -> Method:
        """How it is looked for."""
        return self._replica.logged.selector.method

    @property
    def n_active(self) -> int:
        """How many prompts are still in the race."""
        with self._replica.reading() as logged:
            if logged.state.pending or not logged.state.may_decide:
                return logged.selector.n_active
        return self._replica.view().n_active

    @property
    def selector(self) -> Selector:
        """A selector in the study's present state, independent of it from now on."""
        return copy(self._replica.view())

    def result(self) -> Result:
        """The answer so far: final if `done`, otherwise the best that can be said now.

        Raises:
            StorageError: the storage cannot be used.
        """
        return self._replica.view().result()

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        """How far prompt a is ahead of prompt b, and how sure that is; see `Result.compare`.

        Raises:
            InvalidArgumentError: a prompt is unknown, both are the same, or a number makes no sense.
            StorageError: the storage cannot be used.
        """
        return self._replica.view().compare(a, b, confidence, tolerance)

    def report(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write one HTML page about the study, which needs nothing else: no network, no other file.

        Args:
            path: of the file; one that is there is replaced.
            about: what else there is to know of how it was made, by name: the model, the data, a commit.

        Raises:
            OSError: the file cannot be written.
            StorageError: the storage cannot be used.
        """
        reports.write(path, self.report_data(about))

    @property
    def report_version(self) -> str:
        """What tells what `report_data` would give from what it gave before, its "state"; cheap."""
        with self._replica.reading() as logged:
            return _version(logged)

    def report_data(self, about: Mapping[str, Any] | None = None, patience: float = 10.0) -> dict[str, Any]:
        """What `report` shows, as JSON-ready data.

        Args:
            about: as for `report`.
            patience: seconds that may be spent on how the answer settled.

        Raises:
            StorageError: the storage cannot be used.
        """
        view, told = self._replica.view(), self.evaluations()
        return reports.document(
            view.state, view.method, view.prompts, name=self._name, evaluations=told, about=about, patience=patience,
            paused=self.paused,
        )  # fmt: skip
