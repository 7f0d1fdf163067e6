"""All studies of a service in a table: for the list of them, and for Prometheus.

However many there are, a look at them takes little time: it renews the rows that are oldest, and keeps the others.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from asktell.errors import AsktellError, StudyNotFoundError
from asktell.problem.budget import describe_spending
from asktell.results import Result
from asktell.service.studies import Studies
from asktell.studies.study import Standing

_ANSWERS_NAMED = 3


@dataclass(frozen=True)
class Row:
    """What is known of a study.

    Attributes:
        name: of the study.
        standing: how far it is; None if it cannot be read.
        looked: when that was found out.
        answer: ids of its answer; None if nobody wanted to know yet.
        done: whether the answer is final.
        answered: the version whose answer that is.
    """

    name: str
    standing: Standing | None
    looked: float
    answer: tuple[str, ...] | None = None
    done: bool = False
    answered: str | None = None


class Overview:
    """The rows, kept. For several threads.

    Args:
        studies: that there are.
        seconds: that a look may take, and once that long for a study that takes longer by itself.
        stale: seconds after which a row is looked at again.
        clock: gives seconds.
    """

    def __init__(
        self,
        studies: Studies,
        seconds: float = 0.25,
        stale: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._studies = studies
        self._seconds, self._stale, self._clock = seconds, stale, clock
        self._rows: dict[str, Row] = {}
        self._names: list[str] = []
        self._lock = Lock()

    def rows(self) -> list[Row]:
        """Those that are known, the newest study last."""
        return [row for name in self._names if (row := self._rows.get(name)) is not None]

    @property
    def n_studies(self) -> int:
        """How many there are, known or not."""
        return len(self._names)

    def look(self, answers: bool = False) -> list[Row]:
        """Renew the oldest rows, with their answers if they are wanted, as far as the time goes.

        Raises:
            StorageError: the names cannot be read.
        """
        with self._lock:
            until = self._clock() + self._seconds
            self._names = self._studies.names()
            there = set(self._names)
            self._rows = {name: row for name, row in self._rows.items() if name in there}
            oldest = sorted(self._names, key=lambda name: self._rows[name].looked if name in self._rows else -1.0)
            for name in oldest:
                now = self._clock()
                if now >= until:
                    break
                row = self._rows.get(name)
                if (
                    row is None
                    or now - row.looked >= self._stale
                    or (answers and row.standing is not None and row.answered is None)
                ):
                    self._renew(name, row, answers)
            return self.rows()

    def _renew(self, name: str, before: Row | None, answers: bool) -> None:
        try:
            standing = self._studies.peek(name, lambda study: study.standing)
            row = Row(name, standing, self._clock())
            if before is not None:
                row = replace(row, answer=before.answer, done=before.done, answered=before.answered)
            if answers and row.answered != standing.version:
                result = self._studies.peek(name, lambda study: study.result())
                row = replace(row, answer=_named(result), done=result.done, answered=standing.version)
            self._rows[name] = row
        except StudyNotFoundError:
            self._rows.pop(name, None)
        except AsktellError:  # the log says why when somebody asks for the study itself
            self._rows[name] = Row(name, None, self._clock())

    def document(self, rows: list[Row]) -> dict[str, Any]:
        """The list as a page shows it."""
        return {"n": self.n_studies, "studies": [_shown(row) for row in rows]}


def _named(result: Result) -> tuple[str, ...]:
    ids = [str(prompt.id) for prompt in result.selected]
    more = (f"and {len(ids) - _ANSWERS_NAMED} more",) if len(ids) > _ANSWERS_NAMED else ()
    return (*ids[:_ANSWERS_NAMED], *more)


def _shown(row: Row) -> dict[str, Any]:
    standing = row.standing
    if standing is None:
        return {"name": row.name, "state": "cannot be read", "part": 0.0, "spending": "", "answer": "", "failures": 0}
    state = "done" if row.done else "paused" if standing.paused else "at work" if standing.pending else "waits"
    return {
        "name": row.name,
        "state": state,
        "part": standing.spent / standing.budget,
        "spending": describe_spending(standing),
        "answer": ", ".join(row.answer or ()),
        "workers": standing.workers,
        "failures": standing.failures,
    }
