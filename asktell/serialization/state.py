"""The state as columns and decisions; what follows from those is not repeated."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from immutables import Map

from asktell.errors import InvalidStateError
from asktell.numerics.arrays import distinct
from asktell.problem.budget import Costs, Spent
from asktell.problem.checks import MOST_EVALUATIONS, MOST_EXAMPLES, short
from asktell.serialization import fields
from asktell.state import (
    ACCEPTED,
    FAILED,
    REJECTED,
    Added,
    Decided,
    Departure,
    Extended,
    Failures,
    Grown,
    Growth,
    Problem,
    Retired,
    State,
    grown,
    initial,
)
from asktell.state.growth import told_departures
from asktell.state.history import History
from asktell.state.queue import Pull, Queue


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
    record = fields.mapping("a decision", data)
    n_arms, n_metrics = problem.n_arms, len(problem.goal.metrics)
    departures = []
    for item in fields.items("departures", record.get("departures")):
        arm, status, reason, means, errors = fields.items("a departure", item, 5)
        if status not in (ACCEPTED, REJECTED, FAILED) or not isinstance(reason, str):
            raise InvalidStateError(f"A departure is malformed: {item!r}.")
        lengths = {len(fields.items("a departure's estimate", vector)) for vector in (means, errors)}
        if lengths not in ({0}, {n_metrics}):
            raise InvalidStateError(f"A departure's estimate needs {n_metrics} means and errors, got {short(item)}.")
        departures.append(
            Departure(
                fields.whole("arm", arm, 0, n_arms - 1),
                status,
                reason,
                tuple(fields.number("an estimate", x) for x in means),
                tuple(None if x is None else fields.number("a standard error", x) for x in errors),
            )
        )
    pulls = record.get("pulls")
    if isinstance(pulls, list):
        pulls = tuple(fields.whole("pulls", n, 0, problem.budget) for n in pulls)
    else:
        pulls = fields.whole("pulls", pulls, 0, problem.budget)
    finished = record.get("finished")
    if not isinstance(finished, bool):
        raise InvalidStateError(f"finished must be true or false, got {short(finished)}.")
    answer = tuple(fields.whole("answer", arm, 0, n_arms - 1) for arm in fields.items("answer", record.get("answer")))
    plan = record.get("plan")
    if plan is not None:
        pairs = [fields.items("a planned pull", item, 2) for item in fields.items("a decision's plan", plan)]
        last = (problem.n_examples or 0) - 1
        plan = tuple(
            (fields.whole("arm", arm, 0, n_arms - 1), fields.whole("example", x, -1, last)) for arm, x in pairs
        )
    settled = record.get("settled", False)
    if not isinstance(settled, bool):
        raise InvalidStateError(f"settled must be true or false, got {short(settled)}.")
    return Decided(
        fields.whole("round", record.get("round"), 0), tuple(departures), pulls, finished, answer, plan, settled
    )


def dump_decisions(decisions: Sequence[tuple[int, Decided]]) -> list[Any]:
    """Decisions, with the number of rows each was based on, as data."""
    return [[rows, dump_decided(decided)] for rows, decided in decisions]


LETTERS = ("n", "q", "e")


def dump_growth(event: Growth) -> list[Any]:
    """An event as data."""
    if isinstance(event, Added):
        return ["n", event.ids, event.texts, event.features, event.key]
    if isinstance(event, Retired):
        return ["q", *event]
    return ["e", *(event[:-1] if event.ids is None else event)]


def load_growth(data: Sequence[Any], problem: Problem) -> Growth:
    """The event that `dump_growth` made `data` of; `problem` as it was before."""
    kind, *rest = data
    if kind == "q" and len(rest) == 3 and isinstance(rest[1], str):
        return Retired(fields.whole("an arm", rest[0], 0, problem.n_arms - 1), rest[1], _key(rest[2]))
    if kind == "e" and len(rest) in (4, 5):
        ids = None if len(rest) == 4 else _texts("the ids of examples", rest[4])
        if ids is not None and len(ids) != rest[2]:
            raise InvalidStateError(f"There are {len(ids)} ids for {rest[2]!r} examples that join.")
        return Extended(
            fields.whole("evaluations", rest[0], 0, MOST_EVALUATIONS),
            fields.bounded("a cost", rest[1], 0.0),
            fields.whole("examples", rest[2], 0, MOST_EXAMPLES),
            _key(rest[3]),
            ids,
        )
    if kind == "n" and len(rest) == 4:
        ids, texts, features, key = rest
        texts = _texts("the texts of prompts", texts)
        ids = None if ids is None else _texts("the ids of prompts", ids)
        if not texts or (ids is not None and len(ids) != len(texts)):
            raise InvalidStateError(f"Prompts that join must be texts, with as many ids or none; got {short(data)}.")
        if (features is None) != (problem.features is None):
            raise InvalidStateError("Prompts that join have features where the others have some, and only there.")
        if features is not None:
            features = tuple(map(tuple, fields.matrix("features", features, len(texts)).tolist()))
        return Added(ids, texts, features, _key(key))
    raise InvalidStateError(f"Growth is malformed: {short(data)}.")


def _texts(what: str, data: object) -> tuple[str, ...]:
    texts = fields.items(what, data)
    if not all(type(text) is str for text in texts):
        raise InvalidStateError(f"{what} must be text, got {short(texts)}.")
    return tuple(texts)


def _key(data: object) -> str | None:
    if data is not None and not isinstance(data, str):
        raise InvalidStateError(f"The key of a request must be text, got {short(data)}.")
    return data


def dump_grown(growth: Sequence[Grown]) -> dict[str, Any]:
    """All growth so far, and where it was; nothing where there was none."""
    return {"growth": [[*each[:-1], dump_growth(each.event)] for each in growth]} if growth else {}


def load_grown(data: object, problem: Problem, n_decisions: int) -> tuple[Problem, tuple[Grown, ...]]:
    """The problem as it has grown, and the growth that `dump_grown` made `data` of."""
    growth, before = [], 0
    for item in [] if data is None else fields.items("growth", data):
        decisions, spent, cost, entry = fields.items("growth", item, 4)
        event = load_growth(fields.items("growth", entry), problem)
        before = fields.whole("decisions", decisions, before, n_decisions)
        growth.append(Grown(before, fields.whole("spent", spent, 0), fields.cost("cost", cost), event))
        problem = grown(problem, event)
    return problem, tuple(growth)


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
    record = fields.mapping("state", data)
    n_decisions = len(fields.items("decisions", record.get("decisions")))
    problem, growth = load_grown(record.get("growth"), origin, n_decisions)
    n_arms, top = problem.n_arms, 2**62
    n_examples = problem.n_examples or 0
    trials = fields.column("trials", record.get("trials"), -1, top)
    arms = fields.column("arms", record.get("arms"), 0, n_arms - 1, len(trials))
    examples = fields.column("examples", record.get("examples"), -1, n_examples - 1, len(trials))
    scores = fields.matrix("scores", record.get("scores"), len(trials), len(problem.goal.metrics))
    told = trials[trials >= 0]
    failures = _load_failures(record.get("failures"), n_arms, n_examples)
    # Whatever was asked was told, is out, has failed, or was handed back and forgotten when its arm left.
    most = (n_arms + 1) * problem.budget + len(failures)
    asked = fields.whole("asked", record.get("asked"), 0, most)
    if len(distinct(told)) < len(told) or told.max(initial=-1) >= asked:
        raise InvalidStateError("A trial was told twice, or before it was asked.")
    scored = np.isin(failures.trials(), told)
    if len(distinct(failures.trials())) < len(failures) or failures.trials().max(initial=-1) >= asked:
        raise InvalidStateError("A trial failed twice, or before it was asked.")
    if scored.any() if problem.failure_scores is None else not scored.all():
        raise InvalidStateError("Failed trials have scores where on_failure says so, and only there.")
    if fields.whole("spent", record.get("spent"), 0) != len(told):
        raise InvalidStateError(f"spent is {record['spent']}, but {len(told)} trials were told.")
    state = initial(problem)._replace(
        origin=origin,
        growth=growth,
        history=History.from_columns(trials, arms, examples, scores),
        asked=asked,
        spent=len(told),
        cost=fields.number("cost", record.get("cost")),
        costs=_load_costs(record.get("costs"), n_arms),
    )
    state = _load_decisions(record.get("decisions"), state, trials, arms, scores)

    def pulls(name: str, may_be_new: bool) -> list[Pull]:
        loaded = []
        for item in fields.items(name, record.get(name)):
            trial, arm, example = fields.items(name, item, 3)
            if trial is not None or not may_be_new:
                trial = fields.whole("trial", trial, 0, asked - 1)
            example = None if example is None else fields.whole("example", example, 0, n_examples - 1)
            loaded.append(Pull(trial, fields.whole("arm", arm, 0, n_arms - 1), example))
        return loaded

    pending, returned = pulls("pending", False), pulls("returned", True)
    over = np.concatenate((told, failures.trials()))
    ids = [p.trial for p in (*pending, *returned) if p.trial is not None]
    if len(set(ids)) < len(ids) or np.isin(np.array(ids, dtype=np.int64), over).any():
        raise InvalidStateError("A trial is out twice, or out and told or failed.")
    plan_arms, plan_examples = fields.items("plan", record.get("plan"), 2)
    arms_column = fields.column("plan", plan_arms, 0, n_arms - 1)
    examples_column = fields.column("plan", plan_examples, -1, n_examples - 1, len(arms_column))
    if len(told) + len(pending) + len(returned) + len(arms_column) > problem.budget:
        raise InvalidStateError(f"More trials are told, out and planned than the budget of {problem.budget} allows.")
    redraws = [fields.items("redraws", item, 2) for item in fields.items("redraws", record.get("redraws"))]
    state = state._replace(
        pending=Map({p.trial: p for p in pending if p.trial is not None}),
        returned=Queue(returned),
        plan_arms=tuple(arms_column.tolist()),
        plan_examples=tuple(examples_column.tolist()),
        draws=fields.column("draws", record.get("draws"), 0, most + len(trials), n_arms),
        redraws=Map(
            {fields.whole("arm", arm, 0, n_arms - 1): fields.whole("redraws", extra, 1, most) for arm, extra in redraws}
        ),
        failures=failures,
    )
    left = state.left
    for item in fields.items("failed_out", record.get("failed_out")):
        arm, round_, reason = fields.items("failed_out", item, 3)
        if not isinstance(reason, str):
            raise InvalidStateError(f"A reason must be text, got {short(reason)}.")
        left = left.set(
            fields.whole("arm", arm, 0, n_arms - 1), (fields.whole("round", round_, 0), Departure(arm, FAILED, reason))
        )
    return state._replace(left=left)


def _load_decisions(data: object, state: State, trials: Any, arms: Any, scores: Any) -> State:
    decisions: list[tuple[int, Decided]] = []
    tally, tallied = state.tally, 0
    reopening = {each.decisions for each in state.growth}
    for number, item in enumerate(fields.items("decisions", data)):
        rows, decided = fields.items("a decision", item, 2)
        rows = fields.whole("rows", rows, tallied, len(trials))
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
    record = fields.mapping("costs", data)

    def spent(items: list[Any]) -> Spent:
        n, total, highest = items
        return Spent(fields.whole("costs", n, 1), fields.cost("costs", total), fields.cost("costs", highest))

    by_arm = {}
    for item in fields.items("costs", record.get("arms")):
        arm, *rest = fields.items("costs", item, 4)
        by_arm[fields.whole("arm", arm, 0, n_arms - 1)] = spent(rest)
    return Costs(Map(by_arm), spent(fields.items("costs", record.get("all"), 3)))


def _load_failures(data: object, n_arms: int, n_examples: int) -> Failures:
    record = fields.mapping("failures", data)
    reasons = fields.items("failures", record.get("reasons"))
    if not all(isinstance(reason, str) for reason in reasons):
        raise InvalidStateError("The reasons of failures must be text.")
    return Failures.from_columns(
        fields.column("failures", record.get("trials"), 0, 2**62, len(reasons)),
        fields.column("failures", record.get("arms"), 0, n_arms - 1, len(reasons)),
        fields.column("failures", record.get("examples"), -1, n_examples - 1, len(reasons)),
        reasons,
    )
