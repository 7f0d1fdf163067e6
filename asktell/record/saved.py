"""States as JSON-ready data, and problems, which are checked when they are read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from msgspec import structs

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.intmap import IntMap
from asktell.problem.budget import Budget
from asktell.problem.checks import MalformedError, whole
from asktell.problem.formats import Decoder, builtins, dump_goal, items, load_goal
from asktell.problem.problem import Problem, checked_problem
from asktell.problem.prompts import ById, Prompts
from asktell.problem.words import short
from asktell.record import events
from asktell.record.costs import SavedCosts, Total
from asktell.record.events import Index
from asktell.record.facet import Pack, Saved, column, matrix
from asktell.record.failures import Failures, SavedFailures
from asktell.record.fold import check_decision
from asktell.record.growth import check_growth, problem_after, told_departures
from asktell.record.history import History
from asktell.record.plan import Plan, Queue
from asktell.record.proxies import SavedProxies
from asktell.record.state import GrowthSoFar, GrowthStep, Remarks, State, initial

DEFAULTS: dict[str, Any] = {
    "examples": None, "features": None, "seed": 0, "sampling": "shared", "on_failure": "skip", "max_failure_rate": 0.5,
    "max_cost": None, "max_cost_per_evaluation": None, "baseline": None, "example_ids": None, "repeats": None,
    "inputs": "new", "profile": None, "segments": None, "proxies": (),
}  # fmt: skip
"""The values of missing keys of a problem. A file stays readable when a later version adds a key."""


def dump_problem(problem: Problem) -> dict[str, Any]:
    """The data of a problem, without prompts and method."""
    examples = problem.examples
    is_default = examples.repeats == 1 and not examples.exact
    return {
        "goal": dump_goal(problem.goal),
        "budget": problem.budget,
        "examples": examples.n,
        "features": None if problem.features is None else problem.features.tolist(),
        "seed": problem.seed,
        "sampling": examples.sampling,
        "on_failure": problem.on_failure,
        "max_failure_rate": problem.max_failure_rate,
        "max_cost": problem.max_cost,
        "max_cost_per_evaluation": problem.max_cost_per_evaluation,
        "baseline": problem.baseline,
        "example_ids": None if examples.ids is None else tuple(examples.ids),
        "repeats": None if is_default else examples.repeats,
        "inputs": examples.inputs,
        "profile": None if examples.profile is None else examples.profile.to_data(),
        "segments": None if examples.labels is None else list(examples.labels),
        "proxies": list(problem.proxies),
    }


def load_problem(data: Mapping[str, Any], prompts: Prompts) -> Problem:
    """Load the data that `dump_problem` returned. A key with a default may be missing.

    Raises:
        InvalidStateError: the data are malformed.
        InvalidArgumentError: the data describe an invalid problem.
    """
    data = {**DEFAULTS, **data}
    n_examples, ids, baseline, features = (
        data.get(name) for name in ("examples", "example_ids", "baseline", "features")
    )
    if ids is not None and len(items("example_ids", ids)) != n_examples:
        raise MalformedError(
            f"The number of example_ids is {len(ids)}, but examples is {short(n_examples)}."
        )
    return checked_problem(
        prompts,
        load_goal(data["goal"]),
        Budget(data["budget"], data["max_cost"], data["max_cost_per_evaluation"]),
        n_examples if ids is None else ids,
        None if features is None else items("features", features),
        data["seed"],
        data["sampling"],
        data["on_failure"],
        data["max_failure_rate"],
        None
        if baseline is None
        else ById(prompts.ids[whole("baseline", baseline, 0, len(prompts) - 1)]),
        data["repeats"],
        data["profile"],
        data["segments"],
        data["inputs"],
        data["proxies"],
    )


# The state, as columns and decisions. Values that follow from these are not saved.


class SavedRows(Saved, frozen=True, kw_only=True):
    """The part of a state that only grows. Each decision has the number of rows before it."""

    trials: Any = ()
    arms: Any = ()
    examples: Any = ()
    scores: Any = ()
    decisions: tuple[tuple[Index, events.Decided], ...] = ()
    failures: SavedFailures = SavedFailures()
    proxies: SavedProxies = SavedProxies()

    @classmethod
    def of(
        cls,
        state: State,
        rows: int = 0,
        decisions: int = 0,
        failures: int = 0,
        proxies: int = 0,
        pack: Pack = np.ndarray.tolist,
    ) -> Self:
        """The rows, decisions, failures and scores of proxies of a state, each from an index on."""
        history = state.history
        return cls(
            trials=pack(history.trials(rows)),
            arms=pack(history.arms(rows)),
            examples=pack(history.examples(rows)),
            scores=pack(history.scores(rows)),
            decisions=state.decisions[decisions:],
            failures=state.failures.dump(failures, pack),
            proxies=state.proxies.dump(proxies, pack),
        )


class SavedState(SavedRows, frozen=True, kw_only=True):
    """A complete state, or a state without rows in the head of a snapshot. See the fields of `State`."""

    plan: tuple[Any, Any] = ((), ())  # arms and examples of the rest of the plan
    draws: Any
    asked: Index
    spent: Index
    cost: Total = 0.0
    costs: SavedCosts = SavedCosts()
    pending: tuple[events.Pull, ...] = ()
    returned: tuple[events.Pull, ...] = ()
    redraws: tuple[tuple[Index, Index], ...] = ()
    # Arm, round and reason of each arm that failed too often
    failed_out: tuple[tuple[Index, Index, str], ...] = ()
    growth: tuple[GrowthStep, ...] = ()
    remarks: tuple[events.Remarked, ...] = ()

    @classmethod
    def of_rest(cls, state: State, pack: Pack = np.ndarray.tolist) -> Self:
        """The saved state without rows, decisions and failures."""
        departures, _ = told_departures(state.decisions, state.growth.events)
        plan = state.plan
        arms, examples = plan.rest
        return cls(
            plan=(
                pack(np.array(arms, dtype=np.int64)),
                pack(np.array(examples, dtype=np.int64)),
            ),
            draws=pack(plan.draws),
            asked=plan.asked,
            spent=state.spent,
            cost=state.costs.total,
            costs=state.costs.dump(),
            pending=tuple(pull for _, pull in sorted(plan.pending.items())),
            returned=tuple(plan.returned),
            redraws=tuple(sorted(plan.redraws.items())),
            failed_out=tuple(
                (arm, round_, departure.reason)
                for arm, (round_, departure) in sorted(state.left.items())
                if departure.status == "failed"
                and (round_, departure) != departures.get(arm)
            ),
            growth=state.growth.events,
            remarks=tuple(state.remarks.in_order()),
        )

    def with_rows(self, rows: SavedRows) -> Self:
        """This state with these rows, decisions, failures and scores of proxies."""
        return structs.replace(self, **structs.asdict(rows))

    @classmethod
    def dump(cls, state: State) -> dict[str, Any]:
        """The data of a state."""
        data: dict[str, Any] = builtins(
            cls.of_rest(state).with_rows(SavedRows.of(state))
        )
        return data

    @classmethod
    def convert(cls, data: object) -> "SavedState":
        """The saved state in the data that `dump` returned.

        Raises:
            InvalidStateError: the data are malformed.
        """
        return _STATE.convert(data)

    def load(self, origin: Problem) -> State:
        """The state, equal to the original state in every bit.

        `origin` is the problem before the first evaluation.

        Raises:
            InvalidStateError: the saved state is malformed, or contradicts itself.
            InvalidArgumentError: a number is out of range.
        """
        problem = _problem_after(self.growth, origin, len(self.decisions))
        _check_asked(self, problem)
        n_arms, last_example = problem.n_arms, (problem.examples.n or 0) - 1
        trials = column("trials", self.trials, -1, self.asked - 1)
        arms = column("arms", self.arms, 0, n_arms - 1, len(trials))
        examples = column("examples", self.examples, -1, last_example, len(trials))
        scores = matrix("scores", self.scores, len(trials), len(problem.goal.columns))
        failures = self.failures.load(problem, self.asked)
        plan_arms = column("plan", self.plan[0], 0, n_arms - 1)
        plan_examples = column("plan", self.plan[1], -1, last_example, len(plan_arms))
        _check_trials(self, trials[trials >= 0], failures, len(plan_arms), problem)
        for pull in (*self.pending, *self.returned):
            whole("arm", pull.arm, 0, n_arms - 1)
            if pull.example is not None:
                whole("example", pull.example, 0, last_example)
        for arm, *_ in (*self.redraws, *self.failed_out):
            whole("arm", arm, 0, n_arms - 1)
        costs = self.costs.load(problem)
        if self.cost not in (0.0, costs.total):
            raise MalformedError(
                f"cost is {self.cost:g}, but the recorded costs sum to {costs.total:g}."
            )
        state = _with_decisions(
            self.decisions,
            GrowthSoFar(origin, self.growth),
            initial(problem),
            trials,
            arms,
            scores,
        )
        left = state.left
        for arm, round_, reason in self.failed_out:
            left = left.set(arm, (round_, events.Departure(arm, "failed", reason)))
        return state._replace(
            left=left,
            history=History.from_columns(trials, arms, examples, scores),
            failures=failures,
            proxies=self.proxies.load(problem),
            spent=self.spent,
            costs=costs,
            remarks=Remarks({remark.topic: remark for remark in self.remarks}),
            plan=Plan(
                draws=column(
                    "draws",
                    self.draws,
                    0,
                    _most_asked(problem, len(failures)) + len(trials),
                    n_arms,
                ),
                redraws=dict(self.redraws),
                arms=tuple(plan_arms.tolist()),
                examples=tuple(plan_examples.tolist()),
                returned=Queue.of(self.returned),
                pending=IntMap(
                    {
                        pull.trial: pull
                        for pull in self.pending
                        if pull.trial is not None
                    }
                ),
                asked=self.asked,
            ),
        )


# Most trial ids without a trial. A trial that is returned after its arm has departed is
# forgotten, and its id is never used again.
_MOST_FORGOTTEN = 10**7


_STATE = Decoder[SavedState](SavedState)


def _problem_after(
    growth: tuple[GrowthStep, ...], problem: Problem, n_decisions: int
) -> Problem:
    """The problem after growth. Each event must be valid at its position."""
    before = 0
    for addition in growth:
        before = whole("decisions", addition.decisions, before, n_decisions)
        check_growth(initial(problem), addition.event)
        problem = problem_after(problem, addition.event)
    return problem


def _most_asked(problem: Problem, n_failures: int) -> int:
    """The largest possible number of assigned trials.

    Each trial has scores, is in progress, has failed, or was returned and forgotten
    because its arm had departed.
    """
    return (problem.n_arms + 1) * problem.budget + n_failures


def _check_asked(saved: SavedState, problem: Problem) -> None:
    """Check the number of assigned trials against the saved trials, before memory is allocated for them."""
    n_failures = len(saved.failures.reasons)
    n_known = len(saved.trials) + n_failures + len(saved.pending) + len(saved.returned)
    whole("asked", saved.asked, 0, _most_asked(problem, n_failures))
    if saved.asked > n_known + _MOST_FORGOTTEN:
        raise MalformedError(
            f"asked is {saved.asked}, but only {n_known} trials have scores, have failed or are pending. At most "
            f"{_MOST_FORGOTTEN} may be missing, since each takes memory."
        )


def _check_trials(
    saved: SavedState,
    told: Ints,
    failures: Failures,
    n_planned: int,
    problem: Problem,
) -> None:
    """Check that each trial has one state, and that the trials fit the budget.

    `told` (n,) are the ids of the trials with scores, and `n_planned` is the number of
    evaluations left in the plan.
    """
    failed = failures.pulls.trials()
    out = [
        pull.trial
        for pull in (*saved.pending, *saved.returned)
        if pull.trial is not None
    ]
    n_out = len(saved.pending) + len(saved.returned)
    for what, ids in (("scores", told), ("a failure", failed)):
        if (np.diff(np.sort(ids)) == 0).any():
            raise MalformedError(f"A trial has {what} twice.")
    scored = _isin(failed, told)
    if scored.any() if problem.failure_scores is None else not scored.all():
        raise MalformedError(
            "Failed trials must have scores if on_failure is a mapping, and must have none otherwise."
        )
    if saved.spent != len(told):
        raise MalformedError(
            f"spent is {short(saved.spent)}, but {len(told)} trials have scores."
        )
    if any(pull.trial is None for pull in saved.pending):
        raise MalformedError("A pending trial has no id.")
    over = np.concatenate((told, failed))
    if (
        max(out, default=-1) >= saved.asked
        or len(set(out)) < len(out)
        or _isin(np.array(out, dtype=np.int64), over).any()
    ):
        raise MalformedError(
            "The list of pending trials has a trial twice, or a trial that was never assigned or is no longer pending."
        )
    if len(told) + n_out + n_planned > problem.budget:
        raise MalformedError(
            f"The recorded, pending and planned trials exceed the budget of {problem.budget}."
        )
    for _, extra in saved.redraws:
        whole("redraws", extra, 1, _most_asked(problem, len(failed)))


def _isin(ids: Ints, others: Ints) -> Any:
    """(n,) whether each id is among the others. Unlike NumPy, does not sort a million others for no ids."""
    return np.isin(ids, others) if len(ids) else np.zeros(0, dtype=bool)


def _with_decisions(
    decisions: tuple[tuple[int, events.Decided], ...],
    growth: GrowthSoFar,
    state: State,
    trials: Ints,
    arms: Ints,
    scores: Floats,
) -> State:
    """The state with its decisions, and with the tally of the rows before the last decision."""
    tally, tallied = state.tally, 0
    reopening = {addition.decisions for addition in growth.events}
    was_finished = False
    for number, (rows, decided) in enumerate(decisions):
        whole("rows", rows, tallied, len(trials))
        check_decision(state.problem, decided)
        if decided.round != number or (was_finished and number not in reopening):
            raise MalformedError("The decisions are not in order.")
        order = tallied + np.argsort(trials[tallied:rows], kind="stable")
        tally, tallied, was_finished = (
            tally.plus(arms[order], scores[order]),
            rows,
            decided.finished,
        )
    left, reopened = told_departures(decisions, growth.events)
    growth = replace(growth, reopened=reopened)
    return state._replace(tally=tally, left=left, growth=growth, decisions=decisions)
