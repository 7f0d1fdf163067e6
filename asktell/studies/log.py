"""The log of a study, as lines of compact JSON: its format, `LoggedSelector`, which follows it, and `evaluations`.

A line holds the entries of one operation. An entry is a list that begins with a letter.
Entries are defined in `asktell.record.events` or, if they are about leases, in
`asktell.studies.leases`:

| entry                                               | what happened                                          |
|-----------------------------------------------------|--------------------------------------------------------|
| `["a", trial, arm, example]`                        | asked; `example` null for none                         |
| `["t", trial, scores, cost]`                        | scores recorded; `cost` null if none was given         |
| `["r", trial]`                                      | released                                               |
| `["f", trial, reason, cost]`                        | failed                                                 |
| `["o", arm, example, scores, cost]`                 | observed elsewhere; `scores` null for a cost alone     |
| `["d", round, departures, pulls, finished, ..]`     | decided                                                |
| `["n", ids, texts, key, candidates]`                | prompts were added                                     |
| `["q", arm, reason, key]`                           | a prompt was retired                                   |
| `["e", evaluations, cost, examples, key, ids]`      | budget or examples were added                          |
| `["c", topic, text, doubtful]`                      | remarked                                               |
| `["l", worker, deadline, [trial, ..], seconds, ..]` | leased                                                 |
| `["x", trial]`                                      | a lease expired                                        |
| `["p", time]`                                       | paused: no trials are handed out                       |
| `["g"]`                                             | resumed                                                |

Fields with a default may be missing at the end. Lines are plain ASCII: JSON escapes all
other characters.

Entries that are read are checked twice. `decode` refuses a malformed entry, and `check`
an entry that is impossible in the present state.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from asktell import record as states
from asktell._util.threads import undisturbed
from asktell.methods import AbstractMethod
from asktell.problem import formats
from asktell.problem.candidates import AnyTrial, Prompts, Trial
from asktell.problem.checks import MalformedError
from asktell.record import State, apply, decide, events, grown
from asktell.record.fold import not_pending
from asktell.record.growth import prompts_after
from asktell.record.lookup import trial_id
from asktell.results.evaluations import Evaluation, evaluations_of, id_of_example
from asktell.selector import Selector
from asktell.studies.leases import (
    Entry,
    Expired,
    Leased,
    Leases,
    Paused,
    Resumed,
    follow,
)

_ABOUT_LEASES = (Leased, Expired, Paused, Resumed)
_DETAILS_AT_ONCE = 500  # responses of an LLM may be long


encode = formats.encode
"""Convert entries to a line."""

decode = formats.Decoder[tuple[Entry, ...]](tuple[Entry, ...]).decode
"""Convert a line to its entries. Raises an InvalidStateError if it is malformed."""


def check(state: State, entry: Entry) -> None:
    """Raise an InvalidStateError if an entry is impossible in this state."""
    if isinstance(entry, Expired):
        if entry.trial not in state.pending:
            raise not_pending(entry)
    elif isinstance(entry, Leased):
        if any(state.plan.open(trial) is None for trial in entry.trials):
            raise MalformedError(
                f"A lease is about the trials {list(entry.trials)}, but not all of them were pending."
            )
    elif not isinstance(entry, _ABOUT_LEASES):
        states.check(state, entry)


class LoggedSelector:
    """A selector with leases, whose changes are entries of a log.

    Attributes:
        selector: the selector. It decides only when it is asked for trials.
        leases: the leases.
        new: entries since the list was last cleared, still to be written.
        told: by worker, the number of scores that it told since this object began to
            follow the log.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.leases = Leases()
        self.new: list[Entry] = []
        self.told: Counter[str] = Counter()
        self._prepared: tuple[State, events.Decided | None] | None = None
        selector._sink, selector._decide = self.note, self._decide

    @property
    def state(self) -> State:
        """The selector's state."""
        return self.selector._state

    def note(self, entry: Entry) -> None:
        """Add an entry: an event that the selector has applied already, or an entry about leases."""
        if not isinstance(entry, events.Asked):
            if isinstance(entry, events.Told):
                _count(self.told, self.leases, entry)
            self.leases = follow(self.leases, entry)
        self.new.append(entry)

    # Following others

    def mark(self) -> tuple[State, Leases]:
        """Return the present state and leases, for `go_back`."""
        return self.selector._state, self.leases

    def go_back(self, mark: tuple[State, Leases]) -> None:
        """Restore the state and the leases that `mark` returned."""
        self.selector._state, self.leases = mark

    def replay(
        self, lines: Iterable[str | bytes], first: int, where: str = "the study's log"
    ) -> int:
        """Apply lines of the log and return their number of entries. After an error, nothing was applied.

        `first` is the number of the first line, and `where` has the lines. The errors name both.

        Raises:
            InvalidStateError: a line is malformed, or has an impossible entry.
        """
        told: Counter[str] = Counter()
        state, leases, n_entries = self._folded(lines, told, first, where)
        self.told.update(told)
        self.go_back((state, leases))
        return n_entries

    def _folded(
        self,
        lines: Iterable[str | bytes],
        told: "Counter[str]",
        first: int,
        where: str,
    ) -> tuple[State, Leases, int]:
        """Return the state, the leases and the number of entries after the lines. Counts in `told` scores by worker."""
        state, leases, prompts, n_entries = (
            self.state,
            self.leases,
            self.selector.prompts,
            0,
        )
        number = first
        with formats.checked(lambda: f"Line {number} of {where}"):
            for number, line in enumerate(lines, first):  # noqa: B007 - the error names it
                entries = decode(line)
                leased: list[Leased] = []
                for entry in entries:
                    check(state, entry)
                    if isinstance(entry, Leased):
                        leased.append(entry)
                    elif not isinstance(entry, _ABOUT_LEASES):
                        if isinstance(entry, events.Growth):
                            self.selector.method.check_growth(entry)
                            prompts = prompts_after(prompts, entry)
                        state = apply(state, entry)
                    _count(told, leases, entry)
                    leases = follow(leases, entry)
                for trial in (trial for each in leased for trial in each.trials):
                    if leases.holder(trial) is not None and trial not in state.pending:
                        raise MalformedError(
                            f"A lease is about trial {trial}, which was not pending."
                        )
                n_entries += len(entries)
        return state, leases, n_entries

    # Deciding

    def prepare(self) -> None:
        """Compute a decision that is due, without applying it. It is used later if the state is still the same."""
        state = self.state
        if self._prepared is None or self._prepared[0] is not state:
            with undisturbed:
                self._prepared = state, decide(self.selector.method, state)

    def _decide(self, method: AbstractMethod, state: State) -> events.Decided | None:
        """Return the decision that `prepare` computed for this state, or compute it."""
        prepared = self._prepared
        return (
            prepared[1]
            if prepared is not None and prepared[0] is state
            else decide(method, state)
        )

    def view(self) -> Selector:
        """Return a selector in the same state for reading.

        If no trial is pending, it also has the decisions that are due.
        """
        selector = self.selector._at(self.selector.state)
        selector._decide = self._decide
        return selector

    # Looking up

    def trial(self, id_: int) -> Trial:
        """Return a pending trial."""
        pull = self.state.pending[id_]
        return self.selector.prompts.trial(id_, pull.arm, pull.example)

    def find(self, trial: AnyTrial, worker: str | None = None) -> int:
        """Return a trial's id. For a prompt, it is a trial that the worker holds, or otherwise the oldest."""
        prompts, state = self.selector._prompts, self.selector._state
        if isinstance(trial, str) and worker is not None:
            arm = prompts.find(trial)
            for id_ in () if arm is None else state.plan.pending_of(arm):
                if self.leases.holder(id_) == worker:
                    return id_
        return trial_id(state, prompts, trial)

    # Leases

    def lease(
        self,
        worker: str,
        trials: Iterable[int],
        now: float,
        seconds: float,
        instance: str = "",
    ) -> None:
        """Give a worker leases of this duration on trials, or extend them.

        `instance` is the worker's instance, if it has one.
        """
        if instance in self.leases.instances.get(worker, ())[-1:]:
            instance = ""
        deadline = round(now + seconds, 3)
        self.note(Leased(worker, deadline, tuple(trials), seconds, instance))

    def extend(self, worker: str, now: float, seconds: float) -> None:
        """Extend the leases of a worker that are in their second half, because the worker is alive."""
        late = []
        for trial in self.leases.held(worker):
            lease = self.leases.by_trial[trial]
            if lease.deadline <= now + lease.seconds / 2:
                late.append(trial)
        if late:
            self.lease(worker, late, now, seconds)

    def expire(self, now: float, max_attempts: int) -> None:
        """End the leases that have expired. Their trials are handed out again, or fail after `max_attempts` leases."""
        for id_ in sorted(
            trial
            for trial, lease in self.leases.by_trial.items()
            if lease.deadline <= now
        ):
            worker = self.leases.holder(id_)
            self.note(Expired(id_))
            expired = self.leases.reissued[id_].expired
            if expired >= max_attempts:
                self.selector.fail(
                    id_,
                    f"{expired} leases of this trial expired, the last of worker {worker}",
                )
            else:
                self.selector.release(id_)
        self.leases = self.leases.tightened()

    def lost(self, id_: int, worker: str | None) -> bool:
        """True if another worker holds the trial now, or has ended it."""
        if self.state.plan.open(id_) is None:
            return id_ in self.leases.reissued
        return worker is not None and self.leases.holder(id_) not in (None, worker)


def _count(told: "Counter[str]", leases: Leases, entry: Entry) -> None:
    """Count recorded scores for the worker that holds the trial."""
    if isinstance(entry, events.Told):
        lease = leases.by_trial.get(entry.trial)
        if lease is not None:
            told[lease.worker] += 1


def evaluations(
    base: State,
    lines: Iterable[str],
    prompts: Prompts,
    find: Callable[[Sequence[int]], Mapping[int, str]],
    after: int = 0,
) -> Iterator[Evaluation]:
    """Yield the evaluations of a study, without the first `after`.

    Evaluations that the selector had before the study was created come first, and among
    them the failures last.

    Args:
        base: the state at which the study began.
        lines: its log.
        prompts: the prompts at the beginning.
        find: returns the details, as JSON text, for those of the given trials that have
            some.
        after: number of evaluations to skip.

    Raises:
        InvalidStateError: a line of the log, or details, are malformed.
    """
    told = islice(_evaluations(base, lines, prompts), after, None)
    while group := list(islice(told, _DETAILS_AT_ONCE)):
        details = find([evaluation.trial for evaluation in group])
        for evaluation in group:
            if (text := details.get(evaluation.trial)) is not None:
                evaluation = evaluation._replace(
                    details=formats.parse(text, "The details of a trial")
                )
            yield evaluation


def _evaluations(
    base: State, lines: Iterable[str], prompts: Prompts
) -> Iterator[Evaluation]:
    """Yield the evaluations without details."""
    problem = base.problem
    counted = problem.on_failure if isinstance(problem.on_failure, dict) else None
    yield from evaluations_of(base, prompts.ids)
    out = {
        t: (pull.arm, pull.example)
        for t in range(base.plan.asked)
        if (pull := base.plan.open(t)) is not None
    }
    # By arm and example, the costs of evaluations whose failures were recorded later
    paid: dict[tuple[int, int | None], float] = {}
    for number, line in enumerate(lines, 1):
        ended: list[Evaluation] = []
        # Lines before a snapshot were not checked when the study was opened
        with formats.checked(f"Line {number} of the study's log"):
            for entry in decode(line):
                if isinstance(entry, events.Observed) and entry.scores is None:
                    cell = entry.arm, entry.example
                    paid[cell] = paid.get(cell, 0.0) + (entry.cost or 0.0)
                elif isinstance(entry, events.Growth):
                    problem = grown(problem, entry)
                    prompts = prompts_after(prompts, entry)
                elif isinstance(entry, events.Asked):
                    out[entry.trial] = entry.arm, entry.example
                elif isinstance(entry, events.Told | events.Failed):
                    arm, example = out.pop(entry.trial)
                    scores, reason, cost = counted, None, entry.cost
                    before = paid.pop((arm, example), None)
                    if isinstance(entry, events.Told):
                        scores = dict(
                            zip(problem.goal.metrics, entry.scores, strict=False)
                        )
                    else:
                        reason, cost = entry.reason, before if cost is None else cost
                    ended.append(
                        Evaluation(
                            entry.trial,
                            prompts.ids[arm],
                            example,
                            scores,
                            cost,
                            reason,
                            example_id=id_of_example(problem, example),
                        )
                    )
        yield from ended
