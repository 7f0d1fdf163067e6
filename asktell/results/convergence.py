"""Convergence history: the answer recomputed at checkpoints of the run."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from asktell.methods import Method
from asktell.methods.belief import stated
from asktell.numerics.arrays import spread_evenly
from asktell.numerics.intmap import IntMap
from asktell.problem.goals import BestFeasible
from asktell.results.verdict import chances, members
from asktell.state import FAILED, RETIRED, Departure, Retired, State, grown, initial

CHECKPOINTS = 20
PATIENCE = 10.0  # seconds that may be spent on them


def settling(
    state: State,
    method: Method,
    answer: list[int],
    costs: Mapping[int, float] | None = None,
    patience: float = PATIENCE,
) -> list[dict[str, Any]]:
    """Points of the run: evaluations and money by then, the answer, its estimates, how likely it is right.

    `costs` are those of trials, as far as they are known. Recomputing takes `patience` seconds at most; the last moment
    is always there. "p_right" is the posterior probability that the answer is the best feasible prompt, "agreement" the
    expected F1 of the answer and the true front; None for methods that state neither.
    """
    n_rows, costs = len(state.history), costs or {}
    if not n_rows:
        return []
    spent = np.cumsum([costs.get(trial, 0.0) for trial in state.history.trials().tolist()])
    found = {n_rows: _point(state, method, answer)}
    stop = time.monotonic() + patience
    n = min(CHECKPOINTS, n_rows)
    marks = sorted({round(n_rows * i / n) for i in range(1, n)} - {0, n_rows})
    for place in np.argsort(
        spread_evenly(len(marks)), kind="stable"
    ):  # however many there is time for, they lie evenly
        if time.monotonic() > stop:
            break
        found[marks[place]] = _point(at(state, marks[place]), method, None)
    return [{"evaluations": rows, "cost": float(spent[rows - 1]), **found[rows]} for rows in sorted(found)]


def at(state: State, rows: int) -> State:
    """The state when so many scores had been told, as far as answers and estimates depend on it.

    Prompts that joined later do not count; prompts that were retired or failed later still do.
    """
    history = state.history.first(rows)
    spent = int((history.trials() >= 0).sum())
    growth = tuple(each for each in state.growth if each.spent <= spent)
    problem = state.origin
    for each in growth:
        problem = grown(problem, each.event)
    decisions = tuple(made for made in state.decisions if made[0] <= rows and not made[1].finished)
    left = {d.arm: (decided.round, d) for _, decided in decisions for d in decided.departures}
    last = int(history.trials().max(initial=-1))
    # Whoever failed too often was asked no more.
    failed = dict(zip(state.failures.pulls.arms().tolist(), state.failures.pulls.trials().tolist(), strict=True))
    left |= {
        arm: (round_, departure)
        for arm, (round_, departure) in state.left.items()
        if departure.status == FAILED and arm in failed and failed[arm] < last
    }
    left |= {
        each.event.arm: (each.decisions, Departure(each.event.arm, RETIRED, each.event.reason))
        for each in growth
        if isinstance(each.event, Retired)
    }
    return initial(problem)._replace(
        origin=state.origin,
        growth=growth,
        history=history,
        spent=spent,
        left=IntMap(left),
        decisions=decisions,
        remarks=state.remarks,
    )


def _point(state: State, method: Method, answer: list[int] | None) -> dict[str, Any]:
    found = stated(state)
    answer, p_right, agreement = method.answer(state) if answer is None else answer, None, None
    likely = None if found is None or state.doubts else chances(state, found)
    if found is not None and likely is not None and answer:
        if isinstance(state.problem.goal, BestFeasible):
            p_right = float(likely.p_best[answer[0]])
        else:
            front = members(state, found)  # the expected F1 of the answer and the front, over draws of the front
            agreement = float((2.0 * front[:, answer].sum(axis=1) / (len(answer) + front.sum(axis=1))).mean())
    first = answer[0] if answer else None
    return {
        "answer": answer[:50],
        "size": len(answer),
        "estimate": None if first is None or found is None else _numbers(found.means[first]),
        "error": None if first is None or found is None else _numbers(found.errors[first]),
        "p_right": p_right,
        "agreement": agreement,
    }


def _numbers(row: Any) -> list[float | None]:
    return [None if np.isnan(x) else float(x) for x in row.tolist()]
