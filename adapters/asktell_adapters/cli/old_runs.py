"""Runs of asktell 0.1, which kept `state.json` and `evaluations.jsonl`: the same command makes a study of them."""

import contextlib
import json
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from asktell.errors import AsktellError, InvalidStateError
from asktell.problem.candidates import ById, Trial
from asktell.running.outcomes import goal_scores
from asktell.selector import Selector

_MALFORMED = (ValueError, KeyError, TypeError, RecursionError)
_DETAILS = ("output", "seconds")
_TRIALS_HELD = 1000  # passed over while replaying; more were never out at once
_Cell: TypeAlias = tuple[str | int, int | None]


class Line(NamedTuple):
    """One line of `evaluations.jsonl`: `scores`, or the `error` of an evaluation that failed."""

    trial: int
    prompt: str | int
    example: int | None
    scores: Mapping[str, float | None] | None
    error: str | None = None
    cost: float | None = None  # of one that failed
    details: Mapping[str, Any] | None = None

    @property
    def cell(self) -> _Cell:
        """What was evaluated."""
        return self.prompt, self.example


class OldRun:
    """The files of an old run, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "state.json"
        self._lines = folder / "evaluations.jsonl"

    def __bool__(self) -> bool:
        """Whether there is an old run."""
        return self._state.exists() or self._lines.exists()

    def load(self, new: Selector) -> tuple[Selector, dict[int, Mapping[str, Any]]]:
        """The selector with everything that is on disk, and what was kept beside the scores of its trials.

        `new` stands in where no state was saved yet. Scores that it does not ask for become observed ones.

        Raises:
            InvalidStateError: a file is malformed.
        """
        lines = list(self._read())
        selector = self._selector() or new
        for line in replay(selector, lines):
            if line.scores is not None:
                with contextlib.suppress(AsktellError):
                    selector.observe(ById(line.prompt), goal_scores(selector, line.scores)[0], line.example)
        return selector, _details(selector, lines)

    def put_away(self) -> Path:
        """Move the files out of the way, and say where they are."""
        folder = self._state.parent / "before-study"
        folder.mkdir(exist_ok=True)
        for file in (self._state, self._lines):
            with contextlib.suppress(FileNotFoundError):
                file.replace(folder / file.name)
        return folder

    def _selector(self) -> Selector | None:
        try:
            text = self._state.read_text(encoding="utf-8", errors="surrogatepass")
        except FileNotFoundError:
            return None
        try:
            return Selector.from_json(text)
        except InvalidStateError as error:
            raise InvalidStateError(
                f"{self._state}: {error} Delete this file to rebuild it from {self._lines.name}: the same "
                "`asktell run` does."
            ) from error

    def _read(self) -> Iterator[Line]:
        """The lines; a last one that was cut off is passed over."""
        try:
            data = self._lines.read_bytes()
        except FileNotFoundError:
            return
        *lines, last = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield parse(line)
                except _MALFORMED as error:
                    raise InvalidStateError(
                        f"{self._lines}, line {number}: not an evaluation ({type(error).__name__}: {error}). "
                        "Repair or remove the line."
                    ) from error
        with contextlib.suppress(*_MALFORMED):
            yield parse(last)


def parse(text: bytes) -> Line:
    """A line of `evaluations.jsonl`.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: it is none.
    """
    data = json.loads(text)
    trial, prompt, example = data["trial"], data["prompt"], data["example"]
    scores, error = data.get("scores"), data.get("error")
    if type(trial) is not int or not isinstance(prompt, str | int) or not isinstance(example, int | None):
        raise ValueError("trial, prompt or example is of the wrong type")
    if (scores is None) == (error is None) or not isinstance(scores, dict | None) or not isinstance(error, str | None):
        raise ValueError("it needs either scores or an error")
    cost = data.get("cost") if error is not None else None
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf):
        raise ValueError("the cost is no number of at least 0")
    details = {name: data[name] for name in _DETAILS if name in data}
    if scores is not None:
        details["scores"] = scores
    return Line(trial, prompt, example, scores, error, cost, details or None)


def replay(selector: Selector, lines: Iterable[Line]) -> list[Line]:
    """Tell the selector what it has not been told yet; trials that were out are handed back.

    Returns the evaluations that it has not asked for.
    """
    waiting = _untold(selector, lines)
    for out in selector.pending:
        selector.release(out)
    left = sum(map(len, waiting.values()))
    held: list[Trial] = []
    while left and len(held) < _TRIALS_HELD and (trial := selector.ask()) is not None:
        queue = waiting.get((trial.prompt_id, trial.example))
        if queue:
            _tell(selector, trial, queue.popleft())
            left -= 1
        else:
            held.append(trial)
    for missing in held:
        selector.release(missing)
    return [line for queue in waiting.values() for line in queue]


def _tell(selector: Selector, trial: Trial, line: Line) -> None:
    """Tell what was evaluated, as `asktell.run` would have."""
    if line.scores is None:
        selector.fail(trial, line.error or "failed", line.cost)
        return
    try:
        selector.tell(trial, *goal_scores(selector, line.scores))
    except AsktellError as error:
        selector.fail(trial, error)


def _untold(selector: Selector, lines: Iterable[Line]) -> dict[_Cell, deque[Line]]:
    """Evaluations beyond those that the selector knows, by what was evaluated.

    Counted and not matched by trial: after a crash the same pull may come under another trial's number.
    """
    known = Counter((cell, told) for _, cell, told in _evaluated(selector))
    waiting: dict[_Cell, deque[Line]] = defaultdict(deque)
    for line in lines:
        key = line.cell, line.scores is not None
        if known[key]:
            known[key] -= 1
        else:
            waiting[line.cell].append(line)
    return waiting


def _details(selector: Selector, lines: Iterable[Line]) -> dict[int, Mapping[str, Any]]:
    """The details of each trial, from the line with its number, or else from another one for the same cell."""
    waiting: dict[tuple[_Cell, bool], list[Line]] = defaultdict(list)
    for line in lines:
        waiting[line.cell, line.scores is not None].append(line)
    found: dict[int, Mapping[str, Any]] = {}
    for exactly in (True, False):
        for trial, cell, told in _evaluated(selector):
            there = waiting[cell, told]
            line_ = next((line for line in there if line.trial == trial or not exactly), None)
            if trial not in found and line_ is not None:
                there.remove(line_)
                found[trial] = line_.details or {}
    return {trial: details for trial, details in found.items() if details}


def _evaluated(selector: Selector) -> Iterator[tuple[int, _Cell, bool]]:
    """Trials that were told (True) or failed."""
    state, ids = selector.state, [entry.id for entry in selector.result().prompts]
    history = state.history
    for trial, arm, example in zip(history.trials(), history.arms(), history.examples(), strict=True):
        if trial >= 0:
            yield int(trial), (ids[arm], None if example < 0 else int(example)), True
    for failure in state.failures:
        yield failure.trial, (ids[failure.arm], failure.example), False
