"""The base class of trackers, and the data that they write. Each other module of this folder has a tracker for a tool.

Trackers read the selector's own history, so that every evaluation is tracked once, also
after a restart.
"""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from asktell import EvaluatorError, InvalidArgumentError, Result, Selector
from asktell.extend import State, log

# After an update, the tracker pauses for this many times the update's duration. So it
# takes at most 5% of a run.
_SHARE = 20


class Extent(NamedTuple):
    """How much a selection or a run has.

    Attributes:
        evaluations: number of evaluations, with the observed scores.
        decisions: number of decisions.
    """

    evaluations: int = 0
    decisions: int = 0


class LoggedEvaluation(NamedTuple):
    """Scores of a prompt on an example.

    Attributes:
        number: number of the evaluation, from 1, in the order of recording.
        prompt: id of the prompt.
        example: index of the example, or None if the evaluator draws its own.
        scores: score by metric.
    """

    number: int
    prompt: str | int
    example: int | None
    scores: dict[str, float]


class Decision(NamedTuple):
    """A decision that eliminated prompts, at the end of a round.

    Attributes:
        number: number of the decision. All decisions count, from 1.
        evaluations: evaluations before the decision.
        round: number of the round.
        departures: the eliminated prompts, each with its id, status and reason.
        active: prompts that remain.
    """

    number: int
    evaluations: int
    round: int
    departures: Sequence[tuple[str | int, str, str]]
    active: int

    def numbers(self) -> dict[str, float]:
        """Return the decision as metrics by name."""
        statuses = Counter(status for _, status, _ in self.departures)
        decided = {
            "round": self.round,
            "active": self.active,
            "accepted": statuses["accepted"],
            "rejected": statuses["rejected"],
        }
        return {f"decision/{name}": number for name, number in decided.items()}


@dataclass(frozen=True)
class SelectionKey:
    """The identity of a selection, to find its run again.

    Attributes:
        name: the name of the run. None: each process starts a new run.
        key: a hash of the settings and the prompts.
        settings: goal, method, budget and the like, by name.
    """

    name: str | None
    key: str
    settings: dict[str, str | int | float]


@dataclass(frozen=True)
class Moment:
    """A selection at one moment."""

    state: State
    result: Result

    @property
    def extent(self) -> Extent:
        """The number of evaluations and decisions so far."""
        return Extent(len(self.state.history), len(self.state.decisions))

    def evaluations(self, start: int = 0) -> Iterator[LoggedEvaluation]:
        """Yield the evaluations after the first `start`, in the order of recording."""
        history = self.state.history
        metrics = self.result.goal.metrics
        entries = self.result.prompts
        rows = zip(
            history.arms(start),
            history.examples(start),
            history.scores(start).tolist(),
            strict=True,
        )
        for number, (arm, example, scores) in enumerate(rows, start + 1):
            cell = None if example < 0 else int(example)
            yield LoggedEvaluation(
                number, entries[arm].id, cell, dict(zip(metrics, scores, strict=False))
            )

    def decisions(self, start: int = 0) -> Iterator[Decision]:
        """Yield the decisions after the first `start` that eliminated prompts."""
        active = len(self.result.prompts)
        for number, (evaluations, decided) in enumerate(self.state.decisions, 1):
            active -= len(decided.departures)
            if number > start and decided.departures:
                departures = [
                    (self.result.prompts[d.arm].id, d.status, d.reason)
                    for d in decided.departures
                ]
                yield Decision(number, evaluations, decided.round, departures, active)

    def progress(self) -> dict[str, float]:
        """Return the progress as numbers by name: spending, active prompts, and estimates of the best prompt."""
        result = self.result
        numbers: dict[str, float] = {
            "progress/spent_cost": result.spent_cost,
            "progress/failures": sum(entry.failures for entry in result.prompts),
            "progress/active": sum(
                entry.status == "active" for entry in result.prompts
            ),
            "progress/selected": len(result.selected),
            "progress/evaluations": self.extent.evaluations,
            "progress/decisions": self.extent.decisions,
        }
        for entry in result.selected[:1]:
            for name, mean in entry.estimate.items():
                error = entry.standard_error[name]
                if mean is not None:
                    numbers[f"best/{name}"] = mean
                if error is not None:
                    numbers[f"best/{name}.standard_error"] = error
        verdict = result.verdict
        judged = {
            "p_good": verdict.p_good,
            "p_best": verdict.p_best,
            "p_feasible": verdict.p_feasible,
            "loss": verdict.loss,
        }
        numbers |= {
            f"verdict/{name}": value
            for name, value in judged.items()
            if value is not None
        }
        compared = None if result.baseline is None else result.comparison
        for name, difference in compared.differences.items() if compared else ():
            if difference.estimate is not None:
                numbers[f"baseline/{name}.difference"] = difference.estimate
            numbers[f"baseline/{name}.p_better"] = difference.p_better
        return numbers

    @property
    def all_failed(self) -> bool:
        """Whether there were evaluations and all of them failed."""
        return self.result.spent == 0 and any(
            entry.failures for entry in self.result.prompts
        )

    def prompts(self) -> tuple[list[str], list[list[Any]]]:
        """Return a table of all prompts, the selected prompts first.

        Returns:
            The names of the columns, and the rows.
        """
        columns = self.result.to_columns()
        place = {entry.id: n for n, entry in enumerate(self.result.selected)}
        order = sorted(
            range(len(columns["id"])),
            key=lambda row: place.get(columns["id"][row], len(place)),
        )
        columns["id"] = [str(id_) for id_ in columns["id"]]
        return list(columns), [
            [values[row] for values in columns.values()] for row in order
        ]


class Tracker(ABC):
    """A callback for `asktell.run(..., on_tell=tracker)`. In a loop of your own, call it with the selector.

    ```python
    with MLflowTracker(name="summaries") as tracker:
        result = asktell.run(selector, evaluator, on_tell=tracker)
    ```

    Use the tracker in a `with` block. At its end, the last evaluations and the tables
    are written. At each update, the tracker reads the new evaluations from the
    selector's own history, so that none is missed and none is tracked twice. If a study
    has several workers, let one of them track, or let another process call
    `tracker(study)` regularly.

    An error of the tracker never ends the run. It is shown as a warning, once, and the
    next update writes the missing data.

    Args:
        name: name of the run, by which a selection finds it again after a crash. By
            default, the name of the study. A selector has no name. So if you track a
            selector and pass no name, each process starts a new run.
        interval: the least number of seconds between two updates. After a slow update,
            the pause is longer.

    Raises:
        InvalidArgumentError: `interval` is negative.
    """

    def __init__(self, *, name: str | None = None, interval: float = 5.0) -> None:
        if not interval >= 0:
            raise InvalidArgumentError(
                f"interval must be a number of seconds of at least 0, got {interval!r}."
            )
        self.name = name
        self.interval = interval
        self._subject: Any = None
        # None until the run is opened.
        self._tracked: Extent | None = None
        # The time of the next update, on the clock time.monotonic.
        self._next = 0.0
        self._failing = False
        self._all_failed = False
        # The extent of the written tables.
        self._final: Extent | None = None

    def __call__(self, selector: Any, trial: object = None) -> None:
        """Track a selection if an update is due.

        Args:
            selector: a Selector, a Study or a worker of a study.
            trial: not used. `asktell.run` passes it.
        """
        self._subject = selector
        if time.monotonic() >= self._next or (
            isinstance(selector, Selector) and selector.state.finished
        ):
            self._guarded(self._look)

    def finish(self) -> None:
        """Write the remaining data and the tables. The end of the `with` block calls this."""
        if self._subject is not None:
            self._guarded(lambda: self._look(last=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()
        if error is None and self._all_failed:
            error = EvaluatorError("Every evaluation failed.")
        if self._tracked is not None:
            self._guarded(lambda: self._close(error))
            self._tracked = None

    def _look(self, last: bool = False) -> None:
        """Write everything that is new. At the end, also write the tables.

        Args:
            last: whether this is the last update.

        Raises:
            InvalidArgumentError: the run of this name belongs to another selection.
        """
        # A worker has its study as an attribute.
        study = getattr(self._subject, "study", self._subject)
        selector: Selector = study if isinstance(study, Selector) else study.selector
        moment = Moment(selector.state, selector.result())
        if self._tracked is None:
            tracked = self._open(
                _selection(self.name or getattr(study, "name", None), selector, moment)
            )
            if any(
                done > now for done, now in zip(tracked, moment.extent, strict=True)
            ):
                raise InvalidArgumentError(
                    f"the run of this name already has {tracked.evaluations} evaluations and {tracked.decisions} "
                    f"decisions, but this selection has {moment.extent.evaluations} and {moment.extent.decisions}, so "
                    "they are different selections. Pass another name to the tracker"
                )
            self._tracked = tracked
        self._all_failed = moment.all_failed
        if moment.extent != self._tracked:
            for tracked in self._write(moment, self._tracked):
                # After an error, the next update resumes here.
                self._tracked = tracked
        if (last or moment.result.done) and self._final != moment.extent:
            self._finish(moment)
            self._final = moment.extent

    def _guarded(self, action: Callable[[], None]) -> None:
        """Call the action, turn its error into a warning, and schedule the next update.

        A tracker that fails must not end a run that costs money.
        """
        start = time.monotonic()
        try:
            action()
        except Exception as error:
            if not self._failing:
                log.warning(
                    "%s: %s. The selection is not affected. A later update of the tracker tries again.",
                    type(self).__name__,
                    error,
                )
            self._failing = True
        else:
            self._failing = False
        end = time.monotonic()
        self._next = end + max(self.interval, _SHARE * (end - start))

    @abstractmethod
    def _open(self, selection: SelectionKey) -> Extent:
        """Start a run, or resume the run of an earlier process.

        Returns:
            The extent that the run has already.
        """

    @abstractmethod
    def _write(self, moment: Moment, since: Extent) -> Iterable[Extent]:
        """Write everything beyond `since` in pieces.

        Yields:
            The extent after each piece, at which the next update resumes after an error.
        """

    @abstractmethod
    def _finish(self, moment: Moment) -> None:
        """Write the tables and the selected prompts, and replace earlier ones."""

    def _close(self, error: BaseException | None) -> None:  # noqa: B027, most have nothing to close
        """Close the run.

        Args:
            error: the exception that ended the selection, or None.
        """


def _selection(name: str | None, selector: Selector, moment: Moment) -> SelectionKey:
    """Return the identity of a selection."""
    problem, result = moment.state.problem, moment.result
    settings: dict[str, str | int | float | None] = {
        "goal": str(result.goal),
        "method": f"{selector.method}"[:500],
        "prompts": problem.n_arms,
        "examples": problem.examples.n,
        "budget": problem.budget,
        "max_cost": problem.max_cost,
        "seed": problem.seed,
        "baseline": None if result.baseline is None else str(result.baseline),
    }
    given_settings = {
        key: value for key, value in settings.items() if value is not None
    }
    # Texts are part of the key, because two selections with the same ids may have other
    # prompts.
    parts = [given_settings, [[entry.id, entry.prompt] for entry in result.prompts]]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return SelectionKey(name, key, given_settings)
