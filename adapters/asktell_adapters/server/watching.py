"""The workers of a study and their pace, found by polling.

The log has no times other than the ends of leases. So a worker counts as last seen at
the latest poll that found new scores, other leases or other trials of this worker. A
worker counts as holding a trial since the poll that first found the trial.
"""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from asktell import Study
from asktell.extend import MOST_EVALUATIONS, Attendance, Standing, reports

_WINDOW = 300.0  # seconds over which a pace is measured
_STEP = 10.0  # seconds between two moments that are kept
_GONE = 900.0  # seconds after which a worker that holds nothing is not shown any more
_MOST_WORKERS = 200
_MOST_TRIALS = 20
_MOST_MOMENTS = 200  # of the leader's course

_SECONDS_BETWEEN_LOOKS = 2.0
# Pause after making a report, in units of the time that making it took. So nine tenths
# of a core are left to the workers' requests.
_PAUSE = 9.0
# In seconds. A reader who waits longer believes that the page is broken.
_LONGEST_PAUSE = 5.0


class _Worker:
    """The activity of a worker, as far as polls found it."""

    def __init__(self) -> None:
        # A value that changes when the worker does something.
        self.sign: tuple[int, float | None, tuple[int, ...]] = (0, None, ())
        # Time of the last change, or None if it was before the first poll.
        self.seen: float | None = None
        # By trial, the time of the poll that first found it.
        self.since: dict[int, float | None] = {}


class _Moment(NamedTuple):
    """The progress of a study at a poll.

    Attributes:
        time: seconds since 1970, by the storage's clock.
        spent: evaluations recorded.
        cost: sum of their costs.
        told: evaluations recorded by each worker.
    """

    time: float
    spent: int
    cost: float
    told: dict[str, int]


class Watch:
    """Polls one study, and remembers the polls of the last five minutes.

    Args:
        study: the study.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._workers: dict[str, _Worker] = {}
        self._moments: deque[_Moment] = deque()

    def look(self) -> dict[str, Any]:
        """Read the present state as JSON data. Times are seconds since 1970, by the storage's clock.

        Returns:
            `spent`, `budget`, `spent_cost`, `max_cost` and `pending` as in a report, and:

            - `now`: the time.
            - `workers`: the workers that hold trials or did so lately. Each has a `name`,
              `holds` (number of trials), `trials` (the oldest, each as [position of the prompt,
              example, attempt, time since, or null if the first poll found the trial]), `until`
              (the end of the last lease), `seen` (time of the last activity), `told`
              (evaluations recorded) and `pace` (evaluations per minute since the first poll).
            - `pace`: evaluations per minute of all workers.
            - `left`: the remaining `evaluations`, their `cost` (the remaining cost, or an
              estimate if the cost has no limit) and the `seconds` until the budget is spent at
              this pace. Each is null if unknown.
        """
        attendance, standing = self.study.attendance(), self.study.standing
        is_first = not self._moments
        self._remember(attendance, standing)
        seconds = self._moments[-1].time - self._moments[0].time
        return {
            **{
                name: getattr(standing, name)
                for name in ("spent", "budget", "spent_cost", "max_cost", "pending")
            },
            "now": attendance.now,
            "workers": self._worker_rows(attendance, is_first, seconds),
            "pace": _per_minute(
                self._moments[-1].spent - self._moments[0].spent, seconds
            ),
            "left": self._left(standing, seconds),
        }

    def _remember(self, attendance: Attendance, standing: Standing) -> None:
        """Add a moment, and drop the moments that the pace does not need."""
        moments = self._moments
        if moments and (
            standing.spent < moments[-1].spent or attendance.now <= moments[-1].time
        ):
            # Another study has this name now, or the clock was set back.
            moments.clear()
        if len(moments) > 1 and moments[-1].time - moments[-2].time < _STEP:
            # The pace needs no moments in between, and a moment has a number for each
            # worker.
            moments.pop()
        moments.append(
            _Moment(
                attendance.now,
                standing.spent,
                standing.spent_cost,
                dict(attendance.told),
            )
        )
        while len(moments) > 2 and moments[1].time <= attendance.now - _WINDOW:
            moments.popleft()

    def _worker_rows(
        self, attendance: Attendance, is_first: bool, seconds: float
    ) -> list[dict[str, Any]]:
        """The rows of the workers, with the most trials first.

        Args:
            attendance: the pending trials with their leases, and the evaluations per worker.
            is_first: whether this is the first poll, which cannot see any activity.
            seconds: time since the oldest moment.
        """
        now = attendance.now
        held: dict[str, list[tuple[int, int, int | None, int]]] = {}
        until: dict[str, float] = {}
        for trial, (arm, example), lease, attempt in attendance.out:
            if lease is not None:
                held.setdefault(lease.worker, []).append((trial, arm, example, attempt))
                until[lease.worker] = max(
                    lease.deadline, until.get(lease.worker, lease.deadline)
                )
        n_told, before = attendance.told, self._moments[0].told
        rows: list[dict[str, Any]] = []
        for name in sorted(
            {
                *held,
                *self._workers,
                *(n for n in n_told if n_told[n] != before.get(n, 0)),
            }
        ):
            worker = self._workers.setdefault(name, _Worker())
            trials = held.get(name, [])
            sign = (
                n_told.get(name, 0),
                until.get(name),
                tuple(trial for trial, *_ in trials),
            )
            told_before, deadline, _ = worker.sign
            has_expired = (
                not trials
                and sign[0] == told_before
                and deadline is not None
                and deadline <= now
            )
            if sign != worker.sign and not is_first and not has_expired:
                worker.seen = now
            worker.sign = sign
            worker.since = {
                t: worker.since.get(t, None if is_first else now) for t, *_ in trials
            }
            if not trials and (worker.seen is None or now - worker.seen > _GONE):
                del self._workers[name]
                continue
            rows.append({
                "name": name,
                "holds": len(trials),
                "trials": [[arm, example, n, worker.since[t]] for t, arm, example, n in trials[:_MOST_TRIALS]],
                "until": until.get(name),
                "seen": worker.seen,
                "told": n_told.get(name, 0),
                "pace": _per_minute(n_told.get(name, 0) - before.get(name, 0), seconds),
            })  # fmt: skip
        # Workers with many trials are shown even if there are more workers than rows.
        rows.sort(key=lambda row: len(held.get(row["name"], ())), reverse=True)
        return rows[:_MOST_WORKERS]

    def _left(self, standing: Standing, seconds: float) -> dict[str, float | None]:
        """The remaining evaluations, cost and seconds. Whichever budget is spent first determines the seconds."""
        first, last = self._moments[0], self._moments[-1]
        n_told, paid = last.spent - first.spent, last.cost - first.cost
        unlimited = standing.budget >= MOST_EVALUATIONS
        evaluations = None if unlimited else standing.budget - standing.spent
        left = (
            []
            if evaluations is None or n_told <= 0
            else [evaluations * seconds / n_told]
        )
        if standing.max_cost is not None:
            cost: float | None = max(0.0, standing.max_cost - standing.spent_cost)
            left += [(cost or 0.0) * seconds / paid] if paid > 0 else []
        else:
            cost = (
                standing.spent_cost * (evaluations or 0) / standing.spent
                if standing.spent and standing.spent_cost
                else None
            )
        return {
            "evaluations": evaluations,
            "cost": cost,
            "seconds": round(min(left)) if left else None,
        }


def _per_minute(n: int, seconds: float) -> float | None:
    """A rate with two significant digits, or None if no time has passed."""
    return float(f"{60.0 * n / seconds:.2g}") if seconds > 0 else None


class LiveReport:
    """The data of a study's page while the study changes, made once for all viewers. Thread-safe.

    Args:
        study: the study.
        about: further data for the head of the report.
        inputs: the text of each example. None if unknown.
    """

    def __init__(
        self,
        study: Study,
        about: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        self._study, self._about, self._inputs = study, about, inputs
        self._watch = Watch(study)
        self._making = Lock()
        # The leader at each report so far: evaluations, position of the prompt, P(best)
        self._course: list[tuple[int, int, float]] = []
        self._report: dict[str, Any] = {}
        self._text = ""
        self._due = -math.inf

    def text(self) -> str:
        """The report's data as JSON, with the current state (see `Watch.look`) as `live`.

        The data are made anew every few seconds. While one thread makes them, other threads get
        the previous data.
        """
        if self._making.acquire(blocking=not self._text):
            try:
                if time.monotonic() >= self._due:
                    self._make()
            finally:
                self._making.release()
        return self._text

    def _make(self) -> None:
        start = time.monotonic()
        if self._study.standing.version != self._report.get("state"):
            self._report = self._study.report_data(self._about, self._inputs)
            self._remember_leader()
        live = {**self._watch.look(), "course": self._course}
        self._text = reports.encode({**self._report, "live": live})
        end = time.monotonic()
        pause = min(_PAUSE * (end - start), _LONGEST_PAUSE)
        self._due = end + max(_SECONDS_BETWEEN_LOOKS, pause)

    def _remember_leader(self) -> None:
        """Add the present leader to the course. Of a long course, every other moment is dropped."""
        report = self._report
        if not report["answer"] or report["verdict"]["p_best"] is None:
            return
        if self._course and report["spent"] < self._course[-1][0]:
            # Another study has this name now
            self._course = []
        moment = report["spent"], report["answer"][0], report["verdict"]["p_best"]
        if self._course and self._course[-1][0] == moment[0]:
            self._course.pop()
        self._course.append(moment)
        if len(self._course) > _MOST_MOMENTS:
            self._course = self._course[::2] + self._course[-1:]
