"""The log of a study, as lines of compact JSON: its format, `replayed`, which follows it, and `evaluations`.

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

Entries that are read are checked twice. `decode` refuses a malformed entry, and
`replayed` an entry that is impossible in the present state.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from asktell.problem import formats
from asktell.problem.checks import MalformedError
from asktell.problem.prompts import Prompts
from asktell.record import Engine, State, events, problem_after
from asktell.record.fold import not_pending
from asktell.record.growth import prompts_after
from asktell.results.evaluations import Evaluation, evaluations_of, id_of_example
from asktell.studies.leases import (
    Entry,
    Expired,
    Leased,
    Leases,
    Paused,
    Resumed,
    follow,
)

_DETAILS_AT_ONCE = 500  # responses of an LLM may be long


encode = formats.encode
"""Convert entries to a line."""

decode = formats.Decoder[tuple[Entry, ...]](tuple[Entry, ...]).decode
"""Convert a line to its entries. Raises an InvalidStateError if it is malformed."""


def replayed(
    engine: Engine,
    leases: Leases,
    lines: Iterable[str | bytes],
    first: int,
    where: str = "the study's log",
) -> tuple[State, Leases, int]:
    """Apply lines of the log to the state of an engine and to leases, which do not change.

    Args:
        engine: the engine before the lines.
        leases: the leases before the lines.
        lines: the lines.
        first: the number of the first line. The errors name it.
        where: what has the lines. The errors name it.

    Returns:
        The state and the leases after the lines, and the number of their entries.

    Raises:
        InvalidStateError: a line is malformed, or has an impossible entry.
    """
    ahead, n_entries, number = engine.at(engine.state), 0, first
    with formats.checked(lambda: f"Line {number} of {where}"):
        for number, line in enumerate(lines, first):  # noqa: B007 - the error names it
            entries = decode(line)
            leased: list[int] = []
            for entry in entries:
                if isinstance(entry, Leased):
                    leased += entry.trials
                    if any(
                        ahead.state.plan.open(trial) is None for trial in entry.trials
                    ):
                        raise MalformedError(
                            f"A lease is about the trials {list(entry.trials)}, but not all of them were pending."
                        )
                elif isinstance(entry, Expired):
                    if entry.trial not in ahead.state.pending:
                        raise not_pending(entry)
                elif not isinstance(entry, Paused | Resumed):
                    ahead.replay(entry)
                leases = follow(leases, entry)
            pending = ahead.state.pending
            for trial in leased:
                if leases.holder(trial) is not None and trial not in pending:
                    raise MalformedError(
                        f"A lease is about trial {trial}, which was not pending."
                    )
            n_entries += len(entries)
    return ahead.state, leases, n_entries


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
    ended = islice(_evaluations(base, lines, prompts), after, None)
    while group := list(islice(ended, _DETAILS_AT_ONCE)):
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
                    problem = problem_after(problem, entry)
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
