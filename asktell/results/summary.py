"""From a state to a result."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from asktell._util.terminal import safe
from asktell._util.threads import one_thread
from asktell.methods import Adaptive, Elimination, Method, Race
from asktell.methods.belief import has_drifted, stated
from asktell.methods.ordered import joined_at
from asktell.numerics import counters
from asktell.numerics.arrays import Draws, Means
from asktell.posterior.basis import levels_of
from asktell.posterior.statement import Statement
from asktell.problem.candidates import AnyPrompt, Prompts
from asktell.problem.goals import BestFeasible, ParetoSet
from asktell.results.checks import ORDER, Check, checks, warnings
from asktell.results.comparison import Comparison, Pairs, compare_two
from asktell.results.entries import PromptResult, grouped, quoted
from asktell.results.examples import example_results
from asktell.results.result import Levels, Result
from asktell.results.verdict import Chances, chances, judge
from asktell.state import ACCEPTED, ACTIVE, REJECTED, Problem, State


def limits_of(state: State) -> list[tuple[float, float] | None]:
    """The limits of every metric's scores: those of its range, else 0 and 1 if all are one of these, else None."""
    scores, goal = state.history.scores(), state.problem.goal
    binary = [
        bool(len(column)) and bool(np.isin(column, (0.0, 1.0)).all())
        for column in scores.T
    ]
    return [
        goal.limits(name) or ((0.0, 1.0) if is_ else None)
        for name, is_ in zip(goal.columns, binary, strict=True)
    ]


# Of prompts that dominate and are dominated; str() of a result has them all
_PAIRS_SHOWN = 2
_ROUNDING = 1e-12  # of a mean: what is less is no error of sampling
_WITH_FEATURES = "Only lcsh, gege, mlp-csr and mlp-ege do."
_FEW = 4  # scores whose span says how far apart scores are


@one_thread
def summarize(state: State, method: Method, named: Prompts) -> Result:
    """The result: the recorded answer if finished, otherwise the best answer so far."""
    answer = (
        list(state.decisions[-1][1].answer) if state.finished else method.answer(state)
    )
    found = stated(state)
    likely = None if found is None or state.doubts else chances(state, found)
    prompts = _prompt_results(state, method, named, found, likely)
    answer = _best_first(answer, prompts, state)
    selected = [prompts[arm] for arm in answer]
    feasible = [entry.feasible for entry in selected]
    is_best = isinstance(state.problem.goal, BestFeasible)
    tolerance = method.tolerance if is_best else 0.0
    verdict = judge(state, found, likely, answer, named.ids, tolerance)
    if state.doubts and answer:
        verdict = replace(
            verdict, sentence=f"Do not rely on these scores. {' '.join(state.doubts)}"
        )
    of_failures = "".join(_of_failures(state, answer))
    found_checks = checks(state, of_failures)
    result = Result(
        goal=state.problem.goal,
        selected=selected,
        prompts=prompts,
        verdict=verdict,
        spent=state.spent,
        budget=state.problem.budget,
        spent_cost=state.cost,
        max_cost=state.problem.max_cost,
        notes=_notes(state, method, selected, found_checks, of_failures),
        checks=found_checks,
        done=state.finished,
        feasible=None if not feasible or None in feasible else all(feasible),
        n_examples=state.problem.population,
        repeats=state.problem.repeats,
        inputs=state.problem.inputs,
        stopped_early=state.finished
        and state.decisions[-1][1].settled
        and not state.doubts,
        finished_early=_finished_early(state),
        baseline=None
        if state.problem.baseline is None
        else named.ids[state.problem.baseline],
        example_ids=None
        if state.problem.examples is None
        else state.problem.examples.ids,
        failures=grouped(
            (named.ids[failure.arm], failure.reason) for failure in state.failures
        ),
        _factors=_factors(state.problem, found),
        _comparer=_pairs(state, found),
        _analyzed=partial(example_results, state),
    )
    return replace(result, notes=(*result.notes, *_of_dominated(result.dominated)))


def _factors(problem: Problem, found: Statement | None) -> dict[str, Levels]:
    """For each factor and level, the mean of the candidates of that level in each metric, and its error."""
    candidates, means = problem.candidates, dict[str, Levels]()
    if candidates is None or found is None or not levels_of(candidates):
        return means
    for factor, column in zip(
        candidates.factors, zip(*candidates.levels, strict=True), strict=True
    ):
        levels = list(candidates.factors[factor])
        has: Means = np.array(
            [[level == own for own in column] for level in levels], dtype=np.float64
        )
        by_metric = [
            fit.averages(has / has.sum(axis=1, keepdims=True)) for fit in found.fits
        ]
        known = np.atleast_1d((~np.isnan(found.errors)).any(axis=0))
        means[factor] = {
            level: {
                name: (float(mean[i]), float(error[i]) if known[j] else None)
                for j, (name, (mean, error)) in enumerate(
                    zip(problem.goal.columns, by_metric, strict=True)
                )
            }
            for i, level in enumerate(levels)
        }
    return means


def compare(
    state: State,
    method: Method,
    named: Prompts,
    a: AnyPrompt,
    b: AnyPrompt | None,
    confidence: float,
    tolerance: float,
) -> Comparison:
    """`Result.compare`, without the rest of the result unless b is to be the answer."""
    baseline = state.problem.baseline
    if b is None and baseline is None:
        return summarize(state, method, named).compare(a, None, confidence, tolerance)
    return compare_two(
        _pairs(state, stated(state)), named, a, b, baseline, confidence, tolerance
    )


def _pairs(state: State, found: Statement | None) -> Pairs:
    out = (*state.pending.values(), *state.returned)
    late = (
        range(state.problem.n_arms)
        if ORDER in state.remarks
        else np.flatnonzero(joined_at(state)).tolist()
    )
    return Pairs(
        state.problem, state.seen, state.history, state.missing, out, found, bool(state.doubts), late,
        partial(has_drifted, state),
    )  # fmt: skip


def _notes(
    state: State,
    method: Method,
    selected: list[PromptResult],
    found: tuple[Check, ...],
    failures: str,
) -> tuple[str, ...]:
    notes = [
        *_of_method(state, method),
        *(remark.text for _, remark in sorted(state.remarks.items())),
    ]
    if (
        state.finished
        and not state.doubts
        and (isinstance(method, Race) or state.decisions[-1][1].settled)
    ):
        notes.append(_certainty(state, method, found))
    said = {*state.doubts, " ".join(state.doubts), failures}
    notes += (warning for warning in warnings(found) if warning not in said)
    scores = state.history.scores()
    if len(np.unique(state.history.arms())) > 1 and (scores == scores[0]).all():
        notes.append("All scores are the same so far.")
    feasible = [entry for entry in selected if entry.feasible is not False]
    if (
        isinstance(state.problem.goal, ParetoSet)
        and feasible
        and len(feasible) < len(selected)
    ):
        notes.append(
            f"{len(selected) - len(feasible)} of the selected prompts probably violate a constraint. They are selected "
            "because this is uncertain."
        )
    return (*notes, *([failures] if failures else []))


def _of_method(state: State, method: Method) -> Iterator[str]:
    features = state.problem.features
    if features is None:
        return
    if not isinstance(method, Elimination):
        yield f"The features were not used, because {type(method).__name__} does not use features. {_WITH_FEATURES}"
        return
    parts = method.allocator, method.estimator
    if not any(part.needs_features for part in parts):
        names = " and ".join(type(part).__name__ for part in parts)
        yield f"The features were not used, because {names} do not use features. {_WITH_FEATURES}"
    yield from method.estimator.remarks(features, state.told > 0)


def _certainty(state: State, method: Method, found: tuple[Check, ...]) -> str:
    """How sure the recorded selection is."""
    if not state.decisions[-1][1].settled:
        return "The budget was spent before the requested confidence was reached."
    if not isinstance(method, Race | Adaptive):
        return f"{type(method).__name__} ended the run before the budget was spent."
    by_name: dict[str, Check] = {check.name: check for check in found}
    within = f" within {method.tolerance:g}" if method.tolerance else ""
    # A run that stopped early has a confidence
    percent = f"{100 * (method.confidence or 0.0):g}%"
    has_changed = by_name["drift"].ok is False
    if has_changed or (by_name["noise"].ok is False and state.problem.exact):
        why = (
            "the model seems to have changed"
            if has_changed
            else "repeated evaluations differ"
        )
        return f"The run stopped at {percent} confidence, but {why}. This confidence does not hold."
    if isinstance(method, Adaptive) and method.confidence_kind == "posterior":
        sure = f"The selection is correct{within} with {percent} probability, according to the model."
        return f"{sure} This is an estimate and not a guarantee."
    open_ = [name for name in _PREMISES if by_name[name].ok is not True]
    sure = f"The selection is correct{within} with {percent} confidence."
    if not open_:
        return sure
    checks_ = "the check" if len(open_) == 1 else "the checks"
    return f"{sure} This is not guaranteed. See {checks_} {' and '.join(map(quoted, open_))}."


_PREMISES = ("range", "order", "failures")  # of a proof, besides drift


def _of_failures(state: State, answer: list[int]) -> Iterator[str]:
    if not state.failures:
        return
    said = f"{len(state.failures)} of {state.spent + len(state.missing)} evaluations failed"
    if answer:
        of_answer = sum(state.failures.count(arm) for arm in answer)
        n_asked = sum(
            state.history.n_asked(arm) + state.missing.count(arm) for arm in answer
        )
        of_whom = "the selected prompt" if len(answer) == 1 else "the selected prompts"
        said += f", including {of_answer} of {n_asked} for {of_whom}"
    as_what = (
        "left out of the other estimates"
        if state.problem.goal.counts_failures
        else "left out of the estimates"
    )
    if isinstance(scores := state.problem.on_failure, dict):
        as_what = "counted as " + ", ".join(
            f"{safe(metric)} {score:g}" for metric, score in scores.items()
        )
    yield f"{said}. Failures are {as_what}."


def _of_dominated(by: Mapping[str | int, str | int]) -> Iterator[str]:
    if by:
        shown = list(by.items())[:_PAIRS_SHOWN]
        some = ", ".join(f"{quoted(one)} by {quoted(other)}" for one, other in shown)
        more = ", ..." if len(by) > _PAIRS_SHOWN else ""
        are = "is dominated by another" if len(by) == 1 else "are dominated by others"
        said = f"Based on the estimates, {len(by)} of the selected prompts {are} ({some}{more})"
        yield f"{said}, but this is uncertain."


def _prompt_results(
    state: State,
    method: Method,
    named: Prompts,
    found: Statement | None,
    likely: Chances | None,
) -> list[PromptResult]:
    """An entry for each prompt, with the posterior's estimates whatever the method is."""
    problem, metrics = state.problem, state.problem.goal.columns
    n_arms, tally = problem.n_arms, state.current_tally()
    means = errors = np.full((n_arms, len(metrics)), np.nan)
    if found is not None:
        means, errors = _within_range(state, found.means.copy(), found.errors.copy())
        errors = np.where(errors < _ROUNDING * np.abs(means), 0.0, errors)
    p_best: Sequence[float | None] = [None] * n_arms
    p_feasible: Sequence[float | None] = [None] * n_arms
    feasible: Sequence[bool | None] = [None] * n_arms
    if likely is not None:
        p_best = likely.p_best.tolist()
        if likely.p_feasible is not None and likely.taken is not None:
            p_feasible, feasible = likely.p_feasible.tolist(), likely.taken.tolist()
    evaluations = state.told if problem.repeats > 1 else tally.counts
    estimated, deviations = (_by_metric(metrics, rows) for rows in (means, errors))
    segments: Sequence[Mapping[str, Any]] = [{}] * problem.n_arms
    if (
        problem.segments is not None
        and found is not None
        and found.in_segments is not None
    ):
        lows, highs = np.array(
            [limits or (-np.inf, np.inf) for limits in limits_of(state)]
        ).T
        in_segments = np.clip(found.in_segments[0], lows[:, None], highs[:, None])
        segments = _by_segment(
            problem.segments.names, metrics, in_segments, found.in_segments[1]
        )
    entries = []
    for arm, text in enumerate(named.texts):
        round_, departure = state.left.get(arm) or (None, None)
        entries.append(
            PromptResult(
                id=named.ids[arm],
                prompt=text,
                estimate=estimated[arm],
                standard_error=deviations[arm],
                evaluations=int(evaluations[arm]),
                status=ACTIVE if departure is None else departure.status,
                round=round_,
                reason=None if departure is None else departure.reason,
                feasible=feasible[arm],
                failures=state.failures.count(arm),
                p_feasible=p_feasible[arm],
                p_best=p_best[arm],
                segments=segments[arm],
                candidate=None if named.candidates is None else named.candidates[arm],
            )
        )
    return entries


def _within_range(state: State, means: Means, errors: Means) -> tuple[Means, Means]:
    """Models know no range: no estimate leaves it, and no error is larger than half of it.

    Where there is none, no error is larger than what a few scores span: 1.96 of them
    are then twice as far off as any two scores were.
    """
    scores = state.history.scores()
    spans = (
        np.ptp(scores, axis=0)
        if len(scores) >= _FEW
        else np.zeros(len(state.problem.goal.columns))
    )
    for j, limits in enumerate(limits_of(state)):
        if limits is not None:
            means[:, j] = np.clip(means[:, j], *limits)
            errors[:, j] = np.minimum(errors[:, j], (limits[1] - limits[0]) / 2.0)
        elif spans[j] > 0.0:
            errors[:, j] = np.minimum(errors[:, j], spans[j])
    return means, errors


def _finished_early(state: State) -> bool:
    """True if budget was left over because every prompt in the last round had no evaluation left."""
    most, rounds = (
        state.problem.most_pulls,
        {
            arm: r
            for arm, (r, d) in state.left.items()
            if d.status in (ACCEPTED, REJECTED)
        },
    )
    if (
        not state.finished
        or state.decisions[-1][1].settled
        or most is None
        or not rounds
    ):
        return False
    latest = max(rounds.values())
    last = [arm for arm, round_ in rounds.items() if round_ == latest]
    return state.spent < state.problem.budget and bool(
        (state.used_pulls()[last] >= most).all()
    )


def _best_first(
    answer: list[int], prompts: list[PromptResult], state: State
) -> list[int]:
    """The answer, feasible ones first, ordered by the first column of the goal's values, then by chance."""
    if not answer:
        return answer
    answer = [answer[i] for i in counters.chance_order(state.problem.seed, answer)]
    means = np.array(
        [
            [np.nan if x is None else x for x in prompts[arm].estimate.values()]
            for arm in answer
        ]
    )
    misses, goal = (
        np.array([prompts[arm].feasible is False for arm in answer]),
        state.problem.goal,
    )
    return [
        answer[i] for i in np.lexsort((-goal.values(means, goal.offsets)[:, 0], misses))
    ]


def _by_segment(
    names: Sequence[str], metrics: Sequence[str], means: Draws, errors: Draws
) -> list[dict[str, Any]]:
    """(K, c, G) means and errors by prompt, segment and metric; None for an error of NaN."""
    found = []
    for rows in np.stack((means, errors), axis=3).transpose(0, 2, 1, 3).tolist():
        by_metric = (
            [(mean, None if error != error else error) for mean, error in row]
            for row in rows
        )
        found.append(
            {
                name: dict(zip(metrics, row, strict=True))
                for name, row in zip(names, by_metric, strict=True)
            }
        )
    return found


def _by_metric(metrics: Sequence[str], rows: Means) -> list[dict[str, float | None]]:
    columns = [[None if x != x else x for x in column] for column in rows.T.tolist()]
    return [dict(zip(metrics, row, strict=True)) for row in zip(*columns, strict=True)]
