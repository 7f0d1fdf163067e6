"""Decisions as data."""

from collections.abc import Sequence
from typing import Any

from asktell.arguments import short
from asktell.errors import InvalidStateError
from asktell.records import checks
from asktell.state import (
    ACCEPTED,
    FAILED,
    REJECTED,
    Decided,
    Departure,
    Problem,
)


def dump_decided(decided: Decided) -> dict[str, Any]:
    """A decision as data."""
    plan = {} if decided.plan is None else {"plan": [list(pull) for pull in decided.plan]}
    settled = {"settled": True} if decided.settled else {}
    return {
        "round": decided.round,
        "departures": [[d.arm, d.status, d.reason, list(d.means), list(d.standard_errors)] for d in decided.departures],
        "pulls": decided.pulls if isinstance(decided.pulls, int) else list(decided.pulls),
        "finished": decided.finished,
        "answer": list(decided.answer),
        **plan,
        **settled,
    }


def load_decided(data: object, problem: Problem) -> Decided:
    """The decision that `dump_decided` made `data` of."""
    record = checks.mapping("a decision", data)
    n_arms, n_metrics = problem.n_arms, len(problem.goal.metrics)
    departures = []
    for item in checks.items("departures", record.get("departures")):
        arm, status, reason, means, errors = checks.items("a departure", item, 5)
        if status not in (ACCEPTED, REJECTED, FAILED) or not isinstance(reason, str):
            raise InvalidStateError(f"A departure is malformed: {item!r}.")
        lengths = {len(checks.items("a departure's estimate", vector)) for vector in (means, errors)}
        if lengths not in ({0}, {n_metrics}):
            raise InvalidStateError(f"A departure's estimate needs {n_metrics} means and errors, got {short(item)}.")
        departures.append(
            Departure(
                checks.whole("arm", arm, 0, n_arms - 1),
                status,
                reason,
                tuple(checks.number("an estimate", x) for x in means),
                tuple(None if x is None else checks.number("a standard error", x) for x in errors),
            )
        )
    pulls = record.get("pulls")
    if isinstance(pulls, list):
        pulls = tuple(checks.whole("pulls", n, 0, problem.budget) for n in pulls)
    else:
        pulls = checks.whole("pulls", pulls, 0, problem.budget)
    finished = record.get("finished")
    if not isinstance(finished, bool):
        raise InvalidStateError(f"finished must be true or false, got {short(finished)}.")
    answer = tuple(checks.whole("answer", arm, 0, n_arms - 1) for arm in checks.items("answer", record.get("answer")))
    plan = record.get("plan")
    if plan is not None:
        pairs = [checks.items("a planned pull", item, 2) for item in checks.items("a decision's plan", plan)]
        last = (problem.n_examples or 0) - 1
        plan = tuple(
            (checks.whole("arm", arm, 0, n_arms - 1), checks.whole("example", x, -1, last)) for arm, x in pairs
        )
    settled = record.get("settled", False)
    if not isinstance(settled, bool):
        raise InvalidStateError(f"settled must be true or false, got {short(settled)}.")
    return Decided(
        checks.whole("round", record.get("round"), 0), tuple(departures), pulls, finished, answer, plan, settled
    )


def dump_decisions(decisions: Sequence[tuple[int, Decided]]) -> list[Any]:
    """Decisions, with the number of rows each was based on, as data."""
    return [[rows, dump_decided(decided)] for rows, decided in decisions]
