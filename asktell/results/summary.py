"""From a state to a result.

`summarize` reads like the page that it fills: the posterior, the entry of each prompt,
the selection, the verdict, the checks and the notes. All numbers come from one
posterior (`asktell.posterior.of_state.stated`), whatever the method is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from asktell._util.terminal import safe
from asktell._util.threads import undisturbed
from asktell.methods import AbstractMethod
from asktell.numerics import counters
from asktell.numerics.arrays import Floats
from asktell.posterior.of_state import has_drifted, stated
from asktell.posterior.regressors import levels_of
from asktell.posterior.statement import Statement
from asktell.problem.budget import FREE
from asktell.problem.goals import BestFeasible, ParetoSet
from asktell.problem.problem import Problem
from asktell.problem.prompts import AnyPrompt, Prompts
from asktell.proofs.ordered import joined_at
from asktell.record import State, events
from asktell.results.assignment import assign
from asktell.results.checks import ORDER, Check, checks, warnings
from asktell.results.comparison import Comparison, Pairs, compare_two
from asktell.results.entries import PromptResult, grouped, quoted
from asktell.results.evaluations import example_name
from asktell.results.examples import example_results
from asktell.results.losses import Chances, Draws, chances
from asktell.results.result import Levels, Result
from asktell.results.streak import describe_streak
from asktell.results.verdict import KEEP, judge


def limits_of(state: State) -> list[tuple[float, float] | None]:
    """The lowest and highest possible score of every metric. None where they are unknown.

    These are the ends of the declared range, or else 0 and 1 if every score is 0 or 1.
    """
    scores, goal = state.history.scores(), state.problem.goal
    binary = [
        bool(len(column)) and bool(np.isin(column, (0.0, 1.0)).all())
        for column in scores.T
    ]
    return [
        goal.limits(name) or ((0.0, 1.0) if is_ else None)
        for name, is_ in zip(goal.columns, binary, strict=True)
    ]


# Pairs of prompts in the note on dominated prompts. str() of a result has all of them.
_PAIRS_SHOWN = 2
# Evaluations without a cost after which a budget of cost looks like a mistake
_MANY_FREE = 20
# Of a mean: a smaller error is an error of rounding, not of sampling
_ROUNDING = 1e-12
_CONFIDENCE = 0.95  # of the comparison with the baseline, as in `Result.compare`
_FEW = 4  # scores from which their span bounds the errors


@undisturbed
def summarize(state: State, method: AbstractMethod, named: Prompts) -> Result:
    """The result of a selection: its recorded selection if it is finished, else the best selection so far."""
    problem, goal = state.problem, state.problem.goal

    # Estimates and probabilities. Doubtful scores support no probability.
    statement = stated(state)
    of_arms = (
        None if statement is None or state.remarks.doubts else chances(state, statement)
    )
    prompts = _prompt_results(state, method, named, statement, of_arms)

    # The selection, the best prompt first
    last = state.decisions[-1][1] if state.finished else None
    answer = _best_first(_answer(state, method), prompts, state)
    selected = [prompts[arm] for arm in answer]
    feasible = [entry.feasible for entry in selected]

    # In words
    pairs = _pairs(state, method, statement, answer)
    lead = None
    baseline = problem.baseline
    is_one = isinstance(goal, BestFeasible)
    if is_one and baseline is not None and answer and answer[0] != baseline:
        first = answer[0], named.ids[answer[0]]
        base = baseline, named.ids[baseline]
        compared = pairs(first, base, confidence=_CONFIDENCE, tolerance=None)
        lead = compared.differences[goal.objectives[0].metric]
    has_outlook = method.selects_by_estimates
    verdict = judge(state, statement, of_arms, answer, named.ids, lead, has_outlook)
    is_kept = verdict.change is not None and verdict.change.decision == KEEP
    single = [baseline] if is_kept and baseline is not None else answer
    of_failures = _of_failures(state, answer)
    found_checks = checks(state, of_failures)

    result = Result(
        goal=goal,
        selected=selected,
        prompts=prompts,
        verdict=verdict,
        spent=state.spent,
        budget=problem.budget,
        spent_cost=state.costs.total,
        max_cost=problem.max_cost,
        notes=_notes(state, method, named, selected, found_checks, of_failures),
        checks=found_checks,
        done=state.finished,
        feasible=None if not feasible or None in feasible else all(feasible),
        n_examples=problem.examples.population,
        repeats=problem.examples.repeats,
        inputs=problem.examples.inputs,
        stopped_early=last is not None and last.settled and not state.remarks.doubts,
        finished_early=_finished_early(state),
        baseline=None if problem.baseline is None else named.ids[problem.baseline],
        example_ids=problem.examples.ids,
        failures=grouped(
            (named.ids[arm], example_name(problem, example), reason)
            for _, arm, example, reason in state.failures
        ),
        _factors=_factors(problem, statement),
        _comparer=pairs,
        _analyzed=partial(example_results, state),
        _assigned=partial(assign, state, pairs, named.ids, single),
    )
    # Which selected prompts are dominated follows from the result itself.
    return replace(result, notes=(*result.notes, *_of_dominated(result.dominated)))


def _factors(problem: Problem, statement: Statement | None) -> dict[str, Levels]:
    """For each factor and level, the mean of the candidates of that level in each metric, and its error."""
    candidates, means = problem.candidates, dict[str, Levels]()
    if candidates is None or statement is None or not levels_of(candidates):
        return means
    for factor, column in zip(
        candidates.factors, zip(*candidates.levels, strict=True), strict=True
    ):
        levels = list(candidates.factors[factor])
        has: Floats = np.array(
            [[level == of_arm for of_arm in column] for level in levels],
            dtype=np.float64,
        )
        by_metric = [
            fit.averages(has / has.sum(axis=1, keepdims=True)) for fit in statement.fits
        ]
        have_errors = np.atleast_1d((~np.isnan(statement.errors)).any(axis=0))
        means[factor] = {
            level: {
                name: (float(mean[i]), float(error[i]) if have_errors[j] else None)
                for j, (name, (mean, error)) in enumerate(
                    zip(problem.goal.columns, by_metric, strict=True)
                )
            }
            for i, level in enumerate(levels)
        }
    return means


@undisturbed
def compare(
    state: State,
    method: AbstractMethod,
    named: Prompts,
    a: AnyPrompt,
    b: AnyPrompt | None,
    confidence: float,
    tolerance: float | None,
) -> Comparison:
    """Compare as `Result.compare` does. The rest of the result is only computed if b is the selected prompt."""
    baseline = state.problem.baseline
    if b is None and baseline is None:
        return summarize(state, method, named).compare(a, None, confidence, tolerance)
    pairs = _pairs(state, method, stated(state), _answer(state, method))
    return compare_two(pairs, named, a, b, baseline, confidence, tolerance)


def _answer(state: State, method: AbstractMethod) -> list[int]:
    """The selected arms. A finished selection keeps its recorded answer, even if late scores changed the estimates."""
    if state.finished:
        return list(state.decisions[-1][1].answer)
    return method.answer(state)


def _pairs(
    state: State,
    method: AbstractMethod,
    statement: Statement | None,
    selected: list[int],
) -> Pairs:
    in_progress = state.plan.in_progress
    # Prompts whose examples may depend on scores, so comparisons with them have no
    # guarantee
    late = (
        range(state.problem.n_arms)
        if ORDER in state.remarks
        else np.flatnonzero(joined_at(state)).tolist()
    )
    return Pairs(
        state.problem, state.seen, state.history, state.missing, in_progress, statement,
        bool(state.remarks.doubts), late, partial(has_drifted, state), _looks_once(state, method), selected,
    )  # fmt: skip


def _looks_once(state: State, method: AbstractMethod) -> bool:
    """Whether intervals are for one look: at a finished table, or at the end of a budget that was fixed beforehand.

    A selection that has stopped early, was extended, or went on after its end, has ended
    at a moment that depends on its scores.
    """
    if state.problem.looks_once:
        return True
    is_extended = any(
        isinstance(grown.event, events.Extended) for grown in state.growth.events
    )
    n_ends = [decision.finished for _, decision in state.decisions].count(True)
    return (
        state.finished
        and n_ends == 1
        and not method.ended_by_scores(state)
        and not is_extended
    )


def _notes(
    state: State,
    method: AbstractMethod,
    named: Prompts,
    selected: list[PromptResult],
    found_checks: tuple[Check, ...],
    failures: str,
) -> tuple[str, ...]:
    notes = [
        *method.notes(state, partial(_quoted, named)),
        *(remark.text for remark in state.remarks.in_order()),
    ]
    if not state.remarks.doubts:
        notes += _certainty(state, method, found_checks)
    # The verdict already has the doubts, and the failures come last
    elsewhere = {*state.remarks.doubts, " ".join(state.remarks.doubts), failures}
    notes += (warning for warning in warnings(found_checks) if warning not in elsewhere)
    scores = state.history.scores()
    if len(np.unique(state.history.arms())) > 1 and (scores == scores[0]).all():
        notes.append("All scores are the same so far.")
    n_violating = sum(entry.feasible is False for entry in selected)
    if isinstance(state.problem.goal, ParetoSet) and 0 < n_violating < len(selected):
        violate = "violates" if n_violating == 1 else "violate"
        it_is = "It is" if n_violating == 1 else "They are"
        notes.append(
            f"{n_violating} of the selected prompts probably {violate} a constraint. {it_is} selected because this is "
            "uncertain."
        )
    if (
        state.problem.max_cost is not None
        and not state.costs.total
        and state.spent >= _MANY_FREE
    ):
        notes.append(
            f"All {state.spent} evaluations were free, so the budget of cost {state.problem.max_cost:g} never ends "
            f"the run. {FREE}"
        )
    streak = describe_streak(state)
    return (*notes, *filter(None, (streak, failures)))


def _certainty(
    state: State, method: AbstractMethod, found_checks: tuple[Check, ...]
) -> Iterator[str]:
    """How sure the claim of the method is. Nothing if there is none."""
    claim = method.claim(state)
    if not claim:
        return
    if method.confidence is None:
        yield f"{type(method).__name__} ended the run before the budget was spent."
        return
    by_name: dict[str, Check] = {check.name: check for check in found_checks}
    percent = f"{100 * method.confidence:g}%"

    # A changed model or unexpected noise voids the confidence
    why = ""
    if by_name["drift"].ok is False:
        why = "the scores seem to have changed"
    elif by_name["noise"].ok is False and state.problem.examples.exact:
        why = "repeated evaluations differ"
    if why:
        yield f"The run stopped at {percent} confidence, but {why}. This confidence does not hold."
        return

    if method.confidence_kind == "posterior":
        yield f"With an estimated probability of {percent}, {claim}. This is not a guarantee."
        return
    sure = f"With {percent} confidence, {claim}."
    unmet = [quoted(name) for name in _PREMISES if by_name[name].ok is not True]
    if unmet:
        checks_ = "the check" if len(unmet) == 1 else "the checks"
        sure += f" This is not guaranteed. See {checks_} {' and '.join(unmet)}."
    yield sure


# Premises of a confidence statement, besides "drift"
_PREMISES = ("range", "order", "failures")


def _of_failures(state: State, answer: list[int]) -> str:
    """The sentences about failed evaluations. Empty if none failed."""
    if not state.failures:
        return ""
    n_all = state.spent + len(state.missing)
    sentence = f"{len(state.failures)} of {n_all} evaluations failed"
    if answer:
        n_failed = sum(state.failures.count(arm) for arm in answer)
        n_asked = sum(
            state.history.n_asked(arm) + state.missing.count(arm) for arm in answer
        )
        of_whom = "the selected prompt" if len(answer) == 1 else "the selected prompts"
        sentence += f", including {n_failed} of {n_asked} for {of_whom}"
    scores = state.problem.on_failure
    if isinstance(scores, dict):
        counted = (f"{safe(metric)} {score:g}" for metric, score in scores.items())
        effect = f"counted as {', '.join(counted)}"
    elif state.problem.goal.counts_failures:
        effect = "left out of the other estimates"
    else:
        effect = "left out of the estimates"
    return f"{sentence}. Failures are {effect}."


def _of_dominated(by: Mapping[str | int, str | int]) -> Iterator[str]:
    if by:
        shown = list(by.items())[:_PAIRS_SHOWN]
        some = ", ".join(
            f"{quoted(worse)} by {quoted(better)}" for worse, better in shown
        )
        more = ", ..." if len(by) > _PAIRS_SHOWN else ""
        are = "is dominated by another" if len(by) == 1 else "are dominated by others"
        sentence = f"Based on the estimates, {len(by)} of the selected prompts {are} ({some}{more})"
        yield f"{sentence}, but this is uncertain."


def _quoted(named: Prompts, arm: int) -> str:
    """How sentences name the prompt at a position."""
    return quoted(named.ids[arm])


def _prompt_results(
    state: State,
    method: AbstractMethod,
    named: Prompts,
    statement: Statement | None,
    of_arms: Chances | None,
) -> list[PromptResult]:
    """An entry for each prompt, with the posterior's estimates whatever the method is."""
    problem, metrics = state.problem, state.problem.goal.columns
    n_arms = problem.n_arms
    estimates = _estimates(state, statement)
    p_best: Sequence[float | None] = [None] * n_arms
    p_feasible: Sequence[float | None] = [None] * n_arms
    feasible: Sequence[bool | None] = [None] * n_arms
    if of_arms is not None:
        p_best = of_arms.p_best.tolist()
        if of_arms.p_feasible is not None and of_arms.taken is not None:
            p_feasible, feasible = of_arms.p_feasible.tolist(), of_arms.taken.tolist()
    evaluations = (
        state.told if problem.examples.repeats > 1 else state.current_tally().counts
    )
    segments: Sequence[Mapping[str, Any]] = [{}] * problem.n_arms
    if (
        problem.examples.segments is not None
        and statement is not None
        and statement.in_segments is not None
    ):
        lows, highs = np.array(
            [limits or (-np.inf, np.inf) for limits in limits_of(state)]
        ).T
        in_segments = np.clip(statement.in_segments[0], lows[:, None], highs[:, None])
        widths = np.minimum(statement.in_segments[1], _largest_errors(state)[:, None])
        segments = _by_segment(
            problem.examples.segments.names, metrics, in_segments, widths
        )
    of_proxies = state.proxies.means(problem.proxies, n_arms)
    plain_means = _plain_means(state)
    entries = []
    for arm, text in enumerate(named.texts):
        round_, departure = state.left.get(arm) or (None, None)
        means, errors = estimates[arm]
        entries.append(
            PromptResult(
                id=named.ids[arm],
                prompt=text,
                estimate=dict(zip(metrics, means, strict=True)),
                standard_error=dict(zip(metrics, errors, strict=True)),
                evaluations=int(evaluations[arm]),
                status="active" if departure is None else departure.status,
                round=round_ if method.has_rounds else None,
                reason=None
                if departure is None
                else method.reason(state, departure, partial(_quoted, named)),
                feasible=feasible[arm],
                failures=state.failures.count(arm),
                p_feasible=p_feasible[arm],
                p_best=p_best[arm],
                segments=segments[arm],
                candidate=None if named.candidates is None else named.candidates[arm],
                proxies=of_proxies[arm],
                plain_mean=plain_means[arm],
            )
        )
    return entries


def _estimates(
    state: State, statement: Statement | None
) -> list[list[list[float | None]]]:
    """Means and standard errors of each arm, in the order of the columns. None where the scores support no number.

    The model has no range, so its numbers are kept within what the scores allow:

    - A mean is not outside the range of its metric, and an error is not larger than
      half of the range.
    - Without a range, an error is not larger than the span of the scores. An interval
      of 1.96 errors then reaches twice as far as any two scores are apart.
    - An error that is only an error of rounding is 0.
    """
    goal = state.problem.goal
    if statement is None:
        return [[[None] * len(goal.columns)] * 2] * state.problem.n_arms
    means, errors = statement.means.copy(), statement.errors.copy()
    for j, limits in enumerate(limits_of(state)):
        if limits is not None:
            means[:, j] = np.clip(means[:, j], *limits)
    errors = np.minimum(errors, _largest_errors(state))
    errors = np.where(errors < _ROUNDING * np.abs(means), 0.0, errors)
    # NaN is the only number that differs from itself
    return [
        [[None if x != x else x for x in row] for row in of_arm]
        for of_arm in np.stack((means, errors), axis=1).tolist()
    ]


def _largest_errors(state: State) -> Floats:
    """(c,) The largest errors that the scores allow, by column (see `_estimates`)."""
    scores = state.history.scores()
    largest = []
    for j, limits in enumerate(limits_of(state)):
        span = np.inf
        if limits is not None:
            span = (limits[1] - limits[0]) / 2.0
        elif len(scores) >= _FEW and np.ptp(scores[:, j]) > 0.0:
            span = float(np.ptp(scores[:, j]))
        largest.append(span)
    return np.array(largest)


def _plain_means(state: State) -> list[Mapping[str, float | None]]:
    """For each arm, the plain mean of the scores in each metric. Empty unless the scores are a finished table."""
    problem = state.problem
    if not problem.looks_once:
        return [{}] * problem.n_arms
    means = state.current_tally().means.tolist()
    return [
        {
            # Twelve digits: 0.3 and not 0.30000000000000004
            metric: float(f"{mean:.12g}") if mean == mean else None
            for metric, mean in zip(problem.goal.metrics, row, strict=False)
        }
        for row in means
    ]


def _finished_early(state: State) -> bool:
    """True if budget was left over because every prompt in the last round had no evaluation left."""
    most = state.problem.examples.most_pulls
    if not state.finished or state.decisions[-1][1].settled or most is None:
        return False
    rounds = {
        arm: round_
        for arm, (round_, departure) in state.left.items()
        if departure.status in ("accepted", "rejected")
    }
    latest = max(rounds.values(), default=0)
    last = [arm for arm, round_ in rounds.items() if round_ == latest]
    is_exhausted = bool((state.used_pulls()[last] >= most).all())
    return bool(last) and state.spent < state.problem.budget and is_exhausted


def _of_equals(merit: Floats, arms: list[int], state: State) -> Floats:
    """The merits, with the mean for arms that have the same scores on the same examples: they differ by chance only."""
    if len(arms) == 1:
        return merit
    history = state.history
    rows = np.column_stack([history.examples(), history.scores()])
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, arm in enumerate(arms):
        scores = tuple(sorted(map(tuple, rows[history.arms() == arm])))
        alike.setdefault(scores, []).append(place)
    merit = merit.copy()
    for places in alike.values():
        merit[places] = merit[places].mean()
    return merit


def _best_first(
    answer: list[int], prompts: list[PromptResult], state: State
) -> list[int]:
    """The answer, feasible ones first, ordered by the first column of the goal's values, then by chance."""
    if not answer:
        return answer
    goal = state.problem.goal
    answer = [answer[i] for i in counters.chance_order(state.problem.seed, answer)]
    means = np.array(
        [list(prompts[arm].estimate.values()) for arm in answer], dtype=np.float64
    )
    merit = _of_equals(goal.values(means, goal.offsets)[:, 0], answer, state)
    misses = np.array([prompts[arm].feasible is False for arm in answer])
    return [answer[i] for i in np.lexsort((-merit, misses))]


def _by_segment(
    names: Sequence[str], metrics: Sequence[str], means: Draws, errors: Draws
) -> list[dict[str, Any]]:
    """(K, c, G) means and errors by prompt, segment and metric. An error of NaN becomes None."""
    by_arm = []
    for rows in np.stack((means, errors), axis=3).transpose(0, 2, 1, 3).tolist():
        by_metric = (
            [(mean, None if error != error else error) for mean, error in row]
            for row in rows
        )
        by_arm.append(
            {
                name: dict(zip(metrics, row, strict=True))
                for name, row in zip(names, by_metric, strict=True)
            }
        )
    return by_arm
