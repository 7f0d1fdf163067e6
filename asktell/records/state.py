"""The state as columns and decisions; what follows from those is not repeated."""

from typing import Any

import numpy as np
from immutables import Map

from asktell.arguments import short
from asktell.budget import Costs, Spent
from asktell.errors import InvalidStateError
from asktell.numerics.arrays import distinct
from asktell.records import checks
from asktell.records.decisions import dump_decisions, load_decided
from asktell.records.growth import dump_grown, load_grown
from asktell.state import (
    FAILED,
    Decided,
    Departure,
    Failures,
    Problem,
    State,
    initial,
)
from asktell.state.growth import told_departures
from asktell.state.history import History
from asktell.state.queue import Pull, Queue


def dump_state(state: State) -> dict[str, Any]:
    """The state as columns and decisions; what follows from those is not repeated."""
    history, rest = state.history, dump_rest(state)
    return {
        "trials": history.trials().tolist(),
        "arms": history.arms().tolist(),
        "examples": history.examples().tolist(),
        "scores": history.scores().tolist(),
        "decisions": dump_decisions(state.decisions),
        "failures": {
            "trials": state.failures.trials().tolist(),
            "arms": state.failures.arms().tolist(),
            "examples": state.failures.examples().tolist(),
            "reasons": state.failures.reasons(),
        },
        **rest,
        "draws": state.draws.tolist(),
    }


def dump_rest(state: State) -> dict[str, Any]:
    """What changes from state to state; rows, failures and decisions are only added to, and the `draws` are long."""
    told, _ = told_departures(state.decisions, state.growth)
    return {
        "pending": [[p.trial, p.arm, p.example] for _, p in sorted(state.pending.items())],
        "returned": [[p.trial, p.arm, p.example] for p in state.returned],
        "plan": [list(state.plan_arms[state.position :]), list(state.plan_examples[state.position :])],
        "redraws": sorted([arm, extra] for arm, extra in state.redraws.items()),
        "failed_out": [
            [arm, round_, d.reason]
            for arm, (round_, d) in sorted(state.left.items())
            if d.status == FAILED and (round_, d) != told.get(arm)
        ],
        "asked": state.asked,
        "spent": state.spent,
        "cost": state.cost,
        **_dump_costs(state.costs),
        **dump_grown(state.growth),
    }


def load_state(data: object, origin: Problem) -> State:
    """The state that `dump_state` made `data` of; equal to it in every bit. Columns may be arrays as well as lists.

    `origin`: the problem as known before the first pull.
    """
    record = checks.mapping("state", data)
    n_decisions = len(checks.items("decisions", record.get("decisions")))
    problem, growth = load_grown(record.get("growth"), origin, n_decisions)
    n_arms, top = problem.n_arms, 2**62
    n_examples = problem.n_examples or 0
    trials = checks.column("trials", record.get("trials"), -1, top)
    arms = checks.column("arms", record.get("arms"), 0, n_arms - 1, len(trials))
    examples = checks.column("examples", record.get("examples"), -1, n_examples - 1, len(trials))
    scores = checks.matrix("scores", record.get("scores"), len(trials), len(problem.goal.metrics))
    told = trials[trials >= 0]
    failures = _load_failures(record.get("failures"), n_arms, n_examples)
    # Whatever was asked was told, is out, has failed, or was handed back and forgotten when its arm left.
    most = (n_arms + 1) * problem.budget + len(failures)
    asked = checks.whole("asked", record.get("asked"), 0, most)
    if len(distinct(told)) < len(told) or told.max(initial=-1) >= asked:
        raise InvalidStateError("A trial was told twice, or before it was asked.")
    scored = np.isin(failures.trials(), told)
    if len(distinct(failures.trials())) < len(failures) or failures.trials().max(initial=-1) >= asked:
        raise InvalidStateError("A trial failed twice, or before it was asked.")
    if scored.any() if problem.failure_scores is None else not scored.all():
        raise InvalidStateError("Failed trials have scores where on_failure says so, and only there.")
    if checks.whole("spent", record.get("spent"), 0) != len(told):
        raise InvalidStateError(f"spent is {record['spent']}, but {len(told)} trials were told.")
    state = initial(problem)._replace(
        origin=origin,
        growth=growth,
        history=History.from_columns(trials, arms, examples, scores),
        asked=asked,
        spent=len(told),
        cost=checks.number("cost", record.get("cost")),
        costs=_load_costs(record.get("costs"), n_arms),
    )
    state = _load_decisions(record.get("decisions"), state, trials, arms, scores)

    def pulls(name: str, may_be_new: bool) -> list[Pull]:
        loaded = []
        for item in checks.items(name, record.get(name)):
            trial, arm, example = checks.items(name, item, 3)
            if trial is not None or not may_be_new:
                trial = checks.whole("trial", trial, 0, asked - 1)
            example = None if example is None else checks.whole("example", example, 0, n_examples - 1)
            loaded.append(Pull(trial, checks.whole("arm", arm, 0, n_arms - 1), example))
        return loaded

    pending, returned = pulls("pending", False), pulls("returned", True)
    over = np.concatenate((told, failures.trials()))
    ids = [p.trial for p in (*pending, *returned) if p.trial is not None]
    if len(set(ids)) < len(ids) or np.isin(np.array(ids, dtype=np.int64), over).any():
        raise InvalidStateError("A trial is out twice, or out and told or failed.")
    plan_arms, plan_examples = checks.items("plan", record.get("plan"), 2)
    arms_column = checks.column("plan", plan_arms, 0, n_arms - 1)
    examples_column = checks.column("plan", plan_examples, -1, n_examples - 1, len(arms_column))
    if len(told) + len(pending) + len(returned) + len(arms_column) > problem.budget:
        raise InvalidStateError(f"More trials are told, out and planned than the budget of {problem.budget} allows.")
    redraws = [checks.items("redraws", item, 2) for item in checks.items("redraws", record.get("redraws"))]
    state = state._replace(
        pending=Map({p.trial: p for p in pending if p.trial is not None}),
        returned=Queue(returned),
        plan_arms=tuple(arms_column.tolist()),
        plan_examples=tuple(examples_column.tolist()),
        draws=checks.column("draws", record.get("draws"), 0, most + len(trials), n_arms),
        redraws=Map(
            {checks.whole("arm", arm, 0, n_arms - 1): checks.whole("redraws", extra, 1, most) for arm, extra in redraws}
        ),
        failures=failures,
    )
    left = state.left
    for item in checks.items("failed_out", record.get("failed_out")):
        arm, round_, reason = checks.items("failed_out", item, 3)
        if not isinstance(reason, str):
            raise InvalidStateError(f"A reason must be text, got {short(reason)}.")
        left = left.set(
            checks.whole("arm", arm, 0, n_arms - 1), (checks.whole("round", round_, 0), Departure(arm, FAILED, reason))
        )
    return state._replace(left=left)


def _load_decisions(data: object, state: State, trials: Any, arms: Any, scores: Any) -> State:
    decisions: list[tuple[int, Decided]] = []
    tally, tallied = state.tally, 0
    reopening = {each.decisions for each in state.growth}
    for number, item in enumerate(checks.items("decisions", data)):
        rows, decided = checks.items("a decision", item, 2)
        rows = checks.whole("rows", rows, tallied, len(trials))
        event = load_decided(decided, state.problem)
        if event.round != number or (decisions and decisions[-1][1].finished and number not in reopening):
            raise InvalidStateError("The decisions are not in their order.")
        order = tallied + np.argsort(trials[tallied:rows], kind="stable")
        tally, tallied = tally.plus(arms[order], scores[order]), rows
        decisions.append((rows, event))
    left, reopened = told_departures(decisions, state.growth)
    return state._replace(tally=tally, tallied=tallied, left=left, reopened=reopened, decisions=tuple(decisions))


def _dump_costs(costs: Costs) -> dict[str, Any]:
    if not costs.pool.n:
        return {}
    return {"costs": {"all": list(costs.pool), "arms": [[arm, *spent] for arm, spent in sorted(costs.by_arm.items())]}}


def _load_costs(data: object, n_arms: int) -> Costs:
    if data is None:
        return Costs()
    record = checks.mapping("costs", data)

    def spent(items: list[Any]) -> Spent:
        n, total, highest = items
        return Spent(checks.whole("costs", n, 1), checks.cost("costs", total), checks.cost("costs", highest))

    by_arm = {}
    for item in checks.items("costs", record.get("arms")):
        arm, *rest = checks.items("costs", item, 4)
        by_arm[checks.whole("arm", arm, 0, n_arms - 1)] = spent(rest)
    return Costs(Map(by_arm), spent(checks.items("costs", record.get("all"), 3)))


def _load_failures(data: object, n_arms: int, n_examples: int) -> Failures:
    record = checks.mapping("failures", data)
    reasons = checks.items("failures", record.get("reasons"))
    if not all(isinstance(reason, str) for reason in reasons):
        raise InvalidStateError("The reasons of failures must be text.")
    return Failures.from_columns(
        checks.column("failures", record.get("trials"), 0, 2**62, len(reasons)),
        checks.column("failures", record.get("arms"), 0, n_arms - 1, len(reasons)),
        checks.column("failures", record.get("examples"), -1, n_examples - 1, len(reasons)),
        reasons,
    )
