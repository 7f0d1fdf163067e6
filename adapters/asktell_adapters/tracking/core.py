"""What is tracked and when; each tracker beside this file writes to one tool."""

import hashlib
import json
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from asktell import EvaluatorError, InvalidArgumentError, Result, Selector
from asktell.extend import State

_log = logging.getLogger("asktell")
_SHARE = 20  # a look that took so long is followed by so many times that without one: at most 5 % of a run


class Extent(NamedTuple):
    """How far something has been tracked: evaluations (those of `observe` included) and decisions."""

    evaluations: int = 0
    decisions: int = 0


class Scored(NamedTuple):
    """Scores of a prompt; `number` counts from 1, in the order in which scores came."""

    number: int
    prompt: str | int
    example: int | None
    scores: dict[str, float]


class Decision(NamedTuple):
    """The end of a round in which prompts left: (prompt, status, reason). `number` counts all decisions, from 1."""

    number: int
    evaluations: int
    round: int
    departures: Sequence[tuple[str | int, str, str]]
    active: int

    def numbers(self) -> dict[str, float]:
        left = Counter(status for _, status, _ in self.departures)
        decided = {
            "round": self.round,
            "active": self.active,
            "accepted": left["accepted"],
            "rejected": left["rejected"],
        }
        return {f"decision/{name}": number for name, number in decided.items()}


@dataclass(frozen=True)
class Selection:
    """What is selected, to find it again: a name (None: nothing by which to), a key of its settings, the settings."""

    name: str | None
    key: str
    settings: dict[str, str | int | float]


@dataclass(frozen=True)
class View:
    """A selection at one moment."""

    state: State
    result: Result

    @property
    def extent(self) -> Extent:
        return Extent(len(self.state.history), len(self.state.decisions))

    def evaluations(self, start: int = 0) -> Iterator[Scored]:
        history, metrics, entries = self.state.history, self.result.goal.metrics, self.result.prompts
        rows = zip(history.arms(start), history.examples(start), history.scores(start).tolist(), strict=True)
        for number, (arm, example, scores) in enumerate(rows, start + 1):
            cell = None if example < 0 else int(example)
            yield Scored(number, entries[arm].id, cell, dict(zip(metrics, scores, strict=False)))

    def decisions(self, start: int = 0) -> Iterator[Decision]:
        active = len(self.result.prompts)
        for number, (evaluations, decided) in enumerate(self.state.decisions, 1):
            active -= len(decided.departures)
            if number > start and decided.departures:
                departures = [(self.result.prompts[d.arm].id, d.status, d.reason) for d in decided.departures]
                yield Decision(number, evaluations, decided.round, departures, active)

    def progress(self) -> dict[str, float]:
        """What has been spent, what is left, and the estimates of the best so far, as numbers by name."""
        result = self.result
        numbers: dict[str, float] = {
            "progress/spent_cost": result.spent_cost,
            "progress/failures": sum(entry.failures for entry in result.prompts),
            "progress/active": sum(entry.status == "active" for entry in result.prompts),
            "progress/selected": len(result.selected),
            "progress/evaluations": self.extent.evaluations,
            "progress/decisions": self.extent.decisions,
        }
        for entry in result.selected[:1]:
            for name, mean in entry.estimate.items():
                error = entry.standard_error[name]
                numbers |= {} if mean is None else {f"best/{name}": mean}
                numbers |= {} if error is None else {f"best/{name}.standard_error": error}
        verdict = result.verdict
        said = {"p_best": verdict.p_best, "p_feasible": verdict.p_feasible, "loss": verdict.loss}
        numbers |= {f"verdict/{name}": value for name, value in said.items() if value is not None}
        compared = None if result.baseline is None else result.comparison
        for name, difference in compared.differences.items() if compared else ():
            if difference.estimate is not None:
                numbers[f"baseline/{name}.difference"] = difference.estimate
            numbers[f"baseline/{name}.p_better"] = difference.p_better
        return numbers

    @property
    def all_failed(self) -> bool:
        return self.result.spent == 0 and any(entry.failures for entry in self.result.prompts)

    def prompts(self) -> tuple[list[str], list[list[Any]]]:
        """Every prompt: names of columns, and rows; the selected prompts first."""
        columns = self.result.to_columns()
        place = {entry.id: n for n, entry in enumerate(self.result.selected)}
        order = sorted(range(len(columns["id"])), key=lambda row: place.get(columns["id"][row], len(place)))
        columns["id"] = [str(id_) for id_ in columns["id"]]
        return list(columns), [[values[row] for values in columns.values()] for row in order]


class Tracker(ABC):
    """A callback for `asktell.run(..., on_tell=tracker)`, or to be called with the selector in a loop of your own.

    Used in a `with` block, at the end of which the last evaluations and the tables are written. It reads what is new
    from the selector's own history, so that nothing is missed between two looks, nor tracked twice. Of the workers of a
    study, one tracks; or a process of its own calls `tracker(study)` now and then.

    An error of the tracker is a warning, once, and never ends the run: what it could not write is written at the next
    look.

    Args:
        name: what to find the run again by, when a selection goes on after a crash; by default the study's name. A
            selector without one gets a new run each time.
        interval: seconds between two looks, at least; a look that takes long is followed by a longer time without.
    """

    def __init__(self, *, name: str | None = None, interval: float = 5.0) -> None:
        if not interval >= 0:
            raise InvalidArgumentError(f"interval must be a number of seconds of at least 0, got {interval!r}.")
        self.name = name
        self.interval = interval
        self._subject: Any = None
        self._tracked: Extent | None = None  # None: not opened
        self._next = 0.0  # when to look
        self._failing = False
        self._all_failed = False
        self._final: Extent | None = None  # what the tables are of

    def __call__(self, selector: Any, trial: object = None) -> None:
        """Look at a Selector, a Study, or a worker of one, if it is time to; `trial` is not needed."""
        self._subject = selector
        if time.monotonic() >= self._next or (isinstance(selector, Selector) and selector.state.finished):
            self._guarded(self._look)

    def finish(self) -> None:
        """Write what is not written yet, and the tables. The end of the `with` block does it."""
        if self._subject is not None:
            self._guarded(lambda: self._look(last=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finish()
        if error is None and self._all_failed:
            error = EvaluatorError("Every evaluation failed.")
        if self._tracked is not None:
            self._guarded(lambda: self._close(error))
            self._tracked = None

    def _look(self, last: bool = False) -> None:
        study = getattr(self._subject, "study", self._subject)  # a worker's
        selector: Selector = study if isinstance(study, Selector) else study.selector
        view = View(selector.state, selector.result())
        if self._tracked is None:
            tracked = self._open(_selection(self.name or getattr(study, "name", None), selector, view))
            if any(done > now for done, now in zip(tracked, view.extent, strict=True)):
                raise InvalidArgumentError(
                    f"the run that is tracked under this name has {tracked.evaluations} evaluations already, and this "
                    f"selection only {view.extent.evaluations}: it is another one. Give the tracker another name"
                )
            self._tracked = tracked
        self._all_failed = view.all_failed
        if view.extent != self._tracked:
            for tracked in self._write(view, self._tracked):
                self._tracked = tracked  # so that what failed half-way goes on there
        if (last or view.result.done) and self._final != view.extent:
            self._finish(view)
            self._final = view.extent

    def _guarded(self, action: Callable[[], None]) -> None:
        start = time.monotonic()
        try:
            action()
        except Exception as error:
            if not self._failing:
                _log.warning("%s: %s. The run goes on; it will be tried again.", type(self).__name__, error)
            self._failing = True
        else:
            self._failing = False
        end = time.monotonic()
        self._next = end + max(self.interval, _SHARE * (end - start))

    @abstractmethod
    def _open(self, selection: Selection) -> Extent:
        """Start a run, or go on with that of an earlier process: how much of the selection is in it."""

    @abstractmethod
    def _write(self, view: View, since: Extent) -> Iterable[Extent]:
        """Add what is new beyond `since`, in pieces; how far it is after each."""

    @abstractmethod
    def _finish(self, view: View) -> None:
        """Write the tables and the answer, in the place of earlier ones."""

    def _close(self, error: BaseException | None) -> None:  # noqa: B027, most have nothing to close
        """Let go of the run; `error` ended it, if not None."""


def _selection(name: str | None, selector: Selector, view: View) -> Selection:
    problem, result = view.state.problem, view.result
    settings: dict[str, str | int | float | None] = {
        "goal": str(result.goal),
        "method": f"{selector.method}"[:500],
        "prompts": problem.n_arms,
        "examples": problem.n_examples,
        "budget": problem.budget,
        "max_cost": problem.max_cost,
        "seed": problem.seed,
        "baseline": None if result.baseline is None else str(result.baseline),
    }
    known = {key: value for key, value in settings.items() if value is not None}
    parts = [known, [[entry.id, entry.prompt] for entry in result.prompts]]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return Selection(name, key, known)
