"""From a state to a result."""

from collections.abc import Iterator, Sequence

import numpy as np

from asktell.goals import BestFeasible, Goal, ParetoSet
from asktell.methods import Adaptive, Elimination, Method, Race
from asktell.numerics import counters
from asktell.numerics.arrays import Means
from asktell.numerics.pareto import pareto_mask
from asktell.posterior import membership
from asktell.results.entries import PromptResult
from asktell.results.pairs import Pairs
from asktell.results.result import Result
from asktell.results.unresolved import unresolved
from asktell.state import ACTIVE, FAILED, State
from asktell.trial import Prompts

_DOUBT = 0.05  # a prompt outside the answer that may be as good with this probability is unresolved


def summarize(state: State, method: Method, named: Prompts) -> Result:
    """What is known: the recorded answer once finished, otherwise the best that can be said now."""
    answer = list(state.decisions[-1][1].answer) if state.finished else method.answer(state)
    prompts = _prompt_results(state, method, named)
    answer = _best_first(answer, prompts, state)
    selected = [prompts[arm] for arm in answer]
    return Result(
        goal=state.problem.goal,
        selected=selected,
        prompts=prompts,
        unresolved=[prompts[arm] for arm in _unresolved(state, method, answer)],
        spent=state.spent,
        budget=state.problem.budget,
        cost=state.cost,
        max_cost=state.problem.max_cost,
        notes=tuple(_notes(state, method, selected)),
        done=state.finished,
        feasible=selected[0].feasible if selected else None,
        examples=state.problem.population,
        stopped_early=state.finished and state.decisions[-1][1].settled,
        baseline=None if state.problem.baseline is None else named.ids[state.problem.baseline],
        _comparer=Pairs(state.problem, state.history, not isinstance(method, Adaptive)),
    )


def _notes(state: State, method: Method, selected: list[PromptResult]) -> Iterator[str]:
    if isinstance(method, Elimination) and state.problem.features is not None:
        parts = (method.allocator, method.estimator)
        if not any(part.needs_features for part in parts):
            names = " and ".join(type(part).__name__ for part in parts)
            yield f"The features were not used: {names} have no use for them, but the method auto has."
    if isinstance(method, Race) and state.finished:
        settled = state.decisions[-1][1].settled
        within = f", within {method.tolerance:g}" if method.tolerance else ""
        right = f"The answer is right with confidence {method.confidence:g}{within}"
        yield f"{right}." if settled else "The budget ended before the answer was certain."
        if settled and not method.is_guaranteed(state):
            why = "evaluations failed" if state.failures else "the range of a metric is not known"
            yield f"That holds in the limit of many examples only, since {why}."
    known = [list(entry.estimate.values()) for entry in selected if None not in entry.estimate.values()]
    if isinstance(state.problem.goal, ParetoSet) and known:
        means = np.array(known, dtype=np.float64)
        dominated = int((~pareto_mask(state.problem.goal.values(means))).sum())
        if dominated:
            yield (
                f"By the estimates, {dominated} of the selected prompts are dominated by others of them; they are "
                "selected because that is in doubt."
            )


def _prompt_results(state: State, method: Method, named: Prompts) -> list[PromptResult]:
    problem, metrics = state.problem, state.problem.goal.metrics
    tally = state.current_tally()
    means, errors = tally.means, tally.standard_errors(problem.population)
    active = state.active
    p_feasible: Sequence[float | None] = [None] * problem.n_arms
    p_optimal = p_feasible
    if isinstance(method, Adaptive):
        belief = method.statement(state)
        if belief is not None:
            means, errors = belief.means, belief.errors
            if not belief.is_guess:
                p_optimal = belief.p_optimal.tolist()
                p_feasible = p_feasible if belief.p_feasible is None else belief.p_feasible.tolist()
    elif isinstance(method, Elimination) and len(active) and not method.estimator.needs_every_arm:
        means[active], errors[active] = method.estimates(state, active)[:2]
    means, errors = means.copy(), errors.copy()
    for arm, (_, departed) in state.left.items():
        if departed.means:
            means[arm], errors[arm] = departed.means, np.array(departed.standard_errors, dtype=np.float64)
    counts, feasible = tally.counts.tolist(), _feasible(problem.goal, means)
    estimated, deviations = _optional(means), _optional(errors)
    entries = []
    for arm, text in enumerate(named.texts):
        round_, departure = state.left.get(arm, (None, None))
        entries.append(
            PromptResult(
                id=named.ids[arm],
                prompt=text,
                estimate=dict(zip(metrics, estimated[arm], strict=True)),
                standard_error=dict(zip(metrics, deviations[arm], strict=True)),
                pulls=counts[arm],
                status=ACTIVE if departure is None else departure.status,
                round=round_,
                reason=None if departure is None else departure.reason,
                feasible=feasible[arm],
                failures=len(state.failures.get(arm, ())),
                p_feasible=p_feasible[arm],
                p_optimal=p_optimal[arm],
            )
        )
    return entries


def _unresolved(state: State, method: Method, answer: list[int]) -> list[int]:
    """Arms outside the answer that may belong to it: by the posterior if there is one, else by paired differences."""
    if isinstance(method, Race):
        return sorted(set(method.open(state)) - set(answer))
    belief = method.statement(state) if isinstance(method, Adaptive) else None
    if belief is None:
        return [int(arm) for arm in unresolved(state, answer)]
    open_ = membership.rivals(
        belief.values, np.array(answer, dtype=np.int64), isinstance(state.problem.goal, BestFeasible)
    )
    failed = [arm for arm, (_, departure) in state.left.items() if departure.status == FAILED]
    open_[[*answer, *failed]] = 0.0
    return [int(arm) for arm in np.flatnonzero(open_ >= _DOUBT)]


def _best_first(answer: list[int], prompts: list[PromptResult], state: State) -> list[int]:
    """By the first column of the goal's values, then by chance."""
    if not answer:
        return answer
    answer = [answer[i] for i in counters.chance_order(state.problem.seed, answer)]
    means = np.array([[np.nan if x is None else x for x in prompts[arm].estimate.values()] for arm in answer])
    return [answer[i] for i in np.argsort(-state.problem.goal.values(means)[:, 0], kind="stable")]


def _feasible(goal: Goal, means: Means) -> list[bool | None]:
    """Whether each estimate keeps every constraint; None without constraints or without an estimate."""
    if not goal.is_constrained:
        return [None] * len(means)
    keeps = (goal.values(means)[:, 1:] >= 0).all(axis=1)
    return np.where(np.isnan(means).any(axis=1), None, keeps).tolist()  # type: ignore[call-overload,no-any-return]


def _optional(rows: Means) -> list[list[float | None]]:
    """With None for NaN."""
    return np.where(np.isnan(rows), None, rows).tolist()  # type: ignore[call-overload,no-any-return]
